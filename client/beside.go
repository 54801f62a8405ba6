package client

import (
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
)

// The arms of what happens beside the conversation. Levels replace, edges are hints.

func (st *step) rosterChange(b wire.RosterChange) { st.show(st.tools.Change(b)) }

func (st *step) pending(b wire.PendingLevel) {
	st.waits = b.Rows
	st.show(plane.Waiters{Rows: b.Rows})
}

func (st *step) approvalRequest(b wire.ApprovalRequest) { st.show(plane.Asked{Row: b}) }

func (st *step) approvalSettled(b wire.ApprovalSettled) { st.show(plane.ApprovalClosed{Settled: b}) }

func (st *step) questionRequest(b wire.QuestionRequest) { st.show(plane.Asked{Row: b}) }

func (st *step) questionSettled(b wire.QuestionSettled) { st.show(plane.QuestionClosed{Settled: b}) }

func (st *step) planRequest(b wire.PlanRequest) { st.show(plane.PlanParked{Plan: b}) }

func (st *step) planSettled(b wire.PlanSettled) { st.show(plane.PlanClosed{Settled: b}) }

func (st *step) queue(b wire.Queue) { st.show(plane.Queued{Items: b.Items}) }

func (st *step) inputTaken(b wire.InputTaken) { st.show(plane.QueueTaken{Taken: b}) }

func (st *step) inputUnused(b wire.InputUnused) {
	if st.frame.Delivery == wire.Replay {
		st.keep(project.UnusedLine(b))
		return
	}
	st.show(plane.QueueUnused{Unused: b})
}

func (st *step) diagnostics(b wire.Diagnostics) { st.show(plane.Diagnosed{Diagnostics: b}) }

func (st *step) workspaceChanged(b wire.WorkspaceChanged) { st.show(plane.WorkspaceMoved{Changed: b}) }

// hookNotice shows a hook of the run that is watched, or of nobody's run: not of
// another one. The lane proof has seen to it.
func (st *step) hookNotice(b wire.HookNotice) { st.show(plane.HookHeard{Notice: b}) }

func (st *step) taskStarted(b wire.TaskStarted) {
	if st.ofTask(b.Task) {
		st.show(plane.TaskOpened{Started: b})
	}
}

func (st *step) taskProgress(b wire.TaskProgress) {
	if st.ofTask(b.Task) {
		st.show(plane.TaskMoved{Progress: b})
	}
}

// taskNotification is delivered at least once: the card comes once, and so does what
// is owed to the model. The two are asked apart.
func (st *step) taskNotification(b wire.TaskNotification) {
	if !st.ofTask(b.Task) {
		return
	}
	key := project.TaskKey(b)
	switch {
	case !st.book.shown.add(key):
	case st.frame.Delivery == wire.Replay:
		st.keep(project.TaskLine(b))
	default:
		st.show(plane.TaskClosed{Notification: b})
	}
	if b.Injected == nil {
		return // whether the model was told is not known: nothing is owed, and nothing settled
	}
	if st.book.fed.add(key) && !*b.Injected {
		st.show(plane.CompletionDue{Task: b.Task, Text: project.TaskXML(b)})
	}
}

func (st *step) workflowProgress(b wire.WorkflowProgress) {
	if !st.ofTask(b.Run) {
		return
	}
	st.show(plane.WorkflowMoved{Progress: b})
	if b.Status.Ended() && st.book.workflows.add(b.Run) {
		st.show(plane.WorkflowEnded{Run: b.Run, Name: b.Name, Status: b.Status})
	}
}

// ofTask reports whether the body speaks of the task that its frame was proven for. A
// frame of the conversation speaks of any.
func (st *step) ofTask(task string) bool {
	if st.proof.Task() == "" || st.proof.Task() == task {
		return true
	}
	st.drop(ForeignLane, "it speaks of another task than the one it belongs to")
	return false
}

func (st *step) background(b wire.Background) { st.show(plane.BackgroundNow{Tasks: b.Tasks}) }

func (st *step) activity(b wire.Activity) {
	if st.parked = b.State == words.ActivityAsking; st.parked {
		st.parks++
	}
	st.show(plane.ActivityNow{Activity: b})
}

func (st *step) settings(b wire.Settings) { st.show(plane.SettingsNow{Settings: b}) }

func (st *step) presence(b wire.Presence) { st.show(plane.PresenceNow{Clients: b.Clients}) }
