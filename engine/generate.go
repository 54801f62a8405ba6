package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/loom-run/loom/core/accounting"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
)

func (d *Driver) admission(c machine.GenerationContext) machine.Observation {
	m, _, err := d.resolve(c.Configuration.Model)
	if err != nil {
		return machine.AdmissionRefused{Error: machine.OperationError{Code: machine.CodeModelUnavailable, Message: err.Error()}}
	}
	// No output limit is sent, so none is intended.
	return machine.Admitted{ContextWindow: m.ContextWindow, RequestAPI: m.API}
}

// admitPoll asks whether the provider that deferred a response is still the one
// that is configured, and can be asked for it.
func (d *Driver) admitPoll(k machine.PollAdmissionKey) machine.Observation {
	m, p, err := d.resolve(k.Deferred.Configuration.Model)
	if err != nil {
		return machine.AdmissionRefused{Error: machine.OperationError{Code: machine.CodeModelUnavailable, Message: err.Error()}}
	}
	if _, can := p.(provider.Fetcher); !can || m.API != k.Handle.API {
		return machine.AdmissionRefused{Error: machine.OperationError{Code: machine.CodeDeferred, Message: fmt.Sprintf(
			"the provider deferred its response, and %s cannot be asked for it as it is configured now; the handle is kept in the session", k.Handle.Provider)}}
	}
	return machine.Admitted{ContextWindow: m.ContextWindow, RequestAPI: m.API}
}

// poll asks once for a deferred response.
func (d *Driver) poll(ctx context.Context, f machine.Poll) *message.Assistant {
	ref := f.Deferred.Configuration.Model
	m, p, err := d.resolve(ref)
	fetcher, can := p.(provider.Fetcher)
	if err == nil && !can {
		err = errors.New("the provider cannot be asked for a deferred response any more")
	}
	if err != nil {
		return d.failed(ref, "unknown", usage.Zero(), err)
	}
	got, err := fetch(ctx, fetcher, m, f.Handle)
	return d.received(ref, m, got, err)
}

func fetch(ctx context.Context, p provider.Fetcher, m provider.Model, h message.DeferredHandle) (got *message.Assistant, err error) {
	defer crashed(&err, "the provider client")
	got, err = p.Fetch(ctx, m, h)
	return settled(ctx, got, err)
}

func (d *Driver) resolve(ref machine.ModelRef) (m provider.Model, p provider.Provider, err error) {
	defer crashed(&err, "the search for the model")
	return d.e.cfg.Models.Resolve(ref)
}

// crashed makes a panic of a port an error: one that is not caught would meet the
// same input again at every opening.
func crashed(err *error, what string) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%s crashed: %v", what, r)
	}
}

// generate makes one attempt. Whatever goes wrong with it is a response that says
// so; fault is for a session that cannot be read, which no attempt can cure.
func (d *Driver) generate(ctx context.Context, op id.OpID, f machine.Generate, leaf id.EntryID) (out machine.Responded, fault error) {
	var fallen ledger
	m, fault := d.attempt(ctx, op, f, leaf, &fallen)
	if fault != nil {
		return machine.Responded{}, fault
	}
	return machine.Responded{ResponseID: f.ResponseID, Message: m, Bill: fallen.bill(m)}, nil
}

// attempt makes the request, or those that follow where one fails and another
// model stands behind it.
func (d *Driver) attempt(ctx context.Context, op id.OpID, f machine.Generate, leaf id.EntryID, fallen *ledger) (out *message.Assistant, fault error) {
	ref := f.Context.Configuration.Model
	m, p, err := d.resolve(ref)
	if err != nil {
		return d.failed(ref, "unknown", usage.Zero(), err), nil
	}
	req, fault, err := d.request(f, m, leaf)
	if fault != nil {
		return nil, fault
	}
	if err != nil {
		return d.failed(ref, m.API, usage.Zero(), err), nil
	}
	req.Fell = fallen.add
	measured := d.e.cfg.Meter.Request(op, ref.Provider, ref.ModelID)
	got, err := stream(ctx, p, req, func(delta provider.Delta) { d.show(op, f.ResponseID, delta) })
	out = d.received(ref, m, got, err)
	measured.End(out, fallen.fallen)
	return out, nil
}

