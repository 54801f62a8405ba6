package machine

import (
	"errors"
	"slices"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
)

// Rejections of what is asked of a queue. Nothing was written.
var (
	ErrNoActiveRun = errors.New("no run is open that could take this")
	ErrNotPending  = errors.New("there is no such queued input")
	ErrNotAuthor   = errors.New("only the author of queued input may change it")
	ErrNotEditable = errors.New("this queued input is not a message of a person and cannot be changed")
)

// Queue is where input waits. Those of an open run are steering, follow-ups and
// writes; the next run is the strand's own.
type Queue uint8

// The queues: steering is seen after the current tool batch and before the next
// request, follow-ups when the run would finish, writes at the next checkpoint
// whatever it decides, the next run's input when a run is accepted.
const (
	QueueSteer Queue = iota
	QueueFollowUp
	QueueWrites
	QueueNextRun
)

// Admit plans the queueing of input for an open run. Writes are taken in any
// control state, the others only while the run was not aborted. The next run's
// queue is not a run's: see [AdmitNextRun].
func Admit(op Operation, st State, stateSeq int64, q Queue, e PendingEntry, ids id.Generator) (id.EntryID, tx.Tx, error) {
	work, ok := st.Work.(*Run)
	_, running := st.Control.(Running)
	if !ok || q == QueueNextRun || (!running && q != QueueWrites) {
		return id.EntryID{}, tx.Tx{}, ErrNoActiveRun
	}
	i, _ := ids.Entry()
	run := *work
	queue := run.Inbox.queue(q)
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

// queue is the list behind a run's queue; nil for the next run's.
func (b *Inbox) queue(q Queue) *[]id.EntryID {
	switch q {
	case QueueSteer:
		return &b.Steer
	case QueueFollowUp:
		return &b.FollowUp
	case QueueWrites:
		return &b.Writes
	case QueueNextRun:
	}
	return nil
}

// AdmitNextRun plans the queueing of input that the strand's next run takes. With
// start it does not wait for somebody to start that run: the strand starts it as
// soon as it is idle. Several starts have the least limit of them all.
func AdmitNextRun(strand string, st StrandState, stateSeq int64, e PendingEntry, start *Start, ids id.Generator) (id.EntryID, tx.Tx) {
	i, _ := ids.Entry()
	st.PendingNextRun = append(slices.Clone(st.PendingNextRun), i)
	st.Start = st.Start.and(start)
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

// Standing is a strand and what it works on, as something that is to reach it found
// them.
type Standing struct {
	Strand   string
	State    StrandState
	StateSeq int64
	Op       *Operation // open; nil when the strand rests
	St       State      // of Op
	Seq      int64      // of St
}

// Steer plans that input is seen before the next request of the open run. Where none
// is open that could take it, that is ErrNoActiveRun.
func (s Standing) Steer(e PendingEntry, ids id.Generator) (id.EntryID, tx.Tx, error) {
	if s.Op == nil {
		return id.EntryID{}, tx.Tx{}, ErrNoActiveRun
	}
	return Admit(*s.Op, s.St, s.Seq, QueueSteer, e, ids)
}

// Reach is [Standing.Steer], or else input of the next run, which starts by itself
// with start.
func (s Standing) Reach(e PendingEntry, start *Start, ids id.Generator) (id.EntryID, tx.Tx) {
	if i, t, err := s.Steer(e, ids); err == nil {
		return i, t
	}
	return AdmitNextRun(s.Strand, s.State, s.StateSeq, e, start, ids)
}

// and is what both want.
func (s *Start) and(o *Start) *Start {
	switch {
	case s == nil:
		return o
	case o == nil:
		return s
	case s.MaxTurns == nil:
		return o
	case o.MaxTurns == nil:
		return s
	}
	return &Start{MaxTurns: new(min(*s.MaxTurns, *o.MaxTurns))}
}

// Queued is input that waits, by the id that its entry will have.
type Queued struct {
	ID    id.EntryID
	Queue Queue
}

// List names what waits for a strand, in the order in which each queue is taken.
// What an abort took out of a run waits for the next one. st is the state of the
// open operation; nil when the strand is idle.
func List(strand StrandState, st *State) []Queued {
	var all []Queued
	add := func(q Queue, ids []id.EntryID) {
		for _, i := range ids {
			all = append(all, Queued{i, q})
		}
	}
	if st != nil {
		if run, ok := st.Work.(*Run); ok {
			add(QueueSteer, run.Inbox.Steer)
			add(QueueFollowUp, run.Inbox.FollowUp)
			add(QueueWrites, run.Inbox.Writes)
		}
		if c, ok := st.Control.(CancelRequested); ok {
			add(QueueNextRun, c.DrainedSteer)
			add(QueueNextRun, c.DrainedFollows)
		}
	}
	add(QueueNextRun, strand.PendingNextRun)
	return all
}

// Edit plans the replacement of what queued input says. seen is the seq at which
// its author saw it: input that changed, was taken or was withdrawn since is
// refused at the commit. Who wrote it and when stays.
func Edit(i id.EntryID, queued PendingEntry, seen int64, author *message.Origin, content []message.UserBlock) (tx.Tx, error) {
	body, _ := queued.Body.(entry.Message)
	user, ok := body.Message.(*message.User)
	if !ok {
		return tx.Tx{}, ErrNotEditable
	}
	if !sameAuthor(user.Origin, author) {
		return tx.Tx{}, ErrNotAuthor
	}
	next := *user
	next.Content = content
	return tx.Tx{
		Writes:   []tx.Write{tx.Set(register.PendingEntry, i.String(), PendingMessage(&next).Value())},
		Expected: []tx.Expectation{tx.Expect(register.PendingEntry, i.String(), seen)},
	}, nil
}

// sameAuthor compares who is meant, not how they were called at the time. What
// nobody was named for belongs to whoever is not named either.
func sameAuthor(a, b *message.Origin) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Kind() == b.Kind() && a.Identity() == b.Identity() && (a.Kind() != message.PeerOrigin || *a == *b)
}

// Withdraw plans the removal of queued input from an open run, also of what an
// abort took out of it.
func Withdraw(op Operation, st State, stateSeq int64, i id.EntryID) (tx.Tx, error) {
	work, ok := st.Work.(*Run)
	if !ok {
		return tx.Tx{}, ErrNotPending
	}
	run := *work
	drained, cancelled := st.Control.(CancelRequested)
	queues := []*[]id.EntryID{&run.Inbox.Steer, &run.Inbox.FollowUp, &run.Inbox.Writes, &drained.DrainedSteer, &drained.DrainedFollows}
	found := false
	for _, queue := range queues {
		if n := slices.Index(*queue, i); n >= 0 {
			*queue, found = slices.Delete(slices.Clone(*queue), n, n+1), true
		}
	}
	if !found {
		return tx.Tx{}, ErrNotPending
	}
	next := State{Control: st.Control, Work: &run}
	if cancelled {
		next.Control = drained
	}
	return tx.Tx{
		Writes: []tx.Write{
			tx.Delete(register.PendingEntry, i.String()),
			tx.Set(register.OpState, op.ID.String(), next.Value()),
		},
		Expected: []tx.Expectation{tx.Expect(register.OpState, op.ID.String(), stateSeq)},
	}, nil
}

// WithdrawNextRun plans the removal of input that waits for the strand's next
// run. Where none is left, nothing starts it either.
func WithdrawNextRun(strand string, st StrandState, stateSeq int64, i id.EntryID) (tx.Tx, error) {
	n := slices.Index(st.PendingNextRun, i)
	if n < 0 {
		return tx.Tx{}, ErrNotPending
	}
	st.PendingNextRun = slices.Delete(slices.Clone(st.PendingNextRun), n, n+1)
	if len(st.PendingNextRun) == 0 {
		st.Start = nil
	}
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
// follow-ups are moved out of the run and never lost: they wait for the next one.
func RequestAbort(op Operation, st State, stateSeq, now int64) (t tx.Tx, changed bool) {
	if _, already := st.Control.(CancelRequested); already {
		return tx.Tx{}, false
	}
	return tx.Tx{
		Writes:   []tx.Write{tx.Set(register.OpState, op.ID.String(), st.cancelled(now).Value())},
		Expected: []tx.Expectation{tx.Expect(register.OpState, op.ID.String(), stateSeq)},
	}, true
}

// cancelled is a state whose end was asked for.
func (s State) cancelled(now int64) State {
	cancel := CancelRequested{RequestedAt: now}
	next := State{Work: s.Work}
	if work, ok := s.Work.(*Run); ok {
		run := *work
		cancel.DrainedSteer, cancel.DrainedFollows = run.Inbox.Steer, run.Inbox.FollowUp
		run.Inbox.Steer, run.Inbox.FollowUp = nil, nil
		next.Work = &run
	}
	next.Control = cancel
	return next
}
