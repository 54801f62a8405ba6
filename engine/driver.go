package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
)

// Progress is what one pass did.
type Progress uint8

// The kinds of progress.
const (
	Idle    Progress = iota // the strand has no operation
	Moved                   // something was committed or asked: call Step again
	Waiting                 // for an effect, for input, or for a time
)

// Pass is the outcome of [Driver.Step].
type Pass struct {
	Progress Progress
	Until    int64 // Unix ms of the next thing that time alone makes happen; 0: none
}

// Driver drives one strand.
type Driver struct {
	e      *Engine
	strand string
	bell   chan struct{} // content-free, one is enough
	gate   turnstile

	mu           sync.Mutex // guards what follows
	observations []observed
	flights      map[string]*flight
	clearances   map[string]Clearance
	aborted      id.OpID
	working      bool
	err          error

	cache branchCache // used by the generation in flight; there is never more than one
	batch struct {    // used by the goroutine that steps
		id     id.EntryID
		source *message.Assistant
	}
}

type observed struct {
	op   id.OpID
	what machine.Observation
}

// flight is an effect that runs.
type flight struct {
	op     id.OpID
	cancel context.CancelFunc
}

func newDriver(e *Engine, strand string) *Driver {
	return &Driver{
		e: e, strand: strand, bell: make(chan struct{}, 1),
		flights: make(map[string]*flight), clearances: make(map[string]Clearance),
	}
}

// Ring wakes the driver. Losing a ring costs nothing but time.
func (d *Driver) Ring() {
	select {
	case d.bell <- struct{}{}:
	default:
	}
}

func (d *Driver) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// open returns the operation that the strand was left with.
func (d *Driver) open() (id.OpID, bool, error) { return d.e.Current(d.strand) }

// fuel bounds the passes without a wait: no operation needs as many, so more are
// a fault of ours that must not burn the machine.
const fuel = 10_000

// loop steps until the engine closes or the strand stops.
func (d *Driver) loop(ctx context.Context) {
	var flights sync.WaitGroup
	defer flights.Wait()
	defer d.cancelAll()
	for spent := 0; ; {
		pass, err := d.Step(func(f func()) { flights.Go(f) })
		if err == nil && pass.Progress == Moved {
			if spent++; spent <= fuel {
				continue
			}
			err = fmt.Errorf("strand %s made %d steps without waiting for anything; it was stopped", d.strand, fuel)
		}
		if err != nil {
			d.stop(err)
			return
		}
		spent = 0
		d.note(pass.Progress != Idle)
		var timer <-chan time.Time
		if pass.Until > 0 {
			timer = d.e.cfg.After(time.Duration(max(pass.Until-d.e.cfg.Clock(), 1)) * time.Millisecond)
		}
		select {
		case <-ctx.Done():
			return
		case <-d.bell:
		case <-timer:
		}
	}
}

// note keeps the engine's count of strands at work.
func (d *Driver) note(working bool) {
	d.mu.Lock()
	changed := working != d.working
	d.working = working
	d.mu.Unlock()
	if !changed {
		return
	}
	d.e.mu.Lock()
	defer d.e.mu.Unlock()
	if working {
		d.e.active++
	} else {
		d.e.active--
	}
}

// stop ends the strand in this process. What is committed stays as it is.
func (d *Driver) stop(err error) {
	d.mu.Lock()
	d.err = fmt.Errorf("the session stopped and keeps everything up to its last commit: %w", err)
	err = d.err
	d.mu.Unlock()
	op, _, _ := d.open()
	d.e.observe(StrandStopped{d.strand, op, err})
	d.note(false)
	d.e.wake()
}

// Step makes one pass: load, decide, act. spawn starts a worker for an effect.
// An error stops the strand; the caller must not step again.
func (d *Driver) Step(spawn func(func())) (Pass, error) {
	l, ok, err := d.load()
	if err != nil || !ok {
		return Pass{Progress: Idle}, err
	}
	obs := d.next(l.op.ID)
	l.in.Observation = obs
	switch a := machine.NextAction(l.op, l.st, l.in).(type) {
	case machine.Transition:
		return d.commit(a.Tx, obs, func() { d.announce(l.op.ID, a.Next) })
	case machine.Dispatch:
		return d.commit(a.Tx, obs, func() { d.start(spawn, l, a.Effect) })
	case machine.Finish:
		return d.commit(a.Tx, obs, func() {
			d.forget()
			d.e.observe(RunFinished{d.strand, l.op.ID})
			d.e.wake()
		})
	case machine.AwaitEffect:
		return d.await(l, a.Key)
	case machine.Wait:
		return Pass{Waiting, a.Until}, nil
	case machine.Fault:
		return Pass{}, a.Report
	}
	return Pass{}, errors.New("machine returned no action")
}

// commit applies a plan. A stale one is planned again from fresh state, with the
// observation still first in line.
func (d *Driver) commit(t tx.Tx, consumed machine.Observation, then func()) (Pass, error) {
	_, err := d.e.writer.commit(t)
	if _, stale := errors.AsType[*tx.StaleExpectation](err); stale {
		return Pass{Progress: Moved}, nil
	}
	if err != nil {
		return Pass{}, err
	}
	if consumed != nil {
		d.mu.Lock()
		d.observations = d.observations[1:]
		d.mu.Unlock()
	}
	then()
	return Pass{Progress: Moved}, nil
}

