package machine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
)

// RetryableStop is the raw stop reason of an error that another attempt may cure.
const RetryableStop = "retryable"

// Error codes of a run that failed in a generation.
const (
	CodeProviderError   = "provider_error"
	CodeContextOverflow = "context_overflow"
	CodeInterrupted     = "interrupted"
	CodeInvalidDeferred = "invalid_deferred_handle"
	CodeDeferred        = "deferred_unsupported" // the provider cannot be asked for what it deferred
)

// generate drives one step of the model.
func (p *plan) generate(g Generation) Action {
	switch g := g.(type) {
	case GenPending:
		return p.response(g)
	case GenRetryWait:
		if p.in.Now < g.NotBefore {
			return Wait{g.NotBefore}
		}
		return p.to(StepRetry, Generating{GenReady{g.Context, g.NextAttempt}})
	case GenReady:
		return p.request(g)
	}
	return p.unexpected()
}

// request asks whether the model can be used, and makes the intent of a request
// durable once it can.
func (p *plan) request(g GenReady) Action {
	switch o := p.in.Observation.(type) {
	case nil:
		return AwaitEffect{Key: AdmissionKey{g.Context}}
	case AdmissionRefused:
		return p.to(StepRefused, FailureDrain{o.Error, FromConfiguration{}})
	case Admitted:
		pending := GenPending{
			Context: g.Context, Attempt: g.NextAttempt,
			ResponseID: p.mintEntry(), UsageID: p.mintUsage(),
			IntendedOutputLimit: o.OutputLimit, ContextWindow: o.ContextWindow, RequestAPI: o.RequestAPI,
		}
		return p.dispatch(StepRequest, Generate{g.Context, g.NextAttempt, pending.ResponseID, pending.UsageID}, Generating{pending})
	default: // not about an admission
	}
	return p.unexpected()
}

func (p *plan) unexpected() Action {
	return fault("observation", "one that fits the phase "+p.run.Phase.phase(), fmt.Sprintf("%T", p.in.Observation))
}

// response settles the request in flight under the ids that its intent reserved.
func (p *plan) response(g GenPending) Action {
	switch o := p.in.Observation.(type) {
	case nil:
		return AwaitEffect{Key: ResponseKey{g.ResponseID}}
	case Responded:
		if o.ResponseID == g.ResponseID && o.Message != nil {
			return p.settle(g, o.Message)
		}
	case OrphanedResponse:
		if o.ResponseID == g.ResponseID {
			return p.settleLost(g)
		}
	default: // not about a response
	}
	return p.unexpected()
}

// lostResponse is what is known of a request whose process died: nothing.
const lostResponse = "the process ended while this response was being received; whether the provider produced and billed one is unknown"

func (p *plan) settleLost(g GenPending) Action {
	m := &message.Assistant{
		API: "unknown", Provider: g.Context.Configuration.Model.Provider, Model: g.Context.Configuration.Model.ModelID,
		Usage: usage.Unknown(usage.Other), StopReason: message.Error, ErrorMessage: new(lostResponse), Timestamp: p.in.Now,
	}
	if p.cancelled() {
		m.StopReason = message.Aborted
		return p.record(StepLostAfterAbort, reserved{g.ResponseID, g.UsageID}, m, AtCheckpoint{mayFinish(g.ResponseID)})
	}
	return p.recordFailure(StepLost, StepLostForNow, g, m, OperationError{Code: CodeInterrupted, Message: lostResponse})
}

