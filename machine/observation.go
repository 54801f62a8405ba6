package machine

import (
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/core/words"
)

// Observation reports what happened. A pass consumes the one it is given.
type Observation interface{ observation() }

// Admitted answers an AdmissionKey, a PollAdmissionKey or a SummaryAdmissionKey.
type Admitted struct {
	OutputLimit, ContextWindow int64 // tokens; 0: unknown
	RequestAPI                 string
}

// AdmissionRefused answers the same keys: it cannot be done as configured.
type AdmissionRefused struct{ Error OperationError }

// Responded reports a settled response, also a failed one (stop reason error;
// RawStopReason "retryable" when another attempt may help).
type Responded struct {
	ResponseID id.EntryID
	Message    *message.Assistant
	Bill       *Bill // nil: one request was made, and the message's usage is what it consumed
}

// Bill is the ledger's side of an attempt that made several requests: what they
// consumed together, and what the row says of each.
type Bill struct {
	Usage   usage.Usage
	Details jsonv.Value
}

// charge writes the bill into a row, if there is one.
func (b *Bill) charge(row *entry.UsageRow) {
	if b != nil {
		row.Usage, row.Details = b.Usage, &b.Details
	}
}

// Cleared answers a ClearanceKey: the call may run with these arguments.
type Cleared struct {
	SourceIndex int
	Arguments   jsonv.Value
	Replay      Replay
}

// Refused answers a ClearanceKey: the call does not run and has this result.
type Refused struct {
	SourceIndex int
	Result      *message.ToolResult
	Terminate   bool
}

// Asked answers a ClearanceKey: a person is to decide. Times are in ms; 0 or less
// is no limit.
type Asked struct {
	SourceIndex  int
	Reason       words.PauseReason
	Subject      jsonv.Value
	AnswerWithin int64
	Window       words.Expiry // of AnswerWithin
	ParkFor      int64
}

// Valid reports whether it is a question that can be asked: for one of the shared
// reasons, and with a window of the two that an answer can miss.
func (o Asked) Valid() bool {
	window := o.AnswerWithin <= 0 || o.Window == words.ExpiredDenialLimit || o.Window == words.ExpiredApproval
	return words.PauseReasons.Has(o.Reason) && window
}

// ToolSettled reports the result of a call that ran.
type ToolSettled struct {
	SourceIndex int
	Result      *message.ToolResult
	Terminate   bool
}

// OrphanedResponse: the response in flight has no live worker.
type OrphanedResponse struct{ ResponseID id.EntryID }

// OrphanedCall: the call in flight has no live worker. Arguments are those that
// were cleared; StillSafe says that the tool as registered now may be replayed.
type OrphanedCall struct {
	SourceIndex int
	Arguments   *jsonv.Value
	StillSafe   bool
}

// Verdict answers a VerdictKey.
type Verdict struct {
	TaskID string
	Choice SummaryChoice
}

// SummaryChoice is DeclineSummary, SupplySummary or WriteSummary.
type SummaryChoice interface{ choice() }

// DeclineSummary: there will be none.
type DeclineSummary struct{}

// SupplySummary is one that no model of this run writes. Usage, if any, is what
// making it consumed.
type SupplySummary struct {
	Summary string
	Usage   *usage.Usage
}

// WriteSummary has a model write it.
type WriteSummary struct{}

func (DeclineSummary) choice() {}
func (SupplySummary) choice()  {}
func (WriteSummary) choice()   {}

// Summarized reports what one request of a summary led to, and consumed.
type Summarized struct {
	TaskID         string
	Attempt, Index int64
	Usage          usage.Usage
	Bill           *Bill // as of a response
	Result         SummaryResult
}

// SummaryResult is SummaryContinues, SummaryProduced or SummaryFailed.
type SummaryResult interface{ result() }

// SummaryContinues: the summary covers that many messages and needs another
// request for the rest.
type SummaryContinues struct {
	Summary  string
	Messages int64
}

// SummaryProduced is the whole summary.
type SummaryProduced struct{ Summary string }

// SummaryFailed: this request led to nothing. A request that was too long has the
// code [CodeContextOverflow] and is made again at half the length.
type SummaryFailed struct {
	Error     OperationError // its details may wish for a wait, as retry_after_ms
	Retryable bool
}

func (SummaryContinues) result() {}
func (SummaryProduced) result()  {}
func (SummaryFailed) result()    {}

// OrphanedSummary: the request in flight has no live worker.
type OrphanedSummary struct {
	TaskID         string
	Attempt, Index int64
}

// RunStarting answers a RunStartKey.
type RunStarting struct{ Entries []PendingEntry }

// RunEnding answers a RunEndKey: the run ends, or goes on with an entry.
type RunEnding struct{ FollowUp *PendingEntry }

func (Admitted) observation()         {}
func (Asked) observation()            {}
func (Verdict) observation()          {}
func (Summarized) observation()       {}
func (OrphanedSummary) observation()  {}
func (RunStarting) observation()      {}
func (RunEnding) observation()        {}
func (AdmissionRefused) observation() {}
func (Responded) observation()        {}
func (Cleared) observation()          {}
func (Refused) observation()          {}
func (ToolSettled) observation()      {}
func (OrphanedResponse) observation() {}
func (OrphanedCall) observation()     {}
