package usage_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

func encode(u usage.Usage) string {
	var w jsonv.Writer
	usage.Append(&w, u)
	return string(w.Bytes())
}

// roundTrip demands that u is written as JSON and read back the same, text for text.
func roundTrip(t interface {
	Helper()
	Fatalf(string, ...any)
}, u usage.Usage) {
	t.Helper()
	text := encode(u)
	if !jsontext.Value(text).IsValid() {
		t.Fatalf("%s is not JSON", text)
	}
	v, err := jsonv.ParseString(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	got, err := usage.Decode(v)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if d := coretest.Diff(u, got); d != "" || encode(got) != text {
		t.Fatalf("%s is written again as %s\n%s", text, encode(got), d)
	}
}

func TestUsageReadsBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { roundTrip(t, coretest.SignedUsage().Draw(t, "usage")) })
}

// Texts that earlier builds wrote.
const (
	counts   = `"input":1200,"output":80,"cacheRead":300,"cacheWrite":20,"cacheWrite1h":5,"reasoning":40,"totalTokens":1600`
	zeros    = `"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0`
	costs    = `"cost":{"input":0.0036,"output":1.2e-3,"cacheRead":9.0e-5,"cacheWrite":7.5E-5,"total":0.004965}`
	noCosts  = `"cost":{"input":0.0,"output":0.0,"cacheRead":0.0,"cacheWrite":0.0,"total":0.0}`
	intCosts = `"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}`
)

func evidence(tokens, billing, cost string) string {
	return fmt.Sprintf(`"evidence":{"version":1,"tokens":%q,"billing":%q,"cost":{%s}}`, tokens, billing, cost)
}

func record(parts ...string) string { return "{" + strings.Join(parts, ",") + "}" }

const (
	unavailable = `"kind":"unavailable"`
	noExpense   = `"kind":"no-expense"`
)

func estimated(coverage, basis string) string {
	return fmt.Sprintf(`"kind":"estimated","coverage":%q,"basis":%q`, coverage, basis)
}

func TestTextsOfEarlierBuildsAreWrittenBackByteForByte(t *testing.T) {
	for _, text := range []string{
		record(zeros, noCosts, evidence("complete", "no-provider", noExpense)),
		record(zeros, intCosts, evidence("complete", "no-provider", noExpense)),
		record(zeros, noCosts, evidence("unknown", "api", unavailable)),
		record(zeros, noCosts, evidence("unknown", "chatgpt-plan", unavailable)),
		record(zeros, noCosts, evidence("unknown", "other", unavailable)),
		record(counts, noCosts, evidence("complete", "api", unavailable)),
		record(counts, intCosts, evidence("partial", "other", unavailable)),
		record(counts, costs, evidence("complete", "api", estimated("complete", "api-rates"))),
		record(counts, costs, evidence("complete", "chatgpt-plan", estimated("complete", "chatgpt-reference-rates"))),
		record(counts, costs, evidence("complete", "other", estimated("partial", "mixed-rates"))),
		record(counts, costs, evidence("partial", "other", estimated("partial", "api-rates"))),
		record(counts, intCosts, evidence("complete", "api", estimated("complete", "api-rates"))), // configured rates of zero
		record(`"input":-5,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":-5`, `"cost":{"input":-0.25,"output":0.0,"cacheRead":0.0,"cacheWrite":0.0,"total":-0.25}`,
			evidence("complete", "api", estimated("complete", "api-rates"))),
	} {
		u, err := usage.Decode(parse(t, text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := encode(u); got != text {
			t.Errorf("is written as %s\n     instead of %s", got, text)
		}
	}
}

func TestOlderFormsAreReadAsWhatTheyMeant(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"billing of a mix is other": {
			record(counts, costs, evidence("complete", "mixed", estimated("partial", "mixed-rates"))),
			record(counts, costs, evidence("complete", "other", estimated("partial", "mixed-rates"))),
		},
		"an unknown mix is other": {
			record(zeros, noCosts, evidence("unknown", "mixed", unavailable)),
			record(zeros, noCosts, evidence("unknown", "other", unavailable)),
		},
		"without evidence nothing is known": {
			record(counts, costs),
			record(counts, costs, evidence("unknown", "other", unavailable)),
		},
		"absent optional counts may be null": {
			record(zeros, `"cacheWrite1h":null,"reasoning":null`, noCosts, evidence("unknown", "api", unavailable)),
			record(zeros, noCosts, evidence("unknown", "api", unavailable)),
		},
		"fields of later builds are ignored": {
			record(`"audio":3`, zeros, `"cost":{"input":0.0,"output":0.0,"cacheRead":0.0,"cacheWrite":0.0,"total":0.0,"audio":1}`, evidence("unknown", "api", unavailable)),
			record(zeros, noCosts, evidence("unknown", "api", unavailable)),
		},
	} {
		u, err := usage.Decode(parse(t, c.text))
		if err != nil || encode(u) != c.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", name, encode(u), err, c.want)
		}
	}
}

