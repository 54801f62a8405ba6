package words

// Cause is how a run ended, as the engine says it: the tag of a run's end.
type Cause string

// The causes.
const (
	CauseCompleted Cause = "completed" // with the model's answer
	CauseFailed    Cause = "failed"    // with an error
	CauseAborted   Cause = "aborted"   // its abort was committed, and what was running was stopped
	CauseBlocked   Cause = "blocked"   // a hook, a limit or an expiry kept it from going on
	CausePaused    Cause = "paused"    // it waits for a decision and can be resumed; very nearly the opposite of an end
)

// Causes is the engine's table. It shares words with [RowEndings] and is another
// table: the two are never merged.
var Causes = of("how a run ended, as the engine says it",
	minted(CauseCompleted, "machine"),
	minted(CauseFailed, "machine"),
	minted(CauseAborted, "machine"),
	planned(CauseBlocked),
	planned(CausePaused),
)

// RowEnding is the state in which the server's row of a run is finished.
type RowEnding string

// The states of a finished row.
const (
	RowCompleted RowEnding = "completed"
	RowFailed    RowEnding = "failed"
	RowBlocked   RowEnding = "blocked"
	RowCancelled RowEnding = "cancelled" // something outside stopped it, see [CancelCause]; the engine may never have told an end
)

// RowEndings is the server's table.
var RowEndings = of("in which state a run's row is finished, as the server says it",
	planned(RowCompleted),
	planned(RowFailed),
	planned(RowBlocked),
	planned(RowCancelled),
)

// PauseReason is what a paused run waits for.
type PauseReason string

// The reasons.
const (
	PausedOnApproval PauseReason = "approval"
	PausedOnQuestion PauseReason = "question"
	PausedOnPlan     PauseReason = "plan"
)

// PauseReasons is the closed set.
var PauseReasons = of("what a paused run waits for",
	minted(PausedOnApproval, "node", "server"),
	minted(PausedOnQuestion, "machine", "node", "server"),
	minted(PausedOnPlan, "node", "server"),
)

// BlockedKind is what kept a run from going on. The kind says in which table its
// cause stands: [HookBlocks], [LimitBlocks] or [Expiries].
type BlockedKind string

// The kinds.
const (
	BlockedByHook   BlockedKind = "hook"
	BlockedByLimit  BlockedKind = "limit"
	BlockedByExpiry BlockedKind = "expiry"
)

// BlockedKinds is the closed set.
var BlockedKinds = of("what kept a run from going on",
	planned(BlockedByHook),
	planned(BlockedByLimit),
	planned(BlockedByExpiry),
)

// HookBlock is how a hook kept a prompt from being submitted.
type HookBlock string

// The four ways.
const (
	HookDenied     HookBlock = "prompt_denied"   // it said no
	HookFailed     HookBlock = "hook_failed"     // it could not be run, or ended with an error
	HookTimedOut   HookBlock = "hook_timed_out"  // it gave no answer in its time
	HookUnreadable HookBlock = "hook_unreadable" // its answer cannot be read
)

// HookBlocks is the closed set.
var HookBlocks = of("how a hook kept a prompt from being submitted",
	planned(HookDenied),
	planned(HookFailed),
	planned(HookTimedOut),
	planned(HookUnreadable),
)

// LimitBlock is the limit that a run used up.
type LimitBlock string

// The limits.
const (
	LimitTurns         LimitBlock = "max_turns"
	LimitBudget        LimitBlock = "max_budget"
	LimitDenials       LimitBlock = "denial_limit"
	LimitOutputRetries LimitBlock = "output_retries" // a structured answer that did not fit its schema too often
)

// LimitBlocks is the closed set.
var LimitBlocks = of("which limit a run used up",
	planned(LimitTurns),
	planned(LimitBudget),
	planned(LimitDenials),
	planned(LimitOutputRetries),
)

// Expiry is which of three windows closed while a run waited. They are distinct
// outcomes: what a person does next differs.
type Expiry string

// The three.
const (
	ExpiredApproval    Expiry = "approval_window_expired"     // nobody answered the question in its time
	ExpiredDenialLimit Expiry = "denial_limit_window_expired" // after too many denials nobody said to go on
	ExpiredPark        Expiry = "park_sla_expired"            // the run was parked for longer than it may be
)

// Expiries is the closed set.
var Expiries = of("which window closed while a run waited",
	minted(ExpiredApproval, "machine", "node", "server"),
	minted(ExpiredDenialLimit, "machine", "server"),
	minted(ExpiredPark, "machine", "server"),
)

// CancelCause is why something was cancelled from outside.
type CancelCause string

// The causes.
const (
	CancelledByPerson   CancelCause = "person"
	CancelledByParent   CancelCause = "parent_finished" // the run that started it is over
	CancelledByBudget   CancelCause = "budget_expired"  // the time that its parent gave it is used up
	CancelledByNewer    CancelCause = "superseded"      // a newer request of the same caller took its place
	CancelledByShutdown CancelCause = "shutdown"        // the process that ran it ends
	CancelledByLease    CancelCause = "lease_lost"      // another process runs the session now
	CancelledByErasure  CancelCause = "session_erased"
)

// CancelCauses is the closed set.
var CancelCauses = of("why something was cancelled from outside",
	minted(CancelledByPerson, "server"),
	minted(CancelledByParent, "machine/agency"),
	minted(CancelledByBudget, "machine/agency", "server"),
	planned(CancelledByNewer),
	planned(CancelledByShutdown),
	planned(CancelledByLease),
	planned(CancelledByErasure),
)

// SessionStatus is what a session is doing, in a list of sessions.
type SessionStatus string

// The statuses.
const (
	SessionIdle        SessionStatus = "idle"
	SessionRunning     SessionStatus = "running"
	SessionInterrupted SessionStatus = "interrupted" // an operation is open and nothing drives it
	SessionHeld        SessionStatus = "held"        // by another process
	SessionUnreadable  SessionStatus = "unreadable"
)

// SessionStatuses is the closed set.
var SessionStatuses = of("what a session is doing",
	minted(SessionIdle, "server"),
	minted(SessionRunning, "server"),
	minted(SessionInterrupted, "server"),
	minted(SessionHeld, "server"),
	minted(SessionUnreadable, "server"),
)
