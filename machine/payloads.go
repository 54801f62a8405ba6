package machine

import (
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/words"
)

// PendingEntry is a queued or staged entry that has its id but no place yet
// (register pending.entry). It is an entry.Message or an entry.Custom.
type PendingEntry struct{ Body entry.Body }

// PendingMessage queues a message.
func PendingMessage(m message.Message) PendingEntry {
	return PendingEntry{entry.Message{Message: m}}
}

// Value returns the register payload.
func (p PendingEntry) Value() jsonv.Value {
	return tree(func(w *jsonv.Writer) {
		w.Begin()
		switch b := p.Body.(type) {
		case entry.Message:
			w.Str("type", "message")
			w.Name("payload")
			message.Append(w, b.Message)
		case entry.Custom:
			w.Str("type", "custom")
			w.Str("customType", b.Type)
			w.Opaque("data", b.Data)
		}
		w.End()
	})
}

// DecodePendingEntry reads pending.entry.
func DecodePendingEntry(v jsonv.Value) (PendingEntry, error) {
	r := jsonv.Read(v, "machine.DecodePendingEntry")
	switch kind := r.Str("type"); kind {
	case "message":
		m := jsonv.One(r, "payload", message.Decode)
		if a, ok := m.(*message.Assistant); ok && a.StopReason == message.Pending {
			r.Fail("payload.stopReason", "a settled response", jsonv.Str(string(message.Pending)))
		}
		return whole(PendingMessage(m), r)
	case "custom":
		return whole(PendingEntry{entry.Custom{Type: r.Str("customType"), Data: r.Opaque("data")}}, r)
	default:
		r.Fail("type", "message or custom", jsonv.Str(kind))
	}
	return PendingEntry{}, r.Err()
}

// Outcome is how an operation ended.
type Outcome string

// The outcomes: the shared words of a run's end, and declined, which belongs to
// compactions and navigations.
const (
	OutcomeCompleted = Outcome(words.CauseCompleted)
	OutcomeDeclined  = Outcome("declined")
	OutcomeFailed    = Outcome(words.CauseFailed)
	OutcomeAborted   = Outcome(words.CauseAborted)
)

// Completion is how a completed run ended.
type Completion string

// The completions.
const (
	ByAssistant       Completion = "assistant"
	ByTerminatedTools Completion = "terminated_tools"
)

// LastResult is the result of an operation (registers strand.last_result and
// fact.custom operation-result/{op}). Its constructor is the decoder's check:
// incoherent combinations are corruption.
type LastResult struct {
	Kind           string
	OperationID    id.OpID
	LeafID         id.EntryID // may be absent
	Outcome        Outcome
	Error          *OperationError
	Completion     Completion // runs that completed
	FinalAssistant id.EntryID // runs; may be absent
	OldLeafID      id.EntryID // navigations; may be absent
	SummaryEntryID id.EntryID // navigations; may be absent
}

// ResultKey is the fact.custom key of an operation's result.
func ResultKey(op id.OpID) string { return "operation-result/" + op.String() }

// Value returns the register payload.
func (l LastResult) Value() jsonv.Value {
	return tree(func(w *jsonv.Writer) {
		w.Begin()
		w.Str("kind", l.Kind)
		w.Str("operationId", l.OperationID.String())
		optEntry(w, "leafId", l.LeafID)
		w.Str("outcome", string(l.Outcome))
		if l.Error != nil {
			w.Name("error")
			l.Error.write(w)
		}
		switch l.Kind {
		case kindRun:
			if l.Completion != "" {
				w.Str("runCompletion", string(l.Completion))
			}
			entryIfAny(w, "finalAssistantEntryId", l.FinalAssistant)
		case kindNavigation:
			optEntry(w, "oldLeafId", l.OldLeafID)
			entryIfAny(w, "summaryEntryId", l.SummaryEntryID)
		}
		w.End()
	})
}

// DecodeLastResult reads strand.last_result.
func DecodeLastResult(v jsonv.Value) (LastResult, error) {
	r := jsonv.Read(v, "machine.DecodeLastResult")
	l := LastResult{
		Kind: r.Str("kind"), OperationID: jsonv.One(r, "operationId", decodeOpID),
		LeafID: nullableEntry(r, "leafId"), Outcome: Outcome(r.Str("outcome")),
		Error: jsonv.OptOne(r, "error", decodeError),
	}
	switch l.Kind {
	case kindRun:
		if c := r.OptStr("runCompletion"); c != nil {
			l.Completion = Completion(*c)
		}
		l.FinalAssistant = optionalEntry(r, "finalAssistantEntryId")
	case kindNavigation:
		l.OldLeafID = nullableEntry(r, "oldLeafId")
		l.SummaryEntryID = optionalEntry(r, "summaryEntryId")
	}
	if err := r.Err(); err != nil {
		return LastResult{}, err
	}
	if !l.coherent() {
		return LastResult{}, corrupt.New("machine.DecodeLastResult", "outcome", "a coherent result", v.String())
	}
	return l, nil
}

