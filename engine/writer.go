package engine

import (
	"errors"
	"sync"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/telemetry"
)

// writer is the one committer of an open session. Commits that come while another
// is being flushed wait together and share the next flush. Whoever finds nobody
// flushing does it, for all who wait, and hands the rest to one of those that came
// meanwhile, so that nobody works longer for others than for one flush.
type writer struct {
	store  storage.Store
	notify func(Fact)
	meter  telemetry.Scope

	mu      sync.Mutex // guards what follows
	waiting []*commit
	busy    bool  // somebody is flushing, or was told to
	over    error // once set, nothing is tried any more: *tx.LeaseLost or ErrClosed
}

// commit is one transaction on its way. A beginning is told before the commit that
// made it so, an end after it; either may be nil.
type commit struct {
	tx            tx.Tx
	before, after Fact
	outcome       storage.Outcome
	turn          chan bool // one value: true is to flush, false is done
}

// maxBatch bounds the transactions of one flush, and so the time that the first
// of them waits for the last to be applied.
const maxBatch = 64

// commit applies t and tells the observer before it returns. Facts about commits
// have the order of their seqs, and no two are told at once.
func (w *writer) commit(t tx.Tx, before, after Fact) (tx.Result, error) {
	return w.commitOf(id.OpID{}, t, before, after)
}

// commitOf is commit for what an operation does.
func (w *writer) commitOf(op id.OpID, t tx.Tx, before, after Fact) (tx.Result, error) {
	measured := w.meter.Commit(op)
	r, err := w.wait(t, before, after)
	measured.End(len(t.Writes), err != nil)
	return r, err
}

func (w *writer) wait(t tx.Tx, before, after Fact) (tx.Result, error) {
	c := &commit{tx: t, before: before, after: after, turn: make(chan bool, 1)}
	if err := w.enter(c); err != nil {
		return tx.Result{}, err
	}
	if <-c.turn {
		w.flush(w.batch())
		w.leave()
	}
	return c.outcome.Result, c.outcome.Err
}

// enter takes a place among those who wait, the turn to flush included if nobody
// has it.
func (w *writer) enter(c *commit) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over != nil {
		return w.over
	}
	w.waiting = append(w.waiting, c)
	if !w.busy {
		w.busy = true
		c.turn <- true
	}
	return nil
}

// batch takes those who wait, in the order in which they came.
func (w *writer) batch() []*commit {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.waiting), maxBatch)
	batch := w.waiting[:n:n]
	w.waiting = w.waiting[n:]
	return batch
}

// leave passes the turn on.
func (w *writer) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy = len(w.waiting) > 0; w.busy {
		w.waiting[0].turn <- true
	}
}

// flush commits a batch, tells what became of it and lets its members go. The one
// who flushes is its first.
func (w *writer) flush(batch []*commit) {
	for i, o := range w.apply(batch) {
		c := batch[i]
		c.outcome = o
		if o.Err == nil {
			w.tell(c)
		} else if lost, ok := errors.AsType[*tx.LeaseLost](o.Err); ok {
			w.end(lost)
		}
		if i > 0 {
			c.turn <- false
		}
	}
}

func (w *writer) apply(batch []*commit) []storage.Outcome {
	if err := w.ended(); err != nil {
		outcomes := make([]storage.Outcome, len(batch))
		for i := range outcomes {
			outcomes[i].Err = err
		}
		return outcomes
	}
	txs := make([]tx.Tx, len(batch))
	for i, c := range batch {
		txs[i] = c.tx
	}
	return w.store.CommitAll(txs...)
}

func (w *writer) tell(c *commit) {
	r := c.outcome.Result
	if c.before != nil {
		w.notify(c.before)
	}
	if n := len(r.Seqs); n > 0 {
		w.notify(Committed{r.FirstSeq, r.Seqs[n-1], r.Timestamp})
	}
	if c.after != nil {
		w.notify(c.after)
	}
}

// end makes every later commit fail with err, unless an earlier end said why.
func (w *writer) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over == nil {
		w.over = err
	}
}

func (w *writer) ended() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

// lost returns the loss of the lease, if it was noticed.
func (w *writer) lost() error {
	if lost, ok := errors.AsType[*tx.LeaseLost](w.ended()); ok {
		return lost
	}
	return nil
}
