package engine

import (
	"errors"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
)

// ErrNotWritable says that an entry cannot be added by hand: it cannot be stored, or
// it is a response or a result, which only their effects make.
var ErrNotWritable = errors.New("only messages of people and records of programs can be added to a strand; nothing was written")

func ofTheModel(p machine.PendingEntry) bool {
	b, isMessage := p.Body.(entry.Message)
	if !isMessage {
		return false
	}
	switch b.Message.(type) {
	case *message.Assistant, *message.ToolResult:
		return true
	case *message.User, *message.Custom:
	}
	return false
}

// Write adds an entry to a strand that is no prompt: a record of a program, or a
// message that the model is to see and that starts no run. An idle strand has it at
// once. In an open run it is queued, durably, and placed between two steps, also
// when the run was aborted or fails meanwhile; so it never stands between a call
// and its result. A strand that works on something else than a run is
// machine.ErrNoActiveRun.
func (e *Engine) Write(strand string, p machine.PendingEntry) (id.EntryID, error) {
	if err := e.usable(strand); err != nil {
		return id.EntryID{}, err
	}
	if unstorable(p) || ofTheModel(p) {
		return id.EntryID{}, ErrNotWritable
	}
	for range admissionTries {
		now, err := e.standing(strand)
		if err != nil {
			return id.EntryID{}, err
		}
		i, t, err := e.writing(strand, now, p)
		if err != nil {
			return id.EntryID{}, err
		}
		_, err = e.writer.commit(t, nil, nil)
		if _, stale := errors.AsType[*tx.StaleExpectation](err); stale {
			continue
		}
		if err == nil {
			e.Driver(strand).Ring()
		}
		return i, err
	}
	return id.EntryID{}, tooFast(strand)
}

func (e *Engine) writing(strand string, now standing, p machine.PendingEntry) (id.EntryID, tx.Tx, error) {
	if now.st != nil {
		return machine.Admit(now.op, now.st.Value, now.st.Seq, machine.QueueWrites, p, e.generator())
	}
	leaf, _, err := e.cfg.Session.StrandLeaf(strand)
	i, _ := e.generator().Entry()
	return i, placed(strand, now.state, leaf, entry.Entry{ID: i, Parent: leaf.Value, Body: p.Body}), err
}

// placed puts an entry below the leaf of an idle strand.
func placed(strand string, state session.Cell[machine.StrandState], leaf session.Cell[id.EntryID], row entry.Entry) tx.Tx {
	return tx.Tx{
		Writes:   []tx.Write{tx.InsertEntry{Entry: row}, tx.Set(register.StrandLeaf, strand, register.Leaf(row.ID))},
		Expected: []tx.Expectation{tx.Expect(register.StrandState, strand, state.Seq), tx.Expect(register.StrandLeaf, strand, leaf.Seq)},
	}
}
