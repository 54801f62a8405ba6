package machine

import (
	"fmt"
	"slices"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/words"
)

const stateBoundary = "machine.DecodeState"

// DecodeState reads op.state.
func DecodeState(v jsonv.Value) (State, error) {
	r := jsonv.Read(v, stateBoundary)
	s := State{Control: jsonv.One(r, "control", decodeControl)}
	switch kind := r.Str("kind"); kind {
	case kindRun:
		run := &Run{
			Settings: jsonv.One(r, "settings", decodeSettings), Phase: jsonv.One(r, "phase", decodePhase),
			Inbox: jsonv.One(r, "inbox", decodeInbox), LatestAssistant: nullableEntry(r, "latestAssistantEntryId"),
		}
		run.Turns, run.Compactions = orZero(r, "turns"), orZero(r, "compactions")
		s.Work = run
	case kindCompaction:
		s.Work = &Compaction{
			CustomInstructions: r.OptStr("customInstructions"),
			Structural:         jsonv.One(r, "structural", decodeStructural),
		}
	case kindNavigation:
		n := jsonv.One(r, "navigation", decodeNavigation)
		s.Work = &n
	default:
		r.Fail("kind", "run, compaction or navigation", jsonv.Str(kind))
	}
	return whole(s, r)
}

// orZero reads a count that is written only where there is something to count.
func orZero(r *jsonv.Reader, name string) int64 {
	if n := r.OptNum(name); n != nil {
		return *n
	}
	return 0
}

func decodeControl(v jsonv.Value) (Control, error) {
	r := jsonv.Read(v, stateBoundary)
	switch status := r.Str("status"); status {
	case "running":
		return Running{}, r.Err()
	case "cancel_requested":
		return CancelRequested{
			RequestedAt: r.Num("requestedAt"), DrainedSteer: jsonv.Each(r, "drainedSteer", entry.DecodeID),
			DrainedFollows: jsonv.Each(r, "drainedFollowUp", entry.DecodeID),
		}, r.Err()
	default:
		r.Fail("status", "running or cancel_requested", jsonv.Str(status))
	}
	return nil, r.Err()
}

func decodeNavigation(v jsonv.Value) (Navigation, error) {
	r := jsonv.Read(v, stateBoundary)
	n := Navigation{TargetID: nullableEntry(r, "targetId"), Label: r.OptStr("label")}
	if r.Flag("summarize") {
		n.CustomInstructions = r.OptStr("customInstructions")
		n.Structural = new(jsonv.One(r, "structural", decodeStructural))
	}
	return n, r.Err()
}

func decodeSettings(v jsonv.Value) (Settings, error) {
	r := jsonv.Read(v, stateBoundary)
	return Settings{
		Compaction:    jsonv.One(r, "compaction", decodeCompactionSettings),
		SteeringMode:  word(r, "steeringMode", DrainAll, DrainOneAtATime),
		FollowUpMode:  word(r, "followUpMode", DrainAll, DrainOneAtATime),
		ToolExecution: word(r, "toolExecution", Sequential, Parallel),
		MaxTurns:      r.OptNum("maxTurns"),
	}, r.Err()
}

// word reads a field whose text is one of a few.
func word[W ~string](r *jsonv.Reader, name string, allowed ...W) W {
	w := W(r.Str(name))
	if !slices.Contains(allowed, w) {
		r.Fail(name, fmt.Sprintf("one of %q", allowed), jsonv.Str(string(w)))
	}
	return w
}

func decodeCompactionSettings(v jsonv.Value) (CompactionSettings, error) {
	r := jsonv.Read(v, stateBoundary)
	return CompactionSettings{r.Flag("enabled"), r.Num("reserveTokens"), r.Num("keepRecentTokens")}, r.Err()
}

func decodeInbox(v jsonv.Value) (Inbox, error) {
	r := jsonv.Read(v, stateBoundary)
	return Inbox{
		Steer: jsonv.Each(r, "steer", entry.DecodeID), FollowUp: jsonv.Each(r, "followUp", entry.DecodeID),
		Writes: jsonv.Each(r, "writes", entry.DecodeID),
	}, r.Err()
}

