package client

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/wire"
)

// IdleFlush is how long held text may wait while no frame comes: a model that
// writes a long tool argument must not hide what it said before.
const IdleFlush = 1500 * time.Millisecond

// Source opens the frames of the watched session. Run pulls them once, and ends
// the context it gave when it is done with them, on every way out.
type Source func(context.Context) iter.Seq2[wire.Frame, error]

// Timer starts a timer; stop releases it. A host gives one made of time.NewTimer.
type Timer func(time.Duration) (fired <-chan time.Time, stop func())

// Ports is what only a host can do. Each is optional: not given is off.
type Ports struct {
	// Timer is needed for every wait: without it live text passes through as it
	// comes, and an abort is over when the server has been told.
	Timer Timer
	// Coalesce is the cadence at which live text is let go; 0 lets it through.
	Coalesce time.Duration
	// Abort tells the server to stop the run. It is called once, when the
	// context of Run ends first.
	Abort func(context.Context) error
	// AbortWait bounds how long the end of an aborted run is waited for; 0 does
	// not wait.
	AbortWait time.Duration
	// GiveUp ends the wait of an abort early.
	GiveUp <-chan struct{}
	// Parked is asked when a run waits for a person and for nothing else, one call at a
	// time: whether the watch goes on, since somebody decided, or ends with the run
	// paused. It ends with its context. Not given, the watch waits.
	Parked func(context.Context) (decided bool)
	// Dropped hears of frames that gave no output.
	Dropped func(Drop)
}

// ErrNoLane is an output without proof of its lane: a defect of who made it.
var ErrNoLane = errors.New("client: an output without proof of its lane was refused")

// Run drives the state with the frames of src and hands the outputs to sink, one
// at a time. It returns when the watched operation has ended, or the stream has,
// or the context has and the abort leg is through. A watch of a whole strand goes
// on over the ends of its runs.
//
// The ending is never nil, and sink has heard it as a [plane.RunClosed] before Run
// returns, unless sink itself failed: then its error is returned as well, and
// nothing more is put out.
func Run(ctx context.Context, s *State, src Source, sink func(plane.Output) error, p Ports) (plane.Ending, error) {
	// The frames outlive ctx: an aborted run still has an end to tell.
	pull, stop := context.WithCancel(context.WithoutCancel(ctx))
	d := &driver{state: s, sink: sink, ports: p, oneRun: !s.watch.Operation.IsZero()}
	frames := make(chan pulled)
	d.tasks.Go(func() {
		defer close(frames)
		for f, err := range src(pull) {
			select {
			case frames <- pulled{f, err}:
			case <-pull.Done():
				return
			}
			if err != nil {
				return
			}
		}
	})
	defer d.tasks.Wait()
	defer d.cadence.stop()
	defer d.idle.stop()
	defer d.patience.stop()
	defer stop()

	err := d.loop(ctx, pull, frames)
	if err != nil {
		s.Lose(plane.OutputFailed, err)
	}
	return s.ending, err
}

type pulled struct {
	frame wire.Frame
	err   error
}

type driver struct {
	state    *State
	sink     func(plane.Output) error
	ports    Ports
	oneRun   bool
	merge    Coalescer
	cadence  alarm // lets held text go
	idle     alarm // lets held text go when no frame comes
	patience alarm // ends the abort leg
	aborted  chan error
	parked   chan bool // answers Parked; nil: it is not being asked
	parks    int       // how often the run was parked when it was asked
	tasks    sync.WaitGroup
}

// alarm is one timer, armed or not.
type alarm struct {
	fired <-chan time.Time
	off   func()
}

func (a *alarm) set(t Timer, d time.Duration) {
	a.stop()
	if t != nil && d > 0 {
		a.fired, a.off = t(d)
	}
}

func (a *alarm) stop() {
	if a.off != nil {
		a.off()
	}
	*a = alarm{}
}

