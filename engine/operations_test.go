package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
)

// bookish is a model that answers by how many responses the session holds, and writes summaries.
type bookish struct {
	w      *world
	turns  []turn
	window int64

	mu        sync.Mutex
	summaries []func(ctx context.Context, request string) (*message.Assistant, error) // the nth request of a summary; after them: a text
	asked     []string                                                                // what was sent to be summarised
}

func (b *bookish) Resolve(ref machine.ModelRef) (provider.Model, provider.Provider, error) {
	return provider.Model{Identity: provider.Identity(ref), API: "fake", ContextWindow: b.window}, b, nil
}

func (b *bookish) Stream(ctx context.Context, req provider.Request, sink func(provider.Delta)) (*message.Assistant, error) {
	if u, ok := req.Messages[0].(*message.User); ok && len(req.Messages) == 1 && strings.Contains(message.TextOf(u.Content), "<conversation>") {
		if req.System != "" || len(req.Tools) > 0 || req.MaxOutput <= 0 {
			return nil, &provider.Error{Class: provider.InvalidRequest, Message: "a summary is asked for with a system prompt, tools or without a limit"}
		}
		text := message.TextOf(u.Content)
		b.mu.Lock()
		n := len(b.asked)
		b.asked = append(b.asked, text)
		b.mu.Unlock()
		if n < len(b.summaries) {
			return b.summaries[n](ctx, text)
		}
		return say(fmt.Sprint("summary ", n))(ctx, sink)
	}
	n := 0
	rows, err := b.w.store.ScanEntries(storage.EntryQuery{})
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if a, ok := messageOf(r).(*message.Assistant); ok && a.StopReason != message.Error && a.StopReason != message.Deferred && a.StopReason != message.Aborted {
			n++
		}
	}
	return b.turns[min(n, len(b.turns)-1)](ctx, sink)
}

// large is a turn whose usage says that the context has so many tokens.
func large(total int64, then turn) turn {
	return func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
		m, err := then(ctx, sink)
		if m != nil {
			m.Usage = usage.Usage{Input: total - 2, Output: 2, TotalTokens: total, Evidence: usage.Reported(usage.API, usage.Complete)}
		}
		return m, err
	}
}

func compacting(b *bookish) func(*engine.Config) {
	return func(c *engine.Config) {
		if b != nil {
			c.Models = b
		}
		c.Settings.Compaction = machine.CompactionSettings{Enabled: true, ReserveTokens: 1000, KeepRecentTokens: 50}
	}
}

// bodies renders what stands beside messages in the tree.
func compactions(t *testing.T, w *world) (list []entry.Compaction) {
	t.Helper()
	rows, err := w.store.ScanEntries(storage.EntryQuery{Kind: entry.KindCompaction})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		list = append(list, r.Body.(entry.Compaction))
	}
	return list
}

func long(s string) string { return s + strings.Repeat(" word", 60) }

// shown is the context that the model would be shown next.
func shown(t *testing.T, w *world) []string {
	t.Helper()
	return strings.Split(strings.TrimSuffix(fingerprint(t, w), "\n"), "\n")
}

func wantContext(t *testing.T, w *world, want ...string) {
	t.Helper()
	if got := shown(t, w); !slices.Equal(got, want) {
		t.Errorf("the context is %q, want %q", got, want)
	}
}