func decodePhase(v jsonv.Value) (Phase, error) {
	r := jsonv.Read(v, stateBoundary)
	var p Phase
	switch kind := r.Str("kind"); kind {
	case Starting{}.phase():
		p = Starting{}
	case AtCheckpoint{}.phase():
		p = AtCheckpoint{jsonv.One(r, "checkpoint", decodeCheckpoint)}
	case Generating{}.phase():
		p = Generating{jsonv.One(r, "generation", decodeGeneration)}
	case RunningTools{}.phase():
		p = RunningTools{jsonv.One(r, "batch", decodeBatch)}
	case Compacting{}.phase():
		p = Compacting{
			Reason:      word(r, "reason", ReasonThreshold, ReasonOverflow),
			Structural:  jsonv.One(r, "structural", decodeStructural),
			ResumeAfter: jsonv.One(r, "resumeAfter", decodeCheckpoint),
		}
	case AwaitingDeferred{}.phase():
		p = AwaitingDeferred{jsonv.One(r, "deferred", decodeDeferred)}
	case FailureDrain{}.phase():
		p = FailureDrain{jsonv.One(r, "error", decodeError), jsonv.One(r, "provenance", decodeProvenance)}
	default:
		r.Fail("kind", "a known phase", jsonv.Str(kind))
	}
	return p, r.Err()
}

func decodeCheckpoint(v jsonv.Value) (Checkpoint, error) {
	r := jsonv.Read(v, stateBoundary)
	return Checkpoint{
		Continuation: jsonv.One(r, "continuation", decodeContinuation),
		Trigger:      jsonv.One(r, "triggerEntryId", entry.DecodeID), ThresholdChecked: optionalEntry(r, "thresholdCheckedTriggerEntryId"),
		SkipInboxOnce: r.Flag("skipInboxOnce"),
	}, r.Err()
}

func decodeContinuation(v jsonv.Value) (Continuation, error) {
	r := jsonv.Read(v, stateBoundary)
	switch kind := r.Str("kind"); kind {
	case "need_assistant":
		return NeedAssistant{r.Flag("overflowRecoveryUsed")}, r.Err()
	case "may_finish":
		return MayFinish{r.Flag("includeFinalAssistant")}, r.Err()
	default:
		r.Fail("kind", "need_assistant or may_finish", jsonv.Str(kind))
	}
	return nil, r.Err()
}

func decodeGeneration(v jsonv.Value) (Generation, error) {
	r := jsonv.Read(v, stateBoundary)
	ctx := jsonv.One(r, "context", decodeGenerationContext)
	switch status := r.Str("status"); status {
	case "ready":
		return GenReady{ctx, r.Num("nextAttempt")}, r.Err()
	case "effect_pending":
		return GenPending{
			Context: ctx, Attempt: r.Num("attempt"), ResponseID: jsonv.One(r, "responseEntryId", entry.DecodeID),
			UsageID: jsonv.One(r, "usageId", decodeUsageID), IntendedOutputLimit: r.Num("intendedOutputLimit"),
			ContextWindow: r.Num("contextWindow"), RequestAPI: r.Str("requestApi"),
		}, r.Err()
	case "retry_wait":
		return GenRetryWait{ctx, r.Num("nextAttempt"), r.Num("notBefore"), r.Str("errorMessage")}, r.Err()
	default:
		r.Fail("status", "a known status of a generation", jsonv.Str(status))
	}
	return nil, r.Err()
}

func decodeGenerationContext(v jsonv.Value) (GenerationContext, error) {
	r := jsonv.Read(v, stateBoundary)
	return GenerationContext{
		StepID: r.Str("stepId"), Trigger: jsonv.One(r, "triggerEntryId", entry.DecodeID),
		Configuration: jsonv.One(r, "configuration", DecodeConfiguration), StreamOptions: r.Value("streamOptions"),
		RetryPolicy: jsonv.One(r, "retryPolicy", decodeRetryPolicy), OverflowRecoveryUsed: r.Flag("overflowRecoveryUsed"),
	}, r.Err()
}

// defaultMaxDelayMs stands for rows written before the cap was stored.
const defaultMaxDelayMs = 1_073_741_824

