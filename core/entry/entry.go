// Package entry is the write-once rows of a session: the conversation tree and
// the usage ledger.
//
// # Purpose
//
// Four kinds of entry share one placement (id, parent, seq, time); together the
// parent links form a tree that only grows. Ledger rows record what was
// consumed, one for each provider attempt.
//
// # Key types
//
// [Entry] with its sealed [Body] ([Message], [Compaction], [BranchSummary],
// [Custom]); [UsageRow].
//
// # Relationships
//
// Imports core/id, core/message, core/usage, core/jsonv, core/corrupt.
//
// # Traffic
//
// None: storage commits these rows.
//
// # Invariants
//
// Rows have no update path. Seq and Timestamp are 0 until storage stamps them;
// the stored text holds the stamped values. The set of kinds is closed.
package entry

import (
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
)

// Entry is one node of the conversation tree.
type Entry struct {
	ID        id.EntryID
	Parent    id.EntryID // absent for a root
	Seq       int64      // stamped by storage
	Timestamp int64      // Unix ms, stamped by storage
	Body      Body
}

// Body is one of Message, Compaction, BranchSummary, Custom.
type Body interface{ Kind() Kind }

// Kind is the stored tag of a body.
type Kind string

// The closed set of kinds.
const (
	KindMessage       Kind = "message"
	KindCompaction    Kind = "compaction"
	KindBranchSummary Kind = "branch_summary"
	KindCustom        Kind = "custom"
)

// ParseKind reads a stored tag.
func ParseKind(s string) (Kind, bool) {
	switch k := Kind(s); k {
	case KindMessage, KindCompaction, KindBranchSummary, KindCustom:
		return k, true
	}
	return "", false
}

// Message holds a settled message. Terminate belongs to a tool result: the run
// ends when every result of the batch says so.
type Message struct {
	Message   message.Message
	Terminate bool
}

// Compaction is a self-contained checkpoint: nothing older is read into context.
type Compaction struct {
	Summary      string
	RetainedTail []message.Message // the whole kept suffix
	TokensBefore int64             // size of what it replaced, in tokens
	FromHook     bool              // supplied by a hook, not generated
	Usage        *usage.Usage
}

// BranchSummary describes a branch that was left.
type BranchSummary struct {
	FromID   id.EntryID // leaf of the branch that was left; may be absent
	Summary  string
	FromHook bool
	Usage    *usage.Usage
}

// Custom is an application's own row; Data nil and a null Data differ.
type Custom struct {
	Type string
	Data *jsonv.Value
}

// Kind returns the stored tag.
func (Message) Kind() Kind       { return KindMessage }
func (Compaction) Kind() Kind    { return KindCompaction }
func (BranchSummary) Kind() Kind { return KindBranchSummary }
func (Custom) Kind() Kind        { return KindCustom }

// UsageRow is one row of the ledger.
type UsageRow struct {
	ID         id.UsageID
	Seq        int64
	EntryID    id.EntryID // the entry it paid for; may be absent
	Adjustment bool       // a caller's correction, which may be signed
	Usage      usage.Usage
	Details    *jsonv.Value
}

// Append writes the stored shape.
func Append(w *jsonv.Writer, e Entry) {
	w.Begin()
	w.Str("id", e.ID.String())
	optID(w, "parentId", e.Parent)
	w.Num("seq", e.Seq)
	w.Num("timestamp", e.Timestamp)
	w.Str("type", string(e.Body.Kind()))
	switch b := e.Body.(type) {
	case Message:
		w.Name("message")
		message.Append(w, b.Message)
		if b.Terminate {
			w.Flag("terminate", true)
		}
	case Compaction:
		w.Str("summary", b.Summary)
		w.Name("retainedTail")
		w.BeginArray()
		for _, m := range b.RetainedTail {
			message.Append(w, m)
		}
		w.EndArray()
		w.Num("tokensBefore", b.TokensBefore)
		w.Flag("fromHook", b.FromHook)
		optUsage(w, b.Usage)
	case BranchSummary:
		optID(w, "fromId", b.FromID)
		w.Str("summary", b.Summary)
		w.Flag("fromHook", b.FromHook)
		optUsage(w, b.Usage)
	case Custom:
		w.Str("customType", b.Type)
		w.Opaque("data", b.Data)
	}
	w.End()
}

// Encode returns the stored text of e.
func Encode(e Entry) []byte {
	var w jsonv.Writer
	Append(&w, e)
	return w.Bytes()
}

