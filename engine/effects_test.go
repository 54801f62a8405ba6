package engine

import (
	"context"
	"testing"

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
	want := func(when string, n int, heard bool) {
		t.Helper()
		if gotN, gotHeard := d.lost("a", "b"); gotN != n || gotHeard != heard {
			t.Errorf("%s: the first lost effect is %d, heard %v; want %d, %v", when, gotN, gotHeard, n, heard)
		}
	}
	want("nothing flies", 0, false)
	d.takeOff(op, "a")
	want("one of two flies", 1, false)
	d.takeOff(op, "b")
	want("both fly", -1, false)
	d.land("a", &report{op: op})
	want("one landed", -1, true)
	d.consume(d.oldest(op))
	want("its report was heard", 0, false)
	e.cancel()
	d.land("b", &report{op: op})
	want("the other landed after the engine closed", 0, false)
}
