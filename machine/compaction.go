package machine

import (
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
)

// Settings of compactions where nobody chose others, in tokens.
const (
	DefaultReserveTokens    = 16_384
	DefaultKeepRecentTokens = 20_000
)

// maxCompactions bounds the compactions in a row: those after which the context was
// full again at the next step.
const maxCompactions = 5

// usable reports whether a compaction can be made by these settings at all.
func (c CompactionSettings) usable() bool { return c.ReserveTokens > 0 && c.KeepRecentTokens > 0 }

// For returns the settings as they apply to a window: in a small one, reserve and
// recent messages shrink, so that there is room for what they are kept for. An
// unknown window, 0, changes nothing.
func (c CompactionSettings) For(window int64) CompactionSettings {
	if window <= 0 || !c.usable() {
		return c
	}
	c.ReserveTokens = max(1, min(c.ReserveTokens, window/3))
	c.KeepRecentTokens = max(1, min(c.KeepRecentTokens, (window-c.ReserveTokens)/2))
	return c
}

// Limit is how many tokens a context may have before it is compacted; 0 where
// there is no limit: the window is unknown or the settings make no sense.
func (c CompactionSettings) Limit(window int64) int64 {
	if window <= 0 || !c.usable() {
		return 0
	}
	return window - c.For(window).ReserveTokens
}

func (c CompactionSettings) exceeded(m *Measure) bool {
	limit := c.Limit(m.Window)
	return limit > 0 && m.Tokens > limit
}

// makeRoom looks at the size of the context before a request, and compacts at most
// once for what asks for it. Nil: the request can be made.
func (p *plan) makeRoom(cp Checkpoint, need NeedAssistant) Action {
	c := p.run.Settings.Compaction
	checked := cp.ThresholdChecked == cp.Trigger
	recovered := need.OverflowRecoveryUsed && checked
	if !c.usable() || !c.Enabled && !recovered {
		return nil
	}
	m := p.in.Measure
	switch {
	case m == nil || m.Leaf != p.in.Leaf:
		return AwaitEffect{Key: MeasureKey{p.in.Leaf, c}}
	case recovered && m.Window > 0 && m.Tokens >= m.Window:
		return p.to(StepNoHeadroom, FailureDrain{
			OperationError{Code: CodeContextOverflow, Message: "the newest part of the conversation alone no longer fits the model's context window; " +
				"everything is kept, and a model with a larger window can go on from here"}, FromResponse{p.run.LatestAssistant},
		})
	case !c.exceeded(m):
		if !checked { // what comes right after a compaction says nothing about the next step
			p.run.Compactions = 0
		}
	case checked && p.run.Compactions > 0 || p.run.Compactions >= maxCompactions:
		// A compaction left no room, or leaves none from step to step. Another would only
		// cost: the run goes on with what room there is, and the provider has the last word.
		p.run.Settings.Compaction.Enabled = false
	case m.Preparation != nil && !checked:
		s := p.prepare(m.Preparation)
		cp.ThresholdChecked = cp.Trigger
		return p.to(StepCompact, Compacting{ReasonThreshold, s, cp})
	}
	return nil
}

// prepare mints a task and freezes what it works on.
func (p *plan) prepare(prep Preparation) Structural {
	s := Structural{TaskID: p.mintEntry().String()}
	p.writes = append(p.writes, tx.Set(register.OpPreparation, PreparationKey(p.op.ID, s.TaskID), PreparationValue(prep)))
	return s
}

// recoverOverflow says how a run goes on from a response that did not fit: by a
// compaction, once for what asked for it. ok is false where that cannot help.
func (p *plan) recoverOverflow(g GenPending) (next Phase, ask Action, ok bool) {
	if g.Context.OverflowRecoveryUsed || !p.run.Settings.Compaction.usable() || p.run.Compactions >= maxCompactions {
		return nil, nil, false
	}
	m := p.in.Measure
	if m == nil || m.Leaf != p.in.Leaf {
		return nil, AwaitEffect{Key: MeasureKey{p.in.Leaf, p.run.Settings.Compaction}}, true
	}
	if m.Preparation == nil {
		return nil, nil, false
	}
	return Compacting{ReasonOverflow, p.prepare(m.Preparation), Checkpoint{
		Continuation: NeedAssistant{OverflowRecoveryUsed: true}, Trigger: g.Context.Trigger, ThresholdChecked: g.Context.Trigger,
	}}, nil, true
}

