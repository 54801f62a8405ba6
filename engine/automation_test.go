package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/machine/automation"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
)

var noHacks = automation.Rule{Name: "no-hacks", Triggers: []string{"hack"}, Body: "do it properly"}

// dueThen is an hour after a world begins.
const dueThen = 1_767_225_600_000 + 3_600_000

// jump sets the clock of a world.
func (w *world) jump(ms int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clockMs = ms
}

func cued(s automation.Settings) func(*engine.Config) {
	return func(c *engine.Config) { c.Automation = s }
}

// each is a schedule of the person that is due every minute.
func each(wake bool) automation.Schedule {
	return automation.Schedule{
		Name: "each", Target: session.MainStrand, When: automation.Every{Seconds: 60}, Body: "look again", Wake: wake, MaxFires: 1000, LifeMs: automation.MaxLifeMs,
	}
}

// toldOf counts the messages that were placed and begin with a text.
func toldOf(t *testing.T, w *world, start string) (n int) {
	t.Helper()
	for line := range strings.Lines(transcript(t, w)) {
		if strings.HasPrefix(line, "user ["+start) {
			n++
		}
	}
	return n
}

func TestARuleIsToldOnceBeforeTheRunThatCallsForItEnds(t *testing.T) {
	w := newWorld()
	other := automation.Rule{Name: "tests", Triggers: []string{"untested", "no test"}, Body: "write a test"}
	p := boot(t, w, []turn{say("an untested hack"), say("the hack has a test"), say("another hack")}, cued(automation.Settings{Rules: []automation.Rule{noHacks, other}}))
	finish(t, p, prompt(t, p, text("go")))
	finish(t, p, prompt(t, p, text("more")))
	wantTranscript(t, w, "user go", "assistant stop an untested hack",
		"user [A rule of the project, no-hacks, which something that you said calls for:]", "do it properly",
		"user [A rule of the project, tests, which something that you said calls for:]", "write a test",
		"assistant stop the hack has a test", "user more", "assistant stop another hack")
	settled(t, w)
}

func TestARuleOfARunThatWasAbortedWaitsForTheNextAndStartsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		entered := make(chan struct{}, 1)
		var naps atomic.Int64
		p := boot(t, w, []turn{func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
			if w.requests() > 1 {
				return say("properly")(ctx, sink)
			}
			entered <- struct{}{}
			<-ctx.Done()
			return say("a hack")(ctx, sink)
		}}, onTime(&naps), cued(automation.Settings{Rules: []automation.Rule{noHacks}}))
		op := prompt(t, p, text("go"))
		<-entered
		if _, _, err := p.Abort(session.MainStrand); err != nil {
			t.Fatal(err)
		}
		finish(t, p, op)
		time.Sleep(time.Hour)
		if n := w.requests(); n != 1 {
			t.Errorf("%d requests, though nobody asked for a run", n)
		}
		finish(t, p, prompt(t, p, text("go on")))
		if n := toldOf(t, w, "A rule"); n != 1 {
			t.Errorf("it was told %d times\n%s", n, transcript(t, w))
		}
		settled(t, w)
	})
}

func TestAScheduleThatWakesStartsARunEachTimeItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var naps atomic.Int64
		s := each(true)
		s.MaxFires = 3
		p := boot(t, w, []turn{say("one"), say("two"), say("three"), say("four")}, onTime(&naps), cued(automation.Settings{Schedules: []automation.Schedule{s}}))
		time.Sleep(3*time.Minute + time.Second)
		if n := toldOf(t, w, "The schedule"); n != 3 || w.requests() != 3 {
			t.Errorf("it was told %d times and asked %d times\n%s", n, w.requests(), transcript(t, w))
		}
		before := naps.Load()
		time.Sleep(30 * 24 * time.Hour)
		if toldOf(t, w, "The schedule") != 3 || naps.Load() != before {
			t.Errorf("it goes on when it is over, with %d timers", naps.Load()-before)
		}
		p.Close()
		settled(t, w)
	})
}

func TestAScheduleThatDoesNotWakeTellsTheLatestOnceWhenItsStrandWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var naps atomic.Int64
		p := boot(t, w, []turn{say("one"), say("two")}, onTime(&naps), cued(automation.Settings{Schedules: []automation.Schedule{each(false)}}))
		time.Sleep(10*time.Minute + 30*time.Second)
		if w.requests() != 0 {
			t.Error("it woke its strand")
		}
		finish(t, p, prompt(t, p, text("go")))
		if n := toldOf(t, w, "The schedule each, of the person that you work for, due at 2000-01-01T00:10:00Z:]"); n != 1 || toldOf(t, w, "The schedule") != 1 {
			t.Errorf("it was told %d times\n%s", toldOf(t, w, "The schedule"), transcript(t, w))
		}
		settled(t, w)
	})
}

