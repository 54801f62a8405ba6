// Package sessiontest makes a session that has everything a session can have.
//
// # Purpose
//
// Forks, rewrites, exports and searches must deal with every kind of row and cell.
// Their tests share one session that holds all of them, with a text of the test's
// choice in every place where somebody else's text can stand.
//
// # Key types
//
// [Story] is the session as transactions.
//
// # Relationships
//
// Imports core, machine and session. Imported by tests.
//
// # Traffic
//
// None: the test commits the transactions to the store that it is about.
//
// # Invariants
//
// A store that holds a story passes every check, while the story's operation is
// open, and each place has its own text.
package sessiontest

import (
	"encoding/base64"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
)

// Story is a session in the middle of a run, with a past: a finished run, a
// compaction, a second strand that left a branch.
type Story struct {
	Self, Parent id.SessionID // the parent is of no session that exists
	Workspace    string

	// The tree: Root, Answer and First lie on both branches. Side is the tip of the
	// strand side, Leaf that of main.
	Root, Answer, First, Side, Compaction, Leaf id.EntryID

	Op id.OpID // open, on main

	Txs []tx.Tx // in the order in which they are committed
}

// teller makes the parts of a story.
type teller struct {
	ids id.Generator
	say func(place string) string
	s   *Story
}

// Tell makes a story. say gives the text of each place; ids are taken from ids.
func Tell(ids id.Generator, say func(place string) string) (*Story, id.Generator) {
	t := &teller{ids: ids, say: say, s: &Story{Workspace: "/somewhere"}}
	t.s.Self, t.ids = t.ids.Session()
	t.s.Parent, t.ids = t.ids.Session()
	t.s.Op, t.ids = t.ids.Op()
	t.begin()
	t.branches()
	t.run()
	return t.s, t.ids
}

func (t *teller) entry() (i id.EntryID) {
	i, t.ids = t.ids.Entry()
	return i
}

func (t *teller) commit(writes ...tx.Write) { t.s.Txs = append(t.s.Txs, tx.Tx{Writes: writes}) }

func insert(i, parent id.EntryID, b entry.Body) tx.Write {
	return tx.InsertEntry{Entry: entry.Entry{ID: i, Parent: parent, Body: b}}
}

func said(i, parent id.EntryID, m message.Message) tx.Write {
	return insert(i, parent, entry.Message{Message: m})
}

// object is a document with the text of a place inside, at some depth.
func (t *teller) object(place string) jsonv.Value {
	return jsonv.Obj(jsonv.F("a", jsonv.Arr(jsonv.Num(1), jsonv.Obj(jsonv.F("deep", jsonv.Str(t.say(place)))))), jsonv.F("flag", jsonv.Boolean(true)))
}

func (t *teller) user(place string) *message.User {
	return &message.User{
		Content: []message.UserBlock{
			message.Text{Text: t.say(place)},
			message.Image{Data: base64.StdEncoding.EncodeToString([]byte("image " + t.say(place+" image"))), MimeType: "image/png"},
		},
		Timestamp: 7,
	}
}

// asks is a response with reasoning of each sort and two calls.
func (t *teller) asks(place string) *message.Assistant {
	return &message.Assistant{
		Content: []message.AssistantBlock{
			message.Thinking{Thinking: t.say(place + " reasoning")},
			message.Thinking{Thinking: t.say(place + " signed reasoning"), Signature: new("signature-of-reasoning")},
			message.Thinking{Signature: new("signature-of-hidden-reasoning"), Redacted: true},
			message.Text{Text: t.say(place), Signature: new("signature-of-text")},
			message.ToolCall{ID: place + " a", Name: "read", Arguments: t.object(place + " arguments"), ThoughtSignature: new("signature-of-call")},
			message.ToolCall{ID: place + " b", Name: "bash", Arguments: message.MalformedArguments(t.say(place+" malformed arguments"), "not an object")},
		},
		API: "openai-completions", Provider: "local", Model: "m", ResponseID: new(t.say(place + " response id")),
		Diagnostics: new(t.object(place + " diagnostics")), Usage: usage.Unknown(usage.API), StopReason: message.ToolUse,
		ErrorMessage: new(t.say(place + " error")), RawStopReason: new("tool_calls"), Timestamp: 8,
	}
}

func (t *teller) result(place, call string) *message.ToolResult {
	return &message.ToolResult{
		ToolCallID: call, ToolName: "read", Content: []message.ResultBlock{message.Text{Text: t.say(place)}},
		Details: new(t.object(place + " details")), IsError: true, Timestamp: 9,
	}
}

// bill is the ledger row of a response.
func (t *teller) bill(response id.EntryID, place string) tx.Write {
	var i id.UsageID
	i, t.ids = t.ids.Usage()
	return tx.InsertUsage{Row: entry.UsageRow{ID: i, EntryID: response, Usage: usage.Unknown(usage.API), Details: new(t.object(place))}}
}

var config = machine.Configuration{
	Model: machine.ModelRef{Provider: "local", ModelID: "m"}, ThinkingLevel: machine.ThinkingOff, ActiveToolNames: []string{"read", "bash"},
}