func TestUsageThatContradictsItselfIsRefused(t *testing.T) {
	local := evidence("complete", "no-provider", noExpense)
	for name, text := range map[string]string{
		"counts without a provider":       record(counts, noCosts, local),
		"a total without a provider":      record(strings.Replace(zeros, `"totalTokens":0`, `"totalTokens":1`, 1), noCosts, local),
		"reasoning without a provider":    record(zeros, `"reasoning":1`, noCosts, local),
		"a cache write without one":       record(zeros, `"cacheWrite1h":-1`, noCosts, local),
		"a cost without a provider":       record(zeros, costs, local),
		"a credit without a provider":     record(zeros, strings.Replace(noCosts, `"total":0.0`, `"total":-1e-9`, 1), local),
		"null evidence":                   record(zeros, noCosts, `"evidence":null`),
		"malformed evidence":              record(zeros, noCosts, `"evidence":{}`),
		"no cost":                         record(zeros, evidence("unknown", "api", unavailable)),
		"half a cost":                     record(zeros, `"cost":{"input":0.0,"output":0.0,"cacheRead":0.0,"cacheWrite":0.0}`),
		"a cost in words":                 record(zeros, strings.Replace(noCosts, `"input":0.0`, `"input":"0.0"`, 1)),
		"a cost of null":                  record(zeros, strings.Replace(noCosts, `"input":0.0`, `"input":null`, 1)),
		"a cost no price has":             record(zeros, strings.Replace(noCosts, `"input":0.0`, `"input":1e-999`, 1)),
		"a count with a fraction":         record(strings.Replace(zeros, `"input":0`, `"input":0.0`, 1), noCosts),
		"a count beyond 64 bits":          record(strings.Replace(zeros, `"input":0`, `"input":9223372036854775808`, 1), noCosts),
		"no count":                        record(strings.Replace(zeros, `"input":0,`, ``, 1), noCosts),
		"an optional count in words":      record(zeros, `"reasoning":"many"`, noCosts),
		"no object":                       `[]`,
		"a name of evidence that is near": record(zeros, noCosts, `"evidence":{"version":1,"tokens":"unknown","billing":"Api","cost":{"kind":"unavailable"}}`),
	} {
		u, err := usage.Decode(parse(t, text))
		if _, ok := corrupt.As(err); !ok {
			t.Errorf("%s: %s reads as %s, %v", name, text, encode(u), err)
		}
	}
}

func TestAdditionOfUsage(t *testing.T) {
	text := func(u usage.Usage) string { return encode(u.Add(usage.Zero())) } // the plain form of the costs
	rapid.Check(t, func(t *rapid.T) {
		g := coretest.SignedUsage()
		a, b, c := g.Draw(t, "a"), g.Draw(t, "b"), g.Draw(t, "c")
		if encode(a.Add(b)) != encode(b.Add(a)) {
			t.Fatalf("the order matters:\n%s\n%s", encode(a.Add(b)), encode(b.Add(a)))
		}
		if encode(a.Add(b).Add(c)) != encode(a.Add(b.Add(c))) {
			t.Fatalf("the grouping matters:\n%s\n%s", encode(a.Add(b).Add(c)), encode(a.Add(b.Add(c))))
		}
		if encode(usage.Zero().Add(a)) != text(a) || a.Add(usage.Zero()).Evidence != a.Evidence {
			t.Fatalf("nothing added to %s is %s", encode(a), encode(usage.Zero().Add(a)))
		}
		s := a.Add(b)
		if s.Input != a.Input+b.Input || s.Output != a.Output+b.Output || s.CacheRead != a.CacheRead+b.CacheRead ||
			s.CacheWrite != a.CacheWrite+b.CacheWrite || s.TotalTokens != a.TotalTokens+b.TotalTokens {
			t.Fatalf("%s + %s = %s", encode(a), encode(b), encode(s))
		}
		for _, o := range [][3]*int64{{a.Reasoning, b.Reasoning, s.Reasoning}, {a.CacheWrite1h, b.CacheWrite1h, s.CacheWrite1h}} {
			if (o[2] == nil) != (o[0] == nil && o[1] == nil) {
				t.Fatalf("absent and absent: %v", o)
			}
			if o[2] != nil && *o[2] != deref(o[0])+deref(o[1]) {
				t.Fatalf("%d + %d = %d", deref(o[0]), deref(o[1]), *o[2])
			}
		}
		for _, d := range [][3]usage.Amount{
			{a.Cost.Input, b.Cost.Input, s.Cost.Input}, {a.Cost.Output, b.Cost.Output, s.Cost.Output}, {a.Cost.CacheRead, b.Cost.CacheRead, s.Cost.CacheRead},
			{a.Cost.CacheWrite, b.Cost.CacheWrite, s.Cost.CacheWrite}, {a.Cost.Total, b.Cost.Total, s.Cost.Total},
		} {
			if d[0].Add(d[1]) != d[2] {
				t.Fatalf("%s + %s = %s", d[0].Literal(), d[1].Literal(), d[2].Literal())
			}
		}
		roundTrip(t, s)
	})
}

