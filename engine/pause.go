package engine

import (
	"errors"
	"fmt"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
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

// Answer records what a person decided, by the gate that they saw. The first
// answer wins; a later one, and one that fits no open question, is refused with
// machine.ErrNoSuchGate or machine.ErrWrongAnswer and changes nothing.
func (e *Engine) Answer(strand, gate string, d machine.Decision, by *message.Origin) error {
	if err := e.usable(strand); err != nil {
		return err
	}
	for range admissionTries {
		now, err := e.standing(strand)
		if err != nil {
			return err
		}
		if now.st == nil {
			return machine.ErrNoSuchGate
		}
		t, err := machine.Answer(now.op, now.st.Value, now.st.Seq, e.cfg.Clock(), gate, d, by)
		if err != nil {
			return err
		}
		_, err = e.writer.commit(t, nil, nil)
		if _, stale := errors.AsType[*tx.StaleExpectation](err); stale {
			continue
		}
		if err == nil {
			e.Driver(strand).Ring()
		}
		return err
	}
	return fmt.Errorf("the run of strand %q changed faster than the answer could be recorded; it was not taken, send it again", strand)
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