func TestACompactionOnRequestReplacesWhatIsOld(t *testing.T) {
	w := newWorld()
	b := &bookish{w: w, turns: []turn{say(long("one")), say(long("two")), say("three")}}
	p := boot(t, w, nil, compacting(b))
	for _, s := range []string{"first", "second"} {
		finish(t, p, prompt(t, p, text(long(s))))
	}
	op, err := p.Compact(session.MainStrand, new("keep the names"))
	if err != nil {
		t.Fatal(err)
	}
	r := finish(t, p, op)
	if r.Kind != "compaction" || r.Outcome != machine.OutcomeCompleted {
		t.Fatalf("%+v", r)
	}
	made := compactions(t, w)
	if len(made) != 1 || !strings.HasSuffix(made[0].Summary, "summary 0") || made[0].FromHook || made[0].TokensBefore == 0 {
		t.Fatalf("%+v", made)
	}
	if len(b.asked) != 1 || !strings.Contains(b.asked[0], "The person adds: keep the names") || !strings.Contains(b.asked[0], "[user]\nfirst") {
		t.Errorf("asked %q", b.asked)
	}
	context := shown(t, w)
	if !strings.Contains(context[0], "The conversation up to here was compacted") || slices.ContainsFunc(context, func(s string) bool { return strings.HasPrefix(s, "user first") }) {
		t.Errorf("context %q", context)
	}
	if last := context[len(context)-1]; !strings.HasPrefix(last, "assistant stop two") {
		t.Errorf("what is recent was not kept: %q", context)
	}
	if _, err := p.Compact(session.MainStrand, nil); !errors.Is(err, machine.ErrNothingToCompact) {
		t.Errorf("a second one: %v", err)
	}
	finish(t, p, prompt(t, p, text("third")))
	settled(t, w)
}

func TestACompactionOfAnEmptyOrBusyStrandIsRefused(t *testing.T) {
	w := newWorld()
	entered := make(chan struct{}, 1)
	p := boot(t, w, []turn{blocked(entered)})
	if _, err := p.Compact(session.MainStrand, nil); !errors.Is(err, machine.ErrNothingToCompact) {
		t.Errorf("an empty strand: %v", err)
	}
	prompt(t, p, text("go"))
	<-entered
	if _, err := p.Compact(session.MainStrand, nil); !errors.Is(err, machine.ErrStrandBusy) && !errors.Is(err, machine.ErrNothingToCompact) {
		t.Errorf("a busy strand: %v", err)
	}
	if _, err := p.Navigate(session.MainStrand, machine.NavigationIntent{}); !errors.Is(err, machine.ErrStrandBusy) {
		t.Errorf("a busy strand moves: %v", err)
	}
	if _, err := p.Compact("nobody", nil); err == nil {
		t.Error("a strand that is not there is compacted")
	}
}

// TestASummaryThatFailsLeavesTheSessionUsable in each way in which it can fail, and is paid for.
func TestASummaryThatFailsLeavesTheSessionUsable(t *testing.T) {
	answer := func(m *message.Assistant, err error) func(context.Context, string) (*message.Assistant, error) {
		return func(context.Context, string) (*message.Assistant, error) { return m, err }
	}
	refused := answer(nil, &provider.Error{Class: provider.Auth, Message: "no"})
	busy := answer(nil, &provider.Error{Class: provider.Overloaded, Message: "busy"})
	for name, c := range map[string]struct {
		summaries []func(context.Context, string) (*message.Assistant, error)
		rows      int
		outcome   machine.Outcome
	}{
		"refused":             {[]func(context.Context, string) (*message.Assistant, error){refused}, 1, machine.OutcomeFailed},
		"busy for ever":       {[]func(context.Context, string) (*message.Assistant, error){busy, busy, busy, busy}, 3, machine.OutcomeFailed},
		"busy for a while":    {[]func(context.Context, string) (*message.Assistant, error){busy, busy}, 3, machine.OutcomeCompleted},
		"an empty answer":     {[]func(context.Context, string) (*message.Assistant, error){answer(&message.Assistant{StopReason: message.Stop}, nil)}, 2, machine.OutcomeCompleted},
		"a call":              {[]func(context.Context, string) (*message.Assistant, error){answer(&message.Assistant{StopReason: message.ToolUse, Content: calls("safe")}, nil)}, 2, machine.OutcomeCompleted},
		"it is too long":      {[]func(context.Context, string) (*message.Assistant, error){answer(nil, &provider.Error{Class: provider.Overflow, Message: "too long"})}, 2, machine.OutcomeCompleted},
		"the client panics":   {[]func(context.Context, string) (*message.Assistant, error){func(context.Context, string) (*message.Assistant, error) { panic("boom") }}, 1, machine.OutcomeFailed},
		"it returns nothing":  {[]func(context.Context, string) (*message.Assistant, error){answer(nil, nil)}, 1, machine.OutcomeFailed},
		"bytes that are none": {[]func(context.Context, string) (*message.Assistant, error){answer(&message.Assistant{StopReason: message.Stop, Content: []message.AssistantBlock{message.Text{Text: "\xff ok"}}}, nil)}, 1, machine.OutcomeCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			b := &bookish{w: w, turns: []turn{say(long("one")), say("two")}, summaries: c.summaries}
			p := boot(t, w, nil, compacting(b))
			finish(t, p, prompt(t, p, text(long("first"))))
			before := transcript(t, w)
			op, err := p.Compact(session.MainStrand, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r := finish(t, p, op); r.Outcome != c.outcome {
				t.Errorf("%+v %+v", r, r.Error)
			}
			if c.outcome == machine.OutcomeFailed && transcript(t, w) != before {
				t.Errorf("a failed summary changed the tree to\n%s", transcript(t, w))
			}
			rows, _ := w.store.ScanUsage(storage.UsageQuery{})
			if len(rows)-1 != c.rows {
				t.Errorf("%d requests are in the ledger, want %d", len(rows)-1, c.rows)
			}
			if r := finish(t, p, prompt(t, p, text("go on"))); r.Outcome != machine.OutcomeCompleted {
				t.Errorf("the run after it: %+v", r)
			}
			settled(t, w)
		})
	}
}

