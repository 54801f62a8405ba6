package machine_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine"
	"pgregory.net/rapid"
)

func TestBackoffVectors(t *testing.T) {
	failed, err := id.ParseEntryID("019b76da-a800-7cc1-beeb-8da1658eec67")
	if err != nil {
		t.Fatal(err)
	}
	policy := machine.RetryPolicy{BaseDelayMs: 1000, MaxDelayMs: 60000}
	for n, want := range map[int64]int64{1: 946, 2: 1698, 3: 2392, 30: 49025} {
		if got := machine.Backoff(policy, n, failed); got != want {
			t.Errorf("after attempt %d: %d ms, want %d", n, got, want)
		}
	}
}

func TestBackoffKeepsToItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, n, failed := genRetry().Draw(t, "policy"), rapid.Int64().Draw(t, "attempt"), coretest.EntryID().Draw(t, "failed")
		got := machine.Backoff(p, n, failed)
		limit := max(p.MaxDelayMs, 0)
		if n <= 1 && p.BaseDelayMs < limit {
			limit = max(p.BaseDelayMs, 0)
		}
		if got < 0 || got > limit || n <= 1 && got < limit/2 {
			t.Errorf("policy %+v, attempt %d: %d ms, want at most %d", p, n, got, limit)
		}
		if again := machine.Backoff(p, n, failed); again != got {
			t.Errorf("%d ms, and then %d", got, again)
		}
	})
}

// aim generates the reports that fit what a state awaits.
func aim(st machine.State, source *message.Assistant) *rapid.Generator[machine.Observation] {
	if s, ok := st.Summary(); ok {
		return aimSummary(s)
	}
	run, ok := st.Work.(*machine.Run)
	if !ok {
		return genObservation()
	}
	switch phase := run.Phase.(type) {
	case machine.Generating:
		g, pending := phase.Generation.(machine.GenPending)
		if !pending {
			break
		}
		return rapid.Custom(func(t *rapid.T) machine.Observation {
			if rapid.Bool().Draw(t, "lost") {
				return machine.OrphanedResponse{ResponseID: g.ResponseID}
			}
			m := coretest.Assistant().Draw(t, "response")
			m.RawStopReason = rapid.SampledFrom([]*string{nil, new("retryable")}).Draw(t, "raw")
			if m.Deferred != nil && rapid.Bool().Draw(t, "valid") {
				model := g.Context.Configuration.Model
				m.Deferred.Provider, m.Deferred.ModelID, m.Deferred.API = model.Provider, model.ModelID, g.RequestAPI
			}
			return machine.Responded{ResponseID: g.ResponseID, Message: m}
		})
	case machine.RunningTools:
		if source == nil || len(phase.Batch.Calls) == 0 {
			break
		}
		return rapid.Custom(func(t *rapid.T) machine.Observation {
			c := rapid.SampledFrom(phase.Batch.Calls).Draw(t, "call")
			r := coretest.ToolResult().Draw(t, "result")
			fits := []machine.Observation{
				machine.Cleared{SourceIndex: c.SourceIndex, Replay: machine.ReplaySafe}, machine.Refused{SourceIndex: c.SourceIndex, Result: r, Terminate: true},
				machine.Asked{SourceIndex: c.SourceIndex, Reason: words.PausedOnPlan, Subject: jsonv.Str("x"), AnswerWithin: 5, Window: words.ExpiredApproval, ParkFor: 7},
			}
			if _, flying := c.Status.(machine.InFlight); flying {
				fits = []machine.Observation{
					machine.ToolSettled{SourceIndex: c.SourceIndex, Result: r, Terminate: true}, machine.OrphanedCall{SourceIndex: c.SourceIndex},
					machine.OrphanedCall{SourceIndex: c.SourceIndex, Arguments: new(jsonv.Obj()), StillSafe: true},
				}
			}
			return rapid.SampledFrom(fits).Draw(t, "observation")
		})
	case machine.AwaitingDeferred:
		return rapid.Custom(func(t *rapid.T) machine.Observation {
			m := coretest.Assistant().Draw(t, "response")
			return rapid.SampledFrom([]machine.Observation{
				machine.OrphanedResponse{ResponseID: phase.Deferred.ResponseID}, machine.Responded{ResponseID: phase.Deferred.ResponseID, Message: m},
				machine.Admitted{}, machine.AdmissionRefused{Error: failure},
			}).Draw(t, "observation")
		})
	case machine.Starting:
		return rapid.Just[machine.Observation](machine.RunStarting{Entries: []machine.PendingEntry{machine.PendingMessage(text("first"))}})
	case machine.AtCheckpoint:
		return rapid.SampledFrom([]machine.Observation{machine.RunEnding{}, machine.RunEnding{FollowUp: new(machine.PendingMessage(text("more")))}})
	case machine.Compacting, machine.FailureDrain:
	}
	return genObservation()
}

