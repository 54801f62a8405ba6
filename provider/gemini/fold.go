package gemini

import (
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
	"github.com/loom-run/loom/provider/remote"
	"github.com/loom-run/loom/provider/sse"
)

// fold turns the responses of one answer into deltas and remembers what it needs to settle. It is pure: the same responses give the same deltas and
// the same outcome.
type fold struct {
	answer dialect.Answer
	call   *partialCall // whose arguments still come; nil for none
	report jsonv.Value  // the last usage report with counts
	why    string       // what the provider says beside its reason to end
	heard  bool
}

func newFold(p dialect.Peer, req provider.Request, sink func(provider.Delta)) *fold {
	return &fold{answer: dialect.Answer{API: API, Peer: p, Req: req, Sink: sink}}
}

// Phase implements remote.Fold. The dialect has no end mark: the stream closes after the reason to end.
func (f *fold) Phase() remote.Phase {
	switch {
	case f.answer.Failure != nil:
		return remote.Failed
	case f.answer.Finish != "":
		return remote.Finishing
	}
	return remote.Speaking
}

// Heard implements remote.Fold.
func (f *fold) Heard() bool { return f.heard }

// Event implements remote.Fold.
func (f *fold) Event(e sse.Event) {
	if f.answer.Failure != nil || len(e.Data) == 0 {
		return
	}
	v, replaced, err := dialect.ParseJSON(e.Data)
	f.answer.Replaced += replaced
	if err != nil {
		f.malformed("it sent an event that is not JSON")
		return
	}
	f.responses(v)
}

func (f *fold) malformed(what string) { f.answer.Fail(f.answer.Peer.Malformed(what)) }

// responses folds one response, or a list of them: that is how an answer comes that is not streamed as events.
func (f *fold) responses(v jsonv.Value) {
	switch v.Kind() {
	case jsonv.Object:
		f.response(v)
	case jsonv.Array:
		for _, r := range v.Elems() {
			if f.answer.Failure == nil {
				f.response(r)
			}
		}
	default:
		f.malformed("it sent an event that is not a JSON object")
	}
}

// response folds one piece of the answer. Usage and content are read before an error beside them, so that a failed answer keeps what it cost.
func (f *fold) response(v jsonv.Value) {
	f.heard = true
	f.answer.ResponseID = dialect.First(f.answer.ResponseID, dialect.Text(v, "responseId"))
	f.answer.ResponseModel = dialect.First(f.answer.ResponseModel, dialect.Text(v, "modelVersion"))
	if u, ok := v.Get("usageMetadata"); ok {
		if _, counts := readUsage(u, false); counts {
			f.report = u
		}
	}
	candidates, _ := v.Get("candidates")
	for _, c := range candidates.Elems() {
		if index, ok := c.Get("index"); ok {
			if n, _ := index.Int64(); n != 0 {
				continue // one answer was asked for
			}
		}
		f.candidate(c)
	}
	if u, ok := readUsage(f.report, f.answer.Finish != ""); ok {
		f.answer.Usage = &u
	}
	if _, isError := v.Get("error"); isError {
		stated, _ := dialect.StatedError(v, true)
		f.answer.Fail(f.answer.Peer.Refused(f.answer.Req.Model.ModelID, 0, stated))
		return
	}
	feedback, _ := v.Get("promptFeedback")
	if reason := dialect.Text(feedback, "blockReason"); reason != "" && f.answer.Empty() {
		f.answer.Finish = "BLOCKED_" + reason
		f.answer.Fail(&provider.Error{
			Class: provider.Refused, Detail: f.answer.Peer.Excerpt(f.answer.Finish),
			Message: f.answer.Peer.Name + " refused the prompt by its content rules (" + f.answer.Peer.Excerpt(f.answer.Finish) + "); ask in another way",
		})
	}
}

// candidate folds the content of a response. Nothing counts after the reason to end.
func (f *fold) candidate(c jsonv.Value) {
	if f.answer.Finish != "" {
		return
	}
	content, _ := c.Get("content")
	parts, _ := content.Get("parts")
	for _, p := range parts.Elems() {
		f.part(p)
	}
	if reason := dialect.Text(c, "finishReason"); reason != "" {
		f.answer.Finish = reason
		f.why = dialect.Text(c, "finishMessage")
	}
}

func (f *fold) part(p jsonv.Value) {
	if call, ok := p.Get("functionCall"); ok {
		f.functionCall(call, dialect.Text(p, "thoughtSignature"))
		return
	}
	field, isText := p.Get("text")
	text, _ := field.Text()
	signature := dialect.Text(p, "thoughtSignature")
	thought, _ := p.Get("thought")
	thinking, _ := thought.Bool()
	switch {
	case !isText && p.Len() > 0:
		f.answer.Opaque(label(p), p) // what the provider ran, and parts of kinds that are not known
	case signature != "":
		b := f.answer.OpenText
		if thinking {
			b = f.answer.OpenThinking
		}
		signed := b()
		signed.Add(text)
		signed.Sign(signature)
	case thinking:
		f.answer.Thinking(text)
	default:
		f.answer.Text(text)
	}
}

// label names a part for people.
func label(p jsonv.Value) string {
	for name := range p.Fields() {
		if name != "thoughtSignature" && name != "thought" {
			return name
		}
	}
	return "unknown part"
}

// functionCall folds a call, or a piece of one. A piece with a name begins a call, and one without continues it.
func (f *fold) functionCall(v jsonv.Value, signature string) {
	more, _ := v.Get("willContinue")
	continues, _ := more.Bool()
	name := dialect.Text(v, "name")
	if name != "" || f.call == nil {
		b := f.answer.OpenCall()
		b.Take(dialect.Text(v, "id"), name, "")
		f.call = &partialCall{block: b}
	}
	f.call.block.Sign(signature)
	f.call.whole = dialect.First(dialect.ArgumentText(v, "args"), f.call.whole)
	pieces, _ := v.Get("partialArgs")
	for _, p := range pieces.Elems() {
		f.call.add(p)
	}
	if !continues {
		f.call.end()
		f.call = nil
	}
}

// Whole folds an answer that was not streamed.
func (f *fold) Whole(v jsonv.Value, replaced int) {
	f.answer.Replaced += replaced
	if v.Kind() == jsonv.Object {
		_, answers := v.Get("candidates")
		if _, refused := v.Get("promptFeedback"); !answers && !refused {
			f.heard = true
			stated, _ := dialect.StatedError(v, true)
			f.answer.Fail(f.answer.Peer.Refused(f.answer.Req.Model.ModelID, 0, stated))
			return
		}
	}
	f.responses(v)
}

// Settle implements remote.Fold. An answer is complete when the provider gave its reason to end.
func (f *fold) Settle(broke *provider.Error, at int64) (*message.Assistant, *provider.Error) {
	return f.answer.Settle(broke, at, f.answer.Finish != "", f.stopReason)
}

// stopReason maps the provider's word. Answers with calls end like others.
func (f *fold) stopReason() (message.StopReason, *provider.Error) {
	a := &f.answer
	if f.call != nil {
		f.call.block.Doubt("the answer ended before this call was complete")
	}
	switch a.Finish {
	case "STOP":
		return a.Natural(), nil
	case "MAX_TOKENS":
		return message.Length, nil
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return "", a.Withheld(a.Finish)
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE":
		// The model wrote something that the provider itself cannot read; asked again, it writes something else.
		e := a.Peer.Refused(a.Req.Model.ModelID, 0, dialect.Stated{Words: []string{"server_error"}, Message: a.Finish + " " + f.why})
		e.Detail = a.Finish
		return "", e
	}
	return "", a.Unmapped()
}
