package openaichat

import (
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
	"github.com/loom-run/loom/provider/remote"
	"github.com/loom-run/loom/provider/sse"
)

// doneMark is the data of the event that ends a stream.
const doneMark = "[DONE]"

// fold turns the events of one answer into deltas and remembers what it needs to settle. It is pure: the same events give the same deltas and
// the same outcome.
type fold struct {
	answer dialect.Answer
	calls  calls
	whole  bool // the answer is not streamed: each call is there once
	done   bool // the stream said that it is complete
	chunks int
}

func newFold(p dialect.Peer, req provider.Request, sink func(provider.Delta)) *fold {
	f := &fold{answer: dialect.Answer{API: API, Peer: p, Req: req, Sink: sink}}
	f.calls.answer = &f.answer
	return f
}

// Phase implements remote.Fold.
func (f *fold) Phase() remote.Phase {
	switch {
	case f.answer.Failure != nil:
		return remote.Failed
	case f.done:
		return remote.Ended
	case f.answer.Finish != "":
		return remote.Finishing
	}
	return remote.Speaking
}

// Heard implements remote.Fold.
func (f *fold) Heard() bool { return f.chunks > 0 }

// Event implements remote.Fold.
func (f *fold) Event(e sse.Event) {
	if f.done || f.answer.Failure != nil || len(e.Data) == 0 {
		return
	}
	if len(e.Data) <= 2*len(doneMark) && strings.TrimSpace(string(e.Data)) == doneMark {
		f.done = true
		return
	}
	v, replaced, err := dialect.ParseJSON(e.Data)
	f.answer.Replaced += replaced
	switch {
	case err != nil:
		f.malformed("it sent an event that is not JSON")
	case v.Kind() != jsonv.Object:
		f.malformed("it sent an event that is not a JSON object")
	default:
		f.chunk(v, e.Name == "error")
	}
}

func (f *fold) malformed(what string) { f.answer.Fail(f.answer.Peer.Malformed(what)) }

// chunk folds a chat.completion.chunk. Usage and content are read before an error beside them, so that a failed answer keeps what it cost.
func (f *fold) chunk(v jsonv.Value, isError bool) {
	f.chunks++
	f.answer.ResponseID = dialect.First(f.answer.ResponseID, dialect.Text(v, "id"))
	f.answer.ResponseModel = dialect.First(f.answer.ResponseModel, dialect.Text(v, "model"))
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
		if reason := dialect.Text(choice, "finish_reason"); reason != "" {
			f.answer.Finish = reason
		}
	}
	if s, ok := dialect.StatedError(v, isError); ok {
		f.answer.Fail(f.answer.Peer.Refused(f.answer.Req.Model.ModelID, 0, s))
	}
}

// Whole folds an answer that was not streamed: a server may ignore that streaming was asked for.
func (f *fold) Whole(v jsonv.Value, replaced int) {
	f.answer.Replaced += replaced
	choices, has := v.Get("choices")
	if !has {
		f.chunk(v, true)
		return
	}
	streamed := make([]jsonv.Value, 0, choices.Len())
	for _, choice := range choices.Elems() {
		if m, ok := choice.Get("message"); ok {
			choice = choice.With("delta", m)
		}
		streamed = append(streamed, choice)
	}
	f.whole = true
	f.chunk(v.With("choices", jsonv.Arr(streamed...)), false)
	f.done = true
}

func (f *fold) readUsage(v jsonv.Value) {
	if u, ok := v.Get("usage"); ok && u.Kind() == jsonv.Object {
		f.answer.Usage = new(readUsage(u))
	}
}

