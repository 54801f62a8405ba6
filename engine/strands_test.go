package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
)

func create(t *testing.T, p *process, name string, at id.EntryID) {
	t.Helper()
	if err := p.CreateStrand(engine.NewStrand{Name: name, At: at, Configuration: fakeConfiguration}); err != nil {
		t.Fatal(err)
	}
}

// on starts a run of a strand.
func on(t *testing.T, p *process, strand, s string) id.OpID {
	t.Helper()
	r, err := p.Prompt(strand, text(s))
	if err != nil || r.Queued {
		t.Fatalf("prompt of %s: %+v, %v", strand, r, err)
	}
	return r.Op
}

func ends(t *testing.T, p *process, strand string, op id.OpID, want machine.Outcome) machine.LastResult {
	t.Helper()
	r, err := p.Await(t.Context(), strand, op)
	if err != nil || r.Outcome != want {
		t.Fatalf("%s ended with %+v, %v; want %s", strand, r, err, want)
	}
	return r
}

// branch renders what a strand is shown, oldest first.
func branch(t *testing.T, w *world, strand string) string {
	t.Helper()
	v := session.NewView(w.store)
	leaf, _, err := v.StrandLeaf(strand)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := v.Branch(leaf.Value)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range rows {
		lines = append([]string{line(messageOf(e))}, lines...)
	}
	return strings.Join(lines, " | ")
}

func TestStrandsWorkSideBySide(t *testing.T) {
	w := newWorld()
	met := make(chan struct{})
	arrived := make(chan struct{}, 2)
	p := boot(t, w, []turn{func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
		arrived <- struct{}{} // no request is answered before both were sent
		<-met
		return say("met")(ctx, sink)
	}})
	create(t, p, "other", id.EntryID{})
	one, two := on(t, p, session.MainStrand, "one"), on(t, p, "other", "two")
	<-arrived
	<-arrived
	close(met)
	ends(t, p, session.MainStrand, one, machine.OutcomeCompleted)
	ends(t, p, "other", two, machine.OutcomeCompleted)
	if got := branch(t, w, session.MainStrand); got != "user one | assistant stop met" {
		t.Errorf("main holds %s", got)
	}
	if got := branch(t, w, "other"); got != "user two | assistant stop met" {
		t.Errorf("other holds %s", got)
	}
	settled(t, w)
}

func TestAForkedStrandSharesTheHistoryUpToItsEntry(t *testing.T) {
	w := newWorld()
	p := boot(t, w, []turn{say("first"), say("second"), say("third")})
	at := finish(t, p, prompt(t, p, text("a"))).FinalAssistant
	finish(t, p, prompt(t, p, text("b")))
	create(t, p, "fork", at)
	ends(t, p, "fork", on(t, p, "fork", "c"), machine.OutcomeCompleted)
	if got := branch(t, w, "fork"); got != "user a | assistant stop first | user c | assistant stop second" {
		t.Errorf("the fork holds %s", got)
	}
	if got := branch(t, w, session.MainStrand); got != "user a | assistant stop first | user b | assistant stop second" {
		t.Errorf("main holds %s", got)
	}
	op, err := p.Navigate("fork", machine.NavigationIntent{TargetID: at})
	if err != nil {
		t.Fatal(err)
	}
	ends(t, p, "fork", op, machine.OutcomeCompleted)
	if got := branch(t, w, "fork"); got != "user a | assistant stop first" {
		t.Errorf("after going back the fork holds %s", got)
	}
	settled(t, w)
}

func TestAStrandThatCannotBeMadeChangesNothing(t *testing.T) {
	w := newWorld()
	p := boot(t, w, nil)
	create(t, p, "taken", id.EntryID{})
	missing, _ := id.NewGenerator(clock.Real(w.now), 1).Entry()
	before, _ := w.store.Registers(register.StrandConfig, "")
	for name, c := range map[string]struct {
		strand engine.NewStrand
		want   error // nil: any
	}{
		"taken":         {engine.NewStrand{Name: "taken"}, engine.ErrStrandExists},
		"main":          {engine.NewStrand{Name: session.MainStrand}, engine.ErrStrandExists},
		"no name":       {engine.NewStrand{}, nil},
		"space around":  {engine.NewStrand{Name: " x"}, nil},
		"a long name":   {engine.NewStrand{Name: strings.Repeat("x", 513)}, nil},
		"unknown entry": {engine.NewStrand{Name: "x", At: missing}, machine.ErrUnknownTarget},
	} {
		c.strand.Configuration = fakeConfiguration
		if err := p.CreateStrand(c.strand); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after, _ := w.store.Registers(register.StrandConfig, ""); len(after) != len(before) {
		t.Errorf("%d strands after %d", len(after), len(before))
	}
}

func TestAllInterruptedStrandsComeBackInOneOpening(t *testing.T) {
	const n = 12
	w := newWorld()
	entered := make(chan struct{}, n)
	p := boot(t, w, []turn{blocked(entered)})
	ops := map[string]id.OpID{}
	for i := range n {
		name := fmt.Sprintf("strand %d", i)
		create(t, p, name, id.EntryID{})
		ops[name] = on(t, p, name, "go "+name)
	}
	for range n {
		<-entered
	}
	p = reopen(t, w, p, []turn{say("here again"), say("here again")})
	for name, op := range ops {
		ends(t, p, name, op, machine.OutcomeCompleted)
	}
	settled(t, w)
}

func TestAStrandThatCannotBeReadTakesNoOtherDown(t *testing.T) {
	w := newWorld()
	entered := make(chan struct{}, 2)
	p := boot(t, w, []turn{blocked(entered)})
	create(t, p, "broken", id.EntryID{})
	create(t, p, "sound", id.EntryID{})
	on(t, p, "broken", "a")
	op := on(t, p, "sound", "b")
	<-entered
	<-entered
	p.Close()
	if _, err := w.store.Commit(tx.Tx{Writes: []tx.Write{tx.Set(register.StrandState, "broken", jsonv.Str("nonsense"))}}); err != nil {
		t.Fatal(err)
	}
	w.store = w.store.Reopen()
	var stopped []string
	p = boot(t, w, []turn{say("done"), say("done")}, func(c *engine.Config) {
		c.Observe = func(f engine.Fact) {
			if s, ok := f.(engine.StrandStopped); ok {
				stopped = append(stopped, s.Strand)
			}
		}
	})
	ends(t, p, "sound", op, machine.OutcomeCompleted)
	if _, err := p.Prompt("broken", text("again")); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("the broken strand takes input: %v", err)
	}
	finish(t, p, prompt(t, p, text("main works")))
	p.Close()
	if len(stopped) != 1 || stopped[0] != "broken" {
		t.Errorf("stopped: %v", stopped)
	}
}
