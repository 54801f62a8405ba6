package client

import (
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
)

// arms is the reading of each kind. A test holds it, with [unarmed], equal to the
// kinds of wire.
var arms = map[wire.Kind]func(*step){
	wire.KindRunStart:           arm((*step).runStart),
	wire.KindTurnStart:          arm((*step).turnStart),
	wire.KindUserMessage:        arm((*step).userMessage),
	wire.KindTextDelta:          arm((*step).textDelta),
	wire.KindTextEnd:            arm((*step).textEnd),
	wire.KindReasoningDelta:     arm((*step).reasoningDelta),
	wire.KindReasoningEnd:       arm((*step).reasoningEnd),
	wire.KindToolCallDelta:      arm((*step).toolCallDelta),
	wire.KindToolCall:           arm((*step).toolCall),
	wire.KindToolDisclosure:     arm((*step).toolDisclosure),
	wire.KindToolProgress:       arm((*step).toolProgress),
	wire.KindToolResult:         arm((*step).toolResult),
	wire.KindTurnEnd:            arm((*step).turnEnd),
	wire.KindLastTurnUsage:      arm((*step).lastTurnUsage),
	wire.KindRetry:              arm((*step).retry),
	wire.KindCompactionBoundary: arm((*step).compactionBoundary),
	wire.KindBranchSummary:      arm((*step).branchSummary),
	wire.KindRunEnd:             arm((*step).runEnd),
	wire.KindRunStopped:         arm((*step).runStopped),
	wire.KindNotice:             arm((*step).notice),

	wire.KindRosterChange:     arm((*step).rosterChange),
	wire.KindPending:          arm((*step).pending),
	wire.KindApprovalRequest:  arm((*step).approvalRequest),
	wire.KindApprovalSettled:  arm((*step).approvalSettled),
	wire.KindQuestionRequest:  arm((*step).questionRequest),
	wire.KindQuestionSettled:  arm((*step).questionSettled),
	wire.KindPlanRequest:      arm((*step).planRequest),
	wire.KindPlanSettled:      arm((*step).planSettled),
	wire.KindQueue:            arm((*step).queue),
	wire.KindInputTaken:       arm((*step).inputTaken),
	wire.KindInputUnused:      arm((*step).inputUnused),
	wire.KindDiagnostics:      arm((*step).diagnostics),
	wire.KindWorkspaceChanged: arm((*step).workspaceChanged),
	wire.KindHookNotice:       arm((*step).hookNotice),
	wire.KindTaskStarted:      arm((*step).taskStarted),
	wire.KindTaskProgress:     arm((*step).taskProgress),
	wire.KindTaskNotification: arm((*step).taskNotification),
	wire.KindWorkflowProgress: arm((*step).workflowProgress),
	wire.KindBackground:       arm((*step).background),
	wire.KindActivity:         arm((*step).activity),
	wire.KindSettings:         arm((*step).settings),
	wire.KindPresence:         arm((*step).presence),
}

// unarmed are the kinds that this runtime does not read, each with the reason. A kind
// that is new on the wire stands here until it has an arm.
var unarmed = map[wire.Kind]string{}

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
	case op == st.over && st.ending == nil:
		return // stated late: another run is on
	case st.operation.IsZero() && st.ending == nil:
		st.operation = op // who attaches in the middle hears of its turns before its name
	case op != st.operation:
		st.abandon()
		st.open(op)
	case st.ending != nil, st.level == string(wire.Encode(b)):
		return // restated, and nothing new in it
	}
	if st.level == "" { // it opens here; later statements of it clear nothing
		st.show(plane.Cleared{})
	}
	st.level = string(wire.Encode(b))
	st.tools.Start(b)
	st.show(plane.RunOpened{
		Operation: op, Model: b.Model, Mode: b.Mode, Cwd: b.Cwd, MaxTurns: b.MaxTurns, Roster: b.Roster, Hands: b.Hands, MCP: b.MCP,
	})
}

