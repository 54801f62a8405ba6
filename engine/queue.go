package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
)

// ErrQueueMoved says that queued input was changed, taken or withdrawn since its
// author saw it. Nothing was written.
var ErrQueueMoved = errors.New("this queued input is not as it was seen: it was changed, taken or withdrawn since; look at the queue again")

// QueuedInput is input that waits for a strand.
type QueuedInput struct {
	ID    id.EntryID // of the entry that it will be
	Queue machine.Queue
	Seq   int64 // of its last change; an edit names it
	Body  machine.PendingEntry
}

// standing is what a strand's queues are read from.
type standing struct {
	state session.Cell[machine.StrandState]
	op    machine.Operation
	st    *session.Cell[machine.State] // nil when the strand is idle
}

func (s standing) list() []machine.Queued {
	if s.st == nil {
		return machine.List(s.state.Value, nil)
	}
	return machine.List(s.state.Value, &s.st.Value)
}

// of is what decisions see of it.
func (s standing) of(strand string) machine.Standing {
	out := machine.Standing{Strand: strand, State: s.state.Value, StateSeq: s.state.Seq}
	if s.st != nil {
		out.Op, out.St, out.Seq = &s.op, s.st.Value, s.st.Seq
	}
	return out
}

// standing reads a strand and its open operation.
func (e *Engine) standing(strand string) (standing, error) {
	for range admissionTries {
		state, ok, err := e.cfg.Session.StrandState(strand)
		if err != nil {
			return standing{}, err
		}
		if !ok {
			return standing{}, noStrand(strand)
		}
		if state.Value.CurrentOperation.IsZero() {
			return standing{state: state}, nil
		}
		op, st, open, err := e.operation(state.Value.CurrentOperation)
		if err != nil || open {
			return standing{state, op, &st}, err
		}
	}
	return standing{}, tooFast(strand)
}

func tooFast(strand string) error {
	return fmt.Errorf("strand %q changed faster than its queue could be read; nothing was changed, try again", strand)
}

// Queue lists what waits for a strand, in the order in which each queue is taken.
func (e *Engine) Queue(strand string) ([]QueuedInput, error) {
	now, err := e.standing(strand)
	if err != nil {
		return nil, err
	}
	var all []QueuedInput
	for _, q := range now.list() {
		c, ok, err := e.cfg.Session.PendingEntry(q.ID)
		if err != nil {
			return nil, err
		}
		if ok { // it was not taken in between
			all = append(all, QueuedInput{q.ID, q.Queue, c.Seq, c.Value})
		}
	}
	return all, nil
}

// EditQueued replaces what queued input says. Only its author may, and only as it
// stood at seq. It returns the seq of the change.
func (e *Engine) EditQueued(strand string, i id.EntryID, seq int64, author *message.Origin, content []message.UserBlock) (edited int64, err error) {
	if !slices.ContainsFunc(content, saysSomething) {
		return 0, machine.ErrInvalidMessage
	}
	now, err := e.standing(strand)
	if err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(now.list(), func(q machine.Queued) bool { return q.ID == i }) {
		return 0, machine.ErrNotPending
	}
	c, ok, err := e.cfg.Session.PendingEntry(i)
	if err != nil {
		return 0, err
	}
	if !ok || c.Seq != seq {
		return 0, ErrQueueMoved
	}
	t, err := machine.Edit(i, c.Value, seq, author, content)
	if err != nil {
		return 0, err
	}
	r, err := e.writer.commit(t, nil, QueueChanged{strand})
	if _, stale := errors.AsType[*tx.StaleExpectation](err); stale {
		return 0, ErrQueueMoved
	}
	return r.Newest(), err
}

// Withdraw removes queued input. What was taken already is machine.ErrNotPending. It
// returns the seq of the change.
func (e *Engine) Withdraw(strand string, i id.EntryID) (withdrawn int64, err error) {
	for range admissionTries {
		now, err := e.standing(strand)
		if err != nil {
			return 0, err
		}
		t, err := machine.WithdrawNextRun(strand, now.state.Value, now.state.Seq, i)
		if err != nil && now.st != nil {
			t, err = machine.Withdraw(now.op, now.st.Value, now.st.Seq, i)
		}
		if err != nil {
			return 0, err
		}
		r, err := e.writer.commit(t, nil, QueueChanged{strand})
		if _, stale := errors.AsType[*tx.StaleExpectation](err); !stale {
			return r.Newest(), err
		}
	}
	return 0, tooFast(strand)
}
