package wire

import (
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
)

// Bounds of request bodies and answers, in bytes of JSON.
const (
	// MaxPromptBody bounds a prompt, a steer and a follow-up.
	MaxPromptBody = 64 << 20
	// MaxBody bounds every other request.
	MaxBody = 64 << 10
	// MaxDecisionBody bounds an answer of a person: it may carry an edited input or
	// a plan.
	MaxDecisionBody = 4 << 20
	// MaxReceipt bounds every answer but a page of history.
	MaxReceipt = 4 << 20
	// MaxPage is the most frames in one page of history.
	MaxPage = 1000
)

// Mutation is what every request that changes something carries.
type Mutation struct {
	// Key makes the request one: sent again with the same body it is carried out
	// once and answered alike, for as long as the capabilities say. The same key with
	// another body is refused.
	Key string `wire:"key,word"`
}

// IdempotencyKey returns the key.
func (m Mutation) IdempotencyKey() string { return m.Key }

// CreateSession asks for a new session.
type CreateSession struct {
	Mutation
	Cwd             string                 `wire:"cwd,nonempty"` // absolute
	Model           *string                `wire:"model"`
	PermissionMode  words.PermissionMode   `wire:"permissionMode"`
	MaxTurns        *int64                 `wire:"maxTurns,min=1"` // turns per run; absent is no limit
	Name            *string                `wire:"name,max=256"`
	ExcludeAllTools bool                   `wire:"excludeAllTools,opt"` // the model is offered none
	ApproverPosture *words.ApproverPosture `wire:"approverPosture"`     // whether somebody who can decide stays: resident, or absent
	MemoryCapture   *words.MemoryCapture   `wire:"memoryCapture"`
}

// Input is what a person sends to a strand.
type Input struct {
	Mutation
	Text   string  `wire:"text,nonempty"`
	Images []Image `wire:"images,opt"`
	Strand *string `wire:"strand,word"` // absent is the main strand
}

// Image is a picture of an input.
type Image struct {
	MediaType string `wire:"mediaType,word"`
	Data      string `wire:"data,nonempty"` // base64
}

// Prompt asks a strand to run with a text.
type Prompt struct {
	Input
	MaxTurns       *int64                `wire:"maxTurns,min=1"` // absent is the session's setting
	Model          *string               `wire:"model"`          // absent is the strand's setting
	PermissionMode *words.PermissionMode `wire:"permissionMode"` // absent is the session's setting
	// ApproverPosture says whether a question may wait for somebody; absent is the
	// session's setting.
	ApproverPosture *words.ApproverPosture `wire:"approverPosture"`
}

// Steer puts a text into the running operation, before its next request.
type Steer struct{ Input }

// FollowUp puts a text into the running operation, for when it would end.
type FollowUp struct{ Input }

// QueueEdit replaces the text of an input that waits. Position, author and images
// stay.
type QueueEdit struct {
	Mutation
	Item     string `wire:"item,word"`
	Revision int64  `wire:"revision"` // the one that was shown
	Text     string `wire:"text,nonempty"`
}

// QueueCancel takes an input out of the queue.
type QueueCancel struct {
	Mutation
	Item     string `wire:"item,word"`
	Revision *int64 `wire:"revision"` // absent: whatever it says now
}

// Resume asks to finish an interrupted operation.
type Resume struct {
	Mutation
	Strand         *string               `wire:"strand,word"`
	MaxTurns       *int64                `wire:"maxTurns,min=1"`
	PermissionMode *words.PermissionMode `wire:"permissionMode"`
	// ApproverPosture is as in [Prompt].
	ApproverPosture *words.ApproverPosture `wire:"approverPosture"`
}

// Abort asks to stop the running operation of a strand.
type Abort struct {
	Mutation
	Strand *string `wire:"strand,word"`
}

// Decide answers an approval. The binding is that of the row that was shown.
type Decide struct {
	Mutation
	ID string `wire:"id,word"`
	Binding
	Seq      int64                `wire:"seq"` // of the row that was shown
	Decision words.Decision       `wire:"decision"`
	Lifetime *words.GrantLifetime `wire:"lifetime"` // of an allowance; absent is once
	Input    *jsonv.Value         `wire:"input"`    // runs in place of the one that was asked about, when allowed
	Rule     *RuleChoice          `wire:"rule"`     // to write with the answer
	Message  *string              `wire:"message"`  // to the model, with a refusal
	Stop     bool                 `wire:"stop,opt"` // refuse, and stop the run
	// SettledBy attributes a refusal to somebody else than the person. A person's is
	// its absence.
	SettledBy *words.SettledBy `wire:"settledBy"`
}

// Check implements [shape.Checked]. An allowance that is attributed to somebody
// else is refused before anything is judged.
func (q Decide) Check() (field, expected string) {
	if q.Decision == words.Allow {
		switch {
		case q.SettledBy != nil:
			return "settledBy", "no attribution on an allowance"
		case q.Stop:
			return "stop", "no stop with an allowance"
		case q.Message != nil:
			return "message", "no message with an allowance"
		}
		return "", ""
	}
	switch {
	case q.Input != nil:
		return "input", "no input with a refusal"
	case q.Lifetime != nil:
		return "lifetime", "no lifetime with a refusal"
	}
	return "", ""
}

