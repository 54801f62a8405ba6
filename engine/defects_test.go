package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/projection"
	"github.com/loom-run/loom/storage"
)

// nested is a value of a depth.
func nested(depth int) jsonv.Value {
	v := jsonv.Num(1)
	for range depth {
		v = jsonv.Arr(v)
	}
	return v
}

// twice is an object that no store could read back.
func twice() jsonv.Value { return jsonv.Obj(jsonv.F("a", jsonv.Num(1)), jsonv.F("a", jsonv.Num(2))) }

// contradictory is usage that no decoder accepts: tokens, and no provider.
func contradictory() usage.Usage { return usage.Usage{Input: 5} }

// TestWhateverAProviderDoesTheRunEndsAndTheSessionStaysWhole lets a provider break
// each of its promises.
func TestWhateverAProviderDoesTheRunEndsAndTheSessionStaysWhole(t *testing.T) {
	answer := func(change func(*message.Assistant)) turn {
		return func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
			m, err := say("hello")(ctx, sink)
			change(m)
			return m, err
		}
	}
	for name, c := range map[string]struct {
		turn   turn
		says   string // in the error of the run; "" for a run that completes
		tokens int64  // that are billed
	}{
		"it panics":            {func(context.Context, func(provider.Delta)) (*message.Assistant, error) { panic("boom") }, "crashed: boom", 0},
		"it returns nothing":   {func(context.Context, func(provider.Delta)) (*message.Assistant, error) { return nil, nil }, "neither a response nor an error", 0},
		"it is not settled":    {answer(func(m *message.Assistant) { m.StopReason = message.Pending }), "had not ended", 0},
		"it aborts by itself":  {answer(func(m *message.Assistant) { m.StopReason = message.Aborted }), "nobody had aborted", 0},
		"an unknown reason":    {answer(func(m *message.Assistant) { m.StopReason = "bored" }), "cannot be stored", 12},
		"an error of its own":  {func(context.Context, func(provider.Delta)) (*message.Assistant, error) { return nil, fmt.Errorf("odd") }, "odd", 0},
		"deep arguments":       {reply(message.ToolUse, message.ToolCall{ID: "x", Name: "safe", Arguments: jsonv.Obj(jsonv.F("a", nested(250)))}), "cannot be stored", 12},
		"doubled arguments":    {reply(message.ToolUse, message.ToolCall{ID: "x", Name: "safe", Arguments: twice()}), "cannot be stored", 12},
		"deep diagnostics":     {answer(func(m *message.Assistant) { m.Diagnostics = new(nested(300)) }), "cannot be stored", 12},
		"impossible usage":     {answer(func(m *message.Assistant) { m.Usage = contradictory() }), "cannot be stored", 0},
		"calls without a call": {answer(func(m *message.Assistant) { m.StopReason = message.ToolUse }), "", 12},
		"text that is not UTF-8": {answer(func(m *message.Assistant) {
			m.Content = []message.AssistantBlock{message.Text{Text: "a\xffb"}}
		}), "", 12},
		"a partial that cannot be stored": {func(context.Context, func(provider.Delta)) (*message.Assistant, error) {
			return nil, &provider.Error{Class: provider.Disconnect, Message: "gone", Partial: &message.Assistant{Diagnostics: new(twice()),
				Content: []message.AssistantBlock{message.ToolCall{ID: "x", Name: "safe", Arguments: twice()}}}}
		}, "cannot be stored", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			p := boot(t, w, []turn{c.turn})
			got := finish(t, p, prompt(t, p, text("go")))
			if c.says == "" && got.Outcome != machine.OutcomeCompleted {
				t.Errorf("result %+v, %+v", got, got.Error)
			}
			if c.says != "" && (got.Outcome != machine.OutcomeFailed || !strings.Contains(got.Error.Message, c.says)) {
				t.Errorf("result %+v, %+v", got, got.Error)
			}
			if st, err := w.store.Stats(); err != nil || st.Usage.TotalTokens != c.tokens {
				t.Errorf("%d tokens are billed, want %d (%v)", st.Usage.TotalTokens, c.tokens, err)
			}
			settled(t, w)
		})
	}
}

