package usage_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
	"pgregory.net/rapid"
)

func parse(t testing.TB, text string) jsonv.Value {
	t.Helper()
	v, err := jsonv.ParseString(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func amount(t testing.TB, literal string) usage.Amount {
	t.Helper()
	a, ok := usage.ParseAmount(parse(t, literal))
	if !ok {
		t.Fatalf("%.60s is no amount", literal)
	}
	return a
}

func sum(amounts ...usage.Amount) (total usage.Amount) {
	for _, a := range amounts {
		total = total.Add(a)
	}
	return total
}

// places is the scale of the oracle: an amount is a whole number of 10^-places dollars.
const places = 12

// plain is the oracle's text of n units.
func plain(n *big.Int) string {
	digits := new(big.Int).Abs(n).String()
	digits = strings.Repeat("0", max(0, places+1-len(digits))) + digits
	whole, fraction := digits[:len(digits)-places], strings.TrimRight(digits[len(digits)-places:], "0")
	if fraction == "" {
		fraction = "0"
	}
	if n.Sign() < 0 {
		whole = "-" + whole
	}
	return whole + "." + fraction
}

func TestSumsAreExactAndDoNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		units := rapid.SliceOfN(rapid.OneOf(rapid.Int64(), rapid.Int64Range(-1000, 1000)), 1, 12).Draw(rt, "units")
		var amounts []usage.Amount
		total := new(big.Int)
		for _, n := range units {
			amounts = append(amounts, amount(t, plain(big.NewInt(n))))
			total.Add(total, big.NewInt(n))
		}
		want := plain(total)
		for range 3 {
			if got := sum(amounts...).Literal(); got != want {
				rt.Fatalf("the sum of %v is %s, want %s", amounts, got, want)
			}
			shuffle := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
			shuffle.Shuffle(len(amounts), func(i, j int) { amounts[i], amounts[j] = amounts[j], amounts[i] })
		}
	})
	ten := make([]usage.Amount, 10)
	for i := range ten {
		ten[i] = amount(t, "0.1")
	}
	if got := sum(ten...).Literal(); got != "1.0" { // 0.9999999999999999 in doubles
		t.Errorf("ten times 0.1 is %s", got)
	}
}

func TestAdditionIsAssociativeForEveryNotation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := coretest.SignedAmount()
		a, b, c := g.Draw(t, "a"), g.Draw(t, "b"), g.Draw(t, "c")
		left, right, turned := a.Add(b).Add(c), a.Add(b.Add(c)), c.Add(b).Add(a)
		if left.Literal() != right.Literal() || left.Literal() != turned.Literal() {
			t.Fatalf("%s, %s, %s", left.Literal(), right.Literal(), turned.Literal())
		}
		zero := usage.Amount{}
		if a.Add(zero).Cmp(a) != 0 || zero.Add(a).Literal() != a.Add(zero).Literal() {
			t.Fatalf("%s with nothing added: %s, %s", a.Literal(), a.Add(zero).Literal(), zero.Add(a).Literal())
		}
		if a.IsZero() != (a.Sign() == 0) || a.Cmp(zero) != a.Sign() {
			t.Fatalf("%s: zero %v, sign %d", a.Literal(), a.IsZero(), a.Sign())
		}
	})
}

func TestAmountsKeepTheirLiteral(t *testing.T) {
	for _, lit := range []string{"0", "0.0", "-0.0", "3", "12.50", "1.0e-5", "2.5E-7", "1e2", "0.00125", "5e-324", "1e99", "-7.25", strings.Repeat("9", 100)} {
		a := amount(t, lit)
		if a.Literal() != lit {
			t.Errorf("%s became %s", lit, a.Literal())
		}
		if !jsonv.Value.Equal(parse(t, lit), parse(t, a.Literal())) {
			t.Errorf("%s is another number", lit)
		}
	}
	if got := (usage.Amount{}).Literal(); got != "0.0" {
		t.Errorf("nothing is %s", got)
	}
}

func TestSumsHaveThePlainForm(t *testing.T) {
	for _, c := range []struct {
		parts []string
		want  string
	}{
		{[]string{"1.0e-5"}, "0.00001"}, {[]string{"0"}, "0.0"}, {[]string{"-0.0"}, "0.0"}, {[]string{"1e2", "0"}, "100.0"}, {[]string{"12.50", "0"}, "12.5"},
		{[]string{"0.1", "0.2"}, "0.3"}, {[]string{"1.5", "-1.5"}, "0.0"}, {[]string{"-0.25", "-1e-3"}, "-0.251"}, {[]string{"9223372036854775807", "1"}, "9223372036854775808.0"},
	} {
		var got usage.Amount
		for _, p := range c.parts {
			got = got.Add(amount(t, p))
		}
		if got.Literal() != c.want {
			t.Errorf("%v: %s, want %s", c.parts, got.Literal(), c.want)
		}
	}
}

func TestEveryDoubleThatAPriceCanBeIsAnAmount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.OneOf(rapid.Float64Range(-1e99, 1e99), rapid.Float64Range(0, 1e-300), rapid.Float64Range(0, 10)).Draw(t, "dollars")
		a, ok := usage.ParseAmount(jsonv.FloatNum(f))
		if !ok {
			t.Fatalf("%v is no amount", f)
		}
		again, ok := usage.ParseAmount(jsonv.FloatNum(math.SmallestNonzeroFloat64))
		if !ok {
			t.Fatal("the smallest double is no amount")
		}
		if s := a.Add(again).Literal(); len(s) > 600 {
			t.Fatalf("%d characters", len(s))
		}
	})
}

