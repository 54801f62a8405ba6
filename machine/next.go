package machine

import (
	"fmt"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
)

// NextAction decides the next step of an operation.
func NextAction(op Operation, st State, in Inputs) Action {
	if op.Intent.intent() != st.Work.work() {
		return fault("op.state of "+op.ID.String(), "the state of a "+op.Intent.intent(), st.Work.work())
	}
	p := &plan{op: op, control: st.Control, in: in, ids: in.IDs, leaf: in.Leaf}
	switch work := st.Work.(type) {
	case *Run:
		p.run = *work
		return p.drive()
	case *Compaction:
		if p.cancelled() && !summaryInFlight(work.Structural) {
			return p.finish(StepFinishAborted, LastResult{Outcome: OutcomeAborted})
		}
		return p.structural(work.Structural, alone{p, *work})
	case *Navigation:
		return p.navigate(*work)
	}
	return fault("op.state of "+op.ID.String(), "a known kind", fmt.Sprintf("%T", st.Work))
}

// drive decides for a run.
func (p *plan) drive() Action {
	if p.cancelled() && !inFlight(p.run.Phase) {
		return p.reconcile()
	}
	switch phase := p.run.Phase.(type) {
	case Starting:
		return p.start()
	case AtCheckpoint:
		return p.checkpoint(phase.Checkpoint)
	case Generating:
		return p.generate(phase.Generation)
	case RunningTools:
		return p.tools(phase.Batch)
	case Compacting:
		return p.compact(phase)
	case AwaitingDeferred:
		return p.deferred(phase.Deferred)
	case FailureDrain:
		return p.failureDrain(phase)
	}
	return fault("phase", "a known phase", fmt.Sprintf("%T", p.run.Phase))
}

// inFlight reports whether a phase has effects that settle before anything else,
// also under an abort.
func inFlight(phase Phase) bool {
	switch phase := phase.(type) {
	case Generating:
		_, pending := phase.Generation.(GenPending)
		return pending
	case RunningTools:
		return true
	case Compacting:
		return summaryInFlight(phase.Structural)
	case AwaitingDeferred:
		return !phase.Deferred.ResponseID.IsZero()
	case Starting, AtCheckpoint, FailureDrain:
	}
	return false
}

func fault(subject, expected, seen string) Action {
	return Fault{corrupt.New("machine.NextAction", subject, expected, seen)}
}

// plan is one pass: what was loaded, and the transaction being put together.
type plan struct {
	op      Operation
	control Control
	run     Run // of a run
	in      Inputs
	ids     id.Generator
	leaf    id.EntryID
	writes  []tx.Write
	expect  []tx.Expectation // beside op.state
}

func (p *plan) cancelled() bool {
	_, yes := p.control.(CancelRequested)
	return yes
}

func (p *plan) mintEntry() id.EntryID {
	var i id.EntryID
	i, p.ids = p.ids.Entry()
	return i
}

func (p *plan) mintUsage() id.UsageID {
	var i id.UsageID
	i, p.ids = p.ids.Usage()
	return i
}

// add places an entry below the leaf and moves the plan's leaf to it.
func (p *plan) add(i id.EntryID, body entry.Body) {
	p.writes = append(p.writes, tx.InsertEntry{Entry: entry.Entry{ID: i, Parent: p.leaf, Body: body}})
	p.leaf = i
}

// moveLeaf writes the leaf register if the plan moved it.
func (p *plan) moveLeaf() {
	if p.leaf != p.in.Leaf {
		p.writes = append(p.writes, tx.Set(register.StrandLeaf, p.op.Strand, register.Leaf(p.leaf)))
	}
}

// to completes the transaction with the next phase.
func (p *plan) to(step Step, phase Phase) Transition {
	next, t := p.commit(phase)
	return Transition{step, next, t}
}

func (p *plan) dispatch(step Step, effect Effect, phase Phase) Dispatch {
	next, t := p.commit(phase)
	return Dispatch{step, effect, next, t}
}

func (p *plan) commit(phase Phase) (State, tx.Tx) {
	p.run.Phase = phase
	return p.commitWork(new(p.run))
}

// toWork is to for work of any kind.
func (p *plan) toWork(step Step, work Work) Transition {
	next, t := p.commitWork(work)
	return Transition{step, next, t}
}

func (p *plan) dispatchWork(step Step, effect Effect, work Work) Dispatch {
	next, t := p.commitWork(work)
	return Dispatch{step, effect, next, t}
}

func (p *plan) commitWork(work Work) (State, tx.Tx) {
	next := State{Control: p.control, Work: work}
	p.writes = append(p.writes, tx.Set(register.OpState, p.op.ID.String(), next.Value()))
	return next, tx.Tx{Writes: p.writes, Expected: p.expectations()}
}

func (p *plan) expectations() []tx.Expectation {
	return append([]tx.Expectation{tx.Expect(register.OpState, p.op.ID.String(), p.in.StateSeq)}, p.expect...)
}

