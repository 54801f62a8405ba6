package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
)

// await answers questions at once and reports effects that nobody runs.
func (d *Driver) await(l loaded, key machine.Key) (Pass, error) {
	op := l.op.ID
	switch k := key.(type) {
	case machine.AdmissionKey:
		d.report(op, d.admission(k.Context))
		return Pass{Progress: Moved}, nil
	case machine.ClearanceKey:
		d.report(op, d.clear(op, k))
		return Pass{Progress: Moved}, nil
	case machine.ResponseKey:
		if d.flying(k.ResponseID.String()) {
			return Pass{Progress: Waiting}, nil
		}
		d.report(op, machine.OrphanedResponse{ResponseID: k.ResponseID})
		return Pass{Progress: Moved}, nil
	case machine.CallsKey:
		for _, i := range k.SourceIndexes {
			if d.flying(callKey(k.StepID, i)) {
				continue
			}
			o, err := d.orphan(l, k.StepID, i)
			if err != nil {
				return Pass{}, err
			}
			d.report(op, o)
			return Pass{Progress: Moved}, nil
		}
		return Pass{Progress: Waiting}, nil
	}
	return Pass{}, fmt.Errorf("machine awaits %T, which this engine does not know", key)
}

// flying reports whether an effect runs, or has reported and was not yet heard.
func (d *Driver) flying(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, yes := d.flights[key]
	return yes || len(d.observations) > 0
}

func (d *Driver) admission(c machine.GenerationContext) machine.Observation {
	m, _, err := d.e.cfg.Models.Resolve(c.Configuration.Model)
	if err != nil {
		return machine.AdmissionRefused{Error: machine.OperationError{Code: "model_unavailable", Message: err.Error()}}
	}
	// No output limit is sent, so none is intended.
	return machine.Admitted{ContextWindow: m.ContextWindow, RequestAPI: m.API}
}

// clear asks the toolbox and keeps the permission until the intent is durable.
func (d *Driver) clear(op id.OpID, k machine.ClearanceKey) machine.Observation {
	clearance, refusal := d.ask(Call{d.strand, op, k.StepID, k.SourceIndex, k.Call, k.Call.Arguments})
	if refusal != nil {
		return machine.Refused{SourceIndex: k.SourceIndex, Result: refusal}
	}
	d.mu.Lock()
	d.clearances[callKey(k.StepID, k.SourceIndex)] = clearance
	d.mu.Unlock()
	return machine.Cleared{SourceIndex: k.SourceIndex, Arguments: k.Call.Arguments, Replay: clearance.Replay()}
}

func (d *Driver) ask(c Call) (Clearance, *message.ToolResult) {
	if d.e.cfg.Tools == nil {
		return nil, failedResult(c.Call, "no tools are available in this session")
	}
	return d.e.cfg.Tools.Clear(c)
}

// orphan describes a call in flight that no worker of this process runs. Whether
// it may be replayed is asked again: the tool and the permission may be others now.
func (d *Driver) orphan(l loaded, step string, sourceIndex int) (machine.Observation, error) {
	o := machine.OrphanedCall{SourceIndex: sourceIndex}
	args, ok, err := d.e.cfg.Session.ToolArguments(l.op.ID, step, sourceIndex)
	if err != nil || !ok || l.in.BatchSource == nil || sourceIndex >= len(l.in.BatchSource.Content) {
		return o, err
	}
	call, ok := l.in.BatchSource.Content[sourceIndex].(message.ToolCall)
	if !ok {
		return o, nil
	}
	if clearance, refusal := d.ask(Call{d.strand, l.op.ID, step, sourceIndex, call, args}); refusal == nil {
		o.Arguments, o.StillSafe = &args, clearance.Replay() == machine.ReplaySafe
		d.mu.Lock()
		d.clearances[callKey(step, sourceIndex)] = clearance
		d.mu.Unlock()
	}
	return o, nil
}

// start runs an effect whose intent is durable.
func (d *Driver) start(spawn func(func()), l loaded, effect machine.Effect) {
	op := l.op.ID
	switch f := effect.(type) {
	case machine.Generate:
		ctx, key := d.takeOff(op, f.ResponseID.String()), f.ResponseID.String()
		leaf := l.in.Leaf
		spawn(func() {
			d.land(op, key, machine.Responded{ResponseID: f.ResponseID, Message: d.generate(ctx, op, f, leaf)})
		})
	case machine.RunTool:
		key := callKey(f.StepID, f.SourceIndex)
		ctx := d.takeOff(op, key)
		d.mu.Lock()
		clearance := d.clearances[key]
		delete(d.clearances, key)
		d.mu.Unlock()
		var place *ticket
		if clearance != nil {
			place = d.gate.take(clearance.Exclusive()) // before spawning: source order
		}
		spawn(func() {
			result, terminate := d.runTool(ctx, op, f, clearance, place)
			d.land(op, key, machine.ToolSettled{SourceIndex: f.SourceIndex, Result: result, Terminate: terminate})
		})
	}
}

