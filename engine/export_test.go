package engine

import (
	"errors"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
)

// Steer queues input that the open run of a strand sees before its next request.
func (e *Engine) Steer(strand string, m message.Message) error {
	for {
		state, _, err := e.cfg.Session.StrandState(strand)
		if err != nil {
			return err
		}
		op, st, ok, err := e.operation(state.Value.CurrentOperation)
		if err != nil {
			return err
		}
		if !ok {
			return machine.ErrNoActiveRun
		}
		_, t, err := machine.Admit(op, st.Value, st.Seq, machine.QueueSteer, machine.PendingMessage(m), e.generator())
		if err != nil {
			return err
		}
		if _, err = e.writer.commit(t, nil, nil); err == nil {
			e.Driver(strand).Ring()
		}
		if _, stale := errors.AsType[*tx.StaleExpectation](err); !stale {
			return err
		}
	}
}

// Failure is why a strand stopped, if it did.
func (e *Engine) Failure(strand string) error { return e.Driver(strand).failure() }

// Rung takes a ring of the driver's bell, if there is one.
func (d *Driver) Rung() bool {
	select {
	case <-d.bell:
		return true
	default:
		return false
	}
}

// Committing reports whether a commit is being made or told.
func (e *Engine) Committing() bool {
	e.writer.mu.Lock()
	defer e.writer.mu.Unlock()
	return e.writer.busy
}

// SetFuel bounds the steps of a driver that nothing interrupts.
func (d *Driver) SetFuel(steps int) { d.fuel = steps }
