package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
	"github.com/loom-run/loom/storage/storagetest"
	"pgregory.net/rapid"
)

// opener opens one session file, under a new owner each time.
type opener struct {
	path  string
	now   func() int64
	times int
}

func (o *opener) Open(t rapid.TB) storage.Store {
	o.times++
	s, err := sqlite.Open(sqlite.Config{
		Path: o.path, Owner: fmt.Sprint("opening ", o.times), Clock: o.now, Create: true, Synchronous: sqlite.Off,
	})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

func TestConformance(t *testing.T) {
	storagetest.Run(t, func(t *testing.T, now func() int64) storagetest.Opener {
		return &opener{path: filepath.Join(t.TempDir(), "session.db"), now: now}
	})
}
