package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/loom-run/loom/broker"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/tools"
)

// toolbox joins tools and the broker for the engine: nothing runs without a
// permit, and each permit is settled once.
type toolbox struct {
	broker   *broker.Broker
	tools    *tools.Registry
	session  *session.View
	attended func() bool                                    // somebody who can decide is, or will be, there
	compile  func(text string) (policy.Rule, *policy.Issue) // of a rule of the person that allows; nil: none can be written
	window   int64                                          // how long an answer is waited for, in ms; 0: for ever
}

var _ engine.Toolbox = (*toolbox)(nil)

func (t *toolbox) names() []string {
	var names []string
	for _, d := range t.tools.Definitions() {
		names = append(names, d.Name)
	}
	return names
}

// Offer implements engine.Toolbox.
func (t *toolbox) Offer(names []string) []provider.Tool {
	var offered []provider.Tool
	for _, d := range t.tools.Definitions() {
		if slices.Contains(names, d.Name) {
			offered = append(offered, provider.Tool{Name: d.Name, Description: d.Description, Schema: d.Schema})
		}
	}
	return offered
}

// Clear implements engine.Toolbox.
func (t *toolbox) Clear(c engine.Call) engine.Verdict {
	tool, ok := t.tools.Lookup(c.Call.Name)
	if !ok {
		return engine.Denied{Result: refusal(c.Call, t.tools.Unknown(c.Call.Name))}
	}
	if !slices.Contains(c.Offered, tool.Name) {
		return engine.Denied{Result: refusal(c.Call, fmt.Sprintf("the tool %s is not one of yours; the call was not executed", tool.Name))}
	}
	at := broker.Coordinates{Op: c.Op, Strand: c.Strand, Step: c.Step, SourceIndex: c.SourceIndex, CallID: c.Call.ID}
	asks, what, err := asksOf(tool, c.Arguments)
	if err != nil {
		return engine.Denied{Result: refusal(c.Call, err.Error())}
	}
	call := broker.Call{Asks: asks, Coordinates: at, Tool: tool.Name, Class: tool.Class, Subject: subjectOf(tool), Arguments: c.Arguments}
	permit, err := t.clear(c, call)
	if err == nil {
		return engine.Granted{Clearance: &clearance{t, tool, permit, c, at}}
	}
	if refused, ok := errors.AsType[*broker.Refusal](err); ok {
		return denied(c.Call, refused.Sentence, refused.By)
	}
	if asked, ok := errors.AsType[*broker.Question](err); ok {
		return t.ask(c, call, asked.Decision, what)
	}
	if errors.Is(err, broker.ErrUnapproved) {
		return denied(c.Call, "The arguments of this call are not those that were approved; it was not executed.", words.DeniedByPolicy)
	}
	return engine.Denied{Result: refusal(c.Call, "the call could not be cleared and was not executed: "+err.Error())}
}

// Abort implements engine.Toolbox.
func (t *toolbox) Abort(op id.OpID) { t.broker.Abort(op) }

func refusal(call message.ToolCall, text string) *message.ToolResult {
	return &message.ToolResult{
		ToolCallID: call.ID, ToolName: call.Name, IsError: true,
		Content: []message.ResultBlock{message.Text{Text: text}},
	}
}

type clearance struct {
	t      *toolbox
	tool   tools.Tool
	permit *broker.Permit
	call   engine.Call
	at     broker.Coordinates
}

func (c *clearance) Replay() machine.Replay {
	if c.tool.Replay == tools.Safe {
		return machine.ReplaySafe
	}
	return machine.ReplayNever
}

func (c *clearance) Exclusive() bool { return c.tool.Scheduling == tools.Exclusive }

func (c *clearance) Run(ctx context.Context, progress func(engine.Output)) (*message.ToolResult, bool) {
	out := c.t.tools.Run(ctx, tools.Call{
		Permit: c.permit, Coordinates: c.at, Tool: c.tool.Name, Arguments: c.call.Arguments,
		Observe: func(p tools.Progress) {
			if p.Stdout.Total > 0 {
				progress(engine.Output{Stream: "stdout", Tail: p.Stdout.Text, TotalBytes: p.Stdout.Total})
			}
			if p.Stderr.Total > 0 {
				progress(engine.Output{Stream: "stderr", Tail: p.Stderr.Text, TotalBytes: p.Stderr.Total})
			}
		},
	})
	if err := c.t.broker.Settle(c.permit); err != nil {
		// The result stands: the call ran. A permit that cannot be settled is a
		// defect of the protocol between tools and broker.
		out.IsError = true
		out.Content = append(out.Content, message.Text{Text: "after this call: " + err.Error()})
	}
	return out.Result(c.call.Call.ID, c.tool.Name), out.Terminate
}

// Release implements engine.Clearance: nobody ran the call.
func (c *clearance) Release() { _ = c.t.broker.Settle(c.permit) }
