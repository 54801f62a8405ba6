package project

import (
	"iter"

	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
)

// Sources of the tools in a first line.
const (
	FromRoster = "engine-roster" // exactly what the engine mounted, in its order
	Estimated  = "estimate"      // the host's guess, since no roster comes
	HostStatic = "host-static"   // the host's own list: the wait was as long as it may be
)

// Estimate says why no roster comes.
type Estimate string

// The four reasons.
const (
	NoRosterInManifest Estimate = "manifest_without_roster"
	RosterUnreadable   Estimate = "roster_unreadable"
	ModelWasFirst      Estimate = "model_first"
	RunWasOver         Estimate = "run_ended"
)

// RosterWaitMs bounds the wait for a roster: as long as an external tool server may
// take to connect and, after that, to list its tools.
const RosterWaitMs = 30_000 + 30_000

// FirstLine keeps a run's first line, and all that follows it, back until it is known
// which tools the line lists: a small machine that decides once. The zero FirstLine
// holds. A timer says nothing about a roster: all it ends is the wait.
type FirstLine struct {
	decided bool
	held    []sdkmsg.Line
}

// Decided reports whether the first line is out.
func (g *FirstLine) Decided() bool { return g.decided }

// LineTools is what the first line says of the tools. The roster is there when the source
// is the engine's; an empty one is an answer too.
type LineTools struct {
	Source string
	Reason Estimate // of an estimate
	Roster *wire.Roster
}

// Frame looks at a frame of the watched run. ok is true at most once: then the first
// line goes out with those tools, and what was held after it.
func (g *FirstLine) Frame(f wire.Frame) (t LineTools, ok bool) {
	if g.decided {
		return LineTools{}, false
	}
	switch b := f.Body.(type) {
	case wire.RunStart:
		if f.Lane != wire.LaneMain {
			return LineTools{}, false // a sub-run's manifest is not the run's
		}
		return g.decide(manifestTools(b))
	case wire.Broken:
		if b.Of == wire.KindRunStart {
			return g.decide(LineTools{Source: Estimated, Reason: RosterUnreadable})
		}
	case wire.TurnStart, wire.TextDelta, wire.TextEnd, wire.ReasoningDelta, wire.ReasoningEnd, wire.ToolCallDelta, wire.ToolCall, wire.TurnEnd, wire.Retry:
		return g.decide(LineTools{Source: Estimated, Reason: ModelWasFirst})
	case wire.RunEnd, wire.RunStopped:
		return g.decide(LineTools{Source: Estimated, Reason: RunWasOver})
	default: // says nothing about tools, and is no model's
	}
	return LineTools{}, false
}

// Over says that no frame comes any more.
func (g *FirstLine) Over() (LineTools, bool) {
	return g.decide(LineTools{Source: Estimated, Reason: RunWasOver})
}

// TimedOut says that the wait was as long as [RosterWaitMs].
func (g *FirstLine) TimedOut() (LineTools, bool) { return g.decide(LineTools{Source: HostStatic}) }

func (g *FirstLine) decide(t LineTools) (LineTools, bool) {
	if g.decided {
		return LineTools{}, false
	}
	g.decided = true
	return t, true
}

func manifestTools(b wire.RunStart) LineTools {
	switch roster, ok := b.Roster.Get(); {
	case ok:
		return LineTools{Source: FromRoster, Roster: &roster}
	case b.Roster.State() == wire.StatedNone:
		return LineTools{Source: FromRoster, Roster: &wire.Roster{}}
	case b.Roster.State() == wire.Unreadable:
		return LineTools{Source: Estimated, Reason: RosterUnreadable}
	}
	return LineTools{Source: Estimated, Reason: NoRosterInManifest}
}

// Hold keeps a message until the decision; it reports false once that is made, and
// then the message goes out.
func (g *FirstLine) Hold(l sdkmsg.Line) bool {
	if g.decided {
		return false
	}
	g.held = append(g.held, l)
	return true
}

// Release gives what was held, in the order it came, once.
func (g *FirstLine) Release() []sdkmsg.Line {
	held := g.held
	g.held = nil
	return held
}

// Line is the host's first line with those tools. Its estimate stays in the line for
// the sources that are not the engine's; marks of an earlier decision are replaced.
func (t LineTools) Line(init sdkmsg.Init) sdkmsg.Init {
	init.ToolsSource, init.ToolsReason = t.Source, string(t.Reason)
	if t.Roster != nil {
		init.Tools = make([]sdkmsg.ToolName, 0, len(t.Roster.Tools))
		for _, row := range t.Roster.Tools {
			init.Tools = append(init.Tools, sdkmsg.ToolName(row.Name))
		}
	}
	return init
}

// Event is one thing that the first line waits behind: a frame with the lines that it
// gave, or that the wait is over.
type Event struct {
	Frame   wire.Frame
	Lines   []sdkmsg.Line
	TimeOut bool // no frame: the wait is over
}

// First orders a stream: the first line comes first, whatever happens. first makes it
// once, with the tools. A source that ends or fails before the decision still gets its
// first line and what was held, and the error after them; a reader that leaves early
// closes the source.
func First(events iter.Seq2[Event, error], first func(LineTools) sdkmsg.Line) iter.Seq2[sdkmsg.Line, error] {
	return func(yield func(sdkmsg.Line, error) bool) {
		var gate FirstLine
		open := func(t LineTools) bool {
			if !yield(first(t), nil) {
				return false
			}
			for _, l := range gate.Release() {
				if !yield(l, nil) {
					return false
				}
			}
			return true
		}
		for e, err := range events {
			if err != nil {
				if t, ok := gate.Over(); ok && !open(t) {
					return
				}
				yield(sdkmsg.Line{}, err)
				return
			}
			decide := gate.TimedOut
			if !e.TimeOut {
				decide = func() (LineTools, bool) { return gate.Frame(e.Frame) }
			}
			if t, ok := decide(); ok && !open(t) {
				return
			}
			for _, l := range e.Lines {
				if !gate.Hold(l) && !yield(l, nil) {
					return
				}
			}
		}
		if t, ok := gate.Over(); ok {
			open(t)
		}
	}
}