func optID(w *jsonv.Writer, name string, i id.EntryID) {
	w.Name(name)
	if i.IsZero() {
		w.Null()
		return
	}
	w.String(i.String())
}

func optUsage(w *jsonv.Writer, u *usage.Usage) {
	if u != nil {
		w.Name("usage")
		usage.Append(w, *u)
	}
}

const boundary = "entry.Decode"

// Decode reads the stored shape. The error is a [*corrupt.Report].
func Decode(v jsonv.Value) (Entry, error) {
	r := jsonv.Read(v, boundary)
	e := Entry{
		ID: jsonv.One(r, "id", DecodeID), Parent: maybeID(r, "parentId", true),
		Seq: r.Num("seq"), Timestamp: r.Num("timestamp"),
	}
	tag := r.Str("type")
	if err := r.Err(); err != nil {
		return Entry{}, err
	}
	switch Kind(tag) {
	case KindMessage:
		e.Body = Message{Message: jsonv.One(r, "message", settled), Terminate: r.OptFlag("terminate")}
	case KindCompaction:
		e.Body = Compaction{
			Summary: r.Str("summary"), RetainedTail: jsonv.Each(r, "retainedTail", settled),
			TokensBefore: r.Num("tokensBefore"), FromHook: r.Flag("fromHook"),
			Usage: jsonv.OptOne(r, "usage", usage.Decode),
		}
	case KindBranchSummary:
		e.Body = BranchSummary{
			FromID: maybeID(r, "fromId", false), Summary: r.Str("summary"), FromHook: r.Flag("fromHook"),
			Usage: jsonv.OptOne(r, "usage", usage.Decode),
		}
	case KindCustom:
		e.Body = Custom{Type: r.Str("customType"), Data: r.Opaque("data")}
	default:
		return Entry{}, corrupt.New(boundary, "type", "a known kind of entry", tag)
	}
	return e, r.Err()
}

// settled reads a message that may stand in a row: a response that is still
// streaming may not.
func settled(v jsonv.Value) (message.Message, error) {
	m, err := message.Decode(v)
	if err != nil {
		return nil, err
	}
	if a, ok := m.(*message.Assistant); ok && a.StopReason == message.Pending {
		return nil, corrupt.New(boundary, "stopReason", "a settled response", string(message.Pending))
	}
	return m, nil
}

// Parse reads the stored text.
func Parse(data []byte) (Entry, error) {
	v, err := jsonv.Parse(data)
	if err != nil {
		return Entry{}, err
	}
	return Decode(v)
}

// DecodeID reads the text of an entry id.
func DecodeID(v jsonv.Value) (id.EntryID, error) {
	s, ok := v.Text()
	if !ok {
		return id.EntryID{}, corrupt.New("entry.DecodeID", "id", "the text of an entry id", v.Kind().String())
	}
	return id.ParseEntryID(s)
}

// maybeID reads an id that may be null; required says whether the field itself
// must be there.
func maybeID(r *jsonv.Reader, name string, required bool) id.EntryID {
	if required {
		r.Value(name)
	}
	if i := jsonv.OptOne(r, name, DecodeID); i != nil {
		return *i
	}
	return id.EntryID{}
}

// AppendUsageRow writes the stored shape of a ledger row.
func AppendUsageRow(w *jsonv.Writer, row UsageRow) {
	w.Begin()
	w.Str("id", row.ID.String())
	w.Num("seq", row.Seq)
	if !row.EntryID.IsZero() {
		w.Str("entryId", row.EntryID.String())
	}
	w.Flag("adjustment", row.Adjustment)
	w.Name("usage")
	usage.Append(w, row.Usage)
	w.Opaque("details", row.Details)
	w.End()
}

// DecodeUsageRow reads the stored shape of a ledger row.
func DecodeUsageRow(v jsonv.Value) (UsageRow, error) {
	r := jsonv.Read(v, "entry.DecodeUsageRow")
	row := UsageRow{
		Seq: r.Num("seq"), EntryID: maybeID(r, "entryId", false), Adjustment: r.Flag("adjustment"),
		Usage: jsonv.One(r, "usage", usage.Decode), Details: r.Opaque("details"),
	}
	text := r.Str("id")
	if r.Err() == nil {
		u, err := id.ParseUsageID(text)
		r.Adopt("id", err)
		row.ID = u
	}
	return row, r.Err()
}
