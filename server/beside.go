package server

import (
	"hash/fnv"
	"strconv"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/machine/job"
	"github.com/loom-run/loom/wire"
)

// JobRow is a job and the seq of its last change.
type JobRow struct {
	Seq int64
	Job job.Record
}

// working is the level of what works beside the conversation.
func working(src Source) (wire.Background, error) {
	children, jobs, err := besides(src)
	out := wire.Background{Tasks: []wire.BackgroundTask{}}
	for _, c := range children {
		if !c.Op.IsZero() {
			out.Tasks = append(out.Tasks, agentTask(c))
		}
	}
	for _, j := range jobs {
		if !j.Job.Status.Ended() {
			out.Tasks = append(out.Tasks, jobTask(j.Job))
		}
	}
	return out, err
}

// listedTasks bounds a list of tasks: the newest of each kind.
const listedTasks = 64

// listing is [working] with what rests and what ended.
func listing(src Source) (wire.Background, error) {
	children, jobs, err := besides(src)
	out := wire.Background{Tasks: []wire.BackgroundTask{}}
	for _, c := range children[max(0, len(children)-listedTasks):] {
		out.Tasks = append(out.Tasks, agentTask(c))
	}
	for _, j := range jobs[max(0, len(jobs)-listedTasks):] {
		out.Tasks = append(out.Tasks, jobTask(j.Job))
	}
	return out, err
}

func besides(src Source) (children []Child, jobs []JobRow, err error) {
	if children, err = src.Children(); err != nil {
		return nil, nil, err
	}
	jobs, err = src.Jobs()
	return children, jobs, err
}

func agentTask(c Child) wire.BackgroundTask {
	t := wire.BackgroundTask{
		Task: c.Strand, TaskKind: words.TaskAgent, Status: words.BackgroundRunning, CallID: optional(c.Lineage.Call),
		Parent: parentTask(c.Lineage.Parent), Description: shownWord(c.Lineage.Purpose), StartedAtMs: new(count(c.Lineage.SpawnedAt)),
	}
	if c.Op.IsZero() {
		t.Status = restingStatus(c)
	}
	if c.Began > 0 {
		t.StartedAtMs = new(count(c.Began))
	}
	if c.Run != nil {
		t.DeadlineMs = new(count(c.Run.Deadline))
	}
	return t
}

// restingStatus is how the newest run of a child that rests ended. One that left
// nothing of its end is lost, and not completed.
func restingStatus(c Child) words.BackgroundStatus {
	if c.Last == "" {
		return words.BackgroundLost
	}
	return endedStatus(c.Last)
}

// endedStatus is the status of a run of an agent that ended. A word of a newer engine
// stays itself.
func endedStatus(outcome machine.Outcome) words.BackgroundStatus {
	switch outcome {
	case machine.OutcomeCompleted:
		return words.BackgroundCompleted
	case machine.OutcomeFailed:
		return words.BackgroundFailed
	case machine.OutcomeAborted:
		return words.BackgroundKilled
	case machine.OutcomeDeclined: // no run's
	}
	return words.BackgroundStatus(outcome)
}

// taskOf finds a task of a session, also one that a list is too short for.
func taskOf(src Source, task string) (t wire.BackgroundTask, ok bool, err error) {
	children, jobs, err := besides(src)
	if err != nil {
		return t, false, err
	}
	for _, c := range children {
		if c.Strand == task {
			return agentTask(c), true, nil
		}
	}
	for _, j := range jobs {
		if j.Job.ID == task {
			return jobTask(j.Job), true, nil
		}
	}
	return t, false, nil
}

// parentTask is the task that a strand is; nil for one that is none.
func parentTask(strand string) *string {
	if !agency.Spawned(strand) {
		return nil
	}
	return &strand
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return new(shownWord(s))
}

// maxCommand is how much of a command a list shows, in bytes.
const maxCommand = 512

func jobTask(r job.Record) wire.BackgroundTask {
	return wire.BackgroundTask{
		Task: r.ID, TaskKind: words.TaskShell, Status: statusOf(r), CallID: optional(r.Call), Parent: parentTask(r.Strand),
		Description: r.Label(), Command: new(cut(r.Command, maxCommand)), StartedAtMs: new(count(r.StartedAt)), DeadlineMs: new(count(r.Deadline)),
	}
}

