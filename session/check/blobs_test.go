package check_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/memory"
)

// spilled is a session with a result for each list of references.
func spilled(t *testing.T, details ...jsonv.Value) *memory.Store {
	t.Helper()
	s := memory.New(func() int64 { return 1 })
	ids := id.NewGenerator(clock.Fixed(1), 1)
	for _, d := range details {
		var i id.EntryID
		i, ids = ids.Entry()
		e := entry.Entry{ID: i, Body: entry.Message{Message: &message.ToolResult{ToolCallID: "c", ToolName: "bash", Details: &d}}}
		if _, err := s.Commit(tx.Tx{Writes: []tx.Write{tx.InsertEntry{Entry: e}}}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func refers(refs ...blob.Ref) jsonv.Value {
	list := make([]jsonv.Value, len(refs))
	for i, r := range refs {
		list[i] = r.Value()
	}
	return jsonv.Obj(jsonv.F(blob.DetailsKey, jsonv.Arr(list...)))
}

func TestEveryOutputIsKeptAndReferredTo(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(t *testing.T, file string)
		live bool
		want []storage.Invariant
	}{
		"whole":                          {},
		"changed":                        {harm: func(t *testing.T, file string) { write(t, file, "other text") }, want: []storage.Invariant{check.BlobKept}},
		"cut, and so another one":        {harm: func(t *testing.T, file string) { write(t, file, "a") }, want: []storage.Invariant{check.BlobKept, check.BlobReferenced}},
		"gone":                           {harm: remove, want: []storage.Invariant{check.BlobKept}},
		"one too many":                   {harm: stray, want: []storage.Invariant{check.BlobReferenced}},
		"one too many, while it is open": {harm: stray, live: true},
		"files of other names":           {harm: func(t *testing.T, file string) { write(t, filepath.Join(filepath.Dir(file), "README"), "x") }},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "blobs")
			kept := blob.Open(dir)
			first, err := kept.PutBytes([]byte("some text "))
			if err != nil {
				t.Fatal(err)
			}
			second, err := kept.PutBytes([]byte("more"))
			if err != nil {
				t.Fatal(err)
			}
			if c.harm != nil {
				c.harm(t, filepath.Join(dir, first.SHA256))
			}
			findings, err := check.Blobs(spilled(t, refers(second), jsonv.Obj(), refers(first, second)), kept, c.live)
			if err != nil {
				t.Fatal(err)
			}
			var got []storage.Invariant
			for _, f := range findings {
				got = append(got, f.Invariant)
			}
			if len(got) != len(c.want) {
				t.Fatalf("%v, want %v", findings, c.want)
			}
			for i := range got {
				if got[i] != c.want[i] || check.Harmless(got[i]) != (got[i] == check.BlobReferenced) {
					t.Errorf("%v, want %v", findings, c.want)
				}
			}
		})
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

func stray(t *testing.T, file string) {
	t.Helper()
	if _, err := blob.Open(filepath.Dir(file)).PutBytes([]byte("nobody asks for me")); err != nil {
		t.Fatal(err)
	}
}

func TestReferencesThatCannotBeReadAreFound(t *testing.T) {
	findings, err := check.Blobs(spilled(t, jsonv.Obj(jsonv.F(blob.DetailsKey, jsonv.Num(1)))), blob.Open(t.TempDir()), false)
	if err != nil || len(findings) != 1 || findings[0].Invariant != check.BlobKept {
		t.Errorf("%v, %v", findings, err)
	}
}
