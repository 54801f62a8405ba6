// Package corrupt holds the one error that every total decoder returns.
//
// # Purpose
//
// A decoder at a durability or wire boundary either returns a whole value or a
// [Report]: where the decoder stands, which part of the input it looked at,
// what it expected and a bounded excerpt of what it saw. Reports are data:
// they carry no stack and can themselves be stored and shown.
//
// # Key types
//
// [Report].
//
// # Relationships
//
// A leaf: imports nothing of this module.
//
// # Traffic
//
// None.
//
// # Invariants
//
// Context never holds more than [MaxContext] graphemes, so that a report about
// a huge or hostile input stays small enough to log, store and print.
package corrupt

import (
	"errors"
	"fmt"
	"strings"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// MaxContext is the most graphemes that [Report.Context] keeps.
const MaxContext = 256

// maxContextBytes bounds the excerpt in bytes too: one grapheme may hold any
// number of combining marks.
const maxContextBytes = 4096

// Report says that an input does not have the one shape that its reader accepts.
type Report struct {
	Boundary string // the decoder that refused, as "package.function"
	Subject  string // the key, field, offset or id it looked at
	Expected string // what would have been accepted
	Context  string // a bounded excerpt of what was there
}

// New builds a report and cuts context to [MaxContext] graphemes.
func New(boundary, subject, expected, context string) *Report {
	return &Report{Boundary: boundary, Subject: subject, Expected: expected, Context: Clip(context, MaxContext)}
}

// Error renders the report on one line.
func (r *Report) Error() string {
	seen := r.Context
	if seen == "" {
		seen = "nothing"
	}
	return fmt.Sprintf("corrupt: %s: %s: expected %s, saw %s", r.Boundary, r.Subject, r.Expected, oneLine(seen))
}

// In returns a copy of the report with subject prefixed by an outer part, so
// that a nested decoder's finding names the whole path.
func (r *Report) In(outer string) *Report {
	c := *r
	c.Subject = outer + "." + c.Subject
	return &c
}

// As returns the report inside err, if there is one.
func As(err error) (*Report, bool) { return errors.AsType[*Report](err) }

// Clip cuts text to at most limit graphemes. It looks no further than the cut,
// so the cost does not depend on the length of what is thrown away.
func Clip(text string, limit int) string {
	if len(text) <= limit && len(text) <= maxContextBytes {
		return text // a grapheme is at least one byte
	}
	end, n := 0, 0
	for g := graphemes.FromString(text); n < limit && g.Next(); n++ {
		if g.End() > maxContextBytes {
			break
		}
		end = g.End()
	}
	if n == 0 || end == 0 {
		return strings.ToValidUTF8(text[:min(len(text), maxContextBytes)], "\uFFFD")
	}
	return text[:end]
}

func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' {
			return ' '
		}
		return r
	}, s)
}
