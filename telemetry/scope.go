package telemetry

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/loom-run/loom/core/accounting"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
)

// Scope measures the work of one session. The zero Scope measures nothing.
type Scope struct {
	meter   *Meter
	session string
}

// begun is work that began. The zero value is work that nobody measures.
type begun struct {
	scope Scope
	op    id.OpID
	start time.Time
}

func (s Scope) begin(op id.OpID) begun {
	if s.meter == nil {
		return begun{}
	}
	return begun{s, op, s.meter.cfg.Now()}
}

// end keeps a span, and returns how long it was in seconds. All of one operation is one trace, whose id is the operation's: a run that goes on in another
// process goes on in the same trace. What belongs to no operation has no span.
func (b begun) end(name string, kind int64, failed bool, attributes []attribute) float64 {
	m := b.scope.meter
	took := m.cfg.Now().Sub(b.start)
	if !b.op.IsZero() {
		s := span{name: name, kind: kind, start: b.start, end: b.start.Add(took), failed: failed,
			attributes: append(attributes, str("gen_ai.conversation.id", b.scope.session))}
		_, _ = hex.Decode(s.trace[:], []byte(strings.ReplaceAll(b.op.String(), "-", ""))) // it has exactly as many digits
		binary.BigEndian.PutUint64(s.id[:], rand.Uint64()|1)                              // zero is no id; it has to be distinct, not secret
		m.keep(s)
	}
	return took.Seconds()
}

// Request is a request to a model that was begun.
type Request struct {
	begun
	provider, model string
}

// Request begins the measure of an attempt: of the model that is asked first.
func (s Scope) Request(op id.OpID, provider, model string) Request {
	return Request{s.begin(op), provider, model}
}

// End ends it with what was received, and with the requests that fell before that one. It is called once.
func (r Request) End(m *message.Assistant, fallen []accounting.Request) {
	if r.scope.meter == nil {
		return
	}
	asked := accounting.Request{Provider: r.provider, Model: r.model, Usage: usage.Zero()}
	failed := ""
	var more []attribute
	if m != nil {
		asked.Provider, asked.Model, asked.Usage = m.Provider, m.Model, m.Usage
		answered := m.Model
		if m.ResponseModel != nil {
			answered = *m.ResponseModel
		}
		more = append(more, strs("gen_ai.response.finish_reasons", []string{string(m.StopReason)}), str("gen_ai.response.model", answered))
		if m.ResponseID != nil {
			more = append(more, str("gen_ai.response.id", *m.ResponseID))
		}
		failed = failure(m)
	}
	all := []attribute{
		str("gen_ai.operation.name", "chat"), str("gen_ai.provider.name", providerName(r.provider)), str("gen_ai.request.model", r.model),
	}
	all = append(all, more...)
	all = append(all, tokens(asked.Usage)...)
	if failed != "" {
		all = append(all, str("error.type", failed))
	}
	if len(fallen) > 0 {
		all = append(all, num("loom.requests.fallen", int64(len(fallen))))
	}
	took := r.end("chat "+r.model, clientKind, failed != "", all)
	r.scope.meter.record(operationDuration, took, by("chat", asked, failed)...)
	for _, q := range append(fallen[:len(fallen):len(fallen)], asked) {
		r.scope.consumed(q)
	}
}

// failure is the word of why a response is none; empty where it is one.
func failure(m *message.Assistant) string {
	switch m.StopReason {
	case message.Error:
		if m.Diagnostics != nil {
			v, _ := m.Diagnostics.Get("class")
			if class, ok := v.Text(); ok {
				return class
			}
		}
		return "_OTHER"
	case message.Aborted:
		return "cancelled"
	case message.Stop, message.Length, message.ToolUse, message.Pending, message.Deferred:
	}
	return ""
}

// by is what the values of a metric are told apart by.
func by(operation string, q accounting.Request, failed string) []attribute {
	all := []attribute{
		str("gen_ai.operation.name", operation), str("gen_ai.provider.name", providerName(q.Provider)), str("gen_ai.request.model", q.Model),
	}
	if failed != "" {
		all = append(all, str("error.type", failed))
	}
	return all
}

// tokens are the counts of a span; those that nobody reported are absent.
func tokens(u usage.Usage) []attribute {
	if _, reported := u.Evidence.Tokens(); !reported {
		return nil
	}
	return []attribute{
		num("gen_ai.usage.input_tokens", u.Input+u.CacheRead+u.CacheWrite), // the convention counts cached ones too
		num("gen_ai.usage.output_tokens", u.Output),
		num("gen_ai.usage.cache_read.input_tokens", u.CacheRead),
		num("gen_ai.usage.cache_creation.input_tokens", u.CacheWrite),
	}
}

// consumed adds the tokens of a request to their metric.
func (s Scope) consumed(q accounting.Request) {
	if _, reported := q.Usage.Evidence.Tokens(); !reported {
		return
	}
	base := by("chat", q, "")
	s.meter.record(tokenUsage, float64(q.Usage.Input+q.Usage.CacheRead+q.Usage.CacheWrite), append(base[:len(base):len(base)], str("gen_ai.token.type", "input"))...)
	s.meter.record(tokenUsage, float64(q.Usage.Output), append(base[:len(base):len(base)], str("gen_ai.token.type", "output"))...)
}

// providerName is the convention's word for a vendor; whoever else answers has its own name.
func providerName(name string) string {
	switch name {
	case "gemini":
		return "gcp.gemini"
	case "openai-responses":
		return "openai"
	}
	return name
}

// Tool is a tool call that was begun.
type Tool struct {
	begun
	name, call string
}

// Tool begins the measure of a call.
func (s Scope) Tool(op id.OpID, name, call string) Tool { return Tool{s.begin(op), name, call} }

// End ends it; failed says that the tool reported an error. It is called once.
func (t Tool) End(failed bool) {
	if t.scope.meter == nil {
		return
	}
	all := []attribute{
		str("gen_ai.operation.name", "execute_tool"), str("gen_ai.tool.name", t.name), str("gen_ai.tool.call.id", t.call), str("gen_ai.tool.type", "function"),
	}
	labels := []attribute{str("gen_ai.operation.name", "execute_tool"), str("gen_ai.tool.name", t.name)}
	if failed {
		all, labels = append(all, str("error.type", "tool_error")), append(labels, str("error.type", "tool_error"))
	}
	t.scope.meter.record(operationDuration, t.end("execute_tool "+t.name, internalKind, failed, all), labels...)
}

// Commit is a commit that was begun.
type Commit struct{ begun }

// Commit begins the measure of a commit; op is absent where it belongs to none.
func (s Scope) Commit(op id.OpID) Commit { return Commit{s.begin(op)} }

// End ends it, when it is durable or was refused. It is called once.
func (c Commit) End(writes int, failed bool) {
	if c.scope.meter == nil {
		return
	}
	all := []attribute{num("loom.commit.writes", int64(writes))}
	var labels []attribute
	if failed {
		all, labels = append(all, str("error.type", "refused")), append(labels, str("error.type", "refused"))
	}
	c.scope.meter.record(commitDuration, c.end("commit", internalKind, failed, all), labels...)
}
