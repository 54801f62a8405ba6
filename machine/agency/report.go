package agency

import (
	"cmp"
	"slices"
	"strings"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine"
)

// SpawnRequest is what a model asks for when it starts an agent.
type SpawnRequest struct {
	Purpose      string
	Brief        string
	Tools        []string // nil: those of the one who asks
	Conversation bool     // the child knows the conversation so far
	Detached     bool     // it goes on when the run that asks for it is over
	BudgetMs     int64    // 0: the limit
	Contract     *Contract
}

// Status is what a run of an agent is doing.
type Status string

// The statuses.
const (
	Working Status = "working"
	Paused  Status = "paused"  // it waits for a person
	Stopped Status = "stopped" // it cannot go on in this process
	Over    Status = "over"
)

// Report is how a run of an agent stands.
type Report struct {
	Handle  Handle
	Status  Status
	Outcome machine.Outcome   // once it is over
	Ended   words.CancelCause // why the host ended it; empty when it did not
	Failure string            // of one that failed or stopped
	Text    string            // of its last message
	Notes   []Note

	// Of one whose result was asked for in a shape; Standing is empty otherwise.
	Standing Standing
	Why      string       // what is wrong with a result that cannot be used
	Result   *jsonv.Value // the one that was given
}

// Note is something that an agent wrote down.
type Note struct {
	Name  string
	Value jsonv.Value
	Seq   int64 // of its last change
}

// Named finds a note.
func Named(notes []Note, name string) (jsonv.Value, bool) {
	for _, n := range notes {
		if n.Name == name {
			return n.Value, true
		}
	}
	return jsonv.Value{}, false
}

// TextOf is what a response says in words.
func TextOf(a *message.Assistant) string {
	var parts []string
	for _, b := range a.Content {
		if t, ok := b.(message.Text); ok && t.Text != "" {
			parts = append(parts, t.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// Member is one agent of a roster.
type Member struct {
	Strand   string
	Relation string // parent, self or descendant
	Parent   string // empty for one that was not spawned
	Purpose  string
	Depth    int64
	Op       id.OpID // what it works on
	Working  bool
}

// Around lists whom a strand can reach: who started it, itself, and its
// descendants in the order in which they were spawned.
func (f Family) Around(strand string) []Member {
	member := func(name, relation string) Member {
		l := f[name]
		return Member{Strand: name, Relation: relation, Parent: l.Parent, Purpose: l.Purpose, Depth: l.Depth}
	}
	var out []Member
	if l, ok := f[strand]; ok {
		out = append(out, member(l.Parent, "parent"))
	}
	out = append(out, member(strand, "self"))
	first := len(out)
	for name := range f {
		if f.Descends(name, strand) {
			out = append(out, member(name, "descendant"))
		}
	}
	slices.SortFunc(out[first:], func(a, b Member) int {
		return cmp.Or(cmp.Compare(f[a.Strand].SpawnedAt, f[b.Strand].SpawnedAt), strings.Compare(a.Strand, b.Strand))
	})
	return out
}
