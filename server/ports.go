package server

import (
	"context"
	"strings"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/events/search"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/wire"
)

// Host opens sessions. It is what the composition root implements; every error
// that is not a [Refusal] is worded by the server.
type Host interface {
	// Create makes a session and opens it. observe hears the facts of its engine,
	// in order, and does not block.
	Create(ctx context.Context, q NewSession, observe func(engine.Fact)) (Resident, error)
	// Open opens a session for running. Nothing runs before a prompt or a resume.
	Open(ctx context.Context, s id.SessionID, observe func(engine.Fact)) (Resident, error)
	// Read opens a session for reading, also one that another process runs.
	Read(ctx context.Context, s id.SessionID) (Reader, error)
	// List tells what sessions there are, newest first.
	List(ctx context.Context) ([]Info, error)
	// Search looks for text in the sessions, as they are now. A query that cannot be looked
	// for is a [*search.QueryError].
	Search(ctx context.Context, q search.Query) (search.Result, error)
	// About is what the host says of itself. It does not change while it lives.
	About() About
}

// About is what a host can do, beside what every server does.
type About struct {
	Build string // of the program, for people; may be empty
	// Generation is larger for each process that serves the same place.
	Generation int64
	Modes      []words.PermissionMode  // that it offers
	Store      string                  // what keeps sessions, in one word; empty when it does not say
	SQL        *SQL                    // nil: there is no SQL under it
	Agents     *Agents                 // nil: nobody can start any
	Jobs       bool                    // commands work in the background
	Rules      []words.RuleDestination // where rules can be written; nil: nowhere
	Approvals  *Approvals              // nil: nobody is asked about a call
}

// Approvals says how a person is asked.
type Approvals struct {
	Lifetimes []words.GrantLifetime // for how long they can allow
	WindowMs  *int64                // how long an answer is waited for; nil: for ever
}

// Agents bounds the agents of a session.
type Agents struct {
	MaxDepth, MaxAtOnce int64
}

// SQL is the database under the sessions.
type SQL struct {
	Backend    string
	Durability string // what an acknowledged commit survives, in the backend's word; may be empty
	Fence      string // what keeps a second writer out
}

// Reader reads one session.
type Reader interface {
	Source() Source
	Info() (Info, error)
	// Check names every broken invariant.
	Check(ctx context.Context) (Report, error)
	Close() error
}

// Resident is one open session that can run.
type Resident interface {
	Reader
	ID() id.SessionID
	Prompt(ctx context.Context, q Prompt) (engine.Receipt, error)
	// EditQueued replaces what input says that waits, as it was read, and Withdraw takes
	// it out. Both return the seq of the change; what was taken meanwhile is
	// machine.ErrNotPending, what was changed engine.ErrQueueMoved.
	EditQueued(ctx context.Context, row QueuedRow, text string) (seq int64, err error)
	Withdraw(ctx context.Context, row QueuedRow) (seq int64, err error)
	// Resume lets an interrupted operation go on; ok is false when there is none.
	Resume(ctx context.Context, q Resume) (op id.OpID, ok bool, err error)
	// Abort stops the running operation of a strand; ok is false when there is
	// none.
	Abort(strand string) (op id.OpID, ok bool, err error)
	// StopTask ends what works beside the conversation: the run of a strand that
	// another one started, by its name, or a job. ok is false when it does not work.
	StopTask(ctx context.Context, task string) (ok bool, err error)
	// Fork makes a session of the conversation of a strand, up to an entry; an absent one
	// is where the strand stands.
	Fork(ctx context.Context, strand string, at id.EntryID) (id.SessionID, error)
	// Navigate moves a strand that rests, and Compact sums up what is old in it; both
	// return once that is durable, and it goes on as an operation of the strand.
	Navigate(ctx context.Context, to Navigation) (Moved, error)
	Compact(ctx context.Context, strand string, instructions *string) (Moved, error)
	// Rewind takes files back to what they held before a message of the person, or says
	// what it would do. A session that runs is refused.
	Rewind(ctx context.Context, at id.EntryID, dryRun bool) (Rewound, error)
	// Decide records what a person decided about a call that waits. The first decision is
	// the one; op is what goes on with it, absent when nothing of the session runs here.
	Decide(ctx context.Context, q Decided) (op id.OpID, seq int64, err error)
	// Grants lists what is allowed for the session, and Forget takes an allowance back; ok
	// is false where there is none.
	Grants(ctx context.Context) ([]Granted, error)
	Forget(ctx context.Context, key string) (ok bool, err error)
	// Rules lists the rules that hold for the session, strongest first.
	Rules(ctx context.Context) ([]Rule, error)
	// WriteRule writes a rule, or removes one; the error is a [*RuleRefused] when the rule
	// or its place is wrong.
	WriteRule(ctx context.Context, q Rule, remove bool) (Ruled, error)
	// Configure changes what the next step of a strand uses, and returns all of it.
	Configure(ctx context.Context, strand string, c Configuring) (Configured, error)
	// Current is the operation that a strand works on.
	Current(strand string) (op id.OpID, ok bool, err error)
	// Level is what a strand runs with.
	Level(strand string) (Level, error)
}