// loop is all the waiting there is. It returns an error only when sink failed;
// otherwise the state has an ending.
func (d *driver) loop(ctx, pull context.Context, frames <-chan pulled) error {
	done, giveUp := ctx.Done(), (<-chan struct{})(nil)
	leaving := false // in the abort leg
	for {
		select {
		case got, ok := <-frames:
			switch {
			case ok && got.err == nil:
			case leaving: // asked to stop: that is why the end was not waited for
				return d.lose(plane.Interrupted, context.Cause(ctx))
			case !ok:
				return d.lose(plane.StreamClosed, nil)
			default:
				return d.lose(plane.StreamBroke, got.err)
			}
			if err := d.step(got.frame); err != nil {
				return err
			}
			if d.oneRun && d.state.ending != nil {
				return nil
			}
			if !leaving {
				d.park(ctx)
			}
		case decided := <-d.parked:
			d.parked = nil
			switch parked, times := d.state.Parked(); {
			case leaving || !parked: // or somebody else decided meanwhile
			case !decided && times == d.parks:
				return d.put(d.state.Leave())
			default:
				d.park(ctx)
			}
		case <-d.cadence.fired:
			if err := d.flush(); err != nil {
				return err
			}
		case <-d.idle.fired:
			if err := d.flush(); err != nil {
				return err
			}
		case <-done:
			done, leaving = nil, true
			if err := d.flush(); err != nil {
				return err
			}
			if d.ports.Abort == nil {
				return d.lose(plane.Interrupted, context.Cause(ctx))
			}
			d.abort(pull)
			giveUp = d.ports.GiveUp
		case err := <-d.aborted:
			d.aborted = nil
			if err != nil {
				return d.lose(plane.Interrupted, err)
			}
			if d.patience.fired == nil { // told, and no waiting for the end
				return d.lose(plane.Interrupted, context.Cause(ctx))
			}
		case <-d.patience.fired:
			return d.lose(plane.Interrupted, context.Cause(ctx))
		case <-giveUp:
			return d.lose(plane.Interrupted, context.Cause(ctx))
		}
	}
}

// step takes one frame.
func (d *driver) step(f wire.Frame) error {
	outs := d.state.Step(f)
	if d.ports.Dropped != nil {
		for _, drop := range d.state.LastDrops() {
			d.ports.Dropped(drop)
		}
	}
	held := d.merge.Holds()
	for _, o := range outs {
		if err := d.put(d.merge.Add(o)); err != nil {
			return err
		}
	}
	if d.ports.Timer == nil || d.ports.Coalesce <= 0 || d.state.ending != nil {
		return d.flush()
	}
	d.arm(held)
	return nil
}

// arm sets the timers for what is held now.
func (d *driver) arm(heldBefore bool) {
	if !d.merge.Holds() {
		d.cadence.stop()
		d.idle.stop()
		return
	}
	if !heldBefore || d.cadence.fired == nil {
		d.cadence.set(d.ports.Timer, d.ports.Coalesce)
	}
	if d.ports.Coalesce > IdleFlush {
		d.idle.set(d.ports.Timer, IdleFlush)
	}
}

func (d *driver) flush() error {
	d.cadence.stop()
	d.idle.stop()
	return d.put(d.merge.Flush())
}

func (d *driver) put(outs []plane.Output) error {
	for _, o := range outs {
		if !o.Valid() {
			return ErrNoLane
		}
		if err := d.sink(o); err != nil {
			return err
		}
	}
	return nil
}

// park asks the host about a run that waits for a person, unless it is being asked.
func (d *driver) park(ctx context.Context) {
	parked, times := d.state.Parked()
	if !parked || d.parked != nil || d.ports.Parked == nil || times == d.parks {
		return
	}
	asked := make(chan bool, 1)
	d.parked, d.parks = asked, times
	d.tasks.Go(func() { asked <- d.ports.Parked(ctx) })
}

// abort starts the abort leg: the server is told, and the run's end waited for.
func (d *driver) abort(pull context.Context) {
	answered := make(chan error, 1)
	d.aborted = answered
	d.tasks.Go(func() { answered <- d.ports.Abort(pull) })
	d.patience.set(d.ports.Timer, d.ports.AbortWait)
}

// lose is the tail leg: the run's end will not be seen, and that is said.
func (d *driver) lose(why plane.LostWord, err error) error {
	if ferr := d.flush(); ferr != nil {
		return ferr
	}
	return d.put(d.state.Lose(why, err))
}
