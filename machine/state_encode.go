package machine

import (
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
)

// Value returns the register payload.
func (s State) Value() jsonv.Value { return tree(s.write) }

func (s State) write(w *jsonv.Writer) {
	w.Begin()
	w.Str("kind", s.Work.work())
	w.Name("control")
	w.Begin()
	switch c := s.Control.(type) {
	case Running:
		w.Str("status", "running")
	case CancelRequested:
		w.Str("status", "cancel_requested")
		w.Num("requestedAt", c.RequestedAt)
		entryList(w, "drainedSteer", c.DrainedSteer)
		entryList(w, "drainedFollowUp", c.DrainedFollows)
	}
	w.End()
	switch work := s.Work.(type) {
	case *Run:
		work.write(w)
	case *Compaction:
		w.OptStr("customInstructions", work.CustomInstructions)
		w.Name("structural")
		work.Structural.write(w)
	case *Navigation:
		w.Name("navigation")
		w.Begin()
		w.Flag("summarize", work.Structural != nil)
		optEntry(w, "targetId", work.TargetID)
		w.OptStr("label", work.Label)
		if work.Structural != nil {
			w.OptStr("customInstructions", work.CustomInstructions)
			w.Name("structural")
			work.Structural.write(w)
		}
		w.End()
	}
	w.End()
}

func (r *Run) write(w *jsonv.Writer) {
	w.Name("settings")
	w.Begin()
	w.Name("compaction")
	r.Settings.Compaction.write(w)
	w.Str("steeringMode", string(r.Settings.SteeringMode))
	w.Str("followUpMode", string(r.Settings.FollowUpMode))
	w.Str("toolExecution", string(r.Settings.ToolExecution))
	w.OptNum("maxTurns", r.Settings.MaxTurns)
	w.End()
	w.Name("phase")
	w.Begin()
	w.Str("kind", r.Phase.phase())
	writePhase(w, r.Phase)
	w.End()
	w.Name("inbox")
	w.Begin()
	entryList(w, "steer", r.Inbox.Steer)
	entryList(w, "followUp", r.Inbox.FollowUp)
	entryList(w, "writes", r.Inbox.Writes)
	w.End()
	optEntry(w, "latestAssistantEntryId", r.LatestAssistant)
	if r.Turns > 0 {
		w.Num("turns", r.Turns)
	}
	if r.Compactions > 0 {
		w.Num("compactions", r.Compactions)
	}
}

func (c CompactionSettings) write(w *jsonv.Writer) {
	w.Begin()
	w.Flag("enabled", c.Enabled)
	w.Num("reserveTokens", c.ReserveTokens)
	w.Num("keepRecentTokens", c.KeepRecentTokens)
	w.End()
}

func writePhase(w *jsonv.Writer, p Phase) {
	switch p := p.(type) {
	case Starting:
	case AtCheckpoint:
		w.Name("checkpoint")
		p.Checkpoint.write(w)
	case Generating:
		w.Name("generation")
		writeGeneration(w, p.Generation)
	case RunningTools:
		w.Name("batch")
		p.Batch.write(w)
	case Compacting:
		w.Str("reason", string(p.Reason))
		w.Name("structural")
		p.Structural.write(w)
		w.Name("resumeAfter")
		p.ResumeAfter.write(w)
	case AwaitingDeferred:
		w.Name("deferred")
		p.Deferred.write(w)
	case FailureDrain:
		w.Name("error")
		p.Error.write(w)
		w.Name("provenance")
		writeProvenance(w, p.Provenance)
	}
}

func (c Checkpoint) write(w *jsonv.Writer) {
	w.Begin()
	w.Name("continuation")
	w.Begin()
	switch k := c.Continuation.(type) {
	case NeedAssistant:
		w.Str("kind", "need_assistant")
		w.Flag("overflowRecoveryUsed", k.OverflowRecoveryUsed)
	case MayFinish:
		w.Str("kind", "may_finish")
		w.Flag("includeFinalAssistant", k.IncludeFinalAssistant)
	}
	w.End()
	w.Str("triggerEntryId", c.Trigger.String())
	entryIfAny(w, "thresholdCheckedTriggerEntryId", c.ThresholdChecked)
	w.Flag("skipInboxOnce", c.SkipInboxOnce)
	w.End()
}

