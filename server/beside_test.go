package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/machine/job"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wireclient"
)

// helper is a child of a fake session's main strand.
type helper struct {
	f      *fakeSession
	strand string
	op     id.OpID
	leaf   id.EntryID
}

// spawn starts a child with the plan of the engine. With at it knows the conversation.
func (f *fakeSession) spawn(t interface{ Fatal(...any) }, n int, at id.EntryID) *helper {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := agency.Caller{Strand: session.MainStrand, Op: f.current, Step: "s", SourceIndex: n}
	s := agency.Spawn{
		Caller: c, CallID: fmt.Sprint("c", n), Child: agency.ChildName(c, "help"), Purpose: "help", Brief: "do it", At: at,
		Configuration: machine.Configuration{ThinkingLevel: machine.ThinkingOff}, Depth: 1, BudgetMs: 1000, Now: 1_700_000_000_000, IDs: f.ids,
	}
	for range 8 { // as many as the plan took
		_, f.ids = f.ids.Entry()
	}
	op, plan, err := s.Plan()
	if err != nil {
		t.Fatal(err)
	}
	h := &helper{f: f, strand: s.Child, op: op.ID}
	for _, w := range plan.Writes {
		if e, ok := w.(tx.InsertEntry); ok {
			h.leaf = e.Entry.ID
		}
	}
	f.commit(engine.RunStarted{Strand: h.strand, Op: h.op}, nil, plan.Writes...)
	return h
}

// say settles a response of the child, and end its run.
func (h *helper) say(text string) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	e := h.f.entryID()
	h.f.commit(nil, nil, tx.InsertEntry{Entry: entry.Entry{ID: e, Parent: h.leaf, Body: entry.Message{Message: &message.Assistant{
		Content: []message.AssistantBlock{message.Text{Text: text}}, API: "fake", Provider: "p", Model: "m", Usage: counted, StopReason: message.Stop,
	}}}}, h.f.bill(e, counted), tx.Set(register.StrandLeaf, h.strand, register.Leaf(e)))
	h.leaf = e
}

func (h *helper) end() {
	h.endAs(machine.LastResult{Outcome: machine.OutcomeCompleted, Completion: machine.ByAssistant, FinalAssistant: h.leaf})
}

func (h *helper) endAs(last machine.LastResult) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	last.Kind, last.OperationID, last.LeafID = "run", h.op, h.leaf
	h.f.commit(nil, engine.RunFinished{Strand: h.strand, Op: h.op},
		tx.Set(register.StrandLastResult, h.strand, last.Value()), tx.Set(register.FactCustom, machine.ResultKey(h.op), last.Value()),
		tx.Set(register.StrandState, h.strand, machine.StrandState{}.Value()))
}

// job starts a job, and moves it on.
func (f *fakeSession) job(n int) job.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := agency.Caller{Strand: session.MainStrand, Op: f.current, Step: "j", SourceIndex: n}
	r := job.Record{ID: job.IDOf(c), Strand: c.Strand, Op: c.Op, Call: fmt.Sprint("j", n), Command: "make all", Status: job.Starting, StartedAt: 5, Deadline: 10}
	f.commit(nil, engine.JobChanged{Job: r.ID, Started: r.ID}, r.Create().Writes...)
	return r
}

func (f *fakeSession) move(r job.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commit(nil, engine.JobChanged{Job: r.ID}, r.Create().Writes...)
}

// owner renders whose a frame is.
func owner(f wire.Frame) string {
	return fmt.Sprintf("%s %s %s/%s", f.Kind(), f.Lane, f.Strand, f.Task)
}

func TestTheRowsOfAnAgentAreOnItsLane(t *testing.T) {
	f := newFakeSession(t, 1)
	op, _ := f.begin("go")
	h := f.spawn(t, 1, id.EntryID{})
	know := f.spawn(t, 2, f.leaf) // knows the conversation, whose rows stay the main strand's
	h.say("the agent's")
	f.say(message.Stop, counted, message.Text{Text: "the boss's"})
	know.say("the other's")
	know.end()
	h.end()
	f.end(machine.OutcomeCompleted, nil)
	var got []string
	for _, frame := range all(t, f, wire.Cursor{}) {
		line := owner(frame)
		for strand, name := range map[string]string{h.strand: "H", know.strand: "K"} {
			line = strings.ReplaceAll(line, strand, name)
		}
		switch b := frame.Body.(type) {
		case wire.RunEnd:
			line += fmt.Sprint(" ", b.Usage.Input)
		case wire.TaskNotification:
			line += fmt.Sprint(" ", b.Status, " ", *b.Result)
		}
		got = append(got, line)
	}
	want := `user_message main main/
user_message agent H/H
user_message agent K/K
text_end agent H/H
turn_end agent H/H
text_end main main/
turn_end main main/
text_end agent K/K
turn_end agent K/K
run_end agent K/K 10
task_notification agent main/K completed the other's
run_end agent H/H 10
task_notification agent main/H completed the agent's
run_end main main/ 30`
	if strings.Join(got, "\n") != want {
		t.Errorf("the frames of %s are\n%s", op, strings.Join(got, "\n"))
	}
}

