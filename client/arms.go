package client

import (
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/wire"
)

// arms is the reading of each kind. A test holds it, with [unarmed], equal to the
// kinds of wire.
var arms = map[wire.Kind]func(*step){
	wire.KindRunStart:           arm((*step).runStart),
	wire.KindTurnStart:          arm((*step).turnStart),
	wire.KindToolCallDelta:      arm((*step).toolCallDelta),
	wire.KindToolDisclosure:     arm((*step).toolDisclosure),
	wire.KindLastTurnUsage:      arm((*step).lastTurnUsage),
	wire.KindCompactionBoundary: arm((*step).compactionBoundary),
	wire.KindBranchSummary:      arm((*step).branchSummary),
	wire.KindUserMessage:        arm((*step).userMessage),
	wire.KindTextDelta:          arm((*step).textDelta),
	wire.KindTextEnd:            arm((*step).textEnd),
	wire.KindReasoningDelta:     arm((*step).reasoningDelta),
	wire.KindReasoningEnd:       arm((*step).reasoningEnd),
	wire.KindToolCall:           arm((*step).toolCall),
	wire.KindToolProgress:       arm((*step).toolProgress),
	wire.KindToolResult:         arm((*step).toolResult),
	wire.KindTurnEnd:            arm((*step).turnEnd),
	wire.KindRetry:              arm((*step).retry),
	wire.KindRunEnd:             arm((*step).runEnd),
	wire.KindRunStopped:         arm((*step).runStopped),
	wire.KindNotice:             arm((*step).notice),
}

// unarmed are the kinds that this runtime does not read yet, each with the reason. No
// engine mints them yet.
var unarmed = map[wire.Kind]string{
	wire.KindRosterChange:     "rosters do not change while a run is on",
	wire.KindPending:          "nothing waits for a person",
	wire.KindApprovalRequest:  "nothing waits for a person",
	wire.KindApprovalSettled:  "nothing waits for a person",
	wire.KindQuestionRequest:  "nothing waits for a person",
	wire.KindQuestionSettled:  "nothing waits for a person",
	wire.KindPlanRequest:      "nothing waits for a person",
	wire.KindPlanSettled:      "nothing waits for a person",
	wire.KindQueue:            "queued input cannot be listed",
	wire.KindInputTaken:       "queued input cannot be listed",
	wire.KindInputUnused:      "queued input cannot be listed",
	wire.KindDiagnostics:      "no checker looks at files",
	wire.KindWorkspaceChanged: "nobody watches files",
	wire.KindHookNotice:       "there are no hooks",
	wire.KindTaskStarted:      "nothing works in the background",
	wire.KindTaskProgress:     "nothing works in the background",
	wire.KindTaskNotification: "nothing works in the background",
	wire.KindWorkflowProgress: "there are no workflows",
	wire.KindBackground:       "nothing works in the background",
	wire.KindActivity:         "the state of a session is in the list of sessions",
	wire.KindSettings:         "what a run starts with is in its start",
	wire.KindPresence:         "a session has one client",
}

// arm gives an arm its own body type. A body of another type under that kind
// does not come out of a decoder; it would give no output.
func arm[B wire.Body](f func(*step, B)) func(*step) {
	return func(st *step) {
		if b, ok := st.frame.Body.(B); ok {
			f(st, b)
		}
	}
}

func (st *step) runStart(b wire.RunStart) {
	op := st.frame.Operation
	switch {
	case op != st.operation:
		st.abandon()
		st.open(op)
	case st.ending != nil, st.level == string(wire.Encode(b)):
		return // restated, and nothing new in it
	}
	st.level = string(wire.Encode(b))
	st.show(plane.RunOpened{
		Operation: op, Model: b.Model, Mode: b.Mode, Cwd: b.Cwd, MaxTurns: b.MaxTurns, Roster: b.Roster, Hands: b.Hands, MCP: b.MCP,
	})
}

func (st *step) userMessage(b wire.UserMessage) {
	if st.ending != nil { // history has no run starts
		st.open(id.OpID{})
	}
	st.keep(plane.Prompt{Entry: b.Entry, Text: b.Text, Bytes: b.Bytes, Images: b.Images, Author: b.Author})
}

func (st *step) textDelta(b wire.TextDelta) {
	st.delta(b.Segment, false, b.Offset, b.Text)
}

func (st *step) reasoningDelta(b wire.ReasoningDelta) {
	st.delta(b.Segment, true, b.Offset, b.Text)
}

