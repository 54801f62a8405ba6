package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/storage"
	"pgregory.net/rapid"
)

func text(s string) engine.Prompt {
	return engine.Prompt{Content: []message.UserBlock{message.Text{Text: s}}}
}

// transcript renders what is in the tree: roles, texts, calls and ends.
func transcript(t rapid.TB, w *world) string {
	t.Helper()
	rows, err := w.store.ScanEntries(storage.EntryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range rows {
		b.WriteString(line(messageOf(e)) + "\n")
	}
	return b.String()
}

func line(m message.Message) string {
	switch m := m.(type) {
	case *message.User:
		return "user " + message.TextOf(m.Content)
	case *message.Assistant:
		calls, _ := m.ToolCalls()
		text := fmt.Sprintf("assistant %s %s", m.StopReason, message.TextOf(m.Content))
		for _, c := range calls {
			text += " call:" + c.ID
		}
		return text
	case *message.ToolResult:
		return fmt.Sprintf("result %s error=%v %s", m.ToolCallID, m.IsError, message.TextOf(m.Content))
	}
	return fmt.Sprintf("%T", m)
}

// settled checks what must hold when no operation is open: only what waits for
// the next run is pending.
func settled(t rapid.TB, w *world) {
	t.Helper()
	strand, _, err := session.NewView(w.store).StrandState(session.MainStrand)
	if err != nil {
		t.Fatal(err)
	}
	for ns, want := range map[register.Namespace]int{
		register.OpMeta: 0, register.OpState: 0, register.OpToolArgs: 0, register.OpPreparation: 0, register.PendingEntry: len(strand.Value.PendingNextRun),
	} {
		if cells, err := w.store.Registers(ns, ""); err != nil || len(cells) != want {
			t.Errorf("%s holds %d cells after the end, want %d (%v)", ns, len(cells), want, err)
		}
	}
	sound(t, w, "after the end")
	w.mu.Lock()
	defer w.mu.Unlock()
	for call, n := range w.ran {
		if tool, _, _ := strings.Cut(call, "-"); n > 1 && !repeatable(tool) {
			t.Errorf("unsafe call %s ran %d times", call, n)
		}
	}
}

// sound checks every invariant of the session.
func sound(t rapid.TB, w *world, when string) {
	t.Helper()
	found, err := check.Session(w.store)
	if err != nil {
		t.Errorf("%s: %v", when, err)
	}
	for _, f := range found {
		t.Errorf("%s: %s", when, f)
	}
}

func finish(t *testing.T, p *process, op id.OpID) machine.LastResult {
	t.Helper()
	r, err := p.Await(t.Context(), session.MainStrand, op)
	if err != nil {
		t.Fatalf("await: %v", err)
	}
	return r
}

// prompt starts a run.
func prompt(t *testing.T, p *process, in engine.Prompt) id.OpID {
	t.Helper()
	r, err := p.Prompt(session.MainStrand, in)
	if err != nil || r.Queued {
		t.Fatalf("prompt: %+v, %v", r, err)
	}
	return r.Op
}

func wantTranscript(t rapid.TB, w *world, want ...string) {
	t.Helper()
	if got := transcript(t, w); got != strings.Join(append(want, ""), "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestARunWithToolsLeavesADurableTranscript(t *testing.T) {
	w := newWorld()
	p := boot(t, w, []turn{callTools("safe", "unsafe", "denied"), say("done")})
	op := prompt(t, p, text("go"))
	if got := finish(t, p, op); got.Outcome != machine.OutcomeCompleted || got.Completion != machine.ByAssistant {
		t.Errorf("result %+v", got)
	}
	wantTranscript(t, w, "user go",
		"assistant toolUse  call:safe-0 call:unsafe-1 call:denied-2",
		"result safe-0 error=false did safe-0", "result unsafe-1 error=false did unsafe-1", "result denied-2 error=true not allowed",
		"assistant stop done")
	settled(t, w)
	p.tools.settled(t)
	if rows, _ := w.store.ScanUsage(storage.UsageQuery{}); len(rows) != 2 {
		t.Errorf("%d ledger rows for 2 attempts", len(rows))
	}
}

func TestAToolMayEndTheRun(t *testing.T) {
	w := newWorld()
	p := boot(t, w, []turn{callTools("ender", "ender")})
	if got := finish(t, p, prompt(t, p, text("go"))); got.Completion != machine.ByTerminatedTools || !got.FinalAssistant.IsZero() {
		t.Errorf("result %+v", got)
	}
	settled(t, w)
}

func TestInputForABusyStrandWaitsUntilItsRunWouldFinish(t *testing.T) {
	w := newWorld()
	var p *process
	var queued engine.Receipt
	first := func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
		var err error
		if queued, err = p.Prompt(session.MainStrand, text("more")); err != nil {
			t.Error(err)
		}
		return callTools("safe")(ctx, sink)
	}
	ready := make(chan struct{})
	p = boot(t, w, []turn{func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
		<-ready
		return first(ctx, sink)
	}, say("first answer"), say("second answer")})
	close(ready)
	op := prompt(t, p, text("go"))
	finish(t, p, op)
	if !queued.Queued || queued.Op != op {
		t.Errorf("the receipt of what was queued is %+v", queued)
	}
	wantTranscript(t, w, "user go", "assistant toolUse  call:safe-0", "result safe-0 error=false did safe-0",
		"assistant stop first answer", "user more", "assistant stop second answer")
	settled(t, w)
}

