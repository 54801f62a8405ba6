// Package needle is a text that must go, and the spellings it hides in.
//
// # Purpose
//
// Whoever erases a text from a session meets it as it was typed, and also as JSON
// inside a string, in a URL, and in base64. This package finds and replaces all of
// those, in values and in the raw bytes of files.
//
// # Key types
//
// [Needle] is the text; [Eraser] is a needle with what takes its place.
//
// # Relationships
//
// Imports nothing of this module.
//
// # Traffic
//
// None.
//
// # Invariants
//
// A needle never shows its text: not when it is printed, and not in an error. What
// [Eraser.Erase] returns holds the needle in none of the spellings. The spellings
// are
//
//   - the text itself, and with + for its spaces;
//   - with any of its characters as JSON escapes or as %XX, in up to [Levels] layers
//     in any order;
//   - in base64 at each of the three alignments, in the standard and in the URL
//     alphabet, also broken into lines of [ShortestLine] digits or more, and below
//     the same layers; for a needle of at least [ShortestCoded] bytes.
//
// Not found are: other cases of its letters, other normal forms of Unicode, other
// encodings (hexadecimal, UTF-16, entities, compressed), parts of it, and escapes
// of another language than JSON.
package needle

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// Levels is how many layers of escapes are looked through.
	Levels = 2

	// ShortestCoded is the size of the smallest needle that is looked for in base64,
	// in bytes: of a shorter one the digits that depend on nothing else are so few
	// that they stand in other texts by chance.
	ShortestCoded = 6

	// ShortestLine is how long a line of base64 is, in digits, that goes on in the
	// next one.
	ShortestLine = 32

	// MaxSize bounds a needle, in bytes.
	MaxSize = 4 << 20
)

// The refusals of [New] and [Needle.With].
var (
	ErrEmpty       = errors.New("the text to erase is empty")
	ErrTooLong     = fmt.Errorf("the text to erase is longer than %d MiB", MaxSize>>20)
	ErrNotText     = errors.New("the text to erase is not UTF-8")
	ErrReplacement = errors.New("the replacement contains the text to erase")
)

// Needle is a text to find. The zero Needle is in no text.
type Needle struct {
	s *secret // behind a pointer, so that no print of a struct around it shows it
}

type secret struct {
	texts [][]byte // the needle, and with + for its spaces
	coded []code
	parts [256]bool // bytes that a spelling is made of, below all layers
}

// New makes a needle of a text that is not empty.
func New(text string) (Needle, error) {
	switch {
	case text == "":
		return Needle{}, ErrEmpty
	case len(text) > MaxSize:
		return Needle{}, ErrTooLong
	case !utf8.ValidString(text):
		return Needle{}, ErrNotText
	}
	s := &secret{texts: [][]byte{[]byte(text)}}
	if plus := strings.ReplaceAll(text, " ", "+"); plus != text {
		s.texts = append(s.texts, []byte(plus))
	}
	if len(text) >= ShortestCoded {
		s.coded = codes([]byte(text))
	}
	for c := range s.parts {
		s.parts[c] = bytes.IndexByte(slices.Concat(s.texts...), byte(c)) >= 0 || s.coded != nil && digit(byte(c))
	}
	return Needle{s}, nil
}

// String shows nothing of the needle.
func (n Needle) String() string { return "(the text to erase)" }

// GoString shows nothing of the needle.
func (n Needle) GoString() string { return "needle.Needle{…}" }

// Coded reports whether the needle is long enough to be looked for in base64.
func (n Needle) Coded() bool { return n.s != nil && len(n.s.coded) > 0 }

// size is the length of the text in bytes.
func (n Needle) size() int {
	if n.s == nil {
		return 0
	}
	return len(n.s.texts[0])
}

// In reports whether text holds the needle in any spelling.
func (n Needle) In(text string) bool { return n.holds(view{text: []byte(text)}, Levels) }

// Count is how often text holds the needle.
func (n Needle) Count(text string) int { return len(n.find(text)) }

// Eraser replaces a needle. The zero Eraser replaces nothing.
type Eraser struct {
	needle Needle
	with   string
}

// With returns an eraser. A replacement that contains the needle is refused.
func (n Needle) With(replacement string) (Eraser, error) {
	if n.In(replacement) {
		return Eraser{}, ErrReplacement
	}
	return Eraser{n, replacement}, nil
}

// Marked returns an eraser that leaves a mark where the needle was: a word if
// that can be told from the needle, else something shorter.
func (n Needle) Marked() Eraser {
	for _, mark := range []string{"[erased]", "***", "___"} {
		if n.s != nil && !n.In(mark) && !touching(mark, string(n.s.texts[0])) {
			return Eraser{n, mark}
		}
	}
	return Eraser{n, ""}
}

