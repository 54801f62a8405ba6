package plane

// Count is a number that knows how well it is known. The zero Count is unknown.
// At least zero says nothing, so it is the same as unknown.
type Count struct {
	N     int64
	Known bool // false: nobody counted, and N is 0
	Exact bool // false: at least N
}

// Exactly is a counted number.
func Exactly(n int64) Count { return Count{N: n, Known: true, Exact: true} }

// AtLeast is a lower bound.
func AtLeast(n int64) Count { return Count{N: n, Known: n != 0} }

// Add sums two counts. Something that nobody counted makes the sum a lower
// bound.
func (c Count) Add(o Count) Count {
	if c.Exact && o.Exact {
		return Exactly(c.N + o.N)
	}
	return AtLeast(c.N + o.N)
}

// Floor is the count as a lower bound.
func (c Count) Floor() Count { return AtLeast(c.N) }

// Tally is what was consumed. CostMicroUSD is in millionths of a US dollar.
type Tally struct {
	Input, Output         Count
	CacheRead, CacheWrite Count
	CostMicroUSD          Count
}

// NoTally is the tally of nothing consumed, the identity of [Tally.Add].
func NoTally() Tally {
	zero := Exactly(0)
	return Tally{zero, zero, zero, zero, zero}
}

// Add sums two tallies.
func (t Tally) Add(o Tally) Tally {
	return Tally{
		Input: t.Input.Add(o.Input), Output: t.Output.Add(o.Output),
		CacheRead: t.CacheRead.Add(o.CacheRead), CacheWrite: t.CacheWrite.Add(o.CacheWrite),
		CostMicroUSD: t.CostMicroUSD.Add(o.CostMicroUSD),
	}
}

// Floor is the tally as lower bounds.
func (t Tally) Floor() Tally {
	return Tally{t.Input.Floor(), t.Output.Floor(), t.CacheRead.Floor(), t.CacheWrite.Floor(), t.CostMicroUSD.Floor()}
}