func TestAFailedAttemptKeepsWhatWasReceivedAndReported(t *testing.T) {
	w := newWorld()
	partial, _ := say("half of it")(nil, nil)
	p := boot(t, w, []turn{func(context.Context, func(provider.Delta)) (*message.Assistant, error) {
		return nil, &provider.Error{Class: provider.Auth, Status: 401, Detail: "bad_key", Message: "the key was refused", Partial: partial}
	}})
	got := finish(t, p, prompt(t, p, text("go")))
	if got.Error == nil || got.Error.Code != machine.CodeProviderError || got.Error.Message != "the key was refused" {
		t.Fatalf("result %+v, %+v", got, got.Error)
	}
	if d := got.Error.Details; d == nil || d.String() != `{"class":"auth","status":401,"detail":"bad_key"}` {
		t.Errorf("details %v", d)
	}
	wantTranscript(t, w, "user go", "assistant error half of it")
	if st, _ := w.store.Stats(); st.Usage.TotalTokens != 12 {
		t.Errorf("%d tokens are billed", st.Usage.TotalTokens)
	}
	if partial.StopReason != message.Stop {
		t.Error("the provider's message was changed")
	}
}

func TestAnAttemptThatSentNothingIsBilledAsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		unknown bool
	}{
		"no key":         {&provider.Error{Class: provider.MissingKey, Message: "no key is configured"}, false},
		"a broken line":  {&provider.Error{Class: provider.Auth, Message: "refused"}, true},
		"something else": {fmt.Errorf("odd"), true},
	} {
		w := newWorld()
		p := boot(t, w, []turn{func(context.Context, func(provider.Delta)) (*message.Assistant, error) { return nil, c.err }})
		finish(t, p, prompt(t, p, text("go")))
		rows, err := w.store.ScanUsage(storage.UsageQuery{})
		if err != nil || len(rows) != 1 {
			t.Fatalf("%s: %d ledger rows, %v", name, len(rows), err)
		}
		if _, remote := rows[0].Usage.Evidence.Billing(); remote != c.unknown {
			t.Errorf("%s: billed as a remote attempt: %v", name, remote)
		}
	}
}

// missing is a catalogue that loses its model after n looks.
type missing struct {
	always
	looks int
}

func (m *missing) Resolve(ref machine.ModelRef) (provider.Model, provider.Provider, error) {
	if m.looks--; m.looks < 0 {
		return provider.Model{}, nil, fmt.Errorf("there is no model %s", ref.ModelID)
	}
	return m.always.Resolve(ref)
}

func TestAModelThatIsGoneFailsTheRunWithoutABill(t *testing.T) {
	for looks, code := range []string{"model_unavailable", machine.CodeProviderError} {
		w := newWorld()
		p := boot(t, w, nil, func(c *engine.Config) { c.Models = &missing{always{say("no")}, looks} })
		got := finish(t, p, prompt(t, p, text("go")))
		if got.Outcome != machine.OutcomeFailed || got.Error.Code != code || got.Error.Message != "there is no model m" {
			t.Errorf("gone after %d looks: %+v, %+v", looks, got, got.Error)
		}
		rows, _ := w.store.ScanUsage(storage.UsageQuery{})
		for _, r := range rows {
			if _, remote := r.Usage.Evidence.Billing(); remote {
				t.Errorf("gone after %d looks: an attempt is billed", looks)
			}
		}
		settled(t, w)
	}
}

// panicky has ports that panic at the nth call.
type panicky struct {
	always
	*toolbox
	resolve, offer int
}

func (p *panicky) Resolve(ref machine.ModelRef) (provider.Model, provider.Provider, error) {
	if p.resolve--; p.resolve == 0 {
		panic("boom")
	}
	return p.always.Resolve(ref)
}

func (p *panicky) Offer(names []string) []provider.Tool {
	if p.offer--; p.offer == 0 {
		panic("boom")
	}
	return p.toolbox.Offer(names)
}

// TestAPortThatPanicsFailsTheRunAndNotTheProcess: a process that died of it would
// die again at every opening.
func TestAPortThatPanicsFailsTheRunAndNotTheProcess(t *testing.T) {
	for name, c := range map[string]struct {
		ports  panicky
		policy func(projection.Policy) projection.Policy
		says   string
	}{
		"the catalogue, first":  {panicky{resolve: 1}, nil, "the search for the model crashed: boom"},
		"the catalogue, second": {panicky{resolve: 2}, nil, "the search for the model crashed: boom"},
		"the list of tools":     {panicky{offer: 1}, nil, "putting the request together crashed: boom"},
		"the policy": {panicky{}, func(p projection.Policy) projection.Policy {
			return p.WithTransform(func([]message.Message) []message.Message { panic("boom") })
		}, "putting the request together crashed: boom"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			p := boot(t, w, nil, func(cfg *engine.Config) {
				ports := &c.ports
				ports.always, ports.toolbox = always{say("ok")}, cfg.Tools.(*toolbox)
				cfg.Models, cfg.Tools = ports, ports
				if c.policy != nil {
					cfg.Policy = c.policy(cfg.Policy)
				}
			})
			if got := finish(t, p, prompt(t, p, text("go"))); got.Outcome != machine.OutcomeFailed || got.Error.Message != c.says {
				t.Errorf("result %+v, %+v", got, got.Error)
			}
			settled(t, w)
		})
	}
}

