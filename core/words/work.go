package words

// TaskKind is what works in the background.
type TaskKind string

// The kinds.
const (
	TaskShell    TaskKind = "shell"
	TaskAgent    TaskKind = "agent"
	TaskWorkflow TaskKind = "workflow"
)

// TaskKinds is the closed set.
var TaskKinds = of("what works in the background",
	minted(TaskShell, "server"),
	minted(TaskAgent, "server"),
	planned(TaskWorkflow),
)

// BackgroundStatus is the state of a task in the background.
type BackgroundStatus string

// The statuses.
const (
	BackgroundStarting  BackgroundStatus = "starting"
	BackgroundRunning   BackgroundStatus = "running"
	BackgroundPaused    BackgroundStatus = "paused"
	BackgroundDraining  BackgroundStatus = "draining" // told to stop, and not over
	BackgroundCompleted BackgroundStatus = "completed"
	BackgroundFailed    BackgroundStatus = "failed"
	BackgroundKilled    BackgroundStatus = "killed"
	BackgroundLost      BackgroundStatus = "lost" // its process ended without telling how it went
)

// BackgroundStatuses is the closed set.
var BackgroundStatuses = of("the state of a task in the background",
	minted(BackgroundStarting, "server"),
	minted(BackgroundRunning, "server"),
	planned(BackgroundPaused),
	minted(BackgroundDraining, "server"),
	minted(BackgroundCompleted, "server"),
	minted(BackgroundFailed, "server"),
	minted(BackgroundKilled, "server"),
	minted(BackgroundLost, "server"),
)

// Ended reports whether a status is a last one. A word that is not known is not.
func (s BackgroundStatus) Ended() bool {
	switch s {
	case BackgroundCompleted, BackgroundFailed, BackgroundKilled, BackgroundLost:
		return true
	case BackgroundStarting, BackgroundRunning, BackgroundPaused, BackgroundDraining:
	}
	return false
}

// RegistrationState says whether a command that moved to the background was
// registered there.
type RegistrationState string

// The states.
const (
	Registered         RegistrationState = "registered"
	RegistrationFailed RegistrationState = "failed"
)

// RegistrationStates is the closed set.
var RegistrationStates = of("whether a command that moved to the background was registered",
	planned(Registered),
	planned(RegistrationFailed),
)

// QueueLane is how queued input reaches a strand.
type QueueLane string

// The lanes.
const (
	LaneSteer    QueueLane = "steer"     // into the running operation, before its next request
	LaneFollowUp QueueLane = "follow_up" // into the running operation, when it would end
	LaneNextRun  QueueLane = "next_run"  // with the next run
)

// QueueLanes is the closed set.
var QueueLanes = of("how queued input reaches a strand",
	minted(LaneSteer, "server"),
	minted(LaneFollowUp, "server"),
	minted(LaneNextRun, "server"),
)

// UnusedCause is why input that was queued was not used, or may not have been.
type UnusedCause string

// The causes.
const (
	UnusedRunEnded  UnusedCause = "run_ended"
	UnusedAborted   UnusedCause = "aborted"
	UnusedCancelled UnusedCause = "cancelled" // by who queued it
	UnusedUncertain UnusedCause = "uncertain" // it was handed over, and whether it was read is not known
)

// UnusedCauses is the closed set.
var UnusedCauses = of("why queued input was not used",
	planned(UnusedRunEnded),
	planned(UnusedAborted),
	planned(UnusedCancelled),
	planned(UnusedUncertain),
)

// PlanVerdict is a person's answer to a plan.
type PlanVerdict string

// The verdicts.
const (
	PlanAccept PlanVerdict = "accept"
	PlanEdit   PlanVerdict = "edit" // accepted as the person changed it
	PlanReject PlanVerdict = "reject"
)

// PlanVerdicts is the closed set.
var PlanVerdicts = of("a person's answer to a plan",
	minted(PlanAccept, "server"),
	minted(PlanEdit, "server"),
	minted(PlanReject, "server"),
)

// CompactionTrigger is what made a strand be compacted.
type CompactionTrigger string

// The triggers.
const (
	CompactedByHand     CompactionTrigger = "manual"
	CompactedAtLimit    CompactionTrigger = "threshold"
	CompactedOnOverflow CompactionTrigger = "overflow" // the provider said that the request is too long
)

// CompactionTriggers is the closed set.
var CompactionTriggers = of("what made a strand be compacted",
	minted(CompactedByHand, "machine"),
	minted(CompactedAtLimit, "machine"),
	minted(CompactedOnOverflow, "machine"),
)

// HookPhase is how far a hook is.
type HookPhase string

// The phases.
const (
	HookStarted   HookPhase = "started"
	HookOutput    HookPhase = "progress"
	HookResponded HookPhase = "response"
)

// HookPhases is the closed set.
var HookPhases = of("how far a hook is",
	planned(HookStarted),
	planned(HookOutput),
	planned(HookResponded),
)

// HookOutcome is how a hook ended.
type HookOutcome string

// The outcomes.
const (
	HookSucceeded HookOutcome = "success"
	HookErred     HookOutcome = "error"
	HookCancelled HookOutcome = "cancelled"
)

// HookOutcomes is the closed set.
var HookOutcomes = of("how a hook ended",
	planned(HookSucceeded),
	planned(HookErred),
	planned(HookCancelled),
)

// MountCondition is the one reason why a tool is offered to a run.
type MountCondition string

// The conditions.
const (
	MountedBuiltin  MountCondition = "builtin"  // every run has it
	MountedHands    MountCondition = "hands"    // the run was given files and a shell
	MountedRequest  MountCondition = "request"  // the request asked for it
	MountedConfig   MountCondition = "config"   // the configuration asked for it
	MountedServer   MountCondition = "server"   // an external tool server brought it
	MountedDelegate MountCondition = "delegate" // the run may start agents
)