func (l LastResult) coherent() bool {
	if (l.Outcome == OutcomeFailed) != (l.Error != nil) {
		return false
	}
	switch l.Kind {
	case kindRun:
		switch l.Outcome {
		case OutcomeCompleted:
			return l.Completion == ByAssistant || l.Completion == ByTerminatedTools
		case OutcomeFailed, OutcomeAborted:
			return l.Completion == ""
		case OutcomeDeclined:
		}
		return false
	case kindCompaction, kindNavigation:
		switch l.Outcome {
		case OutcomeCompleted, OutcomeDeclined, OutcomeFailed, OutcomeAborted:
			return true
		}
	}
	return false
}

// Preparation is the frozen input of a summary (register op.preparation): a
// *CompactionPreparation or a *BranchPreparation.
type Preparation interface{ preparation() }

// CompactionPreparation splits the context at a cut.
type CompactionPreparation struct {
	MessagesToSummarize, TurnPrefixMessages, RetainedTail []message.Message

	IsSplitTurn     bool
	TokensBefore    int64
	PreviousSummary *string
	FileOps         FileOps
	Settings        CompactionSettings
}

// BranchPreparation is the branch that is left.
type BranchPreparation struct {
	Messages    []message.Message
	FileOps     FileOps
	TotalTokens int64
}

// FileOps lists paths, sorted and unique.
type FileOps struct{ Read, Written, Edited []string }

func (*CompactionPreparation) preparation() {}
func (*BranchPreparation) preparation()     {}

// PreparationKey is the op.preparation key of a structural task; the task is the
// one that the state names ([Structural]).
func PreparationKey(op id.OpID, task string) string { return op.String() + ":" + task }

// PreparationValue returns the register payload.
func PreparationValue(p Preparation) jsonv.Value {
	return tree(func(w *jsonv.Writer) {
		w.Begin()
		switch p := p.(type) {
		case *CompactionPreparation:
			w.Str("kind", "compaction")
			writeMessages(w, "messagesToSummarize", p.MessagesToSummarize)
			writeMessages(w, "turnPrefixMessages", p.TurnPrefixMessages)
			writeMessages(w, "retainedTail", p.RetainedTail)
			w.Flag("isSplitTurn", p.IsSplitTurn)
			w.Num("tokensBefore", p.TokensBefore)
			w.OptStr("previousSummary", p.PreviousSummary)
			p.FileOps.write(w)
			w.Name("settings")
			p.Settings.write(w)
		case *BranchPreparation:
			w.Str("kind", "branch_summary")
			writeMessages(w, "messages", p.Messages)
			p.FileOps.write(w)
			w.Num("totalTokens", p.TotalTokens)
		}
		w.End()
	})
}

func writeMessages(w *jsonv.Writer, name string, list []message.Message) {
	w.Name(name)
	w.BeginArray()
	for _, m := range list {
		message.Append(w, m)
	}
	w.EndArray()
}

func (f FileOps) write(w *jsonv.Writer) {
	w.Name("fileOps")
	w.Begin()
	w.Strs("read", f.Read)
	w.Strs("written", f.Written)
	w.Strs("edited", f.Edited)
	w.End()
}

// DecodePreparation reads op.preparation.
func DecodePreparation(v jsonv.Value) (Preparation, error) {
	r := jsonv.Read(v, "machine.DecodePreparation")
	switch kind := r.Str("kind"); kind {
	case "compaction":
		return whole[Preparation](&CompactionPreparation{
			MessagesToSummarize: jsonv.Each(r, "messagesToSummarize", message.Decode),
			TurnPrefixMessages:  jsonv.Each(r, "turnPrefixMessages", message.Decode),
			RetainedTail:        jsonv.Each(r, "retainedTail", message.Decode),
			IsSplitTurn:         r.Flag("isSplitTurn"), TokensBefore: r.Num("tokensBefore"),
			PreviousSummary: r.OptStr("previousSummary"), FileOps: jsonv.One(r, "fileOps", decodeFileOps),
			Settings: jsonv.One(r, "settings", decodeCompactionSettings),
		}, r)
	case "branch_summary":
		return whole[Preparation](&BranchPreparation{
			Messages: jsonv.Each(r, "messages", message.Decode), FileOps: jsonv.One(r, "fileOps", decodeFileOps),
			TotalTokens: r.Num("totalTokens"),
		}, r)
	default:
		r.Fail("kind", "compaction or branch_summary", jsonv.Str(kind))
	}
	return nil, r.Err()
}

func decodeFileOps(v jsonv.Value) (FileOps, error) {
	r := jsonv.Read(v, "machine.decodeFileOps")
	return FileOps{r.Strs("read"), r.Strs("written"), r.Strs("edited")}, r.Err()
}
