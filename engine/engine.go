package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
)

// ErrClosed is returned by an engine that was closed.
var ErrClosed = errors.New("the session was closed")

// ErrNoOperation says that an operation is neither open nor finished.
var ErrNoOperation = errors.New("there is no such operation in this session")

// Engine runs one open session.
type Engine struct {
	cfg    Config
	id     id.SessionID
	writer *writer

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex // guards what follows
	drivers map[string]*Driver
	active  int           // drivers with an open operation
	changed chan struct{} // closed and replaced when an operation ends or a strand stops
	closed  bool

	facts sync.Mutex // keeps facts in order
}

// Open makes an engine over an open session and gives it an identity. Nothing
// runs before [Engine.Start].
func Open(cfg Config) (*Engine, error) {
	e := &Engine{cfg: cfg, drivers: make(map[string]*Driver), changed: make(chan struct{})}
	self, _, err := cfg.Session.EnsureID(e.generator())
	if err != nil {
		return nil, err
	}
	e.id = self
	e.writer = &writer{store: cfg.Session.Store(), notify: e.observe}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e, nil
}

// ID returns the session's identity.
func (e *Engine) ID() id.SessionID { return e.id }

// Session returns the session for reads.
func (e *Engine) Session() *session.Session { return e.cfg.Session }

// Start seeds the main strand if it is new and starts a driver for every strand;
// an interrupted operation goes on. It is called once. After an error the caller
// closes the engine: some drivers may run.
func (e *Engine) Start(main machine.Configuration) error {
	if err := e.cfg.Session.EnsureStrand(session.MainStrand, main); err != nil {
		return err
	}
	strands, err := e.cfg.Session.Strands()
	if err != nil {
		return err
	}
	for _, name := range strands {
		d := e.Driver(name)
		if op, ok, err := d.open(); err != nil {
			return err
		} else if ok {
			e.observe(RunStarted{Strand: name, Op: op, Resumed: true})
		}
		if err := e.join(func() { d.run(e.ctx) }); err != nil {
			return err
		}
	}
	return e.join(e.keepLease)
}

// join starts a goroutine that Close waits for.
func (e *Engine) join(f func()) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	e.wg.Go(f)
	return nil
}

// Driver returns the driver of a strand. A scheduler that calls Step itself uses
// it instead of Start.
func (e *Engine) Driver(strand string) *Driver {
	e.mu.Lock()
	defer e.mu.Unlock()
	d := e.drivers[strand]
	if d == nil {
		d = newDriver(e, strand)
		e.drivers[strand] = d
	}
	return d
}

// Close stops the drivers and waits until nothing of them runs; from then on
// nothing is committed. To the session it is what a crash would be: outcomes of
// effects that it cancels are not recorded, and an open operation goes on at the
// next opening. The session stays open; its owner closes it.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	e.wg.Wait()
	e.writer.end(ErrClosed)
	for _, d := range e.all() {
		d.forget()
	}
}

func (e *Engine) all() []*Driver {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.drivers))
}

func (e *Engine) observe(f Fact) {
	if e.cfg.Observe == nil {
		return
	}
	e.facts.Lock()
	defer e.facts.Unlock()
	e.cfg.Observe(f)
}

func (e *Engine) generator() id.Generator {
	return id.NewGenerator(clock.Real(e.cfg.Clock), e.cfg.Entropy())
}

// Prompt is input for a strand.
type Prompt struct {
	Content  []message.UserBlock
	Origin   *message.Origin
	MaxTurns *int64 // nil: unlimited; counted from this prompt's run
}

