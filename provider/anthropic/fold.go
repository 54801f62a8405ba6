package anthropic

import (
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
	"github.com/loom-run/loom/provider/remote"
	"github.com/loom-run/loom/provider/sse"
)

// fold turns the events of one answer into deltas and remembers what it needs to settle. It is pure: the same events give the same deltas and
// the same outcome.
type fold struct {
	answer  dialect.Answer
	open    map[int64]*part // by the index that the events name
	order   []*part         // those that have not ended, in the order in which they began
	usage   report
	details jsonv.Value // why an answer was withheld
	started bool
	stopped bool // the stream said that it is complete
	heard   bool
}

// part is a content block that has begun and not ended.
type part struct {
	index int64
	kind  string
	block *dialect.Block // nil for a block that is kept as it is
	whole string         // the arguments that came with the beginning of a call

	raw    jsonv.Value // of a block that is kept as it is: how it began
	input  strings.Builder
	fields []jsonv.Member // and the text fields that deltas continue
}

func newFold(p dialect.Peer, req provider.Request, sink func(provider.Delta)) *fold {
	return &fold{answer: dialect.Answer{API: API, Peer: p, Req: req, Sink: sink}, open: map[int64]*part{}}
}

// Phase implements remote.Fold.
func (f *fold) Phase() remote.Phase {
	switch {
	case f.answer.Failure != nil:
		return remote.Failed
	case f.stopped:
		return remote.Ended
	case f.answer.Finish != "":
		return remote.Finishing
	}
	return remote.Speaking
}

// Heard implements remote.Fold.
func (f *fold) Heard() bool { return f.heard }

// Event implements remote.Fold. The type in the data counts, since some servers leave the name of the event out.
func (f *fold) Event(e sse.Event) {
	if f.stopped || f.answer.Failure != nil || len(e.Data) == 0 {
		return
	}
	v, replaced, err := dialect.ParseJSON(e.Data)
	f.answer.Replaced += replaced
	switch {
	case err != nil:
		f.malformed("it sent an event that is not JSON")
		return
	case v.Kind() != jsonv.Object:
		f.malformed("it sent an event that is not a JSON object")
		return
	}
	f.event(dialect.First(dialect.Text(v, "type"), e.Name), v)
}

func (f *fold) event(kind string, v jsonv.Value) {
	f.heard = true
	switch kind {
	case "message_start":
		m, _ := v.Get("message")
		f.start(m)
	case "content_block_start":
		block, _ := v.Get("content_block")
		f.begin(index(v), block)
	case "content_block_delta":
		delta, _ := v.Get("delta")
		f.delta(index(v), delta)
	case "content_block_stop":
		if p := f.open[index(v)]; p != nil {
			f.end(p)
		}
	case "message_delta":
		f.finish(v)
	case "message_stop":
		f.stopped = true
	case "error":
		f.refuse(v)
	case "ping":
	default: // the dialect says that new events may come and mean nothing to old readers
		if _, isError := v.Get("error"); isError {
			f.refuse(v)
		}
	}
}

func (f *fold) malformed(what string) { f.answer.Fail(f.answer.Peer.Malformed(what)) }

func (f *fold) refuse(v jsonv.Value) {
	stated, _ := dialect.StatedError(v, true)
	f.answer.Fail(f.answer.Peer.Refused(f.answer.Req.Model.ModelID, 0, stated))
}

func index(v jsonv.Value) int64 {
	field, _ := v.Get("index")
	n, _ := field.Int64()
	return n
}

// start reads the beginning of the answer. A second one before any content is a repetition. One after content is the beginning of another answer, spliced
// on by somebody who asked again on the way: what came before it did break off.
func (f *fold) start(m jsonv.Value) {
	if f.started && !f.answer.Empty() {
		f.answer.Fail(f.answer.Peer.Disconnected())
		return
	}
	f.started = true
	f.answer.ResponseID = dialect.Text(m, "id")
	f.answer.ResponseModel = dialect.Text(m, "model")
	f.report(m, false)
	content, _ := m.Get("content")
	for i, block := range content.Elems() { // an answer that was there at once
		f.begin(int64(i), block)
		if p := f.open[int64(i)]; p != nil {
			f.end(p)
		}
	}
	if reason := dialect.Text(m, "stop_reason"); reason != "" {
		f.finish(jsonv.Obj(jsonv.F("delta", m), jsonv.F("usage", usageOf(m))))
	}
}

// begin opens a block. The same beginning again is a repetition.
func (f *fold) begin(at int64, block jsonv.Value) {
	kind := dialect.Text(block, "type")
	if p := f.open[at]; p != nil {
		if p.kind == kind && (kind != "tool_use" || p.block.ID() == dialect.Text(block, "id")) {
			return
		}
		f.end(p) // its end was lost
	}
	p := &part{index: at, kind: kind}
	f.open[at] = p
	f.order = append(f.order, p)
	switch kind {
	case "text":
		p.block = f.answer.OpenText()
		p.block.Add(dialect.Text(block, "text"))
	case "thinking":
		p.block = f.answer.OpenThinking()
		p.block.Add(dialect.Text(block, "thinking"))
		p.block.Sign(dialect.Text(block, "signature"))
	case "redacted_thinking":
		f.answer.Redact(dialect.Text(block, "data"))
	case "tool_use":
		p.block = f.answer.OpenCall()
		p.block.Take(dialect.Text(block, "id"), dialect.Text(block, "name"), "")
		if input := dialect.ArgumentText(block, "input"); input != "{}" { // which is how the input begins that comes in pieces
			p.whole = input
		}
	default:
		p.raw = block
	}
}

