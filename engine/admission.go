package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
)

// Prompt is input for a strand.
type Prompt struct {
	Content  []message.UserBlock
	Origin   *message.Origin
	MaxTurns *int64 // nil: unlimited; counted from this prompt's run
	Delivery Delivery
}

// Delivery says when a busy strand takes a prompt. An idle one takes it at once.
type Delivery uint8

// The deliveries. Where no run is open that could take a prompt, because it was
// aborted or the strand works on something else, a run of its own follows.
const (
	WhenDone Delivery = iota // when the open run would finish
	AtOnce                   // before the next request of the open run
)

// Receipt says what became of a prompt. Both ways it is durable.
type Receipt struct {
	Queued bool    // the strand was busy
	Op     id.OpID // the run that takes it; absent when that is one that follows
	Entry  id.EntryID
	Seq    int64
}

// admissionTries bounds the race against the driver's own commits; each try
// loads fresh state.
const admissionTries = 100

// Prompt accepts input, as a new run or into the queue of the open one. Input that
// says nothing is machine.ErrInvalidMessage: kept in the history, it would fail
// later requests of providers that refuse it.
func (e *Engine) Prompt(strand string, p Prompt) (Receipt, error) {
	if err := e.usable(strand); err != nil {
		return Receipt{}, err
	}
	if !slices.ContainsFunc(p.Content, saysSomething) {
		return Receipt{}, machine.ErrInvalidMessage
	}
	msg := &message.User{Content: p.Content, Timestamp: e.cfg.Clock(), Origin: p.Origin}
	for range admissionTries {
		r, err := e.admit(strand, msg, p)
		if _, stale := errors.AsType[*tx.StaleExpectation](err); stale {
			continue
		}
		if err == nil {
			e.Driver(strand).Ring()
		}
		return r, err
	}
	return Receipt{}, fmt.Errorf("the strand %s changed faster than the prompt could be accepted; it was not taken, send it again", strand)
}

func saysSomething(b message.UserBlock) bool {
	t, isText := b.(message.Text)
	return !isText || t.Text != ""
}

func (e *Engine) usable(strand string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	if d := e.drivers[strand]; d != nil {
		return d.failure()
	}
	return nil
}

func (e *Engine) admit(strand string, msg message.Message, p Prompt) (Receipt, error) {
	state, ok, err := e.cfg.Session.StrandState(strand)
	if err != nil {
		return Receipt{}, err
	}
	if !ok {
		return Receipt{}, noStrand(strand)
	}
	if op := state.Value.CurrentOperation; !op.IsZero() {
		return e.enqueue(strand, state, msg, p)
	}
	op, r, err := e.accept(strand, state, []message.Message{msg}, p.MaxTurns)
	if err != nil {
		return Receipt{}, err
	}
	run, _ := op.Intent.(machine.RunIntent) // what was accepted is a run, and the prompt is its last
	return Receipt{Op: op.ID, Entry: run.PromptEntryIDs[len(run.PromptEntryIDs)-1], Seq: r.Newest()}, nil
}

func noStrand(name string) error { return fmt.Errorf("there is no strand %q in this session", name) }

// accept starts a run of what is queued for it and of prompts.
func (e *Engine) accept(strand string, state session.Cell[machine.StrandState], prompts []message.Message, maxTurns *int64) (machine.Operation, tx.Result, error) {
	s := e.cfg.Session
	in, err := e.acceptance(strand, state)
	if err != nil {
		return machine.Operation{}, tx.Result{}, err
	}
	in.Prompts, in.Settings = prompts, e.cfg.Settings
	in.Settings.MaxTurns = maxTurns
	if in.Pending, err = s.PendingEntries(state.Value.PendingNextRun...); err != nil {
		return machine.Operation{}, tx.Result{}, err
	}
	op, _, t, err := machine.AcceptRun(in)
	if err != nil {
		if now, ok, again := s.StrandState(strand); again == nil && ok && now.Seq != state.Seq {
			err = moved(strand, state.Seq) // the queue was read while it was being emptied
		}
		return machine.Operation{}, tx.Result{}, err
	}
	r, err := e.writer.commit(t, started(op, false), nil)
	return op, r, err
}

// enqueue hands input to the open run, or, when that takes none any more, to a
// run that follows.
func (e *Engine) enqueue(strand string, state session.Cell[machine.StrandState], msg message.Message, p Prompt) (Receipt, error) {
	op, st, ok, err := e.operation(state.Value.CurrentOperation)
	if err != nil {
		return Receipt{}, err
	}
	if !ok { // it ended since the strand's state was read
		return Receipt{}, moved(strand, state.Seq)
	}
	queue := machine.QueueFollowUp
	if p.Delivery == AtOnce {
		queue = machine.QueueSteer
	}
	pending := machine.PendingMessage(msg)
	i, t, err := machine.Admit(op, st.Value, st.Seq, queue, pending, e.generator())
	taken := op.ID
	if errors.Is(err, machine.ErrNoActiveRun) {
		i, t = machine.AdmitNextRun(strand, state.Value, state.Seq, pending, &machine.Start{MaxTurns: p.MaxTurns}, e.generator())
		taken, err = id.OpID{}, nil
	}
	if err != nil {
		return Receipt{}, err
	}
	r, err := e.writer.commit(t, nil, QueueChanged{strand})
	if err != nil {
		return Receipt{}, err
	}
	return Receipt{Queued: true, Op: taken, Entry: i, Seq: r.Newest()}, nil
}

// moved says that a plan was made from a state of the strand that is past.
func moved(strand string, seq int64) error {
	return &tx.StaleExpectation{Failed: tx.Expect(register.StrandState, strand, seq)}
}