func TestTheEndOfAJobIsReplayed(t *testing.T) {
	f := newFakeSession(t, 1)
	f.begin("go")
	exit := job.Exit{Code: 3, Stdout: job.Tail{Text: "out\n", Total: 4}}
	killed := exit
	killed.Interrupted = true
	f.move(f.job(1).End(exit, 9))
	f.move(f.job(2).Drain(job.ByPerson).End(killed, 9))
	f.move(f.job(3).Lose("gone", 9))
	f.move(f.job(4).End(job.Exit{Code: -1, Failure: "no program"}, 9))
	f.job(5) // works
	var got []string
	for _, frame := range all(t, f, wire.Cursor{}) {
		if b, ok := frame.Body.(wire.TaskNotification); ok {
			line := fmt.Sprint(owner(frame)[:len("task_notification background main")], " ", b.Status)
			if b.StoppedBy != nil {
				line += " by " + string(*b.StoppedBy)
			}
			if b.ExitCode != nil {
				line += fmt.Sprint(" code ", *b.ExitCode, " result ", *b.Result)
			}
			if b.Diagnostics != nil {
				line += " because " + *b.Diagnostics
			}
			got = append(got, strings.TrimSpace(fmt.Sprint(line, " told ", b.Injected != nil && *b.Injected)))
		}
	}
	want := `task_notification background main failed code 3 result out
 told true
task_notification background main killed by person code 3 result out
 told false
task_notification background main lost because gone told true
task_notification background main failed because no program told true`
	if strings.Join(got, "\n") != want {
		t.Errorf("the ends are\n%s", strings.Join(got, "\n"))
	}
}

func TestFromEveryCursorTheSameFramesFollowWithAgentsAndJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFakeSession(t, 1)
		f.begin("go")
		var helpers []*helper
		var jobs []job.Record
		for n := range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				helpers = append(helpers, f.spawn(t, n, f.leaf))
			case 1:
				jobs = append(jobs, f.job(n))
			case 2:
				f.say(message.Stop, counted, message.Text{Text: "main"})
			case 3, 4:
				if len(helpers) > 0 {
					h := helpers[rapid.IntRange(0, len(helpers)-1).Draw(t, "who")]
					if h.say("child"); rapid.Bool().Draw(t, "ends") {
						h.end()
					}
				}
			case 5:
				if len(jobs) > 0 {
					f.move(jobs[len(jobs)-1].End(job.Exit{}, 9))
					jobs = jobs[:len(jobs)-1]
				}
			}
		}
		whole := all(t, f, wire.Cursor{})
		for i, frame := range whole {
			if got := all(t, f, frame.Cursor); events(got) != events(whole[i+1:]) {
				t.Fatalf("behind %v come\n%sand not\n%s", frame.Cursor, events(got), events(whole[i+1:]))
			}
			if read, err := wire.DecodeFrame(frame.Append(nil)); err != nil {
				t.Fatal(err)
			} else if _, broken := read.Body.(wire.Broken); broken {
				t.Fatalf("a frame of ours breaks the contract: %s", frame.Append(nil))
			}
		}
	})
}

