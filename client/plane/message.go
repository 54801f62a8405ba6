package plane

import (
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/wire"
)

// Message is what a transcript keeps: one of [Prompt], [Answer], [Reasoning],
// [Call], [Result], [Ended], [Compacted], [BranchLeft]. Texts are as the wire has them: a host passes them
// through client/say before a screen.
type Message interface{ message() }

// Prompt is what a person, or who acts for one, asked.
type Prompt struct {
	Entry  id.EntryID
	Text   string
	Bytes  int64 // the length of the whole text; more than Text when it was cut
	Images int
	Author *wire.Author // nil: not attributed
}

// Answer is one committed text of the model. Segments of one entry are one
// response.
type Answer struct {
	Segment wire.Segment
	Text    string
}

// Reasoning is one committed piece of reasoning.
type Reasoning struct {
	Segment  wire.Segment
	Text     string
	Redacted bool
}

// Call is a tool call of the model. Its result is the [Result] with the same
// call id.
type Call struct {
	Segment   wire.Segment
	CallID    string
	Name      string
	Arguments jsonv.Value
}

// Result is the outcome of a call.
type Result struct {
	Entry   id.EntryID
	CallID  string
	Name    string
	Text    []wire.TextBlock
	Images  int
	IsError bool
	Gate    *wire.Gate
	// Structured is what the tool says to programs; nil when it says nothing, and
	// when it is too large: then StructuredBytes tells its size.
	Structured      *jsonv.Value
	StructuredBytes int64
}

// Ended is the end of a run, as committed.
type Ended struct {
	Operation id.OpID
	Cause     wire.Cause
	Total     Tally
	Gates     []wire.GateRecord // nil: not known
	Final     id.EntryID        // the response that ended it; may be absent
}

// Compacted marks where the model's context begins anew.
type Compacted struct{ Boundary wire.CompactionBoundary }

// BranchLeft describes a branch that was left.
type BranchLeft struct{ Summary wire.BranchSummary }

func (Prompt) message()     {}
func (Answer) message()     {}
func (Reasoning) message()  {}
func (Call) message()       {}
func (Result) message()     {}
func (Ended) message()      {}
func (Compacted) message()  {}
func (BranchLeft) message() {}