func (f *fold) delta(d jsonv.Value) {
	if d.Kind() != jsonv.Object {
		return
	}
	f.answer.Thinking(reasoningOf(d))
	content, _ := d.Get("content")
	switch content.Kind() {
	case jsonv.String:
		s, _ := content.Text()
		f.answer.Text(s)
	case jsonv.Array:
		f.parts(content)
	case jsonv.Null:
	default:
		f.malformed("it sent content that is a JSON " + content.Kind().String())
	}
	// A model that declines says so in a field of its own; that is what it has to say.
	f.answer.Text(dialect.Text(d, "refusal"))

	toolCalls, _ := d.Get("tool_calls")
	for _, element := range toolCalls.Elems() {
		f.fragment(readFragment(element))
	}
	if legacy, ok := d.Get("function_call"); ok && legacy.Kind() == jsonv.Object {
		f.fragment(fragment{index: new(int64(-1)), name: dialect.Text(legacy, "name"), args: dialect.ArgumentText(legacy, "arguments")})
	}
}

// parts folds content that comes as typed parts.
func (f *fold) parts(content jsonv.Value) {
	for _, part := range content.Elems() {
		switch dialect.Text(part, "type") {
		case "text":
			f.answer.Text(dialect.Text(part, "text"))
		case "thinking":
			inner, _ := part.Get("thinking")
			for _, piece := range inner.Elems() {
				f.answer.Thinking(dialect.Text(piece, "text"))
			}
		}
	}
}

// reasoningOf finds the reasoning of a delta. Vendors disagree about the field, and some send the same text in two: the first that is
// there counts.
func reasoningOf(d jsonv.Value) string {
	if s := dialect.First(dialect.Text(d, "reasoning_content"), dialect.Text(d, "reasoning")); s != "" {
		return s
	}
	var out strings.Builder
	details, _ := d.Get("reasoning_details")
	for _, detail := range details.Elems() {
		out.WriteString(dialect.First(dialect.Text(detail, "text"), dialect.Text(detail, "summary")))
	}
	return out.String()
}

func (f *fold) fragment(piece fragment) {
	if piece == (fragment{}) || f.answer.Failure != nil {
		return
	}
	var c *dialect.Block
	if f.whole {
		c = f.calls.open()
	} else {
		c = f.calls.place(piece)
	}
	if c == nil {
		f.calls.doubtOpen()
		return
	}
	c.Take(piece.id, piece.name, piece.args)
}

func readFragment(v jsonv.Value) fragment {
	piece := fragment{id: dialect.Text(v, "id")}
	if index, ok := v.Get("index"); ok {
		if n, ok := index.Int64(); ok {
			piece.index = &n
		}
	}
	function, _ := v.Get("function")
	piece.name, piece.args = dialect.Text(function, "name"), dialect.ArgumentText(function, "arguments")
	return piece
}

// Settle implements remote.Fold. An answer is complete when the provider gave a finish reason or the end mark.
func (f *fold) Settle(broke *provider.Error, at int64) (*message.Assistant, *provider.Error) {
	if f.answer.Finish == "" && f.done {
		f.answer.Note("finish_reason", jsonv.Value{})
	}
	return f.answer.Settle(broke, at, f.chunks > 0 && (f.done || f.answer.Finish != ""), f.stopReason)
}

// stopReason maps the provider's finish reason. What decides between stop and tool use is whether there are calls: servers say "stop" with calls
// and "tool_calls" without. A stream that ends with its mark but without a reason is complete by its own word. A reason that is not known is
// accepted only when whole calls show what the model wants.
func (f *fold) stopReason() (message.StopReason, *provider.Error) {
	a := &f.answer
	natural := a.Natural()
	switch a.Finish {
	case "", "stop", "tool_calls", "function_call", "tool_use", "end_turn", "eos", "stop_sequence":
		return natural, nil
	case "length", "max_tokens", "model_length":
		return message.Length, nil
	case "content_filter", "sensitive":
		return "", a.Withheld(a.Finish)
	case "error":
		return "", a.Peer.Refused(a.Req.Model.ModelID, 0, dialect.Stated{Words: []string{"server_error"}})
	case "insufficient_system_resource":
		return "", a.Peer.Refused(a.Req.Model.ModelID, 0, dialect.Stated{Words: []string{"overloaded_error"}})
	}
	if natural == message.ToolUse && a.AllWhole() {
		return natural, nil
	}
	return "", a.Unmapped()
}
