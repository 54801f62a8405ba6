package tools

import (
	"context"

	"github.com/loom-run/loom/broker"
	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/policy"
)

// Replay says whether a call that a crash interrupted may be run again. The zero
// Replay is Never.
type Replay uint8

// The replay policies.
const (
	Never Replay = iota // it may have had effects: its outcome is told as unknown
	Safe                // it has none: it is run again under the same id
)

// Scheduling says what may run beside a call of the same response. The zero
// Scheduling is Exclusive.
type Scheduling uint8

// The schedulings.
const (
	Exclusive  Scheduling = iota // nothing else
	Concurrent                   // any other concurrent call
)

// Tool is one tool.
type Tool struct {
	Name        string
	Description string      // for the model
	Schema      jsonv.Value // JSON schema of the arguments, an object
	Class       policy.Class
	Replay      Replay
	Scheduling  Scheduling
	// Asks reads what a call asks a person, who decides about it whatever mode and rules
	// say; nil for a tool that asks nobody. The error is for the model.
	Asks func(arguments jsonv.Value) (Asking, error)
	// Run executes a call that was admitted. It must return soon after ctx ends.
	Run func(ctx context.Context, in Invocation) Outcome
}

// Definition is what a model is told of a tool.
type Definition struct {
	Name        string
	Description string
	Schema      jsonv.Value
}

// Progress is the live end of what a running call prints.
type Progress = jail.Progress

// Invocation is what a tool gets to see of a call.
type Invocation struct {
	Arguments jsonv.Value
	// Observe shows progress; it is never nil.
	Observe func(Progress)

	broker *broker.Broker
	permit *broker.Permit
}

// Exec runs a command on behalf of this call; see [broker.Broker.Exec].
func (in Invocation) Exec(ctx context.Context, c jail.Command) (jail.Exit, error) {
	return in.broker.Exec(ctx, in.permit, c, in.Observe)
}

// Outcome is what a call came to.
type Outcome struct {
	Content []message.ResultBlock // at least one block
	Details *jsonv.Value          // for programs, never for the model; nil for none
	IsError bool
	// Terminate ends the run after this batch. No built-in tool sets it.
	Terminate bool
}

// Result is the message that answers the call. The caller sets its time.
func (o Outcome) Result(callID, tool string) *message.ToolResult {
	return &message.ToolResult{ToolCallID: callID, ToolName: tool, Content: o.Content, Details: o.Details, IsError: o.IsError}
}

// said is an outcome of one text.
func said(text string) Outcome {
	return Outcome{Content: []message.ResultBlock{message.Text{Text: text}}}
}

// failed is an error outcome of one text.
func failed(text string) Outcome {
	o := said(text)
	o.IsError = true
	return o
}

func (o Outcome) with(details ...jsonv.Member) Outcome {
	v := jsonv.Obj(details...)
	o.Details = &v
	return o
}
