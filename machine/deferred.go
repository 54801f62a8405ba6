package machine

import (
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
)

// Error codes of a response that the provider deferred.
const (
	CodeDeferredMismatch = "deferred_handle_mismatch"
	CodeDeferredExpired  = "deferred_expired"
)

// defaultPollMs is the time between two polls where the provider wishes none.
const defaultPollMs = 10_000

// pollAt is when a handle may be asked for next.
func (p *plan) pollAt(h message.DeferredHandle) int64 {
	wait := int64(defaultPollMs)
	if h.PollAfterMs != nil {
		wait = min(max(*h.PollAfterMs, 0), longestWait)
	}
	return p.in.Now + wait
}

// suspend is the phase of a run whose response was deferred just now.
func (p *plan) suspend(g GenPending, h message.DeferredHandle) Phase {
	return AwaitingDeferred{DeferredWait{
		StepID: g.Context.StepID, SourceEntryID: g.ResponseID, Configuration: g.Context.Configuration,
		StreamOptions: g.Context.StreamOptions, NotBefore: p.pollAt(h),
	}}
}

// deferred waits for a response that the provider finishes later.
func (p *plan) deferred(d DeferredWait) Action {
	if p.in.DeferredSource == nil || p.in.DeferredSource.Deferred == nil {
		return fault("entry "+d.SourceEntryID.String(), "the response whose handle is waited for", "none")
	}
	h := *p.in.DeferredSource.Deferred
	if !d.ResponseID.IsZero() {
		return p.polled(d, h)
	}
	until := d.NotBefore
	if h.ExpiresAt != nil {
		if p.in.Now >= *h.ExpiresAt {
			return p.to(StepPollExpired, FailureDrain{
				OperationError{Code: CodeDeferredExpired, Message: "the provider kept the deferred response only until a time that has passed; ask again"},
				FromResponse{d.SourceEntryID},
			})
		}
		until = min(until, *h.ExpiresAt)
	}
	if p.in.Now < until {
		return Wait{until}
	}
	switch o := p.in.Observation.(type) {
	case nil:
		return AwaitEffect{Key: PollAdmissionKey{d, h}}
	case AdmissionRefused:
		return p.to(StepPollRefused, FailureDrain{o.Error, FromConfiguration{}})
	case Admitted:
		d.Poll, d.NotBefore = d.Poll+1, 0
		d.ResponseID, d.UsageID = p.mintEntry(), p.mintUsage()
		return p.dispatch(StepPoll, Poll{d, h, d.ResponseID, d.UsageID}, AwaitingDeferred{d})
	default: // not about an admission
	}
	return p.unexpected()
}

// polled settles the poll in flight under the ids that its intent reserved.
func (p *plan) polled(d DeferredWait, h message.DeferredHandle) Action {
	switch o := p.in.Observation.(type) {
	case nil:
		return AwaitEffect{Key: ResponseKey{d.ResponseID}}
	case Responded:
		if o.ResponseID == d.ResponseID && o.Message != nil {
			return p.settlePoll(d, h, new(*o.Message))
		}
	case OrphanedResponse:
		if o.ResponseID != d.ResponseID {
			break
		}
		if p.cancelled() {
			m := &message.Assistant{
				API: "unknown", Provider: h.Provider, Model: h.ModelID, Usage: usage.Unknown(usage.Other),
				StopReason: message.Aborted, ErrorMessage: new(lostResponse), Timestamp: p.in.Now,
			}
			return p.record(StepPollLostAfterAbort, d.reserved(), m, AtCheckpoint{mayFinish(d.ResponseID)})
		}
		// The same poll again, under new ids: what it asks for is still there.
		d.Poll, d.NotBefore = d.Poll-1, p.in.Now
		d.ResponseID, d.UsageID = id.EntryID{}, id.UsageID{}
		return p.to(StepPollLost, AwaitingDeferred{d})
	default: // not about a response
	}
	return p.unexpected()
}

func (d DeferredWait) reserved() reserved { return reserved{d.ResponseID, d.UsageID} }

// settlePoll classifies what a poll brought. Nothing of it is tried again: what the
// provider kept for us is what there is.
func (p *plan) settlePoll(d DeferredWait, h message.DeferredHandle, m *message.Assistant) Action {
	ids := d.reserved()
	if p.cancelled() {
		m.StopReason, m.Deferred = message.Aborted, nil
		return p.record(StepPollAborted, ids, m, AtCheckpoint{mayFinish(d.ResponseID)})
	}
	if m.StopReason == message.Deferred {
		if m.Deferred == nil || !sameHandle(h, *m.Deferred) {
			return p.recordError(StepPollMismatch, ids, m, CodeDeferredMismatch, "the provider answered the request for a deferred response with another handle")
		}
		d.ResponseID, d.UsageID, d.NotBefore = id.EntryID{}, id.UsageID{}, p.pollAt(h)
		return p.to(StepPollPending, AwaitingDeferred{d})
	}
	if saysOverflow(m) {
		return p.recordError(StepPollFailed, ids, m, CodeContextOverflow, overflowText)
	}
	switch m.StopReason {
	case message.Error:
		return p.record(StepPollFailed, ids, m, FailureDrain{
			OperationError{Code: CodeProviderError, Message: errorText(m), Details: m.Diagnostics}, FromResponse{d.ResponseID},
		})
	case message.ToolUse, message.Stop, message.Length:
		return p.settleContent(StepPollCalls, StepPollAnswered, ids, m, d.Configuration, d.StepID)
	case message.Aborted, message.Pending, message.Deferred:
	}
	return fault("response "+d.ResponseID.String(), "a settled response, of a run that nobody aborted", string(m.StopReason))
}

// sameHandle compares handles completely.
func sameHandle(a, b message.DeferredHandle) bool {
	text := func(h message.DeferredHandle) string {
		var w jsonv.Writer
		message.AppendHandle(&w, h)
		return string(w.Bytes())
	}
	return text(a) == text(b)
}