func aimSummary(s machine.Structural) *rapid.Generator[machine.Observation] {
	fits := []machine.Observation{machine.Admitted{}, machine.AdmissionRefused{Error: failure}}
	for _, c := range []machine.SummaryChoice{machine.DeclineSummary{}, machine.SupplySummary{Usage: new(usage.Zero())}, machine.WriteSummary{}} {
		fits = append(fits, machine.Verdict{TaskID: s.TaskID, Choice: c})
	}
	if g, ok := s.Generation.(machine.SummaryPending); ok && g.Request != nil {
		fits = append(fits, machine.OrphanedSummary{TaskID: s.TaskID, Attempt: g.Attempt, Index: g.Request.Index})
		tooLong := machine.SummaryFailed{Error: machine.OperationError{Code: machine.CodeContextOverflow}}
		for _, r := range []machine.SummaryResult{
			machine.SummaryProduced{Summary: "all"}, machine.SummaryContinues{Messages: math.MaxInt64}, machine.SummaryContinues{}, machine.SummaryFailed{Retryable: true}, tooLong,
		} {
			fits = append(fits, machine.Summarized{TaskID: s.TaskID, Attempt: g.Attempt, Index: g.Request.Index, Result: r})
		}
	}
	return rapid.SampledFrom(fits)
}

