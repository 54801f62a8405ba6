package portable

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine"
)

// desk holds the recorded operations and states.
type desk struct {
	operations []machine.Operation
	states     []machine.State
	config     machine.Configuration
}

func (d *desk) take(kind string, v jsonv.Value) {
	switch register.Namespace(kind) {
	case register.OpMeta:
		if op, err := machine.DecodeOperation(v); err == nil {
			d.operations = append(d.operations, op)
		}
	case register.OpState:
		if st, err := machine.DecodeState(v); err == nil {
			d.states = append(d.states, st)
		}
	case register.StrandConfig:
		if c, err := machine.DecodeConfiguration(v); err == nil {
			d.config = c
		}
	case register.StrandLeaf, register.StrandState, register.StrandLastResult, register.OpToolArgs, register.OpPreparation,
		register.PendingEntry, register.FactName, register.FactLabel, register.FactCustom:
	}
}

// decide asks for the next action of every recorded state of every operation,
// for every kind of report.
func (d *desk) decide() (out []Line) {
	for o, op := range d.operations {
		for s, st := range d.states {
			in, response := d.inputs(st)
			var actions []string
			for _, seen := range observations(st, response) {
				actions = append(actions, follow(op, st, in, seen))
			}
			out = append(out, Line{fmt.Sprintf("operation %d in state %d", o, s), strings.Join(actions, "; or else ")})
		}
	}
	return out
}

// follow takes a few steps from a state, as if each commit succeeded: seen is
// consumed by the first.
func follow(op machine.Operation, st machine.State, in machine.Inputs, seen machine.Observation) string {
	var steps []string
	in.Observation = seen
	for range 4 {
		a := machine.NextAction(op, st, in)
		steps = append(steps, action(a))
		next, ok := a.(machine.Transition)
		if !ok {
			break
		}
		st, in.Observation = next.Next, nil
	}
	return strings.Join(steps, "; then ")
}

// inputs are those of one pass over a state: everything that it names is there.
func (d *desk) inputs(st machine.State) (machine.Inputs, id.EntryID) {
	const now = 1767225600500
	minter := id.NewGenerator(clock.Fixed(now), 7)
	leaf, minter := minter.Entry()
	in := machine.Inputs{
		Now: now, IDs: minter, StateSeq: 1, StrandSeq: 2, ConfigurationSeq: 3, Leaf: leaf, Configuration: d.config,
		RetryPolicy:    machine.RetryPolicy{MaxAttempts: new(int64(3)), BaseDelayMs: 1000, MaxDelayMs: 60000},
		Pending:        map[id.EntryID]machine.PendingEntry{},
		DeferredSource: &message.Assistant{StopReason: message.Deferred, Deferred: &message.DeferredHandle{ID: "later"}},
	}
	in.Preparation, in.Measure = prepared, &machine.Measure{Leaf: leaf, Tokens: 190000, Window: 200000, Preparation: prepared}
	if _, navigates := st.Work.(*machine.Navigation); navigates {
		in.Preparation = &machine.BranchPreparation{}
	}
	queued := machine.PendingMessage(&message.User{Content: []message.UserBlock{message.Text{Text: "queued"}}})
	run, ok := st.Work.(*machine.Run)
	if !ok {
		return in, id.EntryID{}
	}
	for _, i := range slices.Concat(run.Inbox.Steer, run.Inbox.FollowUp, run.Inbox.Writes) {
		in.Pending[i] = queued
	}
	var response id.EntryID
	switch phase := run.Phase.(type) {
	case machine.Generating:
		if g, pending := phase.Generation.(machine.GenPending); pending {
			response = g.ResponseID
		}
	case machine.RunningTools:
		in.BatchSource = &message.Assistant{StopReason: message.ToolUse, Content: slices.Repeat([]message.AssistantBlock{call}, 6)}
		for _, c := range phase.Batch.Calls {
			in.Pending[c.ResultID] = machine.PendingMessage(&message.ToolResult{ToolCallID: call.ID, ToolName: call.Name})
		}
	case machine.AwaitingDeferred:
		response = phase.Deferred.ResponseID
	case machine.Starting, machine.AtCheckpoint, machine.Compacting, machine.FailureDrain:
	}
	return in, response
}

var prepared = &machine.CompactionPreparation{TokensBefore: 190000, RetainedTail: []message.Message{&message.User{}}}

var call = message.ToolCall{ID: "c", Name: "read", Arguments: jsonv.Obj()}

