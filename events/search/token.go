package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxToken bounds a token, in bytes: what is longer is known by its beginning, in the
// index and in a query alike.
const maxToken = 64

// A token is a part of a word as it is compared: lower case, without marks, in the
// compatible form of its characters.
//
//   - Words end at everything that is no letter, digit or mark, and at an underscore.
//   - An identifier is its parts: camelCase is camel and case, HTTPServer http and server.
//     Digits stay with their letters: utf8, v1.
//   - Scripts without spaces between words have a token for each character, so that any
//     piece of a text can be found as a phrase.
//   - The signs + # % @ $ are tokens, so that C++ is not C.
type token struct {
	text     string
	from, to int    // bytes of the text that it stands for
	whole    string // of the last part of an identifier of several: all of it
	begin    int    // where that begins
}

const signs = "+#%@$"

// tokens calls visit with each token of a text that is in the form [canonical] gives.
func tokens(text string, visit func(token) bool) {
	s := scanner{visit: visit}
	var before rune
	for i, r := range text {
		next, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(max(r, 0)):])
		if r == utf8.RuneError {
			_, n := utf8.DecodeRuneInString(text[i:])
			next, _ = utf8.DecodeRuneInString(text[i+n:])
		}
		switch {
		case alone(r):
			s.end(i, true)
			s.emit(token{text: string(folded(r)), from: i, to: i + utf8.RuneLen(r)})
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsNumber(r) || unicode.Is(unicode.Mn, r):
			if s.part.Len() > 0 && boundary(before, r, next) {
				s.end(i, false)
			}
			s.add(i, r)
		case r == '_' && (s.part.Len() > 0 || s.whole.Len() > 0):
			s.end(i, false)
		default:
			s.end(i, true)
			if strings.ContainsRune(signs, r) {
				s.emit(token{text: string(r), from: i, to: i + 1})
			}
		}
		if s.stop {
			return
		}
		before = r
	}
	s.end(len(text), true)
}

// boundary reports whether an identifier has a new part at r.
func boundary(before, r, next rune) bool {
	if !unicode.IsUpper(r) {
		return false
	}
	return unicode.IsLower(before) || unicode.IsDigit(before) || unicode.IsUpper(before) && unicode.IsLower(next)
}

// scanner gathers the parts of one identifier.
type scanner struct {
	visit       func(token) bool
	stop        bool
	part, whole strings.Builder
	from        int
	parts       int
	begin       int
	last        *token // the part before, which is told as soon as it is known whether more follow
}

func (s *scanner) add(at int, r rune) {
	if s.part.Len() == 0 {
		s.from = at
	}
	if s.part.Len() >= maxToken {
		return
	}
	for _, c := range folded(r) {
		s.part.WriteRune(c)
	}
}

// end ends a part, and with it the identifier if that is over too.
func (s *scanner) end(at int, over bool) {
	if s.part.Len() > 0 {
		if s.last != nil {
			s.emit(*s.last)
		}
		if s.parts == 0 {
			s.begin = s.from
		}
		s.last = &token{text: cutToken(s.part.String()), from: s.from, to: at}
		s.parts++
		if s.whole.Len() < maxToken {
			s.whole.WriteString(s.part.String())
		}
		s.part.Reset()
	}
	if !over {
		return
	}
	if s.last != nil {
		if s.parts > 1 {
			s.last.whole, s.last.begin = cutToken(s.whole.String()), s.begin
		}
		s.emit(*s.last)
	}
	s.last, s.parts = nil, 0
	s.whole.Reset()
}

func (s *scanner) emit(t token) {
	if !s.stop && t.text != "" {
		s.stop = !s.visit(t)
	}
}

// cutToken keeps the beginning of a token, between characters.
func cutToken(s string) string {
	if len(s) <= maxToken {
		return s
	}
	n := maxToken
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// canonical is a text as it is kept and looked at: composed, and valid.
func canonical(text string) string {
	return norm.NFC.String(strings.ToValidUTF8(text, "\uFFFD"))
}

// apart are the scripts that write no spaces between words.
var apart = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Yi,
}

func alone(r rune) bool {
	return r >= 0x0E00 && !unicode.Is(unicode.Mn, r) && unicode.In(r, apart...)
}

// folded is a character as it is compared: ß is ss, Σ and ς are σ, é is e, Ａ is a.
func folded(r rune) []rune {
	if r < utf8.RuneSelf {
		return []rune{unicode.ToLower(r)}
	}
	switch {
	case r == 'ß' || r == 'ẞ':
		return []rune("ss")
	case unicode.Is(unicode.Hangul, r):
		return []rune{r} // its compatible form would take the syllable apart
	}
	var out []rune
	for _, c := range norm.NFKD.String(string(r)) {
		if !unicode.Is(unicode.Mn, c) {
			out = append(out, unicode.ToLower(unicode.ToUpper(c)))
		}
	}
	return out
}

// document is the two columns of a text: its tokens, and the identifiers of several parts
// in one piece each.
func document(text string) (body, names string) {
	var b, n strings.Builder
	tokens(text, func(t token) bool {
		b.WriteString(t.text)
		b.WriteByte(' ')
		if t.whole != "" {
			n.WriteString(t.whole)
			n.WriteByte(' ')
		}
		return true
	})
	return b.String(), n.String()
}
