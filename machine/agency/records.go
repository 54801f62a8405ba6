package agency

import (
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
)

// The prefixes of this package's cells in fact.custom.
const (
	lineagePrefix  = "lineage/"
	runPrefix      = "child-run/"
	contractPrefix = "result-schema/"
	sentPrefix     = "sent/"
)

// Lineage says of a spawned strand whose child it is (fact.custom
// lineage/{strand}). It is written once, with the strand.
type Lineage struct {
	Parent    string
	Depth     int64  // 1 for a child of a strand that was not spawned
	Purpose   string // in the words of the model that asked
	Call      string // the provider's id of the call that asked
	Brief     id.EntryID
	SpawnedAt int64 // Unix ms
	Detached  bool  // its runs go on when the run that asked for them is over
}

// LineageKey is the cell of a strand's lineage.
func LineageKey(strand string) string { return lineagePrefix + strand }

// LineagePrefix lists all of them.
const LineagePrefix = lineagePrefix

// StrandOfLineage is the strand whose cell a key names.
func StrandOfLineage(key string) string { return key[len(lineagePrefix):] }

// Value returns the register payload.
func (l Lineage) Value() jsonv.Value {
	var w jsonv.Writer
	w.Begin()
	w.Str("parent", l.Parent)
	w.Num("depth", l.Depth)
	w.Str("purpose", l.Purpose)
	w.Str("call", l.Call)
	w.Str("brief", l.Brief.String())
	w.Num("spawnedAt", l.SpawnedAt)
	w.Flag("detached", l.Detached)
	w.End()
	return w.Tree()
}

// DecodeLineage reads a lineage.
func DecodeLineage(v jsonv.Value) (Lineage, error) {
	r := jsonv.Read(v, "agency.DecodeLineage")
	l := Lineage{
		Parent: r.Str("parent"), Depth: r.Num("depth"), Purpose: r.Str("purpose"), Call: r.Str("call"),
		Brief: jsonv.One(r, "brief", entryID), SpawnedAt: r.Num("spawnedAt"), Detached: r.Flag("detached"),
	}
	if r.Err() == nil && (l.Depth < 1 || l.Parent == "") {
		return Lineage{}, corrupt.New("agency.DecodeLineage", "depth", "a parent, and a depth from 1", v.String())
	}
	return l, r.Err()
}

// Run is what is known of a run that another strand asked for (fact.custom
// child-run/{operation}). It is written with the acceptance of the run, and once
// more when the host ends it.
type Run struct {
	Strand   string
	Parent   string  // the strand that asked
	ParentOp id.OpID // the run in which it asked
	Detached bool    // it goes on when that run is over
	Deadline int64   // Unix ms; the host ends it then

	// Ended is why the host ended it, written with the abort; empty when it did not.
	Ended words.CancelCause
}

// RunKey is the cell of a run.
func RunKey(op id.OpID) string { return runPrefix + op.String() }

// Value returns the register payload.
func (r Run) Value() jsonv.Value {
	var w jsonv.Writer
	w.Begin()
	w.Str("strand", r.Strand)
	w.Str("parent", r.Parent)
	w.Str("parentOperation", r.ParentOp.String())
	w.Flag("detached", r.Detached)
	w.Num("deadline", r.Deadline)
	if r.Ended != "" {
		w.Str("ended", string(r.Ended))
	}
	w.End()
	return w.Tree()
}

// DecodeRun reads a run.
func DecodeRun(v jsonv.Value) (Run, error) {
	r := jsonv.Read(v, "agency.DecodeRun")
	out := Run{
		Strand: r.Str("strand"), Parent: r.Str("parent"), ParentOp: jsonv.One(r, "parentOperation", opID),
		Detached: r.Flag("detached"), Deadline: r.Num("deadline"),
	}
	if w := r.OptStr("ended"); w != nil {
		cause, ok := words.CancelCauses.Parse(*w)
		if !ok {
			r.Fail("ended", "why a run was ended", jsonv.Str(*w))
		}
		out.Ended = cause
	}
	return out, r.Err()
}

// Over decides whether the host ends a run now, and why. parentOpen says whether
// the run that asked for it is still open.
func (r Run) Over(now int64, parentOpen bool) (words.CancelCause, bool) {
	switch {
	case !r.Detached && !parentOpen:
		return words.CancelledByParent, true
	case now >= r.Deadline:
		return words.CancelledByBudget, true
	}
	return "", false
}

// Sent is the mark that a call delivered its message (fact.custom sent/{call}).
type Sent struct {
	To    string
	Entry id.EntryID // the message
	Op    id.OpID    // the run that takes it
	Woke  bool       // the run was started for it
}

// SentKey is the cell of a call's mark.
func SentKey(c Caller) string { return sentPrefix + c.key() }

// Value returns the register payload.
func (s Sent) Value() jsonv.Value {
	var w jsonv.Writer
	w.Begin()
	w.Str("to", s.To)
	w.Str("entry", s.Entry.String())
	w.Str("operation", s.Op.String())
	w.Flag("woke", s.Woke)
	w.End()
	return w.Tree()
}

// DecodeSent reads a mark.
func DecodeSent(v jsonv.Value) (Sent, error) {
	r := jsonv.Read(v, "agency.DecodeSent")
	s := Sent{To: r.Str("to"), Entry: jsonv.One(r, "entry", entryID), Op: jsonv.One(r, "operation", opID), Woke: r.Flag("woke")}
	return s, r.Err()
}

// ContractKey is the cell of what a child owes.
func ContractKey(strand string) string { return contractPrefix + strand }

// Judge decodes one of this package's cells; known is false for a key that is none.
func Judge(key string, v jsonv.Value) (known bool, err error) {
	has := func(p string) bool { return len(key) > len(p) && key[:len(p)] == p }
	switch {
	case has(lineagePrefix):
		_, err = DecodeLineage(v)
	case has(runPrefix):
		_, err = DecodeRun(v)
	case has(sentPrefix):
		_, err = DecodeSent(v)
	case has(contractPrefix):
		_, err = ParseContract(v)
	default:
		return judgePeer(key, v)
	}
	return true, err
}

func entryID(v jsonv.Value) (id.EntryID, error) {
	text, _ := v.Text()
	return id.ParseEntryID(text)
}

func opID(v jsonv.Value) (id.OpID, error) {
	text, _ := v.Text()
	return id.ParseOpID(text)
}

// RunPrefix lists all runs.
const RunPrefix = runPrefix

// OpOfRun is the run whose cell a key names.
func OpOfRun(key string) (id.OpID, error) { return id.ParseOpID(key[len(runPrefix):]) }
