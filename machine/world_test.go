package machine_test

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"pgregory.net/rapid"
)

const (
	strand = "main"
	epoch  = 1767225600000
)

// world is one strand over a store, with a driver that does what an engine does: it loads everything anew for each pass, decides, commits, and knows which
// effects have a live worker. It checks what must hold after every commit.
type world struct {
	t rapid.TB
	*store
	minted  uint64 // seeds of generators handed out
	retry   machine.RetryPolicy
	limit   int64                       // output limit of an admission
	replay  map[string]machine.Replay   // of the tools that are replay safe
	report  machine.Observation         // not consumed yet
	flying  map[id.EntryID]bool         // responses and results whose effect has a live worker
	attempt map[id.EntryID]id.UsageID   // every request whose intent was committed
	ran     map[id.EntryID]int          // how often a call was started
	safe    map[id.EntryID]bool         // results of calls that were cleared as replay safe
	queued  map[id.EntryID]bool         // every id that was ever queued and not withdrawn since
	between func()                      // what others commit between a decision and its commit
	writing map[machine.SummaryKey]bool // requests of summaries that have a live worker
	spent   map[id.UsageID]bool         // what requests of summaries reserved; true once it was paid
	measure *machine.Measure            // as asked for
	hooks   machine.Hooks
	onTx    func(what string, t tx.Tx) // sees every commit
	onStep  func(machine.Step)         // sees what a pass committed
}

func newWorld(t rapid.TB) *world {
	w := &world{
		t: t, store: newStore(epoch), retry: retry, replay: map[string]machine.Replay{"read": machine.ReplaySafe, "hold": machine.ReplaySafe},
		flying: map[id.EntryID]bool{}, attempt: map[id.EntryID]id.UsageID{}, ran: map[id.EntryID]int{}, safe: map[id.EntryID]bool{},
		writing: map[machine.SummaryKey]bool{}, spent: map[id.UsageID]bool{},
		queued: map[id.EntryID]bool{}, onTx: func(string, tx.Tx) {}, onStep: func(machine.Step) {},
	}
	w.must(w.commit(tx.Tx{Writes: []tx.Write{
		tx.Set(register.StrandConfig, strand, config.Value()),
		tx.Set(register.StrandLeaf, strand, register.Leaf(id.EntryID{})),
		tx.Set(register.StrandState, strand, machine.StrandState{}.Value()),
	}}))
	return w
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}

// generator never makes an id that another call made.
func (w *world) generator() id.Generator {
	w.minted++
	return id.NewGenerator(clock.Fixed(w.now), w.minted)
}

func load[T any](w *world, ns register.Namespace, key string, decode func(jsonv.Value) (T, error)) (T, int64) {
	c, ok := w.cell(ns, key)
	if !ok {
		var none T
		return none, 0
	}
	x, err := decode(c.Value)
	w.must(err)
	return x, c.Seq
}

func (w *world) strandState() (machine.StrandState, int64) {
	return load(w, register.StrandState, strand, machine.DecodeStrandState)
}

func (w *world) leaf() (id.EntryID, int64) {
	return load(w, register.StrandLeaf, strand, register.DecodeLeaf)
}

func (w *world) lastResult() machine.LastResult {
	r, _ := load(w, register.StrandLastResult, strand, machine.DecodeLastResult)
	return r
}

func (w *world) pending() map[id.EntryID]machine.PendingEntry {
	all := map[id.EntryID]machine.PendingEntry{}
	for _, key := range w.keys(register.PendingEntry) {
		i, err := id.ParseEntryID(key)
		w.must(err)
		all[i], _ = load(w, register.PendingEntry, key, machine.DecodePendingEntry)
	}
	return all
}

