// Package providertest is the conformance suite that every provider runs.
//
// # Purpose
//
// The contract of provider.Provider in executable form: one terminal, deltas that agree with it, a joined cancellation, an error that says what
// it is.
//
// # Key types
//
// [Subject] is the provider under test, made to play the scenes; [Run] is the suite.
//
// # Relationships
//
// Imported by tests only.
//
// # Traffic
//
// None.
//
// # Invariants
//
// A scene that a provider cannot play is left nil in its Subject and skipped by name, so that a missing scene is seen.
package providertest

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
)

// Scene makes a provider and a request that lead to one known outcome. A provider that implements io.Closer is closed after its scene.
type Scene func(t testing.TB) (provider.Provider, provider.Request)

// Subject is a provider under test.
type Subject struct {
	// At is what the provider's clock says, in Unix milliseconds.
	At int64
	// API is the dialect name that settled messages must carry.
	API string
	// Settles are scenes whose answer settles, by name.
	Settles map[string]Scene
	// Cuts makes the same answer arrive in other pieces; seed chooses how. Nil when the provider has no pieces to cut.
	Cuts func(t testing.TB, seed int) (provider.Provider, provider.Request)
	// Stalls is a scene whose answer begins with text and then never goes on.
	Stalls Scene
	// Fails are scenes that fail with the class they are named by.
	Fails map[provider.Class]Scene
}

// Run checks the contract.
func Run(t *testing.T, s Subject) {
	for name, scene := range s.Settles {
		t.Run("settles/"+name, func(t *testing.T) { s.settles(t, scene) })
		t.Run("concurrent calls do not disturb each other/"+name, func(t *testing.T) { s.concurrent(t, scene) })
		t.Run("cancelled before it starts/"+name, func(t *testing.T) { cancelledBefore(t, scene) })
		t.Run("cancelled at the first delta/"+name, func(t *testing.T) { cancelledAtFirstDelta(t, scene) })
	}
	t.Run("the cut into pieces does not matter", func(t *testing.T) { s.cuts(t) })
	t.Run("a stalled answer is cancelled and joined", func(t *testing.T) { s.stalls(t) })
	for class, scene := range s.Fails {
		t.Run("fails/"+string(class), func(t *testing.T) { fails(t, class, scene) })
	}
}

// outcome is all that one call of Stream did.
type outcome struct {
	deltas  []provider.Delta
	settled *message.Assistant
	failure *provider.Error
}

// play makes one call and checks what holds for every call.
func play(t *testing.T, ctx context.Context, p provider.Provider, req provider.Request, sink func(provider.Delta)) outcome {
	t.Helper()
	var out outcome
	home, returned := goroutine(), false
	m, err := p.Stream(ctx, req, func(d provider.Delta) {
		if at := goroutine(); at != home {
			t.Errorf("the sink ran on %s, not on the caller's %s", at, home)
		}
		if returned {
			t.Errorf("the sink was called after the terminal, with %#v", d)
		}
		out.deltas = append(out.deltas, d)
		if sink != nil {
			sink(d)
		}
	})
	returned = true
	out.settled = m
	if err != nil {
		var ok bool
		if out.failure, ok = errors.AsType[*provider.Error](err); !ok {
			t.Errorf("the error is a %T, not a *provider.Error: %v", err, err)
		}
	}
	if (m == nil) == (err == nil) {
		t.Errorf("want exactly one of message and error, got %v and %v", m, err)
	}
	return out
}

// goroutine names the running goroutine.
func goroutine() string {
	buf := make([]byte, 64)
	name, _, _ := strings.Cut(string(buf[:runtime.Stack(buf, false)]), " [")
	return name
}

// enter plays a scene's set-up and checks, when the test ends, that nothing of the attempts runs on.
func enter(t *testing.T, scene Scene) (provider.Provider, provider.Request) {
	t.Helper()
	if scene == nil {
		t.Skip("this provider cannot play the scene")
	}
	p, req := scene(t)
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if c, ok := p.(io.Closer); ok {
			if err := c.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		goleak.VerifyNone(t, before)
	})
	return p, req
}

