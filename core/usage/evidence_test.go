package usage_test

import (
	"fmt"
	"testing"

	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
)

// model is evidence as the specification words it: "" stands for what is absent.
type model struct{ billing, tokens, price, basis string }

var none = model{}

func (m model) text() string {
	tokens, billing, cost := m.tokens, m.billing, `{"kind":"unavailable"}`
	switch {
	case m == none:
		tokens, billing, cost = "complete", "no-provider", `{"kind":"no-expense"}`
	case tokens == "":
		tokens = "unknown"
	case m.price != "":
		cost = fmt.Sprintf(`{"kind":"estimated","coverage":%q,"basis":%q}`, m.price, m.basis)
	}
	return fmt.Sprintf(`{"version":1,"tokens":%q,"billing":%q,"cost":%s}`, tokens, billing, cost)
}

// everything lists all values that the model expresses.
func everything() []model {
	all := []model{none}
	for _, billing := range []string{"api", "chatgpt-plan", "other"} {
		all = append(all, model{billing: billing})
		for _, tokens := range []string{"partial", "complete"} {
			all = append(all, model{billing: billing, tokens: tokens})
			for _, price := range []string{"partial", "complete"} {
				if tokens == "partial" && price == "complete" {
					continue
				}
				for _, basis := range []string{"api-rates", "chatgpt-reference-rates", "mixed-rates"} {
					all = append(all, model{billing, tokens, price, basis})
				}
			}
		}
	}
	return all
}

// add is the rule of addition, case by case.
func (m model) add(o model) model {
	if m == none {
		return o
	}
	if o == none {
		return m
	}
	sum := model{billing: m.billing}
	if m.billing != o.billing {
		sum.billing = "other"
	}
	demoted := func(x model) model {
		sum.tokens = "partial"
		if x.price != "" {
			sum.price, sum.basis = "partial", x.basis
		}
		return sum
	}
	switch {
	case m.tokens == "" && o.tokens == "":
		return sum
	case m.tokens == "":
		return demoted(o)
	case o.tokens == "":
		return demoted(m)
	}
	sum.tokens = "partial"
	if m.tokens == "complete" && o.tokens == "complete" {
		sum.tokens = "complete"
	}
	switch {
	case m.price == "" && o.price == "":
	case m.price == "":
		sum.price, sum.basis = "partial", o.basis
	case o.price == "":
		sum.price, sum.basis = "partial", m.basis
	default:
		sum.price, sum.basis = "partial", "mixed-rates"
		if m.price == "complete" && o.price == "complete" {
			sum.price = "complete"
		}
		if m.basis == o.basis {
			sum.basis = m.basis
		}
	}
	return sum
}