// genInputs generates what a pass may have loaded for a state: mostly what it names, sometimes not.
func genInputs(st machine.State) *rapid.Generator[machine.Inputs] {
	return rapid.Custom(func(t *rapid.T) machine.Inputs {
		in := machine.Inputs{
			Now: rapid.Int64().Draw(t, "now"), IDs: ids(rapid.IntRange(0, 1<<20).Draw(t, "ids")), StateSeq: rapid.Int64Range(1, 1<<40).Draw(t, "stateSeq"),
			Strand: genStrandState().Draw(t, "strand"), StrandSeq: rapid.Int64Range(1, 1<<40).Draw(t, "strandSeq"), Leaf: coretest.MaybeEntryID().Draw(t, "leaf"),
			Configuration: genConfiguration().Draw(t, "configuration"), ConfigurationSeq: rapid.Int64Range(0, 3).Draw(t, "configurationSeq"),
			StreamOptions: coretest.Value().Draw(t, "streamOptions"), RetryPolicy: genRetry().Draw(t, "retryPolicy"),
			Pending: map[id.EntryID]machine.PendingEntry{}, ProjectedCustom: map[string]bool{"": rapid.Bool().Draw(t, "projected")},
			ToolArgsKeys: rapid.SliceOfN(coretest.Text(), 0, 2).Draw(t, "toolArgsKeys"), PreparationKeys: rapid.SliceOfN(coretest.Text(), 0, 2).Draw(t, "preparationKeys"),
		}
		if rapid.IntRange(0, 3).Draw(t, "source") > 0 {
			in.BatchSource = coretest.Assistant().Draw(t, "batchSource")
		}
		if rapid.IntRange(0, 3).Draw(t, "deferred") > 0 {
			in.DeferredSource = coretest.Assistant().Draw(t, "deferredSource")
		}
		if rapid.IntRange(0, 3).Draw(t, "prepared") > 0 {
			in.Preparation = genPreparation().Draw(t, "preparation")
		}
		if rapid.IntRange(0, 3).Draw(t, "measured") > 0 {
			in.Measure = &machine.Measure{Leaf: in.Leaf, Tokens: count().Draw(t, "tokens"), Window: count().Draw(t, "window")}
			in.Measure.Preparation, _ = in.Preparation.(*machine.CompactionPreparation)
		}
		in.Hooks = machine.Hooks{RunStart: rapid.Bool().Draw(t, "runStart"), RunEnd: rapid.Bool().Draw(t, "runEnd")}
		run, ok := st.Work.(*machine.Run)
		if !ok {
			if rapid.Bool().Draw(t, "observation") {
				in.Observation = aim(st, nil).Draw(t, "aimed")
			}
			return in
		}
		named := slices.Concat(run.Inbox.Steer, run.Inbox.FollowUp, run.Inbox.Writes)
		if tools, ok := run.Phase.(machine.RunningTools); ok {
			for _, c := range tools.Batch.Calls {
				in.Pending[c.ResultID] = machine.PendingMessage(coretest.ToolResult().Draw(t, "staged"))
			}
			if in.BatchSource != nil && rapid.IntRange(0, 3).Draw(t, "calls") > 0 {
				in.BatchSource.Content = nil
				for range 5 {
					in.BatchSource.Content = append(in.BatchSource.Content, coretest.ToolCall().Draw(t, "call"))
				}
			}
		}
		for _, i := range named {
			if rapid.IntRange(0, 7).Draw(t, "there") > 0 {
				in.Pending[i] = genPending().Draw(t, "pending")
			}
		}
		switch rapid.IntRange(0, 2).Draw(t, "observation") {
		case 0:
		case 1:
			in.Observation = genObservation().Draw(t, "any")
		case 2:
			in.Observation = aim(st, in.BatchSource).Draw(t, "aimed")
		}
		return in
	})
}

// planned is what an action would commit.
func planned(a machine.Action) (next *machine.State, t tx.Tx, ok bool) {
	switch a := a.(type) {
	case machine.Transition:
		return &a.Next, a.Tx, true
	case machine.Dispatch:
		return &a.Next, a.Tx, true
	case machine.Finish:
		return nil, a.Tx, true
	case machine.AwaitEffect, machine.Wait, machine.Park, machine.Fault:
	}
	return nil, tx.Tx{}, false
}

// decided fails unless the action is one, is the same when asked again, expects what it must and leaves a state that can be read.
func decided(t rapid.TB, op machine.Operation, st machine.State, in machine.Inputs) machine.Action {
	a := machine.NextAction(op, st, in)
	if a == nil {
		t.Fatalf("no action for %s", st.Value())
	}
	if !reflect.DeepEqual(a, machine.NextAction(op, st, in)) {
		t.Fatalf("two actions for %s", st.Value())
	}
	next, plan, commits := planned(a)
	if !commits {
		return a
	}
	if want := tx.Expect(register.OpState, op.ID.String(), in.StateSeq); len(plan.Expected) == 0 || plan.Expected[0] != want {
		t.Fatalf("expects %v, not %v first", plan.Expected, want)
	}
	finish := next == nil
	if finish != slices.Contains(plan.Expected, tx.Expect(register.StrandState, op.Strand, in.StrandSeq)) {
		t.Fatalf("%T expects %v", a, plan.Expected)
	}
	if finish {
		return a
	}
	read, err := machine.DecodeState(parseText(next.Value().String()))
	if err != nil {
		t.Fatalf("the next state cannot be read: %v\n%s", err, next.Value())
	}
	if d := coretest.Diff(*next, read); d != "" {
		t.Fatalf("the next state is read as another:\n%s", d)
	}
	return a
}

