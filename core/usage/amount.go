package usage

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/loom-run/loom/core/jsonv"
)

// Amount is an exact decimal number of US dollars. An amount read from a row
// keeps the literal it was written with, so that the row re-encodes byte for
// byte; a computed one is plain, with a decimal point and no more digits than it
// needs. The zero Amount is 0.0.
type Amount struct{ lit string }

// The bounds of an amount. Every price that earlier writers could write lies
// within, down to the smallest double. A sum has no more decimal places than its
// parts and stops at the greatest amount within, so that it can be stored again.
// What lies outside is hostile and would make sums long and slow.
const (
	maxLiteral        = 1024
	maxIntegerDigits  = 100
	maxFractionDigits = 400
)

// ParseAmount reads a JSON number of at most 100 integer digits and 400 decimal
// places. Integer literals are accepted: earlier writers wrote 0 for a free
// request, and that text is kept too.
func ParseAmount(v jsonv.Value) (Amount, bool) {
	lit, ok := v.Literal()
	if !ok || !bounded(lit) {
		return Amount{}, false
	}
	return Amount{lit}, true
}

// bounded looks at the places of a literal without computing its value: an
// exponent of nine digits is a number with a thousand million of them.
func bounded(lit string) bool {
	if len(lit) > maxLiteral {
		return false
	}
	mantissa, exponent := lit, 0
	if at := strings.IndexAny(lit, "eE"); at >= 0 {
		var err error
		if exponent, err = strconv.Atoi(lit[at+1:]); err != nil || exponent < -maxLiteral || exponent > maxLiteral {
			return false
		}
		mantissa = lit[:at]
	}
	integer, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	return len(integer)+exponent <= maxIntegerDigits && len(fraction)-exponent <= maxFractionDigits
}

// Micros is an amount of n millionths of a dollar.
func Micros(n int64) Amount { return fromRat(big.NewRat(n, microsPerDollar)) }

const microsPerDollar = 1_000_000

// Literal returns the JSON number.
func (a Amount) Literal() string {
	if a.lit == "" {
		return "0.0"
	}
	return a.lit
}

// IsZero reports whether the amount is exactly zero.
func (a Amount) IsZero() bool { return a.Sign() == 0 }

// Sign returns -1, 0 or 1.
func (a Amount) Sign() int { return a.rat().Sign() }

// Cmp compares two amounts by value: -1, 0 or 1.
func (a Amount) Cmp(b Amount) int { return a.rat().Cmp(b.rat()) }

// Add returns the exact sum in the plain form. Sums do not depend on the order
// of addition, neither in value nor in text. A sum of 10^100 dollars and more, which
// only hostile amounts have, stops below it, as counts stop at the ends of 64 bits.
func (a Amount) Add(b Amount) Amount {
	if a.lit == "" && b.lit == "" {
		return Amount{}
	}
	sum := fromRat(new(big.Rat).Add(a.rat(), b.rat()))
	switch {
	case bounded(sum.Literal()):
	case sum.lit[0] == '-':
		return Amount{"-" + greatest}
	default:
		return Amount{greatest}
	}
	return sum
}

// greatest is the greatest amount that [ParseAmount] reads.
var greatest = strings.Repeat("9", maxIntegerDigits) + "." + strings.Repeat("9", maxFractionDigits)

// PerMillion returns what n tokens cost where a is the price of a million. It is
// exact: a decimal fraction stays one.
func (a Amount) PerMillion(n int64) Amount {
	if n == 0 || a.lit == "" {
		return Amount{}
	}
	return fromRat(new(big.Rat).Mul(a.rat(), big.NewRat(n, 1_000_000)))
}

// MicroDollars rounds the amount half away from zero to millionths of a dollar;
// ok is false when that does not fit 64 bits.
func (a Amount) MicroDollars() (n int64, ok bool) {
	micros := new(big.Rat).Mul(a.rat(), big.NewRat(microsPerDollar, 1))
	half := big.NewRat(int64(micros.Sign()), 2)
	micros.Add(micros, half)
	q := new(big.Int).Quo(micros.Num(), micros.Denom()) // towards zero
	if !q.IsInt64() {
		return 0, false
	}
	return q.Int64(), true
}

func (a Amount) rat() *big.Rat {
	if a.lit == "" {
		return new(big.Rat)
	}
	r, ok := new(big.Rat).SetString(a.lit)
	if !ok {
		panic("usage: an amount that is no number: " + a.lit) // a JSON number is one
	}
	return r
}

// fromRat renders a decimal fraction, which every sum of decimal literals is,
// without rounding.
func fromRat(r *big.Rat) Amount {
	if r.Sign() == 0 {
		return Amount{}
	}
	digits, _ := r.FloatPrec()
	return Amount{r.FloatString(max(digits, 1))}
}