// settle classifies a response; the first rule that matches decides.
func (p *plan) settle(g GenPending, m *message.Assistant) Action {
	m = new(*m) // the rules below may normalise the stop reason
	ids := reserved{g.ResponseID, g.UsageID}
	if p.cancelled() {
		m.StopReason, m.Deferred = message.Aborted, nil
		return p.record(StepAborted, ids, m, AtCheckpoint{mayFinish(g.ResponseID)})
	}
	if overflow(g, m) {
		return p.settleOverflow(g, ids, m)
	}
	switch m.StopReason {
	case message.Deferred:
		if !validHandle(g, m.Deferred) {
			return p.recordError(StepDeferredBadly, ids, m, CodeInvalidDeferred, "the provider deferred its response under a handle that does not name this request")
		}
		return p.record(StepDeferred, ids, m, p.suspend(g, *m.Deferred))
	case message.Error:
		e := OperationError{Code: CodeProviderError, Message: errorText(m), Details: m.Diagnostics}
		if m.RawStopReason == nil || *m.RawStopReason != RetryableStop {
			return p.record(StepFailed, ids, m, FailureDrain{e, FromResponse{g.ResponseID}})
		}
		return p.recordFailure(StepFailed, StepFailedForNow, g, m, e)
	case message.ToolUse, message.Stop, message.Length:
		return p.settleContent(StepCalls, StepAnswered, ids, m, g.Context.Configuration, g.Context.StepID)
	case message.Aborted, message.Pending:
	}
	return fault("response "+g.ResponseID.String(), "a settled response, of a run that nobody aborted", string(m.StopReason))
}

// settleContent goes on with the calls of a response, or with its end.
func (p *plan) settleContent(calls, answered Step, ids reserved, m *message.Assistant, c Configuration, step string) Action {
	if _, indexes := m.ToolCalls(); len(indexes) > 0 {
		return p.record(calls, ids, m, RunningTools{p.batch(ids.response, c, step, indexes)})
	}
	if m.StopReason == message.ToolUse { // it announced calls and carries none
		m.StopReason = message.Stop
	}
	return p.record(answered, ids, m, AtCheckpoint{mayFinish(ids.response)})
}

const overflowText = "the conversation no longer fits the model's context window"

// settleOverflow compacts and asks again, or fails where that was done already or
// cannot help. A measure is taken before anything is committed.
func (p *plan) settleOverflow(g GenPending, ids reserved, m *message.Assistant) Action {
	next, ask, ok := p.recoverOverflow(g)
	switch {
	case ask != nil:
		return ask
	case !ok:
		return p.recordError(StepOverflow, ids, m, CodeContextOverflow, overflowText)
	}
	m.StopReason, m.Deferred = message.Error, nil
	if m.ErrorMessage == nil {
		m.ErrorMessage = new(overflowText)
	}
	return p.record(StepOverflowCompact, ids, m, next)
}

func mayFinish(response id.EntryID) Checkpoint {
	return Checkpoint{Continuation: MayFinish{IncludeFinalAssistant: true}, Trigger: response}
}

// reserved are the ids of an attempt, from its intent.
type reserved struct {
	response id.EntryID
	usage    id.UsageID
}

// recordError keeps a response that cannot be used as a failed one; text says
// why where the provider did not.
func (p *plan) recordError(step Step, ids reserved, m *message.Assistant, code, text string) Action {
	m.StopReason, m.Deferred = message.Error, nil
	if m.ErrorMessage == nil {
		m.ErrorMessage = &text
	}
	return p.record(step, ids, m, FailureDrain{OperationError{Code: code, Message: text}, FromResponse{ids.response}})
}

// record writes entry, leaf, ledger row and next state together.
func (p *plan) record(step Step, ids reserved, m *message.Assistant, next Phase) Action {
	p.add(ids.response, entry.Message{Message: m})
	p.moveLeaf()
	row := entry.UsageRow{ID: ids.usage, EntryID: ids.response, Usage: m.Usage}
	if o, ok := p.in.Observation.(Responded); ok {
		o.Bill.charge(&row)
	}
	p.writes = append(p.writes, tx.InsertUsage{Row: row})
	p.run.LatestAssistant = ids.response
	return p.to(step, next)
}

