package machine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
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
	if err := w.accept(set, text("prompt")); err != nil {
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
		if body, ok := e.Body.(entry.Message); ok && kept(body.Message) {
			end.said = append(end.said, said(body.Message))
		}
	}
	return end
}

// kept reports whether a message enters the model's context.
func kept(m message.Message) bool {
	a, ok := m.(*message.Assistant)
	return !ok || a.StopReason != message.Error && a.StopReason != message.Aborted
}

func (s story) answer(w *world, key machine.Key) machine.Observation {
	switch k := key.(type) {
	case machine.AdmissionKey:
		return machine.Admitted{}
	case machine.ResponseKey:
		n, failed := w.answered()
		m := s.answers[min(n, len(s.answers)-1)]
		if failed < s.fails {
			m = message.Assistant{StopReason: message.Error, RawStopReason: new("retryable")}
		}
		m.Provider, m.Model, m.Usage = config.Model.Provider, config.Model.ModelID, usage.Unknown(usage.API)
		return machine.Responded{ResponseID: k.ResponseID, Message: &m}
	case machine.ClearanceKey:
		if k.Call.Name == "deny" {
			return machine.Refused{SourceIndex: k.SourceIndex, Result: &message.ToolResult{IsError: true}}
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
	_, st, _, _ := w.operation()
	switch st.Work.(*machine.Run).Phase.(type) {
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
