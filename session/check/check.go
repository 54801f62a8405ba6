// Package check knows every invariant of a stored session.
//
// # Purpose
//
// The structure of a store is checked by storage; what its registers mean, and
// how operations, queues and the tree fit together, is checked here. The result
// names each broken rule; nothing is repaired.
//
// # Key types
//
// [Session] runs all checks over a store that can be walked and read.
//
// # Relationships
//
// Imports core, machine, session and storage.
//
// # Traffic
//
// Reads only.
//
// # Invariants
//
// A store that an engine of this build left behind, at whatever commit it was
// stopped, has no findings.
package check

import (
	"fmt"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
)

// The rules beyond structure.
const (
	OperationWhole    storage.Invariant = "operation-whole"     // a strand's operation has its registers, which name the strand
	OperationOwned    storage.Invariant = "operation-owned"     // an operation's registers belong to a strand that works on it
	QueuedOnce        storage.Invariant = "queued-once"         // a queued id has its payload or its entry, never both
	PendingOwned      storage.Invariant = "pending-owned"       // a payload is queued or staged somewhere
	CallsAnswered     storage.Invariant = "calls-answered"      // each kept call has one result, unless its batch is open
	LedgerForResponse storage.Invariant = "ledger-for-response" // each response has exactly one ledger row; in a fork at most one
)

// Store is what can be checked.
type Store interface {
	storage.Reader
	storage.Walker
}

// Session returns every broken invariant; nothing for a sound session.
func Session(s Store) ([]storage.Finding, error) {
	c := &checker{
		view: session.NewView(s), queued: make(map[id.EntryID]string),
		ops: make(map[string]bool), open: make(map[id.EntryID]bool),
	}
	findings := storage.Check(s, Cell)
	if len(findings) > 0 {
		return findings, nil // what follows reads rows, and would say the same again
	}
	if err := c.run(); err != nil {
		return nil, err
	}
	return c.findings, nil
}

// Cell judges the payload of a register by the codec of its namespace.
func Cell(a register.Address, c register.Cell) error {
	var err error
	switch a.NS {
	case register.StrandLeaf:
		_, err = register.DecodeLeaf(c.Value)
	case register.StrandConfig:
		_, err = machine.DecodeConfiguration(c.Value)
	case register.StrandState:
		_, err = machine.DecodeStrandState(c.Value)
	case register.StrandLastResult:
		_, err = machine.DecodeLastResult(c.Value)
	case register.OpMeta:
		_, err = machine.DecodeOperation(c.Value)
	case register.OpState:
		_, err = machine.DecodeState(c.Value)
	case register.OpToolArgs:
		if c.Value.Kind() != jsonv.Object {
			err = fmt.Errorf("the arguments of a call are an object, not a %s", c.Value.Kind())
		}
	case register.OpPreparation:
		_, err = machine.DecodePreparation(c.Value)
	case register.PendingEntry:
		_, err = machine.DecodePendingEntry(c.Value)
	case register.FactName, register.FactLabel, register.FactCustom:
	}
	return err
}

type checker struct {
	view     *session.View
	findings []storage.Finding
	queued   map[id.EntryID]string // pending ids, and where they are listed
	ops      map[string]bool       // operations that a strand works on
	open     map[id.EntryID]bool   // responses whose batch is open
	forked   bool                  // the ledger of a fork starts empty
}

func (c *checker) find(i storage.Invariant, subject, format string, args ...any) {
	c.findings = append(c.findings, storage.Finding{Invariant: i, Subject: subject, Detail: fmt.Sprintf(format, args...)})
}

func (c *checker) run() error {
	_, forked, err := c.view.ParentID()
	if err != nil {
		return err
	}
	c.forked = forked
	strands, err := c.view.Strands()
	if err != nil {
		return err
	}
	for _, name := range strands {
		if err := c.strand(name); err != nil {
			return err
		}
	}
	if err := c.registers(); err != nil {
		return err
	}
	return c.tree()
}

func (c *checker) strand(name string) error {
	st, ok, err := c.view.StrandState(name)
	if err != nil {
		return err
	}
	if !ok {
		c.find(OperationWhole, "strand "+name, "expected a state, there is none")
		return nil
	}
	for _, i := range st.Value.PendingNextRun {
		c.queued[i] = "the next run of strand " + name
	}
	op := st.Value.CurrentOperation
	if op.IsZero() {
		return nil
	}
	c.ops[op.String()] = true
	meta, hasMeta, err := c.view.OpMeta(op)
	if err != nil {
		return err
	}
	state, hasState, err := c.view.OpState(op)
	if err != nil {
		return err
	}
	switch {
	case !hasMeta || !hasState:
		c.find(OperationWhole, "operation "+op.String(), "expected its registers, some are missing")
		return nil
	case meta.Value.ID != op || meta.Value.Strand != name:
		c.find(OperationWhole, "operation "+op.String(), "expected strand %s, it names operation %s of strand %s", name, meta.Value.ID, meta.Value.Strand)
	}
	c.collect(op, state.Value)
	return nil
}