func statusOf(r job.Record) words.BackgroundStatus {
	switch r.Status {
	case job.Starting:
		return words.BackgroundStarting
	case job.Running:
		return words.BackgroundRunning
	case job.Draining:
		return words.BackgroundDraining
	case job.Killed:
		return words.BackgroundKilled
	case job.Exited:
		if r.Exit != nil && r.Exit.Code == 0 && r.Exit.Failure == "" {
			return words.BackgroundCompleted
		}
		return words.BackgroundFailed
	case job.Lost:
	}
	return words.BackgroundLost
}

// taskStarted says that a child works. It belongs to the strand that started it.
func taskStarted(s id.SessionID, c Child) wire.Frame {
	f := passing(s, c.Lineage.Parent, id.OpID{}, "task/"+c.Op.String(), wire.TaskStarted{
		Task: c.Strand, TaskKind: words.TaskAgent, CallID: optional(c.Lineage.Call), Parent: parentTask(c.Lineage.Parent),
		Description: shownWord(c.Lineage.Purpose), Background: c.Lineage.Detached, Depth: int(c.Lineage.Depth) - 1,
	})
	f.Lane, f.Task = wire.LaneAgent, c.Strand
	return f
}

// jobStarted says that a command works in the background.
func jobStarted(s id.SessionID, r job.Record) wire.Frame {
	f := passing(s, r.Strand, id.OpID{}, "task/"+r.ID, wire.TaskStarted{
		Task: r.ID, TaskKind: words.TaskShell, CallID: optional(r.Call), Parent: parentTask(r.Strand), Description: r.Label(), Background: true,
	})
	f.Lane, f.Task = wire.LaneBackground, r.ID
	return f
}

// agentEnded is the notice of a child's run that ended, behind the end itself.
func (m minted) agentEnded(r Result, c Child) wire.Frame {
	n := wire.TaskNotification{
		Task: c.Strand, TaskKind: words.TaskAgent, Status: endedStatus(machine.Outcome(r.Outcome.Word)), CallID: optional(c.Lineage.Call),
		Summary: shownWord(c.Lineage.Purpose), Seq: new(count(r.Seq)), StoppedBy: r.EndedBy,
	}
	if n.Status == words.BackgroundCompleted {
		n.Result = r.Text // what was cut short has none
	}
	if n.Status == words.BackgroundFailed {
		n.Diagnostics = new(shown(r.Outcome.Message))
	}
	f := m.row(r.Seq, 2, "task/"+r.Op.String()+"/end", n)
	f.Strand, f.Lane, f.Task = c.Lineage.Parent, wire.LaneAgent, c.Strand
	return f
}

// jobEnded is the notice of a job that ended.
func (m minted) jobEnded(j JobRow) wire.Frame {
	r := j.Job
	n := wire.TaskNotification{
		Task: r.ID, TaskKind: words.TaskShell, Status: statusOf(r), CallID: optional(r.Call), Summary: r.Sentence(), Seq: new(count(j.Seq)),
	}
	switch r.Cause {
	case job.ByPerson:
		n.StoppedBy = new(words.CancelledByPerson)
	case job.ByLimit:
		n.StoppedBy = new(words.CancelledByBudget)
	case job.ByOwner:
	}
	if r.Cause != job.ByPerson { // the owner is told, or looked, or asked for it
		n.Injected = new(true)
	}
	if r.Reason != "" {
		n.Diagnostics = new(shown(r.Reason))
	}
	if e := r.Exit; e != nil {
		if e.Failure != "" {
			n.Diagnostics = new(shown(e.Failure))
		} else {
			n.ExitCode, n.Result = new(e.Code), new(e.Stdout.Text)
		}
	}
	f := m.row(j.Seq, 1, "task/"+r.ID+"/end", n)
	f.Strand, f.Lane, f.Task = r.Strand, wire.LaneBackground, r.ID
	return f
}

// backgroundKey is the id of a level of the background: the same tasks have the same.
func backgroundKey(b wire.Background) string {
	sum := fnv.New64a()
	_, _ = sum.Write(wire.Encode(b)) // never fails
	return "background/" + strconv.FormatUint(sum.Sum64(), 16)
}
