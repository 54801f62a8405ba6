package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/tx"
)

// leaser is the part of a store that must be renewed while work goes on.
type leaser interface {
	RenewLease() error
	LeaseInterval() time.Duration
}

// keepLease renews while an operation is open. An idle session writes nothing.
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
		e.mu.Lock()
		busy := e.active > 0
		e.mu.Unlock()
		if !busy {
			continue
		}
		if lost, ok := errors.AsType[*tx.LeaseLost](l.RenewLease()); ok {
			e.lose(lost)
			return
		}
		// Any other failure shows itself at the next commit, which is where it matters.
	}
}

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
