package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
)

// carrier delivers letters to one engine, as a node does: of a failure it looks whether
// the letter arrived.
type carrier struct {
	to func() *engine.Engine
	w  *world
}

func (c carrier) Deliver(l agency.Letter) agency.Delivery {
	r, err := c.to().Receive(l)
	if refused, ok := errors.AsType[*agency.Refusal](err); ok {
		return agency.Refused{Why: refused.Sentence}
	}
	if err != nil {
		if r, kept, err := engine.ReceiptOf(session.NewView(c.w.store), l.ID); err == nil && kept {
			return agency.Delivered{Receipt: r}
		}
		return agency.Undecided{Why: err.Error()}
	}
	return agency.Delivered{Receipt: r}
}

// writing is a tool that writes to the main strand of another session.
func writing(to func() agency.Peer, text string) doing {
	return func(_ context.Context, e *engine.Engine, c agency.Caller, _ string) (string, error) {
		d, err := e.SendPeer(c, to(), text)
		if err != nil {
			return "", err
		}
		return agency.Sentence(to(), d), nil
	}
}

// linked grants a link between the main strands of two engines.
func linked(t *testing.T, from, to *engine.Engine, wake bool) agency.Link {
	t.Helper()
	l := agency.Link{From: agency.Peer{Session: from.ID(), Strand: session.MainStrand}, To: agency.Peer{Session: to.ID(), Strand: session.MainStrand}, MayWake: wake}
	for side, e := range map[agency.Side]*engine.Engine{agency.Incoming: to, agency.Outgoing: from} {
		if err := e.SetLink(side, l); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// letters are the messages that reached a world from elsewhere, with who wrote them.
func letters(t *testing.T, w *world) (out []string) {
	t.Helper()
	rows, err := w.store.ScanEntries(storage.EntryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range rows {
		if u, ok := messageOf(e).(*message.User); ok && u.Origin != nil && u.Origin.Kind() == message.PeerOrigin {
			lines := strings.Split(message.TextOf(u.Content), "\n")
			out = append(out, u.Origin.Label()+": "+lines[2])
		}
	}
	return out
}

// Without a grant of the session that is written to nothing is delivered, whatever the
// one that writes believes; with one, the author is the strand that the host knows.
func TestALetterNeedsAGrantThatStands(t *testing.T) {
	for name, c := range map[string]struct {
		out, in, wake bool
		want          string
		arrives       bool
	}{
		"no link":              {false, false, false, "you may not write to", false},
		"only the writer's":    {true, false, true, "lets nobody write to it", false},
		"only the grant":       {false, true, true, "you may not write to", false},
		"both, and it rests":   {true, true, false, "rests, and you may not wake it", false},
		"both, and it may":     {true, true, true, "starts to work for it", true},
		"revoked, then tried ": {true, false, false, "lets nobody write to it", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				there := newWorld()
				there.seed = 1 << 30 // ids of its own
				b := boot(t, there, []turn{say("read it")})
				here := newWorld()
				self := func() agency.Peer { return agency.Peer{Session: b.ID(), Strand: session.MainStrand} }
				a := troupe(t, here, map[string][]turn{"a": {callTools("write"), say("done")}}, map[string]doing{"write": writing(self, "hello")},
					func(c *engine.Config) { c.Peers = carrier{func() *engine.Engine { return b.Engine }, there} })
				l := linked(t, a.Engine, b.Engine, c.wake)
				for side, keep := range map[agency.Side]bool{agency.Outgoing: c.out, agency.Incoming: c.in} {
					e := a.Engine
					if side == agency.Incoming {
						e = b.Engine
					}
					if keep {
						continue
					}
					if was, err := e.UnsetLink(side, l); !was || err != nil {
						t.Fatalf("unlinked: %v, %v", was, err)
					}
					if was, err := e.UnsetLink(side, l); was || err != nil {
						t.Fatalf("unlinked twice: %v, %v", was, err)
					}
				}
				finish(t, a, prompt(t, a, text("part:a")))
				synctest.Wait()
				if got := resultsOf(t, here, session.MainStrand); !strings.Contains(got, c.want) {
					t.Errorf("who wrote was told %s", got)
				}
				got := letters(t, there)
				if want := "peer " + l.From.String() + ": hello"; (len(got) == 1 && got[0] == want) != c.arrives || len(got) > 1 {
					t.Errorf("there arrived %q", got)
				}
				settled(t, here)
				settled(t, there)
			})
		})
	}
}

