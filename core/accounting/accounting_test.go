package accounting_test

import (
	"flag"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/accounting"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

func reports() *rapid.Generator[accounting.Report] {
	return rapid.Custom(func(t *rapid.T) accounting.Report {
		var r accounting.Report
		for _, u := range rapid.SliceOfN(attempts(), 0, 4).Draw(t, "attempts") {
			r = r.Append(u)
		}
		return r
	})
}

// attempts draws usage of a provider attempt: what it consumed is not negative.
func attempts() *rapid.Generator[usage.Usage] { return coretest.Usage() }

func text(u usage.Usage) string {
	w := new(jsonv.Writer)
	usage.Append(w, u)
	return string(w.Bytes())
}

func equal(a, b accounting.Report) bool {
	la, oka := a.Last()
	lb, okb := b.Last()
	return a.Attempts() == b.Attempts() && oka == okb && text(a.Total()) == text(b.Total()) && text(la) == text(lb)
}

func TestCombineJoinsDisjointReports(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := reports().Draw(t, "a"), reports().Draw(t, "b")
		ab := a.Combine(b)
		if ab.Attempts() != a.Attempts()+b.Attempts() {
			t.Fatalf("%d attempts of %d and %d", ab.Attempts(), a.Attempts(), b.Attempts())
		}
		if b.Attempts() > 0 {
			last, _ := ab.Last()
			want, _ := b.Last()
			if text(last) != text(want) {
				t.Fatal("the last attempt is not the later report's")
			}
		}
		if !equal(a.Combine(accounting.Report{}), a) || !equal(accounting.Report{}.Combine(a), a) {
			t.Fatal("the empty report is no identity")
		}
	})
}

func TestCombineIsAssociativeAndAppendIsCombineOfOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := reports().Draw(t, "a"), reports().Draw(t, "b"), reports().Draw(t, "c")
		if !equal(a.Combine(b).Combine(c), a.Combine(b.Combine(c))) {
			t.Fatal("the order in which reports are joined shows")
		}
		u := attempts().Draw(t, "attempt")
		if !equal(a.Append(u), a.Combine(accounting.Of(u))) {
			t.Fatal("an attempt that is appended is not one that is combined")
		}
	})
}

func TestEveryNegativeNumberOfAReportIsCorruption(t *testing.T) {
	cost := usage.Micros(-1)
	for name, spoil := range map[string]func(*usage.Usage){
		"input":            func(u *usage.Usage) { u.Input = -1 },
		"output":           func(u *usage.Usage) { u.Output = -1 },
		"cacheRead":        func(u *usage.Usage) { u.CacheRead = -1 },
		"cacheWrite":       func(u *usage.Usage) { u.CacheWrite = -1 },
		"cacheWrite1h":     func(u *usage.Usage) { u.CacheWrite1h = new(int64(-1)) },
		"reasoning":        func(u *usage.Usage) { u.Reasoning = new(int64(-1)) },
		"totalTokens":      func(u *usage.Usage) { u.TotalTokens = -1 },
		"cost.input":       func(u *usage.Usage) { u.Cost.Input = cost },
		"cost.output":      func(u *usage.Usage) { u.Cost.Output = cost },
		"cost.cacheRead":   func(u *usage.Usage) { u.Cost.CacheRead = cost },
		"cost.cacheWrite":  func(u *usage.Usage) { u.Cost.CacheWrite = cost },
		"cost.total":       func(u *usage.Usage) { u.Cost.Total = cost },
		"nothing negative": func(*usage.Usage) {},
	} {
		u := usage.Usage{Input: 1, TotalTokens: 1, Evidence: usage.Reported(usage.API, usage.Complete)}
		spoil(&u)
		details := accounting.Of(u).Details()
		_, err := accounting.DecodeRow(entry.UsageRow{Usage: u, Details: &details})
		if sound := name == "nothing negative"; (err == nil) != sound {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The file is the format: a line of it that changes is a row that older builds wrote and this one would write otherwise.
func TestGolden(t *testing.T) {
	paid := usage.Usage{Input: 10, Output: 5, TotalTokens: 15, Evidence: usage.Reported(usage.API, usage.Complete).WithPrice(usage.APIRates)}
	paid.Cost.Input, paid.Cost.Total = usage.Micros(30), usage.Micros(30)
	lost := usage.Unknown(usage.API)
	var lines strings.Builder
	for _, details := range []jsonv.Value{
		accounting.Report{}.Details(), accounting.Of(paid).Details(), accounting.Of(lost).Append(paid).Details(jsonv.F("purpose", jsonv.Str("summary"))),
	} {
		lines.WriteString(details.String() + "\n")
	}
	coretest.Golden(t, "details.jsonl", []byte(lines.String()), *update)
}

func TestDetailsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := reports().Draw(t, "report")
		details := r.Details(jsonv.F("purpose", jsonv.Str("summary")))
		if v, ok := details.Get("purpose"); !ok || v.String() != `"summary"` {
			t.Fatal("the caller's field is gone")
		}
		got, err := accounting.DecodeRow(entry.UsageRow{Usage: r.Total(), Details: &details})
		if err != nil || !equal(got, r) {
			t.Fatalf("%s: got %+v, %v", details, got, err)
		}
	})
}