// Receipt says what became of a prompt. Both ways it is durable.
type Receipt struct {
	Queued bool    // the strand was busy: it is taken when the open run would finish
	Op     id.OpID // the run that takes it; absent when it waits for the next one
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
		r, err := e.admit(strand, msg, p.MaxTurns)
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

func (e *Engine) admit(strand string, msg message.Message, maxTurns *int64) (Receipt, error) {
	s := e.cfg.Session
	state, ok, err := s.StrandState(strand)
	if err != nil {
		return Receipt{}, err
	}
	if !ok {
		return Receipt{}, fmt.Errorf("there is no strand %q in this session", strand)
	}
	if op := state.Value.CurrentOperation; !op.IsZero() {
		return e.enqueue(strand, state, msg)
	}
	leaf, _, err := s.StrandLeaf(strand)
	if err != nil {
		return Receipt{}, err
	}
	pending, err := s.PendingEntries(state.Value.PendingNextRun...)
	if err != nil {
		return Receipt{}, err
	}
	settings := e.cfg.Settings
	settings.MaxTurns = maxTurns
	op, _, t, err := machine.AcceptRun(machine.AcceptInputs{
		Now: e.cfg.Clock(), IDs: e.generator(), Strand: strand,
		State: state.Value, StateSeq: state.Seq, Leaf: leaf.Value, LeafSeq: leaf.Seq,
		Pending: pending, Prompts: []message.Message{msg}, Settings: settings,
	})
	if err != nil {
		if now, ok, again := s.StrandState(strand); again == nil && ok && now.Seq != state.Seq {
			return Receipt{}, moved(strand, state.Seq) // the queue was read while it was being emptied
		}
		return Receipt{}, err
	}
	r, err := e.writer.commit(t, RunStarted{Strand: strand, Op: op.ID}, nil)
	if err != nil {
		return Receipt{}, err
	}
	prompts := op.Intent.(machine.RunIntent).PromptEntryIDs
	return Receipt{Op: op.ID, Entry: prompts[len(prompts)-1], Seq: r.Seqs[len(r.Seqs)-1]}, nil
}

// enqueue hands input to the open run as a follow-up, or, when that run takes
// none any more, to the strand's next run.
func (e *Engine) enqueue(strand string, state session.Cell[machine.StrandState], msg message.Message) (Receipt, error) {
	op, st, ok, err := e.operation(state.Value.CurrentOperation)
	if err != nil {
		return Receipt{}, err
	}
	if !ok { // it ended since the strand's state was read
		return Receipt{}, moved(strand, state.Seq)
	}
	pending := machine.PendingMessage(msg)
	i, t, err := machine.Admit(op, st.Value, st.Seq, machine.QueueFollowUp, pending, e.generator())
	taken := op.ID
	if errors.Is(err, machine.ErrNoActiveRun) {
		i, t = machine.AdmitNextRun(strand, state.Value, state.Seq, pending, e.generator())
		taken, err = id.OpID{}, nil
	}
	if err != nil {
		return Receipt{}, err
	}
	r, err := e.writer.commit(t, nil, nil)
	if err != nil {
		return Receipt{}, err
	}
	return Receipt{Queued: true, Op: taken, Entry: i, Seq: r.Seqs[len(r.Seqs)-1]}, nil
}

// moved says that a plan was made from a state of the strand that is past.
func moved(strand string, seq int64) error {
	return &tx.StaleExpectation{Failed: tx.Expect(register.StrandState, strand, seq)}
}

func (e *Engine) operation(op id.OpID) (machine.Operation, session.Cell[machine.State], bool, error) {
	meta, ok, err := e.cfg.Session.OpMeta(op)
	if err != nil || !ok {
		return machine.Operation{}, session.Cell[machine.State]{}, false, err
	}
	st, ok, err := e.cfg.Session.OpState(op)
	return meta.Value, st, ok, err
}

// Current returns the operation that a strand works on.
func (e *Engine) Current(strand string) (id.OpID, bool, error) {
	state, ok, err := e.cfg.Session.StrandState(strand)
	return state.Value.CurrentOperation, ok && !state.Value.CurrentOperation.IsZero(), err
}

// Configure changes what the next steps of a strand use.
func (e *Engine) Configure(strand string, change func(machine.Configuration) machine.Configuration) error {
	for range admissionTries {
		c, ok, err := e.cfg.Session.StrandConfig(strand)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("there is no strand %q in this session", strand)
		}
		next := change(c.Value).Value()
		if next.Equal(c.Value.Value()) {
			return nil
		}
		_, err = e.writer.commit(tx.Tx{
			Writes:   []tx.Write{tx.Set(register.StrandConfig, strand, next)},
			Expected: []tx.Expectation{tx.Expect(register.StrandConfig, strand, c.Seq)},
		}, nil, nil)
		if _, stale := errors.AsType[*tx.StaleExpectation](err); !stale {
			return err
		}
	}
	return fmt.Errorf("the configuration of strand %q changed faster than it could be set", strand)
}

