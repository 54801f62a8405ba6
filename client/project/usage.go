package project

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

// Counts is the usage as it was sent, unjudged: zeros that nobody measured are in it.
type Counts struct{ Input, Output, CacheRead, CacheWrite int64 }

// RawCounts maps without judging. Who shows a number asks [Measure].
func RawCounts(u wire.Usage) Counts {
	return Counts{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}
}

// OutputOf is what a turn put out, as far as it is known.
func OutputOf(u wire.Usage) plane.Count { return Measure(u).Output }

// CostOf is the cost of a task in millionths of a US dollar. One that is absent is not
// known, and never free.
func CostOf(s *wire.TaskStats) plane.Count {
	return taskCount(s, func(s *wire.TaskStats) *int64 { return s.CostMicroUSD })
}

// TokensOf is what a task consumed.
func TokensOf(s *wire.TaskStats) plane.Count {
	return taskCount(s, func(s *wire.TaskStats) *int64 { return s.Tokens })
}

func taskCount(s *wire.TaskStats, of func(*wire.TaskStats) *int64) plane.Count {
	switch {
	case s == nil || of(s) == nil:
		return plane.Count{}
	case s.LowerBound:
		return plane.AtLeast(*of(s))
	}
	return plane.Exactly(*of(s))
}