// start leaves the accepted prompts behind, after what a hook adds: the newest
// entry asks for an answer.
func (p *plan) start() Action {
	if p.in.Hooks.RunStart {
		switch o := p.in.Observation.(type) {
		case nil:
			return AwaitEffect{Key: RunStartKey{}}
		case RunStarting:
			for _, e := range o.Entries {
				p.add(p.mintEntry(), e.Body)
			}
			p.moveLeaf()
		default:
			return p.unexpected()
		}
	}
	if p.leaf.IsZero() {
		return fault("strand.leaf", "an entry to answer", "an empty strand")
	}
	return p.to(StepStart, AtCheckpoint{Checkpoint{Continuation: NeedAssistant{}, Trigger: p.leaf}})
}

// checkpoint follows a fixed order, each acting step a commit of its own: writes,
// steering, room for a request, the request, follow-ups, the hook, the end.
func (p *plan) checkpoint(cp Checkpoint) Action {
	if !cp.SkipInboxOnce {
		if w := p.run.Inbox.Writes; len(w) > 0 {
			p.run.Inbox.Writes = nil
			return p.placeThen(StepPlaceWrites, w, func(projects bool) Phase { return AtCheckpoint{p.after(cp, projects)} })
		}
		if steer := p.take(&p.run.Inbox.Steer, p.run.Settings.SteeringMode); len(steer) > 0 {
			return p.placeThen(StepPlaceSteering, steer, func(bool) Phase { return AtCheckpoint{p.after(cp, true)} })
		}
	}
	switch k := cp.Continuation.(type) {
	case NeedAssistant:
		if limit := p.run.Settings.MaxTurns; limit != nil && p.run.Turns >= *limit && !k.OverflowRecoveryUsed {
			return p.turnsUsed(*limit)
		}
		if a := p.makeRoom(cp, k); a != nil {
			return a
		}
		return p.beginStep(cp, k)
	case MayFinish:
		if follow := p.take(&p.run.Inbox.FollowUp, p.run.Settings.FollowUpMode); len(follow) > 0 {
			return p.placeThen(StepPlaceFollowUps, follow, func(bool) Phase { return AtCheckpoint{p.after(cp, true)} })
		}
		return p.complete(k)
	}
	return fault("checkpoint", "a known continuation", fmt.Sprintf("%T", cp.Continuation))
}

// after is the checkpoint once input was placed: if any of it is for the model,
// it asks for an answer.
func (p *plan) after(cp Checkpoint, projects bool) Checkpoint {
	if projects {
		cp.Continuation, cp.Trigger, cp.SkipInboxOnce = NeedAssistant{}, p.leaf, true
	}
	return cp
}

// take removes from a queue what one checkpoint consumes.
func (p *plan) take(queue *[]id.EntryID, mode DrainMode) []id.EntryID {
	n := len(*queue)
	if mode == DrainOneAtATime && n > 1 {
		n = 1
	}
	taken := (*queue)[:n]
	*queue = (*queue)[n:]
	return taken
}

// placeThen turns pending entries into entries below the leaf.
func (p *plan) placeThen(step Step, ids []id.EntryID, next func(projects bool) Phase) Action {
	projects := false
	for _, i := range ids {
		pending, ok := p.in.Pending[i]
		if !ok {
			return fault("pending.entry/"+i.String(), "the queued entry", "nothing")
		}
		p.add(i, pending.Body)
		p.writes = append(p.writes, tx.Delete(register.PendingEntry, i.String()))
		projects = projects || p.projects(pending)
	}
	p.moveLeaf()
	return p.to(step, next(projects))
}

func (p *plan) projects(e PendingEntry) bool {
	if c, ok := e.Body.(entry.Custom); ok {
		return p.in.ProjectedCustom[c.Type]
	}
	return true
}

// CodeMaxTurns is the error code of a run that used up its turns.
const CodeMaxTurns = "max_turns"

func (p *plan) turnsUsed(limit int64) Action {
	return p.to(StepTurnsUsed, FailureDrain{
		Error: OperationError{Code: CodeMaxTurns, Message: fmt.Sprintf(
			"the run used its %d turns before the model was done; everything up to here is kept", limit)},
		Provenance: FromConfiguration{},
	})
}

// beginStep captures what the step and its retries use.
func (p *plan) beginStep(cp Checkpoint, need NeedAssistant) Action {
	if p.in.ConfigurationSeq == 0 {
		return fault("strand.config/"+p.op.Strand, "a configuration to ask a model with", "nothing")
	}
	if p.run.Settings.MaxTurns != nil && !need.OverflowRecoveryUsed { // what is asked again after a compaction is the same turn
		p.run.Turns++
	}
	p.expect = append(p.expect, tx.Expect(register.StrandConfig, p.op.Strand, p.in.ConfigurationSeq))
	return p.to(StepBegin, Generating{GenReady{NextAttempt: 1, Context: GenerationContext{
		StepID: p.mintEntry().String(), Trigger: cp.Trigger, Configuration: p.in.Configuration,
		StreamOptions: p.in.StreamOptions, RetryPolicy: p.in.RetryPolicy,
		OverflowRecoveryUsed: need.OverflowRecoveryUsed,
	}}})
}