func (c GenerationContext) write(w *jsonv.Writer) {
	w.Name("context")
	w.Begin()
	w.Str("stepId", c.StepID)
	w.Str("triggerEntryId", c.Trigger.String())
	w.Name("configuration")
	c.Configuration.write(w)
	w.Name("streamOptions")
	w.Value(c.StreamOptions)
	w.Name("retryPolicy")
	c.RetryPolicy.write(w)
	w.Flag("overflowRecoveryUsed", c.OverflowRecoveryUsed)
	w.End()
}

func (p RetryPolicy) write(w *jsonv.Writer) {
	w.Begin()
	w.Name("maxAttempts")
	if p.MaxAttempts == nil {
		w.String("unbounded")
	} else {
		w.Int(*p.MaxAttempts)
	}
	w.Num("baseDelayMs", p.BaseDelayMs)
	w.Num("maxDelayMs", p.MaxDelayMs)
	w.End()
}

// Generations and summaries are tried, awaited and tried again in the same way; so
// are their stages written.

func writeReady(w *jsonv.Writer, context func(*jsonv.Writer), nextAttempt int64) {
	w.Str("status", "ready")
	context(w)
	w.Num("nextAttempt", nextAttempt)
}

func writePending(w *jsonv.Writer, context func(*jsonv.Writer), attempt int64) {
	w.Str("status", "effect_pending")
	context(w)
	w.Num("attempt", attempt)
}

func writeRetryWait(w *jsonv.Writer, context func(*jsonv.Writer), nextAttempt, notBefore int64, errorMessage string) {
	w.Str("status", "retry_wait")
	context(w)
	w.Num("nextAttempt", nextAttempt)
	w.Num("notBefore", notBefore)
	w.Str("errorMessage", errorMessage)
}

func writeGeneration(w *jsonv.Writer, g Generation) {
	w.Begin()
	switch g := g.(type) {
	case GenReady:
		writeReady(w, g.Context.write, g.NextAttempt)
	case GenPending:
		writePending(w, g.Context.write, g.Attempt)
		w.Str("responseEntryId", g.ResponseID.String())
		w.Str("usageId", g.UsageID.String())
		w.Num("intendedOutputLimit", g.IntendedOutputLimit)
		w.Num("contextWindow", g.ContextWindow)
		w.Str("requestApi", g.RequestAPI)
	case GenRetryWait:
		writeRetryWait(w, g.Context.write, g.NextAttempt, g.NotBefore, g.ErrorMessage)
	}
	w.End()
}

func writeSummaryGeneration(w *jsonv.Writer, g SummaryGeneration) {
	w.Begin()
	switch g := g.(type) {
	case SummaryReady:
		writeReady(w, g.Context.write, g.NextAttempt)
	case SummaryPending:
		writePending(w, g.Context.write, g.Attempt)
		if g.Request != nil {
			w.Name("request")
			w.Begin()
			w.Num("index", g.Request.Index)
			w.Str("usageId", g.Request.UsageID.String())
			w.End()
		}
		usageList(w, "usageIds", g.UsageIDs)
	case SummaryRetryWait:
		writeRetryWait(w, g.Context.write, g.NextAttempt, g.NotBefore, g.ErrorMessage)
	}
	w.End()
}

func (b Batch) write(w *jsonv.Writer) {
	w.Begin()
	w.Str("assistantEntryId", b.AssistantID.String())
	w.Name("configuration")
	b.Configuration.write(w)
	w.Str("turnId", b.TurnID)
	w.Name("calls")
	w.BeginArray()
	for _, c := range b.Calls {
		c.write(w)
	}
	w.EndArray()
	if b.Ends != nil {
		w.Name("ends")
		b.Ends.write(w)
	}
	w.End()
}

func (c Call) write(w *jsonv.Writer) {
	w.Begin()
	w.Str("status", c.Status.status())
	w.Num("sourceIndex", int64(c.SourceIndex))
	w.Str("resultEntryId", c.ResultID.String())
	switch s := c.Status.(type) {
	case Planned:
	case Held:
		s.Pause.write(w)
	case Decided:
		s.Pause.write(w)
		s.write(w)
	case InFlight:
		w.Str("replay", string(s.Replay))
		w.Opaque("gate", s.Gate)
	case OutcomeReady:
		w.Flag("terminate", s.Terminate)
	case Completed:
		w.Flag("terminate", s.Terminate)
	}
	w.End()
}

