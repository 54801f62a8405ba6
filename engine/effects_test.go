package engine

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/id"
)

// TestAnAbortCancelsWhatFliesAndWhatStillTakesOff: the intent of an effect may be
// durable, and its abort too, before the effect takes off.
func TestAnAbortCancelsWhatFliesAndWhatStillTakesOff(t *testing.T) {
	e := &Engine{}
	e.ctx, e.cancel = context.WithCancel(t.Context())
	defer e.cancel()
	op, ids := id.NewGenerator(clock.Fixed(1), 1).Op()
	other, _ := ids.Op()
	d := newDriver(e, "main")
	flying, bystander := d.takeOff(op, "a"), d.takeOff(other, "b")
	d.abort(op)
	late := d.takeOff(op, "c")
	if flying.Err() == nil || late.Err() == nil {
		t.Errorf("what flew: %v; what took off afterwards: %v", flying.Err(), late.Err())
	}
	if bystander.Err() != nil {
		t.Error("an effect of another operation was cancelled")
	}
	if !d.Rung() {
		t.Error("the driver was not woken")
	}
	d.ground()
	if late := d.takeOff(other, "d"); bystander.Err() == nil || late.Err() == nil {
		t.Error("an effect flies from a driver that was grounded")
	}
}

// TestAnEffectFliesUntilItsReportIsHeard: between the end of an effect and the
// pass that hears of it, nobody may take it for lost.
func TestAnEffectFliesUntilItsReportIsHeard(t *testing.T) {
	e := &Engine{}
	e.ctx, e.cancel = context.WithCancel(t.Context())
	defer e.cancel()
	op, _ := id.NewGenerator(clock.Fixed(1), 1).Op()
	d := newDriver(e, "main")
	want := func(when string, n int) {
		t.Helper()
		if got := d.lost("a", "b"); got != n {
			t.Errorf("%s: the first lost effect is %d, want %d", when, got, n)
		}
	}
	want("nothing flies", 0)
	d.takeOff(op, "a")
	want("one of two flies", 1)
	d.takeOff(op, "b")
	want("both fly", -1)
	d.land("a", &report{op: op})
	want("one landed", -1)
	d.consume(d.oldest(op))
	want("its report was heard", 0)
	e.cancel()
	d.land("b", &report{op: op})
	want("the other landed after the engine closed", 0)
}

// TestNoWaitIsTooLongForATimer: the time to wait for is a number that a store or a
// provider made.
func TestNoWaitIsTooLongForATimer(t *testing.T) {
	var asked time.Duration
	e := &Engine{cfg: Config{Clock: func() int64 { return 1000 }, After: func(d time.Duration) <-chan time.Time {
		asked = d
		return make(chan time.Time)
	}}}
	d := newDriver(e, "main")
	for until, want := range map[int64]time.Duration{
		1001: time.Millisecond, 2500: 1500 * time.Millisecond, math.MaxInt64: longestNap,
		1000: time.Millisecond, 1: time.Millisecond, math.MinInt64 + 1000: time.Millisecond, // past, and looked at once more
	} {
		if d.alarm(until); asked != want {
			t.Errorf("until %d: it sleeps %v, want %v", until, asked, want)
		}
	}
	if d.alarm(0) != nil {
		t.Error("it set an alarm for nothing")
	}
}
