package wire

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire/shape"
)

// ToolDisclosure says what a committed call is, from the harness's own knowledge
// of the tool: what a person wants to know before its result is there.
type ToolDisclosure struct {
	CallID string                `wire:"toolCallId"`
	Name   string                `wire:"name"`
	Title  *string               `wire:"title"`
	Class  *words.ToolClass      `wire:"class"`  // the worst that it can do; absent when not known, which is not harmless
	Target *string               `wire:"target"` // the path or address that it works on
	Mount  *words.MountCondition `wire:"mount"`
}

// ToolProgress is the window at the end of a running tool's output. Each frame
// holds the whole window; it replaces the one before.
type ToolProgress struct {
	CallID     string `wire:"toolCallId"`
	Stream     string `wire:"stream"`      // stdout, stderr or a tool's own word
	Tail       string `wire:"tail,max=4K"` // the newest output
	TotalBytes int64  `wire:"totalBytes"`  // of output so far
	ElapsedMs  *int64 `wire:"elapsedMs"`
}

// TextBlock is a text of a tool's result.
type TextBlock struct {
	Text  string `wire:"text,max=1M"`
	Bytes int64  `wire:"bytes"` // the length of the whole text
}

// Check implements [shape.Checked].
func (b TextBlock) Check() (field, expected string) { return atLeastShown(b.Bytes, b.Text) }

// Gate is how a call came to be allowed or refused. Words are verbatim.
type Gate struct {
	Disposition words.Disposition `wire:"disposition"`
	Settlement  *words.Settlement `wire:"settlement"` // absent: nobody was asked
	DeniedBy    *words.DeniedBy   `wire:"deniedBy"`
	Origin      *words.AskOrigin  `wire:"origin"`  // what made it a question
	Decider     *Author           `wire:"decider"` // who answered it
}

// GateRecord is the gate of one call of a run.
type GateRecord struct {
	CallID string `wire:"toolCallId"`
	Gate
}

// ToolResult is the committed result of a call. Every call has exactly one.
type ToolResult struct {
	Entry   id.EntryID  `wire:"entryId"`
	CallID  string      `wire:"toolCallId"`
	Name    string      `wire:"name"`
	Text    []TextBlock `wire:"text"`
	Images  int         `wire:"images"`
	IsError bool        `wire:"isError"`
	Gate    *Gate       `wire:"gate"` // absent: nothing is recorded
	// Structured is what the tool says to programs. It is absent when there is none,
	// and when it is larger than MaxStructured: then StructuredBytes tells its size.
	Structured      *jsonv.Value `wire:"structured"`
	StructuredBytes int64        `wire:"structuredBytes,opt"`
}

// Roster is what a model is offered, in mount order. It is whole or it is nothing:
// a row that cannot be read, or a count that does not agree, makes all of it
// unreadable, since a short roster says that the missing tools are not there.
type Roster struct {
	Count  int       `wire:"count"`
	Digest string    `wire:"digest,word"` // of the rows, see [RosterOf]
	Tools  []ToolRow `wire:"tools"`
}

// Check implements [shape.Checked].
func (r Roster) Check() (field, expected string) {
	if r.Count != len(r.Tools) {
		return "count", "the number of tools"
	}
	return "", ""
}

// ToolRow is one tool that is offered.
type ToolRow struct {
	Name  string               `wire:"name,word"`
	Mount words.MountCondition `wire:"mount,word"`   // the one condition that mounted it
	Face  *ToolFace            `wire:"face,lenient"` // absent when not stated or unreadable: a face is no identity
}

// ToolFace is how a tool is shown. What is not stated is absent and never the
// harmless answer.
type ToolFace struct {
	Title     *string          `wire:"title"`
	Class     *words.ToolClass `wire:"class"`
	PathField *string          `wire:"pathField"` // the argument that names its target
	Exclusive *bool            `wire:"exclusive"` // whether it runs alone
	Repeats   *bool            `wire:"repeats"`   // whether it may be run again after a crash
}

// RosterOf makes a roster and its digest.
func RosterOf(tools []ToolRow) Roster {
	return Roster{Count: len(tools), Digest: digestOf(tools), Tools: tools}
}

// DigestAgrees reports whether the digest is that of the rows. One that is not does
// not make the roster wrong: it stands, and only what refers to it by its digest
// cannot be used.
func (r Roster) DigestAgrees() bool { return r.Digest == digestOf(r.Tools) }

func digestOf(tools []ToolRow) string {
	var w jsonv.Writer
	shape.Append(&w, tools)
	sum := sha256.Sum256(w.Bytes())
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Hands says which tools for files and commands a run was given. No such tool is a
// fact too, and another one than a manifest that does not say.
type Hands struct {
	Tools []string `wire:"tools"`
}

// MCPServer is what became of one external tool server that a run asked for.
type MCPServer struct {
	Name       string            `wire:"name,word"`
	Delivery   words.MCPDelivery `wire:"delivery,word"`
	HTTPStatus *int64            `wire:"httpStatus,min=100"`
	Reason     *string           `wire:"reason"`
	Tools      *int64            `wire:"tools"` // how many it brought
}

// RosterChange is the level of a roster that changed while a run is on. The roster
// replaces the one before, whatever the summary says.
type RosterChange struct {
	Roster  Roster         `wire:"toolRoster"`
	Summary *RosterSummary `wire:"summary,lenient"`
}

// RosterSummary says what is new against the roster of BaseDigest. To a client that
// holds another roster it says nothing.
type RosterSummary struct {
	BaseDigest string   `wire:"baseDigest,word"`
	Added      []string `wire:"added"`
	Removed    []string `wire:"removed"`
}