func (p Pause) write(w *jsonv.Writer) {
	w.Name("pause")
	w.Begin()
	w.Str("gate", p.Gate)
	w.Str("reason", string(p.Reason))
	w.Name("subject")
	w.Value(p.Subject)
	w.Num("askedAt", p.AskedAt)
	if p.AnswerBy != 0 {
		w.Num("answerBy", p.AnswerBy)
		w.Str("window", string(p.Window))
	}
	if p.ParkUntil != 0 {
		w.Num("parkUntil", p.ParkUntil)
	}
	w.End()
}

func (d Decided) write(w *jsonv.Writer) {
	w.Name("decision")
	w.Begin()
	w.Str("kind", d.Decision.decision())
	switch x := d.Decision.(type) {
	case Approve:
		w.Opaque("arguments", x.Arguments)
		if x.Lifetime != "" {
			w.Str("lifetime", string(x.Lifetime))
		}
	case Deny:
		w.OptStr("note", x.Note)
		if x.Stop {
			w.Flag("stop", true)
		}
	case Reply:
		w.Name("content")
		w.BeginArray()
		for _, b := range x.Content {
			message.AppendBlock(w, b)
		}
		w.EndArray()
	}
	w.End()
	w.Num("decidedAt", d.At)
	if d.By != nil {
		w.Name("decidedBy")
		message.AppendOrigin(w, d.By)
	}
}

func (d DeferredWait) write(w *jsonv.Writer) {
	w.Begin()
	if d.ResponseID.IsZero() {
		w.Str("status", "suspended")
	} else {
		w.Str("status", "effect_pending")
	}
	w.Str("stepId", d.StepID)
	w.Str("sourceEntryId", d.SourceEntryID.String())
	w.Num("poll", d.Poll)
	w.Name("configuration")
	d.Configuration.write(w)
	w.Name("streamOptions")
	w.Value(d.StreamOptions)
	if !d.ResponseID.IsZero() {
		w.Str("responseEntryId", d.ResponseID.String())
		w.Str("usageId", d.UsageID.String())
	}
	if d.NotBefore != 0 {
		w.Num("notBefore", d.NotBefore)
	}
	w.End()
}

func (s Structural) write(w *jsonv.Writer) {
	w.Begin()
	w.Str("taskId", s.TaskID)
	if s.Generation == nil {
		w.Str("status", "deciding")
	} else {
		w.Str("status", "generating")
		w.Name("generation")
		writeSummaryGeneration(w, s.Generation)
	}
	w.End()
}

func (c SummaryContext) write(w *jsonv.Writer) {
	w.Name("context")
	w.Begin()
	w.Str("taskId", c.TaskID)
	w.Str("resultEntryId", c.ResultEntryID.String())
	w.Str("kind", c.Kind)
	w.Name("configuration")
	c.Configuration.write(w)
	w.Name("streamOptions")
	w.Value(c.StreamOptions)
	w.Name("retryPolicy")
	c.RetryPolicy.write(w)
	w.Str("reason", string(c.Reason))
	if c.Progress != (SummaryProgress{}) {
		w.Name("progress")
		w.Begin()
		w.Num("messages", c.Progress.Messages)
		w.Str("summary", c.Progress.Summary)
		w.Num("shrunk", c.Progress.Shrunk)
		w.End()
	}
	w.End()
}

func writeProvenance(w *jsonv.Writer, p Provenance) {
	w.Begin()
	switch p := p.(type) {
	case FromResponse:
		w.Str("kind", "response")
		w.Str("entryId", p.EntryID.String())
	case FromStructural:
		w.Str("kind", "structural")
		w.Str("taskId", p.TaskID)
	case FromConfiguration:
		w.Str("kind", "configuration")
	}
	w.End()
}

func (e OperationError) write(w *jsonv.Writer) {
	w.Begin()
	w.Str("code", e.Code)
	w.Str("message", e.Message)
	w.Opaque("details", e.Details)
	w.End()
}
