package spending_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/accounting"
	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/session/spending"
	"github.com/loom-run/loom/storage/memory"
)

// book writes a ledger, and the entries that its rows paid for.
type book struct {
	t     testing.TB
	store *memory.Store
	now   int64
	leaf  id.EntryID
}

func newBook(t testing.TB) *book {
	b := &book{t: t, now: 1_000_000}
	b.store = memory.New(func() int64 { return b.now })
	return b
}

func (b *book) minted() id.Generator {
	seed := uint64(b.now)*7919 + rand.Uint64()
	return id.NewGenerator(clock.Fixed(b.now), seed)
}

func (b *book) commit(writes ...tx.Write) {
	b.t.Helper()
	if _, err := b.store.Commit(tx.Tx{Writes: writes}); err != nil {
		b.t.Fatal(err)
	}
}

// answer adds a response of a model behind the leaf, with its row.
func (b *book) answer(model string, u usage.Usage, requests ...accounting.Request) id.EntryID {
	b.t.Helper()
	e, _ := b.minted().Entry()
	row := entry.UsageRow{EntryID: e, Usage: u}
	row.ID, _ = b.minted().Usage()
	if requests != nil {
		var report accounting.Report
		for _, q := range requests {
			report = report.Append(q.Usage)
		}
		row.Usage, row.Details = report.Total(), new(report.Details(accounting.Requests(requests)))
	}
	m := &message.Assistant{API: "fake", Provider: "p", Model: model, StopReason: message.Stop, Usage: u, Timestamp: b.now}
	b.commit(tx.InsertEntry{Entry: entry.Entry{ID: e, Parent: b.leaf, Body: entry.Message{Message: m}}}, tx.InsertUsage{Row: row})
	b.leaf = e
	return e
}

// charge adds a row without an entry.
func (b *book) charge(u usage.Usage, adjustment bool) {
	b.t.Helper()
	row := entry.UsageRow{Usage: u, Adjustment: adjustment}
	row.ID, _ = b.minted().Usage()
	b.commit(tx.InsertUsage{Row: row})
}

func (b *book) compact() {
	b.t.Helper()
	e, _ := b.minted().Entry()
	b.commit(tx.InsertEntry{Entry: entry.Entry{ID: e, Parent: b.leaf, Body: entry.Compaction{Summary: "s"}}})
	b.leaf = e
}

func (b *book) items() (all []spending.Item) {
	b.t.Helper()
	for item, err := range spending.Items(b.store) {
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, item)
	}
	return all
}

func tokens(n int64) usage.Usage {
	return usage.Usage{Input: n, TotalTokens: n, Evidence: usage.Reported(usage.API, usage.Complete)}
}

func priced(n, micros int64) usage.Usage {
	u := tokens(n)
	u.Cost.Input, u.Cost.Total = usage.Micros(micros), usage.Micros(micros)
	u.Evidence = u.Evidence.WithPrice(usage.APIRates)
	return u
}

func TestEveryRowCountsOnceWithItsModel(t *testing.T) {
	b := newBook(t)
	e := b.answer("one", tokens(5))
	b.now++
	b.answer("two", usage.Zero(),
		accounting.Request{Provider: "p", Model: "one", Class: "server", Usage: usage.Unknown(usage.API)},
		accounting.Request{Provider: "q", Model: "two", Usage: priced(7, 3)})
	b.charge(tokens(11), false)
	b.charge(tokens(-2), true)
	var got []string
	for _, i := range b.items() {
		got = append(got, fmt.Sprintf("%d %s/%s %s %d %v %v", i.At-1_000_000, i.Provider, i.Model, i.Class, i.Usage.Input, i.Adjustment, i.Entry == e))
	}
	want := []string{"0 p/one  5 false true", "1 p/one server 0 false false", "1 q/two  7 false false", "1 /  11 false false", "1 /  -2 true false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestALedgerOfSeveralPagesIsReadWhole(t *testing.T) {
	b := newBook(t)
	for range 1100 {
		b.charge(tokens(1), false)
	}
	var sum spending.Total
	for _, i := range b.items() {
		sum.Add(i)
	}
	stats, err := b.store.Stats()
	if err != nil || sum.Usage.Input != 1100 || sum.Usage.TotalTokens != stats.Usage.TotalTokens {
		t.Errorf("%+v, %v", sum, err)
	}
	for _, err := range spending.Items(b.store) {
		if err != nil {
			t.Error(err)
		}
		break // whoever has seen enough may stop
	}
}

func TestAStoreThatCannotBeReadIsAnError(t *testing.T) {
	b := newBook(t)
	b.answer("one", tokens(5))
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err := range spending.Items(b.store) {
		if err == nil {
			t.Error("an item was read")
		}
	}
	if _, err := spending.Misses(b.store); err == nil {
		t.Error("misses were found")
	}
}

func TestATotalSaysWhatItDoesNotCover(t *testing.T) {
	inPart := priced(3, 2)
	inPart.Evidence = usage.Reported(usage.API, usage.Partial).WithPrice(usage.APIRates)
	for name, c := range map[string]struct {
		all          []usage.Usage
		want         spending.Total
		tokens, cost spending.Bound
	}{
		"nothing":             {nil, spending.Total{}, spending.Exact, spending.Exact},
		"nothing was sent":    {[]usage.Usage{usage.Zero()}, spending.Total{}, spending.Exact, spending.Exact},
		"all is known":        {[]usage.Usage{priced(1, 2), priced(3, 4)}, spending.Total{Requests: 2}, spending.Exact, spending.Exact},
		"a price of zero":     {[]usage.Usage{priced(1, 0)}, spending.Total{Requests: 1}, spending.Exact, spending.Exact},
		"no price":            {[]usage.Usage{tokens(1)}, spending.Total{Requests: 1, Unpriced: 1}, spending.Exact, spending.Unknown},
		"one without a price": {[]usage.Usage{tokens(1), priced(1, 2)}, spending.Total{Requests: 2, Unpriced: 1}, spending.Exact, spending.AtLeast},
		"no report":           {[]usage.Usage{usage.Unknown(usage.API)}, spending.Total{Requests: 1, Unreported: 1}, spending.Unknown, spending.Unknown},
		"one without report":  {[]usage.Usage{usage.Unknown(usage.API), priced(1, 2)}, spending.Total{Requests: 2, Unreported: 1}, spending.AtLeast, spending.AtLeast},
		"a part":              {[]usage.Usage{inPart}, spending.Total{Requests: 1, InPart: 1}, spending.AtLeast, spending.AtLeast},
		"one of each":         {[]usage.Usage{inPart, tokens(1), usage.Unknown(usage.API)}, spending.Total{Requests: 3, Unreported: 1, InPart: 1, Unpriced: 1}, spending.AtLeast, spending.AtLeast},
	} {
		var got spending.Total
		for _, u := range c.all {
			got.Add(spending.Item{Request: accounting.Request{Usage: u}})
		}
		if b := got.Tokens(); b != c.tokens {
			t.Errorf("%s: the tokens are %v", name, b)
		}
		if b := got.Cost(); b != c.cost {
			t.Errorf("%s: the cost is %v", name, b)
		}
		if got.Usage = c.want.Usage; got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestTotalsDoNotDependOnTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOf(coretest.Usage()).Draw(t, "usage")
		sum := func(all []usage.Usage) string {
			var total spending.Total
			for _, u := range all {
				total.Add(spending.Item{Request: accounting.Request{Usage: u}})
			}
			return fmt.Sprintf("%s %d %d %d %d %v", total.Usage.Cost.Total.Literal(), total.Usage.Input, total.Requests, total.Unreported, total.Unpriced, total.Usage.Evidence)
		}
		if a, b := sum(all), sum(rapid.Permutation(all).Draw(t, "another order")); a != b {
			t.Fatalf("%s and %s", a, b)
		}
	})
}

