package openaichat

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider"
)

// fewTokens is the most output of an answer that says nothing but that the input did not fit.
const fewTokens = 64

// settle is the terminal of the answer. broke is why reading stopped before the end of the stream, or nil at its end. at is the time in Unix
// milliseconds.
//
// An answer is complete when the provider gave a finish reason or the end mark. What breaks after that costs at most the usage report, so it
// is settled all the same; a cancellation and a passed bound are not.
func (f *fold) settle(broke *provider.Error, at int64) (*message.Assistant, *provider.Error) {
	switch {
	case f.failure != nil:
		return nil, f.failed(f.failure, at)
	case broke != nil && (broke.Class == provider.Cancelled || broke.Class == provider.MalformedStream):
		return nil, f.failed(broke, at)
	case f.chunks == 0 || !f.done && f.finish == "":
		if broke == nil {
			broke = f.peer.disconnected()
		}
		return nil, f.failed(broke, at)
	}
	reason, refused := f.stopReason()
	if refused == nil && f.overflowed() {
		refused = &provider.Error{
			Class:   provider.Overflow,
			Message: f.peer.sentence(provider.Overflow, f.req.Model.ModelID) + "; " + f.peer.advice(provider.Overflow),
		}
	}
	if refused != nil {
		return nil, f.failed(refused, at)
	}
	m := f.message(at, false)
	m.StopReason = reason
	return m, nil
}

// failed completes an error with what was received.
func (f *fold) failed(e *provider.Error, at int64) *provider.Error {
	if len(f.blocks) == 0 && f.usage == nil {
		return e
	}
	m := f.message(at, true)
	m.StopReason = message.Error
	if e.Class == provider.Cancelled {
		m.StopReason = message.Aborted
	}
	m.ErrorMessage = new(e.Message)
	e.Partial = m
	return e
}

// stopReason maps the provider's finish reason. What decides between stop and tool use is whether there are calls: servers say "stop" with calls
// and "tool_calls" without. A stream that ends with its mark but without a reason is complete by its own word. A reason that is not known is
// accepted only when whole calls show what the model wants.
func (f *fold) stopReason() (message.StopReason, *provider.Error) {
	natural := message.Stop
	if len(f.calls.list) > 0 {
		natural = message.ToolUse
	}
	switch f.finish {
	case "", "stop", "tool_calls", "function_call", "tool_use", "end_turn", "eos", "stop_sequence":
		return natural, nil
	case "length", "max_tokens", "model_length":
		return message.Length, nil
	case "content_filter", "sensitive":
		return "", &provider.Error{
			Class: provider.Refused, Detail: f.finish,
			Message: f.peer.host + " withheld the rest of the answer by its content rules; what arrived is kept, ask in another way",
		}
	case "error":
		return "", f.peer.refused(f.req.Model.ModelID, 0, stated{words: []string{"server_error"}})
	case "insufficient_system_resource":
		return "", f.peer.refused(f.req.Model.ModelID, 0, stated{words: []string{"overloaded_error"}})
	}
	if natural == message.ToolUse && f.allWhole() {
		return natural, nil
	}
	return "", &provider.Error{
		Class: provider.UnmappedStopReason, Detail: excerpt(f.finish),
		Message: fmt.Sprintf("%s ended the answer for a reason that is not known here (%q); what arrived is kept", f.peer.host, excerpt(f.finish)),
	}
}

func (f *fold) allWhole() bool {
	for _, c := range f.calls.list {
		if !c.whole() {
			return false
		}
	}
	return true
}

// overflowed reports an answer that is none: some servers cut a request that is too large and say almost nothing.
func (f *fold) overflowed() bool {
	u, window := f.usage, f.req.Model.ContextWindow
	return u != nil && window > 0 && u.Input+u.CacheRead+u.CacheWrite > window && u.Output <= fewTokens
}

// message builds what was received. partial leaves out calls that are not whole, so that nothing can ever run from half a call.
func (f *fold) message(at int64, partial bool) *message.Assistant {
	m := &message.Assistant{
		API: API, Provider: f.req.Model.Provider, Model: f.req.Model.ModelID,
		Usage: usage.Unknown(usage.API), Timestamp: at,
	}
	if f.usage != nil {
		m.Usage = *f.usage
	}
	m.ResponseID = present(f.responseID)
	if f.responseModel != m.Model {
		m.ResponseModel = present(f.responseModel)
	}
	m.RawStopReason = present(f.finish)

	ids := f.newIDs()
	for _, b := range f.blocks {
		switch {
		case b.text != nil:
			m.Content = append(m.Content, message.Text{Text: b.text.String()})
		case b.thinking != nil:
			m.Content = append(m.Content, message.Thinking{Thinking: b.thinking.String()})
		case !partial || b.call.whole():
			m.Content = append(m.Content, b.call.settled(ids.next(b.call.id)))
		}
	}
	m.Diagnostics = f.diagnostics(ids.renamed)
	return m
}

// diagnostics notes what was mended; nil when nothing was.
func (f *fold) diagnostics(renamed int64) *jsonv.Value {
	var notes []jsonv.Member
	if f.replaced > 0 {
		notes = append(notes, jsonv.F("replaced_characters", jsonv.Num(int64(f.replaced))))
	}
	if renamed > 0 {
		notes = append(notes, jsonv.F("renamed_calls", jsonv.Num(renamed)))
	}
	if f.finish == "" && f.done {
		notes = append(notes, jsonv.F("finish_reason", jsonv.Value{}))
	}
	if notes == nil {
		return nil
	}
	return new(jsonv.Obj(notes...))
}

func present(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// ids gives each call an id that no other call of the conversation has: results are matched by it. A provider's own id is kept unless it is
// empty or taken; some servers number calls afresh in every answer.
type ids struct {
	base    string
	taken   map[string]bool
	renamed int64
}

func (f *fold) newIDs() *ids {
	if len(f.calls.list) == 0 {
		return &ids{}
	}
	taken := map[string]bool{}
	for _, m := range f.req.Messages {
		if a, ok := m.(*message.Assistant); ok {
			for _, b := range a.Content {
				if c, ok := b.(message.ToolCall); ok {
					taken[c.ID] = true
				}
			}
		}
	}
	sum := sha256.Sum256([]byte(f.responseID))
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
