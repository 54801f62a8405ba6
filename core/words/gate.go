package words

// Disposition is what became of a call at its gate.
type Disposition string

// The dispositions.
const (
	GateAllowed   Disposition = "allowed"
	GateDenied    Disposition = "denied"
	GateUnsettled Disposition = "unsettled" // the run ended before the gate was decided; the call did not run
)

// Dispositions is the closed set.
var Dispositions = of("what became of a call at its gate",
	minted(GateAllowed, "machine"),
	minted(GateDenied, "machine", "server"),
	minted(GateUnsettled, "machine"),
)

// Settlement is how a question about a call was answered. A call that nobody was
// asked about has none.
type Settlement string

// The thirteen settlements.
const (
	ApprovedOnce          Settlement = "approved_once"    // a person allowed this call
	ApprovedSession       Settlement = "approved_session" // a person allowed calls like it for the session
	ApprovedAlways        Settlement = "approved_always"  // a person allowed it and a rule was written
	ApprovedEdited        Settlement = "approved_edited"  // a person allowed another input, and that ran
	Rejected              Settlement = "rejected"         // a person refused
	RejectedStop          Settlement = "rejected_stop"    // a person refused and stopped the run
	PolicyRefused         Settlement = "policy_refused"   // the deployment's policy refused in the person's place
	ModeAnswered          Settlement = "mode_answered"    // the permission mode answered in the person's place
	SettledNobody         Settlement = "no_decider"       // nobody who can decide was there to be asked
	SettledAborted        Settlement = "aborted"          // the run was stopped while the question was open
	SettledApprovalWindow Settlement = "approval_window_expired"
	SettledDenialLimit    Settlement = "denial_limit_window_expired"
	SettledPark           Settlement = "park_sla_expired"
)

// Settlements is the closed set.
var Settlements = of("how a question about a call was settled",
	minted(ApprovedOnce, "machine"),
	minted(ApprovedSession, "machine"),
	planned(ApprovedAlways),
	minted(ApprovedEdited, "machine", "server"),
	minted(Rejected, "machine"),
	minted(RejectedStop, "machine"),
	planned(PolicyRefused),
	planned(ModeAnswered),
	planned(SettledNobody),
	minted(SettledAborted, "machine", "server"),
	minted(SettledApprovalWindow, "machine", "server"),
	minted(SettledDenialLimit, "machine", "server"),
	minted(SettledPark, "machine", "server"),
)

// DeniedBy is who denied a call.
type DeniedBy string

// The ten.
const (
	DeniedByPerson       DeniedBy = "person"
	DeniedByMode         DeniedBy = "mode"          // the permission mode does not cover the tool's class
	DeniedByRule         DeniedBy = "rule"          // a deny rule
	DeniedByPolicy       DeniedBy = "policy"        // what the deployment allows at all
	DeniedByHook         DeniedBy = "hook"          // a hook before the call
	DeniedByClassifier   DeniedBy = "classifier"    // the classifier of the mode auto
	DeniedByReadBoundary DeniedBy = "read_boundary" // the target lies outside what may be read
	DeniedByJail         DeniedBy = "jail"          // the operating system refused it to the command
	DeniedByNobody       DeniedBy = "nobody"        // it had to be asked and the question reached nobody, or nobody in time
	DeniedByLimit        DeniedBy = "limit"         // a budget or a count is used up
)

// DeniedBys is the closed set.
var DeniedBys = of("who denied a call",
	minted(DeniedByPerson, "machine"),
	minted(DeniedByMode, "node", "policy"),
	minted(DeniedByRule, "policy"),
	minted(DeniedByPolicy, "broker", "node"),
	planned(DeniedByHook),
	minted(DeniedByClassifier, "policy"),
	minted(DeniedByReadBoundary, "policy"),
	planned(DeniedByJail),
	minted(DeniedByNobody, "machine", "node"),
	planned(DeniedByLimit),
)

// RoutingFailure is the word of a denial whose question could not be routed to
// anybody. It is told apart from a refusal by whoever offers to ask again.
const RoutingFailure = DeniedByNobody

// AskOrigin is what made a call a question.
type AskOrigin string

// The eleven.
const (
	AskedByMode       AskOrigin = "mode"         // the permission mode asks for the tool's class
	AskedByRule       AskOrigin = "rule"         // an ask rule
	AskedBySubcommand AskOrigin = "subcommand"   // one command of several is not covered
	AskedByTool       AskOrigin = "tool"         // the tool asks for itself, whatever the mode
	AskedByHook       AskOrigin = "hook"         // a hook before the call
	AskedByClassifier AskOrigin = "classifier"   // the classifier was not sure, or could not run
	AskedByAgent      AskOrigin = "agent"        // a call of a subagent, passed up
	AskedByBoundary   AskOrigin = "boundary"     // the target lies outside the directories that are granted
	AskedByNetwork    AskOrigin = "network"      // it reaches for the network
	AskedByJail       AskOrigin = "jail_release" // it asks to run outside the jail
	AskedBySafety     AskOrigin = "safety"       // a check that no rule can retire, see [Mandate]
)

