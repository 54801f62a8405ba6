package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
)

func TestAbortKeepsWhatHappenedAndAnswersEveryCall(t *testing.T) {
	w := newWorld()
	started := make(chan string, 4)
	p := boot(t, w, []turn{callTools("slow", "unsafe"), say("never")}, listening(started))
	op := prompt(t, p, text("go"))
	<-started
	if r, err := p.Prompt(session.MainStrand, text("more")); err != nil || !r.Queued || r.Op != op {
		t.Fatalf("second prompt: %+v, %v", r, err)
	}
	for range 2 { // the first abort wins, the second is content
		if got, ok, err := p.Abort(session.MainStrand); ok && got != op || err != nil {
			t.Fatalf("abort: %v %v %v", got, ok, err)
		}
	}
	if got := finish(t, p, op); got.Outcome != machine.OutcomeAborted {
		t.Errorf("result %+v", got)
	}
	wantTranscript(t, w, "user go", "assistant toolUse  call:slow-0 call:unsafe-1",
		"result slow-0 error=true cancelled",
		"result unsafe-1 error=true the run was aborted before this call started; it was not executed")
	settled(t, w)
	p.tools.settled(t)
	if w.ran["unsafe-1"] != 0 {
		t.Error("a call ran after the abort")
	}
	if len(p.tools.aborted) == 0 || p.tools.aborted[0] != op {
		t.Errorf("the toolbox was told to abort %v", p.tools.aborted)
	}
	if _, ok, err := p.Abort(session.MainStrand); ok || err != nil {
		t.Errorf("abort of an idle strand: %v %v", ok, err)
	}
}

// TestAnAbortAtAnyMomentEndsTheRun aborts from beside the engine when it has told
// its nth fact. An abort that is missed leaves the run waiting for its context.
func TestAnAbortAtAnyMomentEndsTheRun(t *testing.T) {
	for n := int64(1); n <= 24; n++ {
		for range 5 {
			abortAtFact(t, n)
		}
	}
}

func abortAtFact(t *testing.T, n int64) {
	w := newWorld()
	var told atomic.Int64
	reached := make(chan struct{}, 1)
	started := make(chan string, 8)
	p := boot(t, w, []turn{callTools("safe", "unsafe", "safe", "slow")}, listening(started), func(c *engine.Config) {
		c.Observe = func(engine.Fact) {
			if told.Add(1) == n {
				reached <- struct{}{}
			}
		}
	})
	defer p.Close()
	op := prompt(t, p, text("go"))
	for waiting := true; waiting; { // the last call runs until it is cancelled: nothing is told any more
		select {
		case <-reached:
			waiting = false
		case call := <-started:
			waiting = call != "slow-3"
		}
	}
	if _, ok, err := p.Abort(session.MainStrand); !ok || err != nil {
		t.Fatalf("abort at fact %d: %v, %v", n, ok, err)
	}
	if got := finish(t, p, op); got.Outcome != machine.OutcomeAborted {
		t.Errorf("abort at fact %d: %+v", n, got)
	}
	settled(t, w)
	p.Close()
	p.tools.settled(t)
}

// askedWhile is a toolbox that does something while it is asked about a call.
type askedWhile struct {
	*toolbox
	do func(engine.Call)
}

func (a *askedWhile) Clear(c engine.Call) engine.Verdict {
	v := a.toolbox.Clear(c)
	a.do(c)
	return v
}

func TestAClearanceThatAnAbortOvertakesIsGivenBack(t *testing.T) {
	w := newWorld()
	var p *process
	var box *toolbox
	ready := make(chan struct{})
	p = boot(t, w, []turn{callTools("unsafe", "safe")}, func(c *engine.Config) {
		box = c.Tools.(*toolbox)
		c.Tools = &askedWhile{box, func(engine.Call) {
			<-ready
			if _, _, err := p.Abort(session.MainStrand); err != nil {
				t.Error(err)
			}
		}}
	})
	close(ready)
	if got := finish(t, p, prompt(t, p, text("go"))); got.Outcome != machine.OutcomeAborted {
		t.Errorf("result %+v", got)
	}
	if box.granted != 1 || box.used != 1 || len(w.ran) != 0 {
		t.Errorf("%d clearances, %d of them given back, ran %v", box.granted, box.used, w.ran)
	}
	settled(t, w)
}