// begin is a session's birth and its first turn.
func (t *teller) begin() {
	s := t.s
	s.Root, s.Answer, s.First = t.entry(), t.entry(), t.entry()
	t.commit(
		tx.Set(register.FactCustom, session.IDKey, jsonv.Str(s.Self.String())),
		tx.Set(register.FactCustom, session.ParentKey, jsonv.Str(s.Parent.String())),
		tx.Set(register.FactCustom, session.WorkspaceKey, jsonv.Str(s.Workspace)),
		tx.Set(register.StrandConfig, "main", config.Value()),
		tx.Set(register.StrandLeaf, "main", register.Leaf(id.EntryID{})),
		tx.Set(register.StrandState, "main", machine.StrandState{}.Value()),
	)
	t.commit(said(s.Root, id.EntryID{}, t.user("prompt")))
	t.commit(said(s.Answer, s.Root, t.asks("answer")), t.bill(s.Answer, "ledger"))
	other := t.entry()
	t.commit(
		said(other, s.Answer, t.result("result", "answer a")),
		said(s.First, other, t.result("other result", "answer b")),
		tx.Set(register.StrandLeaf, "main", register.Leaf(s.First)),
	)
}

// branches leaves a branch to a second strand and compacts the first.
func (t *teller) branches() {
	s := t.s
	custom, summary := t.entry(), t.entry()
	s.Side = summary
	t.commit(
		insert(custom, s.First, entry.Custom{Type: "note", Data: new(t.object("custom entry"))}),
		insert(summary, custom, entry.BranchSummary{FromID: s.First, Summary: t.say("branch summary"), Usage: new(usage.Zero())}),
		tx.Set(register.StrandConfig, "side", config.Value()),
		tx.Set(register.StrandLeaf, "side", register.Leaf(summary)),
		tx.Set(register.StrandState, "side", machine.StrandState{}.Value()),
		tx.Set(register.FactName, "subject", jsonv.Str(t.say("name"))),
		tx.Set(register.FactLabel, s.Root.String(), jsonv.Str(t.say("label of the root"))),
		tx.Set(register.FactLabel, custom.String(), jsonv.Str(t.say("label of the side"))),
		tx.Set(register.FactLabel, "free", t.object("free label")),
		tx.Set(register.FactCustom, "agent/main/todo", t.object("custom fact")),
	)
	s.Compaction = t.entry()
	t.commit(insert(s.Compaction, s.First, entry.Compaction{
		Summary: t.say("compaction"), TokensBefore: 1000, Usage: new(usage.Zero()),
		RetainedTail: []message.Message{t.asks("answer"), t.result("result", "answer a"), t.result("other result", "answer b"),
			&message.Custom{Schema: "s", Payload: t.object("custom message")}},
	}))
}

// run is the open operation: a response whose first call is answered and whose
// second is staged, a follow-up, and input for the next run.
func (t *teller) run() {
	s := t.s
	prompt, response, staged, followUp, nextRun := t.entry(), t.entry(), t.entry(), t.entry(), t.entry()
	s.Leaf = t.entry()
	var earlier id.OpID
	earlier, t.ids = t.ids.Op()
	last := machine.LastResult{
		Kind: "run", OperationID: earlier, LeafID: s.First, Outcome: machine.OutcomeFailed,
		Error: &machine.OperationError{Code: "provider", Message: t.say("last error"), Details: new(t.object("last error details"))},
	}
	batch := machine.Batch{
		AssistantID: response, TurnID: "step", Configuration: config,
		Calls: []machine.Call{
			{SourceIndex: 4, ResultID: s.Leaf, Status: machine.Completed{}},
			{SourceIndex: 5, ResultID: staged, Status: machine.OutcomeReady{}},
		},
	}
	state := machine.State{Control: machine.Running{}, Work: &machine.Run{
		Settings:        machine.Settings{SteeringMode: machine.DrainAll, FollowUpMode: machine.DrainAll, ToolExecution: machine.Parallel},
		Inbox:           machine.Inbox{FollowUp: []id.EntryID{followUp}},
		LatestAssistant: response,
		Phase:           machine.RunningTools{Batch: batch},
	}}
	t.commit(
		said(prompt, s.Compaction, t.user("second prompt")),
		said(response, prompt, t.asks("second answer")), t.bill(response, "second ledger"),
		said(s.Leaf, response, t.result("second result", "second answer a")),
		tx.Set(register.PendingEntry, staged.String(), machine.PendingMessage(t.result("staged result", "second answer b")).Value()),
		tx.Set(register.PendingEntry, followUp.String(), machine.PendingMessage(t.user("follow-up")).Value()),
		tx.Set(register.PendingEntry, nextRun.String(), machine.PendingMessage(t.user("next run")).Value()),
		tx.Set(register.OpMeta, s.Op.String(), machine.Operation{
			ID: s.Op, Strand: "main", SourceLeaf: s.Compaction, Intent: machine.RunIntent{PromptEntryIDs: []id.EntryID{prompt}},
		}.Value()),
		tx.Set(register.OpState, s.Op.String(), state.Value()),
		tx.Set(register.OpToolArgs, machine.ToolArgsKey(s.Op, "step", 5), t.object("cleared arguments")),
		tx.Set(register.OpPreparation, machine.PreparationKey(s.Op, "task"), machine.PreparationValue(&machine.CompactionPreparation{
			MessagesToSummarize: []message.Message{t.user("prompt"), t.asks("answer")}, PreviousSummary: new(t.say("previous summary")),
			FileOps: machine.FileOps{Read: []string{t.say("a path")}},
		})),
		tx.Set(register.StrandLeaf, "main", register.Leaf(s.Leaf)),
		tx.Set(register.StrandState, "main", machine.StrandState{CurrentOperation: s.Op, PendingNextRun: []id.EntryID{nextRun}}.Value()),
		tx.Set(register.StrandLastResult, "main", last.Value()),
		tx.Set(register.FactCustom, machine.ResultKey(earlier), last.Value()),
	)
}