func (s Subject) settles(t *testing.T, scene Scene) {
	p, req := enter(t, scene)
	out := play(t, t.Context(), p, req, nil)
	if out.failure != nil {
		t.Fatalf("failed as %s: %v", out.failure.Class, out.failure)
	}
	s.checkSettled(t, req, out.settled)
	checkDeltas(t, out.deltas, out.settled)
	again := play(t, t.Context(), p, req, nil)
	if again.settled == nil {
		t.Fatalf("the second call failed: %v", again.failure)
	}
	checkDeltas(t, again.deltas, again.settled)
}

func (s Subject) checkSettled(t *testing.T, req provider.Request, m *message.Assistant) {
	t.Helper()
	calls, _ := m.ToolCalls()
	switch m.StopReason {
	case message.Stop, message.Length:
	case message.ToolUse:
		if len(calls) == 0 {
			t.Error("the stop reason is toolUse and there is no call")
		}
	case message.Pending, message.Error, message.Aborted, message.Deferred:
		t.Errorf("a settled answer has the stop reason %s", m.StopReason)
	}
	if got := (provider.Identity{Provider: m.Provider, ModelID: m.Model}); got != req.Model.Identity || m.API != s.API {
		t.Errorf("signed as %s by %s, want %s by %s", got, m.API, req.Model.Identity, s.API)
	}
	if m.Timestamp != s.At {
		t.Errorf("timestamp %d, want the clock's %d", m.Timestamp, s.At)
	}
	seen := map[string]bool{}
	for _, c := range calls {
		if c.ID == "" || seen[c.ID] {
			t.Errorf("call id %q is empty or used twice", c.ID)
		}
		seen[c.ID] = true
		if c.Arguments.Kind() != jsonv.Object {
			t.Errorf("call %s has arguments that are no object: %s", c.ID, c.Arguments)
		}
	}
	if diff := cmp.Diff(stored(m), stored(reread(t, m))); diff != "" {
		t.Errorf("the message changes when it is stored (-before +after):\n%s", diff)
	}
}

func stored(m message.Message) string {
	var w jsonv.Writer
	message.Append(&w, m)
	return string(w.Bytes())
}

func reread(t *testing.T, m message.Message) message.Message {
	t.Helper()
	v, err := jsonv.ParseString(stored(m))
	if err != nil {
		t.Fatalf("the stored message is not JSON: %v", err)
	}
	back, err := message.Decode(v)
	if err != nil {
		t.Fatalf("the stored message is not a message: %v", err)
	}
	return back
}

// checkDeltas checks that what was drawn is what was settled.
func checkDeltas(t *testing.T, deltas []provider.Delta, m *message.Assistant) {
	t.Helper()
	drawn := make([]strings.Builder, len(m.Content))
	add := func(block int, fits bool, piece string) {
		if block < 0 || block >= len(drawn) || !fits {
			t.Fatalf("a delta of block %d does not fit the content %v", block, m.Content)
		}
		drawn[block].WriteString(piece)
	}
	at := func(block int) message.AssistantBlock {
		if block < 0 || block >= len(m.Content) {
			return nil
		}
		return m.Content[block]
	}
	for _, d := range deltas {
		switch d := d.(type) {
		case provider.TextDelta:
			_, fits := at(d.Block).(message.Text)
			add(d.Block, fits, d.Text)
		case provider.ThinkingDelta:
			_, fits := at(d.Block).(message.Thinking)
			add(d.Block, fits, d.Text)
		case provider.ToolCallDelta:
			_, fits := at(d.Block).(message.ToolCall)
			add(d.Block, fits, d.Fragment)
		}
	}
	for i, b := range m.Content {
		var want string
		switch b := b.(type) {
		case message.Text:
			want = b.Text
		case message.Thinking:
			want = b.Thinking
		case message.ToolCall:
			if _, _, malformed := message.AsMalformed(b.Arguments); malformed {
				continue
			}
			want = b.Arguments.String()
			if got := message.ParseArguments(strings.TrimSpace(drawn[i].String())).String(); got != want {
				t.Errorf("block %d was drawn with the arguments %s and settled with %s", i, got, want)
			}
			continue
		}
		if got := drawn[i].String(); got != want {
			t.Errorf("block %d was drawn as %q and settled as %q", i, got, want)
		}
	}
}

