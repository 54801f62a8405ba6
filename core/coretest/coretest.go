// Package coretest generates the vocabulary of core for property tests.
//
// # Purpose
//
// A codec is right when it holds for every value, not for the three that its author thought of. The generators here reach every constructor of every
// durable type, and lean towards what breaks codecs: quotes and controls, runes at the edges of their encodings, numbers past 64 bits, absent beside
// null beside empty.
//
// # Key types
//
// None of its own: a function named after a type returns a rapid generator of it. [Transcript] makes a conversation of a wanted size from a seed, for
// benchmarks. [Diff] and [Golden] are how a test compares.
//
// # Relationships
//
// Imports core/clock, core/entry, core/id, core/jsonv, core/message, core/usage, and the modules rapid and go-cmp. Only tests import it.
//
// # Traffic
//
// [Golden] reads a file under testdata, and writes it when told to update.
//
// # Invariants
//
// What is generated is storable: it encodes to a text that decodes to the same value. Values that no decoder accepts (a response without a stop
// reason, an absent id where one is demanded) are the business of the tests that expect a refusal.
package coretest

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/usage"
	"pgregory.net/rapid"
)

// same compares private fields too. An absent amount and 0.0 are one value, as an empty and a nil list are: both have one text.
var same = cmp.Options{
	cmp.Exporter(func(reflect.Type) bool { return true }),
	cmp.Comparer(func(a, b usage.Amount) bool { return a.Literal() == b.Literal() }),
	cmpopts.EquateEmpty(),
}

// Diff says how two values of core differ, "" when they do not.
func Diff(want, got any) string { return cmp.Diff(want, got, same) }

// Golden compares got with testdata/name, or writes it there when update is set.
func Golden(t testing.TB, name string, got []byte, update bool) {
	t.Helper()
	file := filepath.Join("testdata", filepath.FromSlash(name))
	if update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (-update writes it)", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is no longer what is written:\n got %s\nwant %s", file, got, want)
	}
}

// minter makes a generator of ids for any time and seed.
func minter(t *rapid.T) id.Generator {
	ms := rapid.OneOf(rapid.SampledFrom([]int64{0, 1, 1<<48 - 1}), rapid.Int64Range(0, 1<<48-1)).Draw(t, "ms")
	return id.NewGenerator(clock.Fixed(ms), rapid.Uint64().Draw(t, "seed"))
}

// EntryID generates present ids.
func EntryID() *rapid.Generator[id.EntryID] {
	return rapid.Custom(func(t *rapid.T) id.EntryID {
		i, _ := minter(t).Entry()
		return i
	})
}

// MaybeEntryID generates ids that may be absent.
func MaybeEntryID() *rapid.Generator[id.EntryID] {
	return rapid.OneOf(rapid.Just(id.EntryID{}), EntryID())
}

// UsageID generates present ids.
func UsageID() *rapid.Generator[id.UsageID] {
	return rapid.Custom(func(t *rapid.T) id.UsageID {
		i, _ := minter(t).Usage()
		return i
	})
}

// OpID generates present ids.
func OpID() *rapid.Generator[id.OpID] {
	return rapid.Custom(func(t *rapid.T) id.OpID {
		i, _ := minter(t).Op()
		return i
	})
}

// SessionID generates present ids.
func SessionID() *rapid.Generator[id.SessionID] {
	return rapid.Custom(func(t *rapid.T) id.SessionID {
		i, _ := minter(t).Session()
		return i
	})
}

// maybe generates a pointer that may be nil.
func maybe[T any](g *rapid.Generator[T]) *rapid.Generator[*T] { return rapid.Ptr(g, true) }
