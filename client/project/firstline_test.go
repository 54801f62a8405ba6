package project_test

import (
	"errors"
	"iter"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wiretest"
)

var initLine = sdkmsg.Init{
	Cwd: "/w", Model: "m", Tools: []sdkmsg.ToolName{"guess"}, MCPServers: []sdkmsg.MCPServer{{Name: "g", Status: "x"}},
	ToolsSource: "stale", ToolsReason: "stale",
}

func first(t project.LineTools) sdkmsg.Line {
	return sdkmsg.Line{UUID: "init", Message: t.Line(initLine)}
}

func on(lane wire.Lane, b wire.Body) wire.Frame { return wire.Frame{Lane: lane, Body: b} }

func TestTheFirstLineSaysWhereItsToolsComeFrom(t *testing.T) {
	var broken wire.Stated[wire.Roster]
	_ = broken.DecodeShape(*parse(t, `{"count":2,"digest":"d","tools":[]}`), false)
	roster := wire.FactOf(rosterOf("b", "a"))
	for name, c := range map[string]struct {
		frame          wire.Frame
		decided        bool
		source, reason string
		tools          int
	}{
		"a roster":                  {on(wire.LaneMain, wire.RunStart{Roster: roster}), true, "engine-roster", "", 2},
		"an empty roster":           {on(wire.LaneMain, wire.RunStart{Roster: wire.FactOf(rosterOf())}), true, "engine-roster", "", 0},
		"no tools, as a fact":       {on(wire.LaneMain, wire.RunStart{Roster: wire.None[wire.Roster]()}), true, "engine-roster", "", 0},
		"a manifest without one":    {on(wire.LaneMain, wire.RunStart{}), true, "estimate", "manifest_without_roster", 1},
		"one that cannot be read":   {on(wire.LaneMain, wire.RunStart{Roster: broken}), true, "estimate", "roster_unreadable", 1},
		"a broken manifest":         {on(wire.LaneMain, wire.Broken{Of: wire.KindRunStart}), true, "estimate", "roster_unreadable", 1},
		"a model that waits":        {on(wire.LaneMain, wire.Retry{}), true, "estimate", "model_first", 1},
		"a model that speaks":       {on(wire.LaneMain, wire.TextDelta{}), true, "estimate", "model_first", 1},
		"an end":                    {on(wire.LaneMain, wire.RunEnd{}), true, "estimate", "run_ended", 1},
		"a sub-run's manifest":      {on(wire.LaneAgent, wire.RunStart{Roster: roster}), false, "", "", 0},
		"the prompt":                {on(wire.LaneMain, wire.UserMessage{}), false, "", "", 0},
		"a frame that says nothing": {on(wire.LaneMain, wire.Presence{}), false, "", "", 0},
	} {
		var g project.FirstLine
		tools, ok := g.Frame(c.frame)
		if ok != c.decided || g.Decided() != ok {
			t.Errorf("%s: decided %v", name, ok)
			continue
		}
		if !ok {
			continue
		}
		line := tools.Line(initLine)
		if line.ToolsSource != c.source || line.ToolsReason != c.reason || len(line.Tools) != c.tools || line.Cwd != "/w" || len(line.MCPServers) != 1 {
			t.Errorf("%s: %+v", name, line)
		}
		if _, again := g.Frame(c.frame); again {
			t.Errorf("%s: decided twice", name)
		}
	}
	var g project.FirstLine
	tools, _ := g.TimedOut()
	if line := tools.Line(initLine); line.ToolsSource != "host-static" || line.ToolsReason != "" || len(line.Tools) != 1 {
		t.Errorf("a timer: %+v", line)
	}
}

var errBroke = errors.New("broke")

// TestTheFirstLineIsFirstWhateverHappens draws streams of frames that decide and that
// do not, of a timer, of an error and of an early end.
func TestTheFirstLineIsFirstWhateverHappens(t *testing.T) {
	bodies := []wire.Body{
		wire.RunStart{Roster: wire.FactOf(rosterOf("a"))}, wire.RunStart{}, wire.UserMessage{}, wire.TextDelta{}, wire.RunEnd{}, wire.Presence{},
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 8).Draw(t, "events")
		var events []project.Event
		var want []string
		for i := range n {
			e := project.Event{Lines: []sdkmsg.Line{{UUID: wiretest.Entry(uint64(i)).String()}}}
			want = append(want, e.Lines[0].UUID)
			if rapid.IntRange(0, 5).Draw(t, "timer") == 0 {
				e.TimeOut = true
			} else {
				e.Frame = on(rapid.SampledFrom([]wire.Lane{wire.LaneMain, wire.LaneAgent}).Draw(t, "lane"), rapid.SampledFrom(bodies).Draw(t, "body"))
			}
			events = append(events, e)
		}
		fails := rapid.Bool().Draw(t, "fails")
		closed := 0
		var source iter.Seq2[project.Event, error] = func(yield func(project.Event, error) bool) {
			defer func() { closed++ }()
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
			if fails {
				yield(project.Event{}, errBroke)
			}
		}
		leave := rapid.IntRange(1, 12).Draw(t, "leave after")
		var got []string
		var failed error
		inits := 0
		for l, err := range project.First(source, func(tools project.LineTools) sdkmsg.Line { inits++; return first(tools) }) {
			if err != nil {
				failed = err
				break
			}
			got = append(got, l.UUID)
			if len(got) == leave {
				break
			}
		}
		if closed != 1 || inits != 1 || len(got) == 0 || got[0] != "init" {
			t.Fatalf("closed %d times, %d first lines, %v", closed, inits, got)
		}
		for i, id := range got[1:] {
			if id != want[i] {
				t.Fatalf("%v, not %v", got, want)
			}
		}
		if whole := len(got) == len(want)+1; len(got) < leave && (!whole || (failed != nil) != fails) {
			t.Fatalf("%d of %d lines, error %v", len(got), len(want)+1, failed)
		}
	})
}
