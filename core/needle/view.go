package needle

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// view is a text with some layers of escapes taken away.
type view struct {
	text    []byte
	from    []int // of each byte, and of the end: its place in the text below; nil where nothing was taken away
	tracked bool  // places are wanted
	layers  []layer
}

// place is where the byte at i stands in the text below.
func (v view) place(i int) int {
	if v.from == nil {
		return i
	}
	return v.from[i]
}

// find lists the places of a text that spell the needle, in order and apart from
// each other.
func (n Needle) find(text string) []span {
	if n.s == nil || len(text) == 0 {
		return nil
	}
	found := n.search(nil, view{text: []byte(text), tracked: true}, Levels)
	slices.SortStableFunc(found, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var apart []span
	for _, s := range found {
		if last := len(apart) - 1; last >= 0 && s.from < apart[last].to {
			apart[last] = joined(apart[last], s)
			continue
		}
		apart = append(apart, s)
	}
	return apart
}

// joined is one span in place of two that overlap. Digits can only stand in for
// the digits that they were made for.
func joined(a, b span) span {
	switch {
	case a.from <= b.from && a.to >= b.to:
		return a
	case b.from <= a.from && b.to >= a.to:
		return b
	}
	return span{from: a.from, to: max(a.to, b.to), layers: a.layers}
}

// search adds what a view and those below it hold.
func (n Needle) search(found []span, v view, levels int) []span {
	for _, text := range n.s.texts {
		for at := 0; ; {
			i := bytes.Index(v.text[at:], text)
			if i < 0 {
				break
			}
			found = append(found, span{from: v.place(at + i), to: v.place(at + i + len(text)), layers: v.layers})
			at += i + len(text)
		}
	}
	found = n.searchCoded(found, v)
	if flat, ok := unfold(v); ok && len(n.s.coded) > 0 {
		found = n.searchCoded(found, flat)
	}
	if levels == 0 {
		return found
	}
	for _, l := range layers {
		if n.beneath(v.text, l, levels) {
			found = n.search(found, v.without(l), levels-1)
		}
	}
	return found
}

func (n Needle) searchCoded(found []span, v view) []span {
	for _, c := range n.s.coded {
		for at := 0; ; {
			i := bytes.Index(v.text[at:], c.digits)
			if i < 0 {
				break
			}
			from, to, digits := c.blank(v.text, at+i, at+i+len(c.digits))
			found = append(found, span{from: v.place(from), to: v.place(to), layers: v.layers, digits: digits})
			at += i + len(c.digits)
		}
	}
	return found
}

// holds reports whether a view or one below it spells the needle.
func (n Needle) holds(v view, levels int) bool {
	if n.s == nil {
		return false
	}
	for _, text := range n.s.texts {
		if bytes.Contains(v.text, text) {
			return true
		}
	}
	if n.holdsCoded(v) {
		return true
	}
	if len(n.s.coded) > 0 {
		if flat, ok := unfold(v); ok && n.holdsCoded(flat) {
			return true
		}
	}
	if levels == 0 {
		return false
	}
	for _, l := range layers {
		if n.beneath(v.text, l, levels) && n.holds(v.without(l), levels-1) {
			return true
		}
	}
	return false
}

func (n Needle) holdsCoded(v view) bool {
	for _, c := range n.s.coded {
		if bytes.Contains(v.text, c.digits) {
			return true
		}
	}
	return false
}

// maker builds a view from another.
type maker struct {
	of  view
	out view
}

func newMaker(of view) maker {
	m := maker{of: of, out: view{text: make([]byte, 0, len(of.text)), tracked: of.tracked}}
	if of.tracked {
		m.out.from = make([]int, 0, len(of.text)+1)
	}
	return m
}

// keep takes the bytes from i to j as they are.
func (m *maker) keep(i, j int) {
	m.out.text = append(m.out.text, m.of.text[i:j]...)
	if m.out.tracked {
		for k := i; k < j; k++ {
			m.out.from = append(m.out.from, m.of.place(k))
		}
	}
}

// put adds what is spelt by the bytes from i on.
func (m *maker) put(i int, text []byte) {
	m.out.text = append(m.out.text, text...)
	if m.out.tracked {
		for range text {
			m.out.from = append(m.out.from, m.of.place(i))
		}
	}
}

func (m *maker) done() view {
	if m.out.tracked {
		m.out.from = append(m.out.from, m.of.place(len(m.of.text)))
	}
	return m.out
}

// next finds the next trace of a layer in text: where it is, what it spells (in buf)
// and its length. A mark that spells nothing has the length 0; at is negative when
// there is no mark.
func (l layer) next(text, buf []byte) (at int, spelt []byte, size int) {
	switch l {
	case escaped:
		if at = bytes.IndexByte(text, '\\'); at >= 0 {
			spelt, size = resolveEscape(text[at:], buf)
		}
	case percent:
		if at = bytes.IndexByte(text, '%'); at >= 0 {
			spelt, size = resolvePercent(text[at:], buf)
		}
	}
	return at, spelt, size
}

// beneath reports whether a text without a layer could spell the needle where the
// text itself does not: one of the escapes spells a part of it, or of a further
// escape. Most texts have no such thing, and need no copy.
func (n Needle) beneath(text []byte, l layer, levels int) bool {
	var buf [utf8.UTFMax]byte
	for at := 0; at < len(text); {
		i, spelt, size := l.next(text[at:], buf[:0])
		if i < 0 {
			return false
		}
		at += i
		for _, c := range spelt {
			if n.s.parts[c] || levels > 1 && (c == '\\' || c == '%') {
				return true
			}
			if (c == '\n' || c == '\r') && n.s.coded != nil && longLine(text[:at]) {
				return true
			}
		}
		at += max(size, 1)
	}
	return false
}

// without takes one layer away.
func (v view) without(l layer) view {
	m := newMaker(v)
	var buf [utf8.UTFMax]byte
	for at := 0; at < len(v.text); {
		i, spelt, size := l.next(v.text[at:], buf[:0])
		if i < 0 {
			m.keep(at, len(v.text))
			break
		}
		m.keep(at, at+i)
		at += i
		if size == 0 {
			m.keep(at, at+1)
			size = 1
		}
		m.put(at, spelt)
		at += size
	}
	below := m.done()
	below.layers = append(slices.Clip(v.layers), l)
	return below
}

// resolveEscape reads the escape that s begins with into buf; n is its length, or 0
// where it is none. Half of a surrogate pair is none.
func resolveEscape(s, buf []byte) (text []byte, n int) {
	if len(s) < 2 {
		return nil, 0
	}
	if i := strings.IndexByte(`"\/bfnrt`, s[1]); i >= 0 {
		return append(buf, "\"\\/\b\f\n\r\t"[i]), 2
	}
	r, ok := unit(s)
	if !ok {
		return nil, 0
	}
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(buf, r), 6
	}
	low, ok := unit(s[6:])
	if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
		return utf8.AppendRune(buf, pair), 12
	}
	return nil, 0
}