// received is what is kept of the outcome of an attempt.
func (d *Driver) received(ref machine.ModelRef, m provider.Model, got *message.Assistant, err error) *message.Assistant {
	if err != nil {
		got = d.failed(ref, m.API, usage.Unknown(usage.Other), err)
	}
	kept, err := storable(got)
	if err != nil {
		return d.failed(ref, m.API, billed(got), fmt.Errorf("the response cannot be stored: %w", err))
	}
	if kept.Timestamp == 0 {
		kept.Timestamp = d.e.cfg.Clock()
	}
	return kept
}

// request puts together what is sent.
func (d *Driver) request(f machine.Generate, m provider.Model, leaf id.EntryID) (req provider.Request, fault, err error) {
	defer crashed(&err, "putting the request together")
	req = provider.Request{Model: m, System: d.e.cfg.System, Thinking: provider.Thinking(f.Context.Configuration.ThinkingLevel)}
	if req.Messages, fault = d.cache.messages(d.e.cfg.Session, leaf, d.e.cfg.Policy); fault != nil {
		return provider.Request{}, fault, nil
	}
	if d.e.cfg.Tools != nil {
		req.Tools = d.e.cfg.Tools.Offer(f.Context.Configuration.ActiveToolNames)
	}
	return req, nil, nil
}

// stream makes a provider keep its promise: exactly one of the results is not
// nil, and a response is settled.
func stream(ctx context.Context, p provider.Provider, req provider.Request, sink func(provider.Delta)) (m *message.Assistant, err error) {
	defer crashed(&err, "the provider client")
	m, err = p.Stream(ctx, req, sink)
	return settled(ctx, m, err)
}

func settled(ctx context.Context, m *message.Assistant, err error) (*message.Assistant, error) {
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, errors.New("the provider client returned neither a response nor an error")
	case m.StopReason == message.Pending:
		return nil, errors.New("the provider client returned a response that had not ended")
	case m.StopReason == message.Aborted && ctx.Err() == nil:
		return nil, errors.New("the provider client returned an aborted response that nobody had aborted")
	}
	return m, nil
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
// reported is kept; spent is what is known where nothing was.
func (d *Driver) failed(ref machine.ModelRef, api string, spent usage.Usage, err error) *message.Assistant {
	m := &message.Assistant{API: api, Provider: ref.Provider, Model: ref.ModelID, Usage: spent}
	text := err.Error()
	if p, ok := errors.AsType[*provider.Error](err); ok {
		if asked := p.Asked; asked != (provider.Model{}) {
			m.API, m.Provider, m.Model = asked.API, asked.Provider, asked.ModelID
		}
		if m.Usage = p.Spent(); p.Partial != nil {
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

// ledger keeps account of the requests of one attempt that fell, in their order.
type ledger struct{ fallen []accounting.Request }

// add is called on the goroutine of the attempt.
func (l *ledger) add(f provider.Fallen) {
	l.fallen = append(l.fallen, accounting.Request{
		Provider: f.Model.Provider, Model: f.Model.ModelID, Class: string(f.Error.Class), Usage: f.Error.Spent(),
	})
}

// bill closes the account with the request that m came from. Where there was no
// other, the entry says all of it.
func (l *ledger) bill(m *message.Assistant) *machine.Bill {
	if len(l.fallen) == 0 {
		return nil
	}
	return l.itemised(m.Provider, m.Model, m.Usage)
}

// itemised is bill where no entry says which model was asked.
func (l *ledger) itemised(route, model string, spent usage.Usage) *machine.Bill {
	requests := append(slices.Clip(l.fallen), accounting.Request{Provider: route, Model: model, Usage: spent})
	var report accounting.Report
	for _, q := range requests {
		report = report.Append(q.Usage)
	}
	return &machine.Bill{Usage: report.Total(), Details: report.Details(accounting.Requests(requests))}
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

// billed is what a response that cannot be stored consumed, as far as that can be
// kept.
func billed(m *message.Assistant) usage.Usage {
	if bare, err := storable(&message.Assistant{Usage: m.Usage, StopReason: message.Error}); err == nil {
		return bare.Usage
	}
	return usage.Unknown(usage.Other)
}
