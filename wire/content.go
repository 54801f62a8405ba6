package wire

import (
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
)

// Bounds of texts in a frame, in bytes. The row keeps the whole; the frame tells
// its length.
const (
	// MaxShownText bounds the text of a prompt, of a tool result and of a summary.
	MaxShownText = 1 << 20
	// MaxTail bounds the window of a tool's output.
	MaxTail = 4096
	// MaxQueuedText bounds the text of a queued input in the level of the queue.
	MaxQueuedText = 512
	// MaxStructured bounds the JSON of a tool result's structured payload.
	MaxStructured = 256 << 10
)

// Segment names one content block of one assistant message. The entry id is
// reserved before the request is made, so deltas and the committed block share
// it, and a retried attempt has another.
type Segment struct {
	Entry id.EntryID `wire:"entryId"`
	Block int        `wire:"block"` // index into the content of the response
}

// Author is whom an input or a decision is attributed to. It carries no authority.
type Author struct {
	Kind  string `wire:"kind,word"` // human, peer, strand, or a word to come
	ID    string `wire:"id,word"`   // stable: the principal of a human, the session of a peer, strand:NAME
	Label string `wire:"label"`     // for a screen, as it was then
}

// UserMessage is a committed prompt.
type UserMessage struct {
	Entry  id.EntryID `wire:"entryId"`
	Text   string     `wire:"text,max=1M"`
	Bytes  int64      `wire:"bytes"` // the length of the whole text
	Images int        `wire:"images"`
	Author *Author    `wire:"author"` // absent: not attributed
}

// Check implements [shape.Checked].
func (b UserMessage) Check() (field, expected string) { return atLeastShown(b.Bytes, b.Text) }

// atLeastShown checks the length of a whole text against the part that is shown.
func atLeastShown(bytes int64, shown string) (field, expected string) {
	if bytes < int64(len(shown)) {
		return "bytes", "at least the length of text"
	}
	return "", ""
}

// TextDelta is a piece of text that the model is writing.
type TextDelta struct {
	Segment
	Offset int64  `wire:"offset"` // bytes of the segment before this piece; a jump tells a dropped frame
	Text   string `wire:"text"`
}

// TextEnd is the authoritative text of a segment, as committed. It may differ
// from what the deltas said.
type TextEnd struct {
	Segment
	Content string `wire:"content"`
}

// ReasoningDelta is a piece of reasoning that the model is writing.
type ReasoningDelta struct {
	Segment
	Offset int64  `wire:"offset"`
	Text   string `wire:"text"`
}

// ReasoningEnd is the committed reasoning of a segment; redacted reasoning has
// no readable content.
type ReasoningEnd struct {
	Segment
	Content  string `wire:"content"`
	Redacted bool   `wire:"redacted,opt"`
}

// ToolCallDelta is a piece of the arguments of a call that the model is writing.
// They are no JSON before the call is committed.
type ToolCallDelta struct {
	Segment
	CallID   string `wire:"toolCallId"` // empty while the provider has not named it
	Name     string `wire:"name"`       // as far as it is known
	Offset   int64  `wire:"offset"`
	Fragment string `wire:"fragment"`
}

// ToolCall is a committed request of the model to run a tool: the authoritative
// end of its deltas.
type ToolCall struct {
	Segment
	CallID    string      `wire:"toolCallId"`
	Name      string      `wire:"name"`
	Arguments jsonv.Value `wire:"arguments"`
}

// CompactionBoundary is a committed checkpoint: what stands before it is not read
// into the model's context any more.
type CompactionBoundary struct {
	Entry        id.EntryID               `wire:"entryId"`
	Trigger      *words.CompactionTrigger `wire:"trigger"` // absent when not recorded
	Summary      string                   `wire:"summary,max=1M"`
	Bytes        int64                    `wire:"bytes"`        // the length of the whole summary
	TokensBefore *int64                   `wire:"tokensBefore"` // of the context that it replaced
	TokensAfter  *int64                   `wire:"tokensAfter"`
	Kept         int                      `wire:"kept"` // messages that stay after the summary
	FromHook     bool                     `wire:"fromHook,opt"`
	Usage        *Usage                   `wire:"usage"` // of making the summary; absent when no model made it
}

// Check implements [shape.Checked].
func (b CompactionBoundary) Check() (field, expected string) {
	return atLeastShown(b.Bytes, b.Summary)
}

// BranchSummary is a committed description of a branch that was left.
type BranchSummary struct {
	Entry    id.EntryID `wire:"entryId"`
	From     id.EntryID `wire:"fromEntry,opt"` // the leaf of the branch that was left
	Summary  string     `wire:"summary,max=1M"`
	Bytes    int64      `wire:"bytes"`
	FromHook bool       `wire:"fromHook,opt"`
	Usage    *Usage     `wire:"usage"`
}

// Check implements [shape.Checked].
func (b BranchSummary) Check() (field, expected string) { return atLeastShown(b.Bytes, b.Summary) }
