package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/storage"
	"golang.org/x/sys/unix"
)

func TestAFullDiskKeepsEverythingBefore(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("cannot mount a small file system here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	cfg, _ := newConfig(t)
	cfg.Path, cfg.Synchronous = filepath.Join(dir, "session.db"), Full
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, cfg)
	m := newMinter(1)
	placed, next, err := fill(t, s, m, id.EntryID{}, 3000)
	for range 3 { // it stays refused, and stays whole
		if _, _, again := fill(t, s, m, placed[len(placed)-1], 3000); again == nil {
			t.Fatal("a full disk took more")
		}
	}
	afterFull(t, s, m, placed, next, err, func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAPlaceThatCannotBeWrittenIsRead(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("cannot mount a file system here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	cfg, _ := newConfig(t)
	cfg.Path = filepath.Join(dir, "session.db")
	s := mustOpen(t, cfg)
	chain(t, s, newMinter(1), id.EntryID{}, 3)
	mustClose(t, s)
	live := cfg
	live.Path = filepath.Join(dir, "live.db")
	s = mustOpen(t, live)
	chain(t, s, newMinter(1), id.EntryID{}, 3)
	left := filepath.Join(dir, "left.db") // as a killed process leaves it, without the index of its log
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(live.Path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, left+suffix, string(content))
	}
	cut := filepath.Join(dir, "cut.db") // its journal would have to be carried out first
	for name, content := range journalBesideLog(t) {
		if suffix := strings.TrimPrefix(name, "session.db"); suffix != "-wal" {
			writeFile(t, cut+suffix, string(content))
		}
	}
	seen := t.TempDir() // the same place, where it cannot be written
	if err := unix.Mount(dir, seen, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(seen, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mount("", seen, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Skipf("cannot make it read-only: %v", err)
	}
	in := func(path string) string { return filepath.Join(seen, filepath.Base(path)) }
	before := folder(t, cfg.Path)
	for name, path := range map[string]string{"closed": in(cfg.Path), "beside its writer": in(live.Path)} {
		if sum, err := Peek(path); err != nil || sum.Stats.Messages != 3 {
			t.Errorf("%s: %+v, %v", name, sum, err)
			continue
		}
		sound(t, path)
	}
	if _, err := Peek(in(left)); !errors.Is(err, storage.ErrReadOnly) {
		t.Errorf("a log without its index: %v", err)
	}
	if _, err := Peek(in(cut)); !errors.Is(err, storage.ErrReadOnly) {
		t.Errorf("a journal: %v", err)
	}
	for name, path := range map[string]string{"old": in(cfg.Path), "new": in("new.db")} {
		writing := cfg
		writing.Path = path
		_, err := Open(writing)
		if failed := asType[*storage.OpenFailed](t, err); !errors.Is(err, storage.ErrReadOnly) || !strings.Contains(failed.Reason, "cannot be written") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := folder(t, cfg.Path); after != before {
		t.Errorf("it changed\n%s to\n%s", before, after)
	}

	// Another mount of the same place can write.
	r, err := OpenReader(in(cfg.Path))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cfg.Owner = "second"
	mustOpen(t, cfg)
	_, err = r.Stats()
	if fault := asType[*storage.BackendFault](t, err); !strings.Contains(fault.Reason, "written by another process while it was read") {
		t.Errorf("under a reader without locks: %v", err)
	}
}
