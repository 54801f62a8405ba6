package machine

import (
	"fmt"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/words"
)

// batch plans the calls of a response. Result ids follow the response's id.
func (p *plan) batch(response id.EntryID, c Configuration, step string, sourceIndexes []int) Batch {
	b := Batch{AssistantID: response, Configuration: c, TurnID: step}
	for _, i := range sourceIndexes {
		var result id.EntryID
		result, p.ids = p.ids.Follower(response)
		b.Calls = append(b.Calls, Call{SourceIndex: i, ResultID: result, Status: Planned{}})
	}
	return b
}

// ToolArgsKey is the op.tool_args key of a call.
func ToolArgsKey(op id.OpID, step string, sourceIndex int) string {
	return fmt.Sprintf("%s:%s:%d", op, step, sourceIndex)
}

// tools drives a batch: what was reported first, then results that can enter the
// tree, then calls that can start.
func (p *plan) tools(b Batch) Action {
	if p.in.BatchSource == nil {
		return fault("entry "+b.AssistantID.String(), "the response whose calls are worked on", "nothing")
	}
	b.Calls = append([]Call(nil), b.Calls...)
	if p.in.Observation != nil {
		return p.observe(b)
	}
	frontier := 0
	for frontier < len(b.Calls) && isCompleted(b.Calls[frontier]) {
		frontier++
	}
	if frontier == len(b.Calls) {
		return p.closeBatch(b)
	}
	if _, ready := b.Calls[frontier].Status.(OutcomeReady); ready {
		return p.materialize(b, frontier)
	}
	return p.advance(b, frontier)
}

func isCompleted(c Call) bool {
	_, done := c.Status.(Completed)
	return done
}

// advance starts the next call that can start, or waits: for calls in flight, or,
// when only a person can go on, parked.
func (p *plan) advance(b Batch, frontier int) Action {
	var flying []int
	var held []Pause
	until := int64(0)
	for n := frontier; n < len(b.Calls); n++ {
		switch status := b.Calls[n].Status.(type) {
		case Planned, Decided:
			return p.begin(b, n)
		case Held:
			if window, gone := status.Pause.expired(p.in.Now); gone {
				return p.expire(b, n, window)
			}
			if p.cancelled() || b.Ends != nil {
				return p.begin(b, n)
			}
			held = append(held, status.Pause)
			if at := status.Pause.Deadline(); at > 0 && (until == 0 || at < until) {
				until = at
			}
		case InFlight:
			flying = append(flying, b.Calls[n].SourceIndex)
		case OutcomeReady, Completed:
			continue
		}
		if p.run.Settings.ToolExecution == Sequential {
			break
		}
	}
	if len(flying) == 0 && len(held) > 0 {
		return Park{held, until}
	}
	return AwaitEffect{CallsKey{b.TurnID, flying}, until}
}

// begin answers a planned call at once where it must not run, and asks for
// clearance otherwise.
func (p *plan) begin(b Batch, n int) Action {
	call, ok := p.source(b.Calls[n])
	if !ok {
		return p.noSuchCall(b, n)
	}
	if d, yes := b.Calls[n].Status.(Decided); yes && Settles(d.Decision) == words.RejectedStop {
		return p.decided(b, n, d) // its refusal is what ended the run
	}
	if p.cancelled() {
		return p.stage(StepCallAborted, b, n, notRun(call, abortedCall), false)
	}
	if b.Ends != nil {
		return p.stage(StepCallEnded, b, n, notRun(call, endedCall), false)
	}
	if d, yes := b.Calls[n].Status.(Decided); yes {
		return p.decided(b, n, d)
	}
	if p.in.BatchSource.StopReason == message.Length {
		return p.stage(StepCallCutOff, b, n, notRun(call, "the response was cut off at its output limit, so the arguments of this call may be incomplete; it was not executed, send it again"), false)
	}
	if raw, reason, malformed := message.AsMalformed(call.Arguments); malformed {
		return p.stage(StepCallMalformed, b, n, notRun(call, MalformedRefusal(raw, reason)), false)
	}
	return AwaitEffect{Key: ClearanceKey{b.TurnID, b.Calls[n].SourceIndex, call, nil}}
}

