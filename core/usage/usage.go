// Package usage is what a model request consumed and what is known about it.
//
// # Purpose
//
// Tokens in disjoint buckets, exact cost, and the evidence behind both, so that
// a sum can say "at least" or "unknown" and never turns a missing number into
// zero.
//
// # Key types
//
// [Usage], [Cost], [Amount], [Evidence].
//
// # Relationships
//
// Imports core/jsonv and core/corrupt.
//
// # Traffic
//
// None; the ledger row that carries a Usage is core/entry.UsageRow.
//
// # Invariants
//
// [Zero] is the identity of [Usage.Add], in value: a sum writes its costs in the
// plain form. A remote attempt that reported nothing is [Unknown], which is a
// different value. Usage that was decoded with evidence that no provider was
// called has no counts and no cost.
package usage

import (
	"math"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
)

// Usage counts tokens. Input, Output, CacheRead and CacheWrite are disjoint.
type Usage struct {
	Input, Output         int64
	CacheRead, CacheWrite int64
	CacheWrite1h          *int64 // part of CacheWrite, when reported
	Reasoning             *int64 // part of Output, when reported
	TotalTokens           int64  // as the provider reported it
	Cost                  Cost
	Evidence              Evidence
}

// Cost is in US dollars for each bucket. Total is stored, as reported or priced.
type Cost struct{ Input, Output, CacheRead, CacheWrite, Total Amount }

// Zero is the usage of work that called no provider.
func Zero() Usage { return Usage{} }

// Unknown is a remote attempt that reported nothing.
func Unknown(b Billing) Usage { return Usage{Evidence: Unreported(b)} }

// Add sums two disjoint records field by field. A count that both sides leave
// out stays absent. Counts stop at the ends of 64 bits and amounts below 10^100
// dollars: a provider that reports absurd ones must not make a sum negative, or one
// that cannot be stored.
func (u Usage) Add(o Usage) Usage {
	return Usage{
		Input: add(u.Input, o.Input), Output: add(u.Output, o.Output),
		CacheRead: add(u.CacheRead, o.CacheRead), CacheWrite: add(u.CacheWrite, o.CacheWrite),
		CacheWrite1h: addOpt(u.CacheWrite1h, o.CacheWrite1h), Reasoning: addOpt(u.Reasoning, o.Reasoning),
		TotalTokens: add(u.TotalTokens, o.TotalTokens),
		Cost: Cost{
			Input: u.Cost.Input.Add(o.Cost.Input), Output: u.Cost.Output.Add(o.Cost.Output),
			CacheRead: u.Cost.CacheRead.Add(o.Cost.CacheRead), CacheWrite: u.Cost.CacheWrite.Add(o.Cost.CacheWrite),
			Total: u.Cost.Total.Add(o.Cost.Total),
		},
		Evidence: u.Evidence.Add(o.Evidence),
	}
}

func addOpt(a, b *int64) *int64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return new(add(*a, *b))
}

func add(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}

// Observed returns u unless it is a remote attempt that reported nothing: then
// there is no measure of context, cache or rate in it.
func (u Usage) Observed() (Usage, bool) {
	_, remote := u.Evidence.Billing()
	_, reported := u.Evidence.Tokens()
	if remote && !reported && u.Input|u.Output|u.CacheRead|u.CacheWrite|u.TotalTokens == 0 {
		return Usage{}, false
	}
	return u, true
}

// Append writes the stored shape.
func Append(w *jsonv.Writer, u Usage) {
	w.Begin()
	w.Num("input", u.Input)
	w.Num("output", u.Output)
	w.Num("cacheRead", u.CacheRead)
	w.Num("cacheWrite", u.CacheWrite)
	w.OptNum("cacheWrite1h", u.CacheWrite1h)
	w.OptNum("reasoning", u.Reasoning)
	w.Num("totalTokens", u.TotalTokens)
	w.Name("cost")
	w.Begin()
	for _, f := range u.Cost.fields() {
		w.Name(f.name)
		w.Literal(f.amount.Literal())
	}
	w.End()
	w.Name("evidence")
	appendEvidence(w, u.Evidence)
	w.End()
}

type costField struct {
	name   string
	amount *Amount
}

func (c *Cost) fields() [5]costField {
	return [5]costField{
		{"input", &c.Input}, {"output", &c.Output}, {"cacheRead", &c.CacheRead},
		{"cacheWrite", &c.CacheWrite}, {"total", &c.Total},
	}
}

// Decode reads the stored shape. Usage without evidence, as old rows have it,
// reads as a remote attempt of an unknown arrangement; evidence that is present
// and malformed is corruption.
func Decode(v jsonv.Value) (Usage, error) {
	r := jsonv.Read(v, "usage.Decode")
	u := Usage{
		Input: r.Num("input"), Output: r.Num("output"),
		CacheRead: r.Num("cacheRead"), CacheWrite: r.Num("cacheWrite"),
		CacheWrite1h: r.OptNum("cacheWrite1h"), Reasoning: r.OptNum("reasoning"),
		TotalTokens: r.Num("totalTokens"),
		Cost:        jsonv.One(r, "cost", decodeCost),
		Evidence:    Unreported(Other),
	}
	if e := r.Opaque("evidence"); e != nil {
		ev, err := DecodeEvidence(*e)
		r.Adopt("evidence", err)
		u.Evidence = ev
	}
	if err := r.Err(); err != nil {
		return Usage{}, err
	}
	if _, remote := u.Evidence.Billing(); !remote && !u.nothing() {
		return Usage{}, corrupt.New("usage.Decode", "evidence", "no counts and no cost where no provider was called", v.String())
	}
	return u, nil
}

func (u Usage) nothing() bool {
	for _, f := range u.Cost.fields() {
		if !f.amount.IsZero() {
			return false
		}
	}
	return u.Input|u.Output|u.CacheRead|u.CacheWrite|u.TotalTokens == 0 &&
		(u.CacheWrite1h == nil || *u.CacheWrite1h == 0) && (u.Reasoning == nil || *u.Reasoning == 0)
}

func decodeCost(v jsonv.Value) (Cost, error) {
	r := jsonv.Read(v, "usage.Decode")
	var c Cost
	for _, f := range c.fields() {
		n := r.Value(f.name)
		a, ok := ParseAmount(n)
		if !ok && r.Err() == nil {
			r.Fail(f.name, "a decimal number of dollars", n)
		}
		*f.amount = a
	}
	return c, r.Err()
}