func TestEveryStateHasAnAction(t *testing.T) {
	for _, g := range phases() {
		t.Run(g.name, func(t *testing.T) {
			seen := map[string]int{}
			rapid.Check(t, func(t *rapid.T) {
				st := genState(g.gen).Draw(t, "state")
				op := machine.Operation{ID: opID(1), Strand: strand, Intent: machine.RunIntent{}}
				a := decided(t, op, st, genInputs(st).Draw(t, "inputs"))
				seen[reflect.TypeOf(a).Name()]++
			})
			t.Log(seen)
		})
	}
	for n, kind := range []string{"compaction", "navigation"} {
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				st := genStructuralState(n == 1).Draw(t, "state")
				op := machine.Operation{ID: opID(1), Strand: strand, Intent: machine.CompactionIntent{}}
				if n == 1 {
					op.Intent = machine.NavigationIntent{}
				}
				decided(t, op, st, genInputs(st).Draw(t, "inputs"))
			})
		})
	}
	t.Run("of another kind", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			st := genStructuralState(rapid.Bool().Draw(t, "navigation")).Draw(t, "state")
			op := machine.Operation{ID: opID(1), Strand: strand, Intent: machine.RunIntent{}}
			if a, ok := decided(t, op, st, genInputs(st).Draw(t, "inputs")).(machine.Fault); !ok {
				t.Fatalf("%T", a)
			}
		})
	})
}

// FuzzNextAction decides from any text that is an operation and a state.
func FuzzNextAction(f *testing.F) {
	op := operations()[0].value.Value().String()
	for _, s := range states() {
		for n := range 16 {
			f.Add(op, s.value.Value().String(), uint8(n), int64(epoch), 0)
		}
	}
	f.Fuzz(func(t *testing.T, opText, stText string, kind uint8, now int64, index int) {
		opValue, err1 := jsonv.ParseString(opText)
		stValue, err2 := jsonv.ParseString(stText)
		if err1 != nil || err2 != nil {
			return
		}
		op, err1 := machine.DecodeOperation(opValue)
		st, err2 := machine.DecodeState(stValue)
		if err1 != nil || err2 != nil {
			return
		}
		in := machine.Inputs{
			Now: now, IDs: ids(1), StateSeq: 1, StrandSeq: 2, ConfigurationSeq: 3, Leaf: entryID(1), Configuration: config, Pending: map[id.EntryID]machine.PendingEntry{},
		}
		var response id.EntryID
		in.Preparation = preparations()[kind%3].value
		in.Measure = &machine.Measure{Leaf: in.Leaf, Tokens: now, Window: int64(index)}
		in.Measure.Preparation, _ = in.Preparation.(*machine.CompactionPreparation)
		in.DeferredSource = &message.Assistant{Deferred: &message.DeferredHandle{ID: "x"}}
		s, _ := st.Summary()
		if run, ok := st.Work.(*machine.Run); ok {
			for _, i := range slices.Concat(run.Inbox.Steer, run.Inbox.FollowUp, run.Inbox.Writes) {
				in.Pending[i] = machine.PendingMessage(text("queued"))
			}
			switch phase := run.Phase.(type) {
			case machine.Generating:
				if g, ok := phase.Generation.(machine.GenPending); ok {
					response = g.ResponseID
				}
			case machine.RunningTools:
				in.BatchSource = &message.Assistant{StopReason: message.ToolUse}
				for range 6 {
					in.BatchSource.Content = append(in.BatchSource.Content, message.ToolCall{ID: "c", Name: "read", Arguments: jsonv.Obj()})
				}
				for _, c := range phase.Batch.Calls {
					in.Pending[c.ResultID] = machine.PendingMessage(&message.ToolResult{})
				}
			case machine.AwaitingDeferred:
				response = phase.Deferred.ResponseID
			case machine.Starting, machine.AtCheckpoint, machine.Compacting, machine.FailureDrain:
			}
		}
		calls := []message.AssistantBlock{message.ToolCall{ID: "c", Name: "read", Arguments: jsonv.Obj()}}
		in.Observation = []machine.Observation{
			nil, machine.Admitted{OutputLimit: now}, machine.AdmissionRefused{}, machine.OrphanedResponse{ResponseID: response},
			machine.Responded{ResponseID: response, Message: &message.Assistant{StopReason: message.ToolUse, Content: calls}},
			machine.Responded{ResponseID: response, Message: &message.Assistant{StopReason: message.Error, RawStopReason: new("retryable")}},
			machine.Cleared{SourceIndex: index}, machine.ToolSettled{SourceIndex: index, Result: &message.ToolResult{}}, machine.OrphanedCall{SourceIndex: index},
			machine.Asked{SourceIndex: index, Reason: words.PausedOnApproval}, machine.Verdict{TaskID: s.TaskID, Choice: machine.WriteSummary{}},
			machine.Verdict{TaskID: s.TaskID, Choice: machine.SupplySummary{}}, machine.Verdict{TaskID: s.TaskID, Choice: machine.DeclineSummary{}},
			aimedSummary(s, machine.SummaryProduced{}), aimedSummary(s, machine.SummaryContinues{Messages: now}), aimedSummary(s, machine.SummaryFailed{Retryable: true}),
		}[kind%16]
		decided(t, op, st, in)
	})
}