const endedCall = "the run ended before this call started; it was not executed"

const abortedCall = "the run was aborted before this call started; it was not executed"

// MalformedRefusal tells the model what was wrong with its arguments.
func MalformedRefusal(raw, reason string) string {
	return "the arguments of this call are not a JSON object, so it was not executed. The parser said: " + reason +
		"\nThe arguments were: " + raw + "\nSend the call again with arguments that are one valid JSON object."
}

func (p *plan) source(c Call) (message.ToolCall, bool) {
	if c.SourceIndex < 0 || c.SourceIndex >= len(p.in.BatchSource.Content) {
		return message.ToolCall{}, false
	}
	call, ok := p.in.BatchSource.Content[c.SourceIndex].(message.ToolCall)
	return call, ok
}

func (p *plan) noSuchCall(b Batch, n int) Action {
	return fault(fmt.Sprintf("call %d of %s", b.Calls[n].SourceIndex, b.AssistantID), "a tool call in the response", "none there")
}

// notRun is the result of a call that was never executed.
func notRun(call message.ToolCall, text string) *message.ToolResult {
	return &message.ToolResult{
		ToolCallID: call.ID, ToolName: call.Name, IsError: true,
		Content: []message.ResultBlock{message.Text{Text: text}},
	}
}

// observe takes the report about one call.
func (p *plan) observe(b Batch) Action {
	switch o := p.in.Observation.(type) {
	case Cleared:
		if n, ok := asked(b, o.SourceIndex); ok {
			return p.cleared(b, n, o)
		}
	case Asked:
		if n, ok := asked(b, o.SourceIndex); ok {
			return p.hold(b, n, o)
		}
	case Refused:
		if n, ok := asked(b, o.SourceIndex); ok && o.Result != nil {
			return p.stage(StepCallRefused, b, n, o.Result, o.Terminate)
		}
	case ToolSettled:
		if n, ok := find[InFlight](b, o.SourceIndex); ok && o.Result != nil {
			return p.stage(StepCallSettled, b, n, o.Result, o.Terminate)
		}
	case OrphanedCall:
		if n, ok := find[InFlight](b, o.SourceIndex); ok {
			return p.orphaned(b, n, o)
		}
	default: // not about a call
	}
	return p.unexpected()
}

// asked finds a call whose clearance is asked for: a planned one, or an approved
// one.
func asked(b Batch, sourceIndex int) (int, bool) {
	for n, c := range b.Calls {
		if c.SourceIndex != sourceIndex {
			continue
		}
		switch s := c.Status.(type) {
		case Planned:
			return n, true
		case Decided:
			_, approved := s.Decision.(Approve)
			return n, approved
		case Held, InFlight, OutcomeReady, Completed:
		}
	}
	return 0, false
}

func find[S CallStatus](b Batch, sourceIndex int) (int, bool) {
	for n, c := range b.Calls {
		if _, ok := c.Status.(S); ok && c.SourceIndex == sourceIndex {
			return n, true
		}
	}
	return 0, false
}

// cleared makes the intent durable with the arguments that will be used.
func (p *plan) cleared(b Batch, n int, o Cleared) Action {
	call, ok := p.source(b.Calls[n])
	if !ok {
		return p.noSuchCall(b, n)
	}
	if p.cancelled() || b.Ends != nil {
		return p.begin(b, n)
	}
	p.writes = append(p.writes, tx.Set(register.OpToolArgs, ToolArgsKey(p.op.ID, b.TurnID, o.SourceIndex), o.Arguments))
	flight := InFlight{Replay: ReplayNever} // unless it was said to be safe
	if d, asked := b.Calls[n].Status.(Decided); asked {
		flight.Gate = new(d.Record())
	}
	if o.Replay == ReplaySafe {
		flight.Replay = ReplaySafe
	}
	b.Calls[n].Status = flight
	return p.dispatch(StepRunTool, p.runTool(b, n, call, o.Arguments, false), RunningTools{b})
}

func (p *plan) runTool(b Batch, n int, call message.ToolCall, args jsonv.Value, replayed bool) RunTool {
	return RunTool{
		StepID: b.TurnID, SourceIndex: b.Calls[n].SourceIndex, ResultID: b.Calls[n].ResultID,
		Call: call, Arguments: args, Replayed: replayed,
	}
}

