package machine

import (
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
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
	ToolArgsKeys     []string           // keys of op.tool_args of this operation
	PreparationKeys  []string           // keys of op.preparation of this operation
	Observation      Observation        // nil when nothing was reported
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

// AwaitEffect needs an observation for Key. A question (admission, clearance) is
// asked now if it is not being asked; an effect that no live worker runs is
// reported as an [OrphanedResponse] or [OrphanedCall].
type AwaitEffect struct{ Key Key }

// Wait does nothing until a time, unless something else happens first.
type Wait struct{ Until int64 } // Unix ms

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
func (Finish) action()      {}
func (Fault) action()       {}

// Effect is Generate or RunTool.
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

func (Generate) effect() {}
func (RunTool) effect()  {}

// Key names what is awaited.
type Key interface{ key() }

// AdmissionKey asks whether the configured model and tools can be used, and with
// what limits.
type AdmissionKey struct{ Context GenerationContext }

// ResponseKey awaits the response that is in flight.
type ResponseKey struct{ ResponseID id.EntryID }

// ClearanceKey asks whether a call may run.
type ClearanceKey struct {
	StepID      string
	SourceIndex int
	Call        message.ToolCall
}

// CallsKey awaits any of the calls in flight.
type CallsKey struct {
	StepID        string
	SourceIndexes []int
}

func (AdmissionKey) key() {}
func (ResponseKey) key()  {}
func (ClearanceKey) key() {}
func (CallsKey) key()     {}

// Observation reports what happened. A pass consumes the one it is given.
type Observation interface{ observation() }

// Admitted answers an AdmissionKey.
type Admitted struct {
	OutputLimit, ContextWindow int64 // tokens; 0: unknown
	RequestAPI                 string
}

// AdmissionRefused answers an AdmissionKey: the run cannot go on as configured.
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

func (Admitted) observation()         {}
func (AdmissionRefused) observation() {}
func (Responded) observation()        {}
func (Cleared) observation()          {}
func (Refused) observation()          {}
func (ToolSettled) observation()      {}
func (OrphanedResponse) observation() {}
func (OrphanedCall) observation()     {}