// reconcile ends a cancelled run that has nothing in flight: deferred writes are
// still placed, then the run finishes as aborted.
func (p *plan) reconcile() Action {
	if w := p.run.Inbox.Writes; len(w) > 0 {
		p.run.Inbox.Writes = nil
		phase := p.run.Phase
		return p.placeThen(StepPlaceAfterAbort, w, func(bool) Phase { return phase })
	}
	return p.finish(StepFinishAborted, LastResult{Outcome: OutcomeAborted})
}

// failureDrain places what is queued; input for the model gives the run another
// chance, otherwise it ends as failed.
func (p *plan) failureDrain(f FailureDrain) Action {
	next := func(projects bool) Phase {
		if projects {
			return AtCheckpoint{Checkpoint{Continuation: NeedAssistant{}, Trigger: p.leaf, SkipInboxOnce: true}}
		}
		return f
	}
	if w := p.run.Inbox.Writes; len(w) > 0 {
		p.run.Inbox.Writes = nil
		return p.placeThen(StepDrainWrites, w, next)
	}
	if steer := p.take(&p.run.Inbox.Steer, p.run.Settings.SteeringMode); len(steer) > 0 {
		return p.placeThen(StepDrainSteering, steer, next)
	}
	if follow := p.take(&p.run.Inbox.FollowUp, p.run.Settings.FollowUpMode); len(follow) > 0 {
		return p.placeThen(StepDrainFollowUps, follow, next)
	}
	return p.finish(StepFinishFailed, LastResult{Outcome: OutcomeFailed, Error: &f.Error, FinalAssistant: p.run.LatestAssistant})
}

// complete ends a run, unless a hook has it go on.
func (p *plan) complete(k MayFinish) Action {
	if p.in.Hooks.RunEnd {
		switch o := p.in.Observation.(type) {
		case nil:
			return AwaitEffect{Key: RunEndKey{p.run.LatestAssistant}}
		case RunEnding:
			if o.FollowUp == nil {
				break
			}
			p.add(p.mintEntry(), o.FollowUp.Body)
			p.moveLeaf()
			if p.projects(*o.FollowUp) {
				return p.to(StepGoOn, AtCheckpoint{Checkpoint{Continuation: NeedAssistant{}, Trigger: p.leaf}})
			}
		default:
			return p.unexpected()
		}
	}
	if k.IncludeFinalAssistant {
		return p.finish(StepFinishCompleted, LastResult{
			Outcome: OutcomeCompleted, Completion: ByAssistant, FinalAssistant: p.run.LatestAssistant,
		})
	}
	return p.finish(StepFinishTerminated, LastResult{Outcome: OutcomeCompleted, Completion: ByTerminatedTools})
}

// finish is the terminal transaction, the only clean-up there is: the result is
// written, and every register that the operation owned is deleted. Queued input
// that it did not take waits for the strand's next run, before what waits there.
func (p *plan) finish(step Step, r LastResult) Action {
	r.Kind, r.OperationID, r.LeafID = p.op.Intent.intent(), p.op.ID, p.leaf
	op := p.op.ID.String()
	p.writes = append(p.writes, tx.Delete(register.OpMeta, op), tx.Delete(register.OpState, op))
	for _, k := range p.in.ToolArgsKeys {
		p.writes = append(p.writes, tx.Delete(register.OpToolArgs, k))
	}
	for _, k := range p.in.PreparationKeys {
		p.writes = append(p.writes, tx.Delete(register.OpPreparation, k))
	}
	after := StrandState{PendingNextRun: append(p.untaken(), p.in.Strand.PendingNextRun...), Start: p.in.Strand.Start}
	p.writes = append(p.writes,
		tx.Set(register.StrandLastResult, p.op.Strand, r.Value()),
		tx.Set(register.FactCustom, ResultKey(p.op.ID), r.Value()),
		tx.Set(register.StrandState, p.op.Strand, after.Value()))
	p.expect = append(p.expect, tx.Expect(register.StrandState, p.op.Strand, p.in.StrandSeq))
	return Finish{step, r, tx.Tx{Writes: p.writes, Expected: p.expectations()}}
}

// untaken lists the queued input that the run leaves, in the order of its queues.
func (p *plan) untaken() []id.EntryID {
	var all []id.EntryID
	if c, ok := p.control.(CancelRequested); ok {
		all = append(append(all, c.DrainedSteer...), c.DrainedFollows...)
	}
	return append(append(append(all, p.run.Inbox.Steer...), p.run.Inbox.FollowUp...), p.run.Inbox.Writes...)
}
