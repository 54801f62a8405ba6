package agency

import (
	"slices"
	"strings"
	"unicode"
)

// Limits bounds what agents may start. The zero Limits allow nothing.
type Limits struct {
	Depth    int64 // how deep children may be: 1 lets only strands that were not spawned have some
	FanOut   int   // working children of one strand
	Live     int   // working spawned strands of the session
	BudgetMs int64 // how long a run of a child may take, unless it is given less
	WaitMs   int64 // the longest single wait
}

// DefaultLimits are those of a session for which nobody chose others.
func DefaultLimits() Limits {
	return Limits{Depth: 1, FanOut: 8, Live: 16, BudgetMs: 600_000, WaitMs: 30_000}
}

// Census is what works in a session when another child is asked for.
type Census struct {
	Depth    int64 // of the strand that asks; 0 for one that was not spawned
	Children int   // working children of it
	Live     int   // working spawned strands
}

// Admit decides whether there is room for another child.
func (l Limits) Admit(c Census) error {
	switch {
	case c.Depth >= l.Depth:
		return refuse("an agent at depth %d may not start others (the limit is %d); nothing was started, do the work yourself", c.Depth, l.Depth)
	case c.Children >= l.FanOut:
		return refuse("%d agents that you started are at work, which is the limit; nothing was started, wait for one of them first", c.Children)
	case c.Live >= l.Live:
		return refuse("%d agents are at work in this session, which is the limit; nothing was started, wait for one of them first", c.Live)
	}
	return nil
}

// Budget is how long a run may take of which this many ms were asked for; 0 for none.
func (l Limits) Budget(asked int64) int64 {
	if asked <= 0 {
		return l.BudgetMs
	}
	return min(asked, l.BudgetMs)
}

// always are the tools without which a child could neither answer nor be heard.
var always = []string{"agent_note", "agent_send"}

// spawning is the tool that the limit of depth takes away.
const spawning = "agent_spawn"

// Tools are those of a child at a depth whose parent has some. asked is nil for all
// that the parent has; a tool that the parent lacks cannot be given.
func (l Limits) Tools(parent []string, asked []string, depth int64) ([]string, error) {
	granted := slices.Clone(parent)
	if asked != nil {
		for _, name := range asked {
			if !slices.Contains(parent, name) {
				return nil, refuse("you have no tool %.80q and cannot give it to another agent; nothing was started", name)
			}
		}
		granted = slices.Clone(asked)
		for _, name := range always {
			if slices.Contains(parent, name) {
				granted = append(granted, name)
			}
		}
	}
	slices.Sort(granted)
	granted = slices.Compact(granted)
	if depth >= l.Depth {
		granted = slices.DeleteFunc(granted, func(name string) bool { return name == spawning })
	}
	return granted, nil
}

// Family answers who is whose child, from the lineages of a session.
type Family map[string]Lineage

// Descends reports whether strand was spawned by ancestor, or by one of its
// descendants. A strand without a lineage descends from nobody.
func (f Family) Descends(strand, ancestor string) bool {
	for range len(f) + 1 { // a circle, which nobody writes, ends as well
		l, ok := f[strand]
		if !ok {
			return false
		}
		if l.Parent == ancestor {
			return true
		}
		strand = l.Parent
	}
	return false
}

// MayWait decides whether a strand may wait for another one.
func (f Family) MayWait(strand, other string) error {
	if !f.Descends(other, strand) {
		return refuse("%.200q is no agent of yours; you can wait for those that you started and for theirs", other)
	}
	return nil
}

// MaySend decides whether a strand may send to another one. up says that it is the
// one that started it.
func (f Family) MaySend(strand, other string) (up bool, err error) {
	if l, ok := f[strand]; ok && l.Parent == other {
		return true, nil
	}
	if f.Descends(other, strand) {
		return false, nil
	}
	return false, refuse("you cannot send to %.200q: only to the agent that started you, and to those that you started; nothing was sent", other)
}

// MayRead decides whether a strand may read what another one noted: its own, and
// those of whom it can reach in either direction.
func (f Family) MayRead(strand, other string) error {
	if strand == other || f.Descends(strand, other) || f.Descends(other, strand) {
		return nil
	}
	return refuse("%.200q is neither yours nor one that started you; you cannot read its notes", other)
}

// ResultNote is the name of the note that answers a contract.
const ResultNote = "result"

// Bounds of a note.
const (
	MaxNoteName = 64
	MaxNote     = 16 << 10 // bytes of JSON
	MaxNotes    = 128      // of one strand
)

// NoteName checks the name of a note: 1 to 64 of a-z, A-Z, 0-9, '-', '_' and '.'. The
// board of the todo tool is no note.
func NoteName(name string) error {
	bad := strings.ContainsFunc(name, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_' && r != '.'
	})
	switch {
	case name == "" || len(name) > MaxNoteName || bad:
		return refuse("a note's name has 1 to %d of a-z, A-Z, 0-9, '-', '_' and '.'; nothing was written", MaxNoteName)
	case name == "todo":
		return refuse("%q is the board of the todo tool; nothing was written", name)
	}
	return nil
}