func (s Subject) concurrent(t *testing.T, scene Scene) {
	p, req := enter(t, scene)
	want := play(t, t.Context(), p, req, nil)
	outcomes := make(chan outcome, 4)
	for range cap(outcomes) {
		go func() { outcomes <- play(t, t.Context(), p, req, nil) }()
	}
	for range cap(outcomes) {
		got := <-outcomes
		if got.settled == nil {
			t.Errorf("failed as %s: %v", got.failure.Class, got.failure)
			continue
		}
		if diff := cmp.Diff(stored(want.settled), stored(got.settled)); diff != "" {
			t.Errorf("(-alone +concurrent):\n%s", diff)
		}
	}
}

func cancelledBefore(t *testing.T, scene Scene) {
	p, req := enter(t, scene)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := play(t, ctx, p, req, nil)
	if out.failure == nil || out.failure.Class != provider.Cancelled {
		t.Fatalf("want class cancelled, got %+v", out)
	}
	if len(out.deltas) > 0 || out.failure.Partial != nil {
		t.Errorf("something was received: %v, %v", out.deltas, out.failure.Partial)
	}
}

func cancelledAtFirstDelta(t *testing.T, scene Scene) {
	p, req := enter(t, scene)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := play(t, ctx, p, req, func(provider.Delta) { cancel() })
	if out.settled != nil {
		// The answer may have been complete already; then nothing was cut off.
		checkDeltas(t, out.deltas, out.settled)
		return
	}
	checkCancelled(t, out)
}

func checkCancelled(t *testing.T, out outcome) {
	t.Helper()
	if out.failure == nil || out.failure.Class != provider.Cancelled {
		t.Fatalf("want class cancelled, got %v and %v", out.settled, out.failure)
	}
	if out.failure.Retryable() || !errors.Is(out.failure, context.Canceled) {
		t.Error("a cancellation is not retried and is a context.Canceled")
	}
	if m := out.failure.Partial; m != nil && m.StopReason != message.Aborted {
		t.Errorf("what was received has the stop reason %s, want aborted", m.StopReason)
	}
}

func (s Subject) cuts(t *testing.T) {
	if s.Cuts == nil {
		t.Skip("this provider cannot play the scene")
	}
	var want string
	for seed := range 5 {
		p, req := enter(t, func(t testing.TB) (provider.Provider, provider.Request) { return s.Cuts(t, seed) })
		out := play(t, t.Context(), p, req, nil)
		if out.settled == nil {
			t.Fatalf("cut %d failed as %s: %v", seed, out.failure.Class, out.failure)
		}
		checkDeltas(t, out.deltas, out.settled)
		got := stored(out.settled)
		if seed == 0 {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("cut %d (-cut 0 +this):\n%s", seed, diff)
		}
	}
}

func (s Subject) stalls(t *testing.T) {
	p, req := enter(t, s.Stalls)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := play(t, ctx, p, req, func(provider.Delta) { cancel() })
	checkCancelled(t, out)
	if out.failure.Partial == nil || len(out.failure.Partial.Content) == 0 {
		t.Fatal("what was received before the cancellation is lost")
	}
	checkDeltas(t, out.deltas, out.failure.Partial)
}

func fails(t *testing.T, class provider.Class, scene Scene) {
	p, req := enter(t, scene)
	out := play(t, t.Context(), p, req, nil)
	if out.failure == nil {
		t.Fatalf("settled: %v", out.settled)
	}
	if out.failure.Class != class {
		t.Errorf("class %s, want %s: %v", out.failure.Class, class, out.failure)
	}
	if text := out.failure.Error(); text == "" || strings.ContainsAny(text, "\r\n\x1b") {
		t.Errorf("the sentence for people is empty or more than a line: %q", text)
	}
	if m := out.failure.Partial; m != nil {
		if m.StopReason != message.Error {
			t.Errorf("what was received has the stop reason %s, want error", m.StopReason)
		}
		reread(t, m)
	}
}