func decodeRetryPolicy(v jsonv.Value) (RetryPolicy, error) {
	r := jsonv.Read(v, stateBoundary)
	p := RetryPolicy{BaseDelayMs: r.Num("baseDelayMs"), MaxDelayMs: defaultMaxDelayMs}
	if n := r.OptNum("maxDelayMs"); n != nil {
		p.MaxDelayMs = *n
	}
	if unbounded, ok := r.Value("maxAttempts").Text(); !ok || unbounded != "unbounded" {
		p.MaxAttempts = new(r.Num("maxAttempts"))
	}
	return p, r.Err()
}

func decodeBatch(v jsonv.Value) (Batch, error) {
	r := jsonv.Read(v, stateBoundary)
	return Batch{
		AssistantID:   jsonv.One(r, "assistantEntryId", entry.DecodeID),
		Configuration: jsonv.One(r, "configuration", DecodeConfiguration),
		TurnID:        r.Str("turnId"), Calls: jsonv.Each(r, "calls", decodeCall), Ends: jsonv.OptOne(r, "ends", decodeError),
	}, r.Err()
}

func decodeCall(v jsonv.Value) (Call, error) {
	r := jsonv.Read(v, stateBoundary)
	c := Call{SourceIndex: int(r.Num("sourceIndex")), ResultID: jsonv.One(r, "resultEntryId", entry.DecodeID)}
	switch status := r.Str("status"); status {
	case Planned{}.status():
		c.Status = Planned{}
	case Held{}.status():
		c.Status = Held{jsonv.One(r, "pause", decodePause)}
	case Decided{}.status():
		c.Status = Decided{
			Pause: jsonv.One(r, "pause", decodePause), Decision: jsonv.One(r, "decision", decodeDecision),
			At: r.Num("decidedAt"), By: jsonv.OptOne(r, "decidedBy", message.DecodeOrigin),
		}
	case InFlight{}.status():
		c.Status = InFlight{word(r, "replay", ReplayNever, ReplaySafe), r.Opaque("gate")}
	case OutcomeReady{}.status():
		c.Status = OutcomeReady{r.Flag("terminate")}
	case Completed{}.status():
		c.Status = Completed{r.Flag("terminate")}
	default:
		r.Fail("status", "a known status of a call", jsonv.Str(status))
	}
	return c, r.Err()
}

func decodePause(v jsonv.Value) (Pause, error) {
	r := jsonv.Read(v, stateBoundary)
	p := Pause{
		Gate: r.Str("gate"), Reason: word(r, "reason", words.PauseReasons.Words()...), Subject: r.Value("subject"),
		AskedAt: r.Num("askedAt"), AnswerBy: orZero(r, "answerBy"), ParkUntil: orZero(r, "parkUntil"),
	}
	if p.AnswerBy != 0 {
		p.Window = word(r, "window", words.ExpiredApproval, words.ExpiredDenialLimit)
	}
	return p, r.Err()
}

func decodeDecision(v jsonv.Value) (Decision, error) {
	r := jsonv.Read(v, stateBoundary)
	switch kind := r.Str("kind"); kind {
	case Approve{}.decision():
		a := Approve{Arguments: r.Opaque("arguments")}
		if r.OptStr("lifetime") != nil {
			a.Lifetime = word(r, "lifetime", words.GrantLifetimes.Words()...)
		}
		return a, r.Err()
	case Deny{}.decision():
		return Deny{r.OptStr("note"), r.OptFlag("stop")}, r.Err()
	case Reply{}.decision():
		return Reply{jsonv.Each(r, "content", message.DecodeUserBlock)}, r.Err()
	default:
		r.Fail("kind", "a known decision", jsonv.Str(kind))
	}
	return nil, r.Err()
}

