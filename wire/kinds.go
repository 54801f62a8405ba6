package wire

import (
	"reflect"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/wire/shape"
)

// Kind names what a frame is about. The set is open on the wire: an unknown
// word is kept.
type Kind string

// The kinds of this build.
const (
	KindRunStart           Kind = "run_start"
	KindTurnStart          Kind = "turn_start"
	KindUserMessage        Kind = "user_message"
	KindTextDelta          Kind = "text_delta"
	KindTextEnd            Kind = "text_end"
	KindReasoningDelta     Kind = "reasoning_delta"
	KindReasoningEnd       Kind = "reasoning_end"
	KindToolCallDelta      Kind = "tool_call_delta"
	KindToolCall           Kind = "tool_call"
	KindToolDisclosure     Kind = "tool_disclosure"
	KindToolProgress       Kind = "tool_progress"
	KindToolResult         Kind = "tool_result"
	KindTurnEnd            Kind = "turn_end"
	KindLastTurnUsage      Kind = "last_turn_usage"
	KindRetry              Kind = "retry"
	KindCompactionBoundary Kind = "compaction_boundary"
	KindBranchSummary      Kind = "branch_summary"
	KindRunEnd             Kind = "run_end"
	KindRunStopped         Kind = "run_stopped"
	KindRosterChange       Kind = "roster_change"
	KindPending            Kind = "pending"
	KindApprovalRequest    Kind = "approval_request"
	KindApprovalSettled    Kind = "approval_settled"
	KindQuestionRequest    Kind = "question_request"
	KindQuestionSettled    Kind = "question_settled"
	KindPlanRequest        Kind = "plan_request"
	KindPlanSettled        Kind = "plan_settled"
	KindQueue              Kind = "queue"
	KindInputTaken         Kind = "input_taken"
	KindInputUnused        Kind = "input_unused"
	KindDiagnostics        Kind = "diagnostics"
	KindWorkspaceChanged   Kind = "workspace_changed"
	KindHookNotice         Kind = "hook_notice"
	KindNotice             Kind = "notice"
	KindTaskStarted        Kind = "task_started"
	KindTaskProgress       Kind = "task_progress"
	KindTaskNotification   Kind = "task_notification"
	KindWorkflowProgress   Kind = "workflow_progress"
	KindBackground         Kind = "background"
	KindActivity           Kind = "activity"
	KindSettings           Kind = "settings"
	KindPresence           Kind = "presence"
)

// kindSpec is one row of the kinds' table.
type kindSpec struct {
	kind       Kind
	deliveries []Delivery
	body       reflect.Type
	decode     func(jsonv.Value) (Body, error)
}

// kinds is the table of this build, in the order in which a run shows them.
var kinds = []kindSpec{
	of[RunStart](Level),
	of[TurnStart](Live),
	of[UserMessage](Replay),
	of[TextDelta](Live),
	of[TextEnd](Replay),
	of[ReasoningDelta](Live),
	of[ReasoningEnd](Replay),
	of[ToolCallDelta](Live),
	of[ToolCall](Replay),
	of[ToolDisclosure](Live),
	of[ToolProgress](Live),
	of[ToolResult](Replay),
	of[TurnEnd](Replay),
	of[LastTurnUsage](Level),
	of[Retry](Live),
	of[CompactionBoundary](Replay),
	of[BranchSummary](Replay),
	of[RunEnd](Replay),
	of[RunStopped](Level),
	of[RosterChange](Level),
	of[PendingLevel](Level),
	of[ApprovalRequest](Live),
	of[ApprovalSettled](Live),
	of[QuestionRequest](Live),
	of[QuestionSettled](Live),
	of[PlanRequest](Live),
	of[PlanSettled](Live),
	of[Queue](Level),
	of[InputTaken](Live),
	of[InputUnused](Live, Replay),
	of[Diagnostics](Live),
	of[WorkspaceChanged](Live),
	of[HookNotice](Live),
	of[Notice](Live, Replay),
	of[TaskStarted](Live),
	of[TaskProgress](Live),
	of[TaskNotification](Live, Replay),
	of[WorkflowProgress](Level),
	of[Background](Level),
	of[Activity](Level),
	of[Settings](Level),
	of[Presence](Level),
}

// of is the row of the kind whose body is B.
func of[B Body](deliveries ...Delivery) kindSpec {
	var zero B
	k := zero.Kind()
	return kindSpec{k, deliveries, reflect.TypeFor[B](), func(v jsonv.Value) (Body, error) {
		b, err := shape.Decode[B](v, "wire."+string(k))
		return b, err
	}}
}

// byKind finds a row. It is made once and only read.
var byKind = func() map[Kind]*kindSpec {
	m := make(map[Kind]*kindSpec, len(kinds))
	for i := range kinds {
		m[kinds[i].kind] = &kinds[i]
	}
	return m
}()

// Kinds returns the kinds of this build.
func Kinds() []Kind {
	out := make([]Kind, len(kinds))
	for i, k := range kinds {
		out[i] = k.kind
	}
	return out
}