// AskOrigins is the closed set.
var AskOrigins = of("what made a call a question",
	minted(AskedByMode, "policy"),
	minted(AskedByRule, "policy"),
	minted(AskedBySubcommand, "policy"),
	minted(AskedByTool, "node", "policy"),
	planned(AskedByHook),
	minted(AskedByClassifier, "policy"),
	planned(AskedByAgent),
	planned(AskedByBoundary),
	planned(AskedByNetwork),
	planned(AskedByJail),
	minted(AskedBySafety, "policy"),
)

// Mandate is what a question stands on that no rule can retire.
type Mandate string

// The six.
const (
	MandatedPath     Mandate = "protected_path"   // a path that is never granted for good
	MandatedState    Mandate = "harness_state"    // the harness's own files and configuration
	MandatedJail     Mandate = "jail_release"     // running outside the jail
	MandatedNetwork  Mandate = "full_network"     // the whole network
	MandatedLifetime Mandate = "session_lifetime" // a command that outlives the run
	MandatedPlan     Mandate = "plan_exit"        // leaving the mode plan
)

// Mandates is the closed set.
var Mandates = of("what a question stands on that no rule can retire",
	planned(MandatedPath),
	minted(MandatedState, "policy"),
	planned(MandatedJail),
	planned(MandatedNetwork),
	planned(MandatedLifetime),
	minted(MandatedPlan, "node", "policy"),
)

// SettledBy is whom a decision is attributed to when it is not the person at the
// client. A person's decision carries no such word.
type SettledBy string

// SettledByPolicy is the deployment's policy; it refuses and never allows.
const SettledByPolicy SettledBy = "policy"

// SettledBys is the closed set.
var SettledBys = of("to whom a refusal is attributed in the person's place",
	planned(SettledByPolicy),
)

// UnsettledCause is why an approval could not be resolved.
type UnsettledCause string

// The three.
const (
	UnsettledNoRow     UnsettledCause = "row_gone"        // the pending row is not there any more
	UnsettledNoDecider UnsettledCause = "no_decider"      // nobody who can decide could be reached
	UnsettledInFold    UnsettledCause = "refused_in_fold" // refused while the question was folded into another; it has no settlement at all
)

// UnsettledCauses is the closed set.
var UnsettledCauses = of("why an approval could not be resolved",
	planned(UnsettledNoRow),
	planned(UnsettledNoDecider),
	planned(UnsettledInFold),
)

// UndecidedCause is why the classifier of the mode auto gave no verdict.
type UndecidedCause string

// The causes.
const (
	UndecidedUnrouted UndecidedCause = "unrouted"        // no model has the role
	UndecidedFailed   UndecidedCause = "failed"          // its model was asked and failed
	UndecidedTimedOut UndecidedCause = "timed_out"       // it gave no answer in its time
	UndecidedContract UndecidedCause = "out_of_contract" // it answered, and not in its words: not an outage
)

// UndecidedCauses is the closed set. A reader takes the cause as an open one: a
// newer word is a new kind of outage.
var UndecidedCauses = of("why the classifier gave no verdict",
	minted(UndecidedUnrouted, "policy"),
	minted(UndecidedFailed, "policy"),
	minted(UndecidedTimedOut, "policy"),
	minted(UndecidedContract, "policy"),
)

// Decision is a person's answer to an approval.
type Decision string

// The decisions. Only the exact word allow lets a call run.
const (
	Allow Decision = "allow"
	Deny  Decision = "deny"
)

// Decisions is the closed set.
var Decisions = of("a person's answer to an approval",
	minted(Allow, "server"),
	planned(Deny),
)

// GrantLifetime is how long an allowance holds.
type GrantLifetime string

// The lifetimes.
const (
	GrantOnce    GrantLifetime = "once"         // this call
	GrantSession GrantLifetime = "session"      // calls that need no more than this one, in this session
	GrantExact   GrantLifetime = "exact_action" // this tool with exactly this input, in this session
)

// GrantLifetimes is the closed set.
var GrantLifetimes = of("how long an allowance holds",
	minted(GrantOnce, "machine", "server"),
	minted(GrantSession, "machine", "node", "server"),
	minted(GrantExact, "machine", "node", "server"),
)

// ApproverPosture says whether somebody who can decide stays with a session.
type ApproverPosture string

// The postures.
const (
	ApproverResident ApproverPosture = "resident" // a question may wait for an answer
	ApproverAbsent   ApproverPosture = "absent"   // nobody will answer: a question is a denial at once
)

// ApproverPostures is the closed set.
var ApproverPostures = of("whether somebody who can decide stays with a session",
	minted(ApproverResident, "node", "server"),
	minted(ApproverAbsent, "server"),
)