// aimedSummary reports about the request that a state waits for.
func aimedSummary(s machine.Structural, r machine.SummaryResult) machine.Observation {
	g, _ := s.Generation.(machine.SummaryPending)
	if g.Request == nil {
		return machine.OrphanedSummary{TaskID: s.TaskID, Attempt: g.Attempt}
	}
	return machine.Summarized{TaskID: s.TaskID, Attempt: g.Attempt, Index: g.Request.Index, Result: r}
}

// TestWhatDoesNotFitIsAFault pins the cases in which durable state and a report contradict each other. Nothing is committed then.
func TestWhatDoesNotFitIsAFault(t *testing.T) {
	pending := state("run/assistant/effect_pending")
	responded := func(m *message.Assistant) machine.Observation {
		return machine.Responded{ResponseID: entryID(7), Message: m}
	}
	tools := func(c machine.Call) machine.State {
		return run(machine.RunningTools{Batch: machine.Batch{AssistantID: entryID(7), Configuration: config, TurnID: "t", Calls: []machine.Call{c}}})
	}
	staged := tools(machine.Call{ResultID: entryID(20), Status: machine.OutcomeReady{}})
	planned := tools(machine.Call{ResultID: entryID(20), Status: machine.Planned{}})
	flying := tools(machine.Call{ResultID: entryID(20), Status: machine.InFlight{Replay: machine.ReplaySafe}})
	missing := tools(machine.Call{SourceIndex: 3, ResultID: entryID(20), Status: machine.Planned{}})
	queue := run(machine.AtCheckpoint{Checkpoint: checkpoint})
	queue.Work.(*machine.Run).Phase = machine.AtCheckpoint{Checkpoint: machine.Checkpoint{Continuation: machine.MayFinish{}, Trigger: entryID(1)}}
	queue.Work.(*machine.Run).Inbox.FollowUp = entries(9)
	source := func(in *machine.Inputs) {
		in.BatchSource = &message.Assistant{StopReason: message.ToolUse, Content: []message.AssistantBlock{message.ToolCall{ID: "c", Name: "read"}}}
	}
	result := &message.ToolResult{}
	cases := map[string]struct {
		st  machine.State
		set func(*machine.Inputs)
		see machine.Observation
	}{
		"a state of another kind":                {st: state("navigation/unsummarised")},
		"a start without an entry":               {st: run(machine.Starting{}), set: func(in *machine.Inputs) { in.Leaf = id.EntryID{} }},
		"no configuration":                       {st: run(machine.AtCheckpoint{Checkpoint: checkpoint}), set: func(in *machine.Inputs) { in.ConfigurationSeq, in.Measure = 0, &machine.Measure{Leaf: in.Leaf} }},
		"queued input without its entry":         {st: queue},
		"an aborted response and no abort":       {st: pending, see: responded(&message.Assistant{StopReason: message.Aborted})},
		"a response that has not settled":        {st: pending, see: responded(&message.Assistant{StopReason: message.Pending})},
		"a response without a stop reason":       {st: pending, see: responded(&message.Assistant{})},
		"no response":                            {st: pending, see: responded(nil)},
		"the response of another attempt":        {st: pending, see: machine.Responded{ResponseID: entryID(8), Message: &message.Assistant{StopReason: message.Stop}}},
		"the loss of another attempt":            {st: pending, see: machine.OrphanedResponse{ResponseID: entryID(8)}},
		"a call instead of a response":           {st: pending, see: machine.Cleared{}},
		"a response that nobody asked for":       {st: state("run/assistant/ready"), see: responded(&message.Assistant{StopReason: message.Stop})},
		"calls without their response":           {st: planned, see: machine.Cleared{}},
		"a call that the response lacks":         {st: missing, set: source},
		"clearance of what the response has not": {st: missing, set: source, see: machine.Cleared{SourceIndex: 3}},
		"a refusal of what it has not":           {st: missing, set: source, see: machine.Refused{SourceIndex: 3, Result: result}},
		"clearance of a call in flight":          {st: flying, set: source, see: machine.Cleared{}},
		"clearance of a settled call":            {st: staged, set: source, see: machine.Cleared{}},
		"a refusal of a call in flight":          {st: flying, set: source, see: machine.Refused{Result: result}},
		"a refusal without a result":             {st: planned, set: source, see: machine.Refused{}},
		"a settlement without a result":          {st: flying, set: source, see: machine.ToolSettled{}},
		"a settlement of a planned call":         {st: planned, set: source, see: machine.ToolSettled{Result: result}},
		"a second settlement":                    {st: staged, set: source, see: machine.ToolSettled{Result: result}},
		"the loss of a planned call":             {st: planned, set: source, see: machine.OrphanedCall{}},
		"the loss of a call of another index":    {st: flying, set: source, see: machine.OrphanedCall{SourceIndex: 1}},
		"a response instead of a call":           {st: flying, set: source, see: responded(&message.Assistant{StopReason: message.Stop})},
		"a staged result without its entry":      {st: staged, set: source},
		"a staged result that is none": {st: staged, set: func(in *machine.Inputs) {
			source(in)
			in.Pending[entryID(20)] = machine.PendingMessage(text("x"))
		}},
	}
	for name, c := range cases {
		in := machine.Inputs{
			Now: epoch, IDs: ids(1), StateSeq: 1, StrandSeq: 2, Leaf: entryID(1), Configuration: config, ConfigurationSeq: 3,
			Pending: map[id.EntryID]machine.PendingEntry{}, Observation: c.see,
		}
		if c.set != nil {
			c.set(&in)
		}
		f, ok := decided(t, operations()[0].value, c.st, in).(machine.Fault)
		if !ok {
			t.Errorf("%s is no fault", name)
		} else if f.Report.Boundary != "machine.NextAction" || f.Report.Expected == "" {
			t.Errorf("%s: %v", name, f.Report)
		}
	}
}