func (d *Driver) takeOff(op id.OpID, key string) context.Context {
	ctx, cancel := context.WithCancel(d.e.ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flights[key] = &flight{op, cancel}
	if d.aborted == op { // the abort came between the commit and here
		cancel()
	}
	return ctx
}

// land reports an outcome. Report and end of flight are one step, so that no
// pass can see an effect that neither flies nor has reported.
func (d *Driver) land(op id.OpID, key string, what machine.Observation) {
	d.mu.Lock()
	d.flights[key].cancel()
	delete(d.flights, key)
	d.observations = append(d.observations, observed{op, what})
	d.mu.Unlock()
	d.Ring()
}

// abort cancels what flies for op, now and from now on.
func (d *Driver) abort(op id.OpID) {
	d.mu.Lock()
	d.aborted = op
	for _, f := range d.flights {
		if f.op == op {
			f.cancel()
		}
	}
	d.mu.Unlock()
	if d.e.cfg.Tools != nil {
		d.e.cfg.Tools.Abort(op)
	}
	d.Ring()
}

func (d *Driver) cancelAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.flights {
		f.cancel()
	}
}

// generate makes one attempt. Whatever goes wrong is a response that says so.
func (d *Driver) generate(ctx context.Context, op id.OpID, f machine.Generate, leaf id.EntryID) (out *message.Assistant) {
	ref := f.Context.Configuration.Model
	defer func() {
		if r := recover(); r != nil {
			out = d.failed(ref, "unknown", fmt.Errorf("the provider client crashed: %v", r))
		}
	}()
	m, p, err := d.e.cfg.Models.Resolve(ref)
	if err != nil {
		return d.failed(ref, "unknown", err)
	}
	context, err := d.cache.messages(d.e.cfg.Session, leaf, d.e.cfg.Policy)
	if err != nil {
		return d.failed(ref, m.API, err)
	}
	req := provider.Request{Model: m, System: d.e.cfg.System, Messages: context}
	if d.e.cfg.Tools != nil {
		req.Tools = d.e.cfg.Tools.Offer(f.Context.Configuration.ActiveToolNames)
	}
	settled, err := p.Stream(ctx, req, func(delta provider.Delta) { d.show(op, f.ResponseID, delta) })
	if err != nil {
		return d.failed(ref, m.API, err)
	}
	return settled
}

func (d *Driver) show(op id.OpID, response id.EntryID, delta provider.Delta) {
	switch x := delta.(type) {
	case provider.TextDelta:
		d.e.observe(TextDelta{d.strand, op, response, x.Block, x.Text})
	case provider.ThinkingDelta:
		d.e.observe(ThinkingDelta{d.strand, op, response, x.Block, x.Text})
	case provider.ToolCallDelta:
		d.e.observe(ToolCallDelta{d.strand, op, response, x.Block, x.CallID, x.Name, x.Fragment})
	}
}

// failed is the response that stands for a failed attempt: what was received and
// reported is kept, what is unknown stays unknown.
func (d *Driver) failed(ref machine.ModelRef, api string, err error) *message.Assistant {
	m := &message.Assistant{API: api, Provider: ref.Provider, Model: ref.ModelID, Usage: usage.Unknown(usage.Other)}
	text := err.Error()
	if p, ok := errors.AsType[*provider.Error](err); ok {
		if p.Partial != nil {
			m = new(*p.Partial)
		}
		if p.Retryable() {
			m.RawStopReason = new(machine.RetryableStop)
		}
		if p.Class == provider.Overflow && !strings.Contains(strings.ToLower(text), "context length exceeded") {
			text = "context length exceeded: " + text // the words by which the machine knows it
		}
		m.Diagnostics = new(diagnostics(p))
	}
	m.StopReason, m.ErrorMessage, m.Timestamp = message.Error, &text, d.e.cfg.Clock()
	return m
}

func diagnostics(p *provider.Error) jsonv.Value {
	fields := []jsonv.Member{jsonv.F("class", jsonv.Str(string(p.Class)))}
	if p.Status != 0 {
		fields = append(fields, jsonv.F("status", jsonv.Num(int64(p.Status))))
	}
	if p.Detail != "" {
		fields = append(fields, jsonv.F("detail", jsonv.Str(p.Detail)))
	}
	if p.RetryAfterMs != nil {
		fields = append(fields, jsonv.F("retry_after_ms", jsonv.Num(*p.RetryAfterMs)))
	}
	return jsonv.Obj(fields...)
}

// runTool waits for its turn and runs a cleared call.
func (d *Driver) runTool(ctx context.Context, op id.OpID, f machine.RunTool, clearance Clearance, place *ticket) (result *message.ToolResult, terminate bool) {
	if clearance == nil {
		return failedResult(f.Call, "this call has no clearance; it was not executed"), false
	}
	if err := d.gate.enter(ctx, place); err != nil {
		return failedResult(f.Call, "the run was aborted before this call started; it was not executed"), false
	}
	defer d.gate.leave(place)
	defer func() {
		if r := recover(); r != nil {
			result, terminate = failedResult(f.Call, fmt.Sprintf("the tool crashed: %v; what it had done until then is unknown", r)), false
		}
	}()
	return clearance.Run(ctx, func(o Output) {
		d.e.observe(ToolOutput{d.strand, op, f.StepID, f.SourceIndex, f.Call.ID, o.Stream, o.Tail, o.TotalBytes})
	})
}

func failedResult(call message.ToolCall, text string) *message.ToolResult {
	return &message.ToolResult{
		ToolCallID: call.ID, ToolName: call.Name, IsError: true,
		Content: []message.ResultBlock{message.Text{Text: text}},
	}
}
