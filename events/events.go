// Package events says that something changed in a session.
//
// # Purpose
//
// The contract of delivery comes first, because everything that subscribes relies on it:
//
//   - An event is a hint. It holds nothing that is to be applied: who receives one reads the store. Events of the topic [Outputs] are display state, whole in
//     each event, and are replaced by what is committed in the end.
//   - A publisher never waits. It hands an event to the subscribers there are at that moment and goes on; with none, nothing happens.
//   - Each subscriber has a bounded queue. When it is full, the event that waited longest gives way and is counted. So whoever reads on always receives the
//     newest event, and a reader that looks into the store after each receipt misses nothing, whatever was dropped.
//   - Each event is of one topic, and is received once by a subscription however often that joined.
//   - The events of one publisher arrive in their order. There is no order between publishers.
//   - Nothing is kept for those who come later, and nothing leaves the process.
//
// # Key types
//
// [Bus], [Subscription], [Published]; [SessionKey]; [Topic]; the [Event] sum; [Bridge].
//
// # Relationships
//
// Imports core/id alone: neither the engine nor the broker, whose words it repeats where an event needs one. Whoever knows both sides writes the mapping.
//
// # Traffic
//
// Reads and commits nothing.
//
// # Invariants
//
//   - Keys of sessions with an id and of those with a name only are disjoint, whatever the name is.
//   - A subscription that is closed, whose context ends, or that nobody holds any more is in no group, and its channel is closed or unreachable.
package events

import (
	"slices"

	"github.com/loom-run/loom/core/id"
)

// SessionKey names a session on the bus.
type SessionKey struct{ text string }

// KeyOf names a session by its id. Whoever knows the id uses this one.
func KeyOf(s id.SessionID) SessionKey { return SessionKey{"id:" + s.String()} }

// KeyNamed names what has no id yet. No name makes it the key of an id.
func KeyNamed(name string) SessionKey { return SessionKey{"name:" + name} }

func (k SessionKey) String() string { return k.text }

// Topic is what events are about. The zero value is none.
type Topic uint8

// The topics. All but Outputs are hints.
const (
	Entries Topic = iota + 1
	Operations
	Usage
	Strands
	Escalations
	Commits
	Outputs
)

var allTopics = [...]Topic{Entries, Operations, Usage, Strands, Escalations, Commits, Outputs}

// AllTopics are the seven topics.
func AllTopics() []Topic { return slices.Clone(allTopics[:]) }

// HintTopics are the six that say that a store changed. A reader of a store joins these, so that the output of a command does not wake it.
func HintTopics() []Topic { return slices.Clone(allTopics[:len(allTopics)-1]) }

// Event is one of the events below.
type Event interface {
	// Topic is the one topic of the event.
	Topic() Topic
	event()
}

// EntryAdded: a row was committed to the tree.
type EntryAdded struct {
	ID  id.EntryID
	Seq int64
}

// OpTransition: an operation moved. Phase is for display only.
type OpTransition struct {
	Op    id.OpID
	Phase string
}

// UsageAdded: a row was committed to the ledger.
type UsageAdded struct {
	ID  id.UsageID
	Seq int64
}

// StrandResult: the result of an operation of a strand is in the store.
type StrandResult struct{ Strand string }

// Escalation: an operation waits for a person. Description is for display only.
type Escalation struct {
	Op          id.OpID
	Description string
}

// Committed: a transaction is durable.
type Committed struct {
	FirstSeq, LastSeq int64
	Timestamp         int64 // Unix ms
}

// OutputStream is which stream of a command is shown. The zero value is neither.
type OutputStream uint8

// The streams.
const (
	Stdout OutputStream = iota + 1
	Stderr
)

// ToolOutput is the whole window on the output of a call that runs: it replaces the one before. The committed result replaces them all.
type ToolOutput struct {
	Strand      string
	Op          id.OpID
	Step        string
	SourceIndex int
	CallID      string
	Stream      OutputStream
	Tail        string // the newest bytes
	TotalBytes  int64  // more than Tail has where something was cut
}

// BlockSummary is the label of a long block. That of a settled block is in the store too; that of a live stream is replaced by the next.
type BlockSummary struct {
	Subject SummarySubject
	Text    string
}

// SummarySubject is what a label is of.
type SummarySubject interface{ summarySubject() }

// SettledBlock is a block of a committed entry.
type SettledBlock struct {
	Entry id.EntryID
	Block int // index into the content
}

// LiveStream is reasoning that is being received.
type LiveStream struct {
	Strand     string
	Op         id.OpID
	Generation int // which request of the operation
}

func (SettledBlock) summarySubject() {}
func (LiveStream) summarySubject()   {}

// GoalChanged: the goal of the session was written or deleted. It holds nothing of it; who shows it reads its cell.
type GoalChanged struct{}

// Topic is Entries.
func (EntryAdded) Topic() Topic { return Entries }

// Topic is Operations.
func (OpTransition) Topic() Topic { return Operations }

// Topic is Usage.
func (UsageAdded) Topic() Topic { return Usage }

// Topic is Strands.
func (StrandResult) Topic() Topic { return Strands }

// Topic is Escalations.
func (Escalation) Topic() Topic { return Escalations }

// Topic is Commits.
func (Committed) Topic() Topic { return Commits }

// Topic is Outputs.
func (ToolOutput) Topic() Topic { return Outputs }

// Topic is Outputs.
func (BlockSummary) Topic() Topic { return Outputs }

// Topic is Outputs: a read model of the history has nothing to read for it.
func (GoalChanged) Topic() Topic { return Outputs }

func (EntryAdded) event()   {}
func (OpTransition) event() {}
func (UsageAdded) event()   {}
func (StrandResult) event() {}
func (Escalation) event()   {}
func (Committed) event()    {}
func (ToolOutput) event()   {}
func (BlockSummary) event() {}
func (GoalChanged) event()  {}

// Published is what a subscriber receives.
type Published struct {
	Session SessionKey
	Event   Event
}
