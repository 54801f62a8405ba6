package tools

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/loom-run/loom/core/board"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/policy"
)

//go:embed agent_spawn.md
var spawnDescription string

//go:embed agent_wait.md
var waitDescription string

//go:embed agent_send.md
var sendDescription string

//go:embed agent_note.md
var noteDescription string

//go:embed agent_notes.md
var notesDescription string

//go:embed agent_roster.md
var rosterDescription string

// Agency is what the tools of agents stand on. Errors for models are
// [*agency.Refusal].
type Agency interface {
	Spawn(c agency.Caller, callID string, q agency.SpawnRequest) (agency.Handle, error)
	Wait(ctx context.Context, c agency.Caller, handles []agency.Handle, within time.Duration) ([]agency.Report, error)
	Send(c agency.Caller, to, text string) (agency.Sent, error)
	PutNote(strand, name string, v jsonv.Value, seen *int64) (int64, error)
	Notes(reader, of string) ([]agency.Note, error)
	Roster(strand string) ([]agency.Member, error)
	Board(strand string) (board.Board, error)
	SetBoard(strand string, b board.Board) error
}

// Limits of what agents say.
const (
	maxTask       = 64 << 10
	maxReportText = 16 << 10
	maxNoteShown  = 1 << 10
	maxWaits      = 16
)

// agents are the tools over an agency. All may be replayed: a call that is made
// again finds what it did.
type agents struct {
	agency func() Agency
}

func (g agents) all() []Tool {
	tool := func(name, description, arguments string, run func(context.Context, Invocation) Outcome) Tool {
		return Tool{Name: name, Description: description, Class: policy.Read, Replay: Safe, Scheduling: Concurrent, Schema: schema(arguments), Run: run}
	}
	return []Tool{
		tool("agent_spawn", spawnDescription, `{"type":"object","properties":{
			"purpose":{"type":"string","description":"What the agent is for, in a few words."},
			"task":{"type":"string","description":"The whole task, with everything that the agent needs to know."},
			"tools":{"type":"array","items":{"type":"string"},"description":"Names of your tools that it gets. Default: all."},
			"context":{"type":"string","enum":["fresh","my_conversation"],"description":"What it knows of your conversation. Default: fresh, nothing."},
			"detached":{"type":"boolean","description":"Whether it goes on when your run ends. Default: false."},
			"budget_ms":{"type":"integer","minimum":1,"maximum":600000,"description":"How long it may take. Default: 600000."},
			"result_schema":{"type":"object","description":"The shape of its result, a flat object."}},
			"required":["purpose","task"],"additionalProperties":false}`, g.spawn),
		tool("agent_wait", waitDescription, `{"type":"object","properties":{
			"handles":{"type":"array","items":{"type":"string"},"description":"Handles of the agents to wait for."},
			"timeout_ms":{"type":"integer","minimum":0,"maximum":30000,"description":"How long to wait. Default: 30000."}},
			"required":["handles"],"additionalProperties":false}`, g.wait),
		tool("agent_send", sendDescription, `{"type":"object","properties":{
			"to":{"type":"string","description":"parent, or the strand or handle of an agent that you started."},
			"message":{"type":"string","description":"What to say."}},
			"required":["to","message"],"additionalProperties":false}`, g.send),
		tool("agent_note", noteDescription, `{"type":"object","properties":{
			"name":{"type":"string","description":"1 to 64 of a-z, A-Z, 0-9, '-', '_' and '.'."},
			"value":{"description":"Any value, at most 16 KiB."},
			"if_seq":{"type":"integer","minimum":0,"description":"Write only if the note was last changed at this seq."}},
			"required":["name","value"],"additionalProperties":false}`, g.note),
		tool("agent_notes", notesDescription, `{"type":"object","properties":{
			"of":{"type":"string","description":"Strand or handle of the agent, or parent. Default: you."},
			"name":{"type":"string","description":"One note, whole."}},
			"additionalProperties":false}`, g.notes),
		tool("agent_roster", rosterDescription, `{"type":"object","properties":{},"additionalProperties":false}`, g.roster),
		tool("todo", todoDescription, todoArguments, g.todo),
	}
}

