// Package message is the conversation's vocabulary: who said what, in which
// blocks, and how a response ended.
//
// # Purpose
//
// One set of types and one total codec for messages, shared by the durable
// rows, the model context, the providers and the wire.
//
// # Key types
//
// [Message] is sealed: [User], [Assistant], [ToolResult], [Custom]. Blocks are
// [Text], [Image], [Thinking], [ToolCall]; the interfaces [UserBlock],
// [AssistantBlock] and [ResultBlock] say which block may stand where. [Origin]
// attributes a user message to whoever sent it.
//
// # Relationships
//
// Imports core/corrupt, core/jsonv, core/usage.
//
// # Traffic
//
// None.
//
// # Invariants
//
// Decoding is total. Unknown roles, blocks and stop reasons are corruption. A
// tool call's arguments are always a JSON object, in a row as in memory; text of
// the model's that was not one is carried by [MalformedArguments]. Signatures are opaque and replayed
// unchanged.
package message

import (
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
)

// Message is one of *User, *Assistant, *ToolResult, *Custom.
type Message interface{ message() }

// User is a turn of a person, or of whoever its origin names.
type User struct {
	Content   []UserBlock
	Timestamp int64   // Unix ms
	Origin    *Origin // nil: not attributed
}

// Assistant is one model response.
type Assistant struct {
	Content              []AssistantBlock // in the provider's order
	API, Provider, Model string
	ResponseModel        *string // as the provider named it, when it differs
	ResponseID           *string
	Diagnostics          *jsonv.Value
	Usage                usage.Usage
	StopReason           StopReason
	Deferred             *DeferredHandle // there when StopReason is Deferred
	ErrorMessage         *string
	RawStopReason        *string
	EndTurn              *bool
	Timestamp            int64 // Unix ms
}

// ToolResult answers one tool call.
type ToolResult struct {
	ToolCallID, ToolName string
	Content              []ResultBlock
	Details              *jsonv.Value // for programs; never sent to the model
	Usage                *usage.Usage // what running the tool consumed
	AddedToolNames       []string     // nil when absent
	IsError              bool
	Timestamp            int64 // Unix ms
}

// Custom carries an application's own message.
type Custom struct {
	Schema  string
	Payload jsonv.Value
}

func (*User) message()       {}
func (*Assistant) message()  {}
func (*ToolResult) message() {}
func (*Custom) message()     {}

// Block is any content block.
type Block interface{ block() }

// UserBlock is Text or Image.
type UserBlock interface {
	Block
	userBlock()
}

// AssistantBlock is Text, Thinking or ToolCall.
type AssistantBlock interface {
	Block
	assistantBlock()
}

// ResultBlock is Text or Image.
type ResultBlock interface {
	Block
	resultBlock()
}

// Text is prose.
type Text struct {
	Text      string
	Signature *string
}

// Image is a picture; Data is base64.
type Image struct{ Data, MimeType string }

// Thinking is a model's reasoning.
type Thinking struct {
	Thinking  string
	Signature *string
	Redacted  bool
}

// ToolCall asks for a tool to be run. Arguments is an object; the zero Value is
// written as the empty one.
type ToolCall struct {
	ID, Name         string
	Arguments        jsonv.Value
	ThoughtSignature *string
	Namespace        *string
}

func (Text) block()     {}
func (Image) block()    {}
func (Thinking) block() {}
func (ToolCall) block() {}

func (Text) userBlock()  {}
func (Image) userBlock() {}

func (Text) assistantBlock()     {}
func (Thinking) assistantBlock() {}
func (ToolCall) assistantBlock() {}

func (Text) resultBlock()  {}
func (Image) resultBlock() {}

// StopReason says how a response ended.
type StopReason string

// The closed set. Pending is what a stream has before it ends and is never
// written; Deferred comes with a handle.
const (
	Pending  StopReason = "pending"
	Stop     StopReason = "stop"
	Length   StopReason = "length"
	ToolUse  StopReason = "toolUse"
	Error    StopReason = "error"
	Aborted  StopReason = "aborted"
	Deferred StopReason = "deferred"
)

// ParseStopReason reads a stored stop reason.
func ParseStopReason(s string) (StopReason, bool) {
	switch r := StopReason(s); r {
	case Pending, Stop, Length, ToolUse, Error, Aborted, Deferred:
		return r, true
	}
	return "", false
}

// DeferredHandle names a response that the provider will finish later.
type DeferredHandle struct {
	Provider, ModelID, API, ID string
	ExpiresAt                  *int64 // Unix ms
	PollAfterMs                *int64 // from the response on
	Data                       *jsonv.Value
}

// ToolCalls returns the calls of a response with their index in Content.
func (a *Assistant) ToolCalls() (calls []ToolCall, sourceIndex []int) {
	for i, b := range a.Content {
		if c, ok := b.(ToolCall); ok {
			calls, sourceIndex = append(calls, c), append(sourceIndex, i)
		}
	}
	return calls, sourceIndex
}

// TextOf joins the text blocks of a message with newlines; empty ones at the
// start add none.
func TextOf[B Block](blocks []B) string {
	var out strings.Builder
	for _, b := range blocks {
		if t, ok := any(b).(Text); ok {
			if out.Len() > 0 {
				out.WriteByte('\n')
			}
			out.WriteString(t.Text)
		}
	}
	return out.String()
}
