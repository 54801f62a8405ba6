// Package price turns tokens into dollars.
//
// # Purpose
//
// A request is priced once, when it settled, by the card of the route that answered it. What the card does not say is not guessed, and nothing is rounded:
// a token at a decimal price per million costs a decimal fraction.
//
// # Key types
//
// [Card] is the prices of one route: [Rates], and further ones for requests above a size ([Tier]).
//
// # Relationships
//
// Imports core/usage. Imported by provider/route and provider/catalogue.
//
// # Traffic
//
// None.
//
// # Invariants
//
//   - A usage without reported tokens has no price, and one that was reported in part has a price in part.
//   - Rates of zero are a price; an absent card is none.
//   - The total is the sum of the buckets, exactly.
package price

import (
	"slices"

	"github.com/loom-run/loom/core/usage"
)

// Rates are US dollars for a million tokens of each bucket. What is nil costs as much as input, and what is written to a cache for an hour as much as what
// is written to one.
type Rates struct {
	Input, Output         usage.Amount
	CacheRead, CacheWrite *usage.Amount
	CacheWrite1h          *usage.Amount
}

// Tier is the rates of requests whose input, cached or not, has more tokens than Above. They apply to the whole request.
type Tier struct {
	Above int64
	Rates Rates
}

// Card is the prices of one route.
type Card struct {
	Rates Rates
	Tiers []Tier // in any order; the highest one that is passed counts
	// Source and Date say where the prices stand and when they were read there; both are empty for a card that a person wrote.
	Source, Date string
}

// Price returns the usage with its cost and with evidence that it is an estimate at these rates.
func (c *Card) Price(u usage.Usage) usage.Usage {
	if _, reported := u.Evidence.Tokens(); c == nil || !reported {
		return u
	}
	r := c.rates(u)
	or := func(rate *usage.Amount, otherwise usage.Amount) usage.Amount {
		if rate == nil {
			return otherwise
		}
		return *rate
	}
	write := or(r.CacheWrite, r.Input)
	long := int64(0)
	if u.CacheWrite1h != nil {
		long = min(max(*u.CacheWrite1h, 0), u.CacheWrite)
	}
	u.Cost = usage.Cost{
		Input:      r.Input.PerMillion(u.Input),
		Output:     r.Output.PerMillion(u.Output),
		CacheRead:  or(r.CacheRead, r.Input).PerMillion(u.CacheRead),
		CacheWrite: write.PerMillion(u.CacheWrite - long).Add(or(r.CacheWrite1h, write).PerMillion(long)),
	}
	u.Cost.Total = u.Cost.Input.Add(u.Cost.Output).Add(u.Cost.CacheRead).Add(u.Cost.CacheWrite)
	u.Evidence = u.Evidence.WithPrice(usage.APIRates)
	return u
}

// rates chooses by the size of the whole input, as the providers do.
func (c *Card) rates(u usage.Usage) Rates {
	size := u.Input + u.CacheRead + u.CacheWrite
	chosen, above := c.Rates, int64(-1)
	for t := range slices.Values(c.Tiers) {
		if size > t.Above && t.Above > above {
			chosen, above = t.Rates, t.Above
		}
	}
	return chosen
}