// touching reports whether two texts can share characters when they stand side by
// side, or one inside the other.
func touching(a, b string) bool {
	if strings.Contains(a, b) || strings.Contains(b, a) {
		return true
	}
	for i := 1; i < min(len(a), len(b)); i++ {
		if a[len(a)-i:] == b[:i] || b[len(b)-i:] == a[:i] {
			return true
		}
	}
	return false
}

// Needle returns what is replaced.
func (e Eraser) Needle() Needle { return e.needle }

// Replacement returns what takes its place.
func (e Eraser) Replacement() string { return e.with }

// rounds bounds how often a text is gone through: what was replaced may stand
// beside what makes the needle again.
const rounds = 16

// Erase returns text without the needle, and how often it was there. A
// replacement that keeps making the needle anew is given up for none at all.
func (e Eraser) Erase(text string) (erased string, times int) {
	for round := 0; ; round++ {
		found := e.needle.find(text)
		if len(found) == 0 {
			return text, times
		}
		times += len(found)
		if round < rounds {
			text = replace(text, found, e.with)
		} else {
			text = without(text, found) // so that each round is shorter than the one before
		}
	}
}

// replace writes text with something else in place of each span.
func replace(text string, found []span, with string) string {
	return rewrite(text, found, func(s span) string { return s.replacement(with) })
}

// without writes text with nothing in place of each span.
func without(text string, found []span) string {
	return rewrite(text, found, func(span) string { return "" })
}

func rewrite(text string, found []span, with func(span) string) string {
	var out strings.Builder
	at := 0
	for _, s := range found {
		out.WriteString(text[at:s.from])
		out.WriteString(with(s))
		at = s.to
	}
	out.WriteString(text[at:])
	return out.String()
}

// span is a place in a text that spells the needle.
type span struct {
	from, to int
	layers   []layer // that it is spelt in, outermost first
	digits   string  // of base64, in place of those that spelt it
}

func (s span) replacement(with string) string {
	if s.digits != "" {
		with = s.digits
	}
	for i := len(s.layers) - 1; i >= 0; i-- {
		with = s.layers[i].spell(with)
	}
	return with
}

// layer is a way of writing characters as others.
type layer uint8

const (
	escaped layer = iota // as in a string of JSON
	percent              // as in a URL
)

var layers = [...]layer{escaped, percent}

// spell writes text in a layer.
func (l layer) spell(text string) string {
	switch l {
	case escaped:
		return jsonEscaper.Replace(text)
	case percent:
		return url.QueryEscape(text)
	}
	return text
}

var jsonEscaper = strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`)

// code is the needle in base64 at one alignment: the digits that depend on it
// alone.
type code struct {
	digits   []byte
	alphabet string
	lead     int // bits of the digit before that are the needle's, 0 to 4
	trail    int // bits of the digit after
}

const (
	standard = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	forURLs  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
)

// codes lists what base64 makes of the needle behind 0, 1 and 2 other bytes.
func codes(text []byte) []code {
	var out []code
	for _, alphabet := range []string{standard, forURLs} {
		encoding := base64.NewEncoding(alphabet).WithPadding(base64.NoPadding)
		for before := range 3 {
			all := encoding.EncodeToString(append(make([]byte, before), text...))
			bits := 8 * (before + len(text))
			c := code{
				digits: []byte(all[(8*before+5)/6 : bits/6]), alphabet: alphabet,
				lead: (6 - 8*before%6) % 6, trail: bits % 6,
			}
			if !slices.ContainsFunc(out, func(o code) bool { return bytes.Equal(o.digits, c.digits) }) {
				out = append(out, c)
			}
		}
	}
	return out
}

// blank is what stands in place of the digits from one place in text to another:
// zeros, and of the two digits at the edge the bits that are not the needle's. So
// the length stays, and what stood around it.
func (c code) blank(text []byte, from, to int) (start, end int, digits string) {
	out := bytes.Repeat([]byte{'A'}, to-from)
	if c.lead > 0 && from > 0 {
		if v := strings.IndexByte(c.alphabet, text[from-1]); v >= 0 {
			from--
			out = append([]byte{c.alphabet[v>>c.lead<<c.lead]}, out...)
		}
	}
	if c.trail > 0 && to < len(text) {
		if v := strings.IndexByte(c.alphabet, text[to]); v >= 0 {
			to++
			out = append(out, c.alphabet[v&(1<<(6-c.trail)-1)])
		}
	}
	return from, to, string(out)
}
