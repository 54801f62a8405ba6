package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
)

// Paused says that a run waits for a person and for nothing else. It is no end:
// the run goes on once somebody answers, in this process or in another.
type Paused struct {
	Strand string
	Op     id.OpID
	Pauses []machine.Pause
}

func (p *Paused) Error() string {
	return fmt.Sprintf("the run is paused until somebody decides about %d of its calls; everything is kept, and an answer goes on from here", len(p.Pauses))
}

// Pauses lists what the open run of a strand waits for a person to decide.
func (e *Engine) Pauses(strand string) ([]machine.Pause, error) {
	now, err := e.standing(strand)
	if err != nil || now.st == nil {
		return nil, err
	}
	return machine.Pauses(now.st.Value), nil
}

// Answer is [Engine.Decide] for who needs no receipt.
func (e *Engine) Answer(strand, gate string, d machine.Decision, by *message.Origin) error {
	_, err := e.Decide(strand, gate, d, by)
	return err
}

// Answered is the receipt of a decision.
type Answered struct {
	Op  id.OpID
	Seq int64 // of the commit
}

// Decide records what a person decided, by the gate that they saw. The first answer
// wins; a later one, and one that fits no open question, is refused with
// machine.ErrNoSuchGate, machine.ErrWrongAnswer or machine.ErrLifetime and changes
// nothing.
func (e *Engine) Decide(strand, gate string, d machine.Decision, by *message.Origin) (none Answered, err error) {
	if err := e.usable(strand); err != nil {
		return none, err
	}
	for range admissionTries {
		now, err := e.standing(strand)
		if err != nil {
			return none, err
		}
		if now.st == nil {
			return none, machine.ErrNoSuchGate
		}
		at := e.cfg.Clock()
		t, err := machine.Answer(now.op, now.st.Value, now.st.Seq, at, gate, d, by)
		if err != nil {
			return none, err
		}
		r, err := e.writer.commit(t, nil, gatesIn(t, now.op, now.st.Value, at))
		if _, stale := errors.AsType[*tx.StaleExpectation](err); stale {
			continue
		}
		if err != nil {
			return none, err
		}
		if refusal, ok := d.(machine.Deny); ok && refusal.Stop {
			e.Driver(strand).abort(now.op.ID)
		} else {
			e.Driver(strand).Ring()
		}
		return Answered{now.op.ID, r.Seqs[len(r.Seqs)-1]}, nil
	}
	return none, fmt.Errorf("the run of strand %q changed faster than the answer could be recorded; it was not taken, send it again", strand)
}

// GrantsOf lists what a person allowed for the session, by key.
func GrantsOf(v *session.View) (map[string]machine.Grant, error) {
	cells, err := v.Rows().Registers(register.FactCustom, machine.GrantPrefix)
	if err != nil {
		return nil, err
	}
	all := make(map[string]machine.Grant, len(cells))
	for _, c := range cells {
		if all[c.Key], err = machine.DecodeGrant(c.Value); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ForgetGrant takes an allowance back; ok is false where there is none under that key.
// Calls that were cleared with it go on.
func (e *Engine) ForgetGrant(key string) (ok bool, err error) {
	if !strings.HasPrefix(key, machine.GrantPrefix) {
		return false, nil
	}
	cell, ok, err := e.cfg.Session.Rows().Register(register.FactCustom, key)
	if err != nil || !ok {
		return false, err
	}
	_, err = e.writer.commit(tx.Tx{
		Writes:   []tx.Write{tx.Delete(register.FactCustom, key)},
		Expected: []tx.Expectation{tx.Expect(register.FactCustom, key, cell.Seq)},
	}, nil, nil)
	if _, stale := errors.AsType[*tx.StaleExpectation](err); stale {
		return e.ForgetGrant(key) // it was given again, or forgotten, meanwhile
	}
	return err == nil, err
}

// gatesFact tells that a commit changed what a run waits for; nil where it did not.
func gatesFact(op machine.Operation, before, after machine.State, now int64) Fact {
	if closed, changed := machine.Gates(before, after, now); changed {
		return GatesChanged{op.Strand, op.ID, closed}
	}
	return nil
}

// gatesIn is gatesFact of a plan.
func gatesIn(t tx.Tx, op machine.Operation, before machine.State, now int64) Fact {
	if next, ok := machine.StateIn(t, op.ID); ok {
		return gatesFact(op, before, next, now)
	}
	return nil
}

// park tells once that a run is paused, and lets go of it: from here on another
// process may go on with it as well.
func (d *Driver) park(l loaded, a machine.Park) Pass {
	gates := ""
	for _, p := range a.Pauses {
		gates += p.Gate + " "
	}
	d.current = id.OpID{}
	if d.parkedOn(gates) {
		d.e.observe(RunPaused{d.strand, l.op.ID, a.Pauses})
		d.wake()
	}
	return Pass{Progress: Parked, Until: a.Until}
}

// parkedOn notes what a strand is parked on; it reports whether that is new.
func (d *Driver) parkedOn(gates string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.parked == gates {
		return false
	}
	d.parked = gates
	return true
}

// paused returns the pause that an operation is in, if its driver parked it.
func (e *Engine) paused(strand string, op id.OpID) *Paused {
	d := e.Driver(strand)
	d.mu.Lock()
	parked := d.parked != ""
	d.mu.Unlock()
	if !parked {
		return nil
	}
	list, err := e.Pauses(strand)
	if current, open, again := e.Current(strand); err != nil || again != nil || !open || current != op || len(list) == 0 {
		return nil
	}
	return &Paused{strand, op, list}
}