func TestWhatWorksBesideTheConversationIsALevel(t *testing.T) {
	f := newFakeSession(t, 1)
	f.begin("go")
	_, rt := serve(t, hostOf(f))
	c := wireclient.New(rt, "http://loom")
	early, err := c.Attach(t.Context(), f.self, wire.FromHead())
	if err != nil {
		t.Fatal(err)
	}
	h := f.spawn(t, 1, id.EntryID{})
	r := f.job(2)
	var both wire.Background
	started := map[string]words.TaskKind{}
	follow(t, early, func(f wire.Frame) bool {
		switch b := f.Body.(type) {
		case wire.TaskStarted:
			started[b.Task] = b.TaskKind
		case wire.Background:
			both = b
		}
		return len(started) == 2 && len(both.Tasks) == 2
	})
	if started[h.strand] != words.TaskAgent || started[r.ID] != words.TaskShell {
		t.Errorf("it was told that %v started", started)
	}
	if a, j := both.Tasks[0], both.Tasks[1]; a.Task != h.strand || a.Status != words.BackgroundRunning || *a.DeadlineMs == 0 || *a.CallID != "c1" ||
		j.Task != r.ID || j.Status != words.BackgroundStarting || *j.Command != "make all" {
		t.Errorf("the level is %+v", both)
	}
	// Who comes later is told the same level, and the run of the agent.
	late, err := c.Attach(t.Context(), f.self, wire.FromHead())
	if err != nil {
		t.Fatal(err)
	}
	runs, ended := 0, false
	follow(t, late, func(frame wire.Frame) bool {
		if frame.Kind() == wire.KindRunStart && frame.Strand == h.strand && frame.Operation == h.op && frame.Lane == wire.LaneAgent {
			runs++
		}
		b, ok := frame.Body.(wire.Background)
		if ok && len(b.Tasks) == 2 && !ended {
			ended = true
			h.say("done")
			h.end()
			f.move(r.End(job.Exit{}, 9))
		}
		return ok && len(b.Tasks) == 0
	})
	if runs != 1 {
		t.Errorf("who came later was told %d times that the agent runs", runs)
	}
	// The list has those that are over, too.
	list, err := c.Background(t.Context(), f.self)
	if err != nil || len(list.Tasks) != 2 || !list.Tasks[0].Status.Ended() || !list.Tasks[1].Status.Ended() {
		t.Errorf("the list is %+v, %v", list, err)
	}
	got, err := c.StopTask(t.Context(), f.self, wire.StopTask{Task: h.strand})
	if err != nil || got.Task != h.strand || got.Status != words.BackgroundCompleted || len(f.stopped) != 1 || f.stopped[0] != h.strand {
		t.Errorf("stopping answers %+v, %v; it reached %q", got, err, f.stopped)
	}
}

func TestAnAgentThatRestsIsListedAsItsRunEnded(t *testing.T) {
	f := newFakeSession(t, 1)
	f.begin("go")
	done, killed, failed := f.spawn(t, 1, id.EntryID{}), f.spawn(t, 2, id.EntryID{}), f.spawn(t, 3, id.EntryID{})
	done.say("done")
	done.end()
	killed.endAs(machine.LastResult{Outcome: machine.OutcomeAborted})
	failed.endAs(machine.LastResult{Outcome: machine.OutcomeFailed, Error: &machine.OperationError{Code: "provider", Message: "it is gone"}})
	_, rt := serve(t, hostOf(f))
	c := wireclient.New(rt, "http://loom")
	list, err := c.Background(t.Context(), f.self)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]words.BackgroundStatus{
		done.strand: words.BackgroundCompleted, killed.strand: words.BackgroundKilled, failed.strand: words.BackgroundFailed,
	}
	for _, task := range list.Tasks {
		if task.Status != want[task.Task] {
			t.Errorf("%s is listed as %s, want %s", task.Task, task.Status, want[task.Task])
		}
		// And stopping what is over says how it ended, not that it was completed.
		if got, err := c.StopTask(t.Context(), f.self, wire.StopTask{Task: task.Task}); err != nil || got.Status != want[task.Task] {
			t.Errorf("stopping it answers %s, %v; want %s", got.Status, err, want[task.Task])
		}
	}
	if len(list.Tasks) != len(want) {
		t.Errorf("%d tasks are listed", len(list.Tasks))
	}
	for _, none := range []string{"no such task", "job-0000000000000000", done.strand + "x"} {
		_, err := c.StopTask(t.Context(), f.self, wire.StopTask{Task: none})
		if refused, ok := errors.AsType[*wireclient.Refused](err); !ok || refused.Code != wire.BadRequest {
			t.Errorf("stopping %q answers %v", none, err)
		}
	}
	if s := endedStatus("superseded_by_newer"); words.BackgroundStatuses.Has(s) || s != "superseded_by_newer" {
		t.Errorf("an outcome that is not known reads as %s", s)
	}
}