// unit reads \uXXXX.
func unit(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	hi, ok := hexByte(s[2:])
	lo, ok2 := hexByte(s[4:])
	return rune(hi)<<8 | rune(lo), ok && ok2
}

// hexByte reads two hexadecimal digits of either case.
func hexByte(s []byte) (b byte, ok bool) {
	for _, c := range s[:2] {
		switch {
		case '0' <= c && c <= '9':
			b = b<<4 | (c - '0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			b = b<<4 | ((c | 0x20) - 'a' + 10)
		default:
			return 0, false
		}
	}
	return b, true
}

// resolvePercent reads %XX.
func resolvePercent(s, buf []byte) (text []byte, n int) {
	if len(s) < 3 {
		return nil, 0
	}
	c, ok := hexByte(s[1:])
	if !ok {
		return nil, 0
	}
	return append(buf, c), 3
}

// unfold takes away line ends between digits of base64; ok is false when there are
// none.
func unfold(v view) (flat view, ok bool) {
	var m maker
	kept := 0
	for i := 0; i < len(v.text); {
		next := bytes.IndexByte(v.text[i:], '\n')
		if next < 0 {
			break
		}
		end := i + next
		start := end
		if start > 0 && v.text[start-1] == '\r' {
			start--
		}
		if end+1 < len(v.text) && digit(v.text[end+1]) && longLine(v.text[:start]) {
			if !ok {
				m, ok = newMaker(v), true
			}
			m.keep(kept, start)
			kept = end + 1
		}
		i = end + 1
	}
	if !ok {
		return view{}, false
	}
	m.keep(kept, len(v.text))
	flat = m.done()
	flat.layers = v.layers
	return flat, true
}

// longLine reports whether text ends in a line of base64 that may go on.
func longLine(text []byte) bool {
	if len(text) < ShortestLine {
		return false
	}
	for i := len(text) - 1; i >= len(text)-ShortestLine; i-- {
		if !digit(text[i]) {
			return false
		}
	}
	return true
}

// digit reports whether c may stand in base64 of either alphabet.
func digit(c byte) bool {
	return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_'
}
