package wire

import (
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
)

// ModelRef names a model at a provider.
type ModelRef struct {
	Provider string
	ModelID  string
}

// String returns provider/model.
func (m ModelRef) String() string { return m.Provider + "/" + m.ModelID }

// Segment names one content block of one assistant message. The entry id is
// reserved before the request is made, so deltas and the committed block share
// it, and a retried attempt has another.
type Segment struct {
	Entry id.EntryID
	Block int
}

// RunStart is the level of a running operation: what it runs with.
type RunStart struct {
	Model ModelRef
	Mode  words.PermissionMode // verbatim; a newer engine may send a newer word
	Cwd   string
	Tools int // how many tools are offered to the model
}

// UserMessage is a committed prompt.
type UserMessage struct {
	Entry  id.EntryID
	Text   string // at most MaxShownText bytes
	Bytes  int64  // the length of the whole text
	Images int
}

// TextDelta is a piece of text that the model is writing.
type TextDelta struct {
	Segment Segment
	Offset  int64 // bytes of the segment before this piece; a jump tells a dropped frame
	Text    string
}

// TextEnd is the authoritative text of a segment, as committed. It may differ
// from what the deltas said.
type TextEnd struct {
	Segment Segment
	Content string
}

// ReasoningDelta is a piece of reasoning that the model is writing.
type ReasoningDelta struct {
	Segment Segment
	Offset  int64
	Text    string
}

// ReasoningEnd is the committed reasoning of a segment; redacted reasoning has
// no readable content.
type ReasoningEnd struct {
	Segment  Segment
	Content  string
	Redacted bool
}

// ToolCall is a committed request of the model to run a tool.
type ToolCall struct {
	Segment   Segment
	CallID    string
	Name      string
	Arguments jsonv.Value
}

// ToolProgress is the window at the end of a running tool's output. Each frame
// holds the whole window; it replaces the one before.
type ToolProgress struct {
	CallID     string
	Stream     string // stdout, stderr or a tool's own word
	Tail       string // at most MaxTail bytes
	TotalBytes int64  // of output so far
}

// TextBlock is a text of a tool's result.
type TextBlock struct {
	Text  string // at most MaxShownText bytes
	Bytes int64  // the length of the whole text
}

// Gate is how a call came to be allowed or refused. Words are verbatim.
type Gate struct {
	Disposition words.Disposition
	Settlement  *words.Settlement
	DeniedBy    *words.DeniedBy
	Origin      *words.AskOrigin // who made it a question
}

// ToolResult is the committed result of a call. Every call has exactly one.
type ToolResult struct {
	Entry   id.EntryID
	CallID  string
	Name    string
	Text    []TextBlock
	Images  int
	IsError bool
	Gate    *Gate // nil when the result has no record
}

// TurnEnd closes one assistant message.
type TurnEnd struct {
	Entry        id.EntryID
	Usage        Usage
	StopReason   string // verbatim
	Model        ModelRef
	ErrorMessage *string
}

// Retry says that an attempt failed and the next one waits.
type Retry struct {
	Attempt int64 // the attempt that failed, from 1
	UntilMs int64 // Unix ms of the next one
	Error   string
}

// RunEnd closes an operation.
type RunEnd struct {
	Cause Cause
	Usage Usage // all requests of the run
}

// RunStopped is the level of a run that cannot go on in the process that holds
// it, and that has not ended: what is committed stays, and it can be resumed.
type RunStopped struct {
	Code    Code   // verbatim
	Message string // one sentence
}

// Fact is one named text of a notice.
type Fact struct{ Name, Text string }

// Notice is a fact outside the conversation.
type Notice struct {
	Code     words.NoticeCode
	Audience words.Audience
	Facts    []Fact
}

// Kind names the body.
func (RunStart) Kind() Kind       { return KindRunStart }
func (UserMessage) Kind() Kind    { return KindUserMessage }
func (TextDelta) Kind() Kind      { return KindTextDelta }
func (TextEnd) Kind() Kind        { return KindTextEnd }
func (ReasoningDelta) Kind() Kind { return KindReasoningDelta }
func (ReasoningEnd) Kind() Kind   { return KindReasoningEnd }
func (ToolCall) Kind() Kind       { return KindToolCall }
func (ToolProgress) Kind() Kind   { return KindToolProgress }
func (ToolResult) Kind() Kind     { return KindToolResult }
func (TurnEnd) Kind() Kind        { return KindTurnEnd }
func (Retry) Kind() Kind          { return KindRetry }
func (RunEnd) Kind() Kind         { return KindRunEnd }
func (RunStopped) Kind() Kind     { return KindRunStopped }
func (Notice) Kind() Kind         { return KindNotice }
