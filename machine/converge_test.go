package machine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine"
)

// TestACrashAfterAnyCommitConverges plays each story once without trouble and then once for each of its commits, with the process gone right after that
// commit is durable and before anybody heard of it. It must end as it did before: the same outcome, the same conversation, the same results of calls that
// may be run again, no other call run twice, and no request that is not billed.
func TestACrashAfterAnyCommitConverges(t *testing.T) {
	for _, s := range stories() {
		t.Run(s.name, func(t *testing.T) {
			whole := s.play(t, 0)
			if whole.commits < s.atLeast {
				t.Fatalf("the story has %d commits, and was written to have %d", whole.commits, s.atLeast)
			}
			for k := 1; k <= whole.commits; k++ {
				crashed := s.play(t, k)
				if crashed.crashes != 1 {
					t.Fatalf("after commit %d of %d there were %d crashes", k, whole.commits, crashed.crashes)
				}
				if crashed.outcome != whole.outcome || !slices.Equal(crashed.said, whole.said) {
					t.Errorf("a crash after commit %d:\n ends %s %q\n was  %s %q", k, crashed.outcome, crashed.said, whole.outcome, whole.said)
				}
				// A lost request is asked again under another attempt: at most one more is billed.
				if more := crashed.billed - whole.billed; more != 0 && more != 1 {
					t.Errorf("a crash after commit %d: %d rows in the ledger, was %d", k, crashed.billed, whole.billed)
				}
			}
		})
	}
}

// story is a run whose models and tools answer by what the conversation holds, so that they say the same again after a crash.
type story struct {
	name     string
	atLeast  int // commits
	parallel bool
	answers  []message.Assistant     // the nth kept response
	fails    int                     // failures before the first
	before   map[string]func(*world) // what comes in once, when the run first stands at a phase
	open     func(*world) error      // nil: a run of one prompt
	full     bool                    // before its second request the context has no room
	overflow bool                    // the first request does not fit until something was summarised
	deferred bool                    // the first response is deferred, and not there at the first poll
	hooks    machine.Hooks
}

func stories() []story {
	says := func(text string, tools ...string) message.Assistant {
		m := message.Assistant{StopReason: message.Stop, Content: []message.AssistantBlock{message.Text{Text: text}}}
		for n, name := range tools {
			m.Content = append(m.Content, message.ToolCall{ID: fmt.Sprint(text, n), Name: name, Arguments: jsonv.Obj()})
			m.StopReason = message.ToolUse
		}
		return m
	}
	steer := func(w *world) { _, _ = w.admit(machine.QueueSteer, machine.PendingMessage(text("steer"))) }
	follow := func(w *world) { _, _ = w.admit(machine.QueueFollowUp, machine.PendingMessage(text("follow"))) }
	note := func(w *world) {
		_, _ = w.admit(machine.QueueWrites, machine.PendingEntry{Body: entry.Custom{Type: "hidden"}})
	}
	return []story{
		{name: "simple", atLeast: 6, answers: []message.Assistant{says("one")}},
		{name: "tools", atLeast: 16, answers: []message.Assistant{says("one", "read", "deny", "read"), says("two")}},
		{name: "tools in parallel", atLeast: 14, parallel: true, answers: []message.Assistant{says("one", "read", "read", "deny"), says("two", "read"), says("three")}},
		{name: "retry", atLeast: 12, fails: 2, answers: []message.Assistant{says("one")}},
		{name: "queues", atLeast: 16, answers: []message.Assistant{says("one", "read"), says("two"), says("three"), says("four")},
			before: map[string]func(*world){"tools": steer, "checkpoint": follow, "assistant": note}},
		{name: "abort while generating", atLeast: 4, answers: []message.Assistant{says("one")},
			before: map[string]func(*world){"assistant": func(w *world) { w.abort() }}},
		{name: "compaction at the threshold", atLeast: 19, full: true, answers: []message.Assistant{says("one", "read"), says("two")}},
		{name: "compaction after an overflow", atLeast: 14, overflow: true, answers: []message.Assistant{says("one")}},
		{name: "a deferred response", atLeast: 10, deferred: true, answers: []message.Assistant{says("one", "read"), says("two")}},
		{name: "questions", atLeast: 16, parallel: true, answers: []message.Assistant{says("one", "hold", "read", "hold"), says("two")}},
		{name: "hooks", atLeast: 10, hooks: machine.Hooks{RunStart: true, RunEnd: true}, answers: []message.Assistant{says("one"), says("two")}},
		{name: "compaction on request", atLeast: 6, open: func(w *world) error {
			return w.acceptCompaction(&machine.CompactionPreparation{
				MessagesToSummarize: []message.Message{text("old"), text("older")}, RetainedTail: []message.Message{text("new")},
			}, new("short"))
		}},
		{name: "navigation with a summary", atLeast: 6, open: func(w *world) error {
			leaf, _ := w.leaf()
			root := w.branch(leaf)[0].ID
			return w.acceptNavigation(machine.NavigationIntent{TargetID: root, Summarize: true, Label: new("here")},
				&machine.BranchPreparation{Messages: []message.Message{text("left"), text("behind")}})
		}},
		{name: "navigation to the root", atLeast: 2, open: func(w *world) error { return w.acceptNavigation(machine.NavigationIntent{}, nil) }},
		{name: "abort in tools", atLeast: 10, answers: []message.Assistant{says("one", "bash", "bash")},
			before: map[string]func(*world){"tools": func(w *world) { follow(w); w.abort() }}},
	}
}

