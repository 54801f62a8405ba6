package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/loom-run/loom/core/id"
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
