package client

import (
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/wire"
)

// arms is the reading of each kind. A test holds it equal to the kinds of wire.
var arms = map[wire.Kind]func(*step){
	wire.KindRunStart:       arm((*step).runStart),
	wire.KindUserMessage:    arm((*step).userMessage),
	wire.KindTextDelta:      arm((*step).textDelta),
	wire.KindTextEnd:        arm((*step).textEnd),
	wire.KindReasoningDelta: arm((*step).reasoningDelta),
	wire.KindReasoningEnd:   arm((*step).reasoningEnd),
	wire.KindToolCall:       arm((*step).toolCall),
	wire.KindToolProgress:   arm((*step).toolProgress),
	wire.KindToolResult:     arm((*step).toolResult),
	wire.KindTurnEnd:        arm((*step).turnEnd),
	wire.KindRetry:          arm((*step).retry),
	wire.KindRunEnd:         arm((*step).runEnd),
	wire.KindRunStopped:     arm((*step).runStopped),
	wire.KindNotice:         arm((*step).notice),
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
	case st.ending != nil, st.level == b:
		return // restated, and nothing new in it
	}
	st.level = b
	st.show(plane.RunOpened{Operation: op, Model: b.Model, Mode: b.Mode, Cwd: b.Cwd, Tools: b.Tools})
}

func (st *step) userMessage(b wire.UserMessage) {
	if st.ending != nil { // history has no run starts
		st.open(id.OpID{})
	}
	st.keep(plane.Prompt{Entry: b.Entry, Text: b.Text, Bytes: b.Bytes, Images: b.Images})
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
	st.show(plane.ToolWindow{CallID: b.CallID, Stream: b.Stream, Tail: b.Tail, TotalBytes: b.TotalBytes})
}

func (st *step) toolResult(b wire.ToolResult) {
	st.keep(plane.Result{
		Entry: b.Entry, CallID: b.CallID, Name: b.Name, Text: b.Text, Images: b.Images, IsError: b.IsError, Gate: b.Gate,
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

func (st *step) retry(b wire.Retry) {
	st.show(plane.Waiting{Attempt: b.Attempt, UntilMs: b.UntilMs, Error: b.Error})
}

func (st *step) runEnd(b wire.RunEnd) {
	op, total := st.frame.Operation, Measure(b.Usage)
	if !st.operation.IsZero() && op != st.operation { // a run before the one that is on
		st.keep(plane.Ended{Operation: op, Cause: b.Cause, Total: total})
		return
	}
	st.abandon()
	st.tally = total
	st.keep(plane.Ended{Operation: op, Cause: b.Cause, Total: st.total(total)})
	st.close(plane.Seen{Cause: b.Cause})
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