// operation loads the open operation; ok is false when the strand is idle.
func (w *world) operation() (op machine.Operation, st machine.State, in machine.Inputs, ok bool) {
	strandState, strandSeq := w.strandState()
	if strandState.CurrentOperation.IsZero() {
		return op, st, in, false
	}
	key := strandState.CurrentOperation.String()
	op, _ = load(w, register.OpMeta, key, machine.DecodeOperation)
	st, stateSeq := load(w, register.OpState, key, machine.DecodeState)
	in = machine.Inputs{
		Now: w.now, StateSeq: stateSeq, Strand: strandState, StrandSeq: strandSeq, StreamOptions: options, RetryPolicy: w.retry,
		Pending: w.pending(), ProjectedCustom: map[string]bool{"shown": true},
		ToolArgsKeys: w.keys(register.OpToolArgs), PreparationKeys: w.keys(register.OpPreparation), Observation: w.report,
		Measure: w.measure, Hooks: w.hooks,
	}
	in.Leaf, _ = w.leaf()
	in.Configuration, in.ConfigurationSeq = load(w, register.StrandConfig, strand, machine.DecodeConfiguration)
	if run, isRun := st.Work.(*machine.Run); isRun {
		switch phase := run.Phase.(type) {
		case machine.RunningTools:
			in.BatchSource = w.response(phase.Batch.AssistantID)
		case machine.AwaitingDeferred:
			in.DeferredSource = w.response(phase.Deferred.SourceEntryID)
		}
	}
	if s, ok := st.Summary(); ok {
		in.Preparation, _ = load(w, register.OpPreparation, machine.PreparationKey(op.ID, s.TaskID), machine.DecodePreparation)
	}
	return op, st, in, true
}

func (w *world) response(i id.EntryID) *message.Assistant {
	return w.rows[i].Body.(entry.Message).Message.(*message.Assistant)
}

// run is the state of the open run; an empty one when something else is open.
func (w *world) run() machine.Run {
	if _, st, _, ok := w.operation(); ok {
		if run, isRun := st.Work.(*machine.Run); isRun {
			return *run
		}
	}
	return machine.Run{}
}

// land commits what was planned outside of a pass and checks what it left.
func (w *world) land(what string, t tx.Tx) {
	w.must(w.commit(t))
	w.onTx(what, t)
	w.check()
}

func (w *world) acceptance() machine.AcceptInputs {
	in := machine.AcceptInputs{Now: w.now, IDs: w.generator(), Strand: strand, Pending: w.pending()}
	in.State, in.StateSeq = w.strandState()
	in.Leaf, in.LeafSeq = w.leaf()
	return in
}

// accept starts a run.
func (w *world) accept(settings machine.Settings, prompts ...message.Message) error {
	in := w.acceptance()
	in.Prompts, in.Settings = prompts, settings
	return w.open(machine.AcceptRun(in))
}

// acceptCompaction starts a compaction. A nil preparation is none.
func (w *world) acceptCompaction(prep *machine.CompactionPreparation, instructions *string) error {
	return w.open(machine.AcceptCompaction(w.acceptance(), prep, instructions))
}

func (w *world) acceptNavigation(to machine.NavigationIntent, prep *machine.BranchPreparation) error {
	_, known := w.rows[to.TargetID]
	return w.open(machine.AcceptNavigation(w.acceptance(), to, known, prep))
}

// open commits an acceptance.
func (w *world) open(op machine.Operation, state machine.State, t tx.Tx, err error) error {
	if err != nil {
		return err
	}
	w.land("accept", t)
	stored, storedState, _, _ := w.operation()
	if d := coretest.Diff(op, stored) + coretest.Diff(state, storedState); d != "" {
		w.t.Fatalf("the acceptance said something else than it wrote:\n%s", d)
	}
	return nil
}

// admit queues input for the open run.
func (w *world) admit(q machine.Queue, e machine.PendingEntry) (id.EntryID, error) {
	op, st, in, ok := w.operation()
	if !ok {
		return id.EntryID{}, machine.ErrNoActiveRun
	}
	i, t, err := machine.Admit(op, st, in.StateSeq, q, e, w.generator())
	if err != nil {
		return i, err
	}
	w.queued[i] = true
	w.land("queue", t)
	return i, nil
}

func (w *world) admitNextRun(e machine.PendingEntry, start *machine.Start) {
	st, seq := w.strandState()
	i, t := machine.AdmitNextRun(strand, st, seq, e, start, w.generator())
	w.queued[i] = true
	w.land("queue", t)
}

func (w *world) withdraw(i id.EntryID) error {
	st, seq := w.strandState()
	t, err := machine.WithdrawNextRun(strand, st, seq, i)
	if op, state, in, ok := w.operation(); ok && err != nil {
		t, err = machine.Withdraw(op, state, in.StateSeq, i)
	}
	if err != nil {
		return err
	}
	delete(w.queued, i)
	w.land("withdraw", t)
	return nil
}

// listed is what waits for the strand.
func (w *world) listed() []machine.Queued {
	strandState, _ := w.strandState()
	if _, st, _, ok := w.operation(); ok {
		return machine.List(strandState, &st)
	}
	return machine.List(strandState, nil)
}

