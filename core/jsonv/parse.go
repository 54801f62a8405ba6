package jsonv

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/loom-run/loom/core/corrupt"
)

const boundary = "jsonv.Parse"

// smallObject is the size up to which duplicate names are looked for by
// comparing; a larger object uses a set.
const smallObject = 16

// maxText is the longest document, so that a place in it and in its decoded
// strings fits 32 bits.
const maxText = math.MaxInt32

// Parse reads exactly one document of at most 2 GiB. The error is always a
// [*corrupt.Report] whose subject is the offset in code points.
func Parse(data []byte) (Value, error) { return ParseString(string(data)) }

// ParseString is [Parse] over a string; strings of the result without escapes
// share its memory.
func ParseString(text string) (Value, error) {
	p := parser{s: text}
	if !utf8.ValidString(text) {
		return Value{}, p.fail(firstInvalid(text), "valid UTF-8")
	}
	return p.document()
}

type parser struct {
	s       string
	i       int
	trusted bool // text of our own writer: nests as deep as it is
	decoded []string
	*scratch
}

// scratch is what a parser needs until it is done. It holds no pointers, and
// parsing thousands of rows needs it thousands of times.
type scratch struct {
	nodes []node // the members of the containers that were closed
	open  []node // what the containers around the cursor hold so far, innermost last
	buf   []byte // the string with escapes that is being read
}

// A scratch that a huge document made larger than this is not kept.
const (
	keptNodes = 1 << 14
	keptBytes = 1 << 18
)

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (c *scratch) release() {
	if cap(c.nodes) > keptNodes || cap(c.open) > keptNodes || cap(c.buf) > keptBytes {
		return
	}
	c.nodes, c.open, c.buf = c.nodes[:0], c.open[:0], c.buf[:0]
	scratches.Put(c)
}

func (p *parser) document() (Value, error) {
	if len(p.s) > maxText {
		return Value{}, p.fail(0, "at most 2 GiB")
	}
	p.scratch = scratches.Get().(*scratch) //nolint:errcheck // the pool holds nothing else
	defer p.release()
	p.space()
	root, err := p.value(0)
	if err != nil {
		return Value{}, err
	}
	p.space()
	if p.i != len(p.s) {
		return Value{}, p.fail(p.i, "the end of the document")
	}
	m := &members{text: p.s, decoded: p.decoded, nodes: slices.Clone(p.nodes)}
	return m.value(&root), nil
}

// close makes a container of the open members since from.
func (p *parser) close(kind Kind, from int) node {
	n := node{kind: kind, text: span{uint32(len(p.nodes)), uint32(len(p.open) - from)}}
	p.nodes = append(p.nodes, p.open[from:]...)
	p.open = p.open[:from]
	return n
}

// name returns the text of a name that was read.
func (p *parser) name(s span) string { return piece(p.s, p.decoded, s) }

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

func (p *parser) value(depth int) (node, error) {
	if p.i >= len(p.s) {
		return node{}, p.fail(p.i, "a value")
	}
	switch c := p.s[p.i]; {
	case c == '"':
		s, err := p.str()
		return node{kind: String, text: s}, err
	case c == '{':
		return p.object(depth + 1)
	case c == '[':
		return p.array(depth + 1)
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case c == 't':
		n := node{kind: Bool, text: span{uint32(p.i), uint32(len("true"))}}
		return n, p.word("true")
	case c == 'f':
		return node{kind: Bool}, p.word("false")
	case c == 'n':
		return node{}, p.word("null")
	}
	return node{}, p.fail(p.i, "a value")
}

// word must not return a typed nil, hence the plain error.
func (p *parser) word(w string) error {
	if !strings.HasPrefix(p.s[p.i:], w) {
		return p.fail(p.i, w)
	}
	p.i += len(w)
	return nil
}

func (p *parser) enter(depth int) error {
	if depth > MaxDepth && !p.trusted {
		return p.fail(p.i, "at most "+strconv.Itoa(MaxDepth)+" nested containers")
	}
	p.i++
	p.space()
	return nil
}

func (p *parser) array(depth int) (node, error) {
	if err := p.enter(depth); err != nil {
		return node{}, err
	}
	from := len(p.open)
	if p.i < len(p.s) && p.s[p.i] == ']' {
		p.i++
		return node{kind: Array}, nil
	}
	for {
		e, err := p.value(depth)
		if err != nil {
			return node{}, err
		}
		p.open = append(p.open, e)
		more, err := p.more(']')
		if err != nil {
			return node{}, err
		}
		if !more {
			return p.close(Array, from), nil
		}
	}
}

