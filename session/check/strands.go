package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
)

// checker goes from the strands to their operations, from there to the queues,
// and then through the tree.
type checker struct {
	view     *session.View
	findings []storage.Finding
	queued   map[id.EntryID]string // pending ids, and where they are listed
	ops      map[string]bool       // operations that a strand works on
	open     map[id.EntryID]bool   // responses whose batch is open
	forked   bool                  // a fork has no ledger of its source, and may cut a batch
}

func newChecker(s Store) *checker {
	return &checker{
		view: session.NewView(s), queued: make(map[id.EntryID]string),
		ops: make(map[string]bool), open: make(map[id.EntryID]bool),
	}
}

func (c *checker) find(i storage.Invariant, subject, format string, args ...any) {
	c.findings = append(c.findings, storage.Finding{Invariant: i, Subject: subject, Detail: fmt.Sprintf(format, args...)})
}

func (c *checker) run() (err error) {
	if _, c.forked, err = c.view.ParentID(); err != nil {
		return err
	}
	strands, err := c.strands()
	if err != nil {
		return err
	}
	for _, name := range strands {
		if err := c.strand(name); err != nil {
			return err
		}
	}
	for _, step := range []func() error{c.owners, c.payloads, c.tree} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// strands lists every name that has any register of a strand.
func (c *checker) strands() ([]string, error) {
	names := make(map[string]bool)
	for _, ns := range []register.Namespace{register.StrandConfig, register.StrandLeaf, register.StrandState, register.StrandLastResult} {
		keys, err := c.view.RegisterKeys(ns, "")
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			names[k] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

func (c *checker) strand(name string) error {
	_, hasConfig, err := c.view.StrandConfig(name)
	if err != nil {
		return err
	}
	_, hasLeaf, err := c.view.StrandLeaf(name)
	if err != nil {
		return err
	}
	st, hasState, err := c.view.StrandState(name)
	if err != nil {
		return err
	}
	if !hasConfig || !hasLeaf || !hasState {
		c.find(StrandWhole, "strand "+name, "expected a configuration, a leaf and a state, found %v, %v and %v", hasConfig, hasLeaf, hasState)
	}
	if err := c.lastResult(name); err != nil {
		return err
	}
	c.queue(st.Value.PendingNextRun, "the next run of strand "+name)
	if op := st.Value.CurrentOperation; !op.IsZero() {
		return c.operation(name, op)
	}
	return nil
}

func (c *checker) lastResult(strand string) error {
	last, ok, err := c.view.LastResult(strand)
	if err != nil || !ok {
		return err
	}
	kept, ok, err := c.view.OperationResult(last.Value.OperationID)
	if err != nil {
		return err
	}
	if !ok || !kept.Value.Value().Equal(last.Value.Value()) {
		c.find(ResultKept, "strand "+strand, "expected its last result under operation %s, too", last.Value.OperationID)
	}
	return nil
}

// queue notes ids that are listed in one place.
func (c *checker) queue(ids []id.EntryID, where string) {
	for _, i := range ids {
		if earlier, twice := c.queued[i]; twice {
			c.find(QueuedOnce, "entry "+i.String(), "listed by %s and again by %s", earlier, where)
		}
		c.queued[i] = where
	}
}

func (c *checker) operation(strand string, op id.OpID) error {
	subject := "operation " + op.String()
	c.ops[op.String()] = true
	meta, hasMeta, err := c.view.OpMeta(op)
	if err != nil {
		return err
	}
	state, hasState, err := c.view.OpState(op)
	if err != nil {
		return err
	}
	if !hasMeta || !hasState {
		c.find(OperationWhole, subject, "expected op.meta and op.state, found %v and %v", hasMeta, hasState)
	}
	if hasMeta {
		if err := c.intent(subject, strand, op, meta.Value); err != nil {
			return err
		}
	}
	if hasState {
		return c.state(subject, op, state.Value)
	}
	return nil
}

// intent checks what an operation was accepted as.
func (c *checker) intent(subject, strand string, op id.OpID, meta machine.Operation) error {
	if meta.ID != op || meta.Strand != strand {
		c.find(OperationWhole, subject, "expected strand %s, it names operation %s of strand %s", strand, meta.ID, meta.Strand)
	}
	run, ok := meta.Intent.(machine.RunIntent)
	if !ok {
		return nil
	}
	rows, err := c.view.Rows().Entries(run.PromptEntryIDs...)
	if err != nil {
		return err
	}
	if len(rows) != len(run.PromptEntryIDs) {
		c.find(OperationWhole, subject, "expected its %d prompts in the tree, found %d", len(run.PromptEntryIDs), len(rows))
	}
	return nil
}

// state notes what an operation has queued, and checks its open batch.
func (c *checker) state(subject string, op id.OpID, st machine.State) error {
	if cancel, ok := st.Control.(machine.CancelRequested); ok {
		c.queue(cancel.DrainedSteer, subject)
		c.queue(cancel.DrainedFollows, subject)
	}
	if s, ok := st.Summary(); ok {
		if _, ok, err := c.view.Preparation(op, s.TaskID); err != nil || !ok {
			if err != nil {
				return err
			}
			c.find(OperationWhole, subject, "expected what its summary %s is made from, there is none", s.TaskID)
		}
	}
	run, ok := st.Work.(*machine.Run)
	if !ok {
		return nil
	}
	for _, list := range [][]id.EntryID{run.Inbox.Steer, run.Inbox.FollowUp, run.Inbox.Writes} {
		c.queue(list, subject)
	}
	switch phase := run.Phase.(type) {
	case machine.RunningTools:
		return c.batch(subject, phase.Batch)
	case machine.AwaitingDeferred:
		return c.deferred(subject, phase.Deferred.SourceEntryID)
	case machine.Starting, machine.AtCheckpoint, machine.Generating, machine.Compacting, machine.FailureDrain:
	}
	return nil
}

// deferred looks for the response whose handle is waited for.
func (c *checker) deferred(subject string, source id.EntryID) error {
	rows, err := c.view.Rows().Entries(source)
	if err != nil {
		return err
	}
	body, _ := rows[source].Body.(entry.Message)
	if a, ok := body.Message.(*message.Assistant); !ok || a.Deferred == nil {
		c.find(OperationWhole, subject, "expected the response %s in the tree, with the handle that is waited for", source)
	}
	return nil
}

// batch compares an open batch with the tree.
func (c *checker) batch(subject string, b machine.Batch) error {
	c.open[b.AssistantID] = true
	ids := []id.EntryID{b.AssistantID}
	for _, call := range b.Calls {
		ids = append(ids, call.ResultID)
	}
	rows, err := c.view.Rows().Entries(ids...)
	if err != nil {
		return err
	}
	source, _ := rows[b.AssistantID].Body.(entry.Message)
	if _, ok := source.Message.(*message.Assistant); !ok {
		c.find(BatchWhole, subject, "expected the response %s in the tree", b.AssistantID)
	}
	for _, call := range b.Calls {
		_, placed := rows[call.ResultID]
		switch call.Status.(type) {
		case machine.Completed:
			if !placed {
				c.find(BatchWhole, subject, "call %d is done, expected its result %s in the tree", call.SourceIndex, call.ResultID)
			}
		case machine.OutcomeReady:
			c.queue([]id.EntryID{call.ResultID}, subject)
		case machine.Planned, machine.Held, machine.Decided, machine.InFlight:
			if placed {
				c.find(BatchWhole, subject, "call %d is not done, but its result %s is in the tree", call.SourceIndex, call.ResultID)
			}
		}
	}
	return nil
}

// owners finds registers of operations that nobody works on.
func (c *checker) owners() error {
	for _, ns := range []register.Namespace{register.OpMeta, register.OpState, register.OpToolArgs, register.OpPreparation} {
		keys, err := c.view.RegisterKeys(ns, "")
		if err != nil {
			return err
		}
		for _, key := range keys {
			if op, _, _ := strings.Cut(key, ":"); !c.ops[op] {
				c.find(OperationOwned, string(ns)+"/"+key, "expected a strand that works on operation %s, there is none", op)
			}
		}
	}
	return nil
}

// payloads compares what is queued with what is pending.
func (c *checker) payloads() error {
	keys, err := c.view.RegisterKeys(register.PendingEntry, "")
	if err != nil {
		return err
	}
	pending := make(map[string]bool, len(keys))
	for _, key := range keys {
		pending[key] = true
		if i, err := id.ParseEntryID(key); err != nil || c.queued[i] == "" {
			c.find(PendingOwned, "pending.entry/"+key, "expected a queue or a batch that lists it, there is none")
		}
	}
	queued := slices.SortedFunc(maps.Keys(c.queued), func(a, b id.EntryID) int { return strings.Compare(a.String(), b.String()) })
	rows, err := c.view.Rows().Entries(queued...)
	if err != nil {
		return err
	}
	for _, i := range queued {
		switch _, placed := rows[i]; {
		case placed:
			c.find(QueuedOnce, "entry "+i.String(), "it is in the tree, and still listed by %s", c.queued[i])
		case !pending[i.String()]:
			c.find(QueuedOnce, "entry "+i.String(), "expected its payload, listed by %s, there is none", c.queued[i])
		}
	}
	return nil
}
