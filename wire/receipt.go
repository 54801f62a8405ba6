package wire

import (
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/words"
)

// Receipts ignore fields that they do not know, and keep words verbatim, so
// that an older client reads a newer server.

// Created answers [CreateSession].
type Created struct {
	Session id.SessionID `wire:"session"`
	Cursor  Cursor       `wire:"cursor"` // behind all that the new session holds
}

// Admission says what became of an input.
type Admission string

const (
	// Admitted started an operation.
	Admitted Admission = "admitted"
	// Queued waits, durably, for the strand's running operation.
	Queued Admission = "queued"
)

// Words returns the closed set.
func (Admission) Words() []string { return []string{string(Admitted), string(Queued)} }

// Prompted answers [Prompt], [Steer] and [FollowUp]. Both admissions are committed
// when it is sent.
type Prompted struct {
	Status    Admission `wire:"status"`        // verbatim
	Operation id.OpID   `wire:"operation,opt"` // that will hear the input; absent when not known yet
	Item      *string   `wire:"item"`          // of a queued input: by which it can be edited; absent when it cannot
	Seq       int64     `wire:"seq"`           // of the commit
}

// QueueReceipt answers [QueueEdit] and [QueueCancel].
type QueueReceipt struct {
	Item     string `wire:"item"`
	Revision int64  `wire:"revision"` // after the edit
	Seq      int64  `wire:"seq"`
}

// Resumed answers [Resume]. An absent operation means that there was nothing to
// finish.
type Resumed struct {
	Operation id.OpID `wire:"operation,opt"`
}

// AbortStatus says what became of an abort.
type AbortStatus string

const (
	// Aborting means that the stop is committed and on its way; the run's end
	// follows as a frame.
	Aborting AbortStatus = "aborting"
	// NothingRunning means that there was nothing to stop.
	NothingRunning AbortStatus = "nothing_running"
)

// Words returns the closed set.
func (AbortStatus) Words() []string { return []string{string(Aborting), string(NothingRunning)} }

// AbortReceipt answers [Abort].
type AbortReceipt struct {
	Status AbortStatus `wire:"status"`
}

// PendingRows answers the fetch of what waits: the authority that a card is made
// from.
type PendingRows struct {
	Rows   []Pending `wire:"rows"`
	Cursor Cursor    `wire:"cursor"` // behind all that was committed when it was read
}

// Decided answers [Decide], [Answer] and [DecidePlan].
type Decided struct {
	ID         string            `wire:"id"`
	Settlement *words.Settlement `wire:"settlement"` // of an approval
	Seq        int64             `wire:"seq"`
	Operation  id.OpID           `wire:"operation,opt"`  // that goes on with it; absent when nothing runs
	RuleIssues []RuleProblem     `wire:"ruleIssues,opt"` // why the rule that came with it was not written
}

// GrantRow is an allowance of a person that holds for the session.
type GrantRow struct {
	Grant    string              `wire:"grant,word"` // the key that forgets it
	Lifetime words.GrantLifetime `wire:"lifetime,word"`
	Tool     string              `wire:"tool"`
	About    string              `wire:"about"` // the call that was allowed, in a line
	AtMs     *int64              `wire:"atMs"`
	Decider  *Author             `wire:"decider"`
}

// GrantList answers the list of allowances.
type GrantList struct {
	Grants []GrantRow `wire:"grants"`
}

// Forgotten answers [ForgetGrant]. What was not there any more is forgotten too.
type Forgotten struct {
	Grant string `wire:"grant"`
	Was   bool   `wire:"was"` // it was there
}

// Configured answers [Configure], [SetMode] and [SetModel].
type Configured struct {
	Settings Settings `wire:"settings"` // in effect after the commit
	Seq      int64    `wire:"seq"`
}

// Forked answers [Fork].
type Forked struct {
	Session id.SessionID `wire:"session"`
	Strand  string       `wire:"strand"`
	Cursor  Cursor       `wire:"cursor"`
}

// Navigated answers [Navigate] and [Compact]: both are operations of their own.
type Navigated struct {
	Operation id.OpID `wire:"operation,opt"`
	Seq       int64   `wire:"seq"`
}

// Rewound answers [Rewind].
type Rewound struct {
	CanRewind  bool          `wire:"canRewind"` // something can be taken back, or nothing has to be
	Changed    []string      `wire:"changed"`   // files that were, or would be, taken back
	Refused    []RefusedFile `wire:"refused"`   // changed since, and left alone
	Insertions int64         `wire:"insertions"`
	Deletions  int64         `wire:"deletions"`
}

// RefusedFile is a file that a rewind leaves alone.
type RefusedFile struct {
	Path string `wire:"path"`
	Why  string `wire:"why"` // one sentence
}

