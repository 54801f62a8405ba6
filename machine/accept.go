package machine

import (
	"errors"
	"slices"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
)

// Rejections of an admission. Nothing was written.
var (
	ErrStrandBusy     = errors.New("the strand is working on another operation")
	ErrInvalidMessage = errors.New("there is nothing to run: no prompt was given and none is queued")
	ErrNoActiveRun    = errors.New("no run is open that could take this")
	ErrNotPending     = errors.New("there is no such queued input")
)

// AcceptInputs is what an acceptance has loaded.
type AcceptInputs struct {
	Now      int64
	IDs      id.Generator
	Strand   string
	State    StrandState
	StateSeq int64
	Leaf     id.EntryID
	LeafSeq  int64 // 0: there is no leaf register
	Pending  map[id.EntryID]PendingEntry
	Prompts  []message.Message
	Settings Settings
}

// AcceptRun plans the one transaction that turns prompts into an operation:
// first what was queued for the next run, then the prompts.
func AcceptRun(in AcceptInputs) (Operation, State, tx.Tx, error) {
	if !in.State.CurrentOperation.IsZero() {
		return Operation{}, State{}, tx.Tx{}, ErrStrandBusy
	}
	if len(in.Prompts)+len(in.State.PendingNextRun) == 0 {
		return Operation{}, State{}, tx.Tx{}, ErrInvalidMessage
	}
	ids := in.IDs
	op := Operation{Strand: in.Strand, SourceLeaf: in.Leaf, StartedAt: in.Now}
	op.ID, ids = ids.Op()
	leaf := in.Leaf
	var writes []tx.Write
	var prompts []id.EntryID
	place := func(i id.EntryID, body entry.Body) {
		writes = append(writes, tx.InsertEntry{Entry: entry.Entry{ID: i, Parent: leaf, Body: body}})
		leaf = i
		prompts = append(prompts, i)
	}
	for _, i := range in.State.PendingNextRun {
		pending, ok := in.Pending[i]
		if !ok {
			return Operation{}, State{}, tx.Tx{}, corrupt.New("machine.AcceptRun", "pending.entry/"+i.String(), "the queued entry", "nothing")
		}
		place(i, pending.Body)
		writes = append(writes, tx.Delete(register.PendingEntry, i.String()))
	}
	for _, m := range in.Prompts {
		var i id.EntryID
		i, ids = ids.Entry()
		place(i, entry.Message{Message: m})
	}
	op.Intent = RunIntent{PromptEntryIDs: prompts}
	st := State{Control: Running{}, Work: &Run{Settings: in.Settings, Phase: Starting{}}}
	key := op.ID.String()
	writes = append(writes,
		tx.Set(register.StrandLeaf, in.Strand, register.Leaf(leaf)),
		tx.Set(register.OpMeta, key, op.Value()),
		tx.Set(register.OpState, key, st.Value()),
		tx.Set(register.StrandState, in.Strand, StrandState{CurrentOperation: op.ID}.Value()))
	return op, st, tx.Tx{Writes: writes, Expected: []tx.Expectation{
		tx.Expect(register.StrandState, in.Strand, in.StateSeq),
		tx.Expect(register.StrandLeaf, in.Strand, in.LeafSeq),
		tx.ExpectAbsent(register.OpMeta, key),
		tx.ExpectAbsent(register.OpState, key),
	}}, nil
}

// Queue is where input for an open run waits.
type Queue uint8

// The queues of a run: steering is seen after the current tool batch and before
// the next request, follow-ups when the run would finish, writes at the next
// checkpoint whatever it decides.
const (
	QueueSteer Queue = iota
	QueueFollowUp
	QueueWrites
)

// Admit plans the queueing of input for an open run. Writes are taken in any
// control state, the others only while the run was not aborted.
func Admit(op Operation, st State, stateSeq int64, q Queue, e PendingEntry, ids id.Generator) (id.EntryID, tx.Tx, error) {
	work, ok := st.Work.(*Run)
	_, running := st.Control.(Running)
	if !ok || (!running && q != QueueWrites) {
		return id.EntryID{}, tx.Tx{}, ErrNoActiveRun
	}
	i, _ := ids.Entry()
	run := *work
	queue := &run.Inbox.Steer
	switch q {
	case QueueSteer:
	case QueueFollowUp:
		queue = &run.Inbox.FollowUp
	case QueueWrites:
		queue = &run.Inbox.Writes
	}
	*queue = append(slices.Clone(*queue), i)
	next := State{Control: st.Control, Work: &run}
	return i, tx.Tx{
		Writes: []tx.Write{
			tx.Set(register.PendingEntry, i.String(), e.Value()),
			tx.Set(register.OpState, op.ID.String(), next.Value()),
		},
		Expected: []tx.Expectation{
			tx.Expect(register.OpState, op.ID.String(), stateSeq),
			tx.ExpectAbsent(register.PendingEntry, i.String()),
		},
	}, nil
}

