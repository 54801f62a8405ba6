package check_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/memory"
)

// world is a session in the middle of a run: a prompt, a response with two calls
// of which one is answered and the other staged, a follow-up in the queue, input
// for the next run, and the result of an earlier run.
type world struct {
	t     *testing.T
	store *memory.Store
	ids   id.Generator

	op, earlier       id.OpID
	prompt, response  id.EntryID
	done, staged      id.EntryID
	followUp, nextRun id.EntryID
	operation         machine.Operation
	run               machine.Run
	calls             []machine.Call
	control           machine.Control
	last              machine.LastResult
	configuration     machine.Configuration
	lone              id.EntryID // the response that a plant is about
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, store: memory.New(func() int64 { return 1 }), ids: id.NewGenerator(clock.Fixed(1), 1),
		control:       machine.Running{},
		configuration: machine.Configuration{ThinkingLevel: machine.ThinkingOff},
	}
	w.op, w.ids = w.ids.Op()
	w.earlier, w.ids = w.ids.Op()
	for _, i := range []*id.EntryID{&w.prompt, &w.response, &w.done, &w.staged, &w.followUp, &w.nextRun} {
		*i = w.entryID()
	}
	w.operation = machine.Operation{ID: w.op, Strand: "main", Intent: machine.RunIntent{PromptEntryIDs: []id.EntryID{w.prompt}}}
	w.last = machine.LastResult{Kind: "run", OperationID: w.earlier, Outcome: machine.OutcomeAborted}
	w.calls = []machine.Call{
		{SourceIndex: 0, ResultID: w.done, Status: machine.Completed{}},
		{SourceIndex: 1, ResultID: w.staged, Status: machine.OutcomeReady{}},
	}
	w.run = machine.Run{
		Settings:        machine.Settings{SteeringMode: machine.DrainAll, FollowUpMode: machine.DrainAll, ToolExecution: machine.Parallel},
		Inbox:           machine.Inbox{FollowUp: []id.EntryID{w.followUp}},
		LatestAssistant: w.response,
	}
	w.commit(
		w.insert(w.prompt, id.EntryID{}, user("go")),
		w.insert(w.response, w.prompt, w.asks("a", "b")),
		tx.InsertUsage{Row: entry.UsageRow{ID: w.usageID(), EntryID: w.response, Usage: usage.Unknown(usage.API)}},
		w.insert(w.done, w.response, result("a")),
		tx.Set(register.PendingEntry, w.staged.String(), machine.PendingMessage(result("b")).Value()),
		tx.Set(register.PendingEntry, w.followUp.String(), machine.PendingMessage(user("more")).Value()),
		tx.Set(register.PendingEntry, w.nextRun.String(), machine.PendingMessage(user("later")).Value()),
		tx.Set(register.OpMeta, w.op.String(), w.operation.Value()),
		tx.Set(register.OpToolArgs, machine.ToolArgsKey(w.op, "step", 1), jsonv.Obj()),
		tx.Set(register.StrandConfig, "main", w.configuration.Value()),
		tx.Set(register.StrandLeaf, "main", register.Leaf(w.done)),
		tx.Set(register.StrandState, "main", machine.StrandState{CurrentOperation: w.op, PendingNextRun: []id.EntryID{w.nextRun}}.Value()),
		tx.Set(register.StrandLastResult, "main", w.last.Value()),
		tx.Set(register.FactCustom, machine.ResultKey(w.earlier), w.last.Value()),
		w.state(),
	)
	return w
}

func (w *world) entryID() (i id.EntryID) {
	i, w.ids = w.ids.Entry()
	return i
}

func (w *world) usageID() (i id.UsageID) {
	i, w.ids = w.ids.Usage()
	return i
}