func TestARunCompactsBeforeARequestThatHasNoRoom(t *testing.T) {
	w := newWorld()
	b := &bookish{w: w, window: 10000, turns: []turn{large(9500, callTools("safe")), say("two")}}
	p := boot(t, w, nil, compacting(b))
	if r := finish(t, p, prompt(t, p, text(long("first")))); r.Outcome != machine.OutcomeCompleted {
		t.Errorf("%+v", r)
	}
	if made := compactions(t, w); len(made) != 1 || made[0].TokensBefore < 9500 {
		t.Errorf("%+v", made)
	}
	context := shown(t, w)
	if len(context) < 4 || !strings.HasPrefix(context[len(context)-1], "assistant stop two") || !strings.Contains(strings.Join(context, "\n"), "did safe-0") {
		t.Errorf("the newest call is not in the context: %q", context)
	}
	settled(t, w)
}

func TestAnOverflowCompactsOnceAndAsksAgain(t *testing.T) {
	w := newWorld()
	tooLong := func(context.Context, func(provider.Delta)) (*message.Assistant, error) {
		return nil, &provider.Error{Class: provider.Overflow, Message: "too long"}
	}
	once := func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
		if w.flake("overflow", 1) {
			return tooLong(ctx, sink)
		}
		return say("fits")(ctx, sink)
	}
	b := &bookish{w: w, turns: []turn{say(long("one")), once, tooLong}}
	p := boot(t, w, nil, compacting(b))
	finish(t, p, prompt(t, p, text(long("first"))))
	if r := finish(t, p, prompt(t, p, text("second"))); r.Outcome != machine.OutcomeCompleted {
		t.Errorf("%+v %+v", r, r.Error)
	}
	if made := compactions(t, w); len(made) != 1 {
		t.Errorf("%d compactions", len(made))
	}
	if r := finish(t, p, prompt(t, p, text(long("third")))); r.Error == nil || r.Error.Code != machine.CodeContextOverflow {
		t.Errorf("an overflow that no compaction cures: %+v", r)
	}
	if made := compactions(t, w); len(made) != 2 {
		t.Errorf("%d compactions", len(made))
	}
	settled(t, w)
}