// moving is a store in which every cell moved since it was read, once it is told to.
type moving struct {
	storage.Store
	now atomic.Bool
}

func (m *moving) CommitAll(txs ...tx.Tx) []storage.Outcome { return storage.OneByOne(m.Commit, txs) }

func (m *moving) Commit(t tx.Tx) (tx.Result, error) {
	if m.now.Load() {
		return tx.Result{}, &tx.StaleExpectation{Failed: t.Expected[0]}
	}
	return m.Store.Commit(t)
}

func TestAStrandThatNeverWaitsIsStopped(t *testing.T) {
	w := newWorld()
	store := &moving{Store: w.store}
	p := boot(t, w, []turn{func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
		store.now.Store(true)
		return say("never recorded")(ctx, sink)
	}}, func(c *engine.Config) { c.Session = session.New(store) })
	op := prompt(t, p, text("go"))
	if _, err := p.Await(t.Context(), session.MainStrand, op); err == nil || !strings.Contains(err.Error(), "without waiting for anything") {
		t.Errorf("got %v", err)
	}
	for what, err := range map[string]error{
		"configure": p.Configure(session.MainStrand, func(c machine.Configuration) machine.Configuration { c.Model.ModelID = "x"; return c }),
		"abort":     func() error { _, _, err := p.Abort(session.MainStrand); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), "changed faster than") {
			t.Errorf("%s: %v", what, err)
		}
	}
	p.Close()
	p = reopen(t, w, p, []turn{say("recorded")})
	if got := finish(t, p, op); got.Outcome != machine.OutcomeCompleted {
		t.Errorf("result %+v", got)
	}
}

func TestALongRunOfQuickEffectsIsNotStopped(t *testing.T) {
	w := newWorld()
	cfg, _ := config(w, w.store, []turn{callTools("safe"), callTools("safe"), callTools("safe"), callTools("safe"), say("done")})
	e, err := engine.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := cfg.Session.EnsureStrand(session.MainStrand, fakeConfiguration); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Prompt(session.MainStrand, text("go")); err != nil {
		t.Fatal(err)
	}
	d := e.Driver(session.MainStrand)
	d.SetFuel(12)                           // enough for a turn, and not for the run
	if steps := drain(t, d); steps < 3*12 { // effects run at once, so that the driver never waits
		t.Errorf("the run took only %d steps", steps)
	}
	settled(t, w)
}

// oddTools lets a test say what a cleared call does, and what a question does.
type oddTools struct {
	*toolbox
	clear func() engine.Verdict // nil: cleared
	run   func() (*message.ToolResult, bool)
}

func (o *oddTools) Clear(c engine.Call) engine.Verdict {
	if o.clear != nil {
		return o.clear()
	}
	return engine.Granted{Clearance: &oddCall{grantedOf(o.toolbox.Clear(c)), o.run}}
}

type oddCall struct {
	*clearance
	run func() (*message.ToolResult, bool)
}

func (c *oddCall) Run(context.Context, func(engine.Output)) (*message.ToolResult, bool) {
	c.use()
	return c.run()
}

