package dialect

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
)

// Unnamed stands for the name of a call that never got one, since a replayed call must have a name.
const Unnamed = "unnamed_tool"

// call is what is known of a tool call.
type call struct {
	id, name string
	args     strings.Builder
	shape    shape
	ended    bool   // the provider said that the call is complete
	doubt    string // why the call must not run, when a piece could not be attributed or contradicted an earlier one
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

// ID is the provider's id of a call so far, Name the tool's name.
func (b *Block) ID() string   { return b.call.id }
func (b *Block) Name() string { return b.call.name }

// Closed reports whether the arguments of a call are one complete container.
func (b *Block) Closed() bool { return b.call.shape.closed }

// Take adds a piece to a call. An id or name that is already known is not overwritten: a later empty or equal one is repetition, a different name is a
// contradiction.
func (b *Block) Take(id, name, fragment string) {
	c := &b.call
	if c.id == "" {
		c.id = id
	}
	switch {
	case c.name == "":
		c.name = name
	case name != "" && name != c.name:
		b.Doubt("the tool was called " + strconv.Quote(c.name) + " first and " + strconv.Quote(name) + " later")
	}
	c.args.WriteString(fragment)
	c.shape.add(fragment)
	if b.at >= 0 {
		b.answer.Sink(provider.ToolCallDelta{Block: b.at, CallID: id, Name: name, Fragment: fragment})
	}
}

// completeCall brings the arguments of a call to the text that the provider declares to be all of it.
func (b *Block) completeCall(all string) (agrees bool) {
	so := b.call.args.String()
	if rest, ok := strings.CutPrefix(all, so); ok {
		if rest != "" {
			b.Take("", "", rest)
		}
		return true
	}
	b.call.args.Reset()
	b.call.args.WriteString(all)
	b.call.shape = shape{}
	b.call.shape.add(all)
	return false
}

// End notes that the provider declared the call complete.
func (b *Block) End() { b.call.ended = true }

// Doubt refuses a call: it is settled as malformed, with the reason. The first reason stays.
func (b *Block) Doubt(why string) {
	if b.call.doubt == "" {
		b.call.doubt = why
	}
}

// cutOff is why a call of an answer that reached its limit of length does not run.
const cutOff = "the answer reached its limit of length before this call was complete"

// doubtUnended refuses the calls that the limit of length may have cut.
func (a *Answer) doubtUnended() {
	for _, b := range a.calls {
		if !b.call.ended && !b.call.shape.closed {
			b.Doubt(cutOff)
		}
	}
}

// Whole reports whether the call could run as it stands: named, undoubted, its arguments one complete object or, where the provider ended it, nothing.
func (b *Block) Whole() bool {
	c := &b.call
	if c.name == "" || c.doubt != "" || !c.shape.closed && !(c.ended && Blank(c.args.String())) {
		return false
	}
	_, _, malformed := message.AsMalformed(c.arguments())
	return !malformed
}

// AllWhole reports whether every call is whole.
func (a *Answer) AllWhole() bool {
	for _, b := range a.calls {
		if !b.Whole() {
			return false
		}
	}
	return true
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
func (b *Block) settled(id string) message.ToolCall {
	return message.ToolCall{
		ID: id, Name: First(b.call.name, Unnamed), Arguments: b.call.arguments(),
		ThoughtSignature: Present(b.signature.String()),
	}
}

// ids gives each call an id that no other call of the conversation has: results are matched by it. A provider's own id is kept unless it is
// empty or taken; some servers number calls afresh in every answer.
type ids struct {
	base    string
	taken   map[string]bool
	renamed int64
}

func (a *Answer) newIDs() *ids {
	if len(a.calls) == 0 {
		return &ids{}
	}
	taken := map[string]bool{}
	for _, m := range a.Req.Messages {
		if earlier, ok := m.(*message.Assistant); ok {
			for _, b := range earlier.Content {
				if c, ok := b.(message.ToolCall); ok {
					taken[c.ID] = true
				}
			}
		}
	}
	sum := sha256.Sum256([]byte(a.ResponseID))
	return &ids{base: "call_" + hex.EncodeToString(sum[:8]), taken: taken}
}

func (i *ids) next(id string) string {
	given := id
	if id == "" {
		id = i.base
	}
	root := id
	for n := 2; i.taken[id]; n++ {
		id = root + "_" + strconv.Itoa(n)
	}
	i.taken[id] = true
	if id != given {
		i.renamed++
	}
	return id
}

// Begun reports whether any of the arguments of a call came.
func (b *Block) Begun() bool { return b.call.args.Len() > 0 }