// compact drives a compaction inside a run.
func (p *plan) compact(phase Compacting) Action {
	return p.structural(phase.Structural, inRun{p, phase})
}

// inRun is a compaction that its run waits for.
type inRun struct {
	p     *plan
	phase Compacting
}

func (r inRun) reason() CompactionReason { return r.phase.Reason }
func (r inRun) instructions() *string    { return nil }

func (r inRun) at(s Structural) Work {
	r.phase.Structural = s
	r.p.run.Phase = r.phase
	return new(r.p.run)
}

// over drops the preparation, which may be large, and goes on.
func (r inRun) over(step Step, phase Phase) Action {
	r.p.writes = append(r.p.writes, tx.Delete(register.OpPreparation, PreparationKey(r.p.op.ID, r.phase.Structural.TaskID)))
	return r.p.to(step, phase)
}

func (r inRun) publish(step Step, text string, supplied *SupplySummary, i id.EntryID) Action {
	if !r.p.placeCompaction(text, supplied, i) {
		return r.p.foreignPreparation()
	}
	r.p.run.Compactions++
	return r.over(step, AtCheckpoint{r.phase.ResumeAfter})
}

func (r inRun) decline() Action {
	if r.phase.Reason == ReasonOverflow {
		return r.over(StepSummaryDeclined, FailureDrain{
			OperationError{Code: CodeContextOverflow, Message: "the conversation no longer fits the model's context window, and it was not compacted; everything is kept"},
			FromStructural{r.phase.Structural.TaskID},
		})
	}
	return r.over(StepSummaryDeclined, AtCheckpoint{r.phase.ResumeAfter})
}

func (r inRun) fail(step Step, e OperationError) Action {
	if r.phase.Reason == ReasonThreshold && e.Code != CodeContextOverflow {
		r.p.run.Settings.Compaction.Enabled = false // not again in this run
		return r.over(step, AtCheckpoint{r.phase.ResumeAfter})
	}
	from := Provenance(FromStructural{r.phase.Structural.TaskID})
	if e.Code == CodeModelUnavailable || e.Code == CodeToolsUnavailable {
		from = FromConfiguration{}
	}
	return r.over(step, FailureDrain{e, from})
}

// placeCompaction adds the entry that the context starts at from now on. ok is
// false when the preparation is that of something else.
func (p *plan) placeCompaction(text string, supplied *SupplySummary, i id.EntryID) (ok bool) {
	prep, ok := p.in.Preparation.(*CompactionPreparation)
	if !ok {
		return false
	}
	body := entry.Compaction{Summary: text, RetainedTail: prep.RetainedTail, TokensBefore: prep.TokensBefore, FromHook: supplied != nil}
	if supplied != nil && supplied.Usage != nil {
		body.Usage = supplied.Usage
		p.writes = append(p.writes, tx.InsertUsage{Row: entry.UsageRow{ID: p.mintUsage(), EntryID: i, Usage: *supplied.Usage}})
	}
	p.add(i, body)
	p.moveLeaf()
	return true
}

func (p *plan) foreignPreparation() Action {
	return fault("op.preparation of "+p.op.ID.String(), "what this summary was made from", "another kind")
}

// alone is a compaction that somebody asked for.
type alone struct {
	p    *plan
	work Compaction
}

func (a alone) reason() CompactionReason { return ReasonManual }
func (a alone) instructions() *string    { return a.work.CustomInstructions }
func (a alone) at(s Structural) Work {
	a.work.Structural = s
	return &a.work
}

func (a alone) publish(_ Step, text string, supplied *SupplySummary, i id.EntryID) Action {
	if !a.p.placeCompaction(text, supplied, i) {
		return a.p.foreignPreparation()
	}
	return a.p.finish(StepFinishCompaction, LastResult{Outcome: OutcomeCompleted})
}

func (a alone) decline() Action {
	return a.p.finish(StepFinishDeclined, LastResult{Outcome: OutcomeDeclined})
}

func (a alone) fail(_ Step, e OperationError) Action {
	return a.p.finish(StepFinishFailed, LastResult{Outcome: OutcomeFailed, Error: &e})
}