// AdmitNextRun plans the queueing of input that the strand's next run takes; it
// never starts one.
func AdmitNextRun(strand string, st StrandState, stateSeq int64, e PendingEntry, ids id.Generator) (id.EntryID, tx.Tx) {
	i, _ := ids.Entry()
	st.PendingNextRun = append(slices.Clone(st.PendingNextRun), i)
	return i, tx.Tx{
		Writes: []tx.Write{
			tx.Set(register.PendingEntry, i.String(), e.Value()),
			tx.Set(register.StrandState, strand, st.Value()),
		},
		Expected: []tx.Expectation{
			tx.Expect(register.StrandState, strand, stateSeq),
			tx.ExpectAbsent(register.PendingEntry, i.String()),
		},
	}
}

// Withdraw plans the removal of queued input from an open run. What an abort
// drained is withdrawn already.
func Withdraw(op Operation, st State, stateSeq int64, i id.EntryID) (tx.Tx, error) {
	work, ok := st.Work.(*Run)
	if !ok {
		return tx.Tx{}, ErrNotPending
	}
	run := *work
	found := false
	for _, queue := range []*[]id.EntryID{&run.Inbox.Steer, &run.Inbox.FollowUp, &run.Inbox.Writes} {
		if n := slices.Index(*queue, i); n >= 0 {
			*queue, found = slices.Delete(slices.Clone(*queue), n, n+1), true
		}
	}
	if !found {
		return tx.Tx{}, ErrNotPending
	}
	next := State{Control: st.Control, Work: &run}
	return tx.Tx{
		Writes: []tx.Write{
			tx.Delete(register.PendingEntry, i.String()),
			tx.Set(register.OpState, op.ID.String(), next.Value()),
		},
		Expected: []tx.Expectation{tx.Expect(register.OpState, op.ID.String(), stateSeq)},
	}, nil
}

// WithdrawNextRun plans the removal of input that waits for the strand's next run.
func WithdrawNextRun(strand string, st StrandState, stateSeq int64, i id.EntryID) (tx.Tx, error) {
	n := slices.Index(st.PendingNextRun, i)
	if n < 0 {
		return tx.Tx{}, ErrNotPending
	}
	st.PendingNextRun = slices.Delete(slices.Clone(st.PendingNextRun), n, n+1)
	return tx.Tx{
		Writes: []tx.Write{
			tx.Delete(register.PendingEntry, i.String()),
			tx.Set(register.StrandState, strand, st.Value()),
		},
		Expected: []tx.Expectation{tx.Expect(register.StrandState, strand, stateSeq)},
	}, nil
}

// RequestAbort plans the durable marker of an abort. The first abort wins: for a
// later one changed is false and there is nothing to commit. Queued steering and
// follow-ups are moved, never lost: their payloads stay until the run ends.
func RequestAbort(op Operation, st State, stateSeq, now int64) (t tx.Tx, changed bool) {
	if _, already := st.Control.(CancelRequested); already {
		return tx.Tx{}, false
	}
	cancel := CancelRequested{RequestedAt: now}
	next := State{Work: st.Work}
	if work, ok := st.Work.(*Run); ok {
		run := *work
		cancel.DrainedSteer, cancel.DrainedFollows = run.Inbox.Steer, run.Inbox.FollowUp
		run.Inbox.Steer, run.Inbox.FollowUp = nil, nil
		next.Work = &run
	}
	next.Control = cancel
	return tx.Tx{
		Writes:   []tx.Write{tx.Set(register.OpState, op.ID.String(), next.Value())},
		Expected: []tx.Expectation{tx.Expect(register.OpState, op.ID.String(), stateSeq)},
	}, true
}