// abort asks the open run to end; the first time wins.
func (w *world) abort() (changed bool) {
	op, st, in, ok := w.operation()
	if !ok {
		return false
	}
	t, changed := machine.RequestAbort(op, st, in.StateSeq, w.now)
	if _, already := st.Control.(machine.CancelRequested); already == changed {
		w.t.Fatalf("aborted before: %t, changed now: %t", already, changed)
	}
	if changed {
		w.land("abort", t)
	}
	return changed
}

// crash loses everything that is not in the store.
func (w *world) crash() {
	w.report, w.measure = nil, nil
	clear(w.flying)
	clear(w.writing)
}

// pass loads, decides and acts once. The action is nil when the strand is idle.
func (w *world) pass() machine.Action {
	op, st, in, ok := w.operation()
	if !ok {
		return nil
	}
	in.IDs = w.generator()
	before := st.Value().String()
	a := machine.NextAction(op, st, in)
	if again := machine.NextAction(op, st, in); !reflect.DeepEqual(a, again) {
		w.t.Fatalf("the same inputs had two actions:\n%#v\n%#v", a, again)
	}
	if after := st.Value().String(); after != before {
		w.t.Fatalf("deciding changed the state:\n was %s\n now %s", before, after)
	}
	if w.between != nil {
		w.between()
	}
	switch a := a.(type) {
	case machine.Transition:
		w.step(op, a.Step, a.Tx, &a.Next, nil)
	case machine.Dispatch:
		w.step(op, a.Step, a.Tx, &a.Next, func() { w.start(a.Effect) })
	case machine.Finish:
		w.step(op, a.Step, a.Tx, nil, func() { w.finished(op, a.Result) })
	case machine.AwaitEffect, machine.Wait, machine.Park, machine.Fault:
	}
	return a
}

// step commits a pass. A refused one leaves the report for the next pass.
func (w *world) step(op machine.Operation, step machine.Step, t tx.Tx, next *machine.State, then func()) {
	guarded := slices.ContainsFunc(t.Expected, func(e tx.Expectation) bool {
		return e.Address == register.Address{NS: register.OpState, Key: op.ID.String()} && e.Seq > 0
	})
	if !guarded {
		w.t.Fatalf("a pass commits without expecting op.state: %v", t.Expected)
	}
	err := w.commit(t)
	if stale := (*tx.StaleExpectation)(nil); errors.As(err, &stale) && w.between != nil {
		return
	}
	w.must(err)
	w.report, w.measure = nil, nil
	if step == machine.StepPollPending || step == machine.StepPollLost { // such a poll has no row of its own
		maps.DeleteFunc(w.attempt, func(i id.EntryID, _ id.UsageID) bool { _, settled := w.rows[i]; return !settled })
	}
	w.onTx(string(step), t)
	w.onStep(step)
	if next != nil {
		stored, _ := w.cell(register.OpState, op.ID.String())
		if got := next.Value().String(); got != stored.Value.String() {
			w.t.Fatalf("the next state is not what was stored:\n next   %s\n stored %s", got, stored.Value)
		}
	}
	w.check()
	if then != nil {
		then()
	}
}

func (w *world) start(effect machine.Effect) {
	switch f := effect.(type) {
	case machine.Generate:
		if _, twice := w.attempt[f.ResponseID]; twice {
			w.t.Fatalf("the request for %s was made twice", f.ResponseID)
		}
		w.attempt[f.ResponseID] = f.UsageID
		w.flying[f.ResponseID] = true
	case machine.Poll:
		w.attempt[f.ResponseID] = f.UsageID
		w.flying[f.ResponseID] = true
	case machine.Summarize:
		if _, twice := w.spent[f.UsageID]; twice {
			w.t.Fatalf("two requests of summaries are billed as %s", f.UsageID)
		}
		w.spent[f.UsageID] = false
		w.writing[machine.SummaryKey{TaskID: f.Context.TaskID, Attempt: f.Attempt, Index: f.Index}] = true
	case machine.RunTool:
		w.ran[f.ResultID]++
		if again := w.ran[f.ResultID] > 1; again && !w.safe[f.ResultID] || again != f.Replayed {
			w.t.Fatalf("call %s of result %s was started %d times, replay %t", f.Call.Name, f.ResultID, w.ran[f.ResultID], f.Replayed)
		}
		stored, ok := w.cell(register.OpToolArgs, machine.ToolArgsKey(w.current(), f.StepID, f.SourceIndex))
		if !ok || stored.Value.String() != f.Arguments.String() {
			w.t.Fatalf("call %s starts with %s and %s is stored", f.Call.Name, f.Arguments, stored.Value)
		}
		w.flying[f.ResultID] = true
	}
}

