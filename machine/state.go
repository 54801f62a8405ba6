package machine

import (
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/words"
)

// State is the total program counter of an operation (register op.state). It is
// replaced as a whole by every transition. There is no finished state.
type State struct {
	Control Control
	Work    Work
}

// Control is Running or CancelRequested.
type Control interface{ control() }

// Running is the ordinary control.
type Running struct{}

// CancelRequested is set by the first abort and never unset. The drained ids
// keep their pending entries until the terminal transaction.
type CancelRequested struct {
	RequestedAt                  int64
	DrainedSteer, DrainedFollows []id.EntryID
}

func (Running) control()         {}
func (CancelRequested) control() {}

// Work is one of *Run, *Compaction, *Navigation; it matches the operation's intent.
type Work interface{ work() string }

// Run is the state of a run.
type Run struct {
	Settings        Settings
	Phase           Phase
	Inbox           Inbox
	LatestAssistant id.EntryID // absent until a response settled
	Turns           int64      // generations begun; counted only where Settings.MaxTurns is set
	Compactions     int64      // made in a row: since the context last had room when it was looked at
}

// Compaction is the state of a compaction asked for on its own.
type Compaction struct {
	CustomInstructions *string
	Structural         Structural
}

// Navigation is the state of a move of the leaf; Structural is nil when nothing
// is summarised.
type Navigation struct {
	TargetID           id.EntryID
	Label              *string
	CustomInstructions *string
	Structural         *Structural
}

func (*Run) work() string        { return kindRun }
func (*Compaction) work() string { return kindCompaction }
func (*Navigation) work() string { return kindNavigation }

// Settings are captured when a run is accepted.
type Settings struct {
	Compaction    CompactionSettings
	SteeringMode  DrainMode
	FollowUpMode  DrainMode
	ToolExecution ToolExecution
	MaxTurns      *int64 // nil: unlimited
}

// CompactionSettings are in tokens.
type CompactionSettings struct {
	Enabled                         bool
	ReserveTokens, KeepRecentTokens int64
}

// DrainMode says how many queued items one checkpoint consumes.
type DrainMode string

// The drain modes.
const (
	DrainAll        DrainMode = "all"
	DrainOneAtATime DrainMode = "one-at-a-time"
)

// ToolExecution says how the calls of one response are run.
type ToolExecution string

// The tool executions.
const (
	Sequential ToolExecution = "sequential"
	Parallel   ToolExecution = "parallel"
)

// Inbox lists what was queued for an open run; the payloads are pending entries.
type Inbox struct{ Steer, FollowUp, Writes []id.EntryID }

// Phase is where a run stands: one of Starting, AtCheckpoint, Generating,
// RunningTools, Compacting, AwaitingDeferred, FailureDrain.
type Phase interface{ phase() string }

// Starting has its prompts placed and nothing decided.
type Starting struct{}

// AtCheckpoint is the decision point between steps.
type AtCheckpoint struct{ Checkpoint Checkpoint }

// Generating is one provider request with its retries.
type Generating struct{ Generation Generation }

// RunningTools works on the calls of one response.
type RunningTools struct{ Batch Batch }

// Compacting summarises inside a run and goes on with ResumeAfter.
type Compacting struct {
	Reason      CompactionReason
	Structural  Structural
	ResumeAfter Checkpoint
}

// AwaitingDeferred waits for a response that the provider finishes later.
type AwaitingDeferred struct{ Deferred DeferredWait }

// FailureDrain places what is queued before the run ends as failed.
type FailureDrain struct {
	Error      OperationError
	Provenance Provenance
}

func (Starting) phase() string         { return "starting" }
func (AtCheckpoint) phase() string     { return "checkpoint" }
func (Generating) phase() string       { return "assistant" }
func (RunningTools) phase() string     { return "tools" }
func (Compacting) phase() string       { return "compaction" }
func (AwaitingDeferred) phase() string { return "deferred" }
func (FailureDrain) phase() string     { return "failure_drain" }

// CompactionReason says why a summary is made.
type CompactionReason string

// The reasons. A compaction inside a run is never manual.
const (
	ReasonManual    = CompactionReason(words.CompactedByHand)
	ReasonThreshold = CompactionReason(words.CompactedAtLimit)
	ReasonOverflow  = CompactionReason(words.CompactedOnOverflow)
)

// Checkpoint is what a run decides from.
type Checkpoint struct {
	Continuation     Continuation
	Trigger          id.EntryID // the newest entry that asks for an answer
	ThresholdChecked id.EntryID // the trigger for which the threshold was looked at; may be absent
	SkipInboxOnce    bool
}

// Continuation is NeedAssistant or MayFinish.
type Continuation interface{ continuation() }

// NeedAssistant asks for a response.
type NeedAssistant struct{ OverflowRecoveryUsed bool }

// MayFinish ends the run unless a follow-up is queued.
type MayFinish struct{ IncludeFinalAssistant bool }

func (NeedAssistant) continuation() {}
func (MayFinish) continuation()     {}

// GenerationContext is captured when a step starts and used by its retries and
// by recovery.
type GenerationContext struct {
	StepID               string
	Trigger              id.EntryID
	Configuration        Configuration
	StreamOptions        jsonv.Value // opaque to the machine
	RetryPolicy          RetryPolicy
	OverflowRecoveryUsed bool
}

// Generation is one of GenReady, GenPending, GenRetryWait.
type Generation interface{ context() GenerationContext }

// GenReady has nothing in flight.
type GenReady struct {
	Context     GenerationContext
	NextAttempt int64 // from 1
}

