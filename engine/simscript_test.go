package engine_test

import (
	"fmt"
	"strings"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
	"pgregory.net/rapid"
)

// script is what clients, models and tools do, whatever happens to the process.
type script struct {
	strands  []simStrand // the first is main
	settings machine.Settings
	maxTurns *int64
	attempts *int64 // of a request; nil: as many as it takes
	window   int64  // of the model's context; 0: unknown
	hooks    bool
	silent   bool // no model for summaries can be found
	notes    notes
	compared compared
}

type notes uint8

const (
	written    notes = iota // by a model
	kept                    // the agent's own
	unreadable              // which cannot be read
)

// compared is how much of what a script comes to does not depend on when things happen.
type compared uint8

const (
	everything compared = iota
	outcomes            // an abort, or a window that closes, may meet any moment of what goes on beside it
	nothing             // requests have so few attempts that a fault uses them up
)

// simStrand is a strand of a script.
type simStrand struct {
	name  string
	after int // how much of main is done when it is forked from the first prompt; 0: it begins at the root
	ops   []simOp
	turns []simTurn
	trouble
}

// trouble is what happens to the summaries of a strand.
type trouble struct {
	fails  int  // requests that fail first
	tooBig bool // the first is too large
	never  bool // none is written
	abort  bool // the first is aborted
	wordy  bool // they are larger than any window
}

type simOp struct {
	kind      string // prompt, compaction or navigation
	words     int    // how many are added to a prompt: 2000 take more than one request to summarise, 9000 fit into no window
	target    int    // the prompt that is gone to; -1: the root
	summarize bool
	atEnd     string // what comes between the last look of a run and its end: abort, follow-up
}

// simTurn is one turn of the model, and what the client does meanwhile.
type simTurn struct {
	tools    []string // none: it says something
	fails    int      // attempts that fail first
	steer    bool
	followUp bool
	write    bool
	withdraw bool // something is queued, edited and withdrawn
	abort    bool
	large    bool   // the context is full after it
	tooLong  bool   // its request does not fit until something was compacted
	cutOff   bool   // its calls are cut off
	deferred string // how it is deferred: well, or one of badly
	fatal    string // how it fails the run, once
}

// The ways of a deferred response and of a turn that end a run.
var (
	badly  = []string{"handle", "expired", "deaf", "mismatch", "failed"}
	fatals = []string{"refused", "gone", "never fits"}
)

func newScript(seed uint64) script {
	d := &draws{newDice(seed)}
	modes := []machine.DrainMode{machine.DrainAll, machine.DrainOneAtATime}
	s := script{settings: machine.Settings{
		SteeringMode: modes[d.of(2)], FollowUpMode: modes[d.of(2)],
		ToolExecution: []machine.ToolExecution{machine.Parallel, machine.Sequential}[d.of(2)],
		// Only the newest call or prompt is kept, whatever the size of its results.
		Compaction: machine.CompactionSettings{Enabled: !d.one(4), ReserveTokens: 1000, KeepRecentTokens: 1},
	}}
	if d.one(2) {
		s.window = 10_000
	}
	if d.one(6) {
		s.maxTurns = new(int64(1 + d.of(3)))
	}
	s.hooks, s.silent = d.one(5), d.one(12)
	if d.one(6) {
		s.notes = []notes{kept, unreadable}[d.of(2)]
	}
	s.strands = append(s.strands, d.strand(&s, session.MainStrand))
	if d.one(4) {
		side := d.strand(&s, "side")
		side.after = d.of(len(s.strands[0].ops) + 1)
		s.strands = append(s.strands, side)
	}
	if d.one(10) {
		s.compared, s.attempts = nothing, new(int64(1+d.of(2)))
	}
	return s
}

// draws makes scripts.
type draws struct{ *dice }

func (d *draws) of(n int) int        { return d.choose(n, "") }
func (d *draws) one(chance int) bool { return d.of(chance) == 0 }