// RuleReceipt answers [WriteRule] and [RemoveRule].
type RuleReceipt struct {
	Rule RuleRow `wire:"rule"`
	// StillLive says whether the rule is in force in the sessions that run: one that
	// was removed may be, and one that was written may not be yet.
	StillLive words.RuleLiveness `wire:"stillLive"`
	Issues    []RuleProblem      `wire:"issues,opt"`
}

// RuleProblem is why a rule was not taken.
type RuleProblem struct {
	Code  words.RuleIssue `wire:"code,word"`
	Rule  *string         `wire:"rule"`  // as it was written; absent when it is no text
	Prose *string         `wire:"prose"` // the engine's own words; shown, and never compared
}

// RuleRow is one rule that there is.
type RuleRow struct {
	Rule        string                `wire:"rule"`
	Behavior    words.RuleBehavior    `wire:"behavior,word"`
	Destination words.RuleDestination `wire:"destination,word"`
	Writable    *bool                 `wire:"writable"` // absent when not known
	InEffect    *bool                 `wire:"inEffect"` // absent when not known
}

// RuleList answers the list of rules, in their precedence. No list is another
// answer than an empty one.
type RuleList struct {
	Rules Stated[[]RuleRow] `wire:"rules"`
}

// StopReceipt answers [StopTask].
type StopReceipt struct {
	Task   string                 `wire:"taskId"`
	Status words.BackgroundStatus `wire:"status,word"` // after the stop was asked
}

// SearchPage answers [Search].
type SearchPage struct {
	Hits []SearchHit `wire:"hits"`
	Next *string     `wire:"next"` // absent: there is no more
	// Considered is how many of the newest matches were ranked; absent when all were.
	Considered *int64 `wire:"considered"`
	// Unreadable are sessions that could not be read, and in which nothing new was looked
	// for.
	Unreadable []id.SessionID `wire:"unreadable,opt"`
}

// SearchHit is one entry that matches.
type SearchHit struct {
	Session id.SessionID `wire:"session"`
	Entry   id.EntryID   `wire:"entryId"`
	Cursor  Cursor       `wire:"cursor"` // of its first frame
	Excerpt string       `wire:"excerpt"`
	AtMs    *int64       `wire:"atMs"`

	Marks  []Mark           `wire:"marks,opt"` // what matches in the excerpt, in order
	Role   words.SearchRole `wire:"role"`
	Tool   *string          `wire:"tool"` // of a result
	Strand string           `wire:"strand,word"`
	Copies int64            `wire:"copies,opt"` // how many other sessions have the same row
}

// Mark is a piece of an excerpt, in bytes.
type Mark struct {
	From int64 `wire:"from"`
	To   int64 `wire:"to"`
}

// SessionInfo is one session in a list. What could not be read is absent.
type SessionInfo struct {
	Session   id.SessionID        `wire:"session"`
	Status    words.SessionStatus `wire:"status,word"`
	Cwd       *string             `wire:"cwd"`
	Model     *string             `wire:"model"`
	Name      *string             `wire:"name"`
	Title     *string             `wire:"title"`     // the start of the first prompt
	CreatedAt *int64              `wire:"createdAt"` // Unix ms
	UpdatedAt *int64              `wire:"updatedAt"` // Unix ms
	Archived  bool                `wire:"archived,opt"`
	Note      *string             `wire:"note"` // a sentence about a status that needs one
}

// SessionList answers the list of sessions, newest first.
type SessionList struct {
	Sessions []SessionInfo `wire:"sessions"`
}

// SessionPage is one page of a session's history: the same replay frames that a
// subscription sends.
type SessionPage struct {
	Info   SessionInfo `wire:"info"`
	Frames []Frame     `wire:"frames"`
	Next   Cursor      `wire:"next"` // where the next page, or a subscription, goes on
	More   bool        `wire:"more"` // there is more behind Next
}

// SessionChanged answers what changes a session as a whole.
type SessionChanged struct {
	Info SessionInfo `wire:"info"`
}

// Erased answers [EraseSession]: what became of each place that held the text.
type Erased struct {
	Places []ErasedPlace `wire:"places"`
}

// ErasedPlace is one store, index, export or folder.
type ErasedPlace struct {
	Place string               `wire:"place"`
	State words.ErasureOutcome `wire:"state,word"`
}

// Finding is one broken invariant of a session.
type Finding struct {
	Code    string `wire:"code"`    // verbatim
	Subject string `wire:"subject"` // the row, register or file
	Message string `wire:"message"` // one sentence
}

// CheckReport answers a check. No findings means that the session is whole.
type CheckReport struct {
	Findings []Finding `wire:"findings"`
	Rows     int64     `wire:"rows"` // how many rows were read
}
