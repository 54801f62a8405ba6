package openaichat

import (
	"strconv"
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
)

// maxCalls bounds the tool calls of one answer; more is a broken stream.
const maxCalls = 256

// unnamed stands for the name of a call that never got one, since a replayed call must have a name.
const unnamed = "unnamed_tool"

// call is a tool call being assembled.
type call struct {
	block int // index in the content
	id    string
	name  string
	args  strings.Builder
	shape shape
	// doubt says why the call must not run, when a fragment could not be attributed or contradicted an earlier one.
	doubt string
}

// shape follows the brackets of a JSON text as it arrives, to know at any time whether a container that was opened is closed again.
type shape struct {
	depth    int
	inString bool
	escaped  bool
	closed   bool // a container was opened and is complete
}

func (s *shape) add(text string) {
	for _, c := range []byte(text) {
		switch {
		case s.escaped:
			s.escaped = false
		case s.inString:
			s.escaped = c == '\\'
			s.inString = c != '"'
		case c == '"':
			s.inString = true
		case c == '{' || c == '[':
			s.depth++
			s.closed = false
		case c == '}' || c == ']':
			s.depth--
			s.closed = s.depth == 0
		}
	}
}

// fragment is one element of a delta's tool_calls. Servers leave out any of its fields.
type fragment struct {
	index *int64
	id    string
	name  string
	args  string
}

// calls attributes fragments to tool calls.
//
// The rules, in order: a known index; a known id; a new index or id opens a call; a name alone completes a call that has none, continues an open
// call of that name, or opens one; bare arguments continue the newest call. Bare arguments that could belong to several open calls belong to none:
// all of them are put in doubt. An index that is used again with another id and a name is a new call: some servers number every call 0.
type calls struct {
	list    []*call
	byIndex map[int64]*call
}

// place finds or opens the call of a fragment; nil means that it cannot be attributed.
func (c *calls) place(f fragment) *call {
	switch {
	case f.index != nil:
		return c.placeIndexed(f)
	case f.id != "":
		if known := c.withID(f.id); known != nil {
			return known
		}
		if last := c.last(); last != nil && last.id == "" && f.name == "" {
			return last
		}
		return c.open()
	case f.name != "":
		last := c.last()
		if last != nil && (last.name == "" || last.name == f.name && !last.shape.closed) {
			return last
		}
		return c.open()
	}
	last := c.last()
	if last == nil {
		return c.open()
	}
	for _, other := range c.list {
		if other != last && !other.shape.closed {
			return nil
		}
	}
	return last
}

func (c *calls) placeIndexed(f fragment) *call {
	known := c.byIndex[*f.index]
	reused := known != nil && f.id != "" && known.id != "" && f.id != known.id && f.name != ""
	if known != nil && !reused {
		return known
	}
	if known = c.withID(f.id); known == nil {
		known = c.open()
	}
	if c.byIndex == nil {
		c.byIndex = map[int64]*call{}
	}
	c.byIndex[*f.index] = known
	return known
}

func (c *calls) withID(id string) *call {
	if id == "" {
		return nil
	}
	for _, known := range c.list {
		if known.id == id {
			return known
		}
	}
	return nil
}

func (c *calls) last() *call {
	if len(c.list) == 0 {
		return nil
	}
	return c.list[len(c.list)-1]
}

// open starts a call; its block is set by the fold.
func (c *calls) open() *call {
	started := &call{block: -1}
	c.list = append(c.list, started)
	return started
}

// doubtOpen refuses every call that the fragment might have belonged to.
func (c *calls) doubtOpen() {
	for _, open := range c.list {
		if !open.shape.closed || open == c.last() {
			open.refuse("a part of the arguments came without saying which call it belongs to")
		}
	}
}

// take adds what the fragment brings to the call. An id or name that is already known is not overwritten: a later empty or equal one is
// repetition, a different name is a contradiction.
func (c *call) take(f fragment) {
	if c.id == "" {
		c.id = f.id
	}
	switch {
	case c.name == "":
		c.name = f.name
	case f.name != "" && f.name != c.name:
		c.refuse("the tool was called " + strconv.Quote(c.name) + " first and " + strconv.Quote(f.name) + " later")
	}
	c.args.WriteString(f.args)
	c.shape.add(f.args)
}

func (c *call) refuse(why string) {
	if c.doubt == "" {
		c.doubt = why
	}
}

// whole reports whether the call could run as it stands: named, undoubted, its arguments one complete object.
func (c *call) whole() bool {
	if c.name == "" || c.doubt != "" || !c.shape.closed {
		return false
	}
	_, _, malformed := message.AsMalformed(c.arguments())
	return !malformed
}

func (c *call) arguments() jsonv.Value {
	text := strings.TrimSpace(c.args.String())
	switch {
	case c.doubt != "":
		return message.MalformedArguments(text, c.doubt)
	case c.name == "":
		return message.MalformedArguments(text, "the call came without a tool name")
	}
	return message.ParseArguments(text)
}

// settled is the block of a call under an id that is unique in the conversation.
func (c *call) settled(id string) message.ToolCall {
	name := c.name
	if name == "" {
		name = unnamed
	}
	return message.ToolCall{ID: id, Name: name, Arguments: c.arguments()}
}