// TestWhateverAToolDoesItsCallIsAnswered lets a tool and the door before it break
// their promises.
func TestWhateverAToolDoesItsCallIsAnswered(t *testing.T) {
	answer := func(change func(*message.ToolResult)) func() (*message.ToolResult, bool) {
		return func() (*message.ToolResult, bool) {
			r := result(message.ToolCall{ID: "another id", Name: "another tool"}, "the text", false)
			change(r)
			return r, false
		}
	}
	says := func(v engine.Verdict) func() engine.Verdict { return func() engine.Verdict { return v } }
	refuse := func(r *message.ToolResult) func() engine.Verdict { return says(engine.Denied{Result: r}) }
	for name, c := range map[string]struct {
		clear func() engine.Verdict
		run   func() (*message.ToolResult, bool)
		want  string // the result begins so
		has   string // and holds this
	}{
		"an id of its own":   {nil, answer(func(*message.ToolResult) {}), "result unsafe-0 error=false the text", ""},
		"it panics":          {nil, func() (*message.ToolResult, bool) { panic("boom") }, "result unsafe-0 error=true the tool crashed: boom", ""},
		"it returns nothing": {nil, func() (*message.ToolResult, bool) { return nil, true }, "result unsafe-0 error=true the tool returned no result", ""},
		"deep details":       {nil, answer(func(r *message.ToolResult) { r.Details = new(nested(250)) }), "result unsafe-0 error=false the text", "were dropped"},
		"doubled details":    {nil, answer(func(r *message.ToolResult) { r.Details = new(twice()) }), "result unsafe-0 error=false the text", "were dropped"},
		"impossible usage":   {nil, answer(func(r *message.ToolResult) { r.Usage = new(contradictory()) }), "result unsafe-0 error=false the text", "were dropped"},
		"details that fit":   {nil, answer(func(r *message.ToolResult) { r.Details = new(nested(200)) }), "result unsafe-0 error=false the text", ""},
		"a block that is none": {nil, answer(func(r *message.ToolResult) { r.Content = []message.ResultBlock{nil} }),
			"result unsafe-0 error=true the tool ran, but its result could not be stored", ""},
		"bytes":              {nil, answer(func(r *message.ToolResult) { r.Content = []message.ResultBlock{message.Text{Text: "\xff\x00"}} }), "result unsafe-0 error=false \uFFFD\x00", ""},
		"a refusal":          {refuse(result(message.ToolCall{}, "no", true)), nil, "result unsafe-0 error=true no", ""},
		"a deep refusal":     {refuse(&message.ToolResult{Details: new(nested(300)), IsError: true}), nil, "result unsafe-0 error=true ", "were dropped"},
		"no answer":          {says(nil), nil, "result unsafe-0 error=true the question whether this call may run was not answered", ""},
		"an empty refusal":   {refuse(nil), nil, "result unsafe-0 error=true the question whether this call may run was not answered", ""},
		"an empty permit":    {says(engine.Granted{}), nil, "result unsafe-0 error=true the question whether this call may run was not answered", ""},
		"a strange question": {says(engine.Question{Reason: "whim"}), nil, "result unsafe-0 error=true the question whether this call may run was not answered", ""},
		"a deep question": {says(engine.Question{Reason: words.PausedOnPlan, Subject: nested(300)}), nil,
			"result unsafe-0 error=true the question whether this call may run was not answered", ""},
		"a question that panics": {func() engine.Verdict { panic("boom") }, nil,
			"result unsafe-0 error=true the question whether this call may run crashed: boom", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			var box *toolbox
			p := boot(t, w, []turn{callTools("unsafe"), say("done")}, func(cfg *engine.Config) {
				box = cfg.Tools.(*toolbox)
				cfg.Tools = &oddTools{box, c.clear, c.run}
			})
			if got := finish(t, p, prompt(t, p, text("go"))); got.Outcome != machine.OutcomeCompleted {
				t.Errorf("result %+v, %+v", got, got.Error)
			}
			lines := strings.Split(transcript(t, w), "\nresult ")
			if len(lines) != 2 || !strings.HasPrefix("result "+lines[1], c.want) || !strings.Contains(lines[1], c.has) {
				t.Errorf("got\n%s", transcript(t, w))
			}
			settled(t, w)
			box.settled(t)
		})
	}
}

func TestWithoutToolsEveryCallIsRefused(t *testing.T) {
	w := newWorld()
	p := boot(t, w, []turn{callTools("safe"), say("done")}, func(c *engine.Config) { c.Tools = nil })
	op := prompt(t, p, text("go"))
	finish(t, p, op)
	if !strings.Contains(transcript(t, w), "result safe-0 error=true no tools are available") {
		t.Error(transcript(t, w))
	}
	if _, _, err := p.Abort(session.MainStrand); err != nil {
		t.Error(err)
	}
}

