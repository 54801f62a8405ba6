package provider

import (
	"context"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
)

// Identity names a model durably: who answers, and the provider's own name for the model. It is what a strand stores.
type Identity struct {
	Provider string
	ModelID  string
}

// String is "provider/model"; the model id may hold slashes of its own.
func (i Identity) String() string { return i.Provider + "/" + i.ModelID }

// Model is an identity with what a request needs to know about it.
type Model struct {
	Identity
	// API is the name of the dialect, as stored in the api field of an assistant message.
	API string
	// ContextWindow is the most tokens of request and answer together; 0 when unknown.
	ContextWindow int64
	// MaxOutput is the most tokens of one answer; 0 when unknown.
	MaxOutput int64
}

// Tool is one tool offered to the model.
type Tool struct {
	Name        string
	Description string
	// Schema is the JSON Schema of the arguments, an object.
	Schema jsonv.Value
}

// Request is one question to a model. A provider does not change it. Messages are values that do not change once they were sent: a dialect may
// remember how it encoded one.
type Request struct {
	Model  Model
	System string // empty for none
	// Messages is the projected context, oldest first: every tool call has its result, nothing is pending.
	Messages []message.Message
	// Tools may come in any order; a dialect sends them sorted by name, since providers cache by prefix.
	Tools []Tool
	// MaxOutput is the most tokens the answer may have; 0 leaves it to the provider, or to the model's own limit where the dialect demands one.
	MaxOutput int64
	// Thinking is how much the model is asked to reason; empty is [ThinkOff], which asks for nothing.
	Thinking Thinking
	// Fell is told of each request of this attempt that failed and was followed by one to another model, on the goroutine that called Stream; nil: nobody
	// wants to know.
	Fell func(Fallen)
}

// Fallen is a request that failed and was followed by another.
type Fallen struct {
	Model Identity
	Error *Error
}

// Provider asks a model. Implementations are safe for concurrent calls.
type Provider interface {
	// Stream sends the request and blocks until the attempt is over. sink receives deltas in order, on the calling goroutine; it must
	// not be nil and must not block for long, since the answer waits for it.
	//
	// The error is always an [*Error], and exactly one of the results is nil. Cancelling ctx ends the attempt with the class
	// [Cancelled]; the content received until then is in [Error.Partial].
	Stream(ctx context.Context, req Request, sink func(Delta)) (*message.Assistant, error)
}

// Fetcher is a [Provider] that can be asked for a response that it deferred.
type Fetcher interface {
	Provider
	// Fetch asks once. What is not there yet is a response with the stop reason
	// deferred and the same handle; the errors are those of Stream.
	Fetch(ctx context.Context, m Model, h message.DeferredHandle) (*message.Assistant, error)
}

// Delta is a piece of an answer in progress: a [TextDelta], a [ThinkingDelta] or a [ToolCallDelta].
type Delta interface{ delta() }

// TextDelta continues the text of a block.
type TextDelta struct {
	Block int // index of the block in the content of the message to come
	Text  string
}

// ThinkingDelta continues the reasoning of a block.
type ThinkingDelta struct {
	Block int
	Text  string
}

// ToolCallDelta continues a tool call. The first one of a block may lack the id or the name; a later one then brings it.
type ToolCallDelta struct {
	Block    int
	CallID   string // empty when this piece does not bring it
	Name     string // empty when this piece does not bring it
	Fragment string // the next part of the arguments' JSON text
}

func (TextDelta) delta()     {}
func (ThinkingDelta) delta() {}
func (ToolCallDelta) delta() {}
