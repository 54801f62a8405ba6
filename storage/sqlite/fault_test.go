package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// fill commits messages of size bytes until one is refused.
func fill(t *testing.T, s *Store, m *minter, parent id.EntryID, size int) (placed []id.EntryID, next int64, err error) {
	t.Helper()
	for range 10_000 {
		e := said(m.entry(), parent, strings.Repeat("x", size))
		r, err := s.Commit(tx.Tx{Writes: []tx.Write{tx.InsertEntry{Entry: e}, tx.Set(register.StrandLeaf, "main", register.Leaf(e.ID))}})
		if err != nil {
			return placed, next, err
		}
		parent, next = e.ID, r.Seqs[1]+1
		placed = append(placed, e.ID)
	}
	t.Fatal("the disk does not fill up")
	return nil, 0, nil
}

// afterFull checks a handle whose disk is full, then has room again.
func afterFull(t *testing.T, s *Store, m *minter, placed []id.EntryID, next int64, err error, makeRoom func()) {
	t.Helper()
	faulted := asType[*tx.Faulted](t, err)
	if !strings.Contains(faulted.Reason, "the disk is full; nothing of this change was kept, everything before it is safe") {
		t.Errorf("the refusal says %q", faulted.Reason)
	}
	if !errors.Is(err, storage.ErrFull) {
		t.Errorf("the refusal is not marked as a full disk: %v", err)
	}
	leaf := placed[len(placed)-1]
	if got, err := leafOf(s); err != nil || got != leaf {
		t.Errorf("the leaf is %v, %v, want %v", got, err, leaf)
	}
	if path, err := s.ScanBranch(storage.BranchQuery{Start: leaf}); err != nil || len(path) != len(placed) {
		t.Errorf("%d of %d entries, %v", len(path), len(placed), err)
	}
	makeRoom()
	r, err := s.Commit(tx.Tx{Writes: []tx.Write{tx.InsertEntry{Entry: said(m.entry(), leaf, "room again")}}})
	if err != nil || r.FirstSeq != next {
		t.Errorf("with room again: %+v, %v, want seq %d", r, err, next)
	}
	for _, f := range storage.Check(s) {
		t.Error(f)
	}
	mustClose(t, s)
	sound(t, s.cfg.Path)
}

func TestADatabaseWithoutPagesLeftIsAFullDisk(t *testing.T) {
	cfg, _ := newConfig(t)
	s := mustOpen(t, cfg)
	pages := func(n int) {
		if err := s.w.Once(fmt.Sprintf("PRAGMA max_page_count=%d", n), nil); err != nil {
			t.Fatal(err)
		}
	}
	pages(60)
	m := newMinter(1)
	placed, next, err := fill(t, s, m, id.EntryID{}, 3000)
	afterFull(t, s, m, placed, next, err, func() { pages(1_000_000) })
}

func TestALockedFileIsSaidToBeLocked(t *testing.T) {
	cfg, _ := newConfig(t)
	cfg.BusyTimeout = 1_000_000 // 1 ms
	s := mustOpen(t, cfg)
	chain(t, s, newMinter(1), id.EntryID{}, 1)
	other, err := dial(cfg.Path, sqlitedb.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Commit(tx.Tx{})
	if f := asType[*tx.Faulted](t, err); !strings.Contains(f.Reason, "another process kept the session file locked; nothing of this change was kept") {
		t.Errorf("%v", err)
	}
	other.Rollback()
	mustCloseConn(t, other)
	if _, err := s.Commit(tx.Tx{}); err != nil {
		t.Errorf("once it is unlocked: %v", err)
	}
}

func TestEveryErrorOfAFullDiskIsMarked(t *testing.T) {
	cfg, _ := newConfig(t)
	s := mustOpen(t, cfg)
	if err := s.w.Once("PRAGMA max_page_count=1", nil); err != nil {
		t.Fatal(err)
	}
	var backend error
	for n := 0; backend == nil && n < 1000; n++ {
		_, backend = s.w.Exec("INSERT INTO ids VALUES (?, ?)", fmt.Appendf(nil, "%0500d", n), int64(n))
	}
	for name, cause := range map[string]error{
		"SQLite": backend,
		"a file": &fs.PathError{Op: "open", Path: "p", Err: syscall.ENOSPC},
		"quota":  &fs.PathError{Op: "open", Path: "p", Err: syscall.EDQUOT},
	} {
		for at, err := range map[string]error{
			"commit": asType[*tx.Faulted](t, commitFault(cause)),
			"open":   asType[*storage.OpenFailed](t, openFault("p", cause)),
			"read":   asType[*storage.BackendFault](t, readFault(cause)),
		} {
			if !errors.Is(err, storage.ErrFull) || !errors.Is(err, cause) || !strings.Contains(err.Error(), "the disk is full") {
				t.Errorf("%s of %s: %v", at, name, err)
			}
		}
	}
	if err := commitFault(&fs.PathError{Op: "open", Path: "p", Err: syscall.EACCES}); errors.Is(err, storage.ErrFull) {
		t.Errorf("a refused access is a full disk: %v", err)
	}
}
