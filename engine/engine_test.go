package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
)

type turn = func(context.Context, func(provider.Delta)) (*message.Assistant, error)

func text(s string) engine.Prompt {
	return engine.Prompt{Content: []message.UserBlock{message.Text{Text: s}}}
}

// transcript renders what is in the tree: roles, texts, calls and ends.
func transcript(t *testing.T, w *world) string {
	t.Helper()
	rows, err := w.store.ScanEntries(storage.EntryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range rows {
		switch m := e.Body.(entry.Message).Message.(type) {
		case *message.User:
			fmt.Fprintf(&b, "user %s\n", message.TextOf(m.Content))
		case *message.Assistant:
			calls, _ := m.ToolCalls()
			fmt.Fprintf(&b, "assistant %s %s", m.StopReason, message.TextOf(m.Content))
			for _, c := range calls {
				fmt.Fprintf(&b, " call:%s", c.ID)
			}
			b.WriteByte('\n')
		case *message.ToolResult:
			fmt.Fprintf(&b, "result %s error=%v %s\n", m.ToolCallID, m.IsError, message.TextOf(m.Content))
		}
	}
	return b.String()
}

// settled checks what must hold when no operation is open.
func settled(t *testing.T, w *world) {
	t.Helper()
	for _, ns := range []register.Namespace{register.OpMeta, register.OpState, register.OpToolArgs, register.OpPreparation, register.PendingEntry} {
		if cells, err := w.store.Registers(ns, ""); err != nil || len(cells) > 0 {
			t.Errorf("%s holds %d cells after the end (%v)", ns, len(cells), err)
		}
	}
	rows, _ := w.store.ScanEntries(storage.EntryQuery{})
	answers, asked := make(map[string]int), make(map[string]int)
	for _, e := range rows {
		if r, ok := e.Body.(entry.Message).Message.(*message.ToolResult); ok {
			answers[r.ToolCallID]++
		}
	}
	for _, e := range rows {
		a, ok := e.Body.(entry.Message).Message.(*message.Assistant)
		if !ok || a.StopReason == message.Aborted || a.StopReason == message.Error {
			continue
		}
		calls, _ := a.ToolCalls()
		for _, c := range calls {
			asked[c.ID]++ // a script may use an id in several turns
		}
	}
	for call, n := range asked {
		if answers[call] != n {
			t.Errorf("call %s was made %d times and has %d results", call, n, answers[call])
		}
	}
	for call, n := range w.ran {
		if n > 1 && !strings.HasPrefix(call, "safe") {
			t.Errorf("unsafe call %s ran %d times", call, n)
		}
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

func TestARunWithToolsLeavesADurableTranscript(t *testing.T) {
	w := newWorld()
	p := boot(t, w, 0, []turn{callTools("safe", "unsafe", "denied"), say("done")})
	r, err := p.Prompt(session.MainStrand, text("go"))
	if err != nil || r.Queued {
		t.Fatalf("prompt: %+v, %v", r, err)
	}
	if got := finish(t, p, r.Op); got.Outcome != machine.OutcomeCompleted || got.Completion != machine.ByAssistant {
		t.Errorf("result %+v", got)
	}
	want := `user go
assistant toolUse  call:safe-0 call:unsafe-1 call:denied-2
result safe-0 error=false did safe-0
result unsafe-1 error=false did unsafe-1
result denied-2 error=true not allowed
assistant stop done
`
	if got := transcript(t, w); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	settled(t, w)
	if rows, _ := w.store.ScanUsage(storage.UsageQuery{}); len(rows) != 2 {
		t.Errorf("%d ledger rows for 2 attempts", len(rows))
	}
}

func TestAbortKeepsWhatHappenedAndAnswersEveryCall(t *testing.T) {
	w := newWorld()
	started := make(chan string, 4)
	p := boot(t, w, 0, []turn{callTools("slow", "unsafe"), say("never")}, func(c *engine.Config) {
		c.Tools = &toolbox{w: w, started: started}
	})
	r, err := p.Prompt(session.MainStrand, text("go"))
	if err != nil {
		t.Fatal(err)
	}
	<-started
	queued, err := p.Prompt(session.MainStrand, text("more"))
	if err != nil || !queued.Queued || queued.Op != r.Op {
		t.Fatalf("second prompt: %+v, %v", queued, err)
	}
	if op, ok, err := p.Abort(session.MainStrand); !ok || op != r.Op || err != nil {
		t.Fatalf("abort: %v %v %v", op, ok, err)
	}
	if got := finish(t, p, r.Op); got.Outcome != machine.OutcomeAborted {
		t.Errorf("result %+v", got)
	}
	settled(t, w)
	if w.ran["unsafe-1"] != 0 {
		t.Error("a call ran after the abort")
	}
	if _, ok, err := p.Abort(session.MainStrand); ok || err != nil {
		t.Errorf("abort of an idle strand: %v %v", ok, err)
	}
}

func TestRetriesAreBilledOneByOne(t *testing.T) {
	w := newWorld()
	tries := 0
	p := boot(t, w, 0, []turn{func(context.Context, func(provider.Delta)) (*message.Assistant, error) {
		if tries++; tries < 3 {
			return nil, &provider.Error{Class: provider.Overloaded, Message: "busy"}
		}
		return say("ok")(nil, nil)
	}})
	r, _ := p.Prompt(session.MainStrand, text("go"))
	if got := finish(t, p, r.Op); got.Outcome != machine.OutcomeCompleted {
		t.Fatalf("result %+v", got)
	}
	if rows, _ := w.store.ScanUsage(storage.UsageQuery{}); len(rows) != 3 {
		t.Errorf("%d ledger rows for 3 attempts", len(rows))
	}
	settled(t, w)
}

func TestAPanicInAToolOrAProviderIsAResult(t *testing.T) {
	w := newWorld()
	p := boot(t, w, 0, []turn{func(context.Context, func(provider.Delta)) (*message.Assistant, error) { panic("boom") }})
	r, _ := p.Prompt(session.MainStrand, text("go"))
	got := finish(t, p, r.Op)
	if got.Outcome != machine.OutcomeFailed || !strings.Contains(got.Error.Message, "crashed") {
		t.Errorf("result %+v", got)
	}
	settled(t, w)
}

func TestFactsComeInOrder(t *testing.T) {
	w := newWorld()
	var words []string
	p := boot(t, w, 0, []turn{func(_ context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
		sink(provider.TextDelta{Text: "hel"})
		sink(provider.TextDelta{Text: "lo"})
		return say("hello")(nil, nil)
	}}, func(c *engine.Config) {
		c.Observe = func(f engine.Fact) {
			word := fmt.Sprintf("%T", f)
			if word != "engine.Committed" {
				words = append(words, strings.TrimPrefix(word, "engine."))
			}
		}
	})
	r, _ := p.Prompt(session.MainStrand, text("go"))
	finish(t, p, r.Op)
	p.Close()
	if got := strings.Join(words, " "); got != "RunStarted TextDelta TextDelta RunFinished" {
		t.Errorf("got %s", got)
	}
}

func TestMaxTurnsEndsTheRunAndSaysSo(t *testing.T) {
	w := newWorld()
	p := boot(t, w, 0, []turn{callTools("safe"), callTools("safe"), callTools("safe")})
	prompt := text("go")
	prompt.MaxTurns = new(int64(2))
	r, _ := p.Prompt(session.MainStrand, prompt)
	got := finish(t, p, r.Op)
	if got.Outcome != machine.OutcomeFailed || got.Error.Code != machine.CodeMaxTurns {
		t.Errorf("result %+v", got)
	}
	if w.asked != 2 {
		t.Errorf("asked %d times", w.asked)
	}
	settled(t, w)
}

// TestEveryCommitMayBeTheLast kills the process right after each commit is
// durable and before anybody hears of it, then boots again over what is left.
func TestEveryCommitMayBeTheLast(t *testing.T) {
	scenarios := map[string][]turn{
		"simple": {say("hello")},
		"tools":  {callTools("safe", "unsafe"), say("done")},
		"deny":   {callTools("denied", "safe"), callTools("unsafe"), say("done")},
	}
	for name, turns := range scenarios {
		t.Run(name, func(t *testing.T) {
			crashes := 0
			for k := 1; ; k++ {
				w := newWorld()
				if !crashAndRecover(t, w, k, turns) {
					break // the run has fewer commits than k
				}
				crashes++
			}
			if crashes < 7 {
				t.Errorf("only %d crashes: the scenario does not reach what it should", crashes)
			}
		})
	}
}

// crashAndRecover reports whether commit k was reached.
func crashAndRecover(t *testing.T, w *world, k int, turns []turn) bool {
	t.Helper()
	p := boot(t, w, k, turns)
	var op id.OpID
	if p.Engine != nil {
		r, err := p.Prompt(session.MainStrand, text("go"))
		if err == nil {
			op = r.Op
			_, err = p.Await(t.Context(), session.MainStrand, op)
		}
		select {
		case <-p.dead:
		default:
			if err != nil {
				t.Fatalf("commit %d: %v", k, err)
			}
			p.Close()
			settled(t, w)
			return false
		}
		p.Close()
	}
	q := boot(t, w, 0, turns)
	if current, ok, err := q.Current(session.MainStrand); err != nil {
		t.Fatal(err)
	} else if ok {
		op = current
	}
	if last, ok, _ := q.Session().LastResult(session.MainStrand); op.IsZero() && ok {
		op = last.Value.OperationID // the recovery was quicker than this test
	}
	if op.IsZero() { // the crash came before the prompt was durable, which was not acknowledged: it is sent again
		r, err := q.Prompt(session.MainStrand, text("go"))
		if err != nil {
			t.Fatalf("commit %d: prompt after restart: %v", k, err)
		}
		op = r.Op
	}
	if got, err := q.Await(t.Context(), session.MainStrand, op); err != nil || got.Outcome != machine.OutcomeCompleted {
		t.Fatalf("commit %d: %+v, %v\n%s", k, got, err, transcript(t, w))
	}
	q.Close()
	settled(t, w)
	return true
}

func TestACrashedStrandRefusesInputAndSaysWhatIsKept(t *testing.T) {
	w := newWorld()
	p := boot(t, w, 6, []turn{say("hello")})
	r, err := p.Prompt(session.MainStrand, text("go"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Await(t.Context(), session.MainStrand, r.Op)
	if err == nil || !strings.Contains(err.Error(), "keeps everything up to its last commit") {
		t.Errorf("got %v", err)
	}
	if _, err := p.Prompt(session.MainStrand, text("again")); err == nil {
		t.Error("input was taken by a stopped strand")
	}
	p.Close()
	if _, err := p.Prompt(session.MainStrand, text("again")); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}