// announce tells watchers of a wait that a transition began.
func (d *Driver) announce(op id.OpID, st machine.State) {
	run, ok := st.Work.(*machine.Run)
	if !ok {
		return
	}
	g, ok := run.Phase.(machine.Generating)
	if !ok {
		return
	}
	if w, ok := g.Generation.(machine.GenRetryWait); ok {
		d.e.observe(RetryScheduled{d.strand, op, w.NextAttempt, w.NotBefore, w.ErrorMessage})
	}
}

// next returns the oldest report about op; reports about operations that ended
// are dropped.
func (d *Driver) next(op id.OpID) machine.Observation {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.observations) > 0 && d.observations[0].op != op {
		d.observations = d.observations[1:]
	}
	if len(d.observations) == 0 {
		return nil
	}
	return d.observations[0].what
}

func (d *Driver) report(op id.OpID, what machine.Observation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.observations = append(d.observations, observed{op, what})
}

// forget drops what belonged to an operation that ended.
func (d *Driver) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.observations = nil
	clear(d.clearances)
	d.batch.id, d.batch.source = id.EntryID{}, nil
}

// loaded is what one pass read.
type loaded struct {
	op machine.Operation
	st machine.State
	in machine.Inputs
}

// load reads the strand's operation and everything its state names. ok is false
// when the strand is idle.
func (d *Driver) load() (loaded, bool, error) {
	s := d.e.cfg.Session
	strand, ok, err := s.StrandState(d.strand)
	if err != nil || !ok || strand.Value.CurrentOperation.IsZero() {
		return loaded{}, false, err
	}
	current := strand.Value.CurrentOperation
	op, st, ok, err := d.e.operation(current)
	if err != nil {
		return loaded{}, false, err
	}
	if !ok || op.ID != current || op.Strand != d.strand {
		return loaded{}, false, &session.Corrupt{Report: corrupt.New("engine.load", "operation "+current.String(),
			"its registers, naming strand "+d.strand, "registers that are missing or name "+op.Strand)}
	}
	config, ok, err := s.StrandConfig(d.strand)
	if err == nil && !ok {
		err = &session.Corrupt{Report: corrupt.New("engine.load", "strand.config/"+d.strand, "a configuration", "nothing")}
	}
	if err != nil {
		return loaded{}, false, err
	}
	leaf, _, err := s.StrandLeaf(d.strand)
	if err != nil {
		return loaded{}, false, err
	}
	l := loaded{op, st.Value, machine.Inputs{
		Now: d.e.cfg.Clock(), IDs: d.e.generator(), StateSeq: st.Seq,
		Strand: strand.Value, StrandSeq: strand.Seq, Leaf: leaf.Value,
		Configuration: config.Value, ConfigurationSeq: config.Seq,
		StreamOptions: jsonv.Obj(), RetryPolicy: d.e.cfg.Retry,
		ProjectedCustom: d.e.cfg.Policy.CustomTypes(),
	}}
	return l, true, d.loadNamed(&l)
}

// loadNamed reads the rows and keys that a run's state names.
func (d *Driver) loadNamed(l *loaded) error {
	run, ok := l.st.Work.(*machine.Run)
	if !ok {
		return nil
	}
	s := d.e.cfg.Session
	var err error
	if l.in.ToolArgsKeys, err = s.RegisterKeys(register.OpToolArgs, l.op.ID.String()+":"); err != nil {
		return err
	}
	if l.in.PreparationKeys, err = s.RegisterKeys(register.OpPreparation, l.op.ID.String()+":"); err != nil {
		return err
	}
	named := append(append(append([]id.EntryID(nil), run.Inbox.Steer...), run.Inbox.FollowUp...), run.Inbox.Writes...)
	if tools, ok := run.Phase.(machine.RunningTools); ok {
		for _, c := range tools.Batch.Calls {
			if _, staged := c.Status.(machine.OutcomeReady); staged {
				named = append(named, c.ResultID)
			}
		}
		if l.in.BatchSource, err = d.source(tools.Batch.AssistantID); err != nil {
			return err
		}
	}
	l.in.Pending, err = s.PendingEntries(named...)
	return err
}

// source reads the response whose calls are worked on; it never changes.
func (d *Driver) source(i id.EntryID) (*message.Assistant, error) {
	if d.batch.id == i && d.batch.source != nil {
		return d.batch.source, nil
	}
	rows, err := d.e.cfg.Session.Rows().Entries(i)
	if err != nil {
		return nil, err
	}
	body, _ := rows[i].Body.(entry.Message)
	a, ok := body.Message.(*message.Assistant)
	if !ok {
		return nil, &session.Corrupt{Report: corrupt.New("engine.source", "entry "+i.String(),
			"the response whose calls are worked on", "no such response")}
	}
	d.batch.id, d.batch.source = i, a
	return a, nil
}

func callKey(step string, sourceIndex int) string { return step + ":" + strconv.Itoa(sourceIndex) }