// collect notes every pending id that an operation lists.
func (c *checker) collect(op id.OpID, st machine.State) {
	where := "operation " + op.String()
	note := func(ids []id.EntryID) {
		for _, i := range ids {
			c.queued[i] = where
		}
	}
	if cancel, ok := st.Control.(machine.CancelRequested); ok {
		note(cancel.DrainedSteer)
		note(cancel.DrainedFollows)
	}
	run, ok := st.Work.(*machine.Run)
	if !ok {
		return
	}
	note(run.Inbox.Steer)
	note(run.Inbox.FollowUp)
	note(run.Inbox.Writes)
	tools, ok := run.Phase.(machine.RunningTools)
	if !ok {
		return
	}
	c.open[tools.Batch.AssistantID] = true
	for _, call := range tools.Batch.Calls {
		if _, staged := call.Status.(machine.OutcomeReady); staged {
			c.queued[call.ResultID] = where
		}
	}
}

func (c *checker) registers() error {
	for _, ns := range []register.Namespace{register.OpMeta, register.OpState, register.OpToolArgs, register.OpPreparation} {
		keys, err := c.view.RegisterKeys(ns, "")
		if err != nil {
			return err
		}
		for _, key := range keys {
			if op := key[:min(len(key), 36)]; !c.ops[op] {
				c.find(OperationOwned, string(ns)+"/"+key, "expected a strand that works on operation %s, there is none", op)
			}
		}
	}
	pending, err := c.view.RegisterKeys(register.PendingEntry, "")
	if err != nil {
		return err
	}
	has := make(map[string]bool, len(pending))
	for _, key := range pending {
		has[key] = true
		if i, err := id.ParseEntryID(key); err != nil || c.queued[i] == "" {
			c.find(PendingOwned, "pending.entry/"+key, "expected a queue or a batch that lists it, there is none")
		}
	}
	for i, where := range c.queued {
		rows, err := c.view.Rows().Entries(i)
		if err != nil {
			return err
		}
		_, placed := rows[i]
		switch {
		case placed && has[i.String()]:
			c.find(QueuedOnce, "entry "+i.String(), "it is placed and pending at once, listed by %s", where)
		case !placed && !has[i.String()]:
			c.find(QueuedOnce, "entry "+i.String(), "expected its payload, listed by %s, there is none", where)
		}
	}
	return nil
}

// tree checks answers along parent links: a result answers the nearest response
// above it.
func (c *checker) tree() error {
	rows, err := c.view.Rows().ScanEntries(storage.EntryQuery{})
	if err != nil {
		return err
	}
	ledger, err := c.view.Rows().ScanUsage(storage.UsageQuery{})
	if err != nil {
		return err
	}
	billed := make(map[id.EntryID]int, len(ledger))
	for _, row := range ledger {
		if !row.Adjustment {
			billed[row.EntryID]++
		}
	}
	byID := make(map[id.EntryID]entry.Entry, len(rows))
	answered := make(map[id.EntryID]map[string]int)
	for _, e := range rows {
		byID[e.ID] = e
		body, _ := e.Body.(entry.Message)
		if r, ok := body.Message.(*message.ToolResult); ok {
			source := response(byID, e)
			if answered[source] == nil {
				answered[source] = make(map[string]int)
			}
			answered[source][r.ToolCallID]++
		}
	}
	for _, e := range rows {
		body, _ := e.Body.(entry.Message)
		if a, ok := body.Message.(*message.Assistant); ok {
			c.response(e, a, billed[e.ID], answered[e.ID])
		}
	}
	return nil
}

// response finds the response above a result.
func response(byID map[id.EntryID]entry.Entry, e entry.Entry) id.EntryID {
	for !e.Parent.IsZero() {
		e = byID[e.Parent]
		if body, ok := e.Body.(entry.Message); ok {
			if _, ok := body.Message.(*message.Assistant); ok {
				return e.ID
			}
		}
	}
	return id.EntryID{}
}

func (c *checker) response(e entry.Entry, a *message.Assistant, billed int, answered map[string]int) {
	if billed > 1 || billed == 0 && !c.forked {
		c.find(LedgerForResponse, "entry "+e.ID.String(), "expected one ledger row, there are %d", billed)
	}
	if c.open[e.ID] || a.StopReason == message.Error || a.StopReason == message.Aborted {
		return
	}
	calls, _ := a.ToolCalls()
	asked := make(map[string]int, len(calls))
	for _, call := range calls {
		asked[call.ID]++
	}
	for call, n := range asked {
		if answered[call] != n {
			c.find(CallsAnswered, "entry "+e.ID.String(), "call %q was made %d times and has %d results", call, n, answered[call])
		}
	}
}