// caller says where a call stands.
func (in Invocation) caller() agency.Caller {
	at := in.permit.Coordinates()
	return agency.Caller{Strand: at.Strand, Op: at.Op, Step: at.Step, SourceIndex: at.SourceIndex}
}

// declined words an error of the agency.
func declined(err error) Outcome {
	if r, ok := errors.AsType[*agency.Refusal](err); ok {
		return failed(r.Sentence)
	}
	return failed("this could not be done: " + err.Error())
}

func (g agents) spawn(_ context.Context, in Invocation) Outcome {
	a := argumentsOf(in.Arguments, "purpose", "task", "tools", "context", "detached", "budget_ms", "result_schema")
	q := agency.SpawnRequest{
		Purpose: board.Clip(a.str("purpose"), 160), Brief: a.str("task"), Tools: a.optStrs("tools"), Detached: a.optBool("detached", false),
		BudgetMs: a.optInt("budget_ms", 0, 1, 600_000),
	}
	switch context := a.optStr("context", "fresh"); context {
	case "fresh":
	case "my_conversation":
		q.Conversation = true
	default:
		a.fail("\"context\" is %q; it is fresh or my_conversation", clip(context, 40))
	}
	if strings.TrimSpace(q.Brief) == "" || len(q.Brief) > maxTask {
		a.fail("\"task\" has %d bytes; it has 1 to %d", len(q.Brief), maxTask)
	}
	if out, bad := a.err(); bad {
		return out
	}
	if shape, ok := a.get("result_schema"); ok {
		c, err := agency.ParseContract(shape)
		if err != nil {
			return failed("invalid \"result_schema\": " + err.Error() + "; nothing was started")
		}
		q.Contract = &c
	}
	h, err := g.agency().Spawn(in.caller(), in.permit.Coordinates().CallID, q)
	if err != nil {
		return declined(err)
	}
	return said("started "+h.String()).with(jsonv.F("handle", jsonv.Str(h.String())), jsonv.F("strand", jsonv.Str(h.Strand)))
}

func (g agents) wait(ctx context.Context, in Invocation) Outcome {
	a := argumentsOf(in.Arguments, "handles", "timeout_ms")
	texts := a.optStrs("handles")
	within := a.optInt("timeout_ms", 30_000, 0, 30_000)
	if len(texts) == 0 || len(texts) > maxWaits {
		a.fail("\"handles\" names %d agents; it names 1 to %d", len(texts), maxWaits)
	}
	if out, bad := a.err(); bad {
		return out
	}
	handles := make([]agency.Handle, len(texts))
	for i, text := range texts {
		h, err := agency.ParseHandle(text)
		if err != nil {
			return declined(err)
		}
		handles[i] = h
	}
	reports, err := g.agency().Wait(ctx, in.caller(), handles, time.Duration(within)*time.Millisecond)
	if err != nil {
		return declined(err)
	}
	var b strings.Builder
	for i, r := range reports {
		if i > 0 {
			b.WriteByte('\n')
		}
		writeReport(&b, r)
	}
	return said(b.String())
}

func writeReport(b *strings.Builder, r agency.Report) {
	fmt.Fprintf(b, "%s: %s", r.Handle, r.Status)
	if r.Outcome != "" {
		fmt.Fprintf(b, ", %s", r.Outcome)
	}
	if r.Ended != "" {
		fmt.Fprintf(b, " (ended by the host: %s)", r.Ended)
	}
	b.WriteByte('\n')
	if r.Failure != "" {
		fmt.Fprintf(b, "failure: %s\n", clip(r.Failure, maxNoteShown))
	}
	if r.Text != "" {
		fmt.Fprintf(b, "%s\n", clip(r.Text, maxReportText))
	}
	switch r.Standing {
	case agency.Given:
		fmt.Fprintf(b, "result: %s\n", r.Result)
	case agency.Absent:
		b.WriteString("result: absent, it recorded none\n")
	case agency.Unusable:
		fmt.Fprintf(b, "result: unusable, %s\n", r.Why)
	}
	if len(r.Notes) > 0 {
		names := make([]string, len(r.Notes))
		for i, n := range r.Notes {
			names[i] = n.Name
		}
		fmt.Fprintf(b, "notes: %s\n", strings.Join(names, ", "))
	}
}

