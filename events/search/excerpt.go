package search

import (
	"slices"
	"strings"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// Excerpt is the piece of an entry's text around the best of what matches.
type Excerpt struct {
	Text       string
	Marks      []Span // what matches in it, in order; they do not overlap
	Cut, Short bool   // there is more before it, and behind it
}

// Span is a piece of a text, in bytes.
type Span struct{ From, To int }

// excerptBytes is about how long an excerpt is: two lines of a terminal.
const excerptBytes = 160

// excerpt chooses the piece of a text with most of the terms in it.
func excerpt(text string, terms []term) Excerpt {
	marks := matches(text, terms)
	from := 0
	if len(marks) > 0 {
		from = marks[densest(marks)].From - excerptBytes/4
	}
	if from < excerptBytes/4 {
		from = 0
	}
	from, to := cutAt(text, from), cutAt(text, min(from+excerptBytes, len(text)))
	e := Excerpt{Text: text[from:to], Cut: from > 0, Short: to < len(text)}
	for _, m := range marks {
		if m.From >= from && m.To <= to {
			e.Marks = append(e.Marks, Span{m.From - from, m.To - from})
		}
	}
	return e
}

// cutAt is the last place between graphemes that is not behind at, within reach of it.
func cutAt(text string, at int) int {
	if at <= 0 || at >= len(text) {
		return min(max(at, 0), len(text))
	}
	start := at - min(at, 256)
	if n := strings.LastIndexAny(text[start:at], " \n"); n >= 0 {
		start += n // a space ends a grapheme, but for marks on it
	}
	for start > 0 && text[start]&0xC0 == 0x80 {
		start--
	}
	last := start
	for g := graphemes.FromString(text[start:]); g.Next(); {
		if start+g.End() > at {
			break
		}
		last = start + g.End()
	}
	return last
}

// densest is the mark from which on an excerpt holds the most marks.
func densest(marks []Span) (best int) {
	most := 0
	for i, m := range marks {
		n, _ := slices.BinarySearchFunc(marks, m.From+excerptBytes*3/4, func(s Span, at int) int { return s.To - at })
		if n-i > most {
			best, most = i, n-i
		}
	}
	return best
}

// matches are the places of the terms that are wanted, in order.
func matches(text string, terms []term) (marks []Span) {
	var all []token
	first := -1
	tokens(text, func(tok token) bool {
		all = append(all, tok)
		if first < 0 && slices.ContainsFunc(terms, func(t term) bool { return t.begins(tok) }) {
			first = len(all)
		}
		return first < 0 || len(all) < first+reach
	})
	for i := range all {
		from, end := all[i].from, 0
		for _, t := range terms {
			if n := t.at(all, i); !t.not && n > 0 {
				end = max(end, all[i+n-1].to)
			}
		}
		if whole := all[i].whole; end == 0 && whole != "" && slices.ContainsFunc(terms, func(t term) bool { return t.is(whole) }) {
			from, end = all[i].begin, all[i].to
		}
		if end > 0 && (len(marks) == 0 || marks[len(marks)-1].To <= from) {
			marks = append(marks, Span{from, end})
		}
	}
	return marks
}

// reach is how many tokens behind the first that may match are looked at.
const reach = 2000

// begins reports whether a token may be the beginning of what is wanted.
func (t term) begins(tok token) bool {
	return !t.not && (t.phrase[0] == tok.text || t.prefix && strings.HasPrefix(tok.text, t.phrase[0]) || tok.whole != "" && t.is(tok.whole))
}

// is reports whether a term is this one word.
func (t term) is(word string) bool {
	return !t.not && len(t.phrase) == 1 && (t.phrase[0] == word || t.prefix && strings.HasPrefix(word, t.phrase[0]))
}

// at is how many tokens from i on are the phrase; 0: it is not there.
func (t term) at(all []token, i int) int {
	if i+len(t.phrase) > len(all) {
		return 0
	}
	for k, want := range t.phrase {
		got := all[i+k].text
		if got != want && !(t.prefix && k == len(t.phrase)-1 && strings.HasPrefix(got, want)) {
			return 0
		}
	}
	return len(t.phrase)
}
