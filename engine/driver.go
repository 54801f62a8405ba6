package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	Parked                  // for a person and nothing else: the run is paused
)

// Pass is the outcome of [Driver.Step].
type Pass struct {
	Progress Progress
	Until    int64        // Unix ms of the next thing that time alone makes happen; 0: none
	Step     machine.Step // what it committed of the operation; empty: nothing
}

// Driver drives one strand.
type Driver struct {
	e      *Engine
	strand string
	bell   chan struct{} // content-free, one is enough
	gate   turnstile

	mu       sync.Mutex // guards what follows
	reports  []*report  // not heard yet, oldest first
	flights  map[string]*flight
	aborted  id.OpID
	grounded bool
	working  bool
	parked   string // the gates that the strand was last seen parked on; empty for none
	err      error
	changed  chan struct{} // closed and replaced when an operation ends or pauses, or the strand stops

	cache branchCache // used by the generation in flight, and by a measure while there is none

	// Used by the goroutine that steps.
	current  id.OpID // what it works on; absent once it committed the end itself
	asked    asked
	heeded   id.EntryID // the response that rules were last held against
	dueAt    int64      // when a schedule is due next, Unix ms; 0 for never
	measured *machine.Measure
	fuel     int
	spent    int // steps since something came from outside
	batch    struct {
		id     id.EntryID
		source *message.Assistant
	}
}

// report says what became of an effect or of a question. The pass that commits
// what follows from it consumes it.
type report struct {
	op        id.OpID
	what      machine.Observation
	landed    bool      // an effect ended, as opposed to a question
	clearance Clearance // granted with it and not used yet; nil for none
	fault     error     // the session could not be read, so the strand stops
}

// take is the way to a clearance's Run.
func (r *report) take() Clearance {
	c := r.clearance
	r.clearance = nil
	return c
}

// release gives back a clearance that nobody took.
func (r *report) release() {
	if c := r.take(); c != nil {
		c.Release()
	}
}

// flight is an effect that runs.
type flight struct {
	op     id.OpID
	cancel context.CancelFunc
}

func newDriver(e *Engine, strand string) *Driver {
	return &Driver{e: e, strand: strand, bell: make(chan struct{}, 1), flights: make(map[string]*flight), changed: make(chan struct{}), fuel: fuel}
}

