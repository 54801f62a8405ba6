package jsonv

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/loom-run/loom/core/corrupt"
)

const boundary = "jsonv.Parse"

// smallObject is the size up to which duplicate names are looked for by
// comparing; a larger object uses a set.
const smallObject = 16

// Parse reads exactly one document. The error is always a [*corrupt.Report]
// whose subject is the offset in code points.
func Parse(data []byte) (Value, error) { return ParseString(string(data)) }

// ParseString is [Parse] over a string; strings of the result without escapes
// share its memory.
func ParseString(text string) (Value, error) {
	p := parser{s: text}
	if !utf8.ValidString(text) {
		return Value{}, p.fail(firstInvalid(text), "valid UTF-8")
	}
	p.space()
	v, err := p.value(0)
	if err != nil {
		return Value{}, err
	}
	p.space()
	if p.i != len(p.s) {
		return Value{}, p.fail(p.i, "the end of the document")
	}
	return v, nil
}

type parser struct {
	s       string
	i       int
	trusted bool // text of our own writer: nests as deep as it is
}

func (p *parser) fail(at int, expected string) *corrupt.Report {
	at = min(at, len(p.s))
	seen := p.s[at:]
	if seen == "" {
		seen = "the end of input"
	} else {
		seen = strings.ToValidUTF8(cutRunes(seen, 24), "\uFFFD")
	}
	// Positions are told in code points, which is what a person counts.
	return corrupt.New(boundary, "offset "+strconv.Itoa(utf8.RuneCountInString(p.s[:at])), expected, seen)
}

func cutRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func firstInvalid(s string) int {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return len(s)
}

func (p *parser) space() {
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

func (p *parser) value(depth int) (Value, error) {
	if p.i >= len(p.s) {
		return Value{}, p.fail(p.i, "a value")
	}
	switch c := p.s[p.i]; {
	case c == '"':
		s, err := p.str()
		return Value{kind: String, text: s}, err
	case c == '{':
		return p.object(depth + 1)
	case c == '[':
		return p.array(depth + 1)
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case c == 't':
		return Value{kind: Bool, text: "true"}, p.word("true")
	case c == 'f':
		return Value{kind: Bool}, p.word("false")
	case c == 'n':
		return Value{}, p.word("null")
	}
	return Value{}, p.fail(p.i, "a value")
}

// word must not return a typed nil, hence the plain error.
func (p *parser) word(w string) error {
	if !strings.HasPrefix(p.s[p.i:], w) {
		return p.fail(p.i, w)
	}
	p.i += len(w)
	return nil
}

func (p *parser) open(depth int) error {
	if depth > MaxDepth && !p.trusted {
		return p.fail(p.i, "at most "+strconv.Itoa(MaxDepth)+" nested containers")
	}
	p.i++
	p.space()
	return nil
}

func (p *parser) array(depth int) (Value, error) {
	if err := p.open(depth); err != nil {
		return Value{}, err
	}
	v := Value{kind: Array}
	if p.i < len(p.s) && p.s[p.i] == ']' {
		p.i++
		return v, nil
	}
	for {
		e, err := p.value(depth)
		if err != nil {
			return Value{}, err
		}
		v.list = append(v.list, Member{Value: e})
		more, err := p.more(']')
		if err != nil {
			return Value{}, err
		}
		if !more {
			return v, nil
		}
	}
}

func (p *parser) object(depth int) (Value, error) {
	if err := p.open(depth); err != nil {
		return Value{}, err
	}
	v := Value{kind: Object}
	if p.i < len(p.s) && p.s[p.i] == '}' {
		p.i++
		return v, nil
	}
	var seen map[string]struct{}
	for {
		at := p.i
		if p.i >= len(p.s) || p.s[p.i] != '"' {
			return Value{}, p.fail(p.i, "a field name")
		}
		name, err := p.str()
		if err != nil {
			return Value{}, err
		}
		if duplicate(v.list, &seen, name) {
			return Value{}, p.fail(at, "each field name once")
		}
		p.space()
		if p.i >= len(p.s) || p.s[p.i] != ':' {
			return Value{}, p.fail(p.i, "a colon")
		}
		p.i++
		p.space()
		e, err := p.value(depth)
		if err != nil {
			return Value{}, err
		}
		v.list = append(v.list, Member{Name: name, Value: e})
		more, err := p.more('}')
		if err != nil {
			return Value{}, err
		}
		if !more {
			return v, nil
		}
	}
}

func duplicate(list []Member, seen *map[string]struct{}, name string) bool {
	if len(list) < smallObject {
		for i := range list {
			if list[i].Name == name {
				return true
			}
		}
		return false
	}
	if *seen == nil {
		*seen = make(map[string]struct{}, 2*len(list))
		for i := range list {
			(*seen)[list[i].Name] = struct{}{}
		}
	}
	if _, dup := (*seen)[name]; dup {
		return true
	}
	(*seen)[name] = struct{}{}
	return false
}

// more reads the comma or the closing bracket after an element.
func (p *parser) more(closing byte) (bool, error) {
	p.space()
	if p.i < len(p.s) {
		switch p.s[p.i] {
		case ',':
			p.i++
			p.space()
			return true, nil
		case closing:
			p.i++
			return false, nil
		}
	}
	return false, p.fail(p.i, "a comma or "+string(closing))
}

func (p *parser) number() (Value, error) {
	start := p.i
	if p.s[p.i] == '-' {
		p.i++
	}
	if p.i < len(p.s) && p.s[p.i] == '0' {
		p.i++ // no digit may follow a leading zero; what follows is judged by the caller
	} else if !p.digits() {
		return Value{}, p.fail(p.i, "a digit")
	}
	kind := Int
	if p.i < len(p.s) && p.s[p.i] == '.' {
		kind = Float
		p.i++
		if !p.digits() {
			return Value{}, p.fail(p.i, "a digit after the point")
		}
	}
	if p.i < len(p.s) && (p.s[p.i] == 'e' || p.s[p.i] == 'E') {
		kind = Float
		p.i++
		if p.i < len(p.s) && (p.s[p.i] == '+' || p.s[p.i] == '-') {
			p.i++
		}
		if !p.digits() {
			return Value{}, p.fail(p.i, "a digit in the exponent")
		}
	}
	lit := p.s[start:p.i]
	if kind == Float {
		if _, err := strconv.ParseFloat(lit, 64); err != nil {
			return Value{}, p.fail(start, "a number that a double can hold")
		}
	}
	return Value{kind: kind, text: lit}, nil
}

func (p *parser) digits() bool {
	start := p.i
	for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
		p.i++
	}
	return p.i > start
}