func (d *draws) strand(s *script, name string) simStrand {
	st := simStrand{name: name}
	for n := range 1 + d.of(3) {
		op := simOp{kind: "prompt"}
		if d.one(12) {
			op.words = []int{2000, 2000, 9000}[d.of(3)]
		}
		switch {
		case n > 0 && d.one(5):
			op = simOp{kind: "compaction"}
		case n > 0 && d.one(4):
			op = simOp{kind: "navigation", target: d.of(n+1) - 1, summarize: d.one(2)}
		case d.one(12):
			op.atEnd = "follow-up"
		case d.one(12):
			op.atEnd, s.compared = "abort", max(s.compared, outcomes)
		}
		st.ops = append(st.ops, op)
	}
	if d.one(3) {
		st.trouble = trouble{fails: d.of(2), tooBig: d.one(3), never: d.one(4), abort: d.one(3), wordy: d.one(4)}
		if st.trouble.abort {
			s.compared = max(s.compared, outcomes)
		}
	}
	for range 2 + d.of(3) {
		st.turns = append(st.turns, d.turn(s))
	}
	return st
}

func (d *draws) turn(s *script) (t simTurn) {
	if !d.one(3) {
		for range 1 + d.of(4) {
			t.tools = append(t.tools, []string{"safe", "safe", "unsafe", "unsafe", "denied", "ender", "asked", "question", "refused", "malformed"}[d.of(10)])
		}
		t.cutOff = d.one(12)
	}
	if d.one(4) {
		t.fails = 1 + d.of(2)
	}
	t.steer, t.followUp, t.write, t.withdraw = d.one(6), d.one(6), d.one(8), d.one(8)
	t.large, t.tooLong = s.window > 0 && d.one(3), s.window > 0 && d.one(6)
	if d.one(7) {
		t.deferred = "well"
		if d.one(3) {
			t.deferred = badly[d.of(len(badly))]
		}
	}
	if d.one(14) {
		t.fatal = fatals[d.of(len(fatals))]
	}
	switch {
	case d.one(12) && s.compared == everything:
		s.compared = outcomes
		if t.abort = len(t.tools) == 0 || d.one(2); !t.abort {
			t.tools = append(t.tools, "abort", "unsafe", "safe")
		}
	case d.one(20):
		s.compared = max(s.compared, outcomes)
		t.tools = append([]string{[]string{"ignored", "parked"}[d.of(2)]}, t.tools...)
	}
	return t
}

// text is that of the nth operation of a strand, a prompt.
func (s simStrand) text(n int) string {
	return fmt.Sprintf("prompt %d of %s", n, s.name) + strings.Repeat(" word", s.ops[n].words)
}

// model is the name of the model that answers for the strand: it tells the responses of one from those of another.
func (s simStrand) model() machine.ModelRef {
	return machine.ModelRef{Provider: "fake", ModelID: s.name}
}

func (s simStrand) configuration() machine.Configuration {
	return machine.Configuration{Model: s.model(), ThinkingLevel: machine.ThinkingOff}
}

func (s simStrand) seed(at id.EntryID) engine.NewStrand {
	return engine.NewStrand{Name: s.name, At: at, Configuration: s.configuration()}
}

// turn is the nth of the model.
func (s simStrand) turn(n int) simTurn {
	if n < len(s.turns) {
		return s.turns[n]
	}
	return simTurn{}
}

// chooser makes the decisions of a schedule; 0 is always the harmless one.
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

// tape is a schedule that is known from before: what it does not say is harmless.
type tape struct {
	choices []int
	next    int
}

func (p *tape) choose(n int, _ string) int {
	if p.next >= len(p.choices) {
		return 0
	}
	p.next++
	return p.choices[p.next-1] % n
}

// recorder keeps what another schedule chose.
type recorder struct {
	of   chooser
	kept []int
}

func (r *recorder) choose(n int, what string) int {
	c := r.of.choose(n, what)
	r.kept = append(r.kept, c)
	return c
}
