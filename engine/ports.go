package engine

import (
	"context"
	"time"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/machine/automation"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/projection"
	"github.com/loom-run/loom/telemetry"
)

// Config is what an engine works with. Ports that may be nil say so.
type Config struct {
	Session *session.Session
	Models  Models
	Tools   Toolbox // nil: no tools are offered and every call is refused
	System  string  // the system prompt

	Clock   func() int64  // Unix ms
	Entropy func() uint64 // seeds of id generators; must not repeat in a session's life
	After   func(time.Duration) <-chan time.Time

	Policy   projection.Policy
	Settings machine.Settings // of runs; MaxTurns comes with each prompt
	Retry    machine.RetryPolicy
	Hooks    Hooks // nil: nobody is asked

	Agency agency.Limits // of what agents may start; zero: they start nothing

	Peers Peers // how letters reach other sessions; nil: they do not

	Automation automation.Settings // what strands are told because of what they say, or at times; zero: nothing

	// Subagent says with which model an agent begins, and how much it is asked to
	// reason, given those of its parent; nil: with the same.
	Subagent func(machine.ModelRef, machine.ThinkingLevel) (machine.ModelRef, machine.ThinkingLevel)

	Summaries  Summaries
	Summarizer func(machine.ModelRef) machine.ModelRef // which model writes summaries for a strand of another; nil: its own

	Meter telemetry.Scope // measures requests, calls and commits; the zero Scope does not

	// Observe is told what happens, one fact at a time and in order; nil: nobody
	// watches. It is called while a commit is being finished: it must not block and
	// must not call the engine.
	Observe func(Fact)
}

// Summaries says how a compaction comes by its text.
type Summaries uint8

// The ways. A branch that is left is always summarised by a model.
const (
	ByModel Summaries = iota // a model writes it
	ByNotes                  // it is what the agent wrote down for itself, see [NotesPrefix]
)

// Hooks is asked at the start and the end of each run. It may be asked again after
// a crash, before anything follows from its answer.
type Hooks interface {
	// RunStart returns what is placed behind the prompts.
	RunStart(machine.Operation) []machine.PendingEntry
	// RunEnd returns what a run that would complete goes on with; nil ends it.
	RunEnd(op machine.Operation, finalAssistant id.EntryID) *machine.PendingEntry
}

// Peers delivers letters to other sessions.
type Peers interface {
	// Deliver has the engine of the session that is written to receive a letter, see
	// [Engine.Receive], and tells what is known of it.
	Deliver(agency.Letter) agency.Delivery
}

// Models finds who answers for a durable model identity.
type Models interface {
	// Resolve returns an error for people when the model cannot be used now.
	Resolve(machine.ModelRef) (provider.Model, provider.Provider, error)
}

// Call is one tool call with its durable coordinates; they come from the driver,
// never from arguments.
type Call struct {
	Strand      string
	Op          id.OpID
	Step        string
	SourceIndex int
	Call        message.ToolCall
	Arguments   jsonv.Value
	Offered     []string         // the names that the strand's tools were offered by; a call of another is for the toolbox to refuse
	Consent     *machine.Decided // what a person approved of this very call, to be used for this clearance; nil: nobody was asked
}

// Output is a window of what a running call prints.
type Output struct {
	Stream     string
	Tail       string
	TotalBytes int64
}

// Toolbox offers, clears and runs tools.
type Toolbox interface {
	// Offer describes the tools of that name that exist, sorted by name.
	Offer(names []string) []provider.Tool
	// Clear asks whether the call may run. A call may be cleared again once its
	// earlier clearance was run or released.
	Clear(Call) Verdict
	// Abort ends what still runs for an operation.
	Abort(id.OpID)
}

// Verdict is the answer about a call: Granted, Denied or Question.
type Verdict interface{ verdict() }

// Granted lets the call run.
type Granted struct{ Clearance Clearance }

// Denied does not; Result is for the model. The run ends when every result of the
// batch says Terminate.
type Denied struct {
	Result    *message.ToolResult
	Terminate bool
}

// Question leaves it to a person. The run pauses on it, durably; once they approve,
// the call is cleared again with their consent. The index of the call is the
// engine's to fill in.
type Question machine.Asked

func (Granted) verdict()  {}
func (Denied) verdict()   {}
func (Question) verdict() {}

// Clearance is the permission to run one call once. It is used up by exactly one
// of Run and Release.
type Clearance interface {
	Replay() machine.Replay
	// Exclusive calls of a batch run alone, in source order.
	Exclusive() bool
	// Run executes the call. It returns when nothing of it runs any more; failures
	// are results.
	Run(ctx context.Context, progress func(Output)) (result *message.ToolResult, terminate bool)
	// Release gives the permission back: the call will not be run.
	Release()
}