// MountConditions is the closed set.
var MountConditions = of("why a tool is offered to a run",
	planned(MountedBuiltin),
	minted(MountedHands, "node", "server"),
	planned(MountedRequest),
	planned(MountedConfig),
	planned(MountedServer),
	planned(MountedDelegate),
)

// MCPDelivery is what became of a tool server that a run asked for.
type MCPDelivery string

// The verdicts.
const (
	MCPDelivered    MCPDelivery = "delivered"
	MCPConnecting   MCPDelivery = "connecting"
	MCPFailed       MCPDelivery = "failed"
	MCPUnauthorized MCPDelivery = "needs_authorization"
	MCPDisabled     MCPDelivery = "disabled"
	MCPRefused      MCPDelivery = "refused" // this deployment takes none from a request
)

// MCPDeliveries is the closed set.
var MCPDeliveries = of("what became of a tool server that a run asked for",
	planned(MCPDelivered),
	planned(MCPConnecting),
	planned(MCPFailed),
	planned(MCPUnauthorized),
	planned(MCPDisabled),
	planned(MCPRefused),
)

// Severity grades a diagnostic of a file.
type Severity string

// The grades.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityInfo    Severity = "info"
	SeverityHint    Severity = "hint"
)

// Severities is the closed set.
var Severities = of("how grave a diagnostic of a file is",
	planned(SeverityError),
	planned(SeverityWarning),
	planned(SeverityInfo),
	planned(SeverityHint),
)

// FileChange is what happened to a file of the workspace.
type FileChange string

// The changes.
const (
	FileCreated  FileChange = "created"
	FileModified FileChange = "modified"
	FileDeleted  FileChange = "deleted"
	FileRenamed  FileChange = "renamed"
)

// FileChanges is the closed set.
var FileChanges = of("what happened to a file of the workspace",
	planned(FileCreated),
	planned(FileModified),
	planned(FileDeleted),
	planned(FileRenamed),
)

// Health is what a server says about itself.
type Health string

// The words, from its start to its end.
const (
	HealthStarting Health = "starting"
	HealthReady    Health = "ready"
	HealthDegraded Health = "degraded" // it answers, and a part of it does not work
	HealthDraining Health = "draining" // it lets finish what runs and takes nothing new
)

// Healths is the closed set.
var Healths = of("what a server says about itself",
	planned(HealthStarting),
	minted(HealthReady, "server"),
	planned(HealthDegraded),
	minted(HealthDraining, "server"),
)

// Activity is whether a session works, waits for a person, or rests.
type Activity string

// The words.
const (
	ActivityIdle    Activity = "idle"
	ActivityRunning Activity = "running"
	ActivityAsking  Activity = "requires_action" // nothing goes on before somebody decides
)

// Activities is the closed set.
var Activities = of("whether a session works, waits or rests",
	minted(ActivityIdle, "server"),
	minted(ActivityRunning, "server"),
	minted(ActivityAsking, "server"),
)

// MemoryCapture is a wish about what is remembered of a session. It is a wish for
// privacy: a word that is not this one is refused and never passed over.
type MemoryCapture string

// MemoryOff keeps a session out of what is remembered.
const MemoryOff MemoryCapture = "off"

// MemoryCaptures is the closed set.
var MemoryCaptures = of("what is remembered of a session",
	planned(MemoryOff),
)

// ThinkingLevel is how much a model is asked to reason.
type ThinkingLevel string

// The levels.
const (
	ThinkingOff     ThinkingLevel = "off"
	ThinkingMinimal ThinkingLevel = "minimal"
	ThinkingLow     ThinkingLevel = "low"
	ThinkingMedium  ThinkingLevel = "medium"
	ThinkingHigh    ThinkingLevel = "high"
	ThinkingXHigh   ThinkingLevel = "xhigh"
	ThinkingMax     ThinkingLevel = "max"
)

// ThinkingLevels is the closed set, the least first.
var ThinkingLevels = of("how much a model is asked to reason",
	minted(ThinkingOff, "machine"),
	minted(ThinkingMinimal, "machine"),
	minted(ThinkingLow, "machine"),
	minted(ThinkingMedium, "machine"),
	minted(ThinkingHigh, "machine"),
	minted(ThinkingXHigh, "machine"),
	minted(ThinkingMax, "machine"),
)

// SearchRole is whose text a searched entry is.
type SearchRole string

// The roles.
const (
	SearchPerson  SearchRole = "user"
	SearchModel   SearchRole = "assistant"
	SearchTool    SearchRole = "tool"
	SearchSummary SearchRole = "summary" // of a compaction, or of a branch that was left
)

// SearchRoles is the closed set.
var SearchRoles = of("whose text a searched entry is",
	minted(SearchPerson, "events/search"),
	minted(SearchModel, "events/search"),
	minted(SearchTool, "events/search"),
	minted(SearchSummary, "events/search"),
)

// ErasureOutcome is what became of a place that may have held an erased text.
type ErasureOutcome string

// The outcomes.
const (
	ErasureClean       ErasureOutcome = "clean"        // searched after the last change, and the text is not there
	ErasureFound       ErasureOutcome = "found"        // of a dry run: it is there and would go
	ErasureNotSearched ErasureOutcome = "not_searched" // the place could not be looked through, or not all of it
	ErasureUnreachable ErasureOutcome = "unreachable"  // searched, and the text is left
)

// ErasureOutcomes is the closed set.
var ErasureOutcomes = of("what became of a place that may have held an erased text",
	minted(ErasureClean, "admin"),
	minted(ErasureFound, "admin"),
	minted(ErasureNotSearched, "admin"),
	minted(ErasureUnreachable, "admin"),
)
