package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// refusedCut fails unless every way to the session refuses it and changes nothing.
func refusedCut(t *testing.T, cfg Config, what string) {
	t.Helper()
	before := folder(t, cfg.Path)
	cfg.Owner = "second"
	for verb, open := range map[string]func() error{
		"open":  func() error { s, err := Open(cfg); return closeIf(s != nil, s, err) },
		"read":  func() error { r, err := OpenReader(cfg.Path); return closeIf(r != nil, r, err) },
		"peek":  func() error { _, err := Peek(cfg.Path); return err },
		"check": func() error { _, err := Check(cfg.Path); return err },
	} {
		err := open()
		if err == nil {
			t.Errorf("%s: %s succeeds", what, verb)
			continue
		}
		if failed := asType[*storage.OpenFailed](t, err); !strings.Contains(failed.Reason, "damaged") {
			t.Errorf("%s: %s says %v", what, verb, err)
		}
	}
	if after := folder(t, cfg.Path); dropIndex(after) != dropIndex(before) {
		t.Errorf("%s: refusing changed\n%s to\n%s", what, before, after)
	}
}

func closeIf(opened bool, c interface{ Close() error }, err error) error {
	if opened {
		_ = c.Close()
	}
	return err
}

func TestACutFileIsRefusedWhereverItIsCut(t *testing.T) {
	cfg, _ := newConfig(t)
	s := mustOpen(t, cfg)
	chain(t, s, newMinter(1), id.EntryID{}, 30)
	mustClose(t, s)
	content, err := os.ReadFile(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	for _, size := range []int{
		len(content) - 1, len(content) - 100, len(content) - page/2, len(content) - page + 1, // within the last page
		len(content) - page, len(content) - page - 1, 2 * page, page + 1, page, page - 1, sqlitedb.SmallestDatabase,
	} {
		writeFile(t, cfg.Path, string(content[:size]))
		refusedCut(t, cfg, fmt.Sprintf("%d of %d bytes", size, len(content)))
	}
	writeFile(t, cfg.Path, string(content))
	sound(t, cfg.Path)
}

// A writer that dies leaves a file that is shorter than the session, and is whole.
func TestAFileMayEndWhereTheLogGoesOn(t *testing.T) {
	cfg, _ := newConfig(t)
	s := mustOpen(t, cfg)
	m := newMinter(1)
	leaf := chain(t, s, m, id.EntryID{}, 30)[29]
	mustClose(t, s)
	s = mustOpen(t, cfg)
	placed := chain(t, s, m, leaf, 60)
	left := crashed(t, s)
	crash := cfg
	crash.Path, crash.Create = left, false
	content, err := os.ReadFile(left)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(left + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	sound(t, cfg.Path) // beside the live writer, too
	sound(t, left)

	// A checkpoint that was cut off: the first page of the log is in the file, and a
	// part of the one at its end.
	logged, err := committedPages(bytes.NewReader(log), 4096)
	if err != nil || len(logged) == 0 || !logged[int64(len(content)/4096)+1] {
		t.Fatalf("the log does not go on where the file of %d bytes ends: %v, %v", len(content), logged, err)
	}
	writeFile(t, left, string(content)+strings.Repeat("\x00", 100))
	sound(t, left)

	// Pages that neither has.
	absent := int64(len(content) / 4096)
	for logged[absent] {
		absent--
	}
	writeFile(t, left, string(content[:(absent-1)*4096+77]))
	refusedCut(t, crash, "a page that is not in the log")

	// A log whose last commit is torn ends before it.
	writeFile(t, left, string(content))
	writeFile(t, left+"-wal", string(log[:len(log)-1]))
	sound(t, left)

	writeFile(t, left+"-wal", string(log))
	crash.Owner, crash.Running = "second", func(int) (string, bool, bool) { return "", false, true }
	after := mustOpen(t, crash)
	if got, err := leafOf(after); err != nil || got != placed[59] {
		t.Errorf("the leaf is %v, %v", got, err)
	}
	mustClose(t, after)
	sound(t, left)
}

func FuzzALogIsReadAsFarAsItIsWhole(f *testing.F) {
	cfg, _ := newConfig(f)
	live := mustOpen(f, cfg)
	chain(f, live, newMinter(1), id.EntryID{}, 2)
	real, err := os.ReadFile(cfg.Path + "-wal")
	if err != nil {
		f.Fatal(err)
	}
	if pages, err := committedPages(bytes.NewReader(real), 4096); err != nil || len(pages) == 0 {
		f.Fatal("a log that SQLite wrote is not understood", pages, err)
	}
	f.Add(real, uint32(len(real)-1))
	f.Add([]byte{}, uint32(0))
	f.Add([]byte{0x37, 0x7f, 0x06, 0x82}, uint32(3))
	f.Fuzz(func(t *testing.T, log []byte, cut uint32) {
		pages, err := committedPages(bytes.NewReader(log), 4096)
		if err != nil {
			t.Fatal(err)
		}
		fewer, err := committedPages(bytes.NewReader(log[:min(len(log), int(cut))]), 4096)
		if err != nil {
			t.Fatal(err)
		}
		for n := range fewer {
			if !pages[n] {
				t.Errorf("page %d is in the cut log only", n)
			}
		}
	})
}