// Whatever dies at whichever commit, on either side, the letter arrives once.
func TestALetterArrivesOnceWhateverCrashes(t *testing.T) {
	for _, dies := range []string{"who writes", "who reads"} {
		t.Run(dies, func(t *testing.T) {
			for bang := 1; ; bang++ {
				if bang > 60 {
					t.Fatal("it never ends without a crash")
				}
				if !correspond(t, dies, bang) {
					if bang < 6 {
						t.Errorf("there are %d commits, which is too few", bang-1)
					}
					return
				}
			}
		})
	}
}

// correspond has a letter written and read, with a crash of one side at a commit. fired
// says whether it came to that.
func correspond(t *testing.T, dies string, bang int) (fired bool) {
	t.Helper()
	here, there := newWorld(), newWorld()
	there.seed = 1 << 30
	open := func(w *world, left int, change func(*engine.Config)) (*engine.Engine, *bomb, error) {
		b := &bomb{Store: w.store, t: t, w: w, dead: make(chan struct{}), left: left}
		cfg, _ := config(w, b, []turn{say("read it")})
		change(&cfg)
		e, err := engine.Open(cfg)
		if err != nil {
			return nil, b, err
		}
		t.Cleanup(e.Close)
		return e, b, e.Start(fakeConfiguration)
	}
	gone := func(b *bomb) bool {
		select {
		case <-b.dead:
			return true
		default:
			return false
		}
	}
	plain := func(*engine.Config) {}
	// Both sessions are there and linked before anything dies.
	first, _, err := open(here, 0, plain)
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := open(there, 0, plain)
	if err != nil {
		t.Fatal(err)
	}
	l := linked(t, first, second, true)
	first.Close()
	second.Close()
	for life := range 8 {
		left := map[string]int{}
		if life == 0 {
			left[dies] = bang
		}
		reader, rb, err := open(there, left["who reads"], plain)
		if err != nil && !gone(rb) {
			t.Fatal(err)
		}
		var writer *engine.Engine
		ready := make(chan struct{})
		writer, wb, err := open(here, left["who writes"], func(c *engine.Config) {
			c.Models = &cast{here, map[string][]turn{"a": {callTools("write"), say("done")}}}
			c.Tools = &agents{toolbox: c.Tools.(*toolbox), ran: map[string]int{}, e: func() *engine.Engine { <-ready; return writer },
				do: map[string]doing{"write": func(_ context.Context, e *engine.Engine, at agency.Caller, _ string) (string, error) {
					d, err := e.SendPeer(at, l.To, "hello")
					if err != nil {
						return "", err
					}
					return agency.Sentence(l.To, d), nil
				}}}
			c.Peers = carrier{func() *engine.Engine { return reader }, there}
		})
		close(ready)
		if err == nil && !here.knows("part:a") {
			_, err = writer.Prompt(session.MainStrand, text("part:a"))
		}
		if err == nil {
			err = awaitIdle(t.Context(), writer)
		}
		if reader != nil && !gone(rb) {
			if err := awaitIdle(t.Context(), reader); err != nil && !gone(rb) {
				t.Fatal(err)
			}
		}
		crashed := gone(rb) || gone(wb)
		fired = fired || crashed
		if writer != nil {
			writer.Close()
		}
		if reader != nil {
			reader.Close()
		}
		if crashed {
			here.store, there.store = here.store.Reopen(), there.store.Reopen()
			continue
		}
		if err != nil {
			t.Fatalf("crash of %s at commit %d, life %d: %v", dies, bang, life, err)
		}
		break
	}
	got := letters(t, there)
	told := resultsOf(t, here, session.MainStrand)
	if dies == "who reads" && strings.Contains(told, "is unknown") && len(got) == 0 {
		return fired // it was dead before the letter came, and who wrote knows that it does not know
	}
	if want := []string{"peer " + l.From.String() + ": hello"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("crash of %s at commit %d: there arrived %q, and who wrote was told %s", dies, bang, got, told)
	}
	return fired
}