// TestCompactionsComeToAnEnd with a model whose context is full at every step, whatever is cut.
func TestCompactionsComeToAnEnd(t *testing.T) {
	w := newWorld()
	var turns []turn
	for range 30 {
		turns = append(turns, large(9900, callTools("safe")))
	}
	b := &bookish{w: w, window: 10000, turns: append(turns, say("done"))}
	p := boot(t, w, nil, compacting(b))
	if r := finish(t, p, prompt(t, p, text(long("first")))); r.Outcome != machine.OutcomeCompleted {
		t.Errorf("%+v %+v", r, r.Error)
	}
	if n := len(compactions(t, w)); n < 1 || n > 5 {
		t.Errorf("%d compactions", n)
	}
	settled(t, w)
}

func TestNotesStandInForASummary(t *testing.T) {
	w := newWorld()
	b := &bookish{w: w, turns: []turn{say(long("one"))}}
	p := boot(t, w, nil, compacting(b), func(c *engine.Config) { c.Summaries = engine.ByNotes })
	finish(t, p, prompt(t, p, text(long("first"))))
	_, err := w.store.Commit(tx.Tx{Writes: []tx.Write{
		tx.Set(register.FactCustom, engine.NotesPrefix(session.MainStrand)+"plan", jsonv.Str("look at a.go first")),
		tx.Set(register.FactCustom, engine.NotesPrefix("another")+"plan", jsonv.Str("nothing to see")),
	}})
	if err != nil {
		t.Fatal(err)
	}
	op, err := p.Compact(session.MainStrand, nil)
	if err != nil {
		t.Fatal(err)
	}
	finish(t, p, op)
	made := compactions(t, w)
	if len(made) != 1 || !made[0].FromHook || !strings.Contains(made[0].Summary, "look at a.go first") || strings.Contains(made[0].Summary, "nothing to see") || len(b.asked) > 0 {
		t.Errorf("%+v, asked %q", made, b.asked)
	}
	settled(t, w)
}