// Abort asks the open run of a strand to end. The marker is durable before
// anything is cancelled; the first abort wins. ok is false when nothing runs.
func (e *Engine) Abort(strand string) (op id.OpID, ok bool, err error) {
	for range admissionTries {
		op, ok, err = e.Current(strand)
		if err != nil || !ok {
			return op, false, err
		}
		meta, st, found, err := e.operation(op)
		if err != nil {
			return op, false, err
		}
		if !found {
			continue
		}
		if t, changed := machine.RequestAbort(meta, st.Value, st.Seq, e.cfg.Clock()); changed {
			_, err = e.writer.commit(t, nil, nil)
			if _, stale := errors.AsType[*tx.StaleExpectation](err); stale {
				continue
			}
			if err != nil {
				return op, false, err
			}
		}
		e.Driver(strand).abort(op)
		return op, true, nil
	}
	return op, false, fmt.Errorf("the run of strand %q changed faster than it could be aborted; try again", strand)
}

// Await blocks until an operation has a result, its strand stopped, or ctx ends.
// An operation that is not there is ErrNoOperation.
func (e *Engine) Await(ctx context.Context, strand string, op id.OpID) (machine.LastResult, error) {
	for {
		e.mu.Lock()
		changed := e.changed
		e.mu.Unlock()
		r, ok, err := e.cfg.Session.OperationResult(op)
		if err != nil || ok {
			return r.Value, err
		}
		if err := e.exists(op); err != nil {
			return machine.LastResult{}, err
		}
		if err := e.usable(strand); err != nil {
			return machine.LastResult{}, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return machine.LastResult{}, ctx.Err()
		case <-e.ctx.Done():
			return machine.LastResult{}, ErrClosed
		}
	}
}

// exists reports ErrNoOperation unless an operation is open or finished. The
// terminal transaction replaces one by the other, so they are read in that order.
func (e *Engine) exists(op id.OpID) error {
	_, open, err := e.cfg.Session.OpMeta(op)
	if err != nil || open {
		return err
	}
	if _, finished, err := e.cfg.Session.OperationResult(op); err != nil || finished {
		return err
	}
	return ErrNoOperation
}

// wake tells those who wait that an operation ended or a strand stopped.
func (e *Engine) wake() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.changed)
	e.changed = make(chan struct{})
}

// leaser is the part of a store that must be renewed while work goes on.
type leaser interface {
	RenewLease() error
	LeaseInterval() time.Duration
}

// keepLease renews while an operation is open. An idle session writes nothing.
func (e *Engine) keepLease() {
	l, ok := e.cfg.Session.Store().(leaser)
	if !ok || l.LeaseInterval() <= 0 {
		return
	}
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-e.cfg.After(l.LeaseInterval()):
		}
		e.mu.Lock()
		busy := e.active > 0
		e.mu.Unlock()
		if !busy {
			continue
		}
		if lost, ok := errors.AsType[*tx.LeaseLost](l.RenewLease()); ok {
			e.lose(lost)
			return
		}
		// Any other failure shows itself at the next commit, which is where it matters.
	}
}

// lose stops what runs: another process is the writer now, and may already be
// recovering the operation that these effects belong to.
func (e *Engine) lose(lost *tx.LeaseLost) {
	e.writer.end(lost)
	for _, d := range e.all() {
		d.ground()
		d.Ring()
	}
}
