package price_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/internal/cases"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/anthropic"
	"github.com/loom-run/loom/provider/dialect/dialecttest"
	"github.com/loom-run/loom/provider/gemini"
	"github.com/loom-run/loom/provider/openaichat"
	"github.com/loom-run/loom/provider/openairesponses"
	"github.com/loom-run/loom/provider/price"
	"github.com/loom-run/loom/provider/remote"
)

func dollars(literal string) usage.Amount {
	v, err := jsonv.ParseString(literal)
	if err != nil {
		panic(err)
	}
	a, ok := usage.ParseAmount(v)
	if !ok {
		panic(literal)
	}
	return a
}

func rate(literal string) *usage.Amount { return new(dollars(literal)) }

var complete = usage.Reported(usage.API, usage.Complete)

func TestEachBucketHasItsPrice(t *testing.T) {
	card := &price.Card{
		Rates: price.Rates{Input: dollars("3"), Output: dollars("15"), CacheRead: rate("0.3"), CacheWrite: rate("3.75"), CacheWrite1h: rate("6")},
		Tiers: []price.Tier{{Above: 400_000, Rates: price.Rates{Input: dollars("12"), Output: dollars("45")}}, {Above: 200_000, Rates: price.Rates{Input: dollars("6"), Output: dollars("22.5")}}},
	}
	bare := &price.Card{Rates: price.Rates{Input: dollars("2"), Output: dollars("8")}}
	for name, c := range map[string]struct {
		card *price.Card
		use  usage.Usage
		want string
	}{
		"input and output":                        {card, usage.Usage{Input: 1000, Output: 100}, "0.0045"},
		"reasoning is output already":             {card, usage.Usage{Output: 100, Reasoning: new(int64(90))}, "0.0015"},
		"what the cache gave":                     {card, usage.Usage{CacheRead: 10_000}, "0.003"},
		"what was written to it":                  {card, usage.Usage{CacheWrite: 10_000}, "0.0375"},
		"and for an hour":                         {card, usage.Usage{CacheWrite: 10_000, CacheWrite1h: new(int64(10_000))}, "0.06"},
		"two lifetimes":                           {card, usage.Usage{CacheWrite: 10_000, CacheWrite1h: new(int64(4000))}, "0.0465"},
		"at the edge of a tier":                   {card, usage.Usage{Input: 100_000, CacheRead: 100_000}, "0.33"},
		"a tier is of the whole request":          {card, usage.Usage{Input: 100_001, CacheRead: 100_000, Output: 1}, "1.2000285"},
		"the highest tier that is passed":         {card, usage.Usage{Input: 400_001}, "4.800012"},
		"cached tokens cost like input by itself": {bare, usage.Usage{Input: 1, CacheRead: 1, CacheWrite: 1, CacheWrite1h: new(int64(1))}, "0.000006"},
		"rates of zero are a price":               {&price.Card{}, usage.Usage{Input: 5}, "0.0"},
	} {
		c.use.Evidence = complete
		got := c.card.Price(c.use)
		if got.Cost.Total.Literal() != c.want {
			t.Errorf("%s: %s, want %s", name, got.Cost.Total.Literal(), c.want)
		}
		if coverage, basis, priced := got.Evidence.Price(); !priced || coverage != usage.Complete || basis != usage.APIRates {
			t.Errorf("%s: evidence %v", name, got.Evidence)
		}
	}
}

func TestWhatIsNotKnownHasNoPrice(t *testing.T) {
	card := &price.Card{Rates: price.Rates{Input: dollars("3"), Output: dollars("15")}}
	for name, u := range map[string]usage.Usage{
		"nothing was reported":   usage.Unknown(usage.API),
		"no provider was called": usage.Zero(),
	} {
		if got := card.Price(u); got != u {
			t.Errorf("%s: %+v", name, got)
		}
	}
	var none *price.Card
	if got := none.Price(usage.Usage{Input: 5, Evidence: complete}); !got.Cost.Total.IsZero() || got.Evidence != complete {
		t.Errorf("without a card: %+v", got)
	}
	part := card.Price(usage.Usage{Input: 1_000_000, Evidence: usage.Reported(usage.API, usage.Partial)})
	if coverage, _, _ := part.Evidence.Price(); coverage != usage.Partial || part.Cost.Total.Literal() != "3.0" {
		t.Errorf("a report in part: %+v", part)
	}
}

func TestPricesAreExactAndDoNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		micros := func(name string) usage.Amount { return usage.Micros(rapid.Int64Range(0, 100_000_000).Draw(t, name)) }
		card := &price.Card{Rates: price.Rates{Input: micros("input"), Output: micros("output"), CacheRead: new(micros("read")), CacheWrite: new(micros("write"))}}
		draw := func(name string) int64 { return rapid.Int64Range(0, 3_000_000).Draw(t, name) }
		var rows []usage.Usage
		for range rapid.IntRange(1, 6).Draw(t, "rows") {
			rows = append(rows, card.Price(usage.Usage{Input: draw("i"), Output: draw("o"), CacheRead: draw("r"), CacheWrite: draw("w"), Evidence: complete}))
		}
		var sum, turned, tokens usage.Usage
		for i := range rows {
			sum, turned = sum.Add(rows[i]), turned.Add(rows[len(rows)-1-i])
			tokens = tokens.Add(usage.Usage{Input: rows[i].Input, Output: rows[i].Output, CacheRead: rows[i].CacheRead, CacheWrite: rows[i].CacheWrite, Evidence: complete})
		}
		if sum != turned || sum.Cost.Total.Literal() != card.Price(tokens).Cost.Total.Literal() {
			t.Fatalf("%s, %s, and %s for the tokens together", sum.Cost.Total.Literal(), turned.Cost.Total.Literal(), card.Price(tokens).Cost.Total.Literal())
		}
	})
}

// TestRecordedReportsHaveTheirPrices reads reports of every dialect, whose buckets mean different things, and prices them.
func TestRecordedReportsHaveTheirPrices(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(cases.Dir(t), "bugs", "27.input", "usage.json"))
	if err != nil {
		t.Fatal(err)
	}
	var reports []struct {
		Dialect string                 `json:"dialect"`
		Raw     json.RawMessage        `json:"raw"`
		PerM    map[string]json.Number `json:"prices_per_M"`
		Expect  struct {
			Context *int64       `json:"context_tokens"`
			Cost    *json.Number `json:"cost"`
		} `json:"expect"`
	}
	if err := json.Unmarshal(raw, &reports); err != nil {
		t.Fatal(err)
	}
	for i, r := range reports {
		var d remote.Dialect
		var body []byte
		var line bytes.Buffer
		if err := json.Compact(&line, r.Raw); err != nil {
			t.Fatal(err)
		}
		r.Raw = line.Bytes()
		switch r.Dialect {
		case "anthropic":
			d = anthropic.New()
			body = dialecttest.Stream(`{"type":"message_start","message":{"id":"m","content":[],"usage":`+string(r.Raw)+`}}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":`+string(r.Raw)+`}`, `{"type":"message_stop"}`)
		case "openai-chat":
			d = openaichat.New()
			body = dialecttest.Stream(`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"usage":` + string(r.Raw) + `}`)
		case "openai-responses":
			d = openairesponses.New()
			body = dialecttest.Stream(`{"type":"response.completed","response":{"status":"completed","usage":` + string(r.Raw) + `}}`)
		case "gemini":
			d = gemini.New()
			body = dialecttest.Stream(`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"usageMetadata":` + string(r.Raw) + `}`)
		default:
			t.Fatalf("the dialect %s", r.Dialect)
		}
		a := dialecttest.Fold(d, provider.Request{}, body)
		if a.Failure != nil {
			t.Fatal(a.Failure)
		}
		card := &price.Card{Rates: price.Rates{Input: dollars(string(r.PerM["in"])), Output: dollars(string(r.PerM["out"]))}}
		if p, ok := r.PerM["cache_read"]; ok {
			card.Rates.CacheRead = rate(string(p))
		}
		if p, ok := r.PerM["cache_write"]; ok {
			card.Rates.CacheWrite = rate(string(p))
		}
		u := card.Price(a.Settled.Usage)
		if r.Expect.Cost == nil {
			if _, _, priced := u.Evidence.Price(); priced {
				t.Errorf("report %d: a price out of nothing", i)
			}
			continue
		}
		if want := dollars(string(*r.Expect.Cost)); u.Cost.Total.Cmp(want) != 0 {
			t.Errorf("report %d: %s, want %s", i, u.Cost.Total.Literal(), want.Literal())
		}
		if got := u.Input + u.CacheRead + u.CacheWrite; got != *r.Expect.Context {
			t.Errorf("report %d: a context of %d, want %d", i, got, *r.Expect.Context)
		}
	}
	if !strings.Contains(string(raw), "gemini") {
		t.Error("the reports are other ones")
	}
}