// GenPending has a request in flight, or lost.
type GenPending struct {
	Context             GenerationContext
	Attempt             int64
	ResponseID          id.EntryID
	UsageID             id.UsageID
	IntendedOutputLimit int64 // tokens; 0: unknown
	ContextWindow       int64 // tokens; 0: unknown
	RequestAPI          string
}

// GenRetryWait waits before the next attempt.
type GenRetryWait struct {
	Context      GenerationContext
	NextAttempt  int64
	NotBefore    int64 // Unix ms
	ErrorMessage string
}

func (g GenReady) context() GenerationContext     { return g.Context }
func (g GenPending) context() GenerationContext   { return g.Context }
func (g GenRetryWait) context() GenerationContext { return g.Context }

// RetryPolicy bounds the attempts of one step.
type RetryPolicy struct {
	MaxAttempts             *int64 // nil: unbounded
	BaseDelayMs, MaxDelayMs int64
}

// Batch is the calls of one settled response.
type Batch struct {
	AssistantID   id.EntryID
	Configuration Configuration
	TurnID        string          // the step id
	Calls         []Call          // in source order
	Ends          *OperationError // the run ends with it once every call has its result; nil: it goes on
}

// Call is one call of a batch.
type Call struct {
	SourceIndex int // into the complete content of the response
	ResultID    id.EntryID
	Status      CallStatus
}

// CallStatus is one of Planned, Held, Decided, InFlight, OutcomeReady, Completed.
type CallStatus interface{ status() string }

// Planned is not cleared yet.
type Planned struct{}

// Held waits for a decision of a person.
type Held struct{ Pause Pause }

// Decided has that decision, and nothing follows from it yet.
type Decided struct {
	Pause    Pause
	Decision Decision
	At       int64           // Unix ms
	By       *message.Origin // who decided; nil: nobody was named
}

// InFlight was started, or lost.
type InFlight struct {
	Replay Replay
	Gate   *jsonv.Value // the record of the question about it, for its result; nil: nobody was asked
}

// OutcomeReady has its result staged as a pending entry.
type OutcomeReady struct{ Terminate bool }

// Completed has its result in the tree.
type Completed struct{ Terminate bool }

func (Planned) status() string      { return "planned" }
func (Held) status() string         { return "held" }
func (Decided) status() string      { return "decided" }
func (InFlight) status() string     { return "effect_pending" }
func (OutcomeReady) status() string { return "outcome_ready" }
func (Completed) status() string    { return "completed" }

// Replay says whether an interrupted call may be run again.
type Replay string

// The replay policies.
const (
	ReplayNever Replay = "never"
	ReplaySafe  Replay = "safe"
)

// DeferredWait is the wait for a deferred response. ResponseID and UsageID are
// present while a poll is in flight.
type DeferredWait struct {
	StepID        string
	SourceEntryID id.EntryID // the response that carries the handle
	Poll          int64      // the poll in flight, or the last one that came back; from 1
	Configuration Configuration
	StreamOptions jsonv.Value
	ResponseID    id.EntryID
	UsageID       id.UsageID
	NotBefore     int64 // Unix ms of the next poll; 0: at once
}

// Structural is the making of a summary; Generation is nil while it is not yet
// decided whether one is generated.
type Structural struct {
	TaskID     string
	Generation SummaryGeneration
}

// SummaryContext is captured when a summary is started.
type SummaryContext struct {
	TaskID        string
	ResultEntryID id.EntryID // reserved for the entry that will hold the summary
	Kind          string     // compaction or branch_summary
	Configuration Configuration
	StreamOptions jsonv.Value
	RetryPolicy   RetryPolicy
	Reason        CompactionReason
	Progress      SummaryProgress
}

// The kinds of a summary.
const (
	kindCompactionSummary = "compaction"
	kindBranchSummary     = "branch_summary"
)

// SummaryProgress is how far a summary has come that takes more than one request.
// It outlives a failed request and a crash: what is summarised is not paid twice.
type SummaryProgress struct {
	Messages int64  // of the preparation's messages that Summary covers
	Summary  string // of those
	Shrunk   int64  // how often requests were too long; each time they are halved
}

// SummaryGeneration is one of SummaryReady, SummaryPending, SummaryRetryWait.
type SummaryGeneration interface{ summary() }

// SummaryReady has nothing in flight.
type SummaryReady struct {
	Context     SummaryContext
	NextAttempt int64
}

// SummaryPending works through the requests of one attempt.
type SummaryPending struct {
	Context  SummaryContext
	Attempt  int64
	Request  *SummaryRequest
	UsageIDs []id.UsageID
}

// SummaryRequest is the request in flight.
type SummaryRequest struct {
	Index   int64
	UsageID id.UsageID
}

// SummaryRetryWait waits before the next attempt.
type SummaryRetryWait struct {
	Context      SummaryContext
	NextAttempt  int64
	NotBefore    int64
	ErrorMessage string
}

func (SummaryReady) summary()     {}
func (SummaryPending) summary()   {}
func (SummaryRetryWait) summary() {}

// Provenance says what made a run fail: FromResponse, FromStructural or
// FromConfiguration.
type Provenance interface{ provenance() }

// FromResponse names the failed response.
type FromResponse struct{ EntryID id.EntryID }

// FromStructural names the failed summary.
type FromStructural struct{ TaskID string }

// FromConfiguration: the run could not go on as configured.
type FromConfiguration struct{}

func (FromResponse) provenance()      {}
func (FromStructural) provenance()    {}
func (FromConfiguration) provenance() {}

// OperationError is how an operation failed.
type OperationError struct {
	Code    string
	Message string // for people
	Details *jsonv.Value
}
