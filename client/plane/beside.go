package plane

import (
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
)

// RosterChanged says that the tools changed while a run is on. The host replaces
// what it showed of them; Added and Removed are there only when the summary is about
// the roster that was held.
type RosterChanged struct {
	Roster         wire.Roster
	Usable         bool // whether Added and Removed say anything
	Added, Removed []string
}

// Waiters is all that waits for a person. The host replaces what it showed; it
// fetches a row before it makes a card of it.
type Waiters struct{ Rows []wire.Pending }

// Asked says that something new waits for a person. It is a hint: the row that is
// fetched is what a card is made of.
type Asked struct{ Row wire.Pending }

// PlanParked says that a plan waits for review. The host opens its review, from the
// fetched row.
type PlanParked struct{ Plan wire.PlanRequest }

// ApprovalClosed says how an approval ended. The host takes its card away.
type ApprovalClosed struct{ Settled wire.ApprovalSettled }

// QuestionClosed says how a question ended. The host takes its card away.
type QuestionClosed struct{ Settled wire.QuestionSettled }

// PlanClosed says how a plan ended. The host closes its review.
type PlanClosed struct{ Settled wire.PlanSettled }

// Queued is the input that waits, whole. The host replaces what it showed.
type Queued struct{ Items []wire.QueuedItem }

// QueueTaken says that an input entered the conversation. The host drops it from its
// list; the prompt is on its way.
type QueueTaken struct{ Taken wire.InputTaken }

// QueueUnused says that input was not used, or may not have been. The host tells the
// person, with client/say.
type QueueUnused struct{ Unused wire.InputUnused }

// Diagnosed is what checkers say about files now. The host replaces what it showed of
// those files.
type Diagnosed struct{ Diagnostics wire.Diagnostics }

// WorkspaceMoved says that files changed. The host reads again what it shows of them.
type WorkspaceMoved struct{ Changed wire.WorkspaceChanged }

// HookHeard says how far a hook is. The host may show it; the run does not wait for
// that.
type HookHeard struct{ Notice wire.HookNotice }

// TaskOpened says that something works beside the conversation. The host adds a row
// for it, by the task's id.
type TaskOpened struct{ Started wire.TaskStarted }

// TaskMoved says how far a task is. The host changes the row of that id, and adds
// none.
type TaskMoved struct{ Progress wire.TaskProgress }

// TaskClosed says that a task ended or calls for attention. The host shows it once.
type TaskClosed struct{ Notification wire.TaskNotification }

// CompletionDue is a completion that nobody has told the model. Who makes requests
// owes it to the model's next one, once.
type CompletionDue struct {
	Task string
	Text string // the element task-notification
}

// WorkflowMoved is one run of a workflow, whole. The host replaces the panel of that
// run.
type WorkflowMoved struct{ Progress wire.WorkflowProgress }

// WorkflowEnded says that a run of a workflow is over, once. The host takes it from
// what is on and asks for what it said.
type WorkflowEnded struct {
	Run, Name string
	Status    words.BackgroundStatus
}

// BackgroundNow is all that works in the background. The host replaces its rows: a
// row that is not here is over, whatever the edges said.
type BackgroundNow struct{ Tasks []wire.BackgroundTask }

// Registration is a command that goes on in the background.
type Registration struct {
	CallID  string
	Task    string
	Command string // as far as it is known
}

// BackgroundRegistered says that a call moved to the background. The host adds a row,
// or changes the one of that task: this runtime keeps no record of what it said.
type BackgroundRegistered struct{ Registration Registration }

// ActivityNow is whether the session works. The host replaces its mark.
type ActivityNow struct{ Activity wire.Activity }

// SettingsNow is what the next run starts with. The host replaces what it showed.
type SettingsNow struct{ Settings wire.Settings }

// PresenceNow is who looks at the session. The host replaces what it showed.
type PresenceNow struct{ Clients []wire.Attendee }

func (RosterChanged) event()        {}
func (Waiters) event()              {}
func (Asked) event()                {}
func (PlanParked) event()           {}
func (ApprovalClosed) event()       {}
func (QuestionClosed) event()       {}
func (PlanClosed) event()           {}
func (Queued) event()               {}
func (QueueTaken) event()           {}
func (QueueUnused) event()          {}
func (Diagnosed) event()            {}
func (WorkspaceMoved) event()       {}
func (HookHeard) event()            {}
func (TaskOpened) event()           {}
func (TaskMoved) event()            {}
func (TaskClosed) event()           {}
func (CompletionDue) event()        {}
func (WorkflowMoved) event()        {}
func (WorkflowEnded) event()        {}
func (BackgroundNow) event()        {}
func (BackgroundRegistered) event() {}
func (ActivityNow) event()          {}
func (SettingsNow) event()          {}
func (PresenceNow) event()          {}