// str reads a string whose opening quote is at the cursor. A string without
// escapes is a slice of the input.
func (p *parser) str() (string, error) {
	start := p.i + 1
	for i := start; i < len(p.s); i++ {
		switch c := p.s[i]; {
		case c == '"':
			p.i = i + 1
			return p.s[start:i], nil
		case c == '\\':
			return p.escaped(start, i)
		case c < 0x20:
			return "", p.fail(i, "no raw control character in a string")
		}
	}
	return "", p.fail(len(p.s), "a closing quote")
}

func (p *parser) escaped(start, at int) (string, error) {
	buf := make([]byte, 0, 2*(at-start)+16)
	buf = append(buf, p.s[start:at]...)
	for i := at; i < len(p.s); {
		switch c := p.s[i]; {
		case c == '"':
			p.i = i + 1
			return string(buf), nil
		case c < 0x20:
			return "", p.fail(i, "no raw control character in a string")
		case c == '\\':
			r, n, bad := unescape(p.s[i:])
			if bad != "" {
				return "", p.fail(i, bad)
			}
			buf = utf8.AppendRune(buf, r)
			i += n
		default:
			run := i
			for i < len(p.s) && p.s[i] != '"' && p.s[i] != '\\' && p.s[i] >= 0x20 {
				i++
			}
			buf = append(buf, p.s[run:i]...)
		}
	}
	return "", p.fail(len(p.s), "a closing quote")
}

// unescape reads the escape at the start of s and returns its rune and length,
// or what was expected instead.
func unescape(s string) (r rune, n int, expected string) {
	if len(s) < 2 {
		return 0, 0, "an escape"
	}
	switch s[1] {
	case '"', '\\', '/':
		return rune(s[1]), 2, ""
	case 'b':
		return '\b', 2, ""
	case 'f':
		return '\f', 2, ""
	case 'n':
		return '\n', 2, ""
	case 'r':
		return '\r', 2, ""
	case 't':
		return '\t', 2, ""
	case 'u':
	default:
		return 0, 0, "one of the escapes of JSON"
	}
	hi, ok := hex4(s[2:])
	if !ok {
		return 0, 0, "four hexadecimal digits"
	}
	switch {
	case hi < 0xD800 || hi > 0xDFFF:
		return hi, 6, ""
	case hi > 0xDBFF:
		return 0, 0, "no lone surrogate"
	}
	if len(s) < 12 || s[6] != '\\' || s[7] != 'u' {
		return 0, 0, "no lone surrogate"
	}
	lo, ok := hex4(s[8:])
	if !ok || lo < 0xDC00 || lo > 0xDFFF {
		return 0, 0, "a low surrogate"
	}
	return (hi-0xD800)<<10 + (lo - 0xDC00) + 0x10000, 12, ""
}

func hex4(s string) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for i := range 4 {
		c := rune(s[i])
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | c
	}
	return r, true
}