func TestAStalePlanDoesNotAskForClearanceAgain(t *testing.T) {
	w := newWorld()
	var p *process
	var box *toolbox
	asked := make(map[string]int)
	ready := make(chan struct{})
	p = boot(t, w, []turn{callTools("unsafe"), say("one"), say("two")}, func(c *engine.Config) {
		box = c.Tools.(*toolbox)
		c.Tools = &askedWhile{box, func(call engine.Call) {
			<-ready
			asked[call.Call.ID]++
			// Input that is queued now makes the plan that follows the answer stale.
			if _, err := p.Prompt(session.MainStrand, text("more")); err != nil {
				t.Error(err)
			}
		}}
	})
	close(ready)
	finish(t, p, prompt(t, p, text("go")))
	if asked["unsafe-0"] != 1 || w.ran["unsafe-0"] != 1 {
		t.Errorf("asked %v, ran %v", asked, w.ran)
	}
	box.settled(t)
	settled(t, w)
}

func TestPromptsThatRaceTheEndOfARunAreNeitherLostNorDoubled(t *testing.T) {
	const clients, each = 4, 25
	w := newWorld()
	var facts []engine.Fact
	var inside atomic.Bool
	p := boot(t, w, nil, func(c *engine.Config) {
		c.Models = always{say("ok")}
		c.Observe = func(f engine.Fact) {
			if inside.Swap(true) {
				t.Error("the observer was called while it was being called")
			}
			facts = append(facts, f)
			inside.Store(false)
		}
	})
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for n := range each {
				r, err := p.Prompt(session.MainStrand, text(fmt.Sprintf("%d/%d", client, n)))
				if err != nil {
					t.Errorf("prompt: %v", err)
					return
				}
				if n%3 == 0 {
					if _, err := p.Await(t.Context(), session.MainStrand, r.Op); err != nil {
						t.Errorf("await: %v", err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if err := awaitIdle(t.Context(), p.Engine); err != nil {
		t.Fatal(err)
	}
	p.Close()
	got := transcript(t, w)
	for client := range clients {
		for n := range each {
			if k := strings.Count(got, fmt.Sprintf("user %d/%d\n", client, n)); k != 1 {
				t.Errorf("prompt %d/%d is in the tree %d times", client, n, k)
			}
		}
	}
	inOrder(t, facts)
	settled(t, w)
}

// always is a model with one answer.
type always struct{ answer turn }

func (a always) Resolve(machine.ModelRef) (provider.Model, provider.Provider, error) {
	return provider.Model{API: "fake"}, a, nil
}

func (a always) Stream(ctx context.Context, _ provider.Request, sink func(provider.Delta)) (*message.Assistant, error) {
	return a.answer(ctx, sink)
}

// inOrder checks that commits are told by ascending seq and that a run begins
// after the one before it ended.
func inOrder(t *testing.T, facts []engine.Fact) {
	t.Helper()
	var last int64
	open := false
	for i, f := range facts {
		switch f := f.(type) {
		case engine.Committed:
			if f.FirstSeq <= last || f.LastSeq < f.FirstSeq {
				t.Errorf("fact %d: commit %d to %d after %d", i, f.FirstSeq, f.LastSeq, last)
			}
			last = f.LastSeq
		case engine.RunStarted:
			if open {
				t.Errorf("fact %d: a run began before the one before it ended", i)
			}
			open = true
		case engine.RunFinished:
			if !open {
				t.Errorf("fact %d: a run ended that was not open", i)
			}
			open = false
		}
	}
}

func TestFactsComeInOrder(t *testing.T) {
	w := newWorld()
	var words []string
	var facts []engine.Fact
	var p *process
	p = boot(t, w, []turn{func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
		sink(provider.ThinkingDelta{Text: "hm"})
		sink(provider.TextDelta{Block: 1, Text: "hel"})
		sink(provider.TextDelta{Block: 1, Text: "lo"})
		sink(provider.ToolCallDelta{Block: 2, CallID: "safe-0", Name: "safe", Fragment: "{}"})
		return callTools("safe")(ctx, sink)
	}, func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
		if w.flake("busy", 1) {
			return nil, &provider.Error{Class: provider.Overloaded, Message: "busy"}
		}
		return say("hello")(ctx, sink)
	}}, func(c *engine.Config) {
		c.Observe = func(f engine.Fact) {
			facts = append(facts, f)
			switch f.(type) {
			case engine.RunStarted, engine.RunFinished, engine.RetryScheduled: // nothing may be committed in between
				if !p.Committing() {
					t.Errorf("%T was told beside its commit", f)
				}
			}
			if word := strings.TrimPrefix(fmt.Sprintf("%T", f), "engine."); word != "Committed" {
				words = append(words, word)
			}
		}
	})
	finish(t, p, prompt(t, p, text("go")))
	p.Close()
	if got := strings.Join(words, " "); got != "RunStarted ThinkingDelta TextDelta TextDelta ToolCallDelta ToolOutput RetryScheduled RunFinished" {
		t.Errorf("got %s", got)
	}
	inOrder(t, facts)
}

// meddling is a store that lets somebody act between two reads.
type meddling struct {
	storage.Store
	on   register.Namespace
	once func() // nil: nothing
}

func (m *meddling) Register(ns register.Namespace, key string) (register.Cell, bool, error) {
	if act := m.once; act != nil && ns == m.on {
		m.once = nil
		act()
	}
	return m.Store.Register(ns, key)
}

func TestAPromptThatReadsAQueueWhileAnotherEmptiesItIsTaken(t *testing.T) {
	w := newWorld()
	store := &meddling{Store: w.store, on: register.PendingEntry}
	cfg, _ := config(w, store, nil)
	cfg.Models = always{say("ok")}
	e, err := engine.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := session.New(w.store).EnsureStrand(session.MainStrand, fakeConfiguration); err != nil {
		t.Fatal(err)
	}
	// Nothing drives the strand yet, so that an aborted run stays open and input goes
	// to the queue of the next one.
	d := e.Driver(session.MainStrand)
	for _, s := range []string{"first", "second"} {
		if s == "second" {
			if _, _, err := e.Abort(session.MainStrand); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := e.Prompt(session.MainStrand, text(s)); err != nil {
			t.Fatal(err)
		}
	}
	for open := true; open; { // to the end of the aborted run, and no further: the next pass starts the one that "second" asks for
		if _, err := d.Step(func(f func()) { f() }); err != nil {
			t.Fatal(err)
		}
		if _, open, err = e.Current(session.MainStrand); err != nil {
			t.Fatal(err)
		}
	}
	store.once = func() {
		if _, err := e.Prompt(session.MainStrand, text("third")); err != nil {
			t.Error(err)
		}
	}
	if r, err := e.Prompt(session.MainStrand, text("fourth")); err != nil || !r.Queued {
		t.Errorf("%+v, %v", r, err)
	}
	drain(t, d)
	wantTranscript(t, w, "user first", "user second", "user third", "assistant stop ok", "user fourth", "assistant stop ok")
	settled(t, w)
}

// drain steps a driver until it is idle, and counts. Effects run at once.
func drain(t *testing.T, d *engine.Driver) (steps int) {
	t.Helper()
	for {
		steps++
		pass, err := d.Step(func(f func()) { f() })
		if err != nil {
			t.Fatal(err)
		}
		if pass.Progress == engine.Idle {
			return steps
		}
	}
}