// lostCall is what is said of a call of unknown outcome.
const lostCall = "the process ended while this call was running; whether it had an effect, and which, is unknown. It was not run again. Check before you repeat it."

// Lost reports whether a result says that nobody knows what its call did.
func Lost(r *message.ToolResult) bool {
	return r.IsError && message.TextOf(r.Content) == lostCall
}

// orphaned runs a replay-safe call again under the same id; any other may have
// had its effect, which is said and never repeated.
func (p *plan) orphaned(b Batch, n int, o OrphanedCall) Action {
	call, ok := p.source(b.Calls[n])
	if !ok {
		return p.noSuchCall(b, n)
	}
	flight, _ := b.Calls[n].Status.(InFlight)
	if flight.Replay == ReplaySafe && o.StillSafe && o.Arguments != nil && !p.cancelled() {
		t := tx.Tx{Expected: p.expectations()}
		next := State{Control: p.control, Work: new(p.run)}
		return Dispatch{StepReplay, p.runTool(b, n, call, *o.Arguments, true), next, t}
	}
	return p.stage(StepCallLost, b, n, notRun(call, lostCall), false)
}

// stage keeps a result until those before it are in the tree.
func (p *plan) stage(step Step, b Batch, n int, result *message.ToolResult, terminate bool) Action {
	call, ok := p.source(b.Calls[n])
	if !ok {
		return p.noSuchCall(b, n)
	}
	r := *result
	// Whatever the tool said, the result answers this call.
	r.ToolCallID, r.ToolName = call.ID, call.Name
	if r.Timestamp == 0 {
		r.Timestamp = p.in.Now
	}
	if record, asked := gateOf(b.Calls[n].Status, step, p.in.Now); asked {
		r.Details = recorded(r.Details, record)
	}
	key := b.Calls[n].ResultID.String()
	p.writes = append(p.writes, tx.Set(register.PendingEntry, key, PendingMessage(&r).Value()))
	p.expect = append(p.expect, tx.ExpectAbsent(register.PendingEntry, key))
	b.Calls[n].Status = OutcomeReady{terminate && !p.cancelled()}
	return p.to(step, RunningTools{b})
}

// materialize places the run of ready results at the frontier, in source order.
func (p *plan) materialize(b Batch, frontier int) Action {
	for n := frontier; n < len(b.Calls); n++ {
		ready, ok := b.Calls[n].Status.(OutcomeReady)
		if !ok {
			break
		}
		i := b.Calls[n].ResultID
		body, ok := p.in.Pending[i].Body.(entry.Message)
		result, isResult := body.Message.(*message.ToolResult)
		if !ok || !isResult {
			return fault("pending.entry/"+i.String(), "the staged tool result", "nothing")
		}
		body.Terminate = ready.Terminate
		p.add(i, body)
		p.writes = append(p.writes, tx.Delete(register.PendingEntry, i.String()))
		if result.Usage != nil {
			p.writes = append(p.writes, tx.InsertUsage{Row: entry.UsageRow{ID: p.mintUsage(), EntryID: i, Usage: *result.Usage}})
		}
		b.Calls[n].Status = Completed(ready)
	}
	p.moveLeaf()
	return p.to(StepPlaceResults, RunningTools{b})
}

// closeBatch goes on to the next decision once every call has its result, or ends
// the run where a call has decided that.
func (p *plan) closeBatch(b Batch) Action {
	cp := Checkpoint{Continuation: NeedAssistant{}, Trigger: b.AssistantID}
	terminate := len(b.Calls) > 0
	for _, c := range b.Calls {
		done, _ := c.Status.(Completed)
		terminate = terminate && done.Terminate
		cp.Trigger = c.ResultID
	}
	for _, k := range p.in.ToolArgsKeys {
		p.writes = append(p.writes, tx.Delete(register.OpToolArgs, k))
	}
	if b.Ends != nil {
		return p.to(StepCloseExpired, FailureDrain{*b.Ends, FromResponse{b.AssistantID}})
	}
	if terminate {
		cp.Continuation = MayFinish{}
	}
	return p.to(StepCloseBatch, AtCheckpoint{cp})
}