func TestRetriesAreBilledOneByOne(t *testing.T) {
	w := newWorld()
	p := boot(t, w, []turn{func(context.Context, func(provider.Delta)) (*message.Assistant, error) {
		if w.flake("busy", 2) {
			return nil, &provider.Error{Class: provider.Overloaded, Message: "busy"}
		}
		return say("ok")(nil, nil)
	}})
	if got := finish(t, p, prompt(t, p, text("go"))); got.Outcome != machine.OutcomeCompleted {
		t.Fatalf("result %+v", got)
	}
	if rows, _ := w.store.ScanUsage(storage.UsageQuery{}); len(rows) != 3 {
		t.Errorf("%d ledger rows for 3 attempts", len(rows))
	}
	settled(t, w)
}

func TestMaxTurnsEndsTheRunAndSaysSo(t *testing.T) {
	w := newWorld()
	p := boot(t, w, []turn{callTools("safe"), callTools("safe"), callTools("safe")})
	in := text("go")
	in.MaxTurns = new(int64(2))
	got := finish(t, p, prompt(t, p, in))
	if got.Outcome != machine.OutcomeFailed || got.Error.Code != machine.CodeMaxTurns {
		t.Errorf("result %+v", got)
	}
	if w.requests() != 2 {
		t.Errorf("asked %d times", w.requests())
	}
	settled(t, w)
}

func TestACallThatWasCutOffIsAnsweredAndNotRun(t *testing.T) {
	w := newWorld()
	p := boot(t, w, []turn{reply(message.Length, calls("unsafe")...), say("done")})
	finish(t, p, prompt(t, p, text("go")))
	if w.ran["unsafe-0"] != 0 || !strings.Contains(transcript(t, w), "result unsafe-0 error=true the response was cut off") {
		t.Errorf("it ran %d times\n%s", w.ran["unsafe-0"], transcript(t, w))
	}
	settled(t, w)
}

func TestInputThatSaysNothingIsRefused(t *testing.T) {
	w := newWorld()
	p := boot(t, w, nil)
	for name, in := range map[string]engine.Prompt{"no block": {}, "empty text": text("")} {
		if r, err := p.Prompt(session.MainStrand, in); err != machine.ErrInvalidMessage {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if _, ok, err := p.Current(session.MainStrand); ok || err != nil {
		t.Errorf("a run is open: %v, %v", ok, err)
	}
	if _, err := p.Prompt("other", text("go")); err == nil || !strings.Contains(err.Error(), `no strand "other"`) {
		t.Errorf("a strand that is not there: %v", err)
	}
	if _, ok, err := p.Abort("other"); ok || err != nil {
		t.Errorf("abort of a strand that is not there: %v, %v", ok, err)
	}
}

func TestConfigureChangesWhatTheNextStepUses(t *testing.T) {
	w := newWorld()
	p := boot(t, w, []turn{say("one"), say("two")})
	finish(t, p, prompt(t, p, text("go")))
	rename := func(c machine.Configuration) machine.Configuration { c.Model.ModelID = "other"; return c }
	for range 2 { // the second changes nothing, and commits nothing
		if err := p.Configure(session.MainStrand, rename); err != nil {
			t.Fatal(err)
		}
	}
	got, _, err := p.Session().StrandConfig(session.MainStrand)
	if err != nil || got.Value.Model.ModelID != "other" {
		t.Errorf("got %+v, %v", got, err)
	}
	before, _, _ := p.Session().StrandState(session.MainStrand)
	if got.Seq != before.Seq+1 {
		t.Errorf("configured at seq %d, the run ended at %d", got.Seq, before.Seq)
	}
	if err := p.Configure("other", rename); err == nil {
		t.Error("a strand that is not there was configured")
	}
	finish(t, p, prompt(t, p, text("again")))
	settled(t, w)
}

func TestAwaitTellsAnOperationThatIsNotThere(t *testing.T) {
	w := newWorld()
	p := boot(t, w, []turn{say("hello")})
	op := prompt(t, p, text("go"))
	finish(t, p, op)
	finish(t, p, op) // again: the result stays
	if _, err := p.Await(t.Context(), session.MainStrand, id.OpID{}); err != engine.ErrNoOperation {
		t.Errorf("got %v", err)
	}
}