func (p *parser) object(depth int) (node, error) {
	if err := p.enter(depth); err != nil {
		return node{}, err
	}
	from := len(p.open)
	if p.i < len(p.s) && p.s[p.i] == '}' {
		p.i++
		return node{kind: Object}, nil
	}
	var seen map[string]struct{}
	for {
		at := p.i
		if p.i >= len(p.s) || p.s[p.i] != '"' {
			return node{}, p.fail(p.i, "a field name")
		}
		name, err := p.str()
		if err != nil {
			return node{}, err
		}
		if p.duplicate(p.open[from:], &seen, name) {
			return node{}, p.fail(at, "each field name once")
		}
		p.space()
		if p.i >= len(p.s) || p.s[p.i] != ':' {
			return node{}, p.fail(p.i, "a colon")
		}
		p.i++
		p.space()
		field, err := p.value(depth)
		if err != nil {
			return node{}, err
		}
		field.name = name
		p.open = append(p.open, field)
		more, err := p.more('}')
		if err != nil {
			return node{}, err
		}
		if !more {
			return p.close(Object, from), nil
		}
	}
}

// duplicate reports whether one of the fields so far has that name. seen is the
// set of their names once there are many.
func (p *parser) duplicate(fields []node, seen *map[string]struct{}, s span) bool {
	if len(fields) < smallObject {
		for i := range fields {
			if old := fields[i].name; old.n == s.n && p.name(old) == p.name(s) {
				return true
			}
		}
		return false
	}
	if *seen == nil {
		*seen = make(map[string]struct{}, 2*len(fields))
		for i := range fields {
			(*seen)[p.name(fields[i].name)] = struct{}{}
		}
	}
	name := p.name(s)
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

func (p *parser) number() (node, error) {
	start := p.i
	if p.s[p.i] == '-' {
		p.i++
	}
	if p.i < len(p.s) && p.s[p.i] == '0' {
		p.i++ // no digit may follow a leading zero; what follows is judged by the caller
	} else if !p.digits() {
		return node{}, p.fail(p.i, "a digit")
	}
	kind := Int
	if p.i < len(p.s) && p.s[p.i] == '.' {
		kind = Float
		p.i++
		if !p.digits() {
			return node{}, p.fail(p.i, "a digit after the point")
		}
	}
	if p.i < len(p.s) && (p.s[p.i] == 'e' || p.s[p.i] == 'E') {
		kind = Float
		p.i++
		if p.i < len(p.s) && (p.s[p.i] == '+' || p.s[p.i] == '-') {
			p.i++
		}
		if !p.digits() {
			return node{}, p.fail(p.i, "a digit in the exponent")
		}
	}
	if kind == Float {
		if _, err := strconv.ParseFloat(p.s[start:p.i], 64); err != nil {
			return node{}, p.fail(start, "a number that a double can hold")
		}
	}
	return node{kind: kind, text: p.since(start)}, nil
}

// since is the text from start to the cursor.
func (p *parser) since(start int) span { return span{uint32(start), uint32(p.i - start)} }

func (p *parser) digits() bool {
	start := p.i
	for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
		p.i++
	}
	return p.i > start
}

// str reads a string whose opening quote is at the cursor. A string without
// escapes stays where it is.
func (p *parser) str() (span, error) {
	start := p.i + 1
	p.i = skipPlain(p.s, start)
	if p.i < len(p.s) && p.s[p.i] == '"' {
		s := p.since(start)
		p.i++
		return s, nil
	}
	p.buf = p.buf[:0]
	for p.i < len(p.s) {
		p.buf = append(p.buf, p.s[start:p.i]...)
		switch p.s[p.i] {
		case '"':
			p.i++
			p.decoded = append(p.decoded, string(p.buf))
			return span{uint32(len(p.s) + len(p.decoded) - 1), uint32(len(p.buf))}, nil
		case '\\':
			r, n, bad := unescape(p.s[p.i:])
			if bad != "" {
				return span{}, p.fail(p.i, bad)
			}
			p.buf = utf8.AppendRune(p.buf, r)
			start = p.i + n
		default:
			return span{}, p.fail(p.i, "no raw control character in a string")
		}
		p.i = skipPlain(p.s, start)
	}
	return span{}, p.fail(len(p.s), "a closing quote")
}

// skipPlain returns the first index from i on of a byte that a JSON string does
// not hold as it is: a quote, a backslash or a C0 control; len(s) if there is
// none. It looks at eight bytes at a time: a byte of a word is found by the
// borrow that subtracting takes from its top bit. A borrow can mark bytes above
// a found one wrongly, never below, so the lowest mark is right.
func skipPlain(s string, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 {
		t := s[i : i+8]
		w := uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
			uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
		quote, slash := w^'"'*ones, w^'\\'*ones
		found := ((w-' '*ones)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & tops
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			return i
		}
	}
	return i
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