// recordFailure waits for another attempt, or fails with e when none is left.
func (p *plan) recordFailure(last, forNow Step, g GenPending, m *message.Assistant, e OperationError) Action {
	policy, ids := g.Context.RetryPolicy, reserved{g.ResponseID, g.UsageID}
	if !policy.allows(g.Attempt) {
		return p.record(last, ids, m, FailureDrain{e, FromResponse{g.ResponseID}})
	}
	wait := min(max(Backoff(policy, g.Attempt, g.ResponseID), retryAfter(m.Diagnostics)), longestWait)
	return p.record(forNow, ids, m, Generating{GenRetryWait{g.Context, g.Attempt + 1, p.in.Now + wait, e.Message}})
}

// allows reports whether an attempt may follow the nth.
func (p RetryPolicy) allows(n int64) bool { return p.MaxAttempts == nil || n < *p.MaxAttempts }

// longestWait is a year in ms. A provider may wish for any number; this one does
// not wrap around in anybody's clock or timer.
const longestWait = 365 * 24 * 60 * 60 * 1000

// retryAfter is the provider's own wish in ms; it can only lengthen a wait.
func retryAfter(diagnostics *jsonv.Value) int64 {
	if diagnostics == nil {
		return 0
	}
	v, _ := diagnostics.Get("retry_after_ms")
	n, _ := v.Int64()
	return max(n, 0)
}

// Backoff returns the wait in ms after attempt n (from 1): doubling from the
// base, capped, with jitter over the upper half. The jitter is drawn from the
// failed attempt's entry id, so that a replay waits as long.
func Backoff(policy RetryPolicy, n int64, failed id.EntryID) int64 {
	e := min(max(n, 1)-1, 20)
	d := policy.MaxDelayMs
	if base := max(policy.BaseDelayMs, 0); base <= d>>e {
		d = base << e
	}
	d = max(d, 0)
	half := d / 2
	const modulus = 2147483647
	draw := max(n, 0) % modulus * 2654435761 % modulus
	for _, cp := range failed.String() {
		draw = (draw*31 + int64(cp)) % modulus
	}
	return half + draw%(d-half+1)
}

func errorText(m *message.Assistant) string {
	if m.ErrorMessage != nil && *m.ErrorMessage != "" {
		return *m.ErrorMessage
	}
	return "the provider reported an error without a message"
}

// overflowPhrases mark an error that a shorter context would cure.
var overflowPhrases = []string{
	"context length exceeded", "context_length_exceeded", "context window exceeds", "exceeds the context window",
	"maximum context length", "prompt is too long", "input is too long", "request_too_large",
	"reduce the length of the messages", "too many tokens", "token limit exceeded",
}

// throttlePhrases mark an error about the rate of requests, which may speak of
// tokens too.
var throttlePhrases = []string{"rate limit", "rate_limit", "too many requests", "throttl"}

// overflow recognises a conversation that no longer fits. A response cut off
// below the limit it was given hit the window instead; that is only known where
// the provider reported its tokens.
func overflow(g GenPending, m *message.Assistant) bool {
	if m.StopReason == message.Length && g.IntendedOutputLimit > 0 {
		c, reported := m.Usage.Evidence.Tokens()
		return reported && c == usage.Complete && m.Usage.Output < g.IntendedOutputLimit
	}
	return saysOverflow(m)
}

func saysOverflow(m *message.Assistant) bool {
	if m.StopReason != message.Error {
		return false
	}
	text := strings.ToLower(errorText(m))
	says := func(phrase string) bool { return strings.Contains(text, phrase) }
	return slices.ContainsFunc(overflowPhrases, says) && !slices.ContainsFunc(throttlePhrases, says)
}

func validHandle(g GenPending, h *message.DeferredHandle) bool {
	m := g.Context.Configuration.Model
	return h != nil && h.ID != "" && h.Provider == m.Provider && h.ModelID == m.ModelID && h.API == g.RequestAPI
}