func (st *step) userMessage(b wire.UserMessage) {
	if st.ending != nil { // history has no run starts
		st.open(id.OpID{})
	}
	st.keep(project.Prompt(b))
}

func (st *step) textDelta(b wire.TextDelta) {
	st.delta(b.Segment, false, b.Offset, b.Text)
}

func (st *step) reasoningDelta(b wire.ReasoningDelta) {
	st.delta(b.Segment, true, b.Offset, b.Text)
}

func (st *step) textEnd(b wire.TextEnd) {
	st.settle(b.Segment, false, b.Content)
	st.book.said(b.Segment.Entry, b.Content)
	st.keep(project.Answer(b))
}

func (st *step) reasoningEnd(b wire.ReasoningEnd) {
	st.settle(b.Segment, true, b.Content)
	st.keep(project.Reasoning(b))
}

func (st *step) toolCall(b wire.ToolCall) {
	st.live.end(b.Segment.Entry)
	st.book.called(call{id: b.CallID, name: b.Name, input: b.Arguments})
	st.keep(project.Call(b))
}

func (st *step) toolProgress(b wire.ToolProgress) {
	st.show(plane.ToolWindow{CallID: b.CallID, Stream: b.Stream, Tail: b.Tail, TotalBytes: b.TotalBytes, ElapsedMs: b.ElapsedMs})
}

func (st *step) toolResult(b wire.ToolResult) {
	asked, _ := st.book.answered(b.CallID)
	st.keep(project.Answered(b))
	if project.Denied(b.Gate) {
		st.book.denied(sdkmsg.Denial{ToolName: b.Name, ToolUseID: b.CallID, ToolInput: asked.input})
	}
	if m, ok := project.DeniedUnasked(b); ok {
		st.keep(m)
	}
	if r, ok := project.Registered(b); ok {
		st.show(plane.BackgroundRegistered{Registration: r})
	}
}

func (st *step) turnEnd(b wire.TurnEnd) {
	st.endTurn(b.Entry)
	st.book.ended(b.Entry)
	tally := project.Measure(b.Usage)
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
		Entry: b.Entry, Usage: project.Measure(b.Usage), Model: b.Model, ContextTokens: b.ContextTokens, ContextWindow: b.ContextWindow,
	})
}

func (st *step) compactionBoundary(b wire.CompactionBoundary) {
	mark, summary := project.Compacted(b)
	st.keep(mark)
	st.keep(summary)
}

func (st *step) branchSummary(b wire.BranchSummary) { st.keep(project.BranchLeft(b)) }

func (st *step) retry(b wire.Retry) {
	st.show(plane.Waiting{Attempt: b.Attempt, MaxAttempts: b.MaxAttempts, UntilMs: b.UntilMs, Error: b.Error})
}

func (st *step) runEnd(b wire.RunEnd) {
	op, total := st.frame.Operation, project.Measure(b.Usage)
	if !st.operation.IsZero() && op != st.operation { // a run before the one that is on
		st.keep(project.Ended(op.String(), b, total, project.Account{}))
		return
	}
	st.abandon()
	st.operation, st.over = op, op
	st.tally = total
	st.keep(project.Ended(op.String(), b, st.total(total), st.account()))
	st.close(plane.Seen{Cause: b.Terminal})
}

func (st *step) runStopped(b wire.RunStopped) {
	if st.frame.Operation == st.operation && st.ending == nil {
		st.lacking = true
		st.close(plane.Lost{Why: plane.Stopped, Err: &Stopped{Code: b.Code, Message: b.Message}})
	}
}

// notice keeps what was committed and shows what passes.
func (st *step) notice(b wire.Notice) {
	to := audience(b.Code, b.Audience)
	if st.frame.Delivery == wire.Replay {
		st.keep(project.NoticeLine(b, to))
		return
	}
	st.show(plane.Noticed{Code: b.Code, Audience: to, Facts: b.Facts})
}