func TestARowWithoutAReportIsOneObservation(t *testing.T) {
	signed := usage.Usage{Input: -5, Evidence: usage.Unreported(usage.Other)}
	for _, details := range []*jsonv.Value{nil, new(jsonv.Str("note")), new(jsonv.Obj(jsonv.F("why", jsonv.Str("refund"))))} {
		r, err := accounting.DecodeRow(entry.UsageRow{Usage: signed, Details: details, Adjustment: true})
		if err != nil || r.Attempts() != 1 || r.Total().Input != -5 {
			t.Errorf("got %+v, %v", r, err)
		}
	}
}

func TestAReportThatDoesNotAgreeWithItsRowIsCorruption(t *testing.T) {
	paid := usage.Usage{Input: 10, Output: 5, TotalTokens: 15, Evidence: usage.Reported(usage.API, usage.Complete)}
	twice := paid.Add(paid)
	more := paid
	more.Input = 11
	free, hour, thought := paid, paid, paid
	free.Evidence = free.Evidence.WithPrice(usage.APIRates)
	hour.CacheWrite1h, thought.Reasoning = new(int64(0)), new(int64(0))
	negative := paid
	negative.Input = -1
	report := func(version, count int64, last string) jsonv.Value {
		v, err := jsonv.ParseString(last)
		if err != nil {
			t.Fatal(err)
		}
		return jsonv.Obj(jsonv.F("version", jsonv.Num(version)), jsonv.F("attempt_count", jsonv.Num(count)), jsonv.F("last", v))
	}
	for _, c := range []struct {
		name  string
		total usage.Usage
		value jsonv.Value
		valid bool
	}{
		{"one attempt", paid, report(1, 1, text(paid)), true},
		{"two attempts", twice, report(1, 2, text(paid)), true},
		{"none", usage.Zero(), report(1, 0, "null"), true},
		{"another version", paid, report(2, 1, text(paid)), false},
		{"a negative count", paid, report(1, -1, text(paid)), false},
		{"no attempts but usage", paid, report(1, 0, "null"), false},
		{"a last one of none", paid, report(1, 0, text(paid)), false},
		{"a count without a last one", usage.Zero(), report(1, 1, "null"), false},
		{"a total that is not its only attempt", twice, report(1, 1, text(paid)), false},
		{"a total that says less of its only attempt's price", paid, report(1, 1, text(free)), false},
		{"a total with a count that its only attempt lacks", hour, report(1, 1, text(paid)), false},
		{"a total that lacks a count of its only attempt", paid, report(1, 1, text(thought)), false},
		{"no attempts but a remote one that reported nothing", usage.Unknown(usage.API), report(1, 0, "null"), false},
		{"no last one at all", usage.Zero(), jsonv.Obj(jsonv.F("version", jsonv.Num(1)), jsonv.F("attempt_count", jsonv.Num(0))), false},
		{"as many attempts as there can be", paid, report(1, math.MaxInt64, text(paid)), true},
		{"a total below its last attempt", paid, report(1, 2, text(more)), false},
		{"a negative total", negative, report(1, 1, text(negative)), false},
		{"evidence that the total lacks", paid, report(1, 2, text(usage.Unknown(usage.Other))), false},
		{"a field too many", paid, report(1, 1, text(paid)).With("more", jsonv.Num(1)), false},
		{"no object", paid, jsonv.Num(1), false},
	} {
		details := jsonv.Obj(jsonv.F(accounting.DetailsKey, c.value))
		if _, err := accounting.DecodeRow(entry.UsageRow{Usage: c.total, Details: &details}); (err == nil) != c.valid {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	both := jsonv.Obj(jsonv.F(accounting.DetailsKey, report(1, 1, text(paid))), jsonv.F(accounting.DetailsKey, report(1, 1, text(paid))))
	if _, err := accounting.DecodeRow(entry.UsageRow{Usage: paid, Details: &both}); err == nil || !strings.Contains(err.Error(), "several") {
		t.Errorf("two reports: %v", err)
	}
}

// A row can claim any number of attempts. One more makes none of them disappear.
func TestTheCountOfAttemptsStopsAtTheEndOf64Bits(t *testing.T) {
	one := usage.Unknown(usage.API)
	claim := accounting.Of(one).Details()
	v, _ := claim.Get(accounting.DetailsKey)
	claim = claim.With(accounting.DetailsKey, v.With("attempt_count", jsonv.Num(math.MaxInt64)))
	r, err := accounting.DecodeRow(entry.UsageRow{Usage: one, Details: &claim})
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []accounting.Report{r.Append(one), accounting.Of(one).Combine(r), r.Combine(r)} {
		_, ok := more.Last()
		details := more.Details()
		got, err := accounting.DecodeRow(entry.UsageRow{Usage: more.Total(), Details: &details})
		if !ok || more.Attempts() != math.MaxInt64 || err != nil || !equal(got, more) {
			t.Errorf("%d attempts, read back as %d, %v", more.Attempts(), got.Attempts(), err)
		}
	}
}

// FuzzDecodeRow reads the details of a row beside any usage of the row itself.
func FuzzDecodeRow(f *testing.F) {
	paid := usage.Usage{Input: 10, Output: 5, TotalTokens: 15, Evidence: usage.Reported(usage.API, usage.Complete)}
	lost := usage.Unknown(usage.API)
	for _, r := range []accounting.Report{{}, accounting.Of(paid), accounting.Of(paid).Append(paid), accounting.Of(paid).Append(lost)} {
		f.Add(text(r.Total()), r.Details().String())
	}
	f.Fuzz(func(t *testing.T, total, details string) {
		rowUsage, err1 := jsonv.ParseString(total)
		v, err2 := jsonv.ParseString(details)
		if err1 != nil || err2 != nil {
			return
		}
		u, err := usage.Decode(rowUsage)
		if err != nil {
			return
		}
		r, err := accounting.DecodeRow(entry.UsageRow{Usage: u, Details: &v})
		if err != nil {
			return
		}
		if _, ok := v.Get(accounting.DetailsKey); !ok {
			return // a row without a report may be signed, which a report may not
		}
		again := r.Details()
		if got, err := accounting.DecodeRow(entry.UsageRow{Usage: r.Total(), Details: &again}); err != nil || !equal(got, r) {
			t.Fatalf("%s of %s reads back as %+v, %v", details, total, got, err)
		}
	})
}
