package usage

import (
	"math/big"
	"strings"

	"github.com/loom-run/loom/core/jsonv"
)

// Amount is an exact decimal number of US dollars. An amount read from a row
// keeps the literal it was written with, so that the row re-encodes byte for
// byte; a computed one has the shortest plain form with a decimal point. The
// zero Amount is 0.0.
type Amount struct{ lit string }

// ParseAmount reads a JSON number. Integer literals are accepted: earlier
// writers wrote 0 for a free request, and that text is kept too.
func ParseAmount(v jsonv.Value) (Amount, bool) {
	lit, ok := v.Literal()
	if !ok || tooFine(lit) {
		return Amount{}, false
	}
	return Amount{lit}, true
}

// tooFine refuses exponents that no price has: a double can hold 1e-300, and a
// sum with it would carry 300 digits for ever.
func tooFine(lit string) bool {
	_, exp, ok := strings.Cut(strings.ToLower(lit), "e")
	if !ok {
		return len(lit) > 400
	}
	exp = strings.TrimLeft(strings.TrimLeft(exp, "+-"), "0")
	return len(exp) > 3 || len(lit) > 400
}

// Micros is an amount of n millionths of a dollar.
func Micros(n int64) Amount { return fromRat(big.NewRat(n, 1_000_000)) }

// Literal returns the JSON number.
func (a Amount) Literal() string {
	if a.lit == "" {
		return "0.0"
	}
	return a.lit
}

// IsZero reports whether the amount is exactly zero.
func (a Amount) IsZero() bool { return a.rat().Sign() == 0 }

// Sign returns -1, 0 or 1.
func (a Amount) Sign() int { return a.rat().Sign() }

// Cmp compares two amounts.
func (a Amount) Cmp(b Amount) int { return a.rat().Cmp(b.rat()) }

// Add returns the exact sum. Sums do not depend on the order of addition.
func (a Amount) Add(b Amount) Amount {
	switch {
	case a.lit == "" || a.IsZero():
		return b.canonical()
	case b.lit == "" || b.IsZero():
		return a.canonical()
	}
	return fromRat(new(big.Rat).Add(a.rat(), b.rat()))
}

// MicroDollars rounds the amount half away from zero to millionths of a dollar;
// ok is false when that does not fit 64 bits.
func (a Amount) MicroDollars() (n int64, ok bool) {
	r := new(big.Rat).Mul(a.rat(), big.NewRat(1_000_000, 1))
	num := new(big.Int).Mul(r.Num(), big.NewInt(2))
	if r.Sign() >= 0 {
		num.Add(num, r.Denom())
	} else {
		num.Sub(num, r.Denom())
	}
	q := num.Quo(num, new(big.Int).Mul(r.Denom(), big.NewInt(2)))
	return q.Int64(), q.IsInt64()
}

func (a Amount) canonical() Amount {
	if a.lit == "" {
		return a
	}
	return fromRat(a.rat())
}

func (a Amount) rat() *big.Rat {
	if a.lit == "" {
		return new(big.Rat)
	}
	r, ok := new(big.Rat).SetString(a.lit)
	if !ok {
		return new(big.Rat) // not reachable: literals were parsed as JSON numbers
	}
	return r
}

// fromRat renders a decimal fraction, which every sum and product of decimal
// literals is, without rounding.
func fromRat(r *big.Rat) Amount {
	if r.Sign() == 0 {
		return Amount{}
	}
	digits, _ := r.FloatPrec()
	return Amount{r.FloatString(max(digits, 1))}
}