// strandOf reads whom an argument means: parent, a handle, or a strand.
func (g agents) strandOf(c agency.Caller, text string) (string, error) {
	if h, err := agency.ParseHandle(text); err == nil {
		return h.Strand, nil
	}
	if text != "parent" {
		return text, nil
	}
	members, err := g.agency().Roster(c.Strand)
	if err != nil {
		return "", err
	}
	for _, m := range members {
		if m.Relation == "parent" {
			return m.Strand, nil
		}
	}
	return "", &agency.Refusal{Sentence: "no agent started you, so there is no parent"}
}

func (g agents) send(_ context.Context, in Invocation) Outcome {
	a := argumentsOf(in.Arguments, "to", "message")
	to, text := a.str("to"), a.str("message")
	if strings.TrimSpace(text) == "" || len(text) > maxTask {
		a.fail("\"message\" has %d bytes; it has 1 to %d", len(text), maxTask)
	}
	if out, bad := a.err(); bad {
		return out
	}
	strand, err := g.strandOf(in.caller(), to)
	if err != nil {
		return declined(err)
	}
	s, err := g.agency().Send(in.caller(), strand, text)
	if err != nil {
		return declined(err)
	}
	h := agency.Handle{Strand: s.To, Op: s.Op}
	how := "it reads the message before its next step"
	if s.Woke {
		how = "it works again"
	}
	return said("sent; " + how + ": " + h.String()).with(jsonv.F("handle", jsonv.Str(h.String())))
}

func (g agents) note(_ context.Context, in Invocation) Outcome {
	a := argumentsOf(in.Arguments, "name", "value", "if_seq")
	name := a.str("name")
	value, ok := a.v.Get("value")
	if !ok {
		a.fail("\"value\" is missing")
	}
	var seen *int64
	if _, guarded := a.get("if_seq"); guarded {
		seen = new(a.optInt("if_seq", 0, 0, 1<<53-1))
	}
	if out, bad := a.err(); bad {
		return out
	}
	seq, err := g.agency().PutNote(in.caller().Strand, name, value, seen)
	if err != nil {
		return declined(err)
	}
	return said(fmt.Sprintf("noted %s (seq %d)", name, seq)).with(jsonv.F("seq", jsonv.Num(seq)))
}

func (g agents) notes(_ context.Context, in Invocation) Outcome {
	a := argumentsOf(in.Arguments, "of", "name")
	of, name := a.optStr("of", in.caller().Strand), a.optStr("name", "")
	if out, bad := a.err(); bad {
		return out
	}
	strand, err := g.strandOf(in.caller(), of)
	if err != nil {
		return declined(err)
	}
	notes, err := g.agency().Notes(in.caller().Strand, strand)
	if err != nil {
		return declined(err)
	}
	var b strings.Builder
	for _, n := range notes {
		switch {
		case name == n.Name:
			return said(n.Value.String()).with(jsonv.F("seq", jsonv.Num(n.Seq)))
		case name == "":
			fmt.Fprintf(&b, "%s (seq %d): %s\n", n.Name, n.Seq, clip(n.Value.String(), maxNoteShown))
		}
	}
	if name != "" {
		return failed(fmt.Sprintf("there is no note %q", clip(name, 80)))
	}
	if len(notes) == 0 {
		return said("there are no notes")
	}
	return said(b.String())
}

func (g agents) roster(_ context.Context, in Invocation) Outcome {
	if out, bad := argumentsOf(in.Arguments).err(); bad {
		return out
	}
	members, err := g.agency().Roster(in.caller().Strand)
	if err != nil {
		return declined(err)
	}
	var b strings.Builder
	for _, m := range members {
		fmt.Fprintf(&b, "%s: %s", m.Relation, m.Strand)
		if m.Working {
			fmt.Fprintf(&b, ", works on %s", agency.Handle{Strand: m.Strand, Op: m.Op})
		} else {
			b.WriteString(", rests")
		}
		if m.Purpose != "" {
			fmt.Fprintf(&b, " (%s)", m.Purpose)
		}
		b.WriteByte('\n')
	}
	return said(b.String())
}