// What came due while no process had the session open is told once, by the opening.
func TestWhatWasMissedWhileNobodyWasThereIsToldOnceAndLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var naps atomic.Int64
		armed := cued(automation.Settings{Schedules: []automation.Schedule{each(true)}})
		boot(t, w, nil, onTime(&naps), armed).Close()
		time.Sleep(5*time.Hour + 150*time.Second)
		p := boot(t, w, []turn{say("one")}, onTime(&naps), armed)
		synctest.Wait()
		p.Close()
		if n := toldOf(t, w, "The schedule"); n != 1 {
			t.Errorf("it was told %d times\n%s", n, transcript(t, w))
		}
	})
}

// A clock that goes back makes nothing due again; one that goes ahead, the latest alone.
func TestAClockThatJumpsRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var naps, ahead atomic.Int64
		s := each(true)
		turns := []turn{say("one"), say("two"), say("three"), say("four"), say("five")}
		p := boot(t, w, turns, onTime(&naps), cued(automation.Settings{Schedules: []automation.Schedule{s}}), func(c *engine.Config) {
			c.Clock = func() int64 { return time.Now().UnixMilli() + ahead.Load() }
		})
		time.Sleep(61 * time.Second) // told of minute 1
		ahead.Store(time.Hour.Milliseconds())
		time.Sleep(61 * time.Second) // told of minute 62
		if n := toldOf(t, w, "The schedule"); n != 2 {
			t.Fatalf("after the jump ahead it was told %d times", n)
		}
		ahead.Store(0)
		time.Sleep(50 * time.Minute)
		if n := toldOf(t, w, "The schedule"); n != 2 {
			t.Errorf("what was told was told again: %d times", n)
		}
		time.Sleep(12 * time.Minute)
		if n := toldOf(t, w, "The schedule"); n < 3 {
			t.Errorf("it did not go on: %d times", n)
		}
		p.Close()
	})
}

// While what a schedule told is not read, it tells nothing more: a run that waits for a
// person for a day finds one message and not a thousand.
func TestWhatIsNotReadIsNotToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var naps atomic.Int64
		p := boot(t, w, []turn{callTools("asked"), say("done")}, onTime(&naps), cued(automation.Settings{Schedules: []automation.Schedule{each(false)}}))
		op := prompt(t, p, text("go"))
		time.Sleep(24 * time.Hour)
		queue, err := p.Queue(session.MainStrand)
		if err != nil || len(queue) != 1 {
			t.Errorf("%d messages wait, %v", len(queue), err)
		}
		gates, err := p.Pauses(session.MainStrand)
		if err != nil || len(gates) != 1 {
			t.Fatalf("the pauses are %v, %v", gates, err)
		}
		if err := p.Answer(session.MainStrand, gates[0].Gate, machine.Approve{}, nil); err != nil {
			t.Fatal(err)
		}
		finish(t, p, op)
		if n := toldOf(t, w, "The schedule"); n < 1 || n > 2 {
			t.Errorf("it was told %d times\n%s", n, transcript(t, w))
		}
		settled(t, w)
	})
}

// Two processes that see the same occurrence tell it once: the mark is in the commit.
func TestTwoProcessesTellAnOccurrenceOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var naps atomic.Int64
		s := each(true)
		s.MaxFires = 5
		for range 2 {
			boot(t, w, []turn{say("one"), say("two"), say("three"), say("four"), say("five"), say("six")}, onTime(&naps), cued(automation.Settings{Schedules: []automation.Schedule{s}}))
		}
		time.Sleep(6 * time.Hour)
		seen := map[string]int{}
		for line := range strings.Lines(transcript(t, w)) {
			if strings.HasPrefix(line, "user [The schedule") {
				seen[line]++
			}
		}
		total := 0
		for line, n := range seen {
			if total += n; n > 1 {
				t.Errorf("told %d times: %s", n, line)
			}
		}
		if total < 1 || total > 5 {
			t.Errorf("told %d times\n%s", total, transcript(t, w))
		}
	})
}

// planning is a tool that makes a schedule.
func planning(s automation.Schedule) doing {
	return func(_ context.Context, e *engine.Engine, c agency.Caller, _ string) (string, error) {
		s.Owner = c.Strand
		if s.Target == "" {
			s.Target = c.Strand
		}
		return "scheduled", e.CreateSchedule(s)
	}
}

