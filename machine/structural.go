package machine

import (
	"fmt"
	"slices"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
)

// Error codes of what could not be done as configured.
const (
	CodeModelUnavailable = "model_unavailable"
	CodeToolsUnavailable = "configured_tools_unavailable"
)

// summarizing is whoever has a summary made: a run, a compaction, a navigation.
type summarizing interface {
	reason() CompactionReason
	instructions() *string
	// at is the work with the summary at a stage.
	at(Structural) Work
	// publish places the summary as an entry. supplied is nil when a model wrote it;
	// step is that of a run, the others end with it.
	publish(step Step, text string, supplied *SupplySummary, i id.EntryID) Action
	decline() Action
	fail(Step, OperationError) Action
}

// Summary is the summary that an operation is making.
func (s State) Summary() (Structural, bool) {
	switch work := s.Work.(type) {
	case *Run:
		c, ok := work.Phase.(Compacting)
		return c.Structural, ok
	case *Compaction:
		return work.Structural, true
	case *Navigation:
		if work.Structural != nil {
			return *work.Structural, true
		}
	}
	return Structural{}, false
}

// structural drives the making of a summary.
func (p *plan) structural(s Structural, o summarizing) Action {
	if p.in.Preparation == nil {
		return fault("op.preparation of task "+s.TaskID, "what the summary is made from", "nothing")
	}
	switch g := s.Generation.(type) {
	case nil:
		return p.judge(s, o)
	case SummaryReady:
		return p.admitSummary(s, g, o)
	case SummaryPending:
		if g.Request == nil {
			return p.requestSummary(StepSummaryGoesOn, s, g, o)
		}
		return p.settleSummary(s, g, o)
	case SummaryRetryWait:
		if p.in.Now < g.NotBefore {
			return Wait{g.NotBefore}
		}
		s.Generation = SummaryReady{g.Context, g.NextAttempt}
		return p.toWork(StepSummaryRetry, o.at(s))
	}
	return p.misfit("a summary")
}

// summaryInFlight reports whether a request of a summary settles before anything
// else, also under an abort.
func summaryInFlight(s Structural) bool {
	g, ok := s.Generation.(SummaryPending)
	return ok && g.Request != nil
}

// judge asks how the summary comes about.
func (p *plan) judge(s Structural, o summarizing) Action {
	v, ok := p.in.Observation.(Verdict)
	if p.in.Observation == nil {
		return AwaitEffect{Key: VerdictKey{s.TaskID, o.reason(), p.in.Preparation, o.instructions()}}
	}
	if !ok || v.TaskID != s.TaskID {
		return p.misfit("a summary that is not decided")
	}
	switch c := v.Choice.(type) {
	case DeclineSummary:
		return o.decline()
	case SupplySummary:
		return o.publish(StepSummarySupplied, c.Summary, &c, p.mintEntry())
	case WriteSummary:
		if p.in.ConfigurationSeq == 0 {
			return fault("strand.config/"+p.op.Strand, "a configuration to ask a model with", "nothing")
		}
		kind := kindCompactionSummary
		if _, branch := p.in.Preparation.(*BranchPreparation); branch {
			kind = kindBranchSummary
		}
		p.expect = append(p.expect, tx.Expect(register.StrandConfig, p.op.Strand, p.in.ConfigurationSeq))
		s.Generation = SummaryReady{NextAttempt: 1, Context: SummaryContext{
			TaskID: s.TaskID, ResultEntryID: p.mintEntry(), Kind: kind, Configuration: p.in.Configuration,
			StreamOptions: p.in.StreamOptions, RetryPolicy: p.in.RetryPolicy, Reason: o.reason(),
		}}
		return p.toWork(StepSummaryBegin, o.at(s))
	}
	return p.misfit("a summary that is not decided")
}

// admitSummary asks whether the model that is to write can be used, and then for
// the first request.
func (p *plan) admitSummary(s Structural, g SummaryReady, o summarizing) Action {
	switch x := p.in.Observation.(type) {
	case nil:
		return AwaitEffect{Key: SummaryAdmissionKey{g.Context}}
	case AdmissionRefused:
		return o.fail(StepSummaryRefused, x.Error)
	case Admitted:
		return p.requestSummary(StepSummaryRequest, s, SummaryPending{Context: g.Context, Attempt: g.NextAttempt, UsageIDs: []id.UsageID{}}, o)
	default: // not about an admission
	}
	return p.misfit("a summary that is ready")
}