func deref(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

func TestCountsStopAtTheEndsOf64Bits(t *testing.T) {
	most := usage.Usage{Input: math.MaxInt64, Output: math.MinInt64, Reasoning: new(int64(math.MaxInt64)), Evidence: usage.Reported(usage.API, usage.Complete)}
	more := usage.Usage{Input: 1, Output: -1, Reasoning: new(int64(1)), Evidence: usage.Reported(usage.API, usage.Complete)}
	for _, s := range []usage.Usage{most.Add(more), more.Add(most), most.Add(most)} {
		if s.Input != math.MaxInt64 || s.Output != math.MinInt64 || *s.Reasoning != math.MaxInt64 {
			t.Errorf("%s", encode(s))
		}
	}
	if s := most.Add(usage.Usage{Input: -1, Output: 1}); s.Input != math.MaxInt64-1 || s.Output != math.MinInt64+1 {
		t.Errorf("%s", encode(s))
	}
}

func TestUnknownIsNotZero(t *testing.T) {
	zero, unknown := usage.Zero(), usage.Unknown(usage.API)
	if encode(zero) == encode(unknown) {
		t.Fatal("one text for both")
	}
	if _, ok := unknown.Observed(); ok {
		t.Error("a remote attempt that reported nothing is a measure")
	}
	for name, u := range map[string]usage.Usage{
		"local work":              zero,
		"reported zeros":          {Evidence: usage.Reported(usage.API, usage.Complete)},
		"counts without evidence": {Output: 3, Evidence: usage.Unreported(usage.Other)}, // as old rows have them
		"only a total":            {TotalTokens: 3, Evidence: usage.Unreported(usage.Other)},
	} {
		if got, ok := u.Observed(); !ok || coretest.Diff(u, got) != "" {
			t.Errorf("%s is no measure", name)
		}
	}
}

// The file is the format: a line of it that changes is a row that older builds wrote and this one would write otherwise.
func TestGolden(t *testing.T) {
	price := usage.Cost{Input: usage.Micros(2400), Output: usage.Micros(640), CacheRead: usage.Micros(75), CacheWrite: usage.Micros(1), Total: usage.Micros(3116)}
	reported := usage.Usage{Input: 1200, Output: 80, CacheRead: 300, CacheWrite: 20, TotalTokens: 1600}
	full := reported
	full.CacheWrite1h, full.Reasoning, full.Cost, full.Evidence = new(int64(5)), new(int64(40)), price, usage.Reported(usage.API, usage.Complete).WithPrice(usage.APIRates)
	free := reported
	free.Evidence = usage.Reported(usage.Other, usage.Partial)
	var lines strings.Builder
	for _, u := range []usage.Usage{usage.Zero(), usage.Unknown(usage.API), usage.Unknown(usage.ChatGPTPlan), free, full, full.Add(free)} {
		lines.WriteString(encode(u) + "\n")
		roundTrip(t, u)
	}
	coretest.Golden(t, "usage.jsonl", []byte(lines.String()), *update)
}

func FuzzDecode(f *testing.F) {
	if seeds, err := os.ReadFile("testdata/usage.jsonl"); err == nil {
		for line := range strings.Lines(string(seeds)) {
			f.Add([]byte(line))
		}
	}
	f.Add([]byte(record(counts, costs)))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := jsonv.Parse(text)
		if err != nil {
			return
		}
		u, err := usage.Decode(v)
		if err != nil {
			if r, ok := corrupt.As(err); !ok || len(r.Error()) > 20_000 {
				t.Fatalf("%T: %.200v", err, err)
			}
			return
		}
		roundTrip(t, u)
	})
}
