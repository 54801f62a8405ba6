package engine

import (
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/machine"
)

// Fact is something that happened, told to [Config.Observe] in order: commits by
// ascending seq, the beginning of an operation right before the commit that made it
// so, its end and the wait for a retry right after theirs. So one operation of a
// strand ends before the next begins.
type Fact interface{ fact() }

// RunStarted: a run was accepted, or an interrupted one goes on.
type RunStarted struct {
	Strand  string
	Op      id.OpID
	Resumed bool
}

// TextDelta is a piece of the response that is being received. Display only.
type TextDelta struct {
	Strand   string
	Op       id.OpID
	Response id.EntryID // the id that the committed entry will have
	Block    int        // index into the content
	Text     string
}

// ThinkingDelta is a piece of reasoning. Display only.
type ThinkingDelta struct {
	Strand   string
	Op       id.OpID
	Response id.EntryID
	Block    int
	Text     string
}

// ToolCallDelta is a piece of a tool call. Display only: the call is not complete.
type ToolCallDelta struct {
	Strand       string
	Op           id.OpID
	Response     id.EntryID
	Block        int
	CallID, Name string
	Fragment     string
}

// ToolOutput is the whole current window of a running call's output.
type ToolOutput struct {
	Strand      string
	Op          id.OpID
	Step        string
	SourceIndex int
	CallID      string
	Stream      string // stdout or stderr
	Tail        string // the newest bytes, at most a few KiB, valid UTF-8
	TotalBytes  int64
}

// RetryScheduled: an attempt failed and another will follow.
type RetryScheduled struct {
	Strand      string
	Op          id.OpID
	NextAttempt int64
	Until       int64 // Unix ms
	Message     string
}

// RunPaused: a run waits for a person and for nothing else. It is told again for
// each change of what it waits for, and after an opening.
type RunPaused struct {
	Strand string
	Op     id.OpID
	Pauses []machine.Pause
}

// QueueChanged: input waits for a strand, or does not any more. Read from the store
// what does.
type QueueChanged struct{ Strand string }

// GatesChanged: what a run waits for a person about changed. Closed are the questions
// that it waits for no longer.
type GatesChanged struct {
	Strand string
	Op     id.OpID
	Closed []machine.ClosedGate
}

// Committed: rows or registers changed; read from the store what is new.
type Committed struct {
	FirstSeq, LastSeq int64
	Timestamp         int64
}

// RunFinished: the run's result is in the store.
type RunFinished struct {
	Strand string
	Op     id.OpID
}

// OperationStarted and OperationFinished are the same of a compaction that somebody
// asked for, and of a navigation.
type OperationStarted struct {
	Strand  string
	Op      id.OpID
	Kind    string // compaction or navigation
	Resumed bool
}

// OperationFinished: see OperationStarted.
type OperationFinished struct {
	Strand string
	Op     id.OpID
	Kind   string
}

// JobChanged: a job began, was told to end, or ended. Read from the store what it is.
type JobChanged struct {
	Job     string
	Started string // the same, when it just began; empty otherwise
}

// started is the fact of an operation that begins or goes on.
func started(op machine.Operation, resumed bool) Fact {
	if op.IsRun() {
		return RunStarted{op.Strand, op.ID, resumed}
	}
	return OperationStarted{op.Strand, op.ID, op.Kind(), resumed}
}

func finished(op machine.Operation) Fact {
	if op.IsRun() {
		return RunFinished{op.Strand, op.ID}
	}
	return OperationFinished{op.Strand, op.ID, op.Kind()}
}

// StrandStopped: the strand cannot go on in this process. What is committed stays,
// and none of its effects runs any more. It is the last fact of the strand, but for
// commits that others make.
type StrandStopped struct {
	Strand string
	Op     id.OpID // absent when no operation was open
	Err    error
}

func (RunStarted) fact()        {}
func (TextDelta) fact()         {}
func (ThinkingDelta) fact()     {}
func (ToolCallDelta) fact()     {}
func (ToolOutput) fact()        {}
func (RetryScheduled) fact()    {}
func (RunPaused) fact()         {}
func (QueueChanged) fact()      {}
func (GatesChanged) fact()      {}
func (Committed) fact()         {}
func (RunFinished) fact()       {}
func (OperationStarted) fact()  {}
func (OperationFinished) fact() {}
func (StrandStopped) fact()     {}
func (JobChanged) fact()        {}
