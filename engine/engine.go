package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/automation"
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
	active  int           // drivers with an open operation, and jobs
	changed chan struct{} // closed and replaced when an operation of any strand ends or a strand stops
	jobs    map[string]*liveJob
	closed  bool
	driven  map[string]bool // the strands that have a driver; nil until Start

	schedules []automation.Recorded
	dated     bool // schedules are those of the store
	era       int  // how often they may have changed

	spawning sync.Mutex // held from the count of agents until another one is there

	work  chan struct{} // room for one: a driver has an operation
	facts sync.Mutex    // keeps facts in order
}

// Open makes an engine over an open session and gives it an identity. Nothing
// runs before [Engine.Start].
func Open(cfg Config) (*Engine, error) {
	e := &Engine{cfg: cfg, drivers: make(map[string]*Driver), jobs: make(map[string]*liveJob), changed: make(chan struct{}), work: make(chan struct{}, 1)}
	self, _, err := cfg.Session.EnsureID(e.generator())
	if err != nil {
		return nil, err
	}
	e.id = self
	e.writer = &writer{store: cfg.Session.Store(), notify: e.observe, meter: cfg.Meter}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e, nil
}

// ID returns the session's identity.
func (e *Engine) ID() id.SessionID { return e.id }

// Session returns the session for reads.
func (e *Engine) Session() *session.Session { return e.cfg.Session }

// Start seeds the main strand if it is new and starts a driver for every strand;
// an interrupted operation goes on. A strand whose registers cannot be read is
// stopped, and takes no other down. It is called once. After an error the caller
// closes the engine: some drivers may run.
func (e *Engine) Start(main machine.Configuration) error {
	if err := e.cfg.Session.EnsureStrand(session.MainStrand, main); err != nil {
		return err
	}
	if err := e.loseJobs(); err != nil {
		return err
	}
	if err := e.armSchedules(); err != nil {
		return err
	}
	e.mu.Lock()
	e.driven = make(map[string]bool)
	e.mu.Unlock()
	strands, err := e.cfg.Session.Strands() // one that is made from here on is driven by whoever makes it
	if err != nil {
		return err
	}
	for _, name := range strands {
		if err := e.resume(name); err != nil {
			return err
		}
	}
	return e.join(e.keepLease)
}

// resumed is the fact of an operation that a strand was left with. One that cannot
// be read is told as a run: its driver says what is wrong with it.
func (e *Engine) resumed(strand string, op id.OpID) Fact {
	if meta, ok, err := e.cfg.Session.OpMeta(op); err == nil && ok {
		return started(meta.Value, true)
	}
	return RunStarted{strand, op, true}
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

// operation reads an operation that is open.
func (e *Engine) operation(op id.OpID) (meta machine.Operation, st session.Cell[machine.State], ok bool, err error) {
	err = e.cfg.Session.Within(func(s *session.View) (err error) {
		meta, st, ok, err = operation(s, op)
		return err
	})
	return meta, st, ok, err
}

func operation(s *session.View, op id.OpID) (machine.Operation, session.Cell[machine.State], bool, error) {
	meta, ok, err := s.OpMeta(op)
	if err != nil || !ok {
		return machine.Operation{}, session.Cell[machine.State]{}, false, err
	}
	st, ok, err := s.OpState(op)
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
			return noStrand(strand)
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
		now := e.cfg.Clock()
		if t, changed := machine.RequestAbort(meta, st.Value, st.Seq, now); changed {
			_, err = e.writer.commit(t, nil, gatesIn(t, meta, st.Value, now))
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

// Await blocks until an operation has a result, is paused ([*Paused]), its strand
// stopped, or ctx ends. An operation that is not there is ErrNoOperation.
func (e *Engine) Await(ctx context.Context, strand string, op id.OpID) (machine.LastResult, error) {
	d := e.Driver(strand)
	for {
		changed := d.next() // of this strand alone: many wait, and each ends once
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
		if p := e.paused(strand, op); p != nil {
			return machine.LastResult{}, p
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