func (st *step) textEnd(b wire.TextEnd) {
	st.settle(b.Segment, false, b.Content)
	st.keep(plane.Answer{Segment: b.Segment, Text: b.Content})
}

func (st *step) reasoningEnd(b wire.ReasoningEnd) {
	st.settle(b.Segment, true, b.Content)
	st.keep(plane.Reasoning{Segment: b.Segment, Text: b.Content, Redacted: b.Redacted})
}

func (st *step) toolCall(b wire.ToolCall) {
	st.live.end(b.Segment.Entry)
	st.keep(plane.Call{Segment: b.Segment, CallID: b.CallID, Name: b.Name, Arguments: b.Arguments})
}

func (st *step) toolProgress(b wire.ToolProgress) {
	st.show(plane.ToolWindow{CallID: b.CallID, Stream: b.Stream, Tail: b.Tail, TotalBytes: b.TotalBytes, ElapsedMs: b.ElapsedMs})
}

func (st *step) toolResult(b wire.ToolResult) {
	st.keep(plane.Result{
		Entry: b.Entry, CallID: b.CallID, Name: b.Name, Text: b.Text, Images: b.Images, IsError: b.IsError, Gate: b.Gate,
		Structured: b.Structured, StructuredBytes: b.StructuredBytes,
	})
}

func (st *step) turnEnd(b wire.TurnEnd) {
	st.endTurn(b.Entry)
	tally := Measure(b.Usage)
	if b.StopReason != failedAttempt {
		st.turns++
	}
	st.tally = st.tally.Add(tally)
	st.show(plane.LastTurn{
		Entry: b.Entry, Usage: tally, StopReason: b.StopReason, Model: b.Model, ErrorMessage: b.ErrorMessage,
	})
}

// failedAttempt is the stop reason of a response that stands for an attempt without
// an answer. It is billed and is no turn: the attempts of a step are one.
const failedAttempt = "error"

func (st *step) turnStart(b wire.TurnStart) {
	st.show(plane.TurnOpened{Entry: b.Entry, Model: b.Model, Attempt: b.Attempt})
}

func (st *step) toolCallDelta(b wire.ToolCallDelta) {
	if !st.live.over(b.Entry) {
		st.show(plane.LiveArguments{Segment: b.Segment, CallID: b.CallID, Name: b.Name, Offset: b.Offset, Fragment: b.Fragment})
	}
}

func (st *step) toolDisclosure(b wire.ToolDisclosure) { st.show(plane.CallDisclosed{Disclosure: b}) }

func (st *step) lastTurnUsage(b wire.LastTurnUsage) {
	st.show(plane.ContextUsed{
		Entry: b.Entry, Usage: Measure(b.Usage), Model: b.Model, ContextTokens: b.ContextTokens, ContextWindow: b.ContextWindow,
	})
}

func (st *step) compactionBoundary(b wire.CompactionBoundary) {
	st.keep(plane.Compacted{Boundary: b})
}

func (st *step) branchSummary(b wire.BranchSummary) { st.keep(plane.BranchLeft{Summary: b}) }

func (st *step) retry(b wire.Retry) {
	st.show(plane.Waiting{Attempt: b.Attempt, MaxAttempts: b.MaxAttempts, UntilMs: b.UntilMs, Error: b.Error})
}

func (st *step) runEnd(b wire.RunEnd) {
	op, total := st.frame.Operation, Measure(b.Usage)
	if !st.operation.IsZero() && op != st.operation { // a run before the one that is on
		st.keep(plane.Ended{Operation: op, Cause: b.Terminal, Total: total, Gates: b.Gates, Final: b.FinalEntry})
		return
	}
	st.abandon()
	st.tally = total
	st.keep(plane.Ended{Operation: op, Cause: b.Terminal, Total: st.total(total), Gates: b.Gates, Final: b.FinalEntry})
	st.close(plane.Seen{Cause: b.Terminal})
}

func (st *step) runStopped(b wire.RunStopped) {
	if st.frame.Operation == st.operation && st.ending == nil {
		st.lacking = true
		st.close(plane.Lost{Why: plane.Stopped, Err: &Stopped{Code: b.Code, Message: b.Message}})
	}
}

func (st *step) notice(b wire.Notice) {
	st.show(plane.Noticed{Code: b.Code, Audience: audience(b.Code, b.Audience), Facts: b.Facts})
}