// cached is a request that read, left and sent so many tokens.
func cached(read, left, sent int64) usage.Usage {
	return usage.Usage{
		Input: sent, CacheRead: read, CacheWrite: left, TotalTokens: read + left + sent, Evidence: usage.Reported(usage.API, usage.Complete),
	}
}

func TestAMissIsExplainedByWhatLiesBetween(t *testing.T) {
	const minute = 60 * 1000
	longLived := cached(0, 9000, 10)
	longLived.CacheWrite1h = new(int64(9000))
	for name, c := range map[string]struct {
		first  usage.Usage
		wait   int64
		change func(*book)
		model  string
		second usage.Usage
		again  int64 // 0 for no miss
		cause  spending.Cause
	}{
		"a hit":                        {cached(0, 9000, 10), minute, nil, "m", cached(9000, 500, 10), 0, 0},
		"a small difference":           {cached(0, 9000, 10), minute, nil, "m", cached(8500, 500, 10), 0, 0},
		"no cache before":              {cached(0, 0, 9000), 9 * minute, nil, "m", cached(0, 0, 9000), 0, 0},
		"nothing known of the request": {cached(0, 9000, 10), minute, nil, "m", usage.Unknown(usage.API), 0, 0},
		"another model":                {cached(0, 9000, 10), minute, nil, "other", cached(0, 9500, 10), 9000, spending.OtherModel},
		"a compaction":                 {cached(0, 9000, 10), minute, (*book).compact, "m", cached(0, 2000, 10), 9000, spending.Compacted},
		"a pause":                      {cached(4000, 5000, 10), 6 * minute, nil, "m", cached(0, 9500, 10), 9000, spending.Expired},
		"a pause of a long-lived one":  {longLived, 6 * minute, nil, "m", cached(0, 9500, 10), 9000, spending.Unexplained},
		"a long pause":                 {longLived, 61 * minute, nil, "m", cached(0, 9500, 10), 9000, spending.Expired},
		"nothing that shows":           {cached(0, 9000, 10), minute, nil, "m", cached(1000, 9500, 10), 8000, spending.Unexplained},
		"a failed attempt between": {cached(0, 9000, 10), minute, func(b *book) { b.answer("m", usage.Unknown(usage.API)) }, "m",
			cached(0, 9500, 10), 9000, spending.Unexplained},
	} {
		b := newBook(t)
		b.answer("m", c.first)
		b.now += c.wait
		if c.change != nil {
			c.change(b)
		}
		b.answer(c.model, c.second)
		got, err := spending.Misses(b.store)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case c.again == 0 && len(got) != 0:
			t.Errorf("%s: %+v", name, got)
		case c.again != 0 && (len(got) != 1 || got[0].Again != c.again || got[0].Cause != c.cause || got[0].Model != c.model || got[0].Idle != c.wait):
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestABranchIsJudgedByItsOwnPast(t *testing.T) {
	b := newBook(t)
	root := b.answer("m", cached(0, 9000, 10))
	b.answer("other", cached(0, 9000, 10))
	b.leaf = root
	b.answer("m", cached(9000, 10, 10))
	got, err := spending.Misses(b.store)
	if err != nil || len(got) != 1 || got[0].Model != "other" {
		t.Errorf("%+v, %v", got, err)
	}
}
