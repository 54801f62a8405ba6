// Package accounting sums the provider attempts behind one ledger row.
//
// # Purpose
//
// One row may stand for several attempts: retries inside one request, or the
// requests of one summary. The row keeps the aggregate, the last attempt and how
// many there were, in constant space.
//
// # Key types
//
// [Report], [Append], [Combine], [Details], [DecodeRow].
//
// # Relationships
//
// Imports core/usage, core/entry, core/jsonv, core/corrupt.
//
// # Traffic
//
// None: whoever commits a row writes its details.
//
// # Invariants
//
// Append is called once for each attempt, never for a repeated snapshot of one.
// Combine joins reports of disjoint attempts; the empty report is its identity.
package accounting

import (
	"math"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
)

// DetailsKey is the field of a row's details that holds the report.
const DetailsKey = "loom.request-accounting.v1"

// Report is no attempts, or their total, the last of them and their number. The
// zero Report is no attempts.
type Report struct {
	total, last usage.Usage
	count       int64
}

// Of reports one attempt.
func Of(u usage.Usage) Report { return Report{u, u, 1} }

// Total is the sum of all attempts, [usage.Zero] for none.
func (r Report) Total() usage.Usage { return r.total }

// Last is the last attempt; ok is false for none.
func (r Report) Last() (u usage.Usage, ok bool) { return r.last, r.count > 0 }

// Attempts is their number; it stops at the end of 64 bits.
func (r Report) Attempts() int64 { return r.count }

// Append adds one attempt.
func (r Report) Append(u usage.Usage) Report { return r.Combine(Of(u)) }

// Combine adds the attempts of a later report; none of them may be in r.
func (r Report) Combine(later Report) Report {
	switch {
	case r.count == 0:
		return later
	case later.count == 0:
		return r
	}
	count := r.count + later.count
	if count < 0 {
		count = math.MaxInt64 // as counts of tokens do: a row can claim any number
	}
	return Report{r.total.Add(later.total), later.last, count}
}

// Details is the details object of a ledger row: the caller's fields, then the
// report.
func (r Report) Details(extra ...jsonv.Member) jsonv.Value {
	last := jsonv.Value{}
	if r.count > 0 {
		w := new(jsonv.Writer)
		usage.Append(w, r.last)
		last = w.Tree()
	}
	fields := append(append([]jsonv.Member(nil), extra...), jsonv.F(DetailsKey, jsonv.Obj(
		jsonv.F("version", jsonv.Num(1)), jsonv.F("attempt_count", jsonv.Num(r.count)), jsonv.F("last", last))))
	return jsonv.Obj(fields...)
}

const boundary = "accounting.DecodeRow"

// DecodeRow reads the report of a row. A row without one, as earlier builds wrote
// them, is one observation, which may be signed. A present report that does not
// agree with the row is corruption.
func DecodeRow(row entry.UsageRow) (Report, error) {
	if row.Details == nil || row.Details.Kind() != jsonv.Object {
		return Of(row.Usage), nil
	}
	var reports []jsonv.Value
	for name, v := range row.Details.Fields() {
		if name == DetailsKey {
			reports = append(reports, v)
		}
	}
	switch len(reports) {
	case 0:
		return Of(row.Usage), nil
	case 1:
		return decode(row.Usage, reports[0])
	}
	return Report{}, corrupt.New(boundary, DetailsKey, "one report", "several")
}

func decode(total usage.Usage, v jsonv.Value) (Report, error) {
	r := jsonv.Read(v, boundary)
	r.Exact("version", "attempt_count", "last")
	version, count := r.Num("version"), r.Num("attempt_count")
	last := jsonv.OptOne(r, "last", usage.Decode)
	r.Value("last") // required, though it may be null
	if err := r.Err(); err != nil {
		return Report{}, err
	}
	if rule := disagreement(version, count, total, last); rule != "" {
		return Report{}, corrupt.New(boundary, DetailsKey, rule, v.String())
	}
	if last == nil {
		return Report{}, nil
	}
	return Report{total, *last, count}, nil
}

// disagreement names the rule that a report breaks, if it breaks one.
func disagreement(version, count int64, total usage.Usage, last *usage.Usage) string {
	switch {
	case version != 1:
		return "version 1"
	case count < 0:
		return "a count that is not negative"
	case negative(total):
		return "a total that is not negative"
	case last == nil && (count != 0 || !same(total, usage.Zero())):
		return "no attempts and no usage without a last attempt"
	case last == nil:
		return ""
	case count < 1:
		return "at least one attempt beside a last one"
	case negative(*last):
		return "a last attempt that is not negative"
	case count == 1 && !same(total, *last):
		return "a total that equals its only attempt"
	case !covers(total, *last):
		return "a total that covers its last attempt"
	case total.Evidence.Add(last.Evidence) != total.Evidence:
		return "evidence that covers the last attempt's"
	}
	return ""
}

// same compares what the numbers are, not how they were written.
func same(a, b usage.Usage) bool {
	return counters(a) == counters(b) && a.Evidence == b.Evidence && covers(a, b) && covers(b, a) &&
		equalOpt(a.CacheWrite1h, b.CacheWrite1h) && equalOpt(a.Reasoning, b.Reasoning)
}

func equalOpt(a, b *int64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func counters(u usage.Usage) [5]int64 {
	return [5]int64{u.Input, u.Output, u.CacheRead, u.CacheWrite, u.TotalTokens}
}

func costs(u usage.Usage) [5]usage.Amount {
	return [5]usage.Amount{u.Cost.Input, u.Cost.Output, u.Cost.CacheRead, u.Cost.CacheWrite, u.Cost.Total}
}

// covers reports whether every number of total is at least that of part.
func covers(total, part usage.Usage) bool {
	t, p := counters(total), counters(part)
	for i := range t {
		if t[i] < p[i] {
			return false
		}
	}
	tc, pc := costs(total), costs(part)
	for i := range tc {
		if tc[i].Cmp(pc[i]) < 0 {
			return false
		}
	}
	return true
}

func negative(u usage.Usage) bool {
	for _, n := range counters(u) {
		if n < 0 {
			return true
		}
	}
	for _, c := range costs(u) {
		if c.Sign() < 0 {
			return true
		}
	}
	return u.CacheWrite1h != nil && *u.CacheWrite1h < 0 || u.Reasoning != nil && *u.Reasoning < 0
}