// TestAnEmptyBatchGoesOn: no response that settles leaves one, but a row may hold it.
func TestAnEmptyBatchGoesOn(t *testing.T) {
	st := run(machine.RunningTools{Batch: machine.Batch{AssistantID: entryID(7), Configuration: config}})
	in := machine.Inputs{StateSeq: 1, BatchSource: &message.Assistant{}, Leaf: entryID(7)}
	a, ok := decided(t, operations()[0].value, st, in).(machine.Transition)
	if !ok {
		t.Fatalf("%T", a)
	}
	want := machine.AtCheckpoint{Checkpoint: machine.Checkpoint{Continuation: machine.NeedAssistant{}, Trigger: entryID(7)}}
	if d := coretest.Diff(want, a.Next.Work.(*machine.Run).Phase); d != "" {
		t.Error(d)
	}
}

// TestACallThatNobodyCalledSafeIsNeverRunAgain: also where a toolbox forgot to say.
func TestACallThatNobodyCalledSafeIsNeverRunAgain(t *testing.T) {
	st := run(machine.RunningTools{Batch: machine.Batch{AssistantID: entryID(7), Configuration: config, TurnID: "t", Calls: []machine.Call{
		{ResultID: entryID(20), Status: machine.Planned{}},
	}}})
	source := &message.Assistant{StopReason: message.ToolUse, Content: []message.AssistantBlock{message.ToolCall{ID: "c", Name: "read"}}}
	for said, want := range map[machine.Replay]machine.Replay{
		"": machine.ReplayNever, "perhaps": machine.ReplayNever, machine.ReplayNever: machine.ReplayNever, machine.ReplaySafe: machine.ReplaySafe,
	} {
		in := machine.Inputs{StateSeq: 1, BatchSource: source, Leaf: entryID(7), Observation: machine.Cleared{Replay: said}}
		d := decided(t, operations()[0].value, st, in).(machine.Dispatch)
		got := d.Next.Work.(*machine.Run).Phase.(machine.RunningTools).Batch.Calls[0].Status
		if got != machine.CallStatus(machine.InFlight{Replay: want}) {
			t.Errorf("%q is kept as %v", said, got)
		}
	}
}

