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
// What [New] builds is valid UTF-8 and bounded: at most [MaxContext] graphemes
// of context and [MaxSubject] of subject, so that a report about a huge or
// hostile input stays small enough to log, store and print.
package corrupt

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

const (
	// MaxContext is the most graphemes of [Report.Context].
	MaxContext = 256

	// MaxSubject is the most graphemes of [Report.Subject]: a name in the input
	// can be as long as the input.
	MaxSubject = 128

	// graphemeBytes is what [Clip] allows for one grapheme, on average: enough
	// for an emoji of several people, and a bound for a letter with a million
	// combining marks.
	graphemeBytes = 32
)

// Report says that an input does not have the one shape that its reader accepts.
type Report struct {
	Boundary string // the decoder that refused, as "package.function"
	Subject  string // the key, field, offset or id it looked at
	Expected string // what would have been accepted
	Context  string // a bounded excerpt of what was there
}

// New builds a report and cuts subject and context to their bounds. Bytes that
// are not UTF-8 become U+FFFD.
func New(boundary, subject, expected, context string) *Report {
	return &Report{Boundary: boundary, Subject: bounded(subject, MaxSubject), Expected: expected, Context: bounded(context, MaxContext)}
}

func bounded(s string, limit int) string { return strings.ToValidUTF8(Clip(s, limit), "\uFFFD") }

// Error renders the report on one line, without anything that moves a
// terminal's cursor or turns the direction of text.
func (r *Report) Error() string {
	seen := r.Context
	if seen == "" {
		seen = "nothing"
	}
	return oneLine(fmt.Sprintf("corrupt: %s: %s: expected %s, saw %s", r.Boundary, r.Subject, r.Expected, seen))
}

// In returns a copy of the report with subject prefixed by an outer part, so
// that a nested decoder's finding names the whole path.
func (r *Report) In(outer string) *Report {
	c := *r
	c.Subject = bounded(outer+"."+c.Subject, MaxSubject)
	return &c
}

// As returns the report inside err, if there is one.
func As(err error) (*Report, bool) { return errors.AsType[*Report](err) }

// Clip returns the start of text: at most limit graphemes and, since one
// grapheme may hold any number of combining marks, at most 32 bytes for each.
// Only a first grapheme that alone passes that bound is cut within, between two
// code points. The cost does not depend on the length of what is cut off.
func Clip(text string, limit int) string {
	if limit <= 0 {
		return ""
	}
	if len(text) <= limit {
		return text // a grapheme is at least one byte
	}
	room := limit * graphemeBytes
	// One code point more than there is room for tells whether the last grapheme ends there.
	window := text[:min(len(text), room+utf8.UTFMax)]
	end, n := 0, 0
	for g := graphemes.FromString(window); n < limit && g.Next() && g.End() <= room; n++ {
		end = g.End()
	}
	if end > 0 {
		return text[:end]
	}
	for end = room; end > room-utf8.UTFMax && !utf8.RuneStart(text[end]); {
		end--
	}
	return text[:end]
}

func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t' || r == '\u2028' || r == '\u2029':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return utf8.RuneError
		}
		return r
	}, s)
}
