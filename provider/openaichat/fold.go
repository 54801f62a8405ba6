package openaichat

import (
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/sse"
)

// doneMark is the data of the event that ends a stream.
const doneMark = "[DONE]"

// fold turns the events of one answer into deltas and remembers what it needs to settle. It is pure: the same events give the same deltas and
// the same outcome.
type fold struct {
	peer peer
	req  provider.Request
	sink func(provider.Delta)

	blocks []block
	calls  calls

	responseID, responseModel string
	finish                    string // the last finish reason that was not empty
	done                      bool   // the stream said that it is complete
	chunks                    int
	usage                     *usage.Usage
	replaced                  int
	failure                   *provider.Error
}

// block is a content block being assembled; exactly one of text, thinking and call is in use.
type block struct {
	text, thinking *strings.Builder
	call           *call
}

func newFold(p peer, req provider.Request, sink func(provider.Delta)) *fold {
	return &fold{peer: p, req: req, sink: sink}
}

// over reports whether nothing that could still come matters.
func (f *fold) over() bool { return f.done || f.failure != nil }

// event folds one event in. Events after the end of the answer are ignored.
func (f *fold) event(e sse.Event) {
	if f.over() || len(e.Data) == 0 {
		return
	}
	if len(e.Data) <= 2*len(doneMark) && strings.TrimSpace(string(e.Data)) == doneMark {
		f.done = true
		return
	}
	v, replaced, err := parseChunk(e.Data)
	f.replaced += replaced
	switch {
	case err != nil:
		f.fail(f.peer.malformed("it sent an event that is not JSON"))
	case v.Kind() != jsonv.Object:
		f.fail(f.peer.malformed("it sent an event that is not a JSON object"))
	default:
		f.chunk(v, e.Name == "error")
	}
}

func (f *fold) fail(e *provider.Error) {
	if f.failure == nil {
		f.failure = e
	}
}

// chunk folds a chat.completion.chunk. Usage and content are read before an error beside them, so that a failed answer keeps what it cost.
func (f *fold) chunk(v jsonv.Value, isError bool) {
	f.chunks++
	f.responseID = first(f.responseID, text(v, "id"))
	f.responseModel = first(f.responseModel, text(v, "model"))
	f.readUsage(v)
	choices, _ := v.Get("choices")
	for _, choice := range choices.Elems() {
		if index, ok := choice.Get("index"); ok && !index.IsNull() {
			if n, _ := index.Int64(); n != 0 {
				continue // one answer was asked for
			}
		}
		f.readUsage(choice) // some servers put it here
		if delta, ok := choice.Get("delta"); ok {
			f.delta(delta)
		}
		if reason := text(choice, "finish_reason"); reason != "" {
			f.finish = reason
		}
	}
	if s, ok := statedError(v, isError); ok {
		f.fail(f.peer.refused(f.req.Model.ModelID, 0, s))
	}
}

// whole folds an answer that was not streamed: a server may ignore that streaming was asked for.
func (f *fold) whole(v jsonv.Value) {
	if _, hasChoices := v.Get("choices"); !hasChoices {
		f.chunk(v, true)
		return
	}
	choices, _ := v.Get("choices")
	streamed := make([]jsonv.Value, 0, choices.Len())
	for _, choice := range choices.Elems() {
		if m, ok := choice.Get("message"); ok {
			choice = choice.With("delta", m)
		}
		streamed = append(streamed, choice)
	}
	f.chunk(v.With("choices", jsonv.Arr(streamed...)), false)
	f.done = true
}

func (f *fold) readUsage(v jsonv.Value) {
	if u, ok := v.Get("usage"); ok && u.Kind() == jsonv.Object {
		f.usage = new(readUsage(u))
	}
}