// interruptedRun leaves a session whose only call was started and has no result.
func interruptedRun(t *testing.T, w *world, tool string) {
	t.Helper()
	started := make(chan string, 1)
	p := boot(t, w, []turn{callTools(tool)}, func(c *engine.Config) { c.Tools = &untilClosed{c.Tools.(*toolbox), started} })
	prompt(t, p, text("go"))
	<-started
	p.Close()
	w.store = w.store.Reopen()
}

// untilClosed has only calls that run until their context ends.
type untilClosed struct {
	*toolbox
	started chan string
}

func (u *untilClosed) Clear(c engine.Call) engine.Verdict {
	return engine.Granted{Clearance: &endless{grantedOf(u.toolbox.Clear(c)), u.started}}
}

type endless struct {
	*clearance
	started chan string
}

func (e *endless) Run(ctx context.Context, _ func(engine.Output)) (*message.ToolResult, bool) {
	e.use()
	e.started <- e.call.ID
	<-ctx.Done()
	return nil, false
}

func TestNobodyIsAskedAboutAnInterruptedCallThatCannotBeReplayed(t *testing.T) {
	w := newWorld()
	interruptedRun(t, w, "unsafe")
	asked := 0
	p := boot(t, w, []turn{nil, say("done")}, func(c *engine.Config) {
		c.Tools = &askedWhile{c.Tools.(*toolbox), func(engine.Call) { asked++ }}
	})
	awaited(t, p)
	if asked != 0 || !strings.Contains(transcript(t, w), "result unsafe-0 error=true "+interrupted) {
		t.Errorf("asked %d times\n%s", asked, transcript(t, w))
	}
	settled(t, w)
}

func awaited(t *testing.T, p *process) {
	t.Helper()
	if err := awaitIdle(t.Context(), p.Engine); err != nil {
		t.Fatal(err)
	}
}

// changed is a toolbox whose tools are no longer safe to replay.
type changed struct{ *toolbox }

func (c *changed) Clear(call engine.Call) engine.Verdict {
	return engine.Granted{Clearance: &never{grantedOf(c.toolbox.Clear(call))}}
}

type never struct{ *clearance }

func (*never) Replay() machine.Replay { return machine.ReplayNever }

func TestAnInterruptedCallIsReplayedOnlyIfItsToolStillAllowsThat(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*engine.Config)
		want   string
		ran    int
	}{
		"it does":          {func(*engine.Config) {}, "result safe-0 error=false did safe-0", 1},
		"the tool changed": {func(c *engine.Config) { c.Tools = &changed{c.Tools.(*toolbox)} }, "result safe-0 error=true " + interrupted, 0},
		"the permission is refused": {func(c *engine.Config) {
			c.Tools = &oddTools{c.Tools.(*toolbox), func() engine.Verdict {
				return engine.Denied{Result: result(message.ToolCall{}, "no more", true)}
			}, nil}
		}, "result safe-0 error=true " + interrupted, 0},
		"there are no tools": {func(c *engine.Config) { c.Tools = nil }, "result safe-0 error=true " + interrupted, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			interruptedRun(t, w, "safe")
			var box *toolbox
			p := boot(t, w, []turn{nil, say("done")}, func(c *engine.Config) { box = c.Tools.(*toolbox) }, c.change)
			awaited(t, p)
			if !strings.Contains(transcript(t, w), c.want) || w.ran["safe-0"] != c.ran {
				t.Errorf("it ran %d times\n%s", w.ran["safe-0"], transcript(t, w))
			}
			settled(t, w)
			p.Close()
			box.settled(t)
		})
	}
}

func TestAnOperationWithoutItsRegistersStopsTheStrandAndRepairsNothing(t *testing.T) {
	for name, ns := range map[string]register.Namespace{"meta": register.OpMeta, "state": register.OpState, "configuration": register.StrandConfig} {
		w := newWorld()
		interruptedRun(t, w, "safe")
		op, _, _ := session.NewView(w.store).StrandState(session.MainStrand)
		key := op.Value.CurrentOperation.String()
		if ns == register.StrandConfig {
			key = session.MainStrand
		}
		if _, err := w.store.Commit(tx.Tx{Writes: []tx.Write{tx.Delete(ns, key)}}); err != nil {
			t.Fatal(err)
		}
		before := transcript(t, w)
		cfg, _ := config(w, w.store, nil)
		e, err := engine.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Driver(session.MainStrand).Step(func(f func()) { f() }); err == nil {
			t.Errorf("without its %s it went on", name)
		}
		if transcript(t, w) != before {
			t.Errorf("without its %s something was written", name)
		}
		e.Close()
	}
}
