package server

import (
	"testing"

	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/memory"
)

// rewritten is a store that was rewritten some times.
type rewritten struct {
	storage.Store
	times int64
}

func (r rewritten) Snapshot(of ...storage.CellRange) (storage.Snapshot, error) {
	s, err := r.Store.Snapshot(of...)
	s.Generation = r.times
	return s, err
}

// Cursors of before a rewrite are void: the generation in them is another one.
func TestARewriteIsAnotherGeneration(t *testing.T) {
	store := memory.New(func() int64 { return 1 })
	for times := range int64(3) {
		got, err := FromSession(session.NewView(rewritten{store, times})).Generation()
		if err != nil || got != firstGeneration+times {
			t.Errorf("after %d rewrites it is %d, %v", times, got, err)
		}
	}
	store.Close()
	if _, err := FromSession(session.NewView(store)).Generation(); err == nil {
		t.Error("a closed session has a generation")
	}
}