func TestSumsCanBeStoredAgain(t *testing.T) {
	nines := strings.Repeat("9", 100)
	extremes := []usage.Amount{usage.Micros(math.MaxInt64), usage.Micros(math.MinInt64)}
	for _, lit := range []string{nines, "-" + nines, nines + "." + nines, "9e99", "-9e99", "5e-324", nines + "." + strings.Repeat("9", 400)} {
		extremes = append(extremes, amount(t, lit))
	}
	rapid.Check(t, func(t *rapid.T) {
		g := rapid.OneOf(coretest.SignedAmount(), rapid.SampledFrom(extremes))
		s := sum(rapid.SliceOfN(g, 0, 6).Draw(t, "amounts")...)
		v, err := jsonv.ParseString(s.Literal())
		if err != nil {
			t.Fatal(err)
		}
		if again, ok := usage.ParseAmount(v); !ok || again.Literal() != s.Literal() {
			t.Fatalf("%s does not read back", s.Literal())
		}
	})
}

func TestSumsStopAtTheGreatestAmount(t *testing.T) {
	nines := strings.Repeat("9", 100)
	greatest := nines + "." + strings.Repeat("9", 400)
	for _, c := range []struct{ a, b, want string }{
		{nines, "0", nines + ".0"}, {nines, "0.5", nines + ".5"}, {nines, "1", greatest}, {nines, nines, greatest}, {greatest, greatest, greatest}, {greatest, "-1e99", "8" + greatest[1:]},
		{"-" + nines, "-1", "-" + greatest}, {"-" + nines, "1", "-" + nines[1:] + "8.0"}, {nines, "-" + nines, "0.0"},
	} {
		if got := amount(t, c.a).Add(amount(t, c.b)).Literal(); got != c.want {
			t.Errorf("%.120s and %.120s: %.120s…, want %.120s…", c.a, c.b, got, c.want)
		}
	}
}

// What is refused here would, as a number, take gigabytes or a sum that never ends.
func TestHostileLiteralsAreNoAmounts(t *testing.T) {
	zeros := strings.Repeat("0", 1_000_000)
	for _, lit := range []string{
		"1e-999999999", "1e-9999999999999999999999999", "0e9223372036854775807", "0e-9223372036854775807", "0.00e9223372036854775807", "0e999999999", "0.0e-999999999", "1e-401", "1e100", "1" + strings.Repeat("0", 100), "1" + zeros,
		"0." + zeros + "1", "1." + strings.Repeat("1", 401), "1e-" + zeros + "1", "-1e-1000", "1e300",
	} {
		if a, ok := usage.ParseAmount(parse(t, lit)); ok {
			t.Errorf("%.40s was taken as %.40s", lit, a.Literal())
		}
	}
	for _, text := range []string{"null", `"1"`, "true", "[1]", "{}"} {
		if _, ok := usage.ParseAmount(parse(t, text)); ok {
			t.Errorf("%s was taken as an amount", text)
		}
	}
}

func TestThePriceOfTokensIsExact(t *testing.T) {
	for _, c := range []struct {
		rate   string
		tokens int64
		want   string
	}{
		{"3", 1_000_000, "3.0"}, {"3", 1, "0.000003"}, {"6.25", 30_000, "0.1875"}, {"0.1", 3, "0.0000003"}, {"0.075", 7, "0.000000525"},
		{"0", 5, "0.0"}, {"3", 0, "0.0"}, {"1e-6", 1, "0.000000000001"}, {"15", 1_000_000_000_000, "15000000.0"},
	} {
		if got := amount(t, c.rate).PerMillion(c.tokens).Literal(); got != c.want {
			t.Errorf("%d tokens at %s: %s, want %s", c.tokens, c.rate, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		rate := usage.Micros(rapid.Int64Range(0, 1_000_000_000).Draw(t, "rate"))
		n, m := rapid.Int64Range(0, 1_000_000_000).Draw(t, "n"), rapid.Int64Range(0, 1_000_000_000).Draw(t, "m")
		if parts, whole := rate.PerMillion(n).Add(rate.PerMillion(m)), rate.PerMillion(n+m); parts.Cmp(whole) != 0 {
			t.Fatalf("%d and %d at %s: %s in parts, %s together", n, m, rate.Literal(), parts.Literal(), whole.Literal())
		}
	})
}

func TestMicroDollarsRoundHalfAwayFromZero(t *testing.T) {
	for _, c := range []struct {
		literal string
		want    int64
		ok      bool
	}{
		{"0", 0, true}, {"1", 1_000_000, true}, {"0.000001", 1, true}, {"-0.000001", -1, true},
		{"0.0000005", 1, true}, {"0.00000049999999999999999999", 0, true}, {"0.0000015", 2, true}, {"0.0000025", 3, true}, {"1.5e-6", 2, true},
		{"-0.0000005", -1, true}, {"-0.0000004999", 0, true}, {"-2.5e-6", -3, true}, {"5e-324", 0, true},
		{"9223372036854.775807", math.MaxInt64, true}, {"9223372036854.7758074", math.MaxInt64, true}, {"9223372036854.7758075", 0, false},
		{"-9223372036854.775808", math.MinInt64, true}, {"-9223372036854.7758085", 0, false}, {"1e99", 0, false},
	} {
		if got, ok := amount(t, c.literal).MicroDollars(); got != c.want || ok != c.ok {
			t.Errorf("%s: %d, %v; want %d, %v", c.literal, got, ok, c.want, c.ok)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64().Draw(t, "micros")
		if got, ok := usage.Micros(n).MicroDollars(); got != n || !ok {
			t.Fatalf("%d became %d, %v", n, got, ok)
		}
	})
}
