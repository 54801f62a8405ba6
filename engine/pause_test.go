package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
)

// paused waits until a run is paused and returns what it waits for.
func paused(t *testing.T, p *process, op id.OpID) []machine.Pause {
	t.Helper()
	r, err := p.Await(t.Context(), session.MainStrand, op)
	pause, ok := errors.AsType[*engine.Paused](err)
	if !ok || pause.Op != op {
		t.Fatalf("%+v, %v: the run is not paused", r, err)
	}
	return pause.Pauses
}

func answer(t *testing.T, e *engine.Engine, gate string, d machine.Decision) {
	t.Helper()
	ann, err := message.Human("ann", "Ann")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Answer(session.MainStrand, gate, d, &ann); err != nil {
		t.Fatal(err)
	}
}

// TestARunPausesUntilAPersonDecides, through several lives of the process, and what was approved runs once.
func TestARunPausesUntilAPersonDecides(t *testing.T) {
	w := newWorld()
	turns := []turn{callTools("asked", "safe", "question"), say("done")}
	p := boot(t, w, turns)
	op := prompt(t, p, text("go"))
	gates := paused(t, p, op)
	if len(gates) != 2 || gates[0].Reason != words.PausedOnApproval || gates[1].Reason != words.PausedOnQuestion {
		t.Fatalf("%+v", gates)
	}
	for range 2 {
		p.Close()
		p = boot(t, w, turns)
		if again := paused(t, p, op); len(again) != 2 || again[0].Gate != gates[0].Gate || again[1].Gate != gates[1].Gate {
			t.Fatalf("another life waits for %+v", again)
		}
	}
	if w.ran["asked-0"] != 0 || w.ran["safe-1"] != 1 {
		t.Errorf("ran %v", w.ran)
	}
	if err := p.Answer(session.MainStrand, gates[1].Gate, machine.Approve{}, nil); !errors.Is(err, machine.ErrWrongAnswer) {
		t.Errorf("an approval of a question: %v", err)
	}
	if err := p.Answer(session.MainStrand, "another", machine.Approve{}, nil); !errors.Is(err, machine.ErrNoSuchGate) {
		t.Errorf("an answer to nothing: %v", err)
	}
	answer(t, p.Engine, gates[1].Gate, machine.Reply{Content: []message.UserBlock{message.Text{Text: "blue"}}})
	if left := paused(t, p, op); len(left) != 1 || left[0].Gate != gates[0].Gate {
		t.Errorf("left to decide: %+v", left)
	}
	answer(t, p.Engine, gates[0].Gate, machine.Approve{Arguments: new(jsonv.Obj(jsonv.F("corrected", jsonv.Boolean(true))))})
	if err := p.Answer(session.MainStrand, gates[0].Gate, machine.Deny{}, nil); !errors.Is(err, machine.ErrNoSuchGate) {
		t.Errorf("a second answer: %v", err)
	}
	if r := finish(t, p, op); r.Outcome != machine.OutcomeCompleted {
		t.Errorf("%+v", r)
	}
	if w.ran["asked-0"] != 1 {
		t.Errorf("the approved call ran %d times", w.ran["asked-0"])
	}
	wantTranscript(t, w, "user go", "assistant toolUse  call:asked-0 call:safe-1 call:question-2", "result asked-0 error=false did asked-0",
		"result safe-1 error=false did safe-1", "result question-2 error=false blue", "assistant stop done")
	p.tools.settled(t)
	settled(t, w)
}

func TestARefusalIsAResult(t *testing.T) {
	w := newWorld()
	p := boot(t, w, []turn{callTools("asked"), say("done")})
	op := prompt(t, p, text("go"))
	answer(t, p.Engine, paused(t, p, op)[0].Gate, machine.Deny{Note: new("not that")})
	if r := finish(t, p, op); r.Outcome != machine.OutcomeCompleted {
		t.Errorf("%+v", r)
	}
	wantTranscript(t, w, "user go", "assistant toolUse  call:asked-0",
		"result asked-0 error=true a person refused this call; it was not executed. They said: not that", "assistant stop done")
	settled(t, w)
}

// TestNobodyAnswersInTime: the window closes also while no process is there.
func TestNobodyAnswersInTime(t *testing.T) {
	w := newWorld()
	cfg, box := config(w, w.store, []turn{callTools("asked")})
	box.answerWithin = 1_000_000
	e, err := engine.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Session.EnsureStrand(session.MainStrand, fakeConfiguration); err != nil {
		t.Fatal(err)
	}
	r := send(t, e, text("go"))
	d := e.Driver(session.MainStrand)
	var pass engine.Pass
	for pass.Progress != engine.Parked {
		if pass, err = d.Step(func(f func()) { f() }); err != nil {
			t.Fatal(err)
		}
	}
	gates, err := e.Pauses(session.MainStrand)
	if err != nil || len(gates) != 1 || pass.Until != gates[0].AnswerBy {
		t.Fatalf("%+v until %d, %v", gates, pass.Until, err)
	}
	e.Close()
	w.clockMs += 2_000_000
	e, d = undriven(t, w, say("done"))
	if err := e.Answer(session.MainStrand, gates[0].Gate, machine.Approve{}, nil); !errors.Is(err, machine.ErrNoSuchGate) {
		t.Errorf("an answer that is too late: %v", err)
	}
	drain(t, d)
	last, _, err := e.Session().OperationResult(r.Op)
	if err != nil || last.Value.Error == nil || last.Value.Error.Code != string(words.ExpiredApproval) {
		t.Errorf("%+v, %v", last.Value, err)
	}
	if w.ran["asked-0"] != 0 {
		t.Error("a call ran that nobody approved")
	}
	settled(t, w)
}

