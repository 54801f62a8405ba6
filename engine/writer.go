package engine

import (
	"errors"
	"sync"

	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
)

// writer is the one committer of an open session.
type writer struct {
	mu     sync.Mutex
	store  storage.Store
	notify func(Fact)
	lost   *tx.LeaseLost // once set, nothing is tried any more
}

// commit applies t and tells the observer before it returns, under the lock, so
// that facts about commits have the order of their seqs. What the commit means is
// told first.
func (w *writer) commit(t tx.Tx, meaning ...Fact) (tx.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost != nil {
		return tx.Result{}, w.lost
	}
	r, err := w.store.Commit(t)
	if err != nil {
		if lost, ok := errors.AsType[*tx.LeaseLost](err); ok {
			w.lost = lost
		}
		return tx.Result{}, err
	}
	for _, f := range meaning {
		w.notify(f)
	}
	if n := len(r.Seqs); n > 0 {
		w.notify(Committed{r.FirstSeq, r.Seqs[n-1], r.Timestamp})
	}
	return r, nil
}
