package projection

import (
	"context"
	"sync"

	"github.com/loom-run/loom/events"
	"github.com/loom-run/loom/storage"
)

// Opener shows the rows of a session in one committed state. It is asked afresh each time:
// a rewrite puts another file in the place of the one that was open.
type Opener func(f func(storage.Reader) error) error

// Options say what a driver drives.
type Options[S any] struct {
	Open       Opener
	Projection Projection[S]
	Checkpoint Checkpoint[S]     // nil: [Ephemeral]
	Bus        *events.Bus       // nil: there are no hints but [Driver.Poke]
	Session    events.SessionKey // on that bus
	Warn       func(error)       // hears of a pull that failed and that nobody waits for; nil: nobody does
}

// Driver keeps one read model up to date. Its methods may be called side by side.
type Driver[S any] struct {
	o    Options[S]
	stop context.CancelFunc
	poke chan struct{}
	done chan struct{}

	pulling sync.Mutex // one at a time
	mu      sync.Mutex // guards what follows
	now     Saved[S]
}

// Start begins to drive. The first pull is not waited for: [Driver.Read] gives the state of
// the checkpoint until then, or the empty one.
func Start[S any](ctx context.Context, o Options[S]) *Driver[S] {
	if o.Checkpoint == nil {
		o.Checkpoint = Ephemeral[S]()
	}
	if o.Warn == nil {
		o.Warn = func(error) {}
	}
	ctx, stop := context.WithCancel(ctx)
	d := &Driver[S]{o: o, stop: stop, poke: make(chan struct{}, 1), done: make(chan struct{})}
	saved, ok, err := o.Checkpoint.Load()
	if err != nil {
		o.Warn(fault(o.Projection, err))
	}
	if d.now = saved; !ok || err != nil {
		d.now = Saved[S]{State: o.Projection.New(), Generation: unknown}
	}
	var hints <-chan events.Published
	if o.Bus != nil {
		hints = o.Bus.SubscribeHints(ctx, o.Session).Events() // from here on: what is committed after this is heard
	}
	go d.run(ctx, hints)
	return d
}

// unknown is the generation of a state that is of none.
const unknown = -1

func (d *Driver[S]) run(ctx context.Context, hints <-chan events.Published) {
	defer close(d.done)
	for {
		if err := d.pull(); err != nil {
			d.o.Warn(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-d.poke:
		case _, open := <-hints:
			if !open {
				hints = nil // the subscription is over; who pokes is still heard
				continue
			}
			drain(hints) // one look answers all that were told so far
		}
	}
}

// drain takes what waits.
func drain(hints <-chan events.Published) {
	for {
		select {
		case _, open := <-hints:
			if !open {
				return
			}
		default:
			return
		}
	}
}

// pullRows is how many changes are folded while one state of the session is held: a store may
// keep commits waiting for that long.
const pullRows = 4096

// pull folds what is new, or everything where the session was rewritten.
func (d *Driver[S]) pull() error {
	d.pulling.Lock()
	defer d.pulling.Unlock()
	d.mu.Lock()
	was := d.now
	d.mu.Unlock()
	next, more := was, true
	var err error
	for more && err == nil {
		err = d.o.Open(func(rows storage.Reader) error {
			snap, err := rows.Snapshot()
			if err != nil {
				return err
			}
			if snap.Generation != next.Generation {
				next = Saved[S]{State: d.o.Projection.New(), Generation: snap.Generation}
			}
			next.State, next.High, more, err = step(rows, d.o.Projection, next.State, next.High, pullRows)
			return err
		})
	}
	if err != nil {
		if _, ok := err.(*Fault); !ok { //nolint:errorlint // it is named once
			err = fault(d.o.Projection, err)
		}
		return err
	}
	if next.High == was.High && next.Generation == was.Generation {
		return nil
	}
	d.mu.Lock()
	d.now = next
	d.mu.Unlock()
	if err := d.o.Checkpoint.Save(next); err != nil {
		d.o.Warn(fault(d.o.Projection, err)) // it costs a longer catch-up
	}
	return nil
}

// Poke asks for a look, and does not wait.
func (d *Driver[S]) Poke() {
	select {
	case d.poke <- struct{}{}:
	default:
	}
}

// Read is the state as it is, and the seq up to which it is of.
func (d *Driver[S]) Read() (S, int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now.State, d.now.High
}

// Sync looks now, and returns the state; or the last good one, and why there is no newer.
func (d *Driver[S]) Sync() (S, error) {
	err := d.pull()
	s, _ := d.Read()
	return s, err
}

// Close ends the driver and waits for a pull that is on.
func (d *Driver[S]) Close() {
	d.stop()
	<-d.done
}