func decodeDeferred(v jsonv.Value) (DeferredWait, error) {
	r := jsonv.Read(v, stateBoundary)
	d := DeferredWait{
		StepID: r.Str("stepId"), SourceEntryID: jsonv.One(r, "sourceEntryId", entry.DecodeID), Poll: r.Num("poll"),
		Configuration: jsonv.One(r, "configuration", DecodeConfiguration), StreamOptions: r.Value("streamOptions"),
		NotBefore: orZero(r, "notBefore"),
	}
	switch status := r.Str("status"); status {
	case "suspended":
	case "effect_pending":
		d.ResponseID = jsonv.One(r, "responseEntryId", entry.DecodeID)
		d.UsageID = jsonv.One(r, "usageId", decodeUsageID)
	default:
		r.Fail("status", "suspended or effect_pending", jsonv.Str(status))
	}
	return d, r.Err()
}

func decodeStructural(v jsonv.Value) (Structural, error) {
	r := jsonv.Read(v, stateBoundary)
	s := Structural{TaskID: r.Str("taskId")}
	switch status := r.Str("status"); status {
	case "deciding":
	case "generating":
		s.Generation = jsonv.One(r, "generation", decodeSummaryGeneration)
	default:
		r.Fail("status", "deciding or generating", jsonv.Str(status))
	}
	return s, r.Err()
}

func decodeSummaryGeneration(v jsonv.Value) (SummaryGeneration, error) {
	r := jsonv.Read(v, stateBoundary)
	ctx := jsonv.One(r, "context", decodeSummaryContext)
	switch status := r.Str("status"); status {
	case "ready":
		return SummaryReady{ctx, r.Num("nextAttempt")}, r.Err()
	case "effect_pending":
		return SummaryPending{
			Context: ctx, Attempt: r.Num("attempt"), UsageIDs: jsonv.Each(r, "usageIds", decodeUsageID),
			Request: jsonv.OptOne(r, "request", func(v jsonv.Value) (SummaryRequest, error) {
				r := jsonv.Read(v, stateBoundary)
				return SummaryRequest{r.Num("index"), jsonv.One(r, "usageId", decodeUsageID)}, r.Err()
			}),
		}, r.Err()
	case "retry_wait":
		return SummaryRetryWait{ctx, r.Num("nextAttempt"), r.Num("notBefore"), r.Str("errorMessage")}, r.Err()
	default:
		r.Fail("status", "a known status of a summary", jsonv.Str(status))
	}
	return nil, r.Err()
}

func decodeSummaryContext(v jsonv.Value) (SummaryContext, error) {
	r := jsonv.Read(v, stateBoundary)
	return SummaryContext{
		TaskID: r.Str("taskId"), ResultEntryID: jsonv.One(r, "resultEntryId", entry.DecodeID),
		Kind:          word(r, "kind", kindCompactionSummary, kindBranchSummary),
		Configuration: jsonv.One(r, "configuration", DecodeConfiguration), StreamOptions: r.Value("streamOptions"),
		RetryPolicy: jsonv.One(r, "retryPolicy", decodeRetryPolicy),
		Reason:      word(r, "reason", ReasonManual, ReasonThreshold, ReasonOverflow),
		Progress:    decodeProgress(r),
	}, r.Err()
}

func decodeProgress(r *jsonv.Reader) SummaryProgress {
	p := jsonv.OptOne(r, "progress", func(v jsonv.Value) (SummaryProgress, error) {
		r := jsonv.Read(v, stateBoundary)
		return SummaryProgress{r.Num("messages"), r.Str("summary"), r.Num("shrunk")}, r.Err()
	})
	if p == nil {
		return SummaryProgress{}
	}
	return *p
}

func decodeError(v jsonv.Value) (OperationError, error) {
	r := jsonv.Read(v, stateBoundary)
	return OperationError{Code: r.Str("code"), Message: r.Str("message"), Details: r.Opaque("details")}, r.Err()
}

func decodeProvenance(v jsonv.Value) (Provenance, error) {
	r := jsonv.Read(v, stateBoundary)
	switch kind := r.Str("kind"); kind {
	case "response":
		return FromResponse{jsonv.One(r, "entryId", entry.DecodeID)}, r.Err()
	case "structural":
		return FromStructural{r.Str("taskId")}, r.Err()
	case "configuration":
		return FromConfiguration{}, r.Err()
	default:
		r.Fail("kind", "a known provenance", jsonv.Str(kind))
	}
	return nil, r.Err()
}
