// Package projection turns a branch of the tree into the model's context.
//
// # Purpose
//
// The same pure pipeline serves the engine before each request, a client that
// replays a session, and tests.
//
// # Key types
//
// [Policy] (projectors for custom entries and one transform), [CustomView];
// [Project] and its steps: [Messages], and [Heal], which answers open calls.
//
// # Relationships
//
// Imports core only, so that clients and wasm share it.
//
// # Traffic
//
// None: reads are the caller's, nothing is written.
//
// # Invariants
//
// The context starts at the newest compaction. Responses that ended in error,
// were aborted or deferred never enter it; a custom entry enters only through a
// registered projector. Every tool call in it has a result: one that has none
// gets a synthetic error result that says its outcome is unknown, never stored.
// On a settled branch that grows, the earlier context is a prefix of the later
// one, except across a compaction.
package projection

import (
	"maps"
	"slices"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
)

// CustomView is what a projector sees of a custom entry.
type CustomView struct {
	ID        id.EntryID
	Type      string
	Data      *jsonv.Value // nil when absent, which a null is not
	Timestamp int64        // Unix ms
}

// Projector maps a custom entry to a message, or to nil for none. It must be pure.
type Projector func(CustomView) message.Message

// Policy says how a branch is projected. The zero Policy shows no custom entry
// and transforms nothing.
type Policy struct {
	projectors map[string]Projector
	transform  func([]message.Message) []message.Message
}

// With returns a policy that projects custom entries of a type; registering a
// type again replaces its projector.
func (p Policy) With(customType string, f Projector) Policy {
	next := maps.Clone(p.projectors)
	if next == nil {
		next = make(map[string]Projector)
	}
	next[customType] = f
	p.projectors = next
	return p
}

// WithTransform returns a policy whose transform is applied last, to each
// request's context. Its result is never stored. It may change the list that it is
// given, but not the messages, and must keep the conversation well formed.
func (p Policy) WithTransform(f func([]message.Message) []message.Message) Policy {
	p.transform = f
	return p
}

// CustomTypes lists the types that enter context.
func (p Policy) CustomTypes() map[string]bool {
	types := make(map[string]bool, len(p.projectors))
	for t := range p.projectors {
		types[t] = true
	}
	return types
}

// Project maps a branch, newest entry first and cut at the newest compaction, to
// messages, oldest first.
func Project(newestFirst []entry.Entry, p Policy) []message.Message {
	out := Heal(Messages(newestFirst, p))
	if p.transform != nil {
		out = p.transform(out)
	}
	return out
}

// Messages maps a branch to messages, as [Project] does, before open calls are
// answered and the context is transformed.
func Messages(newestFirst []entry.Entry, p Policy) []message.Message {
	out := make([]message.Message, 0, len(newestFirst))
	for _, e := range slices.Backward(newestFirst) {
		out = p.appendEntry(out, e)
	}
	return out
}

func (p Policy) appendEntry(out []message.Message, e entry.Entry) []message.Message {
	switch b := e.Body.(type) {
	case entry.Message:
		if a, ok := b.Message.(*message.Assistant); ok && !kept(a.StopReason) {
			return out
		}
		return append(out, b.Message)
	case entry.Compaction:
		return append(append(out, summary(b.Summary, e.Timestamp)), b.RetainedTail...)
	case entry.BranchSummary:
		return append(out, summary(b.Summary, e.Timestamp))
	case entry.Custom:
		if f := p.projectors[b.Type]; f != nil {
			if m := f(CustomView{e.ID, b.Type, b.Data, e.Timestamp}); m != nil {
				return append(out, m)
			}
		}
	}
	return out
}

// kept reports whether a response belongs to the conversation. A response cut
// at its output limit is genuine.
func kept(r message.StopReason) bool {
	switch r {
	case message.Error, message.Aborted, message.Deferred, message.Pending:
		return false
	case message.Stop, message.Length, message.ToolUse:
	}
	return true
}

func summary(text string, ts int64) message.Message {
	return &message.User{Content: []message.UserBlock{message.Text{Text: text}}, Timestamp: ts}
}

// Heal answers every tool call that has no result later in the list, directly
// after its response. It returns the list as it is when every call has one, which
// is so in a settled history; otherwise a new list.
func Heal(list []message.Message) []message.Message {
	answered := make(map[string]bool, len(list)/2)
	missing := make(map[int][]message.ToolCall)
	for i := len(list) - 1; i >= 0; i-- {
		switch m := list[i].(type) {
		case *message.ToolResult:
			answered[m.ToolCallID] = true
		case *message.Assistant:
			for _, b := range m.Content {
				if c, ok := b.(message.ToolCall); ok && !answered[c.ID] {
					missing[i] = append(missing[i], c)
				}
			}
		case *message.User, *message.Custom: // neither asks nor answers
		}
	}
	if len(missing) == 0 {
		return list
	}
	out := make([]message.Message, 0, len(list)+len(missing))
	for i, m := range list {
		out = append(out, m)
		if a, ok := m.(*message.Assistant); ok {
			for _, c := range missing[i] {
				out = append(out, unknownOutcome(c, a.Timestamp))
			}
		}
	}
	return out
}

func unknownOutcome(c message.ToolCall, ts int64) message.Message {
	return &message.ToolResult{
		ToolCallID: c.ID, ToolName: c.Name, IsError: true, Timestamp: ts,
		Content: []message.ResultBlock{message.Text{Text: "The call " + c.ID + " of " + c.Name +
			" has no result on this branch: a fork or a navigation severed it. Whether it ran, and what it produced, is unknown."}},
	}
}