// The receipt answers a letter that comes again, also after the grant is gone, and one
// id delivers one text.
func TestAReceiptAnswersALetterThatComesAgain(t *testing.T) {
	w := newWorld()
	b := boot(t, w, []turn{say("one"), say("two")})
	l := agency.Link{
		From: agency.Peer{Session: otherSession(t), Strand: "side"}, To: agency.Peer{Session: b.ID(), Strand: session.MainStrand}, MayWake: true,
	}
	if err := b.SetLink(agency.Incoming, l); err != nil {
		t.Fatal(err)
	}
	letter := agency.Letter{ID: "x", From: l.From, To: l.To, Text: "hello"}
	first, err := b.Receive(letter)
	if err != nil || !first.Woke {
		t.Fatalf("received %+v, %v", first, err)
	}
	if _, err := b.UnsetLink(agency.Incoming, l); err != nil {
		t.Fatal(err)
	}
	if again, err := b.Receive(letter); err != nil || again != first {
		t.Errorf("again: %+v, %v", again, err)
	}
	other := letter
	other.Text = "something else"
	if _, err := b.Receive(other); err == nil {
		t.Error("another text of the same id was taken")
	}
	other.ID = "y"
	if _, err := b.Receive(other); err == nil {
		t.Error("a letter was taken after the grant was gone")
	}
	if err := awaitIdle(t.Context(), b.Engine); err != nil {
		t.Fatal(err)
	}
	if got := letters(t, w); len(got) != 1 {
		t.Errorf("there arrived %q", got)
	}
	settled(t, w)
}

// A session that nobody runs keeps a letter for its next run, and starts none.
func TestALetterToASessionThatNobodyRunsWaits(t *testing.T) {
	w := newWorld()
	boot(t, w, nil).Close()
	cfg, _ := config(w, w.store, nil)
	still, err := engine.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := agency.Link{
		From: agency.Peer{Session: otherSession(t), Strand: "side"}, To: agency.Peer{Session: still.ID(), Strand: session.MainStrand}, MayWake: true,
	}
	if err := still.SetLink(agency.Incoming, l); err != nil {
		t.Fatal(err)
	}
	r, err := still.Receive(agency.Letter{ID: "x", From: l.From, To: l.To, Text: "hello"})
	if err != nil || r.Woke {
		t.Fatalf("received %+v, %v", r, err)
	}
	still.Close()
	synctest.Test(t, func(t *testing.T) {
		p := boot(t, w, []turn{say("read it")})
		time.Sleep(time.Hour)
		if w.requests() != 0 {
			t.Error("the opening started a run for it")
		}
		finish(t, p, prompt(t, p, text("go")))
		p.Close()
	})
	if got := letters(t, w); len(got) != 1 {
		t.Errorf("there arrived %q", got)
	}
	settled(t, w)
}

// A grant that is taken away between the look and the commit delivers nothing.
func TestAGrantThatIsRevokedMeanwhileDeliversNothing(t *testing.T) {
	w := newWorld()
	var e *engine.Engine
	var l agency.Link
	store := &meanwhile{Store: w.store}
	cfg, _ := config(w, store, nil)
	e, err := engine.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Start(fakeConfiguration); err != nil {
		t.Fatal(err)
	}
	l = agency.Link{From: agency.Peer{Session: otherSession(t), Strand: "side"}, To: agency.Peer{Session: e.ID(), Strand: session.MainStrand}, MayWake: true}
	if err := e.SetLink(agency.Incoming, l); err != nil {
		t.Fatal(err)
	}
	cell, _, err := w.store.Register("fact.custom", l.Key(agency.Incoming))
	if err != nil {
		t.Fatal(err)
	}
	store.do = func() { _, _ = w.store.Commit(l.Unset(agency.Incoming, cell.Seq)) }
	if _, err := e.Receive(agency.Letter{ID: "x", From: l.From, To: l.To, Text: "hello"}); err == nil {
		t.Error("it was delivered")
	}
	if got := letters(t, w); len(got) != 0 {
		t.Errorf("there arrived %q", got)
	}
}

// meanwhile does something once before a commit.
type meanwhile struct {
	storage.Store
	do func()
}

func (m *meanwhile) CommitAll(txs ...tx.Tx) []storage.Outcome {
	if do := m.do; do != nil {
		m.do = nil
		do()
	}
	return m.Store.CommitAll(txs...)
}

func otherSession(t *testing.T) id.SessionID {
	t.Helper()
	s, _ := id.NewGenerator(clock.Fixed(1_767_225_600_000), 77).Session()
	return s
}