// ending is what a story led to.
type ending struct {
	commits, crashes, billed int
	outcome                  string
	said                     []string
}

// play plays a story with a crash after commit k; 0: none.
func (s story) play(t *testing.T, k int) (end ending) {
	w := newWorld(t)
	w.retry = machine.RetryPolicy{MaxAttempts: new(int64(5))}
	set := settings
	if !s.parallel {
		set.ToolExecution = machine.Sequential
	}
	came := map[string]bool{}
	crash := func() {
		if end.commits++; end.commits == k {
			end.crashes++
			w.crash()
		}
	}
	w.hooks = s.hooks
	open := s.open
	if open == nil {
		open = func(w *world) error { return w.accept(set, text("prompt")) }
	} else {
		w.seed()
	}
	if err := open(w); err != nil {
		t.Fatal(err)
	}
	crash()
	for fuel := 500; !w.current().IsZero(); fuel-- {
		if fuel == 0 {
			t.Fatal("the story does not end")
		}
		if phase := w.phase(); s.before[phase] != nil && !came[phase] {
			came[phase] = true
			s.before[phase](w)
			crash()
		}
		switch a := w.pass().(type) {
		case machine.AwaitEffect:
			if w.report = w.orphan(a.Key); w.report == nil {
				w.report = s.answer(w, a.Key)
			}
		case machine.Park:
			op, st, in, _ := w.operation()
			plan, err := machine.Answer(op, st, in.StateSeq, w.now, a.Pauses[0].Gate, machine.Approve{}, &ann)
			w.must(err)
			w.land("answer", plan)
			crash()
		case machine.Wait:
			w.now = a.Until
		case machine.Fault:
			t.Fatal(a.Report)
		case machine.Transition, machine.Dispatch, machine.Finish:
			crash()
		case nil:
		}
	}
	leaf, _ := w.leaf()
	r := w.lastResult()
	end.outcome, end.billed = fmt.Sprint(r.Outcome, r.Completion), len(w.ledger)
	for _, e := range w.branch(leaf) {
		switch body := e.Body.(type) {
		case entry.Message:
			if kept(body.Message) {
				end.said = append(end.said, said(body.Message))
			}
		case entry.Compaction:
			end.said = append(end.said, "compaction: "+body.Summary)
		case entry.BranchSummary:
			end.said = append(end.said, "branch summary: "+body.Summary)
		}
	}
	return end
}

// kept reports whether a message enters the model's context.
func kept(m message.Message) bool {
	a, ok := m.(*message.Assistant)
	return !ok || a.StopReason != message.Error && a.StopReason != message.Aborted && a.StopReason != message.Deferred
}