func (f *fold) delta(d jsonv.Value) {
	if d.Kind() != jsonv.Object {
		return
	}
	f.thinking(reasoningOf(d))
	content, _ := d.Get("content")
	switch content.Kind() {
	case jsonv.String:
		s, _ := content.Text()
		f.text(s)
	case jsonv.Array:
		f.parts(content)
	case jsonv.Null:
	default:
		f.fail(f.peer.malformed("it sent content that is a JSON " + content.Kind().String()))
	}
	// A model that declines says so in a field of its own; that is what it has to say.
	f.text(text(d, "refusal"))

	toolCalls, _ := d.Get("tool_calls")
	for _, element := range toolCalls.Elems() {
		f.fragment(readFragment(element))
	}
	if legacy, ok := d.Get("function_call"); ok && legacy.Kind() == jsonv.Object {
		f.fragment(fragment{index: new(int64(-1)), name: text(legacy, "name"), args: arguments(legacy)})
	}
}

// parts folds content that comes as typed parts.
func (f *fold) parts(content jsonv.Value) {
	for _, part := range content.Elems() {
		switch text(part, "type") {
		case "text":
			f.text(text(part, "text"))
		case "thinking":
			inner, _ := part.Get("thinking")
			for _, piece := range inner.Elems() {
				f.thinking(text(piece, "text"))
			}
		}
	}
}

// reasoningOf finds the reasoning of a delta. Vendors disagree about the field, and some send the same text in two: the first that is
// there counts.
func reasoningOf(d jsonv.Value) string {
	if s := first(text(d, "reasoning_content"), text(d, "reasoning")); s != "" {
		return s
	}
	var out strings.Builder
	details, _ := d.Get("reasoning_details")
	for _, detail := range details.Elems() {
		out.WriteString(first(text(detail, "text"), text(detail, "summary")))
	}
	return out.String()
}

func (f *fold) text(s string) {
	if s == "" {
		return
	}
	at := len(f.blocks) - 1
	if at < 0 || f.blocks[at].text == nil {
		f.blocks = append(f.blocks, block{text: new(strings.Builder)})
		at++
	}
	f.blocks[at].text.WriteString(s)
	f.sink(provider.TextDelta{Block: at, Text: s})
}

func (f *fold) thinking(s string) {
	if s == "" {
		return
	}
	at := len(f.blocks) - 1
	if at < 0 || f.blocks[at].thinking == nil {
		f.blocks = append(f.blocks, block{thinking: new(strings.Builder)})
		at++
	}
	f.blocks[at].thinking.WriteString(s)
	f.sink(provider.ThinkingDelta{Block: at, Text: s})
}

func (f *fold) fragment(piece fragment) {
	if piece == (fragment{}) {
		return
	}
	c := f.calls.place(piece)
	if c == nil {
		f.calls.doubtOpen()
		return
	}
	if c.block < 0 {
		if len(f.calls.list) > maxCalls {
			f.fail(f.peer.malformed("it asked for too many tools at once"))
			return
		}
		c.block = len(f.blocks)
		f.blocks = append(f.blocks, block{call: c})
	}
	c.take(piece)
	f.sink(provider.ToolCallDelta{Block: c.block, CallID: piece.id, Name: piece.name, Fragment: piece.args})
}

func readFragment(v jsonv.Value) fragment {
	piece := fragment{id: text(v, "id")}
	if index, ok := v.Get("index"); ok {
		if n, ok := index.Int64(); ok {
			piece.index = &n
		}
	}
	function, _ := v.Get("function")
	piece.name, piece.args = text(function, "name"), arguments(function)
	return piece
}

// arguments reads the argument text of a function. A server may send the object itself instead of its text.
func arguments(function jsonv.Value) string {
	args, _ := function.Get("arguments")
	if args.Kind() == jsonv.Object {
		return args.String()
	}
	s, _ := args.Text()
	return s
}

// text reads a string field; anything else is the empty string.
func text(v jsonv.Value, name string) string {
	field, _ := v.Get(name)
	s, _ := field.Text()
	return s
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
