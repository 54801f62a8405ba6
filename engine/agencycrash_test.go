package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
)

// family is a boss with a worker: the boss waits, sends, and waits again; the worker
// reports halfway.
func family(t *testing.T) (map[string][]turn, map[string]doing) {
	send := func(up bool, text string) doing {
		return func(_ context.Context, e *engine.Engine, c agency.Caller, _ string) (string, error) {
			to := session.MainStrand
			if !up {
				to = children(e, session.MainStrand)[0].Strand
			}
			_, err := e.Send(c, to, text)
			return "sent", err
		}
	}
	parts := map[string][]turn{
		"boss":   {callTools("spawn"), callTools("wait"), callTools("down"), callTools("wait"), say("done")},
		"worker": {callTools("up", "unsafe"), say("first"), callTools("up", "safe"), say("second")},
	}
	return parts, map[string]doing{
		"spawn": spawning("worker"), "wait": waiting(t), "down": send(false, "more please"), "up": send(true, "halfway"),
	}
}

// Whatever dies at whichever commit, there is one child, it has one brief, and every
// message arrived once.
func TestAgentsAreStartedAndMessagesDeliveredOnceWhateverCrashes(t *testing.T) {
	parts, do := family(t)
	for bang := 0; ; bang++ {
		w := newWorld()
		fired := false
		for life := 0; ; life++ {
			b := &bomb{Store: w.store, t: t, w: w, dead: make(chan struct{})}
			if life == 0 {
				b.left = bang
			}
			err := liveFamily(t, w, b, parts, do)
			select {
			case <-b.dead:
				fired = true
				w.store = w.store.Reopen()
				continue
			default:
			}
			if err != nil {
				t.Fatalf("crash at commit %d, life %d: %v\n%s", bang, life, err, transcript(t, w))
			}
			break
		}
		wantFamily(t, w, bang)
		if bang > 0 && !fired {
			if bang < 60 {
				t.Errorf("the scenario has %d commits, which is too few", bang)
			}
			return
		}
	}
}

func liveFamily(t *testing.T, w *world, store storage.Store, parts map[string][]turn, do map[string]doing) error {
	cfg, box := config(w, store, nil)
	var e *engine.Engine
	ready := make(chan struct{})
	cfg.Tools = &agents{toolbox: box, do: do, ran: map[string]int{}, e: func() *engine.Engine { <-ready; return e }}
	at := cfg.After
	cfg.After = func(d time.Duration) <-chan time.Time {
		if d >= 20*time.Second { // a wait, which ends because what it waits for does
			return nil
		}
		return at(d)
	}
	cfg.Models, cfg.Agency = &cast{w, parts}, agency.DefaultLimits()
	e, err := engine.Open(cfg)
	if err != nil {
		return err
	}
	close(ready)
	defer box.settled(t)
	defer e.Close()
	if err := e.Start(fakeConfiguration); err != nil {
		return err
	}
	if !w.knows("part:boss") {
		if _, err := e.Prompt(session.MainStrand, text("part:boss")); err != nil {
			return err
		}
	}
	return awaitIdle(t.Context(), e)
}

func wantFamily(t *testing.T, w *world, bang int) {
	t.Helper()
	settled(t, w)
	rows, err := w.store.ScanEntries(storage.EntryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range rows {
		if u, ok := messageOf(e).(*message.User); ok {
			for _, s := range []string{"part:boss", "part:worker", "more please", "halfway"} {
				if strings.Contains(message.TextOf(u.Content), s) {
					count[s]++
				}
			}
		}
	}
	if got := fmt.Sprint(count); got != "map[halfway:2 more please:1 part:boss:1 part:worker:1]" {
		t.Errorf("crash at commit %d: the messages are %s\n%s", bang, got, transcript(t, w))
	}
	v := session.NewView(w.store)
	strands, err := v.Strands()
	if err != nil || len(strands) != 2 {
		t.Errorf("crash at commit %d: the strands are %q, %v", bang, strands, err)
	}
	for _, s := range strands {
		last, _, err := v.LastResult(s)
		if err != nil || last.Value.Outcome != machine.OutcomeCompleted {
			t.Errorf("crash at commit %d: %s ended with %+v, %v", bang, s, last.Value, err)
		}
	}
}
