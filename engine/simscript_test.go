package engine_test

import (
	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/machine"
	"pgregory.net/rapid"
)

// script is what client and model do, whatever happens to the process.
type script struct {
	prompts  int
	turns    []simTurn
	settings machine.Settings
	maxTurns *int64
	aborts   bool
	compacts bool // the window is small, and some turns fill it
}

// simTurn is one turn of the model, and what the client does meanwhile.
type simTurn struct {
	tools    []string // none: it says something
	fails    int      // attempts that fail first
	steer    bool
	followUp bool
	abort    bool
	large    bool // the context is full after it
	tooLong  bool // its request does not fit until something was compacted
	deferred bool // it is deferred, and not there at the first poll
}

func newScript(seed uint64) script {
	d := newDice(seed)
	draw := func(n int) int { return d.choose(n, "") }
	one := func(chance int) bool { return draw(chance) == 0 }
	s := script{prompts: 1 + draw(2), settings: machine.Settings{
		SteeringMode:  []machine.DrainMode{machine.DrainAll, machine.DrainOneAtATime}[draw(2)],
		FollowUpMode:  []machine.DrainMode{machine.DrainAll, machine.DrainOneAtATime}[draw(2)],
		ToolExecution: []machine.ToolExecution{machine.Parallel, machine.Sequential}[draw(2)],
		// Only the newest call or prompt is kept, whatever the size of its results.
		Compaction: machine.CompactionSettings{Enabled: true, ReserveTokens: 1000, KeepRecentTokens: 1},
	}}
	s.compacts = one(2)
	if one(6) {
		s.maxTurns = new(int64(1 + draw(3)))
	}
	for range 2 + draw(4) {
		var t simTurn
		if !one(3) {
			for range 1 + draw(4) {
				t.tools = append(t.tools, []string{"safe", "safe", "unsafe", "denied", "ender", "asked", "question"}[draw(7)])
			}
		}
		if one(4) {
			t.fails = 1 + draw(2)
		}
		t.steer, t.followUp = one(5), one(5)
		t.large, t.tooLong, t.deferred = s.compacts && one(3), s.compacts && one(6), one(8)
		if !s.aborts && one(10) {
			s.aborts = true
			if t.abort = len(t.tools) == 0 || one(2); !t.abort {
				t.tools = append(t.tools, "abort", "unsafe", "safe")
			}
		}
		s.turns = append(s.turns, t)
	}
	return s
}

// chooser makes the decisions of a schedule.
type chooser interface {
	choose(n int, what string) int
}

// eager is the schedule without faults: the first of what can be done.
type eager struct{}

func (eager) choose(int, string) int { return 0 }

// dice is a schedule that a seed decides.
type dice struct{ id.Generator }

func (d *dice) choose(n int, _ string) int {
	var x uint64
	x, d.Generator = d.Draw()
	return int(x % uint64(n))
}

func newDice(seed uint64) *dice { return &dice{id.NewGenerator(clock.Fixed(0), seed)} }

// drawn is a schedule that is drawn, and shrinks.
type drawn struct{ t *rapid.T }

func (d drawn) choose(n int, what string) int { return rapid.IntRange(0, n-1).Draw(d.t, what) }