func decodeEvidence(t testing.TB, text string) usage.Evidence {
	t.Helper()
	e, err := usage.DecodeEvidence(parse(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// stored returns the stored text of an evidence.
func stored(e usage.Evidence) string {
	var w jsonv.Writer
	usage.Append(&w, usage.Usage{Evidence: e})
	v, _ := w.Tree().Get("evidence")
	return v.String()
}

func TestEveryEvidenceReadsBackAsItWasWritten(t *testing.T) {
	all := everything()
	if len(all) != 37 {
		t.Fatalf("the model has %d values", len(all))
	}
	for _, m := range all {
		e := decodeEvidence(t, m.text())
		if got := stored(e); got != m.text() {
			t.Errorf("%s is written as %s", m.text(), got)
		}
		b, remote := e.Billing()
		tokens, reported := e.Tokens()
		price, basis, priced := e.Price()
		if got := (model{string(b), string(tokens), string(price), string(basis)}); got != m {
			t.Errorf("%v reads as %v", m, got)
		}
		if remote != (m.billing != "") || reported != (m.tokens != "") || priced != (m.price != "") {
			t.Errorf("%v: remote %v, reported %v, priced %v", m, remote, reported, priced)
		}
	}
}

func TestOnlyTheExpressibleCombinationsAreEvidence(t *testing.T) {
	legal := map[string]bool{}
	for _, m := range everything() {
		legal[m.text()] = true
	}
	accepted := 0
	for _, tokens := range []string{"unknown", "partial", "complete", "none", ""} {
		for _, billing := range []string{"no-provider", "api", "chatgpt-plan", "other", "API", ""} {
			costs := []string{`{"kind":"no-expense"}`, `{"kind":"unavailable"}`, `{"kind":"free"}`, `{}`, `{"kind":"estimated"}`}
			for _, coverage := range []string{"partial", "complete", "unknown"} {
				for _, basis := range []string{"api-rates", "chatgpt-reference-rates", "mixed-rates", "list-price"} {
					costs = append(costs, fmt.Sprintf(`{"kind":"estimated","coverage":%q,"basis":%q}`, coverage, basis))
				}
			}
			for _, cost := range costs {
				text := fmt.Sprintf(`{"version":1,"tokens":%q,"billing":%q,"cost":%s}`, tokens, billing, cost)
				_, err := usage.DecodeEvidence(parse(t, text))
				if (err == nil) != legal[text] {
					t.Errorf("%s: %v", text, err)
				}
				if _, ok := corrupt.As(err); err != nil && !ok {
					t.Errorf("%s: %T is no report", text, err)
				}
				if err == nil {
					accepted++
				}
			}
		}
	}
	if accepted != len(legal) {
		t.Errorf("%d of %d were met", accepted, len(legal))
	}
}

func TestMalformedEvidenceIsRefused(t *testing.T) {
	for _, text := range []string{
		`null`, `[]`, `"api"`, `{}`,
		`{"version":2,"tokens":"complete","billing":"api","cost":{"kind":"unavailable"}}`,
		`{"version":1.0,"tokens":"complete","billing":"api","cost":{"kind":"unavailable"}}`,
		`{"version":"1","tokens":"complete","billing":"api","cost":{"kind":"unavailable"}}`,
		`{"tokens":"complete","billing":"api","cost":{"kind":"unavailable"}}`,
		`{"version":1,"billing":"api","cost":{"kind":"unavailable"}}`,
		`{"version":1,"tokens":"complete","cost":{"kind":"unavailable"}}`,
		`{"version":1,"tokens":"complete","billing":"api"}`,
		`{"version":1,"tokens":"complete","billing":"api","cost":null}`,
		`{"version":1,"tokens":"complete","billing":"api","cost":{"kind":"unavailable"},"note":""}`,
		`{"version":1,"tokens":"complete","billing":"api","cost":{"kind":"unavailable","basis":"api-rates"}}`,
		`{"version":1,"tokens":"complete","billing":"no-provider","cost":{"kind":"no-expense","coverage":"complete"}}`,
		`{"version":1,"tokens":"complete","billing":"api","cost":{"kind":"estimated","coverage":"complete","basis":"api-rates","rate":1}}`,
		`{"version":1,"tokens":null,"billing":"api","cost":{"kind":"unavailable"}}`,
		`{"version":1,"tokens":"complete","billing":"mixed","cost":{"kind":"no-expense"}}`,
	} {
		e, err := usage.DecodeEvidence(parse(t, text))
		if r, ok := corrupt.As(err); !ok || e != (usage.Evidence{}) {
			t.Errorf("%s reads as %v, %v (%v)", text, e, err, r)
		}
	}
}

func TestAdditionFollowsTheRuleForEveryPair(t *testing.T) {
	for _, a := range everything() {
		for _, b := range everything() {
			got := stored(decodeEvidence(t, a.text()).Add(decodeEvidence(t, b.text())))
			if want := a.add(b).text(); got != want {
				t.Errorf("%s + %s = %s, want %s", a.text(), b.text(), got, want)
			}
		}
	}
}

func TestAdditionOfEvidenceIsACommutativeMonoid(t *testing.T) {
	var all []usage.Evidence
	for _, m := range everything() {
		all = append(all, decodeEvidence(t, m.text()))
	}
	for _, a := range all {
		if a.Add(usage.NoProvider()) != a || usage.NoProvider().Add(a) != a {
			t.Errorf("%s: the local identity changes it", stored(a))
		}
		for _, b := range all {
			if a.Add(b) != b.Add(a) {
				t.Errorf("%s and %s: the order matters", stored(a), stored(b))
			}
			for _, c := range all {
				if a.Add(b).Add(c) != a.Add(b.Add(c)) {
					t.Fatalf("%s, %s, %s: the grouping matters", stored(a), stored(b), stored(c))
				}
			}
		}
	}
}

func TestConstructorsReachOnlyWhatIsExpressible(t *testing.T) {
	legal := map[string]bool{}
	for _, m := range everything() {
		legal[m.text()] = true
	}
	words := []string{"", "api", "chatgpt-plan", "other", "mixed", "partial", "complete", "unknown", "api-rates", "chatgpt-reference-rates", "mixed-rates", "no-provider"}
	for _, b := range words {
		for _, c := range words {
			for _, basis := range words {
				for _, e := range []usage.Evidence{
					usage.NoProvider().WithPrice(usage.Basis(basis)), usage.Unreported(usage.Billing(b)).WithPrice(usage.Basis(basis)),
					usage.Reported(usage.Billing(b), usage.Coverage(c)), usage.Reported(usage.Billing(b), usage.Coverage(c)).WithPrice(usage.Basis(basis)),
				} {
					if !legal[stored(e)] {
						t.Errorf("%q, %q, %q: %s", b, c, basis, stored(e))
					}
				}
			}
		}
	}
	if usage.Unreported(usage.API).WithPrice(usage.APIRates) != usage.Unreported(usage.API) {
		t.Error("unreported tokens have a price")
	}
	if c, _ := usage.Reported(usage.API, "unheard of").Tokens(); c != usage.Partial {
		t.Error("an unknown coverage counts as complete")
	}
}

func TestGeneratedEvidenceReachesEveryValue(t *testing.T) {
	met := map[string]bool{}
	for seed := range 2000 {
		met[stored(coretest.Evidence().Example(seed))] = true
	}
	for _, m := range everything() {
		if !met[m.text()] {
			t.Errorf("%s was never generated", m.text())
		}
	}
}