func observations(st machine.State, response id.EntryID) []machine.Observation {
	answered := &message.Assistant{StopReason: message.ToolUse, Content: []message.AssistantBlock{call}}
	failed := &message.Assistant{StopReason: message.Error, RawStopReason: new("retryable"), ErrorMessage: new("busy")}
	list := []machine.Observation{
		nil, machine.Admitted{OutputLimit: 8192, ContextWindow: 200000, RequestAPI: "x"},
		machine.AdmissionRefused{Error: machine.OperationError{Code: "no_model", Message: "none"}},
		machine.Responded{ResponseID: response, Message: answered}, machine.Responded{ResponseID: response, Message: failed},
		machine.OrphanedResponse{ResponseID: response}, machine.Cleared{SourceIndex: 5, Arguments: jsonv.Obj(), Replay: machine.ReplaySafe},
		machine.Refused{SourceIndex: 5, Result: &message.ToolResult{IsError: true}},
		machine.ToolSettled{SourceIndex: 4, Result: &message.ToolResult{}, Terminate: true}, machine.OrphanedCall{SourceIndex: 4, StillSafe: true},
		machine.Asked{SourceIndex: 5, Reason: words.PausedOnApproval, ParkFor: 5000},
	}
	s, making := st.Summary()
	if !making {
		return list
	}
	list = append(list, machine.Verdict{TaskID: s.TaskID, Choice: machine.WriteSummary{}}, machine.Verdict{TaskID: s.TaskID, Choice: machine.DeclineSummary{}})
	if g, ok := s.Generation.(machine.SummaryPending); ok && g.Request != nil {
		for _, r := range []machine.SummaryResult{machine.SummaryProduced{Summary: "all"}, machine.SummaryFailed{Retryable: true}} {
			list = append(list, machine.Summarized{TaskID: s.TaskID, Attempt: g.Attempt, Index: g.Request.Index, Result: r})
		}
	}
	return list
}

// action is an action in words and stored texts, all of it that a driver acts on.
func action(a machine.Action) string {
	switch a := a.(type) {
	case machine.Transition:
		return "transition to " + a.Next.Value().String() + transaction(a.Tx)
	case machine.Dispatch:
		return "dispatch " + effect(a.Effect) + ", then " + a.Next.Value().String() + transaction(a.Tx)
	case machine.AwaitEffect:
		return fmt.Sprintf("await %s, until %d", key(a.Key), a.Until)
	case machine.Wait:
		return fmt.Sprintf("wait until %d", a.Until)
	case machine.Park:
		return fmt.Sprintf("park on %d until %d", len(a.Pauses), a.Until)
	case machine.Finish:
		return "finish with " + a.Result.Value().String() + transaction(a.Tx)
	case machine.Fault:
		return "fault: " + a.Report.Error()
	}
	return "no action"
}

func effect(e machine.Effect) string {
	switch e := e.(type) {
	case machine.Generate:
		return fmt.Sprintf("generation %s, attempt %d as %s billed as %s", e.Context.StepID, e.Attempt, e.ResponseID, e.UsageID)
	case machine.Poll:
		return fmt.Sprintf("poll %d as %s billed as %s for %s", e.Deferred.Poll, e.ResponseID, e.UsageID, e.Handle.ID)
	case machine.Summarize:
		return fmt.Sprintf("request %d of summary %s, attempt %d billed as %s", e.Index, e.Context.TaskID, e.Attempt, e.UsageID)
	case machine.RunTool:
		return fmt.Sprintf("call %s %d as %s of %s with %s, replayed %t", e.StepID, e.SourceIndex, e.ResultID, block(e.Call), e.Arguments, e.Replayed)
	}
	return "nothing"
}

func key(k machine.Key) string {
	switch k := k.(type) {
	case machine.AdmissionKey:
		return "admission of " + k.Context.StepID
	case machine.ResponseKey:
		return "response " + k.ResponseID.String()
	case machine.ClearanceKey:
		return fmt.Sprintf("clearance of %s %d, %s", k.StepID, k.SourceIndex, block(k.Call))
	case machine.CallsKey:
		return fmt.Sprintf("calls %s %v", k.StepID, k.SourceIndexes)
	case machine.PollAdmissionKey:
		return "polling of " + k.Handle.ID
	case machine.MeasureKey:
		return fmt.Sprintf("size at %s, limit %d", k.Leaf, k.Settings.Limit(64000))
	case machine.VerdictKey:
		return "verdict on " + k.TaskID + " for the reason " + string(k.Reason)
	case machine.SummaryAdmissionKey:
		return "admission of summary " + k.Context.TaskID
	case machine.SummaryKey:
		return fmt.Sprintf("summary %s %d %d", k.TaskID, k.Attempt, k.Index)
	case machine.RunStartKey:
		return "what comes first"
	case machine.RunEndKey:
		return "whether it goes on"
	}
	return "nothing"
}

func block(b message.Block) string {
	w := &jsonv.Writer{}
	message.AppendBlock(w, b)
	return string(w.Bytes())
}

func transaction(t tx.Tx) string {
	var b strings.Builder
	for _, e := range t.Expected {
		fmt.Fprintf(&b, "; expects %q at %d", e.String(), e.Seq)
	}
	for _, w := range t.Writes {
		switch w := w.(type) {
		case tx.InsertEntry:
			fmt.Fprintf(&b, "; inserts %s", entry.Encode(w.Entry))
		case tx.InsertUsage:
			row := &jsonv.Writer{}
			entry.AppendUsageRow(row, w.Row)
			fmt.Fprintf(&b, "; bills %s", row.Bytes())
		case tx.SetRegister:
			fmt.Fprintf(&b, "; sets %q to %s", w.String(), w.Value)
		case tx.DeleteRegister:
			fmt.Fprintf(&b, "; deletes %q", w.String())
		}
	}
	return b.String()
}
