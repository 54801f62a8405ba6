package openairesponses

import (
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
	"github.com/loom-run/loom/provider/remote"
	"github.com/loom-run/loom/provider/sse"
)

// doneMark is the data of an event that some servers end a stream with.
const doneMark = "[DONE]"

// fold turns the events of one answer into deltas and remembers what it needs to settle. It is pure: the same events give the same deltas and
// the same outcome.
type fold struct {
	answer dialect.Answer
	items  map[int64]*item // by output index
	last   int64           // the highest sequence number seen; -1 before the first
	again  bool            // what comes was seen already, up to that number
	heard  bool
	over   bool // the closing event came
}

func newFold(p dialect.Peer, req provider.Request, sink func(provider.Delta)) *fold {
	return &fold{answer: dialect.Answer{API: API, Peer: p, Req: req, Sink: sink}, items: map[int64]*item{}, last: -1}
}

// Phase implements remote.Fold.
func (f *fold) Phase() remote.Phase {
	switch {
	case f.answer.Failure != nil:
		return remote.Failed
	case f.over:
		return remote.Ended
	}
	return remote.Speaking
}

// Heard implements remote.Fold.
func (f *fold) Heard() bool { return f.heard }

// Event implements remote.Fold. The type in the data counts, since some servers leave the name of the event out.
func (f *fold) Event(e sse.Event) {
	if f.over || f.answer.Failure != nil || len(e.Data) == 0 {
		return
	}
	if len(e.Data) <= 2*len(doneMark) && strings.TrimSpace(string(e.Data)) == doneMark {
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
	kind := dialect.First(dialect.Text(v, "type"), e.Name)
	f.heard = true
	if f.seen(kind, v) {
		return
	}
	f.event(kind, v)
}

func (f *fold) malformed(what string) { f.answer.Fail(f.answer.Peer.Malformed(what)) }

// seen reports whether an event repeats an earlier one. A stream that somebody attached to again begins anew with the state of the response; the same
// beginning of another response was spliced on after the first broke off.
func (f *fold) seen(kind string, v jsonv.Value) bool {
	field, ok := v.Get("sequence_number")
	n, isNumber := field.Int64()
	if !ok || !isNumber {
		return false
	}
	switch kind {
	case "response.created", "response.queued", "response.in_progress":
		if n > f.last {
			break
		}
		response, _ := v.Get("response")
		if id := dialect.Text(response, "id"); kind == "response.created" && f.answer.ResponseID != "" && id != f.answer.ResponseID && !f.answer.Empty() {
			f.answer.Fail(f.answer.Peer.Disconnected())
			return true
		}
		f.again = true
	}
	f.again = f.again && n <= f.last
	f.last = max(f.last, n)
	return f.again
}

func (f *fold) event(kind string, v jsonv.Value) {
	switch kind {
	case "response.created", "response.queued", "response.in_progress":
		f.response(v)
	case "response.output_item.added":
		f.item(v).begin(v)
	case "response.output_item.done":
		f.item(v).done(v)
	case "response.content_part.added", "response.content_part.done", "response.reasoning_summary_part.added", "response.reasoning_summary_part.done",
		"response.output_text.annotation.added":
		// A part says what its deltas or the end of its item say too.
	case "response.output_text.delta", "response.refusal.delta":
		f.item(v).text(v, dialect.Text(v, "delta"))
	case "response.output_text.done":
		f.item(v).textDone(v, dialect.Text(v, "text"))
	case "response.refusal.done":
		f.item(v).textDone(v, dialect.Text(v, "refusal"))
	case "response.reasoning_summary_text.delta":
		f.item(v).reason(v, "summary_index")
	case "response.reasoning_text.delta":
		f.item(v).reason(v, "content_index")
	case "response.reasoning_summary_text.done", "response.reasoning_text.done":
	case "response.function_call_arguments.delta":
		f.item(v).arguments(dialect.ArgumentText(v, "delta"))
	case "response.function_call_arguments.done":
		f.item(v).argumentsDone(dialect.ArgumentText(v, "arguments"))
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		response, _ := v.Get("response")
		f.response(v)
		f.close(response)
	case "error":
		f.refuse(v)
	default:
		f.unknown(kind, v)
	}
}

// unknown passes over an event of a kind that is not known, unless it carries content of an item whose content counts.
func (f *fold) unknown(kind string, v jsonv.Value) {
	if _, isError := v.Get("error"); isError && kind == "" {
		f.refuse(v)
		return
	}
	if it := f.items[outputIndex(v)]; strings.HasSuffix(kind, ".delta") && it != nil && it.kind != opaqueItem {
		f.malformed("it sent content of a kind that is not known here (" + f.answer.Peer.Excerpt(kind) + ")")
	}
}

func (f *fold) refuse(v jsonv.Value) {
	stated, _ := dialect.StatedError(v, true)
	f.answer.Fail(f.answer.Peer.Refused(f.answer.Req.Model.ModelID, 0, stated))
}

func (f *fold) response(v jsonv.Value) {
	response, _ := v.Get("response")
	f.answer.ResponseID = dialect.First(f.answer.ResponseID, dialect.Text(response, "id"))
	f.answer.ResponseModel = dialect.First(f.answer.ResponseModel, dialect.Text(response, "model"))
	if u, ok := response.Get("usage"); ok && u.Kind() == jsonv.Object {
		f.answer.Usage = new(readUsage(u))
	}
}

// close reads the closing state of the response.
func (f *fold) close(response jsonv.Value) {
	f.over = true
	output, _ := response.Get("output")
	f.reconcile(output)
	switch status := dialect.Text(response, "status"); status {
	case "failed":
		stated := dialect.Stated{Words: []string{"server_error"}}
		if e, ok := response.Get("error"); ok && !e.IsNull() {
			stated, _ = dialect.StatedError(response, true)
		}
		f.answer.Finish = status
		f.answer.Fail(f.answer.Peer.Refused(f.answer.Req.Model.ModelID, 0, stated))
	case "incomplete":
		details, _ := response.Get("incomplete_details")
		f.answer.Finish = dialect.First(dialect.Text(details, "reason"), status)
	default:
		f.answer.Finish = dialect.First(status, "completed")
	}
}

// reconcile compares the closing list of items with what the stream had. A stream of nothing but its end is read from the list.
func (f *fold) reconcile(output jsonv.Value) {
	if output.Len() == 0 {
		return
	}
	if len(f.items) == 0 {
		for i, v := range output.Elems() {
			f.itemAt(int64(i)).done(jsonv.Obj(jsonv.F("item", v)))
		}
		return
	}
	calls := 0
	for i, v := range output.Elems() {
		if kindOf(v) != callItem {
			continue
		}
		calls++
		if it := f.items[int64(i)]; it != nil && it.kind == callItem {
			it.agree(dialect.ArgumentText(v, "arguments"))
		}
	}
	if calls != f.answer.Calls() {
		f.malformed("its closing list has other tool calls than its stream")
	}
}

// Whole folds an answer that was not streamed.
func (f *fold) Whole(v jsonv.Value, replaced int) {
	f.answer.Replaced += replaced
	if _, ok := v.Get("output"); !ok {
		f.refuse(v)
		return
	}
	f.heard = true
	f.response(jsonv.Obj(jsonv.F("response", v)))
	f.close(v)
}

// Settle implements remote.Fold. An answer is complete when its closing event came.
func (f *fold) Settle(broke *provider.Error, at int64) (*message.Assistant, *provider.Error) {
	return f.answer.Settle(broke, at, f.over, f.stopReason)
}

// stopReason maps the provider's word. What decides between stop and tool use is whether there are calls.
func (f *fold) stopReason() (message.StopReason, *provider.Error) {
	a := &f.answer
	switch a.Finish {
	case "completed":
		return a.Natural(), nil
	case "max_output_tokens":
		return message.Length, nil
	case "content_filter":
		return "", a.Withheld(a.Finish)
	}
	return "", a.Unmapped()
}