// next is closed when something of the strand changes that others wait for.
func (d *Driver) next() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// wake tells those who wait for the strand, and those who wait for any.
func (d *Driver) wake() {
	d.mu.Lock()
	close(d.changed)
	d.changed = make(chan struct{})
	d.mu.Unlock()
	d.e.wake()
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

// fuel bounds the steps between two things that come from outside: the end of an
// effect, a ring, a time. No operation needs as many, so more are a fault of ours
// that must not burn the machine.
const fuel = 10_000

// run drives the strand until the engine closes or the strand stops, and returns
// when none of its effects runs any more.
func (d *Driver) run(ctx context.Context) {
	var flights sync.WaitGroup
	err := d.loop(ctx, func(f func()) { flights.Go(f) })
	if err != nil {
		d.refuse(err)
	}
	d.ground()
	flights.Wait()
	d.forget()
	d.note(false)
	if err != nil {
		d.tellStopped()
	}
}

// loop steps until ctx ends or a step fails.
func (d *Driver) loop(ctx context.Context, spawn func(func())) error {
	for ctx.Err() == nil {
		pass, err := d.Step(spawn)
		if err != nil {
			return err
		}
		if pass.Progress == Moved {
			continue
		}
		d.note(pass.Progress == Waiting)
		select {
		case <-ctx.Done():
		case <-d.bell:
		case <-d.alarm(pass.Until):
		}
	}
	return nil
}

// longestNap bounds one wait. A provider may name any time to come back, and a
// pass that comes too early only waits again.
const longestNap = time.Hour

// alarm fires at a time in Unix ms, or never for 0.
func (d *Driver) alarm(until int64) <-chan time.Time {
	if until == 0 {
		return nil
	}
	ms := min(max(until-d.e.cfg.Clock(), 1), longestNap.Milliseconds())
	return d.e.cfg.After(time.Duration(ms) * time.Millisecond)
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
	d.e.count(working)
}

// refuse makes the strand take no more input in this process. What is committed
// stays as it is.
func (d *Driver) refuse(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = fmt.Errorf("the session stopped and keeps everything up to its last commit: %w", err)
}

// tellStopped is the last word of a strand that failed.
func (d *Driver) tellStopped() {
	op := d.current // also when another process ended it
	if op.IsZero() {
		op, _, _ = d.open() // absent when that cannot be read either
	}
	d.e.observe(StrandStopped{d.strand, op, d.failure()})
	d.wake()
}

// Step makes one pass: load, decide, act. spawn starts a worker for an effect.
// An error stops the strand; the caller must not step again.
func (d *Driver) Step(spawn func(func())) (Pass, error) {
	pass, err := d.step(spawn)
	if pass.Progress == Waiting || pass.Progress == Parked {
		pass.Until = sooner(pass.Until, d.asked.due)
	}
	if pass.Progress != Moved {
		pass.Until = sooner(pass.Until, d.dueAt)
	}
	if pass.Progress != Moved {
		d.spent = 0
	} else if d.spent++; d.spent > d.fuel {
		return Pass{}, fmt.Errorf("strand %s made %d steps without waiting for anything", d.strand, d.fuel)
	}
	return pass, err
}

// sooner is the first of two times, of which 0 is none.
func sooner(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

func (d *Driver) step(spawn func(func())) (Pass, error) {
	if lost := d.e.writer.lost(); lost != nil {
		return Pass{}, lost // no commit may ever come that would say so
	}
	l, ok, err := d.load()
	if err != nil {
		return Pass{}, err
	}
	if !d.current.IsZero() && (!ok || l.op.ID != d.current) {
		return Pass{}, d.e.takenOver(d.current)
	}
	if !ok {
		return d.begin()
	}
	d.current = l.op.ID
	if ended, err := d.supervise(l); ended || err != nil {
		return Pass{Progress: Moved}, err
	}
	if told, err := d.cue(l.standing(d.strand)); told || err != nil {
		return Pass{Progress: Moved}, err
	}
	r := d.oldest(l.op.ID)
	if r.fault != nil {
		return Pass{}, r.fault
	}
	l.in.Observation = r.what
	switch a := machine.NextAction(l.op, l.st, l.in).(type) {
	case machine.Transition:
		told := d.entailed(a.Step, l.op.ID, a.Next)
		if told == nil {
			told = gatesFact(l.op, l.st, a.Next, l.in.Now)
		}
		return d.commit(a.Step, a.Tx, r, told, nil)
	case machine.Dispatch:
		return d.commit(a.Step, a.Tx, r, nil, func() { d.start(spawn, l, a.Effect, r.take()) })
	case machine.Finish:
		return d.commit(a.Step, a.Tx, r, finished(l.op), func() {
			d.current = id.OpID{}
			d.forget()
			d.e.ringChildren(d.strand)
			d.wake()
		})
	case machine.AwaitEffect:
		pass, err := d.await(l, a.Key)
		if pass.Progress == Waiting {
			pass.Until = a.Until
		}
		return pass, err
	case machine.Wait:
		return Pass{Progress: Waiting, Until: a.Until}, nil
	case machine.Park:
		return d.park(l, a), nil
	case machine.Fault:
		return Pass{}, a.Report
	}
	return Pass{}, errors.New("machine returned no action")
}

// begin starts the run that queued input asks for, if there is any.
func (d *Driver) begin() (Pass, error) {
	state, ok, err := d.e.cfg.Session.StrandState(d.strand)
	if err != nil || !ok {
		return Pass{Progress: Idle}, err
	}
	if state.Value.Start == nil || len(state.Value.PendingNextRun) == 0 {
		told, err := d.cue(machine.Standing{Strand: d.strand, State: state.Value, StateSeq: state.Seq}, id.EntryID{})
		if told {
			return Pass{Progress: Moved}, err
		}
		return Pass{Progress: Idle}, err
	}
	_, _, err = d.e.accept(d.strand, state, nil, nil)
	if _, stale := errors.AsType[*tx.StaleExpectation](err); stale {
		err = nil
	}
	return Pass{Progress: Moved}, err
}

// commit applies a plan and consumes the report that it follows from. A stale
// plan is made again from fresh state, with the report still first in line. then
// may be nil.
func (d *Driver) commit(step machine.Step, t tx.Tx, r *report, told Fact, then func()) (Pass, error) {
	_, err := d.e.writer.commitOf(d.current, t, nil, told)
	if _, stale := errors.AsType[*tx.StaleExpectation](err); stale {
		return Pass{Progress: Moved}, nil
	}
	if err != nil {
		return Pass{}, err
	}
	d.consume(r)
	d.measured = nil
	d.parkedOn("")
	if then != nil {
		then()
	}
	r.release() // the plan had no use for it: the run was aborted in between
	return Pass{Progress: Moved, Step: step}, nil
}

// entailed is what watchers are told of a transition; nil for most.
func (d *Driver) entailed(step machine.Step, op id.OpID, next machine.State) Fact {
	if slices.Contains(takes, step) {
		return QueueChanged{d.strand}
	}
	return d.retryFact(op, next)
}

// takes are the steps that put queued input into the conversation.
var takes = []machine.Step{machine.StepPlaceSteering, machine.StepPlaceFollowUps, machine.StepDrainSteering, machine.StepDrainFollowUps}

// retryFact tells watchers of a wait that a transition begins; nil for others.
func (d *Driver) retryFact(op id.OpID, next machine.State) Fact {
	if run, ok := next.Work.(*machine.Run); ok {
		if g, ok := run.Phase.(machine.Generating); ok {
			if w, ok := g.Generation.(machine.GenRetryWait); ok {
				return RetryScheduled{d.strand, op, w.NextAttempt, w.NotBefore, w.ErrorMessage}
			}
		}
	}
	if s, ok := next.Summary(); ok {
		if w, ok := s.Generation.(machine.SummaryRetryWait); ok {
			return RetryScheduled{d.strand, op, w.NextAttempt, w.NotBefore, w.ErrorMessage}
		}
	}
	return nil
}

// oldest returns the report about op that is first in line, or an empty one.
// Reports about operations that ended are dropped.
func (d *Driver) oldest(op id.OpID) *report {
	d.mu.Lock()
	past := slices.IndexFunc(d.reports, func(r *report) bool { return r.op == op })
	if past < 0 {
		past = len(d.reports)
	}
	dropped := d.reports[:past]
	d.reports = d.reports[past:]
	first := &report{}
	if len(d.reports) > 0 {
		first = d.reports[0]
	}
	d.mu.Unlock()
	for _, r := range dropped {
		r.release()
	}
	return first
}

func (d *Driver) report(r *report) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reports = append(d.reports, r)
}

// consume takes r out of the line; an empty report was never in it.
func (d *Driver) consume(r *report) {
	if r.landed {
		d.spent = 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.reports) > 0 && d.reports[0] == r {
		d.reports = d.reports[1:]
	}
}

// forget drops what belonged to an operation that ended.
func (d *Driver) forget() {
	d.batch.id, d.batch.source, d.measured = id.EntryID{}, nil, nil
	d.mu.Lock()
	dropped := d.reports
	d.reports = nil
	d.mu.Unlock()
	for _, r := range dropped {
		r.release()
	}
}

// loaded is what one pass read.
type loaded struct {
	op machine.Operation
	st machine.State
	in machine.Inputs
}

// standing is where the strand stands for what is to reach it, with the newest response
// of its run.
func (l loaded) standing(strand string) (machine.Standing, id.EntryID) {
	var response id.EntryID
	if run, ok := l.st.Work.(*machine.Run); ok {
		response = run.LatestAssistant
	}
	return machine.Standing{Strand: strand, State: l.in.Strand, StateSeq: l.in.StrandSeq, Op: &l.op, St: l.st, Seq: l.in.StateSeq}, response
}

// load reads the strand's operation and everything its state names, as they stand
// together in one committed state. ok is false when the strand is idle.
func (d *Driver) load() (l loaded, ok bool, err error) {
	err = d.e.cfg.Session.Within(func(s *session.View) (err error) {
		l, ok, err = d.read(s)
		return err
	})
	return l, ok, err
}

func (d *Driver) read(s *session.View) (loaded, bool, error) {
	strand, ok, err := s.StrandState(d.strand)
	if err != nil || !ok || strand.Value.CurrentOperation.IsZero() {
		return loaded{}, false, err
	}
	current := strand.Value.CurrentOperation
	op, st, ok, err := operation(s, current)
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
		ProjectedCustom: d.e.cfg.Policy.CustomTypes(), Measure: d.measured,
		Hooks: machine.Hooks{RunStart: d.e.cfg.Hooks != nil, RunEnd: d.e.cfg.Hooks != nil},
	}}
	return l, true, d.readNamed(s, &l)
}

