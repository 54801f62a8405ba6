package engine

import (
	"errors"
	"strings"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
)

// asked is what a driver knows of who asked for its open run.
type asked struct {
	op  id.OpID // of which the rest speaks
	run agency.Run
	seq int64
	ok  bool  // somebody did
	due int64 // when the host ends it, Unix ms; 0 for never, also once it is ending
}

// supervise ends a run that another strand asked for, once its time is used up or
// the run that asked for it is over. The cause is durable with the abort. ended
// reports that this pass did.
func (d *Driver) supervise(l loaded) (ended bool, err error) {
	if d.asked.op != l.op.ID {
		d.asked = asked{op: l.op.ID}
		cell, ok, err := d.e.cfg.Session.Rows().Register(register.FactCustom, agency.RunKey(l.op.ID))
		if err != nil {
			d.asked = asked{}
			return false, err
		}
		if ok {
			run, err := agency.DecodeRun(cell.Value)
			if err != nil {
				return false, err
			}
			d.asked.run, d.asked.seq, d.asked.ok = run, cell.Seq, true
		}
	}
	d.asked.due = 0
	if _, running := l.st.Control.(machine.Running); !d.asked.ok || !running {
		return false, nil
	}
	d.asked.due = d.asked.run.Deadline
	parentOpen := true
	if !d.asked.run.Detached {
		if _, parentOpen, err = d.e.cfg.Session.OpMeta(d.asked.run.ParentOp); err != nil {
			return false, err
		}
	}
	cause, over := d.asked.run.Over(d.e.cfg.Clock(), parentOpen)
	if !over {
		return false, nil
	}
	t, changed := agency.End(d.asked.run, d.asked.seq, cause, l.op, l.st, l.in.StateSeq, d.e.cfg.Clock())
	if !changed {
		return false, nil
	}
	_, err = d.e.writer.commit(t, nil, nil)
	if _, stale := errors.AsType[*tx.StaleExpectation](err); stale {
		return true, nil // looked at again
	}
	if err != nil {
		return false, err
	}
	d.abort(l.op.ID)
	return true, nil
}

// ringChildren lets the children of a strand look whether their runs go on.
func (e *Engine) ringChildren(strand string) {
	prefix := agency.ChildPrefix(strand)
	for _, d := range e.all() {
		if strings.HasPrefix(d.strand, prefix) {
			d.Ring()
		}
	}
}