// requestSummary makes the intent of one request durable.
func (p *plan) requestSummary(step Step, s Structural, g SummaryPending, o summarizing) Action {
	u := p.mintUsage()
	r := SummaryRequest{Index: int64(len(g.UsageIDs)), UsageID: u}
	g.Request, g.UsageIDs = &r, append(slices.Clone(g.UsageIDs), u)
	s.Generation = g
	return p.dispatchWork(step, Summarize{g.Context, g.Attempt, r.Index, u, p.in.Preparation, o.instructions()}, o.at(s))
}

// settleSummary pays for the request in flight and follows its result.
func (p *plan) settleSummary(s Structural, g SummaryPending, o summarizing) Action {
	switch x := p.in.Observation.(type) {
	case nil:
		return AwaitEffect{Key: SummaryKey{s.TaskID, g.Attempt, g.Request.Index}}
	case Summarized:
		if x.TaskID == s.TaskID && x.Attempt == g.Attempt && x.Index == g.Request.Index {
			return p.summarized(s, g, o, x)
		}
	case OrphanedSummary:
		if x.TaskID == s.TaskID && x.Attempt == g.Attempt && x.Index == g.Request.Index {
			return p.summaryLost(s, g, o)
		}
	default: // not about a request of a summary
	}
	return p.misfit("a summary whose request is in flight")
}

func (p *plan) payForSummary(g SummaryPending, u usage.Usage, b *Bill) {
	row := entry.UsageRow{ID: g.Request.UsageID, Usage: u}
	b.charge(&row)
	p.writes = append(p.writes, tx.InsertUsage{Row: row})
}

func (p *plan) summarized(s Structural, g SummaryPending, o summarizing, x Summarized) Action {
	p.payForSummary(g, x.Usage, x.Bill)
	if p.cancelled() {
		return p.dropSummary(StepSummaryAborted, s, g, o)
	}
	switch r := x.Result.(type) {
	case SummaryProduced:
		return o.publish(StepSummaryPublished, r.Summary, nil, g.Context.ResultEntryID)
	case SummaryContinues:
		if r.Messages <= g.Context.Progress.Messages { // it would go on for ever
			return o.fail(StepSummaryFailed, OperationError{Code: CodeProviderError, Message: "the summary made no progress"})
		}
		g.Request = nil
		g.Context.Progress.Messages, g.Context.Progress.Summary = r.Messages, r.Summary
		s.Generation = g
		return p.toWork(StepSummaryContinues, o.at(s))
	case SummaryFailed:
		return p.summaryFailed(s, g, o, r)
	}
	return p.misfit("a request of a summary that has a result")
}

// maxShrunk is how often a request that was too long is made at half its length.
const maxShrunk = 6

func (p *plan) summaryFailed(s Structural, g SummaryPending, o summarizing, r SummaryFailed) Action {
	if r.Error.Code == CodeContextOverflow && g.Context.Progress.Shrunk < maxShrunk {
		g.Context.Progress.Shrunk++
		s.Generation = SummaryReady{g.Context, g.Attempt} // another request, not another attempt at the same one
		return p.toWork(StepSummaryShrinks, o.at(s))
	}
	if !r.Retryable || !g.Context.RetryPolicy.allows(g.Attempt) {
		return o.fail(StepSummaryFailed, r.Error)
	}
	wait := min(max(Backoff(g.Context.RetryPolicy, g.Attempt, g.Context.ResultEntryID), retryAfter(r.Error.Details)), longestWait)
	s.Generation = SummaryRetryWait{g.Context, g.Attempt + 1, p.in.Now + wait, r.Error.Message}
	return p.toWork(StepSummaryFailedForNow, o.at(s))
}

const lostSummary = "the process ended while a summary was being written; whether the provider produced and billed one is unknown"

func (p *plan) summaryLost(s Structural, g SummaryPending, o summarizing) Action {
	p.payForSummary(g, usage.Unknown(usage.Other), nil)
	if p.cancelled() {
		return p.dropSummary(StepSummaryLostAfterAbort, s, g, o)
	}
	if !g.Context.RetryPolicy.allows(g.Attempt) {
		return o.fail(StepSummaryFailed, OperationError{Code: CodeInterrupted, Message: lostSummary})
	}
	s.Generation = SummaryReady{g.Context, g.Attempt + 1}
	return p.toWork(StepSummaryLost, o.at(s))
}

// dropSummary leaves nothing in flight; the abort decides from there.
func (p *plan) dropSummary(step Step, s Structural, g SummaryPending, o summarizing) Action {
	g.Request = nil
	s.Generation = g
	return p.toWork(step, o.at(s))
}

func (p *plan) misfit(where string) Action {
	return fault("observation", "one that fits "+where, fmt.Sprintf("%T", p.in.Observation))
}
