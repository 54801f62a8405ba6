package wire

import (
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/words"
)

// Queue is the level of the input that waits for a strand, in the order in which it
// will be heard within each lane.
type Queue struct {
	Items []QueuedItem `wire:"items"`
}

// QueuedItem is one input that waits.
type QueuedItem struct {
	ID       string          `wire:"id,word"`
	Lane     words.QueueLane `wire:"lane,word"`
	Text     string          `wire:"text,max=512"`
	Bytes    int64           `wire:"bytes"` // the length of the whole text
	Images   int             `wire:"images"`
	Revision int64           `wire:"revision"` // an edit is compared with it
	Editable bool            `wire:"editable"` // by the one who is told
	Author   *Author         `wire:"author"`
}

// Check implements [shape.Checked].
func (q QueuedItem) Check() (field, expected string) { return atLeastShown(q.Bytes, q.Text) }

// InputTaken says that queued input entered the conversation, and as which entry.
type InputTaken struct {
	Item  string          `wire:"item,word"`
	Lane  words.QueueLane `wire:"lane,word"`
	Entry id.EntryID      `wire:"entryId"`
}

// InputUnused says that queued input was not used, or may not have been.
type InputUnused struct {
	Lane  words.QueueLane    `wire:"lane,word"`
	Count int64              `wire:"count,min=1"`
	Cause *words.UnusedCause `wire:"cause"` // as it was written; never filled in
	Items []string           `wire:"items,opt"`
	Child *id.SessionID      `wire:"childSession"` // when it was a subagent's
}

// Diagnostics is what checkers say about files, after a change.
type Diagnostics struct {
	Files   []FileDiagnostics `wire:"files"`
	Settled bool              `wire:"settled"` // false: a checker had not caught up
	CallID  *string           `wire:"toolCallId"`
}

// FileDiagnostics is what is said about one file; an empty list says that nothing
// is wrong with it any more.
type FileDiagnostics struct {
	Path  string       `wire:"path"`
	Items []Diagnostic `wire:"items"`
}

// Diagnostic is one finding in a file.
type Diagnostic struct {
	Severity words.Severity `wire:"severity,word"`
	Line     int64          `wire:"line,min=1"`
	Column   *int64         `wire:"column,min=1"`
	Message  string         `wire:"message"`
	Source   *string        `wire:"source"`
}

// WorkspaceChanged says that files changed under a session.
type WorkspaceChanged struct {
	Changes []WorkspaceChange `wire:"changes"`
	CallID  *string           `wire:"toolCallId"` // absent: it was not a call of this session
	Branch  *string           `wire:"branch"`     // when another one is checked out now
}

// WorkspaceChange is one file.
type WorkspaceChange struct {
	Path   string           `wire:"path"`
	Change words.FileChange `wire:"change,word"`
	From   *string          `wire:"from"` // where a renamed file was
}

// HookNotice says how far a hook is. It belongs to the session and operation of its
// frame, and to nobody when those are not there.
type HookNotice struct {
	Hook     string             `wire:"hookId,word"`
	Event    string             `wire:"event,word"` // verbatim
	Name     *string            `wire:"name"`
	Phase    words.HookPhase    `wire:"phase,word"`
	CallID   *string            `wire:"toolCallId"`
	Output   *string            `wire:"output,max=4K"`
	ExitCode *int64             `wire:"exitCode"` // absent: it did not exit by itself
	Outcome  *words.HookOutcome `wire:"outcome"`
}

// Notice is a fact outside the conversation.
type Notice struct {
	Code     words.NoticeCode `wire:"code,word"`
	Audience words.Audience   `wire:"audience,word"` // what the notice claims; the catalogue decides
	Facts    Facts            `wire:"facts"`
}
