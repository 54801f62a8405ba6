package clock_test

import (
	"slices"
	"testing"

	"github.com/loom-run/loom/core/clock"
)

func readings(c clock.Clock, n int) (all []int64) {
	for range n {
		var ms int64
		ms, c = c.Now()
		all = append(all, ms)
	}
	return all
}

func TestClocks(t *testing.T) {
	ticks := int64(40)
	for name, c := range map[string]struct {
		clock clock.Clock
		want  []int64
	}{
		"the zero clock":   {clock.Clock{}, []int64{0, 0, 0}},
		"a fixed clock":    {clock.Fixed(7), []int64{7, 7, 7}},
		"a stepping clock": {clock.Stepping(7, 3), []int64{7, 10, 13}},
		"one that stands":  {clock.Stepping(7, 0), []int64{7, 7, 7}},
		"one that returns": {clock.Stepping(7, -5), []int64{7, 2, -3}},
		"a real clock":     {clock.Real(func() int64 { ticks++; return ticks }), []int64{41, 42, 43}},
	} {
		if got := readings(c.clock, 3); !slices.Equal(got, c.want) {
			t.Errorf("%s reads %v, want %v", name, got, c.want)
		}
	}
}

func TestAScriptedClockIsAValue(t *testing.T) {
	c := clock.Stepping(7, 3)
	if a, b := readings(c, 4), readings(c, 4); !slices.Equal(a, b) {
		t.Errorf("the same clock read %v, then %v", a, b)
	}
}