// delta continues a block. One that never began is opened by what continues it.
func (f *fold) delta(at int64, d jsonv.Value) {
	kind := dialect.Text(d, "type")
	p := f.open[at]
	if p == nil {
		began := map[string]string{"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking", "input_json_delta": "tool_use"}[kind]
		if began == "" {
			return
		}
		f.begin(at, jsonv.Obj(jsonv.F("type", jsonv.Str(began))))
		if p = f.open[at]; p == nil {
			return
		}
	}
	switch {
	case p.kind == "redacted_thinking":
	case p.block == nil:
		p.keep(kind, d)
	case kind == "text_delta" && p.kind == "text":
		p.block.Add(dialect.Text(d, "text"))
	case kind == "thinking_delta" && p.kind == "thinking":
		p.block.Add(dialect.Text(d, "thinking"))
	case kind == "signature_delta" && p.kind == "thinking":
		p.block.Sign(dialect.Text(d, "signature"))
	case kind == "input_json_delta" && p.kind == "tool_use":
		p.block.Add(dialect.Text(d, "partial_json"))
	}
	// Deltas of other kinds, such as citations, add to a block and take nothing from it.
}

// keep continues a block that is kept as it is: the pieces of its input, or the text field that the delta names.
func (p *part) keep(kind string, d jsonv.Value) {
	if kind == "input_json_delta" {
		p.input.WriteString(dialect.Text(d, "partial_json"))
		return
	}
	for name, field := range d.Fields() {
		s, isText := field.Text()
		if name == "type" || !isText {
			continue
		}
		for i := range p.fields {
			if p.fields[i].Name == name {
				so, _ := p.fields[i].Value.Text()
				p.fields[i].Value = jsonv.Str(so + s)
				s = ""
			}
		}
		if s != "" {
			p.fields = append(p.fields, jsonv.F(name, jsonv.Str(s)))
		}
	}
}

// end closes a block.
func (f *fold) end(p *part) {
	f.forget(p)
	switch {
	case p.kind == "redacted_thinking":
	case p.block == nil:
		f.answer.Opaque(label(p.raw), p.kept())
	case p.kind == "tool_use":
		p.settle()
		p.block.End()
	}
}

// settle gives a call the arguments that came with its beginning, where none came in pieces.
func (p *part) settle() {
	if p.block != nil && p.whole != "" && !p.block.Begun() {
		p.block.Add(p.whole)
	}
}

func (f *fold) forget(p *part) {
	delete(f.open, p.index)
	for i, o := range f.order {
		if o == p {
			f.order = append(f.order[:i], f.order[i+1:]...)
			return
		}
	}
}

// kept is a block that is kept as it is, complete.
func (p *part) kept() jsonv.Value {
	v := p.raw
	for _, field := range p.fields {
		if so := dialect.Text(v, field.Name); so != "" {
			s, _ := field.Value.Text()
			field.Value = jsonv.Str(so + s)
		}
		v = v.With(field.Name, field.Value)
	}
	if input := message.ParseArguments(strings.TrimSpace(p.input.String())); p.input.Len() > 0 {
		v = v.With("input", input)
	}
	return v
}

// label names a block for people.
func label(block jsonv.Value) string {
	kind := dialect.First(dialect.Text(block, "type"), "unknown block")
	if name := dialect.Text(block, "name"); name != "" {
		return kind + " " + name
	}
	return kind
}

// finish reads why the answer ends, and the final report.
func (f *fold) finish(v jsonv.Value) {
	delta, _ := v.Get("delta")
	if reason := dialect.Text(delta, "stop_reason"); reason != "" {
		f.answer.Finish = reason
	}
	if details, ok := delta.Get("stop_details"); ok && details.Kind() == jsonv.Object {
		f.details = details
	}
	f.report(v, true)
}

// report reads a usage object. What a later one states replaces what an earlier one did.
func (f *fold) report(v jsonv.Value, final bool) {
	if u := usageOf(v); u.Kind() == jsonv.Object {
		f.usage.read(u, final)
		f.answer.Usage = f.usage.usage()
	}
}

func usageOf(v jsonv.Value) jsonv.Value {
	u, _ := v.Get("usage")
	return u
}

// Whole folds an answer that was not streamed.
func (f *fold) Whole(v jsonv.Value, replaced int) {
	f.answer.Replaced += replaced
	if dialect.Text(v, "type") != "message" {
		f.event("error", v)
		return
	}
	f.heard = true
	f.start(v)
	f.stopped = true
}

// Settle implements remote.Fold. An answer is complete when the provider gave a stop reason or the end mark.
func (f *fold) Settle(broke *provider.Error, at int64) (*message.Assistant, *provider.Error) {
	for _, p := range f.order {
		p.settle()
	}
	if f.answer.Finish == "" && f.stopped {
		f.answer.Note("stop_reason", jsonv.Value{})
	}
	return f.answer.Settle(broke, at, f.heard && (f.stopped || f.answer.Finish != ""), f.stopReason)
}

// stopReason maps the provider's word. What decides between stop and tool use is whether there are calls.
func (f *fold) stopReason() (message.StopReason, *provider.Error) {
	a := &f.answer
	switch a.Finish {
	case "", "end_turn", "stop_sequence", "tool_use":
		return a.Natural(), nil
	case "max_tokens", "model_context_window_exceeded":
		return message.Length, nil
	case "pause_turn": // a turn of tools that the provider runs; it can be continued, and is complete as it stands
		return a.Natural(), nil
	case "refusal":
		e := a.Withheld(strings.TrimSpace("refusal " + dialect.Text(f.details, "category")))
		if why := a.Peer.Excerpt(dialect.Text(f.details, "explanation")); why != "" {
			e.Message += ": " + why
		}
		return "", e
	}
	return "", a.Unmapped()
}