func TestAnAbortEndsAPause(t *testing.T) {
	w := newWorld()
	p := boot(t, w, []turn{callTools("asked")})
	op := prompt(t, p, text("go"))
	gate := paused(t, p, op)[0].Gate
	if _, ok, err := p.Abort(session.MainStrand); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if r := finish(t, p, op); r.Outcome != machine.OutcomeAborted {
		t.Errorf("%+v", r)
	}
	if err := p.Answer(session.MainStrand, gate, machine.Approve{}, nil); !errors.Is(err, machine.ErrNoSuchGate) {
		t.Errorf("an answer after the abort: %v", err)
	}
	settled(t, w)
}

// TestAPausedRunIsTold once for each change of what it waits for, and its strand is not busy.
func TestAPausedRunIsTold(t *testing.T) {
	w := newWorld()
	told := make(chan int, 16)
	p := boot(t, w, []turn{callTools("asked", "question"), say("done")}, func(c *engine.Config) {
		c.Observe = func(f engine.Fact) {
			if f, ok := f.(engine.RunPaused); ok {
				told <- len(f.Pauses)
			}
		}
	})
	op := prompt(t, p, text("go"))
	gates := paused(t, p, op)
	if n := <-told; n != 2 {
		t.Errorf("told of %d", n)
	}
	p.Driver(session.MainStrand).Ring()
	answer(t, p.Engine, gates[0].Gate, machine.Deny{})
	if n := <-told; n != 1 {
		t.Errorf("told of %d", n)
	}
	answer(t, p.Engine, gates[1].Gate, machine.Deny{})
	finish(t, p, op)
	if len(told) > 0 {
		t.Error("told of more")
	}
}

// hooked asks nothing and answers once each.
type hooked struct{ start, end string }

func (h *hooked) RunStart(machine.Operation) []machine.PendingEntry {
	if h.start == "panic" {
		panic("boom")
	}
	return []machine.PendingEntry{
		machine.PendingMessage(&message.User{Content: []message.UserBlock{message.Text{Text: h.start}}}),
		{Body: entry.Custom{Type: "deep", Data: new(nested(300))}}, {},
	}
}

func (h *hooked) RunEnd(_ machine.Operation, final id.EntryID) *machine.PendingEntry {
	if h.end == "" || final.IsZero() {
		return nil
	}
	s := h.end
	h.end = ""
	return new(machine.PendingMessage(&message.User{Content: []message.UserBlock{message.Text{Text: s}}}))
}

func TestHooksAddToARunAndCannotBreakIt(t *testing.T) {
	w := newWorld()
	h := &hooked{start: "context", end: "check"}
	p := boot(t, w, []turn{say("one"), say("two"), say("three")}, func(c *engine.Config) { c.Hooks = h })
	finish(t, p, prompt(t, p, text("go")))
	h.start = "panic"
	finish(t, p, prompt(t, p, text("again")))
	wantTranscript(t, w, "user go", "user context", "assistant stop one", "user check", "assistant stop two", "user again", "assistant stop three")
	if strings.Contains(transcript(t, w), "deep") {
		t.Error("what cannot be stored was stored")
	}
	settled(t, w)
}

// TestOfManyDecidersOneIsHeard: what the first of them says is what happens, and what the
// others say changes nothing.
func TestOfManyDecidersOneIsHeard(t *testing.T) {
	const deciders = 32
	for round := range 8 {
		w := newWorld()
		p := boot(t, w, []turn{callTools("asked"), say("done")})
		op := prompt(t, p, text("go"))
		gate := paused(t, p, op)[0].Gate
		says := func(i int) machine.Decision {
			switch (i + round) % 3 {
			case 0:
				return machine.Approve{}
			case 1:
				return machine.Approve{Arguments: new(jsonv.Obj(jsonv.F("decider", jsonv.Num(int64(i)))))}
			}
			return machine.Deny{Note: new(fmt.Sprintf("decider %d", i))}
		}
		start := make(chan struct{})
		outcomes := make([]error, deciders)
		var all sync.WaitGroup
		for i := range deciders {
			all.Go(func() {
				<-start
				outcomes[i] = p.Answer(session.MainStrand, gate, says(i), nil)
			})
		}
		close(start)
		all.Wait()
		first := -1
		for i, err := range outcomes {
			switch {
			case err == nil && first < 0:
				first = i
			case err == nil:
				t.Errorf("deciders %d and %d were both heard", first, i)
			case !errors.Is(err, machine.ErrNoSuchGate):
				t.Errorf("decider %d: %v", i, err)
			}
		}
		if first < 0 {
			t.Fatal("nobody was heard")
		}
		if r := finish(t, p, op); r.Outcome != machine.OutcomeCompleted {
			t.Errorf("%+v", r)
		}
		want := 1
		if note, denied := says(first).(machine.Deny); denied {
			want = 0
			wantTranscript(t, w, "user go", "assistant toolUse  call:asked-0",
				"result asked-0 error=true a person refused this call; it was not executed. They said: "+*note.Note, "assistant stop done")
		}
		if w.ran["asked-0"] != want {
			t.Errorf("decider %d said %T, and the call ran %d times", first, says(first), w.ran["asked-0"])
		}
		p.tools.settled(t)
		settled(t, w)
		p.Close()
	}
}
