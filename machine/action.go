package machine

import (
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
)

// Inputs is what one pass has loaded. IDs must be a generator that never
// produced a committed id.
type Inputs struct {
	Now              int64 // Unix ms
	IDs              id.Generator
	StateSeq         int64 // of op.state
	Strand           StrandState
	StrandSeq        int64
	Leaf             id.EntryID // absent at the root
	Configuration    Configuration
	ConfigurationSeq int64
	StreamOptions    jsonv.Value
	RetryPolicy      RetryPolicy
	Pending          map[id.EntryID]PendingEntry
	ProjectedCustom  map[string]bool    // custom types that enter the model's context
	BatchSource      *message.Assistant // the response whose calls are worked on
	DeferredSource   *message.Assistant // the response whose handle is waited for
	Preparation      Preparation        // of the summary that is being made
	Measure          *Measure           // nil: not taken in this pass
	Hooks            Hooks
	ToolArgsKeys     []string    // keys of op.tool_args of this operation
	PreparationKeys  []string    // keys of op.preparation of this operation
	Observation      Observation // nil when nothing was reported
}

// Hooks says which moments of a run somebody wants to be asked about.
type Hooks struct{ RunStart, RunEnd bool }

// Measure is the size of the context at a leaf, and what a compaction there would
// work on.
type Measure struct {
	Leaf        id.EntryID
	Tokens      int64                  // as the provider reported them, and an estimate of what came since
	Window      int64                  // of the strand's model; 0: unknown
	Preparation *CompactionPreparation // nil: there is nothing that could be summarised
}

// Action is what the driver must do now.
type Action interface{ action() }

// Transition commits Tx; Next is then the state.
type Transition struct {
	Step Step
	Next State
	Tx   tx.Tx
}

// Dispatch commits Tx, which makes the intent durable, then starts Effect.
type Dispatch struct {
	Step   Step
	Effect Effect
	Next   State
	Tx     tx.Tx
}

// AwaitEffect needs an observation for Key. A question (admission, clearance, a
// verdict, a hook) is asked now if it is not being asked; an effect that no live
// worker runs is reported as an [OrphanedResponse], [OrphanedCall] or
// [OrphanedSummary]. A [MeasureKey] is answered by [Inputs.Measure] of the next
// pass instead, with the same observation.
type AwaitEffect struct {
	Key   Key
	Until int64 // Unix ms at which another pass may find something to do; 0: only when there is an observation
}

// Wait does nothing until a time, unless something else happens first.
type Wait struct{ Until int64 } // Unix ms

// Park does nothing until a person answers one of Pauses, or until a time: the run
// is paused. Whoever waits for its end need not wait for this.
type Park struct {
	Pauses []Pause
	Until  int64 // Unix ms; 0: only an answer goes on
}

// Finish commits Tx, the terminal transaction; the operation is then gone.
type Finish struct {
	Step   Step
	Result LastResult
	Tx     tx.Tx
}

// Fault stops the strand: durable state and observation do not fit together.
// Nothing is repaired.
type Fault struct{ Report *corrupt.Report }

func (Transition) action()  {}
func (Dispatch) action()    {}
func (AwaitEffect) action() {}
func (Wait) action()        {}
func (Park) action()        {}
func (Finish) action()      {}
func (Fault) action()       {}

// Effect is Generate, Poll, Summarize or RunTool.
type Effect interface{ effect() }

// Generate asks the model for a response.
type Generate struct {
	Context    GenerationContext
	Attempt    int64
	ResponseID id.EntryID
	UsageID    id.UsageID
}

// RunTool runs one cleared call.
type RunTool struct {
	StepID      string
	SourceIndex int
	ResultID    id.EntryID
	Call        message.ToolCall
	Arguments   jsonv.Value // as cleared, not as the model wrote them
	Replayed    bool        // run again after a crash, under the same id
}

// Poll asks the provider for a response that it deferred.
type Poll struct {
	Deferred   DeferredWait
	Handle     message.DeferredHandle
	ResponseID id.EntryID
	UsageID    id.UsageID
}

// Summarize makes one request of a summary. What it asks follows from
// Preparation and Context.Progress.
type Summarize struct {
	Context      SummaryContext
	Attempt      int64
	Index        int64 // of the request within the attempt, from 0
	UsageID      id.UsageID
	Preparation  Preparation
	Instructions *string // of the person who asked for the summary
}

func (Generate) effect()  {}
func (Poll) effect()      {}
func (Summarize) effect() {}
func (RunTool) effect()   {}

// Key names what is awaited.
type Key interface{ key() }

// AdmissionKey asks whether the configured model and tools can be used, and with
// what limits.
type AdmissionKey struct{ Context GenerationContext }

// ResponseKey awaits the response that is in flight.
type ResponseKey struct{ ResponseID id.EntryID }

// ClearanceKey asks whether a call may run. Consent is an approval of this very
// call that was not used yet; it is used up by the commit that starts the call.
type ClearanceKey struct {
	StepID      string
	SourceIndex int
	Call        message.ToolCall // with the arguments of the consent, where it has others
	Consent     *Decided         // nil: nobody was asked
}

// CallsKey awaits any of the calls in flight.
type CallsKey struct {
	StepID        string
	SourceIndexes []int
}

// PollAdmissionKey asks whether the provider that deferred a response can be asked
// for it.
type PollAdmissionKey struct {
	Deferred DeferredWait
	Handle   message.DeferredHandle
}

// MeasureKey asks for [Inputs.Measure] at a leaf.
type MeasureKey struct {
	Leaf     id.EntryID
	Settings CompactionSettings
}

// VerdictKey asks how a summary comes about.
type VerdictKey struct {
	TaskID       string
	Reason       CompactionReason
	Preparation  Preparation
	Instructions *string
}

// SummaryAdmissionKey asks whether the model that is to write a summary can be
// used.
type SummaryAdmissionKey struct{ Context SummaryContext }

// SummaryKey awaits a request of a summary.
type SummaryKey struct {
	TaskID         string
	Attempt, Index int64
}

// RunStartKey asks what is placed before a run asks its model.
type RunStartKey struct{}

// RunEndKey asks whether a run that would complete goes on.
type RunEndKey struct{ FinalAssistant id.EntryID }

func (AdmissionKey) key()        {}
func (ResponseKey) key()         {}
func (ClearanceKey) key()        {}
func (CallsKey) key()            {}
func (PollAdmissionKey) key()    {}
func (MeasureKey) key()          {}
func (VerdictKey) key()          {}
func (SummaryAdmissionKey) key() {}
func (SummaryKey) key()          {}
func (RunStartKey) key()         {}
func (RunEndKey) key()           {}
