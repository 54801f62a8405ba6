package gemini

import (
	"strconv"
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/provider/dialect"
)

// partialCall is a call whose arguments come whole or in pieces: {"jsonPath":"$.a[0].b","stringValue":"…","willContinue":true}.
type partialCall struct {
	block *dialect.Block
	whole string
	root  *branch // of the pieces; nil before the first
	nodes int
}

// branch is a JSON value being built.
type branch struct {
	names  []string // of an object, in the order of arrival
	fields map[string]*branch
	elems  []*branch // of an array
	leaf   jsonv.Value
	text   strings.Builder // of a string that comes in pieces
	isText bool
}

// maxNodes bounds the values of one call's arguments.
const maxNodes = 10_000

const notUnderstood = "a part of the arguments has a place that is not understood here"

// add takes a piece. One that cannot be placed makes the call doubtful.
func (c *partialCall) add(piece jsonv.Value) {
	if c.root == nil {
		c.root = &branch{}
	}
	steps, ok := parsePath(dialect.Text(piece, "jsonPath"))
	at := c.root
	for _, s := range steps {
		if at = at.step(s); at == nil {
			break
		}
		c.nodes++
	}
	if !ok || at == nil || c.nodes > maxNodes || !at.put(piece) {
		c.block.Doubt(notUnderstood)
	}
}

// step is a name or an index.
type step struct {
	name  string
	index int // -1 for a name
}

// parsePath reads the paths that the provider writes: $, .name, ['name'] or ["name"], [0].
func parsePath(path string) ([]step, bool) {
	rest, ok := strings.CutPrefix(path, "$")
	if !ok || len(path) > 4096 {
		return nil, false
	}
	var steps []step
	for rest != "" {
		switch {
		case rest[0] == '.':
			end := strings.IndexAny(rest[1:], ".[")
			if end < 0 {
				end = len(rest) - 1
			}
			if end == 0 {
				return nil, false
			}
			steps, rest = append(steps, step{rest[1 : end+1], -1}), rest[end+1:]
		case strings.HasPrefix(rest, "['") || strings.HasPrefix(rest, `["`):
			end := strings.Index(rest[2:], rest[1:2]+"]")
			if end < 0 {
				return nil, false
			}
			steps, rest = append(steps, step{rest[2 : end+2], -1}), rest[end+4:]
		case rest[0] == '[':
			end := strings.IndexByte(rest, ']')
			n, err := strconv.Atoi(rest[1:max(end, 1)])
			if err != nil || n < 0 || n > maxNodes {
				return nil, false
			}
			steps, rest = append(steps, step{"", n}), rest[end+1:]
		default:
			return nil, false
		}
	}
	return steps, len(steps) > 0 && steps[0].index < 0 // arguments are an object
}

// step goes to a member, which it makes where there is none; nil where the value is of another kind, or where an array has a hole.
func (b *branch) step(s step) *branch {
	if b.isText || !b.leaf.IsNull() {
		return nil
	}
	if s.index >= 0 {
		if b.fields != nil || s.index > len(b.elems) {
			return nil
		}
		if s.index == len(b.elems) {
			b.elems = append(b.elems, &branch{})
		}
		return b.elems[s.index]
	}
	if b.elems != nil {
		return nil
	}
	if b.fields == nil {
		b.fields = map[string]*branch{}
	}
	if b.fields[s.name] == nil {
		b.fields[s.name] = &branch{}
		b.names = append(b.names, s.name)
	}
	return b.fields[s.name]
}

// put sets or continues a value.
func (b *branch) put(piece jsonv.Value) bool {
	if b.fields != nil || b.elems != nil {
		return false
	}
	if s, ok := piece.Get("stringValue"); ok {
		text, isText := s.Text()
		if !isText || !b.leaf.IsNull() {
			return false
		}
		b.isText = true
		b.text.WriteString(text)
		return true
	}
	for _, name := range []string{"numberValue", "boolValue"} {
		if v, ok := piece.Get(name); ok && !b.isText {
			b.leaf = v
			return true
		}
	}
	_, null := piece.Get("nullValue")
	return null && !b.isText
}

func (b *branch) value() jsonv.Value {
	switch {
	case b.isText:
		return jsonv.Str(b.text.String())
	case b.fields != nil:
		var fields []jsonv.Member
		for _, name := range b.names {
			fields = append(fields, jsonv.F(name, b.fields[name].value()))
		}
		return jsonv.Obj(fields...)
	case b.elems != nil:
		var elems []jsonv.Value
		for _, e := range b.elems {
			elems = append(elems, e.value())
		}
		return jsonv.Arr(elems...)
	}
	return b.leaf
}

// end closes the call with its arguments.
func (c *partialCall) end() {
	switch {
	case c.whole != "":
		c.block.Add(c.whole)
	case c.root != nil:
		c.block.Add(c.root.value().String())
	}
	c.block.End()
}
