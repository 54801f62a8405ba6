package agency

import (
	"fmt"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine"
)

// Spawn is what a plan of a new child needs.
type Spawn struct {
	Caller        Caller
	CallID        string // the provider's id of the call
	Child         string // from [ChildName]
	Purpose       string
	Brief         string
	At            id.EntryID // what of the conversation it shares; absent: nothing but the brief
	Configuration machine.Configuration
	Depth         int64 // of the child
	Detached      bool
	BudgetMs      int64
	Contract      *Contract // nil: no result is asked for

	Now      int64
	IDs      id.Generator
	Settings machine.Settings
}

// Plan plans the one transaction that makes a child: its registers, whose child it
// is, what it owes, how long it may take, and the run that begins with its brief. A
// child of that name that is there already makes it stale.
func (s Spawn) Plan() (machine.Operation, tx.Tx, error) {
	origin, err := message.Strand(s.Caller.Strand)
	if err != nil {
		return machine.Operation{}, tx.Tx{}, fmt.Errorf("the strand %q cannot be named as an author: %w", s.Caller.Strand, err)
	}
	brief := &message.User{
		Content:   []message.UserBlock{message.Text{Text: Brief(s.Caller.Strand, s.Brief, s.Contract)}},
		Timestamp: s.Now, Origin: &origin,
	}
	op, _, t, err := machine.AcceptRun(machine.AcceptInputs{
		Now: s.Now, IDs: s.IDs, Strand: s.Child, Leaf: s.At, Prompts: []message.Message{brief}, Settings: s.Settings,
	})
	if err != nil {
		return machine.Operation{}, tx.Tx{}, err
	}
	lineage := Lineage{
		Parent: s.Caller.Strand, Depth: s.Depth, Purpose: s.Purpose, Call: s.CallID, Brief: placed(t), SpawnedAt: s.Now, Detached: s.Detached,
	}
	run := Run{Strand: s.Child, Parent: s.Caller.Strand, ParentOp: s.Caller.Op, Detached: s.Detached, Deadline: s.Now + s.BudgetMs}
	t.Writes = append(t.Writes,
		tx.Set(register.StrandConfig, s.Child, s.Configuration.Value()),
		tx.Set(register.FactCustom, LineageKey(s.Child), lineage.Value()),
		tx.Set(register.FactCustom, RunKey(op.ID), run.Value()))
	if s.Contract != nil {
		t.Writes = append(t.Writes, tx.Set(register.FactCustom, ContractKey(s.Child), s.Contract.Value()))
	}
	t.Expected = append(t.Expected,
		tx.ExpectAbsent(register.StrandConfig, s.Child), tx.ExpectAbsent(register.FactCustom, LineageKey(s.Child)))
	return op, t, nil
}

// placed is the newest entry that a transaction inserts.
func placed(t tx.Tx) (i id.EntryID) {
	for _, w := range t.Writes {
		if e, ok := w.(tx.InsertEntry); ok {
			i = e.Entry.ID
		}
	}
	return i
}

// Framed is the message that reaches a strand from another one.
func Framed(sender, text string, now int64) (*message.User, error) {
	origin, err := message.Strand(sender)
	if err != nil {
		return nil, fmt.Errorf("the strand %q cannot be named as an author: %w", sender, err)
	}
	return &message.User{Content: []message.UserBlock{message.Text{Text: Message(sender, text)}}, Timestamp: now, Origin: &origin}, nil
}

// Marked adds the mark of a delivered message to the transaction that delivers it:
// both are there or neither.
func Marked(t tx.Tx, c Caller, s Sent) tx.Tx {
	t.Writes = append(t.Writes, tx.Set(register.FactCustom, SentKey(c), s.Value()))
	t.Expected = append(t.Expected, tx.ExpectAbsent(register.FactCustom, SentKey(c)))
	return t
}

// Steer plans the delivery of a message to a run that is open. One that takes none
// any more is machine.ErrNoActiveRun.
func Steer(c Caller, to machine.Operation, st machine.State, stateSeq int64, m *message.User, ids id.Generator) (Sent, tx.Tx, error) {
	i, t, err := machine.Admit(to, st, stateSeq, machine.QueueSteer, machine.PendingMessage(m), ids)
	if err != nil {
		return Sent{}, tx.Tx{}, err
	}
	s := Sent{To: to.Strand, Entry: i, Op: to.ID}
	return s, Marked(t, c, s), nil
}

// Wake plans the delivery of a message to an idle child, as a run with a budget of
// its own.
func Wake(c Caller, in machine.AcceptInputs, budgetMs int64, detached bool) (machine.Operation, Sent, tx.Tx, error) {
	op, _, t, err := machine.AcceptRun(in)
	if err != nil {
		return machine.Operation{}, Sent{}, tx.Tx{}, err
	}
	run := Run{Strand: in.Strand, Parent: c.Strand, ParentOp: c.Op, Detached: detached, Deadline: in.Now + budgetMs}
	t.Writes = append(t.Writes, tx.Set(register.FactCustom, RunKey(op.ID), run.Value()))
	s := Sent{To: in.Strand, Entry: placed(t), Op: op.ID, Woke: true}
	return op, s, Marked(t, c, s), nil
}

// End plans the abort of a child's run by the host, together with why. changed is
// false when it was aborted already.
func End(r Run, runSeq int64, cause words.CancelCause, op machine.Operation, st machine.State, stateSeq, now int64) (tx.Tx, bool) {
	t, changed := machine.RequestAbort(op, st, stateSeq, now)
	if !changed {
		return tx.Tx{}, false
	}
	r.Ended = cause
	t.Writes = append(t.Writes, tx.Set(register.FactCustom, RunKey(op.ID), r.Value()))
	t.Expected = append(t.Expected, tx.Expect(register.FactCustom, RunKey(op.ID), runSeq))
	return t, true
}
