package wire_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/shape"
	"github.com/loom-run/loom/wire/wiretest"
)

// sample is one fixed value of a type: with everything in it, or with as little as it
// may have. Only strict words and fields are used.
func sample(d *shape.Desc, full bool) jsonv.Value {
	switch d.Kind {
	case shape.KindObject:
		if d.Name == "Frame" {
			return sampleFrame(wire.KindTextEnd, full)
		}
		return agreeing(d, sampleFields(d, full), full)
	case shape.KindArray:
		if !full {
			return jsonv.Arr()
		}
		return jsonv.Arr(sample(d.Elem, true))
	case shape.KindText:
		return jsonv.Str(sampleText(d, full))
	case shape.KindFlag:
		return jsonv.Boolean(full)
	case shape.KindCount:
		if full {
			return jsonv.Num(d.Min + 7)
		}
		return jsonv.Num(d.Min)
	case shape.KindStated:
		if full {
			return sample(d.Elem, true)
		}
		return jsonv.Str("none")
	case shape.KindSum:
		v := d.Variants[0]
		if full {
			v = d.Variants[len(d.Variants)-1]
		}
		return jsonv.Obj(slices.Concat([]jsonv.Member{jsonv.F(d.Tag, jsonv.Str(v.Tag))}, fields(sampleFields(v.Desc, full)))...)
	case shape.KindAny:
	}
	if !full {
		return jsonv.Obj()
	}
	return jsonv.Obj(jsonv.F("path", jsonv.Str("a")), jsonv.F("n", jsonv.Num(1)))
}

func sampleFields(d *shape.Desc, full bool) jsonv.Value {
	var list []jsonv.Member
	for _, f := range d.Fields {
		if full || !f.Optional {
			list = append(list, jsonv.F(f.Name, sample(f.Desc, full)))
		}
	}
	return jsonv.Obj(list...)
}

func sampleText(d *shape.Desc, full bool) string {
	switch {
	case d.Words != nil && full:
		return d.Words[len(d.Words)-1]
	case d.Words != nil:
		return d.Words[0]
	case d.Format == "generation:seq:ordinal":
		return "1:7:2"
	case d.Format != "":
		return wiretest.Entry(3).String()
	case full:
		return "text"
	case d.Min > 0:
		return "x"
	}
	return ""
}

// agreeing repairs what a type checks between its fields.
func agreeing(d *shape.Desc, v jsonv.Value, full bool) jsonv.Value {
	drop := func(names ...string) {
		v = jsonv.Obj(slices.DeleteFunc(fields(v), func(m jsonv.Member) bool { return slices.Contains(names, m.Name) })...)
	}
	switch d.Go {
	case reflect.TypeFor[wire.Roster]():
		if full {
			v = v.With("count", jsonv.Num(1))
		}
	case reflect.TypeFor[wire.Decide](): // the last word is deny
		drop("input", "lifetime")
	case reflect.TypeFor[wire.DecidePlan](): // the last word is reject
		drop("plan")
	}
	return v
}

func sampleFrame(k wire.Kind, full bool) jsonv.Value {
	v := sampleFields(shape.Of[wire.Frame](), full)
	for _, d := range []wire.Delivery{wire.Replay, wire.Level, wire.Live} {
		if k.Delivers(d) {
			v = v.With("delivery", jsonv.Str(string(d)))
		}
	}
	if k.Delivers(wire.Replay) && !k.Delivers(wire.Live) {
		v = v.With("cursor", jsonv.Str("1:7:2"))
	} else {
		v = jsonv.Obj(slices.DeleteFunc(fields(v), func(m jsonv.Member) bool { return m.Name == "cursor" })...)
	}
	return v.With("kind", jsonv.Str(string(k))).With("body", sample(shape.OfType(k.Body()), full))
}

// TestGolden pins the bytes of each type, with everything in it and with nothing that
// may be left out.
func TestGolden(t *testing.T) {
	var frames, others strings.Builder
	for _, full := range []bool{true, false} {
		for _, k := range wire.Kinds() {
			sent := sampleFrame(k, full)
			f, err := wire.DecodeFrame(sent.Append(nil))
			if err != nil {
				t.Fatalf("%s: %v\n%s", k, err, sent)
			}
			if b, broken := f.Body.(wire.Broken); broken {
				t.Fatalf("%s: %v\n%s", k, b.Report, sent)
			}
			text := f.Append(nil)
			if full && !sameFields(t, sent.Append(nil), text) {
				t.Errorf("%s loses something:\n%s\n%s", k, sent, text)
			}
			frames.Write(append(text, '\n'))
		}
		for _, m := range messages() {
			sent := sample(m.desc, full)
			v, err := m.decode(sent.Append(nil))
			if err != nil {
				t.Fatalf("%s: %v\n%s", m.name, err, sent)
			}
			text := m.encode(v)
			if full && !sameFields(t, sent.Append(nil), text) {
				t.Errorf("%s loses something:\n%s\n%s", m.name, sent, text)
			}
			fmt.Fprintf(&others, "%s %s\n", m.name, text)
		}
	}
	generated(t, filepath.Join("testdata", "golden", "frames.jsonl"), []byte(frames.String()))
	generated(t, filepath.Join("testdata", "golden", "messages.txt"), []byte(others.String()))
}