// TestALostCallIsRunAgainOnlyWhenAllAgree: the policy at its start, the tool as it is now, arguments that are still there, and no abort.
func TestALostCallIsRunAgainOnlyWhenAllAgree(t *testing.T) {
	source := &message.Assistant{StopReason: message.ToolUse, Content: []message.AssistantBlock{message.ToolCall{ID: "c", Name: "read"}}}
	for n := range 16 {
		replay, control := machine.ReplayNever, machine.Control(machine.CancelRequested{})
		o := machine.OrphanedCall{StillSafe: n&1 > 0}
		if n&2 > 0 {
			o.Arguments = new(jsonv.Obj())
		}
		if n&4 > 0 {
			replay = machine.ReplaySafe
		}
		if n&8 > 0 {
			control = machine.Running{}
		}
		st := run(machine.RunningTools{Batch: machine.Batch{AssistantID: entryID(7), Configuration: config, Calls: []machine.Call{
			{ResultID: entryID(20), Status: machine.InFlight{Replay: replay}},
		}}})
		st.Control = control
		a := decided(t, operations()[0].value, st, machine.Inputs{StateSeq: 1, BatchSource: source, Leaf: entryID(7), Observation: o})
		d, again := a.(machine.Dispatch)
		if again != (n == 15) {
			t.Errorf("case %04b: run again is %t", n, again)
		}
		if again && (len(d.Tx.Writes) > 0 || coretest.Diff(st, d.Next) != "") {
			t.Errorf("running again writes %v", d.Tx.Writes)
		}
	}
}

func TestAdmissionIsOfRunsOnly(t *testing.T) {
	for _, s := range states() {
		if _, ok := s.value.Work.(*machine.Run); ok {
			continue
		}
		op := operations()[1].value
		if _, _, err := machine.Admit(op, s.value, 1, machine.QueueWrites, machine.PendingMessage(text("x")), ids(1)); err != machine.ErrNoActiveRun {
			t.Errorf("%s takes input: %v", s.name, err)
		}
		if _, err := machine.Withdraw(op, s.value, 1, entryID(1)); err != machine.ErrNotPending {
			t.Errorf("%s has input: %v", s.name, err)
		}
		plan, changed := machine.RequestAbort(op, s.value, 1, 5)
		if !changed || len(plan.Writes) != 1 {
			t.Errorf("%s cannot be aborted", s.name)
		}
	}
}

