package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/tx"
)

// leaser is the part of a store that must be renewed while work goes on, and is
// given back when there is none.
type leaser interface {
	RenewLease() error
	LeaseInterval() time.Duration
	Release() error
}

// keepLease renews the lease while an operation is open or a job runs, and gives it
// back when there was none for an interval. From then on an idle session writes nothing, wakes nobody,
// and is free for any other process; its next commit takes the lease again.
func (e *Engine) keepLease() {
	l, ok := e.cfg.Session.Store().(leaser)
	if !ok || l.LeaseInterval() <= 0 {
		return
	}
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-e.cfg.After(l.LeaseInterval()):
		}
		tend, idle := l.RenewLease, !e.busy()
		if idle {
			tend = l.Release
		}
		if lost, ok := errors.AsType[*tx.LeaseLost](tend()); ok {
			e.lose(lost)
			return
		}
		// Any other failure shows itself at the next commit, which is where it matters.
		if !idle {
			continue
		}
		select {
		case <-e.ctx.Done():
			return
		case <-e.work:
		}
	}
}

func (e *Engine) busy() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.active > 0
}

// count keeps the number of strands and jobs at work and wakes the keeper of the lease.
func (e *Engine) count(working bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !working {
		e.active--
		return
	}
	e.active++
	select {
	case e.work <- struct{}{}:
	default: // it was told already
	}
}

// Lost is the loss of the lease, if it was noticed: nothing more is committed, and
// the session has to be opened again. It is nil otherwise.
func (e *Engine) Lost() error { return e.writer.lost() }

// lose stops what runs: another process is the writer now, and may already be
// recovering the operation that these effects belong to.
func (e *Engine) lose(lost *tx.LeaseLost) {
	e.writer.end(lost)
	for _, d := range e.all() {
		d.ground()
		d.Ring()
	}
}

// takenOver says who ended an operation that this process worked on: only another
// writer can have, and the lease tells.
func (e *Engine) takenOver(op id.OpID) error {
	if l, ok := e.cfg.Session.Store().(leaser); ok {
		if lost, ok := errors.AsType[*tx.LeaseLost](l.RenewLease()); ok {
			e.lose(lost)
			return lost
		}
	}
	return fmt.Errorf("operation %s was ended by another process, whose result is kept", op)
}
