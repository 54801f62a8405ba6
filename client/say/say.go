// Package say is what people are told: the one exit through which text of a model, a
// tool or a server reaches a screen, and the sentences over the closed words.
//
// # Purpose
//
// A terminal obeys what it is sent. A tool's output or a model's answer can hold
// sequences that move the cursor, rename the window, write the clipboard or
// reverse the reading order of a command. Everything untrusted goes through
// here, so that what is shown is what was said and nothing is obeyed. And what a
// word of the contract means is put in a sentence once, here, so that a denial or a
// notice reads the same on every surface.
//
// # Key types
//
// [Clean] bounds and escapes, [Line] does so on one line, [All] escapes without
// a bound, [JSON] does so for a document. [Hidden] is the rule that all of them
// share. [ReadNotice] reads the facts of a notice; [DeniedBy], [AskedBy], [Mandated],
// [Settled], [Undecided], [RuleIssue], [Refusal] and [Ending] are the sentences.
//
// # Relationships
//
// Imports the closed words, and wire for what it reads. Knows no screen.
//
// # Traffic
//
// None.
//
// # Invariants
//
//   - The result is valid UTF-8 without a hidden character, whatever goes in.
//   - The bound comes first and the escaping second, so an escape is never cut.
//   - Escaping works on single characters: the escaped whole is the escaped
//     parts put together, so streamed text ends like text shown at once.
//   - Text is escaped, never deleted: a person sees that something was there.
//   - Each sentence is made in one place, no two words share one, and a word that
//     this build does not know is quoted as it is.
package say

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Ellipsis ends a text that was cut.
const Ellipsis = "…"

// Hidden reports whether a character must not reach a screen as it is: controls
// (C0 but newline and tab, DEL, C1), characters that change the reading order,
// line separators that are no newline to a terminal, and invisible characters
// that can carry text nobody sees. The joiners that scripts and emoji need stay.
func Hidden(r rune) bool {
	switch {
	case r < 0x20:
		return r != '\n' && r != '\t'
	case r < 0x7f:
		return false
	case r < 0xa0:
		return true // DEL and C1
	case r == 0x061c, r == 0x180e, r == 0x200b, r == 0x200e, r == 0x200f, r == 0xfeff:
		return true
	case r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f:
		return true
	case r >= 0xfff9 && r <= 0xfffb:
		return true
	case r >= 0xe0000 && r <= 0xe007f:
		return true
	}
	return false
}

// Clean cuts text to at most limit bytes, on a character boundary and with an
// ellipsis when something was cut, and then escapes it. The result can be longer
// than limit, by a factor of at most 4 and the ellipsis.
func Clean(text string, limit int) string {
	cut, short := bound(text, limit)
	if short {
		return All(cut) + Ellipsis
	}
	return All(cut)
}

// Line is [Clean] on one line: newlines and tabs become spaces, runs of spaces
// become one, and the ends are trimmed.
func Line(text string, limit int) string {
	// A bounded look ahead is enough: only spaces can be dropped.
	window, _ := bound(text, max(limit, 0)*8+64)
	cut, short := bound(strings.Join(strings.Fields(window), " "), limit)
	if short || len(window) < len(text) {
		return All(cut) + Ellipsis
	}
	return All(cut)
}

// bound cuts to at most limit bytes without splitting a character. Bytes that
// are no character may be cut anywhere.
func bound(text string, limit int) (cut string, short bool) {
	if len(text) <= limit {
		return text, false
	}
	n := max(limit, 0)
	for start := n - 1; start >= 0 && start > n-utf8.UTFMax; start-- {
		if utf8.RuneStart(text[start]) {
			if r, size := utf8.DecodeRuneInString(text[start:]); r != utf8.RuneError && start+size > n {
				n = start
			}
			break
		}
	}
	return text[:n], true
}

// All escapes the whole text: hidden characters as \r, \e, \x7f, \u202e or
// \U000e0041, bytes that are not UTF-8 as \xff.
func All(text string) string {
	first := firstUnfit(text)
	if first < 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text) + 16)
	b.WriteString(text[:first])
	for i := first; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			hex(&b, 'x', uint32(text[i]), 2)
		case Hidden(r):
			escape(&b, r)
		default:
			b.WriteString(text[i : i+n])
		}
		i += n
	}
	return b.String()
}

// JSON escapes a JSON document without changing what it says: hidden characters
// stand in its strings only, where \u202e and the like are the same character.
func JSON(text []byte) []byte {
	var out []byte
	done := 0
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if Hidden(r) {
			out = append(out, text[done:i]...)
			if hi, lo := utf16.EncodeRune(r); hi != utf8.RuneError {
				out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
			} else {
				out = fmt.Appendf(out, `\u%04x`, r)
			}
			done = i + n
		}
		i += n
	}
	if done == 0 {
		return text
	}
	return append(out, text[done:]...)
}

// firstUnfit returns where the first character stands that needs escaping, or
// -1.
func firstUnfit(text string) int {
	for i := 0; i < len(text); {
		if c := text[i]; c >= 0x20 && c < 0x7f || c == '\n' || c == '\t' {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 || Hidden(r) {
			return i
		}
		i += n
	}
	return -1
}

func escape(b *strings.Builder, r rune) {
	switch {
	case r == '\r':
		b.WriteString(`\r`)
	case r == 0x1b:
		b.WriteString(`\e`)
	case r < 0x80:
		hex(b, 'x', uint32(r), 2)
	case r < 0x10000:
		hex(b, 'u', uint32(r), 4)
	default:
		hex(b, 'U', uint32(r), 8)
	}
}

func hex(b *strings.Builder, letter byte, n uint32, digits int) {
	const table = "0123456789abcdef"
	b.WriteByte('\\')
	b.WriteByte(letter)
	for shift := (digits - 1) * 4; shift >= 0; shift -= 4 {
		b.WriteByte(table[n>>shift&15])
	}
}