// Known reports whether this build knows the kind.
func (k Kind) Known() bool { return byKind[k] != nil }

// Delivers reports whether frames of a known kind may have that delivery.
func (k Kind) Delivers(d Delivery) bool {
	spec := byKind[k]
	if spec == nil {
		return false
	}
	for _, x := range spec.deliveries {
		if x == d {
			return true
		}
	}
	return false
}

// Body is the Go type of a known kind's body; nil of another.
func (k Kind) Body() reflect.Type {
	if spec := byKind[k]; spec != nil {
		return spec.body
	}
	return nil
}

// The kinds of the bodies. Naming its kind is what makes a type a body.

func (RunStart) Kind() Kind { return KindRunStart }
func (RunStart) body()      {}

func (TurnStart) Kind() Kind { return KindTurnStart }
func (TurnStart) body()      {}

func (UserMessage) Kind() Kind { return KindUserMessage }
func (UserMessage) body()      {}

func (TextDelta) Kind() Kind { return KindTextDelta }
func (TextDelta) body()      {}

func (TextEnd) Kind() Kind { return KindTextEnd }
func (TextEnd) body()      {}

func (ReasoningDelta) Kind() Kind { return KindReasoningDelta }
func (ReasoningDelta) body()      {}

func (ReasoningEnd) Kind() Kind { return KindReasoningEnd }
func (ReasoningEnd) body()      {}

func (ToolCallDelta) Kind() Kind { return KindToolCallDelta }
func (ToolCallDelta) body()      {}

func (ToolCall) Kind() Kind { return KindToolCall }
func (ToolCall) body()      {}

func (ToolDisclosure) Kind() Kind { return KindToolDisclosure }
func (ToolDisclosure) body()      {}

func (ToolProgress) Kind() Kind { return KindToolProgress }
func (ToolProgress) body()      {}

func (ToolResult) Kind() Kind { return KindToolResult }
func (ToolResult) body()      {}

func (TurnEnd) Kind() Kind { return KindTurnEnd }
func (TurnEnd) body()      {}

func (LastTurnUsage) Kind() Kind { return KindLastTurnUsage }
func (LastTurnUsage) body()      {}

func (Retry) Kind() Kind { return KindRetry }
func (Retry) body()      {}

func (CompactionBoundary) Kind() Kind { return KindCompactionBoundary }
func (CompactionBoundary) body()      {}

func (BranchSummary) Kind() Kind { return KindBranchSummary }
func (BranchSummary) body()      {}

func (RunEnd) Kind() Kind { return KindRunEnd }
func (RunEnd) body()      {}

func (RunStopped) Kind() Kind { return KindRunStopped }
func (RunStopped) body()      {}

func (RosterChange) Kind() Kind { return KindRosterChange }
func (RosterChange) body()      {}

func (PendingLevel) Kind() Kind { return KindPending }
func (PendingLevel) body()      {}

func (ApprovalRequest) Kind() Kind { return KindApprovalRequest }
func (ApprovalRequest) body()      {}

func (ApprovalSettled) Kind() Kind { return KindApprovalSettled }
func (ApprovalSettled) body()      {}

func (QuestionRequest) Kind() Kind { return KindQuestionRequest }
func (QuestionRequest) body()      {}

func (QuestionSettled) Kind() Kind { return KindQuestionSettled }
func (QuestionSettled) body()      {}

func (PlanRequest) Kind() Kind { return KindPlanRequest }
func (PlanRequest) body()      {}

func (PlanSettled) Kind() Kind { return KindPlanSettled }
func (PlanSettled) body()      {}

func (Queue) Kind() Kind { return KindQueue }
func (Queue) body()      {}

func (InputTaken) Kind() Kind { return KindInputTaken }
func (InputTaken) body()      {}

func (InputUnused) Kind() Kind { return KindInputUnused }
func (InputUnused) body()      {}

func (Diagnostics) Kind() Kind { return KindDiagnostics }
func (Diagnostics) body()      {}

func (WorkspaceChanged) Kind() Kind { return KindWorkspaceChanged }
func (WorkspaceChanged) body()      {}

func (HookNotice) Kind() Kind { return KindHookNotice }
func (HookNotice) body()      {}

func (Notice) Kind() Kind { return KindNotice }
func (Notice) body()      {}

func (TaskStarted) Kind() Kind { return KindTaskStarted }
func (TaskStarted) body()      {}

func (TaskProgress) Kind() Kind { return KindTaskProgress }
func (TaskProgress) body()      {}

func (TaskNotification) Kind() Kind { return KindTaskNotification }
func (TaskNotification) body()      {}

func (WorkflowProgress) Kind() Kind { return KindWorkflowProgress }
func (WorkflowProgress) body()      {}

func (Background) Kind() Kind { return KindBackground }
func (Background) body()      {}

func (Activity) Kind() Kind { return KindActivity }
func (Activity) body()      {}

func (Settings) Kind() Kind { return KindSettings }
func (Settings) body()      {}

func (Presence) Kind() Kind { return KindPresence }
func (Presence) body()      {}