func TestAModelSchedulesWithinItsPolicyAndFamily(t *testing.T) {
	soon := automation.Schedule{Name: "soon", When: automation.Every{Seconds: 60}, Body: "again", MaxFires: 1, LifeMs: automation.MaxLifeMs}
	waking, far, none := soon, soon, soon
	waking.Wake, far.Target, none.When = true, session.MainStrand, automation.At{Ms: 1}
	for name, c := range map[string]struct {
		policy automation.Policy
		s      automation.Schedule
		child  bool // whether an agent asks
		want   string
	}{
		"for itself":                {automation.Steer, soon, false, "scheduled"},
		"to wake, which it may":     {automation.Wake, waking, false, "scheduled"},
		"to wake, which it may not": {automation.Steer, waking, false, "cannot start"},
		"an agent never wakes":      {automation.Wake, waking, true, "cannot start"},
		"for its parent":            {automation.Wake, far, true, "no agent of yours"},
		"in the past":               {automation.Steer, none, false, "never comes"},
		"not at all":                {automation.Off, soon, false, "allows agents no schedules"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				var naps atomic.Int64
				parts := map[string][]turn{"boss": {callTools("plan"), say("done"), say("once more")}}
				strand := session.MainStrand
				if c.child {
					parts["boss"] = []turn{callTools("spawn"), callTools("wait"), say("done")}
					parts["worker"] = []turn{callTools("plan"), say("done")}
				}
				p := troupe(t, w, parts, map[string]doing{"plan": planning(c.s), "spawn": spawning("worker"), "wait": waiting(t)}, onTime(&naps), cued(automation.Settings{Models: c.policy}))
				finish(t, p, prompt(t, p, text("part:boss")))
				if c.child {
					strand = children(p.Engine, session.MainStrand)[0].Strand
				}
				if got := resultsOf(t, w, strand); !strings.Contains(got, c.want) {
					t.Errorf("it was told %s", got)
				}
				time.Sleep(2 * time.Minute)
				wakes := c.s.Wake && c.want == "scheduled"
				if n := toldOf(t, w, "The schedule soon, of your own"); (n == 1) != wakes {
					t.Errorf("it was told %d times", n)
				}
				have, err := p.Schedules(strand)
				if err != nil || (len(have) == 1) != (c.want == "scheduled" && !wakes) {
					t.Errorf("the schedules are %v, %v", have, err)
				}
				if err := p.CancelSchedule(strand, "soon"); (err == nil) != (len(have) == 1) {
					t.Errorf("cancelled: %v", err)
				}
			})
		})
	}
}

// A schedule of the person that changed begins anew, one that left is gone, and one
// that did not change goes on where it was.
func TestTheSchedulesOfASessionAreThoseOfThePerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var naps atomic.Int64
		life := func(list ...automation.Schedule) []string {
			p := boot(t, w, []turn{say("one"), say("two"), say("three")}, onTime(&naps), cued(automation.Settings{Schedules: list}))
			time.Sleep(61 * time.Second)
			p.Close()
			all, err := engine.SchedulesOf(&p.Session().View)
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, s := range all {
				out = append(out, fmt.Sprintf("%s %s %d", s.Name, s.Body, s.Fired))
			}
			return out
		}
		same, other := each(true), each(false)
		other.Name = "other"
		same.MaxFires = 1
		changed := other
		changed.Body = "look elsewhere"
		for i, c := range []struct {
			list []automation.Schedule
			want string
		}{
			{[]automation.Schedule{same, other}, "[each look again 1 other look again 1]"},
			{[]automation.Schedule{same, changed}, "[each look again 1 other look elsewhere 0]"},
			{[]automation.Schedule{same}, "[each look again 1]"},
			{nil, "[]"},
		} {
			if got := fmt.Sprint(life(c.list...)); got != c.want {
				t.Errorf("life %d has %s, want %s", i, got, c.want)
			}
		}
	})
}

// The commit that finds another process in its way tells nothing, and stops the strand.
func TestAScheduleOfALostSessionTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var naps atomic.Int64
		gone := make(chan struct{})
		store := &denied{Store: w.store, from: gone}
		p := boot(t, w, nil, onTime(&naps), cued(automation.Settings{Schedules: []automation.Schedule{each(true)}}), func(c *engine.Config) { c.Session = session.New(store) })
		close(gone)
		time.Sleep(time.Hour)
		if toldOf(t, w, "The schedule") != 0 || p.Lost() == nil {
			t.Errorf("it was told %d times, lost: %v", toldOf(t, w, "The schedule"), p.Lost())
		}
	})
}

// denied is a store whose lease is another's from a moment on.
type denied struct {
	storage.Store
	from chan struct{}
}

func (d *denied) CommitAll(txs ...tx.Tx) []storage.Outcome { return storage.OneByOne(d.Commit, txs) }

func (d *denied) Commit(t tx.Tx) (tx.Result, error) {
	select {
	case <-d.from:
		return tx.Result{}, &tx.LeaseLost{}
	default:
		return d.Store.Commit(t)
	}
}