func (s story) answer(w *world, key machine.Key) machine.Observation {
	switch k := key.(type) {
	case machine.AdmissionKey, machine.SummaryAdmissionKey, machine.PollAdmissionKey:
		return machine.Admitted{}
	case machine.MeasureKey:
		w.measure = s.size(w, k)
	case machine.VerdictKey:
		return machine.Verdict{TaskID: k.TaskID, Choice: machine.WriteSummary{}}
	case machine.SummaryKey:
		st := w.summary()
		r := machine.SummaryResult(machine.SummaryProduced{Summary: "both parts"})
		if st.Context.Progress.Messages == 0 {
			r = machine.SummaryContinues{Summary: "one part", Messages: 1}
		}
		return machine.Summarized{TaskID: k.TaskID, Attempt: k.Attempt, Index: k.Index, Usage: spent("5/5"), Result: r}
	case machine.RunStartKey:
		return machine.RunStarting{Entries: []machine.PendingEntry{machine.PendingMessage(text("before"))}}
	case machine.RunEndKey:
		if n, _ := w.answered(); n < len(s.answers) {
			return machine.RunEnding{FollowUp: new(machine.PendingMessage(text("more")))}
		}
		return machine.RunEnding{}
	case machine.ResponseKey:
		n, failed := w.answered()
		m := s.answers[min(n, len(s.answers)-1)]
		handle := &message.DeferredHandle{Provider: config.Model.Provider, ModelID: config.Model.ModelID, ID: "later"}
		d, polled := w.run().Phase.(machine.AwaitingDeferred)
		switch {
		case failed < s.fails:
			m = message.Assistant{StopReason: message.Error, RawStopReason: new("retryable")}
		case s.overflow && !w.compacted():
			m = message.Assistant{StopReason: message.Error, ErrorMessage: new("prompt is too long")}
		case s.deferred && n == 0 && (!polled || d.Deferred.Poll < 2):
			m = message.Assistant{StopReason: message.Deferred, Deferred: handle}
		}
		m.Provider, m.Model, m.Usage = config.Model.Provider, config.Model.ModelID, usage.Unknown(usage.API)
		return machine.Responded{ResponseID: k.ResponseID, Message: &m}
	case machine.ClearanceKey:
		if k.Call.Name == "deny" {
			return machine.Refused{SourceIndex: k.SourceIndex, Result: &message.ToolResult{IsError: true}}
		}
		if k.Call.Name == "hold" && k.Consent == nil {
			return machine.Asked{SourceIndex: k.SourceIndex, Reason: words.PausedOnApproval, Subject: k.Call.Arguments}
		}
		w.safe[w.resultID(k.SourceIndex)] = w.replay[k.Call.Name] == machine.ReplaySafe
		return machine.Cleared{SourceIndex: k.SourceIndex, Replay: w.replay[k.Call.Name]}
	case machine.CallsKey:
		return machine.ToolSettled{SourceIndex: k.SourceIndexes[len(k.SourceIndexes)-1], Result: &message.ToolResult{
			Content: []message.ResultBlock{message.Text{Text: "out"}},
		}}
	}
	return nil
}

// size has no room once where the story says so.
func (s story) size(w *world, k machine.MeasureKey) *machine.Measure {
	m := &machine.Measure{Leaf: k.Leaf, Tokens: 1000, Window: 200000}
	if n, _ := w.answered(); s.full && n == 1 && !w.compacted() {
		m.Tokens = 190000
	}
	m.Preparation = &machine.CompactionPreparation{MessagesToSummarize: []message.Message{text("old"), text("older")}}
	return m
}

// seed is a conversation from before.
func (w *world) seed() {
	g := w.generator()
	var first, second id.EntryID
	first, g = g.Entry()
	second, _ = g.Entry()
	w.must(w.commit(tx.Tx{Writes: []tx.Write{
		tx.InsertEntry{Entry: entry.Entry{ID: first, Body: entry.Message{Message: text("long ago")}}},
		tx.InsertEntry{Entry: entry.Entry{ID: second, Parent: first, Body: entry.Message{Message: text("and since")}}},
		tx.Set(register.StrandLeaf, strand, register.Leaf(second)),
	}}))
}

// compacted reports whether the branch has a compaction.
func (w *world) compacted() bool {
	leaf, _ := w.leaf()
	return slices.ContainsFunc(w.branch(leaf), func(e entry.Entry) bool { return e.Body.Kind() == entry.KindCompaction })
}

// summary is the request of a summary that is in flight.
func (w *world) summary() machine.SummaryPending {
	_, st, _, _ := w.operation()
	s, _ := st.Summary()
	g, _ := s.Generation.(machine.SummaryPending)
	return g
}

// answered counts the kept responses of the branch, and those that failed by the provider's word.
func (w *world) answered() (n, failed int) {
	leaf, _ := w.leaf()
	for _, e := range w.branch(leaf) {
		body, _ := e.Body.(entry.Message)
		a, ok := body.Message.(*message.Assistant)
		switch {
		case ok && kept(a):
			n++
		case ok && a.RawStopReason != nil:
			failed++
		}
	}
	return n, failed
}

// phase names where the run stands.
func (w *world) phase() string {
	switch w.run().Phase.(type) {
	case machine.AtCheckpoint:
		return "checkpoint"
	case machine.Generating:
		return "assistant"
	case machine.RunningTools:
		return "tools"
	case machine.Starting, machine.Compacting, machine.AwaitingDeferred, machine.FailureDrain:
	}
	return ""
}