func (w *world) current() id.OpID {
	st, _ := w.strandState()
	return st.CurrentOperation
}

// calls are the calls that the open run works on.
func (w *world) calls() machine.Batch {
	tools, _ := w.run().Phase.(machine.RunningTools)
	return tools.Batch
}

func (w *world) resultID(sourceIndex int) id.EntryID {
	for _, c := range w.calls().Calls {
		if c.SourceIndex == sourceIndex {
			return c.ResultID
		}
	}
	return id.EntryID{}
}

// orphan reports the first awaited effect that has no live worker; nil when all have one.
func (w *world) orphan(key machine.Key) machine.Observation {
	switch k := key.(type) {
	case machine.ResponseKey:
		if !w.flying[k.ResponseID] {
			return machine.OrphanedResponse(k)
		}
	case machine.CallsKey:
		for _, n := range k.SourceIndexes {
			if w.flying[w.resultID(n)] {
				continue
			}
			o := machine.OrphanedCall{SourceIndex: n}
			if args, ok := w.cell(register.OpToolArgs, machine.ToolArgsKey(w.current(), k.StepID, n)); ok {
				o.Arguments = &args.Value
			}
			source := w.response(w.calls().AssistantID)
			o.StillSafe = w.replay[source.Content[n].(message.ToolCall).Name] == machine.ReplaySafe
			return o
		}
	case machine.SummaryKey:
		if !w.writing[k] {
			return machine.OrphanedSummary(k)
		}
	case machine.AdmissionKey, machine.ClearanceKey, machine.PollAdmissionKey, machine.MeasureKey, machine.VerdictKey, machine.SummaryAdmissionKey,
		machine.RunStartKey, machine.RunEndKey:
	}
	return nil
}

// check holds after every commit.
func (w *world) check() {
	owner := w.owned()
	for _, key := range w.keys(register.PendingEntry) {
		i, err := id.ParseEntryID(key)
		w.must(err)
		if _, placed := w.rows[i]; placed {
			w.t.Fatalf("%s is queued and in the tree", i)
		}
		if !owner[i] {
			w.t.Fatalf("nobody owns the pending entry %s", i)
		}
		delete(owner, i)
	}
	for i := range owner {
		w.t.Fatalf("%s is owned and has no pending entry", i)
	}
	w.registersFit()

	leaf, _ := w.leaf()
	if _, known := w.rows[leaf]; !known && !leaf.IsZero() {
		w.t.Fatalf("the leaf %s is no entry", leaf)
	}
	paid := map[id.EntryID]int{}
	for _, row := range w.ledger {
		if row.EntryID.IsZero() {
			if _, reserved := w.spent[row.ID]; !reserved {
				w.t.Fatalf("%s pays for nothing that was reserved", row.ID)
			}
			w.spent[row.ID] = true
			continue
		}
		paid[row.EntryID]++
		if reserved, ok := w.attempt[row.EntryID]; ok && reserved != row.ID {
			w.t.Fatalf("attempt %s is billed as %s, reserved was %s", row.EntryID, row.ID, reserved)
		}
	}
	for i, e := range w.rows {
		m := e.Body
		want := 0
		switch body := m.(type) {
		case entry.Message:
			switch r := body.Message.(type) {
			case *message.Assistant:
				want = 1
				if (r.StopReason == message.Deferred) != (r.Deferred != nil) {
					w.t.Fatalf("entry %s has the stop reason %s and the handle %v", i, r.StopReason, r.Deferred)
				}
			case *message.ToolResult:
				if r.Usage != nil {
					want = 1
				}
			}
		case entry.Compaction:
			if body.Usage != nil {
				want = 1
			}
		case entry.BranchSummary:
			if body.Usage != nil {
				want = 1
			}
		}
		if paid[i] != want {
			w.t.Fatalf("entry %s has %d rows in the ledger, want %d", i, paid[i], want)
		}
		delete(paid, i)
	}
	if len(paid) > 0 {
		w.t.Fatalf("the ledger bills what is no entry: %v", paid)
	}
}

