package client

import (
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/wire"
)

// Measure reads usage as what is known. A zero that nobody measured is a
// placeholder and reads as unknown; a number in an unmeasured usage was counted
// by somebody and reads as a lower bound. A price that is absent is unknown,
// never free.
func Measure(u wire.Usage) plane.Tally {
	count := func(n int64) plane.Count {
		if u.Measured && !u.LowerBound {
			return plane.Exactly(n)
		}
		return plane.AtLeast(n)
	}
	t := plane.Tally{
		Input: count(u.Input), Output: count(u.Output),
		CacheRead: count(u.CacheRead), CacheWrite: count(u.CacheWrite),
	}
	switch {
	case u.CostMicroUSD == nil:
	case u.CostLowerBound:
		t.CostMicroUSD = plane.AtLeast(*u.CostMicroUSD)
	default:
		t.CostMicroUSD = plane.Exactly(*u.CostMicroUSD)
	}
	return t
}
