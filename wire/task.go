package wire

import "github.com/loom-run/loom/core/words"

// TaskStats is what a task consumed so far. What is not known is absent.
type TaskStats struct {
	DurationMs   *int64 `wire:"durationMs"`
	ToolUses     *int64 `wire:"toolUses"`
	Tokens       *int64 `wire:"tokens"`
	CostMicroUSD *int64 `wire:"costMicroUsd"`
	LowerBound   bool   `wire:"taskLowerBound,opt"` // of the task; a run's own is another field
}

// TaskStarted says that something works beside the conversation.
type TaskStarted struct {
	Task        string         `wire:"taskId,word"`
	TaskKind    words.TaskKind `wire:"taskKind,word"`
	CallID      *string        `wire:"toolCallId"`
	Parent      *string        `wire:"parentTaskId"`
	Description string         `wire:"description"`
	AgentType   *string        `wire:"agentType"`
	Workflow    *string        `wire:"workflow"`
	Background  bool           `wire:"background"`
	Depth       int            `wire:"depth"` // 0 for one that the main strand started
}

// TaskProgress says how far a task is.
type TaskProgress struct {
	Task        string     `wire:"taskId,word"`
	CallID      *string    `wire:"toolCallId"`
	Description string     `wire:"description"`
	LastTool    *string    `wire:"lastTool"`
	Summary     *string    `wire:"summary"`
	Stats       *TaskStats `wire:"stats"`
}

// TaskNotification says that a task ended, or needs attention, with all that is
// known of why. It is delivered at least once.
type TaskNotification struct {
	Task        string                 `wire:"taskId,word"`
	TaskKind    words.TaskKind         `wire:"taskKind,word"`
	Status      words.BackgroundStatus `wire:"status,word"`
	CallID      *string                `wire:"toolCallId"`
	Summary     string                 `wire:"summary"`
	Result      *string                `wire:"result,max=1M"` // absent: it has none, which an empty one is not
	StoppedBy   *words.CancelCause     `wire:"stoppedBy"`
	Resumable   *bool                  `wire:"resumable"`
	Partial     *bool                  `wire:"partial"` // the result covers a part
	ExitCode    *int64                 `wire:"exitCode"`
	Diagnostics *string                `wire:"diagnostics"`
	Lines       *int64                 `wire:"lines"` // of output
	RecentSteps []string               `wire:"recentSteps,opt"`
	EditedFiles []string               `wire:"editedFiles,opt"`
	Source      *string                `wire:"source"`
	Seq         *int64                 `wire:"seq"`      // of the notifications of this task
	Injected    *bool                  `wire:"injected"` // whether the model was told
	OutputFile  *string                `wire:"outputFile"`
	Stats       *TaskStats             `wire:"stats"`
}

// WorkflowProgress is the level of one run of a workflow: its steps, and how they
// depend on each other.
type WorkflowProgress struct {
	Run       string                    `wire:"runId,word"`
	Name      string                    `wire:"name"`
	Status    words.BackgroundStatus    `wire:"status,word"`
	Steps     []WorkflowStep            `wire:"steps"`
	Approvals Stated[[]ApprovalRequest] `wire:"approvals"` // that are parked on the run; not stated is not empty
	Refusal   *string                   `wire:"refusal"`   // the code, verbatim, when it was refused
	Stats     *TaskStats                `wire:"stats"`
}

// WorkflowStep is one node of a workflow.
type WorkflowStep struct {
	ID     string                 `wire:"id,word"`
	Title  string                 `wire:"title"`
	Status words.BackgroundStatus `wire:"status,word"`
	After  []string               `wire:"after"` // the steps that it waits for
	Task   *string                `wire:"taskId"`
}

// Background is the level of what works in the background. It is the one to trust:
// the edges beside it may be missed.
type Background struct {
	Tasks []BackgroundTask `wire:"tasks"`
}

// BackgroundTask is one task in the background.
type BackgroundTask struct {
	Task        string                 `wire:"taskId,word"`
	TaskKind    words.TaskKind         `wire:"taskKind,word"`
	Status      words.BackgroundStatus `wire:"status,word"`
	CallID      *string                `wire:"toolCallId"`
	Parent      *string                `wire:"parentTaskId"`
	Description string                 `wire:"description"`
	Command     *string                `wire:"command,max=512"` // the start of it
	StartedAtMs *int64                 `wire:"startedAtMs"`
	DeadlineMs  *int64                 `wire:"deadlineMs"`
	Released    *bool                  `wire:"released"` // whether it let go of the session; absent: look at the status
	Stats       *TaskStats             `wire:"stats"`
}
