package dialect

import (
	"strings"
	"unicode/utf8"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
)

const replacement = "\uFFFD"

// maxExcerpt is the most graphemes of a provider's own words that an error repeats.
const maxExcerpt = 300

// ParseJSON reads one JSON text of a provider. Strict JSON has no invalid UTF-8 and no lone surrogates, but models produce both (half a
// character at the edge of a token), and one broken character must not cost the answer: each maximal run of bad bytes and each lone surrogate
// escape becomes U+FFFD. replaced counts them.
func ParseJSON(data []byte) (v jsonv.Value, replaced int, err error) {
	text := string(data)
	if !utf8.ValidString(text) {
		text, replaced = replaceInvalid(text)
	}
	v, err = jsonv.ParseString(text)
	if err == nil || !strings.Contains(text, `\u`) {
		return v, replaced, err
	}
	mended, lone := replaceLoneSurrogates(text)
	if lone == 0 {
		return v, replaced, err
	}
	v, err = jsonv.ParseString(mended)
	return v, replaced + lone, err
}

func replaceInvalid(s string) (string, int) {
	var out strings.Builder
	runs, inRun := 0, false
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		bad := r == utf8.RuneError && n == 1
		if !bad {
			out.WriteString(s[i : i+n])
		} else if !inRun {
			out.WriteString(replacement)
			runs++
		}
		inRun = bad
		i += n
	}
	return out.String(), runs
}

// replaceLoneSurrogates rewrites \uD800 to \uDFFF escapes that are not a pair.
func replaceLoneSurrogates(s string) (string, int) {
	var out strings.Builder
	lone, kept := 0, 0
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			i++
			continue
		}
		unit, ok := surrogate(s[i:])
		if !ok {
			i += 2 // whatever is escaped, it is not the start of another escape
			continue
		}
		if unit < 0xDC00 {
			if low, ok := surrogate(s[min(i+6, len(s)):]); ok && low >= 0xDC00 {
				i += 12
				continue
			}
		}
		out.WriteString(s[kept:i])
		out.WriteString(replacement)
		lone++
		i += 6
		kept = i
	}
	if lone == 0 {
		return s, 0
	}
	out.WriteString(s[kept:])
	return out.String(), lone
}

// surrogate reads a \uXXXX escape of the surrogate range at the start of s.
func surrogate(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	var unit rune
	for _, c := range []byte(s[2:6]) {
		digit := strings.IndexByte("0123456789abcdef", c|0x20)
		if digit < 0 {
			return 0, false
		}
		unit = unit<<4 | rune(digit)
	}
	return unit, unit >= 0xD800 && unit <= 0xDFFF
}

// Excerpt makes a provider's words fit for a sentence: one line, no control characters, bounded.
func Excerpt(s string) string {
	s = corrupt.Clip(strings.ToValidUTF8(s, replacement), maxExcerpt+1)
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7F && r <= 0x9F }), " ")
	if cut := corrupt.Clip(s, maxExcerpt); len(cut) < len(s) {
		return cut + "…"
	}
	return strings.TrimRight(s, ".")
}

// Text reads a string field; anything else is the empty string.
func Text(v jsonv.Value, name string) string {
	field, _ := v.Get(name)
	s, _ := field.Text()
	return s
}

// ArgumentText reads the field that holds the arguments of a call as their text. A server may send the value itself in the place of its text, of whatever
// kind: one that is no object must stay what it is, since nothing in its place would run the call without arguments.
func ArgumentText(v jsonv.Value, name string) string {
	field, _ := v.Get(name)
	if s, isText := field.Text(); isText || field.IsNull() {
		return s
	}
	return field.String()
}

// First is the first of the values that is not empty.
func First(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// Blank reports whether a text is nothing but space, which providers refuse as a text.
func Blank(s string) bool { return strings.TrimSpace(s) == "" }

// Present is the text, or nil for an empty one.
func Present(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// MaxCount is the largest token count believed; more is a broken report.
const MaxCount = 1_000_000_000_000

// Count reads a token count, clamped to what is believable.
func Count(v jsonv.Value, name string) (int64, bool) {
	field, ok := v.Get(name)
	if !ok || field.Kind() != jsonv.Int {
		return 0, false
	}
	n, fits := field.Int64()
	if !fits {
		// Only the sign is left to know of an integer beyond 64 bits.
		if lit, _ := field.Literal(); lit[0] == '-' {
			return 0, true
		}
		return MaxCount, true
	}
	return min(max(n, 0), MaxCount), true
}