func TestAcceptanceRefusesAQueuedEntryThatIsNotThere(t *testing.T) {
	in := machine.AcceptInputs{Strand: strand, IDs: ids(1), State: machine.StrandState{PendingNextRun: entries(1)}, Prompts: []message.Message{text("x")}}
	if _, _, plan, err := machine.AcceptRun(in); err == nil || len(plan.Writes) > 0 {
		t.Errorf("%v, %v", err, plan)
	}
	in.Pending = map[id.EntryID]machine.PendingEntry{entryID(1): {Body: entry.Custom{Type: "note"}}}
	if _, _, _, err := machine.AcceptRun(in); err != nil {
		t.Error(err)
	}
}

// TestAHandleMustNameTheRequest: anything else about it is the provider's.
func TestAHandleMustNameTheRequest(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*message.DeferredHandle)
		led   string
	}{
		"the request's":          {func(*message.DeferredHandle) {}, "polled in 10000"},
		"of another provider":    {func(h *message.DeferredHandle) { h.Provider = "other" }, machine.CodeInvalidDeferred},
		"of another model":       {func(h *message.DeferredHandle) { h.ModelID = "other" }, machine.CodeInvalidDeferred},
		"of another interface":   {func(h *message.DeferredHandle) { h.API = "other" }, machine.CodeInvalidDeferred},
		"without an identity":    {func(h *message.DeferredHandle) { h.ID = "" }, machine.CodeInvalidDeferred},
		"with something to keep": {func(h *message.DeferredHandle) { h.Data, h.PollAfterMs = new(jsonv.Str("x")), new(int64(5)) }, "polled in 5"},
	} {
		h := message.DeferredHandle{Provider: config.Model.Provider, ModelID: config.Model.ModelID, API: "openai-completions", ID: "later"}
		c.spoil(&h)
		in := machine.Inputs{Now: epoch, StateSeq: 1, Leaf: entryID(1), Observation: machine.Responded{
			ResponseID: entryID(7), Message: &message.Assistant{StopReason: message.Deferred, Deferred: &h},
		}}
		a := decided(t, operations()[0].value, state("run/assistant/effect_pending"), in).(machine.Transition)
		got := ""
		switch phase := a.Next.Work.(*machine.Run).Phase.(type) {
		case machine.FailureDrain:
			got = phase.Error.Code
		case machine.AwaitingDeferred:
			got = fmt.Sprint("polled in ", phase.Deferred.NotBefore-epoch)
		}
		if got != c.led {
			t.Errorf("a handle %s leads to %s, want %s", name, got, c.led)
		}
	}
}

func TestNoWaitIsLongerThanAYear(t *testing.T) {
	policy := machine.RetryPolicy{BaseDelayMs: math.MaxInt64, MaxDelayMs: math.MaxInt64}
	pending := machine.GenPending{Context: generation, Attempt: 1, ResponseID: entryID(7), UsageID: usageID(1)}
	pending.Context.RetryPolicy = policy
	in := machine.Inputs{Now: epoch, StateSeq: 1, Leaf: entryID(1), Observation: machine.OrphanedResponse{ResponseID: entryID(7)}}
	a := decided(t, operations()[0].value, run(machine.Generating{Generation: pending}), in).(machine.Transition)
	wait := a.Next.Work.(*machine.Run).Phase.(machine.Generating).Generation.(machine.GenRetryWait)
	if year := int64(365 * 24 * 3600 * 1000); wait.NotBefore != epoch+year {
		t.Errorf("waits %d ms", wait.NotBefore-epoch)
	}
}
