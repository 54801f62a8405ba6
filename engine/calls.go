package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/machine"
)

// clear asks the toolbox. A permission stays with its report until the intent is
// durable or the plan has no use for it.
func (d *Driver) clear(l loaded, k machine.ClearanceKey) *report {
	op := l.op.ID
	switch v := d.ask(Call{d.strand, op, k.StepID, k.SourceIndex, k.Call, k.Call.Arguments, offered(l), k.Consent}).(type) {
	case Granted:
		return &report{op: op, clearance: v.Clearance, what: machine.Cleared{
			SourceIndex: k.SourceIndex, Arguments: k.Call.Arguments, Replay: v.Clearance.Replay(),
		}}
	case Denied:
		return &report{op: op, what: machine.Refused{SourceIndex: k.SourceIndex, Result: v.Result, Terminate: v.Terminate}}
	case Question:
		v.SourceIndex = k.SourceIndex
		return &report{op: op, what: machine.Asked(v)}
	}
	return &report{op: op, what: machine.Refused{SourceIndex: k.SourceIndex, Result: failedResult(k.Call, unanswered)}}
}

// offered are the tools that the response of the open batch was made with.
func offered(l loaded) []string {
	if run, ok := l.st.Work.(*machine.Run); ok {
		if tools, ok := run.Phase.(machine.RunningTools); ok {
			return tools.Batch.Configuration.ActiveToolNames
		}
	}
	return nil
}

const unanswered = "the question whether this call may run was not answered; it was not executed"

// ask returns a verdict that can be acted on: a clearance that is there, a result
// that can be stored, or a question that can be asked.
func (d *Driver) ask(c Call) (v Verdict) {
	if d.e.cfg.Tools == nil {
		return Denied{Result: failedResult(c.Call, "no tools are available in this session")}
	}
	defer func() {
		if r := recover(); r != nil {
			v = Denied{Result: failedResult(c.Call, fmt.Sprintf("the question whether this call may run crashed: %v; it was not executed", r))}
		}
	}()
	switch v := d.e.cfg.Tools.Clear(c).(type) {
	case Granted:
		if v.Clearance != nil {
			return v
		}
	case Denied:
		if v.Result != nil {
			return Denied{storableResult(c.Call, v.Result), v.Terminate}
		}
	case Question:
		if machine.Asked(v).Valid() && v.Subject.Depth() <= maxDepth {
			return v
		}
	}
	return Denied{Result: failedResult(c.Call, unanswered)}
}

// orphan describes a call in flight that no worker of this process runs. Whether
// it may be replayed is asked again: the tool and the permission may be others now.
// Nobody is asked about a call that cannot be replayed.
func (d *Driver) orphan(l loaded, step string, sourceIndex int) (*report, error) {
	r := &report{op: l.op.ID, what: machine.OrphanedCall{SourceIndex: sourceIndex}}
	call, ok := replayable(l, sourceIndex)
	if !ok {
		return r, nil
	}
	args, ok, err := d.e.cfg.Session.ToolArguments(l.op.ID, step, sourceIndex)
	if err != nil || !ok {
		return r, err
	}
	if v, ok := d.ask(Call{d.strand, l.op.ID, step, sourceIndex, call, args.Value, offered(l), nil}).(Granted); ok {
		r.clearance = v.Clearance
		r.what = machine.OrphanedCall{SourceIndex: sourceIndex, Arguments: &args.Value, StillSafe: v.Clearance.Replay() == machine.ReplaySafe}
	}
	return r, nil
}

// replayable finds a call of the open batch that its intent declared safe.
func replayable(l loaded, sourceIndex int) (message.ToolCall, bool) {
	run, _ := l.st.Work.(*machine.Run)
	_, running := l.st.Control.(machine.Running)
	if run == nil || !running || l.in.BatchSource == nil || sourceIndex < 0 || sourceIndex >= len(l.in.BatchSource.Content) {
		return message.ToolCall{}, false
	}
	tools, _ := run.Phase.(machine.RunningTools)
	safe := slices.ContainsFunc(tools.Batch.Calls, func(c machine.Call) bool {
		flight, _ := c.Status.(machine.InFlight)
		return c.SourceIndex == sourceIndex && flight.Replay == machine.ReplaySafe
	})
	call, ok := l.in.BatchSource.Content[sourceIndex].(message.ToolCall)
	return call, safe && ok
}

// notStarted is what the model reads of a call that an abort overtook.
const notStarted = "the run was aborted before this call started; it was not executed"

// runTool waits for its turn and runs a cleared call.
func (d *Driver) runTool(ctx context.Context, op id.OpID, f machine.RunTool, clearance Clearance, place *ticket) (*message.ToolResult, bool) {
	if clearance == nil {
		return failedResult(f.Call, "this call has no clearance; it was not executed"), false
	}
	if err := d.gate.enter(ctx, place); err != nil {
		clearance.Release()
		return failedResult(f.Call, notStarted), false
	}
	defer d.gate.leave(place)
	if ctx.Err() != nil || d.ending(op) { // its turn came and the abort with it
		clearance.Release()
		return failedResult(f.Call, notStarted), false
	}
	measured := d.e.cfg.Meter.Tool(op, f.Call.Name, f.Call.ID)
	result, terminate := execute(ctx, f.Call, clearance, func(o Output) {
		d.e.observe(ToolOutput{d.strand, op, f.StepID, f.SourceIndex, f.Call.ID, o.Stream, o.Tail, o.TotalBytes})
	})
	measured.End(result == nil || result.IsError)
	return storableResult(f.Call, result), terminate
}

// execute makes a crash of a tool a result.
func execute(ctx context.Context, call message.ToolCall, clearance Clearance, progress func(Output)) (result *message.ToolResult, terminate bool) {
	defer func() {
		if r := recover(); r != nil {
			result, terminate = failedResult(call, fmt.Sprintf("the tool crashed: %v; what it had done until then is unknown", r)), false
		}
	}()
	return clearance.Run(ctx, progress)
}

func failedResult(call message.ToolCall, text string) *message.ToolResult {
	return &message.ToolResult{
		ToolCallID: call.ID, ToolName: call.Name, IsError: true,
		Content: []message.ResultBlock{message.Text{Text: text}},
	}
}