// readNamed reads the rows and keys that a state names.
func (d *Driver) readNamed(s *session.View, l *loaded) (err error) {
	if l.in.ToolArgsKeys, err = s.RegisterKeys(register.OpToolArgs, l.op.ID.String()+":"); err != nil {
		return err
	}
	if l.in.PreparationKeys, err = s.RegisterKeys(register.OpPreparation, l.op.ID.String()+":"); err != nil {
		return err
	}
	if task, ok := l.st.Summary(); ok {
		prep, ok, err := s.Preparation(l.op.ID, task.TaskID)
		if err != nil {
			return err
		}
		if ok {
			l.in.Preparation = prep.Value
		}
	}
	run, ok := l.st.Work.(*machine.Run)
	if !ok {
		return nil
	}
	named := slices.Concat(run.Inbox.Steer, run.Inbox.FollowUp, run.Inbox.Writes)
	switch phase := run.Phase.(type) {
	case machine.RunningTools:
		for _, c := range phase.Batch.Calls {
			if _, staged := c.Status.(machine.OutcomeReady); staged {
				named = append(named, c.ResultID)
			}
		}
		l.in.BatchSource, err = d.source(s, phase.Batch.AssistantID)
	case machine.AwaitingDeferred:
		l.in.DeferredSource, err = d.source(s, phase.Deferred.SourceEntryID)
	case machine.Starting, machine.AtCheckpoint, machine.Generating, machine.Compacting, machine.FailureDrain:
	}
	if err != nil {
		return err
	}
	l.in.Pending, err = s.PendingEntries(named...)
	return err
}

// source reads the response whose calls are worked on, or whose handle is waited
// for; it never changes.
func (d *Driver) source(s *session.View, i id.EntryID) (*message.Assistant, error) {
	if d.batch.id == i && d.batch.source != nil {
		return d.batch.source, nil
	}
	rows, err := s.Rows().Entries(i)
	if err != nil {
		return nil, err
	}
	body, _ := rows[i].Body.(entry.Message)
	a, ok := body.Message.(*message.Assistant)
	if !ok {
		return nil, &session.Corrupt{Report: corrupt.New("engine.source", "entry "+i.String(),
			"the response that the state names", "no such response")}
	}
	d.batch.id, d.batch.source = i, a
	return a, nil
}

func callKey(step string, sourceIndex int) string { return step + ":" + strconv.Itoa(sourceIndex) }
