package engine_test

import (
	"context"
	"sync"
	"testing"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/storage"
)

// postponing defers every response, and has it after some polls.
type postponing struct {
	mu     sync.Mutex
	polls  int
	there  int // the poll that brings it
	handle message.DeferredHandle
	answer turn
}

func (p *postponing) Resolve(ref machine.ModelRef) (provider.Model, provider.Provider, error) {
	return provider.Model{Identity: provider.Identity(ref), API: "fake"}, p, nil
}

func (p *postponing) deferred() *message.Assistant {
	return &message.Assistant{
		API: "fake", Provider: "fake", Model: "m", StopReason: message.Deferred, Deferred: new(p.handle),
		Usage: usage.Usage{Input: 5, TotalTokens: 5, Evidence: usage.Reported(usage.API, usage.Complete)},
	}
}

func (p *postponing) Stream(ctx context.Context, req provider.Request, sink func(provider.Delta)) (*message.Assistant, error) {
	for _, m := range req.Messages {
		if _, answered := m.(*message.Assistant); answered {
			return say("done")(ctx, sink)
		}
	}
	return p.deferred(), nil
}

func (p *postponing) Fetch(ctx context.Context, _ provider.Model, h message.DeferredHandle) (*message.Assistant, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polls++
	if h.ID != p.handle.ID {
		return nil, &provider.Error{Class: provider.InvalidRequest, Message: "no such response"}
	}
	if p.polls < p.there {
		return p.deferred(), nil
	}
	return p.answer(ctx, func(provider.Delta) {})
}

func later() message.DeferredHandle {
	return message.DeferredHandle{Provider: "fake", ModelID: "m", API: "fake", ID: "later", PollAfterMs: new(int64(2000))}
}

func with(m engine.Models) func(*engine.Config) { return func(c *engine.Config) { c.Models = m } }

func TestADeferredResponseIsFetchedWhenItIsThere(t *testing.T) {
	w := newWorld()
	m := &postponing{there: 3, handle: later(), answer: callTools("safe")}
	p := boot(t, w, nil, with(m))
	if r := finish(t, p, prompt(t, p, text("go"))); r.Outcome != machine.OutcomeCompleted {
		t.Errorf("%+v %+v", r, r.Error)
	}
	wantTranscript(t, w, "user go", "assistant deferred ", "assistant toolUse  call:safe-0", "result safe-0 error=false did safe-0", "assistant stop done")
	if m.polls != 3 {
		t.Errorf("polled %d times", m.polls)
	}
	if rows, _ := w.store.ScanUsage(storage.UsageQuery{}); len(rows) != 3 {
		t.Errorf("%d rows in the ledger: a poll that brought nothing is not one", len(rows))
	}
	settled(t, w)
}

// TestADeferredResponseOutlivesTheProcess: the next one waits as long as the provider wished, and polls.
func TestADeferredResponseOutlivesTheProcess(t *testing.T) {
	w := newWorld()
	m := &postponing{there: 1, handle: later(), answer: say("at last")}
	life := func() (*engine.Engine, *engine.Driver) {
		founded, _ := undriven(t, w)
		founded.Close()
		cfg, _ := config(w, w.store, nil)
		cfg.Models = m
		e, err := engine.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		return e, e.Driver("main")
	}
	e, d := life()
	send(t, e, text("go"))
	var pass engine.Pass
	for pass.Progress != engine.Waiting {
		var err error
		if pass, err = d.Step(func(f func()) { f() }); err != nil {
			t.Fatal(err)
		}
		if pass.Progress == engine.Waiting && pass.Until == 0 {
			pass.Progress = engine.Moved // an effect reported meanwhile
		}
	}
	e.Close()
	w.clockMs = pass.Until - 1000
	_, d = life()
	if again, err := d.Step(nil); err != nil || again.Until != pass.Until {
		t.Errorf("another life waits until %d, was %d (%v)", again.Until, pass.Until, err)
	}
	w.clockMs = pass.Until
	drain(t, d)
	wantTranscript(t, w, "user go", "assistant deferred ", "assistant stop at last")
	settled(t, w)
}

// deaf is a provider that defers and cannot be asked.
type deaf struct{ *postponing }

func (d deaf) Resolve(ref machine.ModelRef) (provider.Model, provider.Provider, error) {
	m, _, err := d.postponing.Resolve(ref)
	return m, onlyStream{d.postponing}, err
}

type onlyStream struct{ p *postponing }

func (o onlyStream) Stream(ctx context.Context, req provider.Request, sink func(provider.Delta)) (*message.Assistant, error) {
	return o.p.Stream(ctx, req, sink)
}

func TestADeferredResponseThatCannotBeFetchedEndsTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		models engine.Models
		code   string
	}{
		"the provider cannot be polled": {deaf{&postponing{handle: later()}}, machine.CodeDeferred},
		"the poll fails": {&postponing{handle: later(), answer: func(context.Context, func(provider.Delta)) (*message.Assistant, error) {
			return nil, &provider.Error{Class: provider.Server, Message: "gone"}
		}}, machine.CodeProviderError},
		"the client panics": {&postponing{handle: later(), answer: func(context.Context, func(provider.Delta)) (*message.Assistant, error) { panic("boom") }}, machine.CodeProviderError},
		"another handle": {&postponing{handle: later(), answer: func(context.Context, func(provider.Delta)) (*message.Assistant, error) {
			h := later()
			h.ID = "another"
			return &message.Assistant{StopReason: message.Deferred, Deferred: &h, Usage: usage.Unknown(usage.API)}, nil
		}}, machine.CodeDeferredMismatch},
		"it expired": {&postponing{handle: func() message.DeferredHandle {
			h := later()
			h.ExpiresAt = new(int64(1))
			return h
		}()}, machine.CodeDeferredExpired},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			p := boot(t, w, nil, with(c.models))
			if r := finish(t, p, prompt(t, p, text("go"))); r.Error == nil || r.Error.Code != c.code {
				t.Errorf("%+v %+v", r, r.Error)
			}
			settled(t, w)
		})
	}
}
