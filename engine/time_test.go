package engine_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
)

// onTime makes an engine live by the clock of a synctest bubble. naps counts the
// timers that it sets.
func onTime(naps *atomic.Int64) func(*engine.Config) {
	return func(c *engine.Config) {
		c.Clock = func() int64 { return time.Now().UnixMilli() }
		c.After = func(d time.Duration) <-chan time.Time {
			naps.Add(1)
			return time.After(d)
		}
	}
}

func TestARetryWaitsAsLongAsTheProviderAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var naps atomic.Int64
		p := boot(t, w, []turn{func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
			if w.flake("busy", 1) {
				return nil, &provider.Error{Class: provider.RateLimit, Message: "busy", RetryAfterMs: new(int64(90_000))}
			}
			return say("ok")(ctx, sink)
		}}, onTime(&naps))
		begun := time.Now()
		finish(t, p, prompt(t, p, text("go")))
		if waited := time.Since(begun); waited < 90*time.Second || waited > 91*time.Second || naps.Load() > 2 {
			t.Errorf("it waited %v with %d timers", waited, naps.Load())
		}
		settled(t, w)
	})
}

func TestAnEndlessWaitNeitherSpinsNorResistsAnAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var naps atomic.Int64
		p := boot(t, w, []turn{func(context.Context, func(provider.Delta)) (*message.Assistant, error) {
			return nil, &provider.Error{Class: provider.RateLimit, Message: "busy", RetryAfterMs: new(int64(math.MaxInt64))}
		}}, onTime(&naps))
		op := prompt(t, p, text("go"))
		time.Sleep(3*time.Hour + time.Minute)
		if naps.Load() > 5 || w.requests() != 1 {
			t.Errorf("%d timers and %d requests in three hours", naps.Load(), w.requests())
		}
		if _, ok, err := p.Abort(session.MainStrand); !ok || err != nil {
			t.Errorf("abort: %v, %v", ok, err)
		}
		if got := finish(t, p, op); got.Outcome != machine.OutcomeAborted {
			t.Errorf("result %+v", got)
		}
		settled(t, w)
	})
}

// leased is a store with a lease that a test can take away.
type leased struct {
	storage.Store
	mu       sync.Mutex
	renewals int
	releases int
	lost     error
}

func (l *leased) LeaseInterval() time.Duration { return time.Minute }

func (l *leased) RenewLease() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewals++
	return l.lost
}

func (l *leased) Release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releases++
	return nil
}

func (l *leased) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewals
}

func TestALeaseIsRenewedWhileARunIsOpenAndOnlyThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		store := &leased{Store: w.store, lost: &tx.Faulted{Reason: "busy"}} // no matter: the next one may work
		var naps atomic.Int64
		entered := make(chan struct{}, 1)
		p := boot(t, w, []turn{blocked(entered)}, onTime(&naps), func(c *engine.Config) { c.Session = session.New(store) })
		time.Sleep(time.Hour)
		if n := store.count(); n != 0 {
			t.Errorf("%d renewals of an idle session", n)
		}
		op := prompt(t, p, text("go"))
		<-entered
		time.Sleep(time.Hour)
		if n := store.count(); n < 59 || n > 61 {
			t.Errorf("%d renewals in an hour of work", n)
		}
		if _, _, err := p.Abort(session.MainStrand); err != nil {
			t.Error(err)
		}
		finish(t, p, op)
		before := store.count()
		awake := naps.Load()
		time.Sleep(time.Hour)
		if n := store.count() - before; n > 1 {
			t.Errorf("%d renewals after the run", n)
		}
		store.mu.Lock()
		defer store.mu.Unlock()
		if store.releases != 2 || naps.Load() > awake+1 { // once at the start, once after the run
			t.Errorf("%d releases, %d timers of an idle hour", store.releases, naps.Load()-awake)
		}
	})
}

func TestALostLeaseEndsWhatRunsAndStopsTheStrand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		lost := &tx.LeaseLost{HeldBy: new("another process")}
		store := &leased{Store: w.store, lost: lost}
		var naps atomic.Int64
		started := make(chan string, 16)
		p := boot(t, w, []turn{callTools("slow", "unsafe")}, listening(started), onTime(&naps), func(c *engine.Config) { c.Session = session.New(store) })
		op := prompt(t, p, text("go"))
		<-started
		before := transcript(t, w)
		if _, err := p.Await(t.Context(), session.MainStrand, op); !errors.Is(err, lost) {
			t.Errorf("await: %v", err)
		}
		if _, err := p.Prompt(session.MainStrand, text("more")); !errors.Is(err, lost) {
			t.Errorf("prompt: %v", err)
		}
		p.Close()
		p.tools.settled(t)
		if transcript(t, w) != before || w.ran["unsafe-1"] != 0 {
			t.Error("it went on without its lease")
		}
	})
}
