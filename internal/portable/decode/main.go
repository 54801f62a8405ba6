// Command decode gives files to every decoder of core and prints what each makes of
// them, so that two builds can be compared.
//
// # Purpose
//
// scripts/equivalence builds it from this tree and from an earlier revision and
// compares their lines: results and reports that differ are a change of a format.
//
// # Key types
//
// None.
//
// # Relationships
//
// Imports the decoders of core.
//
// # Traffic
//
// Reads the files named by its arguments. A line for each file and decoder on standard
// output: the digest of what was read, encoded again, or the report. With -time instead
// a line for each decoder: its name and nanoseconds for each byte.
//
// # Invariants
//
// Two builds with the same formats print the same lines.
package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/loom-run/loom/core/accounting"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/msgpack"
	"github.com/loom-run/loom/core/usage"
)

// decoder reads bytes and writes them again.
type decoder struct {
	name string
	read func([]byte) ([]byte, error)
}

var decoders = []decoder{
	{"jsonv.Parse", func(b []byte) ([]byte, error) {
		v, err := jsonv.Parse(b)
		return v.Append(nil), err
	}},
	{"entry.Parse", func(b []byte) ([]byte, error) {
		e, err := entry.Parse(b)
		if err != nil {
			return nil, err
		}
		return entry.Encode(e), nil
	}},
	{"entry.DecodeUsageRow", through(entry.DecodeUsageRow, entry.AppendUsageRow)},
	{"message.Decode", through(message.Decode, message.Append)},
	{"usage.Decode", through(usage.Decode, usage.Append)},
	{"accounting.DecodeRow", func(b []byte) ([]byte, error) {
		v, err := jsonv.Parse(b)
		if err != nil {
			return nil, err
		}
		row, err := entry.DecodeUsageRow(v)
		if err != nil {
			return nil, err
		}
		r, err := accounting.DecodeRow(row)
		return r.Details().Append(nil), err
	}},
	{"msgpack.Decode", func(b []byte) ([]byte, error) { return repacked(b, msgpack.Lenient) }},
	{"msgpack.DecodeStrict", func(b []byte) ([]byte, error) { return repacked(b, msgpack.Strict) }},
}

// through reads a JSON value, then decodes and encodes it.
func through[T any](decode func(jsonv.Value) (T, error), encode func(*jsonv.Writer, T)) func([]byte) ([]byte, error) {
	return func(b []byte) ([]byte, error) {
		v, err := jsonv.Parse(b)
		if err != nil {
			return nil, err
		}
		t, err := decode(v)
		if err != nil {
			return nil, err
		}
		var w jsonv.Writer
		encode(&w, t)
		return w.Bytes(), nil
	}
}

func repacked(b []byte, mode msgpack.Mode) ([]byte, error) {
	v, err := msgpack.Decode(b, mode)
	if err != nil {
		return nil, err
	}
	return v.Append(nil)
}

func main() {
	timed := flag.Bool("time", false, "print nanoseconds for each byte instead")
	flag.Parse()
	if err := run(flag.Args(), *timed); err != nil {
		fmt.Fprintln(os.Stderr, "decode:", err)
		os.Exit(1)
	}
}

func run(names []string, timed bool) error {
	var spent [64]time.Duration
	var size int
	for _, name := range names {
		whole, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		size += len(whole)
		inputs := [][]byte{whole}
		if filepath.Ext(name) == ".jsonl" {
			inputs = bytes.Split(bytes.TrimSuffix(whole, []byte("\n")), []byte("\n"))
		}
		for line, input := range inputs {
			for i, d := range decoders {
				start := time.Now()
				out, err := d.read(input)
				spent[i] += time.Since(start)
				if timed {
					continue
				}
				result := fmt.Sprintf("%x", sha256.Sum256(out))
				if err != nil {
					result = err.Error()
				}
				fmt.Printf("%s:%d %s %s\n", filepath.Base(name), line+1, d.name, result)
			}
		}
	}
	for i, d := range decoders {
		if timed && size > 0 {
			fmt.Printf("%-22s %.2f\n", d.name, float64(spent[i].Nanoseconds())/float64(size))
		}
	}
	return nil
}
