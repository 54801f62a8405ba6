package wire

import (
	"github.com/loom-run/loom/core/jsonv"
)

// Usage is what requests consumed and how well that is known. The counts are
// disjoint. It is always on the wire where the contract has it: nobody measured
// is Measured false, never a missing object.
type Usage struct {
	Input, Output         int64
	CacheRead, CacheWrite int64
	// Measured is false when the counts are placeholders: zeros that nobody
	// counted.
	Measured bool
	// LowerBound says that more was consumed than was counted.
	LowerBound bool
	// CostMicroUSD is the price in millionths of a US dollar; nil when it is not
	// known.
	CostMicroUSD *int64
	// CostLowerBound says that the price covers a part only.
	CostLowerBound bool
}

func (u Usage) append(w *jsonv.Writer) {
	w.Name("usage")
	w.Begin()
	w.Num("input", u.Input)
	w.Num("output", u.Output)
	w.Num("cacheRead", u.CacheRead)
	w.Num("cacheWrite", u.CacheWrite)
	w.Flag("measured", u.Measured)
	if u.LowerBound {
		w.Flag("lowerBound", true)
	}
	w.OptNum("costMicroUsd", u.CostMicroUSD)
	if u.CostLowerBound {
		w.Flag("costLowerBound", true)
	}
	w.End()
}

func decodeUsage(v jsonv.Value) (Usage, error) {
	r := jsonv.Read(v, "wire.Usage")
	u := Usage{
		Input: count(r, "input"), Output: count(r, "output"),
		CacheRead: count(r, "cacheRead"), CacheWrite: count(r, "cacheWrite"),
		Measured: r.Flag("measured"), LowerBound: r.OptFlag("lowerBound"),
		CostMicroUSD: r.OptNum("costMicroUsd"), CostLowerBound: r.OptFlag("costLowerBound"),
	}
	if u.CostMicroUSD != nil && (*u.CostMicroUSD < 0 || *u.CostMicroUSD > maxCount) {
		r.Fail("costMicroUsd", "0 to 2^53-1", jsonv.Num(*u.CostMicroUSD))
	}
	return u, r.Err()
}