// RuleChoice is a rule that was offered, and where to keep it.
type RuleChoice struct {
	Rule        string                `wire:"rule,nonempty"`
	Behavior    words.RuleBehavior    `wire:"behavior"`
	Destination words.RuleDestination `wire:"destination"`
}

// Answer answers a question.
type Answer struct {
	Mutation
	ID string `wire:"id,word"`
	Binding
	Seq     int64   `wire:"seq"`
	Answers []Reply `wire:"answers"`
}

// Reply is the answer to one question: options by their ids, or a text.
type Reply struct {
	Question string   `wire:"question,word"`
	Chosen   []string `wire:"chosen,opt"`
	Text     *string  `wire:"text"`
}

// DecidePlan answers a plan.
type DecidePlan struct {
	Mutation
	ID string `wire:"id,word"`
	Binding
	Seq     int64             `wire:"seq"`
	Verdict words.PlanVerdict `wire:"verdict"`
	Plan    *string           `wire:"plan"`    // as the person changed it
	Message *string           `wire:"message"` // to the model
}

// Check implements [shape.Checked].
func (q DecidePlan) Check() (field, expected string) {
	if (q.Verdict == words.PlanEdit) != (q.Plan != nil) {
		return "plan", "the changed plan exactly with the verdict edit"
	}
	return "", ""
}

// ForgetGrant takes back an allowance that holds for the session.
type ForgetGrant struct {
	Mutation
	Grant string `wire:"grant,word"` // the key that it was listed under
}

// Configure changes what a strand's next run starts with. What is absent stays.
type Configure struct {
	Mutation
	Strand        *string              `wire:"strand,word"`
	ThinkingLevel *words.ThinkingLevel `wire:"thinkingLevel"`
	ActiveTools   []string             `wire:"activeTools,opt"`
}

// SetMode changes the permission mode of a session.
type SetMode struct {
	Mutation
	PermissionMode words.PermissionMode `wire:"permissionMode"`
}

// SetModel changes the model of a strand.
type SetModel struct {
	Mutation
	Strand *string `wire:"strand,word"`
	Model  string  `wire:"model,nonempty"`
}

// Fork copies a conversation up to an entry: into a new strand, or a new session.
type Fork struct {
	Mutation
	Strand  *string     `wire:"strand,word"`
	Entry   *id.EntryID `wire:"entry"` // absent is the strand's leaf
	Session bool        `wire:"newSession,opt"`
	Name    *string     `wire:"name,max=256"`
}

// Navigate moves the leaf of a strand.
type Navigate struct {
	Mutation
	Strand       *string     `wire:"strand,word"`
	Entry        *id.EntryID `wire:"entry"` // absent is the root
	Summarize    bool        `wire:"summarize,opt"`
	Instructions *string     `wire:"instructions"`
}

// Compact asks for a summary now.
type Compact struct {
	Mutation
	Strand       *string `wire:"strand,word"`
	Instructions *string `wire:"instructions"`
}

// Rewind takes files back to what they were before a message of the person. Without
// the message it is their newest.
type Rewind struct {
	Mutation
	Entry  id.EntryID `wire:"entry,opt"`
	DryRun bool       `wire:"dryRun,opt"`
}

// WriteRule writes a permission rule.
type WriteRule struct {
	Mutation
	RuleChoice
}

// RemoveRule removes a permission rule.
type RemoveRule struct {
	Mutation
	RuleChoice
}

// StopTask stops a task in the background.
type StopTask struct {
	Mutation
	Task string `wire:"taskId,word"`
}

// Search looks for text in sessions. It changes nothing and carries no key.
type Search struct {
	Query   string        `wire:"query"`   // empty: the newest entries of the session
	Session *id.SessionID `wire:"session"` // absent is all
	Limit   *int64        `wire:"limit,min=1"`
	Before  *string       `wire:"before,word"` // the next of an earlier page
	Ranked  bool          `wire:"ranked,opt"`  // by relevance, not newest first

	// What is found is of all of these that are there.
	Role      *words.SearchRole `wire:"role"`
	Kind      *string           `wire:"kind,word"` // message, compaction or branch_summary
	Tool      *string           `wire:"tool"`      // results of this tool
	Workspace *string           `wire:"workspace"` // an absolute directory
	Strand    *string           `wire:"strand,word"`
	SinceMs   *int64            `wire:"sinceMs"` // inclusive
	UntilMs   *int64            `wire:"untilMs"` // exclusive
}

// RenameSession gives a session a name.
type RenameSession struct {
	Mutation
	Name string `wire:"name,nonempty,max=256"`
}

// ArchiveSession takes a session out of the list; RestoreSession puts it back.
type ArchiveSession struct{ Mutation }

// RestoreSession puts an archived session back into the list.
type RestoreSession struct{ Mutation }

// CloseSession ends a session in the process that runs it. What is open stays open
// in the store.
type CloseSession struct{ Mutation }

// EraseSession removes a session and all that was made of it.
type EraseSession struct {
	Mutation
	Confirm id.SessionID `wire:"confirm"` // the session again
}

// CheckSession walks a session and names every broken invariant. It changes nothing
// and carries no key.
type CheckSession struct{}