// sameFields compares two texts as values.
func sameFields(t *testing.T, a, b []byte) bool {
	t.Helper()
	x, err := jsonv.Parse(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := jsonv.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return x.Equal(y)
}

// recorded are the digests of the files of each set. A line is added with a new set,
// and none is changed: a set that was made again shows what this build sends and not
// what an older one sent.
var recorded = map[string]string{
	"gen-1/run.jsonl":   "92a6b633f2ec35d759ee8e484f5a7167669fcc317b814b0698e76a5b23b3aebb",
	"gen-1/types.jsonl": "368debc47507a7a121bdd41621a91d0779b6f6d9ef6e446407c1827919051c02",
}

func TestRecordedFramesAreNeverRewritten(t *testing.T) {
	found := 0
	for _, set := range frameSets(t) {
		files, err := os.ReadDir(set)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name := filepath.Base(set) + "/" + file.Name()
			text, err := os.ReadFile(filepath.Join(set, file.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%x", sha256.Sum256(text)); got != recorded[name] {
				t.Errorf("%s is not as it was recorded: its digest is %s", name, got)
			}
			found++
		}
	}
	if found != len(recorded) {
		t.Errorf("%d files were recorded, and %d are here", len(recorded), found)
	}
}

// frameSets are the recorded sets, by generation. A set is never rewritten: a build
// that cannot read one any more raises the floor instead.
func frameSets(t *testing.T) []string {
	t.Helper()
	sets, err := filepath.Glob(filepath.Join("testdata", "gen-*"))
	if err != nil {
		t.Fatal(err)
	}
	return sets
}

func TestRecordedFramesOfEveryGenerationAreRead(t *testing.T) {
	sets := frameSets(t)
	if !slices.Contains(sets, filepath.Join("testdata", fmt.Sprintf("gen-%d", wire.SupportFloor.FrameSet))) {
		t.Fatalf("the floor is the set %d, and there are %q", wire.SupportFloor.FrameSet, sets)
	}
	for _, set := range sets {
		seen := map[wire.Kind]bool{}
		files, err := filepath.Glob(filepath.Join(set, "*.jsonl"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s holds no frames: %v", set, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for n, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
				f, err := wire.DecodeFrame(line)
				if err != nil {
					t.Errorf("%s:%d: %v", file, n+1, err)
					continue
				}
				switch b := f.Body.(type) {
				case wire.Unknown:
					t.Errorf("%s:%d: the kind %s is not known any more", file, n+1, b.Word)
				case wire.Broken:
					t.Errorf("%s:%d: %v", file, n+1, b.Report)
				default:
					seen[f.Kind()] = true
				}
				// What is read is all that was sent: a field that this build passes over, or
				// a stated fact that it cannot read any more, is lost to who kept the frame.
				if !sameFields(t, line, f.Append(nil)) {
					t.Errorf("%s:%d: something of the frame is lost:\n%s\n%s", file, n+1, line, f.Append(nil))
				}
				if name := unreadable(reflect.ValueOf(f.Body)); name != "" {
					t.Errorf("%s:%d: the fact %s cannot be read any more", file, n+1, name)
				}
				if f.Session.IsZero() || !f.Lane.Known() {
					t.Errorf("%s:%d: whose frame is it?", file, n+1)
				}
			}
		}
		if len(seen) < 40 {
			t.Errorf("%s has frames of %d kinds only", set, len(seen))
		}
	}
}

// unreadable names a stated fact of a body that cannot be read.
func unreadable(v reflect.Value) string {
	if v.Kind() != reflect.Struct {
		return ""
	}
	for i := range v.NumField() {
		if s, ok := v.Field(i).Interface().(interface{ State() wire.StatedState }); ok && s.State() == wire.Unreadable {
			return v.Type().Field(i).Name
		}
	}
	return ""
}