// TestALongSummaryTakesSeveralRequestsAndIsPaidOnce: a process that dies between two of them goes on with the second.
func TestALongSummaryTakesSeveralRequestsAndIsPaidOnce(t *testing.T) {
	w := newWorld()
	entered := make(chan struct{}, 1)
	first := &bookish{w: w, window: 4000, turns: []turn{say("one")}, summaries: []func(context.Context, string) (*message.Assistant, error){
		func(ctx context.Context, _ string) (*message.Assistant, error) {
			return say("the first half")(ctx, nil)
		},
		func(ctx context.Context, _ string) (*message.Assistant, error) { return blocked(entered)(ctx, nil) },
	}}
	p := boot(t, w, nil, compacting(first))
	for n := range 6 {
		finish(t, p, prompt(t, p, text(fmt.Sprint("prompt ", n, strings.Repeat(" word", 1000)))))
	}
	op, err := p.Compact(session.MainStrand, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	p.Close()
	second := &bookish{w: w, window: 4000, turns: []turn{say("one")}}
	p = boot(t, w, nil, compacting(second))
	if r := finish(t, p, op); r.Outcome != machine.OutcomeCompleted {
		t.Fatalf("%+v %+v", r, r.Error)
	}
	if len(second.asked) == 0 || !strings.Contains(second.asked[0], "the first half") || strings.Contains(second.asked[0], "prompt 0") {
		t.Errorf("the second life asked again for what was summarised: %.300q", second.asked)
	}
	for _, request := range append(first.asked, second.asked...) {
		if len(request) > 3*4000+3000 {
			t.Errorf("a request of %d bytes for a window of 4000 tokens", len(request))
		}
	}
	settled(t, w)
}

func TestAnAbortEndsACompaction(t *testing.T) {
	w := newWorld()
	entered := make(chan struct{}, 1)
	b := &bookish{w: w, turns: []turn{say(long("one")), say("two")}, summaries: []func(context.Context, string) (*message.Assistant, error){
		func(ctx context.Context, _ string) (*message.Assistant, error) { return blocked(entered)(ctx, nil) },
	}}
	p := boot(t, w, nil, compacting(b))
	finish(t, p, prompt(t, p, text(long("first"))))
	op, err := p.Compact(session.MainStrand, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	late := send(t, p.Engine, text("late"))
	if !late.Queued || !late.Op.IsZero() {
		t.Errorf("%+v", late)
	}
	if _, _, err := p.Abort(session.MainStrand); err != nil {
		t.Fatal(err)
	}
	if r := finish(t, p, op); r.Outcome != machine.OutcomeAborted {
		t.Errorf("%+v", r)
	}
	if err := awaitIdle(t.Context(), p.Engine); err != nil {
		t.Fatal(err)
	}
	if lines := shown(t, w); lines[len(lines)-1] != "assistant stop two" {
		t.Errorf("what was sent meanwhile was not taken: %q", lines)
	}
	settled(t, w)
}

// at is the entry that holds a message.
func at(t *testing.T, w *world, s string) id.EntryID {
	t.Helper()
	rows, err := w.store.ScanEntries(storage.EntryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if m := messageOf(r); m != nil && line(m) == s {
			return r.ID
		}
	}
	t.Fatalf("no entry says %q", s)
	return id.EntryID{}
}

func TestANavigationMovesTheLeafAndMaySummariseWhatItLeaves(t *testing.T) {
	w := newWorld()
	b := &bookish{w: w, turns: []turn{say("one"), say("two"), say("three"), say("four")}}
	p := boot(t, w, nil, compacting(b))
	for _, s := range []string{"first", "second"} {
		finish(t, p, prompt(t, p, text(s)))
	}
	one, two := at(t, w, "assistant stop one"), at(t, w, "assistant stop two")
	move := func(to machine.NavigationIntent) machine.LastResult {
		t.Helper()
		op, err := p.Navigate(session.MainStrand, to)
		if err != nil {
			t.Fatal(err)
		}
		return finish(t, p, op)
	}
	r := move(machine.NavigationIntent{TargetID: one, Label: new("here")})
	if r.Outcome != machine.OutcomeCompleted || r.LeafID != one || r.OldLeafID != two {
		t.Errorf("%+v", r)
	}
	if c, ok, _ := w.store.Register(register.FactLabel, one.String()); !ok || c.Value.String() != `"here"` {
		t.Errorf("label %v", c)
	}
	finish(t, p, prompt(t, p, text("third")))
	wantContext(t, w, "user first", "assistant stop one", "user third", "assistant stop three")

	r = move(machine.NavigationIntent{TargetID: two, Summarize: true})
	if r.Outcome != machine.OutcomeCompleted || r.SummaryEntryID.IsZero() || r.SummaryEntryID != r.LeafID {
		t.Errorf("%+v", r)
	}
	if len(b.asked) != 1 || !strings.Contains(b.asked[0], "[user]\nthird") || strings.Contains(b.asked[0], "[user]\nfirst") {
		t.Errorf("more or less than the branch that is left was summarised: %q", b.asked)
	}
	wantContext(t, w, "user first", "assistant stop one", "user second", "assistant stop two",
		"user A branch of this conversation was left. This is a summary of it:", "", "summary 0")
	if r := move(machine.NavigationIntent{}); r.Outcome != machine.OutcomeCompleted || !r.LeafID.IsZero() {
		t.Errorf("%+v", r)
	}
	finish(t, p, prompt(t, p, text("afresh")))
	wantContext(t, w, "user afresh", "assistant stop four")
	for name, to := range map[string]machine.NavigationIntent{
		"where it is": {TargetID: at(t, w, "assistant stop four")}, "to the root with a label": {Label: new("x")}, "to the root with a summary": {Summarize: true},
	} {
		if _, err := p.Navigate(session.MainStrand, to); !errors.Is(err, machine.ErrInvalidNavigation) {
			t.Errorf("%s: %v", name, err)
		}
	}
	unknown, err := id.ParseEntryID("019b76da-a800-7cc1-beeb-8da1658eec67")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Navigate(session.MainStrand, machine.NavigationIntent{TargetID: unknown, Summarize: true}); !errors.Is(err, machine.ErrUnknownTarget) {
		t.Errorf("nowhere: %v", err)
	}
	settled(t, w)
}
