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
	over   error // once set, nothing is tried any more: *tx.LeaseLost or ErrClosed
}

// commit applies t and tells the observer before it returns, under the lock, so
// that facts about commits have the order of their seqs. A beginning is told
// before the commit that made it so, an end after it; either may be nil.
func (w *writer) commit(t tx.Tx, before, after Fact) (tx.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over != nil {
		return tx.Result{}, w.over
	}
	r, err := w.store.Commit(t)
	if err != nil {
		if lost, ok := errors.AsType[*tx.LeaseLost](err); ok {
			w.over = lost
		}
		return tx.Result{}, err
	}
	if before != nil {
		w.notify(before)
	}
	if n := len(r.Seqs); n > 0 {
		w.notify(Committed{r.FirstSeq, r.Seqs[n-1], r.Timestamp})
	}
	if after != nil {
		w.notify(after)
	}
	return r, nil
}

// end makes every later commit fail with err, unless an earlier end said why.
func (w *writer) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over == nil {
		w.over = err
	}
}

// lost returns the loss of the lease, if it was noticed.
func (w *writer) lost() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if lost, ok := errors.AsType[*tx.LeaseLost](w.over); ok {
		return lost
	}
	return nil
}