func (w *world) commit(writes ...tx.Write) {
	w.t.Helper()
	if _, err := w.store.Commit(tx.Tx{Writes: writes}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) insert(i, parent id.EntryID, m message.Message) tx.Write {
	return tx.InsertEntry{Entry: entry.Entry{ID: i, Parent: parent, Body: entry.Message{Message: m}}}
}

// state writes op.state as the world's fields have it.
func (w *world) state() tx.Write {
	run := w.run
	run.Phase = machine.RunningTools{Batch: machine.Batch{AssistantID: w.response, TurnID: "step", Configuration: w.configuration, Calls: w.calls}}
	return tx.Set(register.OpState, w.op.String(), machine.State{Control: w.control, Work: &run}.Value())
}

func user(text string) message.Message {
	return &message.User{Content: []message.UserBlock{message.Text{Text: text}}}
}

func result(call string) message.Message {
	return &message.ToolResult{ToolCallID: call, ToolName: "t", Content: []message.ResultBlock{message.Text{Text: "ok"}}}
}

func (w *world) asks(calls ...string) *message.Assistant {
	a := &message.Assistant{StopReason: message.ToolUse, Usage: usage.Unknown(usage.API)}
	for _, c := range calls {
		a.Content = append(a.Content, message.ToolCall{ID: c, Name: "t", Arguments: jsonv.Obj()})
	}
	return a
}

func findings(t *testing.T, s check.Store) []storage.Finding {
	t.Helper()
	found, err := check.Session(s)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestASoundSessionHasNoFindings(t *testing.T) {
	for _, f := range findings(t, newWorld(t).store) {
		t.Error(f)
	}
	for _, f := range findings(t, memory.New(func() int64 { return 1 })) {
		t.Errorf("an empty session: %s", f)
	}
}

// TestEachViolationIsFoundByItsName plants one violation of each rule and expects
// that rule, about that subject, and no other.
func TestEachViolationIsFoundByItsName(t *testing.T) {
	for name, c := range map[string]struct {
		want    storage.Invariant
		subject func(w *world) string
		plant   func(w *world)
	}{
		"a strand without a configuration": {check.StrandWhole, main, func(w *world) {
			w.commit(tx.Delete(register.StrandConfig, "main"))
		}},
		"a strand without a leaf": {check.StrandWhole, main, func(w *world) { w.commit(tx.Delete(register.StrandLeaf, "main")) }},
		"half a strand": {check.StrandWhole, func(*world) string { return "strand other" }, func(w *world) {
			w.commit(tx.Set(register.StrandLeaf, "other", register.Leaf(w.prompt)))
		}},
		"an operation without its meta": {check.OperationWhole, operation, func(w *world) {
			w.commit(tx.Delete(register.OpMeta, w.op.String()))
		}},
		"an operation without its state": {check.OperationWhole, operation, func(w *world) {
			w.commit(
				tx.Delete(register.OpState, w.op.String()), tx.Delete(register.PendingEntry, w.followUp.String()),
				tx.Delete(register.PendingEntry, w.staged.String()), w.insert(w.staged, w.done, result("b")))
		}},
		"an operation of another strand": {check.OperationWhole, operation, func(w *world) {
			w.operation.Strand = "other"
			w.commit(tx.Set(register.OpMeta, w.op.String(), w.operation.Value()))
		}},
		"a prompt that is not in the tree": {check.OperationWhole, operation, func(w *world) {
			w.operation.Intent = machine.RunIntent{PromptEntryIDs: []id.EntryID{w.prompt, w.entryID()}}
			w.commit(tx.Set(register.OpMeta, w.op.String(), w.operation.Value()))
		}},
		"registers of an operation that nobody works on": {check.OperationOwned,
			func(w *world) string { return "op.tool_args/" + machine.ToolArgsKey(w.earlier, "s", 0) },
			func(w *world) {
				w.commit(tx.Set(register.OpToolArgs, machine.ToolArgsKey(w.earlier, "s", 0), jsonv.Obj()))
			}},
		"a call that is done and has no result": {check.BatchWhole, operation, func(w *world) {
			w.calls[0].ResultID = w.entryID()
			w.commit(w.state())
		}},
		"a result of a call that is not done": {check.BatchWhole, operation, func(w *world) {
			w.calls[0].Status = machine.InFlight{Replay: machine.ReplayNever}
			w.commit(w.state())
		}},
		"a batch whose source is no response": {check.BatchWhole, operation, func(w *world) {
			w.response = w.prompt
			w.commit(w.insert(w.entryID(), w.done, result("b"))) // so that the closed batch is answered
			w.commit(w.state())
		}},
		"an id in two queues": {check.QueuedOnce, func(w *world) string { return "entry " + w.followUp.String() }, func(w *world) {
			w.run.Inbox.Steer = []id.EntryID{w.followUp}
			w.commit(w.state())
		}},
		"a queued id without its payload": {check.QueuedOnce, func(w *world) string { return "entry " + w.nextRun.String() }, func(w *world) {
			w.commit(tx.Delete(register.PendingEntry, w.nextRun.String()))
		}},
		"a queued id that is placed": {check.QueuedOnce, func(w *world) string { return "entry " + w.followUp.String() }, func(w *world) {
			w.commit(tx.Delete(register.PendingEntry, w.followUp.String()), w.insert(w.followUp, w.done, user("more")))
		}},
		"a drained id without its payload": {check.QueuedOnce, func(w *world) string { return "entry " + w.prompt.String() }, func(w *world) {
			w.control = machine.CancelRequested{DrainedSteer: []id.EntryID{w.prompt}}
			w.commit(w.state())
		}},
		"a payload that nobody lists": {check.PendingOwned, func(w *world) string { return "pending.entry/" + w.staged.String() }, func(w *world) {
			w.calls[1].Status = machine.InFlight{Replay: machine.ReplaySafe}
			w.commit(w.state())
		}},
		"a kept call without a result": {check.CallsAnswered, lone, func(w *world) { w.respond(w.asks("x")) }},
		"a call with two results": {check.CallsAnswered, lone, func(w *world) {
			r := w.respond(w.asks("x"))
			first := w.entryID()
			w.commit(w.insert(first, r, result("x")), w.insert(w.entryID(), first, result("x")))
		}},
		"a call of an open batch with two results": {check.CallsAnswered, func(w *world) string { return "entry " + w.response.String() }, func(w *world) {
			w.commit(w.insert(w.entryID(), w.done, result("a")))
		}},
		"a result that nobody asked for": {check.CallsAnswered, lone, func(w *world) {
			r := w.respond(&message.Assistant{StopReason: message.Stop, Usage: usage.Unknown(usage.API)})
			w.commit(w.insert(w.entryID(), r, result("x")))
		}},
		"a result of a response that failed": {check.CallsAnswered, lone, func(w *world) {
			m := w.asks("x")
			m.StopReason = message.Error
			w.commit(w.insert(w.entryID(), w.respond(m), result("x")))
		}},
		"a result without a response": {check.CallsAnswered, func(*world) string { return "call x" }, func(w *world) {
			w.commit(w.insert(w.entryID(), w.prompt, result("x")))
		}},
		"a response that was not billed": {check.LedgerForResponse, lone, func(w *world) {
			w.lone = w.entryID()
			w.commit(w.insert(w.lone, w.prompt, &message.Assistant{StopReason: message.Error, Usage: usage.Unknown(usage.API)}))
		}},
		"a response that was billed twice": {check.LedgerForResponse, func(w *world) string { return "entry " + w.response.String() }, func(w *world) {
			w.commit(tx.InsertUsage{Row: entry.UsageRow{ID: w.usageID(), EntryID: w.response, Usage: usage.Unknown(usage.API)}})
		}},
		"a last result that is not kept": {check.ResultKept, main, func(w *world) {
			w.commit(tx.Delete(register.FactCustom, machine.ResultKey(w.earlier)))
		}},
		"a last result that is kept otherwise": {check.ResultKept, main, func(w *world) {
			w.last.LeafID = w.prompt
			w.commit(tx.Set(register.FactCustom, machine.ResultKey(w.earlier), w.last.Value()))
		}},
		"a leaf that does not exist": {storage.LeafExists, func(*world) string { return "strand.leaf/main" }, func(w *world) {
			w.commit(tx.Set(register.StrandLeaf, "main", register.Leaf(w.entryID())))
		}},
		"an id that is pending and placed": {storage.PendingNotPlaced, func(w *world) string { return "pending.entry/" + w.prompt.String() }, func(w *world) {
			w.commit(tx.Set(register.PendingEntry, w.prompt.String(), machine.PendingMessage(user("x")).Value()))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.plant(w)
			found := findings(t, w.store)
			if len(found) != 1 || found[0].Invariant != c.want || found[0].Subject != c.subject(w) {
				t.Errorf("found %v, want %s: %s", found, c.want, c.subject(w))
			}
		})
	}
}

func main(*world) string        { return "strand main" }
func operation(w *world) string { return "operation " + w.op.String() }
func lone(w *world) string      { return "entry " + w.lone.String() }

// respond adds a response on a branch of its own, and bills it.
func (w *world) respond(m *message.Assistant) id.EntryID {
	w.lone = w.entryID()
	w.commit(
		w.insert(w.lone, w.prompt, m),
		tx.InsertUsage{Row: entry.UsageRow{ID: w.usageID(), EntryID: w.lone, Usage: m.Usage}})
	return w.lone
}

func TestAForkMayLackItsLedgerAndTheEndOfABatch(t *testing.T) {
	w := newWorld(t)
	i := w.entryID()
	w.commit(w.insert(i, w.prompt, w.asks("x"))) // neither billed nor answered
	if found := findings(t, w.store); len(found) != 2 {
		t.Errorf("found %v, want its ledger row and its answer", found)
	}
	parent, _ := w.ids.Session()
	w.commit(tx.Set(register.FactCustom, session.ParentKey, jsonv.Str(parent.String())))
	for _, f := range findings(t, w.store) {
		t.Error(f)
	}
}

func TestAPayloadThatDoesNotDecodeIsFoundInEveryNamespace(t *testing.T) {
	w := newWorld(t)
	for _, a := range []register.Address{
		{NS: register.StrandConfig, Key: "main"}, {NS: register.StrandState, Key: "main"}, {NS: register.StrandLastResult, Key: "main"},
		{NS: register.OpMeta, Key: w.op.String()}, {NS: register.OpState, Key: w.op.String()},
		{NS: register.OpToolArgs, Key: machine.ToolArgsKey(w.op, "step", 1)}, {NS: register.OpPreparation, Key: w.op.String() + ":task"},
		{NS: register.PendingEntry, Key: w.staged.String()},
		{NS: register.FactCustom, Key: session.IDKey}, {NS: register.FactCustom, Key: session.ParentKey},
		{NS: register.FactCustom, Key: session.WorkspaceKey}, {NS: register.FactCustom, Key: machine.ResultKey(w.earlier)},
	} {
		w := newWorld(t)
		w.commit(tx.Set(a.NS, a.Key, jsonv.Num(7)))
		found := findings(t, w.store)
		if len(found) != 1 || found[0].Invariant != storage.CellValid || found[0].Subject != a.String() {
			t.Errorf("%s: found %v", a, found)
		}
	}
	w.commit(tx.Set(register.StrandLeaf, "main", jsonv.Num(7)))
	for _, f := range findings(t, w.store) {
		if !strings.HasPrefix(f.Subject, "strand.leaf/main") {
			t.Error(f)
		}
	}
}

func TestFreeFactsMayHoldAnything(t *testing.T) {
	w := newWorld(t)
	for _, ns := range []register.Namespace{register.FactName, register.FactLabel, register.FactCustom} {
		w.commit(tx.Set(ns, "agent/main/x", jsonv.Obj(jsonv.F("free", jsonv.Boolean(true)))))
	}
	for _, f := range findings(t, w.store) {
		t.Error(f)
	}
}

func TestAStoreThatCannotBeReadIsAnErrorAndNoFinding(t *testing.T) {
	w := newWorld(t)
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	found, err := check.Session(w.store)
	if err == nil && (len(found) != 1 || found[0].Invariant != storage.BackendSound) {
		t.Errorf("found %v, %v", found, err)
	}
}

// failing is a store whose reads fail from the nth on.
type failing struct {
	*memory.Store
	left int
}

var errGone = &storage.BackendFault{Reason: "the disk is gone"}

func (f *failing) fails() bool {
	f.left--
	return f.left < 0
}

func (f *failing) Register(ns register.Namespace, key string) (register.Cell, bool, error) {
	if f.fails() {
		return register.Cell{}, false, errGone
	}
	return f.Store.Register(ns, key)
}

func (f *failing) Registers(ns register.Namespace, prefix string) ([]storage.KeyedCell, error) {
	if f.fails() {
		return nil, errGone
	}
	return f.Store.Registers(ns, prefix)
}

func (f *failing) Entries(ids ...id.EntryID) (map[id.EntryID]entry.Entry, error) {
	if f.fails() {
		return nil, errGone
	}
	return f.Store.Entries(ids...)
}

func (f *failing) ScanEntries(q storage.EntryQuery) ([]entry.Entry, error) {
	if f.fails() {
		return nil, errGone
	}
	return f.Store.ScanEntries(q)
}

func (f *failing) ScanUsage(q storage.UsageQuery) ([]entry.UsageRow, error) {
	if f.fails() {
		return nil, errGone
	}
	return f.Store.ScanUsage(q)
}

func TestAReadThatFailsIsNotTakenForDamage(t *testing.T) {
	w := newWorld(t)
	for reads := 0; ; reads++ {
		found, err := check.Session(&failing{w.store, reads})
		if len(found) > 0 {
			t.Fatalf("after %d reads: found %v", reads, found)
		}
		if err == nil {
			if reads < 20 {
				t.Errorf("a check made only %d reads", reads)
			}
			return
		}
		if !errors.Is(err, errGone) {
			t.Fatalf("after %d reads: %v", reads, err)
		}
	}
}
