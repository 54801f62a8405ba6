package usage

import (
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
)

// Billing is the arrangement under which a provider was called.
type Billing string

// The closed set of arrangements. Other is an unknown arrangement or a mix.
const (
	API         Billing = "api"
	ChatGPTPlan Billing = "chatgpt-plan"
	Other       Billing = "other"
)

// Coverage says whether an observation covers all of what it is about.
type Coverage string

// The two coverages.
const (
	Partial  Coverage = "partial"
	Complete Coverage = "complete"
)

// Basis says which rates a price was computed with.
type Basis string

// The closed set of bases.
const (
	APIRates              Basis = "api-rates"
	ChatGPTReferenceRates Basis = "chatgpt-reference-rates"
	MixedRates            Basis = "mixed-rates"
)

// Evidence says what is known about a usage record. Its fields are private so
// that the impossible does not construct: only reported tokens have a price,
// only a remote call has a billing arrangement. The zero Evidence is
// [NoProvider], the identity of [Evidence.Add].
type Evidence struct {
	billing Billing // "" means that no provider was contacted
	tokens  Coverage
	price   Coverage
	basis   Basis
}

// NoProvider is the evidence of work that contacted no provider.
func NoProvider() Evidence { return Evidence{} }

// Unreported is a remote call that reported no usage.
func Unreported(b Billing) Evidence { return Evidence{billing: known(b)} }

// Reported is a remote call whose tokens are known, completely or in part.
func Reported(b Billing, tokens Coverage) Evidence {
	return Evidence{billing: known(b), tokens: both(tokens, tokens)}
}

// known makes any word one of the closed set: what nobody knows is Other.
func known(b Billing) Billing {
	switch b {
	case API, ChatGPTPlan:
		return b
	case Other:
	}
	return Other
}

// WithPrice records that reported tokens were priced, by the rates of basis. It
// changes nothing where no tokens were reported. Configured rates of zero are a
// price; a missing rate card is not.
func (e Evidence) WithPrice(basis Basis) Evidence {
	if e.tokens == "" {
		return e
	}
	e.price, e.basis = e.tokens, MixedRates
	switch basis {
	case APIRates, ChatGPTReferenceRates:
		e.basis = basis
	case MixedRates:
	}
	return e
}

// Billing returns the arrangement; ok is false when no provider was contacted.
func (e Evidence) Billing() (b Billing, ok bool) { return e.billing, e.billing != "" }

// Tokens returns how far the tokens are known; ok is false for a remote call
// that reported none and for [NoProvider].
func (e Evidence) Tokens() (c Coverage, ok bool) { return e.tokens, e.tokens != "" }

// Price returns how far the tokens are priced, and by which rates.
func (e Evidence) Price() (c Coverage, basis Basis, ok bool) { return e.price, e.basis, e.price != "" }

// Add combines the evidence of two disjoint records. It is commutative and
// associative, and [NoProvider] is its identity: a sum says the same in whatever
// order its parts came. What any part lacks, the sum has in part.
func (e Evidence) Add(o Evidence) Evidence {
	switch {
	case e.billing == "":
		return o
	case o.billing == "":
		return e
	}
	sum := Evidence{billing: e.billing}
	if e.billing != o.billing {
		sum.billing = Other
	}
	if e.tokens == "" && o.tokens == "" {
		return sum
	}
	sum.tokens = both(e.tokens, o.tokens)
	if e.price == "" && o.price == "" {
		return sum
	}
	sum.price = both(e.price, o.price)
	sum.basis = e.basis
	switch {
	case e.price == "":
		sum.basis = o.basis
	case o.price != "" && o.basis != e.basis:
		sum.basis = MixedRates
	}
	return sum
}

// both is Complete only if both are: absent counts as partly covered.
func both(a, b Coverage) Coverage {
	if a == Complete && b == Complete {
		return Complete
	}
	return Partial
}

const evidenceBoundary = "usage.DecodeEvidence"

// appendEvidence writes the shape that every build has written: the local
// identity is spelt as a billing and as a cost.
func appendEvidence(w *jsonv.Writer, e Evidence) {
	w.Begin()
	w.Num("version", 1)
	switch {
	case e.billing == "":
		w.Str("tokens", "complete")
		w.Str("billing", "no-provider")
	case e.tokens == "":
		w.Str("tokens", "unknown")
		w.Str("billing", string(e.billing))
	default:
		w.Str("tokens", string(e.tokens))
		w.Str("billing", string(e.billing))
	}
	w.Name("cost")
	w.Begin()
	switch {
	case e.billing == "":
		w.Str("kind", "no-expense")
	case e.price == "":
		w.Str("kind", "unavailable")
	default:
		w.Str("kind", "estimated")
		w.Str("coverage", string(e.price))
		w.Str("basis", string(e.basis))
	}
	w.End()
	w.End()
}

// DecodeEvidence accepts exactly the combinations that the type expresses.
func DecodeEvidence(v jsonv.Value) (Evidence, error) {
	r := jsonv.Read(v, evidenceBoundary)
	r.Exact("version", "tokens", "billing", "cost")
	version, tokens, billing := r.Num("version"), r.Str("tokens"), r.Str("billing")
	cost := jsonv.One(r, "cost", decodeCostEvidence)
	if err := r.Err(); err != nil {
		return Evidence{}, err
	}
	refuse := func(expected string) (Evidence, error) {
		return Evidence{}, corrupt.New(evidenceBoundary, "evidence", expected, v.String())
	}
	if version != 1 {
		return refuse("version 1")
	}
	if billing == "no-provider" {
		if tokens != "complete" || cost.kind != "no-expense" {
			return refuse("complete tokens and no expense where no provider was called")
		}
		return NoProvider(), nil
	}
	e := Evidence{billing: Billing(billing)}
	switch billing {
	case "mixed": // written by earlier builds
		e.billing = Other
	case string(API), string(ChatGPTPlan), string(Other):
	default:
		return refuse("a known billing arrangement")
	}
	switch tokens {
	case "unknown":
	case string(Partial), string(Complete):
		e.tokens = Coverage(tokens)
	default:
		return refuse("a known token coverage")
	}
	switch {
	case cost.kind == "unavailable":
		return e, nil
	case cost.kind == "no-expense":
		return refuse("an expense where a provider was called")
	case e.tokens == "":
		return refuse("no estimate of unknown tokens")
	case e.tokens == Partial && cost.coverage == Complete:
		return refuse("a partial estimate of partial tokens")
	}
	e.price, e.basis = cost.coverage, cost.basis
	return e, nil
}

type costEvidence struct {
	kind     string
	coverage Coverage
	basis    Basis
}

func decodeCostEvidence(v jsonv.Value) (costEvidence, error) {
	r := jsonv.Read(v, evidenceBoundary)
	c := costEvidence{kind: r.Str("kind")}
	switch c.kind {
	case "no-expense", "unavailable":
		r.Exact("kind")
	case "estimated":
		r.Exact("kind", "coverage", "basis")
		c.coverage, c.basis = Coverage(r.Str("coverage")), Basis(r.Str("basis"))
		if c.coverage != Partial && c.coverage != Complete {
			r.Fail("coverage", "partial or complete", v)
		}
		if c.basis != APIRates && c.basis != ChatGPTReferenceRates && c.basis != MixedRates {
			r.Fail("basis", "a known basis", v)
		}
	default:
		r.Fail("kind", "a known cost kind", v)
	}
	return c, r.Err()
}
