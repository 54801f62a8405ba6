package wire

import (
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/words"
)

// ModelRef names a model at a provider.
type ModelRef struct {
	Provider string `wire:"provider"`
	ModelID  string `wire:"modelId"`
}

// String returns provider/model.
func (m ModelRef) String() string { return m.Provider + "/" + m.ModelID }

// RunStart is the level of a running operation and its assembly manifest: what
// the run was put together from.
type RunStart struct {
	Model    ModelRef             `wire:"model"`
	Mode     words.PermissionMode `wire:"mode"` // verbatim; a newer engine may send a newer word
	Cwd      string               `wire:"cwd"`
	MaxTurns *int64               `wire:"maxTurns,min=1"` // of this run; absent is no limit or not known
	Roster   Stated[Roster]       `wire:"toolRoster"`     // what the model is offered, in mount order
	Hands    Stated[Hands]        `wire:"hands"`          // whether the run was given files and a shell at all
	MCP      Stated[[]MCPServer]  `wire:"mcp"`            // what became of each external tool server
}

// TurnStart says that a response is on its way, under the id that its entry will
// have.
type TurnStart struct {
	Entry   id.EntryID `wire:"entryId"`
	Model   *ModelRef  `wire:"model"`
	Attempt *int64     `wire:"attempt,min=1"` // absent when not known
}

// TurnEnd closes one assistant message.
type TurnEnd struct {
	Entry        id.EntryID `wire:"entryId"`
	Usage        Usage      `wire:"usage"`
	StopReason   string     `wire:"stopReason"` // verbatim
	Model        ModelRef   `wire:"model"`
	ErrorMessage *string    `wire:"errorMessage"`
}

// Retry says that an attempt failed and the next one waits.
type Retry struct {
	Attempt     int64  `wire:"attempt"` // the attempt that failed, from 1
	MaxAttempts *int64 `wire:"maxAttempts,min=1"`
	UntilMs     int64  `wire:"untilMs"` // Unix ms of the next one
	Error       string `wire:"error"`
}

// RunEnd closes an operation, with exactly one cause.
type RunEnd struct {
	Terminal   Cause        `wire:"terminal"`
	Usage      Usage        `wire:"usage"`          // all requests of the run
	Gates      []GateRecord `wire:"gates,opt"`      // every record of a gate in the run; absent when not known
	FinalEntry id.EntryID   `wire:"finalEntry,opt"` // the response that ended it
}

// RunStopped is the level of a run that cannot go on in the process that holds
// it, and that has not ended: what is committed stays, and it can be resumed.
type RunStopped struct {
	Code    Code   `wire:"code"`    // verbatim
	Message string `wire:"message"` // one sentence
}

// LastTurnUsage is the level of what the newest response of a strand consumed, and
// of how full the model's context is with it.
type LastTurnUsage struct {
	Entry         id.EntryID `wire:"entryId"`
	Usage         Usage      `wire:"usage"`
	Model         ModelRef   `wire:"model"`
	ContextTokens *int64     `wire:"contextTokens"` // of the next request, as far as known
	ContextWindow *int64     `wire:"contextWindow,min=1"`
}

// Usage is what requests consumed and how well that is known. The counts are
// disjoint. It is always on the wire where the contract has it: that nobody
// measured is Measured false, and never a missing object.
type Usage struct {
	Input      int64 `wire:"input"`
	Output     int64 `wire:"output"`
	CacheRead  int64 `wire:"cacheRead"`
	CacheWrite int64 `wire:"cacheWrite"`
	// Measured is false when the counts are placeholders: zeros that nobody counted.
	Measured bool `wire:"measured"`
	// LowerBound says that more was consumed than was counted.
	LowerBound bool `wire:"lowerBound,opt"`
	// CostMicroUSD is the price in millionths of a US dollar; absent when it is not
	// known.
	CostMicroUSD *int64 `wire:"costMicroUsd"`
	// CostLowerBound says that the price covers a part only.
	CostLowerBound bool `wire:"costLowerBound,opt"`
}

// Activity is the level of a session: whether it works, waits for a person, or
// rests.
type Activity struct {
	State  words.Activity `wire:"state"`
	Queued int            `wire:"queued"` // inputs that wait, over all strands
	Tasks  int            `wire:"tasks"`  // tasks in the background that have not ended
}

// Settings is the level of what a strand's next run starts with.
type Settings struct {
	Model         ModelRef             `wire:"model"`
	Mode          words.PermissionMode `wire:"mode"`
	ThinkingLevel *words.ThinkingLevel `wire:"thinkingLevel"`
	ActiveTools   []string             `wire:"activeTools,opt"`
}

// Presence is the level of who looks at a session.
type Presence struct {
	Clients []Attendee `wire:"clients"`
}

// Attendee is one connection. Several windows of one person are several.
type Attendee struct {
	Connection string  `wire:"connection,word"`
	Author     *Author `wire:"author"`
	CanDecide  bool    `wire:"canDecide"` // whether an approval may wait for it
}