// Decided is a person's decision about a call that waits.
type Decided struct {
	Strand, Gate string
	Decision     machine.Decision
}

// Granted is an allowance that holds for the session, under the key that forgets it.
type Granted struct {
	Key   string
	Grant machine.Grant
}

// Rewound is what a rewind did, or would do.
type Rewound struct {
	Changed               []string
	Refused               []RefusedFile
	Insertions, Deletions int64 // lines
}

// RefusedFile is a file that a rewind leaves alone, and why, in a sentence.
type RefusedFile struct{ Path, Why string }

// Rule is one permission rule.
type Rule struct {
	Text     string
	Behavior words.RuleBehavior
	Place    words.RuleDestination
	InEffect *bool // nil: not known
}

// Ruled is a rule that was written or removed, and whether it holds in the sessions that
// it concerns and that run.
type Ruled struct {
	Rule Rule
	Live words.RuleLiveness
}

// NewSession is what a session is made with.
type NewSession struct {
	Cwd      string
	Model    *string
	Mode     string // one of the wire's permission modes
	MaxTurns *int64
	Posture  *words.ApproverPosture // whether a question may wait for a person; nil: it may not
}

// Prompt is input for a strand. What is nil stays as the session has it.
type Prompt struct {
	Strand   string
	Text     string
	MaxTurns *int64
	Model    *string
	Mode     *string
	Delivery engine.Delivery // to a strand that works
	Posture  *words.ApproverPosture
}

// Resume lets a strand go on. What is nil stays as the session has it.
type Resume struct {
	Strand   string
	MaxTurns *int64
	Mode     *string
	Posture  *words.ApproverPosture
}

// Configuring is a change of what a strand's next step uses. What is nil stays.
type Configuring struct {
	Model         *string
	ThinkingLevel *words.ThinkingLevel
	ActiveTools   []string              // none of them is not nil
	Mode          *words.PermissionMode // of the session, from its next call on
}

// Configured is what a strand's next step uses.
type Configured struct {
	Provider, ModelID string
	Mode              words.PermissionMode
	ThinkingLevel     words.ThinkingLevel
	ActiveTools       []string
	Seq               int64 // of its last change
}

// Level is what a run runs with.
type Level struct {
	Provider, ModelID string
	Mode              string
	Cwd               string
	Tools             []Tool // as they are offered, in order
}

// Tool is one tool that a model is offered. What is nil is not known.
type Tool struct {
	Name      string
	Mount     words.MountCondition
	Class     *words.ToolClass
	Path      *string // the argument that names its target
	Exclusive *bool   // it runs alone
	Repeats   *bool   // it may be run again after a crash
}

// Info describes a session in a list. What could not be read is nil.
type Info struct {
	Session   id.SessionID
	Status    Status
	Cwd       *string
	Model     *string
	Title     *string
	CreatedAt *int64 // Unix ms
	UpdatedAt *int64 // Unix ms
	Note      *string
}

// Report is the outcome of a check.
type Report struct {
	Findings []Finding
	Rows     int64
}

// Finding is one broken invariant.
type Finding struct{ Code, Subject, Message string }

// Status and Code are words of the wire. They are named here so that a host need
// not know the wire.
type (
	Status = words.SessionStatus
	Code   = wire.Code
)

// The states that a host tells.
const (
	Idle        = words.SessionIdle
	Interrupted = words.SessionInterrupted
	HeldByOther = words.SessionHeld
	Unreadable  = words.SessionUnreadable
)

// The codes that a host refuses with.
const (
	BadRequest      = wire.BadRequest
	BadCwd          = wire.BadCwd
	UnknownModel    = wire.UnknownModel
	MissingKey      = wire.MissingKey
	UnknownSession  = wire.UnknownSession
	UnknownStrand   = wire.UnknownStrand
	SessionHeld     = wire.SessionHeld
	Conflict        = wire.Conflict
	StoreFull       = wire.StoreFull
	StoreUnreadable = wire.StoreUnreadable
)

// Refusal is a no. Message is one sentence for a person.
type Refusal struct {
	Code    Code
	Message string
	Err     error // the cause, when there is one; not sent
}

func (e *Refusal) Error() string { return e.Message }
func (e *Refusal) Unwrap() error { return e.Err }

// RuleRefused says that a rule was not written or removed, and why.
type RuleRefused struct{ Issues []RuleProblem }

// RuleProblem is one thing that is wrong with a rule.
type RuleProblem struct {
	Code  words.RuleIssue
	Rule  string // as it was written
	Prose string // for people
}

func (e *RuleRefused) Error() string {
	said := make([]string, len(e.Issues))
	for i, issue := range e.Issues {
		said[i] = issue.Prose
	}
	return "the rule was not taken and nothing was changed: " + strings.Join(said, " ")
}

// Refuse makes a refusal.
func Refuse(code Code, message string) *Refusal { return &Refusal{Code: code, Message: message} }