// owned are the ids that must have a pending entry.
func (w *world) owned() map[id.EntryID]bool {
	owned := map[id.EntryID]bool{}
	own := func(list ...[]id.EntryID) {
		for _, l := range list {
			for _, i := range l {
				if owned[i] {
					w.t.Fatalf("%s is owned twice", i)
				}
				owned[i] = true
			}
		}
	}
	st, _ := w.strandState()
	own(st.PendingNextRun)
	if _, state, _, ok := w.operation(); ok {
		inbox := w.run().Inbox
		own(inbox.Steer, inbox.FollowUp, inbox.Writes)
		if c, cancelled := state.Control.(machine.CancelRequested); cancelled {
			own(c.DrainedSteer, c.DrainedFollows)
		}
	}
	for _, c := range w.calls().Calls {
		if _, staged := c.Status.(machine.OutcomeReady); staged {
			own([]id.EntryID{c.ResultID})
		}
	}
	return owned
}

// registersFit checks that an operation has its registers while it is open and none after, and that every payload is read and written as it stands.
func (w *world) registersFit() {
	var open []string
	if op := w.current(); !op.IsZero() {
		open = []string{op.String()}
	}
	for _, ns := range []register.Namespace{register.OpMeta, register.OpState} {
		if got := w.keys(ns); !slices.Equal(got, open) {
			w.t.Fatalf("%s has the keys %v, want %v", ns, got, open)
		}
	}
	for _, key := range append(w.keys(register.OpToolArgs), w.keys(register.OpPreparation)...) {
		if len(open) == 0 || !strings.HasPrefix(key, open[0]+":") {
			w.t.Fatalf("a cell %s is left over", key)
		}
	}
	for _, c := range codecs() {
		for _, key := range w.keys(c.namespace) {
			cell, _ := w.cell(c.namespace, key)
			again, _, err := c.decode(cell.Value)
			w.must(err)
			if again.String() != cell.Value.String() {
				w.t.Fatalf("%s is written again as another text:\n was %s\n now %s", c.namespace, cell.Value, again)
			}
		}
	}
}

// finished holds once a run has ended.
func (w *world) finished(op machine.Operation, r machine.LastResult) {
	leaf, _ := w.leaf()
	if r.LeafID != leaf || r.OperationID != op.ID {
		w.t.Fatalf("the result speaks of %s at %s, the strand is at %s after %s", r.OperationID, r.LeafID, leaf, op.ID)
	}
	fact, _ := w.cell(register.FactCustom, machine.ResultKey(op.ID))
	last, _ := w.cell(register.StrandLastResult, strand)
	if fact.Value.String() != last.Value.String() || coretest.Diff(w.lastResult(), r) != "" {
		w.t.Fatalf("result %s, fact %s, action %s", last.Value, fact.Value, r.Value())
	}
	for response, row := range w.attempt {
		n := 0
		for _, l := range w.ledger {
			if l.ID == row && l.EntryID == response {
				n++
			}
		}
		if n != 1 {
			w.t.Fatalf("attempt %s has %d rows in the ledger", response, n)
		}
	}
	for u, paid := range w.spent {
		if !paid {
			w.t.Fatalf("the request billed as %s was not paid", u)
		}
	}
	waits := map[id.EntryID]bool{}
	for _, q := range w.listed() {
		waits[q.ID] = q.Queue == machine.QueueNextRun
	}
	for i := range w.queued {
		if _, placed := w.rows[i]; !waits[i] && !placed {
			w.t.Fatalf("the queued %s is lost", i)
		}
	}
	w.callsAnswered(w.branch(leaf))
}

// callsAnswered checks that every call has its result.
func (w *world) callsAnswered(path []entry.Entry) {
	if open := w.openCalls(path); len(open) > 0 {
		w.t.Fatalf("the run ended with calls without results: %v", open)
	}
}

// openCalls are the calls at the end of a path that have no result yet. Before its end the results of a response follow it, one for each call, in its order.
func (w *world) openCalls(path []entry.Entry) (want []message.ToolCall) {
	for _, e := range path {
		body, _ := e.Body.(entry.Message)
		if r, ok := body.Message.(*message.ToolResult); ok {
			if len(want) == 0 || want[0].ID != r.ToolCallID || want[0].Name != r.ToolName {
				w.t.Fatalf("result %s of %s answers no call that is open: %v", e.ID, r.ToolCallID, want)
			}
			want = want[1:]
			continue
		}
		if len(want) > 0 {
			w.t.Fatalf("entry %s follows calls without results: %v", e.ID, want)
		}
		if a, ok := body.Message.(*message.Assistant); ok && kept(a) {
			want, _ = a.ToolCalls()
		}
	}
	return want
}
