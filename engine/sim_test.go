package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
	"pgregory.net/rapid"
)

// The simulation runs an engine without a goroutine: it steps the drivers itself, and an effect runs when the schedule says so. A seed makes a script of what
// clients, models and tools want; another makes the schedule and its faults. What comes out must equal the same script under no faults, and the same seed must
// be the same run, byte for byte.

// sim is one playing of a script.
type sim struct {
	t        rapid.TB
	w        *world
	script   script
	schedule chooser
	faults   int // that may still be injected
	seen     map[string]int

	rec     *record
	live    *life
	zombies []simEffect    // of processes that lost their lease and live on
	done    map[string]int // operations of the clients, by strand
	inputs  []input        // that are not delivered yet
	commits int
	phase   int // which commits are followed by a check of the whole session
	armedAt int // commits that were made before the armed fault was
	broken  *broken
}

// life is one process.
type life struct {
	s         *sim
	store     *simStore
	e         *engine.Engine
	box       *simTools
	driven    []*driven
	effects   []simEffect
	exclusive bool // of the effect that is about to be spawned
}

// driven is a strand in a process.
type driven struct {
	simStrand
	d      *engine.Driver
	awake  bool  // the driver has a reason to step
	until  int64 // when time alone wakes it
	deaf   bool  // a ring was dropped
	late   int   // turns until a ring is heard; 0: none is under way
	paused bool
}

func newSim(t rapid.TB, sc script, schedule chooser, faults int, seen map[string]int) *sim {
	s := &sim{t: t, w: newWorld(), script: sc, schedule: schedule, faults: faults, seen: seen, done: map[string]int{}}
	s.rec = newRecord(session.NewView(s.w.store))
	s.phase = (len(sc.strands[0].ops) + len(sc.strands[0].turns) + faults) % 4
	return s
}

func (s *sim) saw(what string) { s.seen[what]++ }

func (s *sim) strandOf(name string) simStrand {
	for _, st := range s.script.strands {
		if st.name == name {
			return st
		}
	}
	return simStrand{name: name}
}

func (s *sim) names() (list []string) {
	for _, st := range s.script.strands {
		list = append(list, st.name)
	}
	return list
}

// boot starts a process over what the last one left.
func (s *sim) boot() {
	armed := ""
	if s.live != nil {
		armed = s.live.store.armed
	}
	for range 100 {
		l := &life{s: s, store: &simStore{Store: s.w.store, s: s, armed: armed}}
		cfg, box := config(s.w, l.store, nil)
		l.box = &simTools{box, l}
		cfg.Models, cfg.Tools, cfg.Settings, cfg.Retry.MaxAttempts = l, l.box, s.script.settings, s.script.attempts
		cfg.Summarizer = func(ref machine.ModelRef) machine.ModelRef {
			return machine.ModelRef{Provider: writer, ModelID: ref.ModelID}
		}
		if s.script.notes != written {
			cfg.Summaries = engine.ByNotes
		}
		if s.script.hooks {
			cfg.Hooks = simHooks{s}
		}
		e, err := engine.Open(cfg)
		armed = l.store.armed
		if err != nil {
			continue
		}
		l.e = e
		err = cfg.Session.EnsureStrand(session.MainStrand, s.script.strands[0].configuration())
		if armed = l.store.armed; err != nil || l.store.dead {
			e.Close()
			continue
		}
		for _, st := range s.script.strands {
			if s.rec.strands[st.name] != nil {
				l.drive(st)
			}
		}
		s.live = l
		return
	}
	s.fail("run/terminated", "the session does not open any more")
}

func (l *life) drive(st simStrand) {
	l.driven = append(l.driven, &driven{simStrand: st, d: l.e.Driver(st.name), awake: true})
}

// die ends the process: what was only in memory is gone. One whose lease was stolen does not know yet.
func (s *sim) die() {
	l := s.live
	if len(l.effects) > 0 {
		s.saw("crash with an effect in flight")
	}
	if l.store.stolen && len(l.effects) > 0 {
		s.zombies = append(s.zombies, l.effects...)
	} else {
		l.e.Close()
		if len(l.effects) == 0 {
			l.box.settled(s.t)
		}
	}
	s.boot()
}

// play runs the script to its end.
func (s *sim) play() (simEnding, error) {
	s.boot()
	for steps := 0; s.broken == nil; steps++ {
		if steps > 20_000 {
			s.fail("run/terminated", "it does not end")
			break
		}
		if s.live.store.dead {
			s.die()
			continue
		}
		s.live.send()
		s.live.listen()
		if s.live.inject("crash") {
			s.die()
			continue
		}
		s.live.arm()
		if s.over() {
			break
		}
		s.act()
	}
	for s.broken == nil && len(s.zombies) > 0 {
		s.haunt(0)
	}
	s.live.e.Close()
	if s.broken != nil {
		return simEnding{}, s.broken
	}
	s.live.box.settled(s.t)
	return s.end()
}

// listen hears the bells, unless a fault has them dropped or late.
func (l *life) listen() {
	for _, d := range l.driven {
		if d.late > 0 {
			if d.late--; d.late == 0 {
				d.awake = true
			}
		}
		if !d.d.Rung() {
			continue
		}
		switch {
		case l.inject("dropped doorbell"):
			d.deaf = true
		case l.inject("delayed doorbell"):
			d.late = 1 + l.s.schedule.choose(8, "delay")
		default:
			d.awake = true
		}
	}
}

// over reports that everything was done and nothing is left to do.
func (s *sim) over() bool {
	for _, st := range s.script.strands {
		if r := s.rec.strands[st.name]; r == nil || !r.idle() || s.done[st.name] < len(st.ops) {
			return false
		}
	}
	return len(s.live.effects) == 0 && len(s.inputs) == 0
}

// act does one of the things that can be done. The first in the list is what happens without faults.
func (s *sim) act() {
	var can []func()
	l := s.live
	asleep := false
	for _, d := range l.driven {
		if d.awake {
			can = append(can, func() { l.step(d) })
		}
		asleep = asleep || !d.awake && d.until > 0
	}
	for _, n := range runnable(l.effects) {
		can = append(can, func() { l.land(n) })
	}
	for _, st := range s.script.strands {
		if f := s.next(st); f != nil {
			can = append(can, f)
		}
	}
	for _, d := range l.driven {
		if gate, decision, ok := s.question(d); ok {
			can = append(can, func() {
				s.saw("answer")
				_ = l.e.Answer(d.name, gate, decision, nil) // a fault may refuse it, and then it is asked again
			})
		}
	}
	if asleep {
		can = append(can, l.wait)
	}
	for _, n := range runnable(s.zombies) {
		can = append(can, func() { s.haunt(n) })
	}
	for _, d := range l.driven {
		if len(can) == 0 && (d.deaf || d.late > 0) {
			can = append(can, func() { d.awake, d.deaf, d.late = true, false, 0 })
		}
	}
	if len(can) == 0 {
		s.fail("run/terminated", "a wake-up was lost")
		return
	}
	can[s.schedule.choose(len(can), "act")]()
}

// runnable lists the effects whose turn has come: of those of a driver, one that runs alone waits for all before it, the others only for one that runs alone.
func runnable(effects []simEffect) (list []int) {
	first, closed := map[*engine.Driver]bool{}, map[*engine.Driver]bool{}
	for i, f := range effects {
		if !closed[f.driver] && (!f.exclusive || !first[f.driver]) {
			list = append(list, i)
		}
		first[f.driver] = true
		closed[f.driver] = closed[f.driver] || f.exclusive
	}
	return list
}

// land runs an effect to its end.
func (l *life) land(n int) {
	if n > 0 {
		l.s.saw("effect out of order")
	}
	f := l.effects[n]
	l.effects = slices.Delete(l.effects, n, n+1)
	f.run()
}

// wait lets time pass until somebody wakes.
func (l *life) wait() {
	if len(l.effects) > 0 {
		l.s.saw("slow effect")
	}
	next := int64(0)
	for _, d := range l.driven {
		if !d.awake && d.until > 0 && (next == 0 || d.until < next) {
			next = d.until
		}
	}
	l.s.w.clockMs = max(l.s.w.clockMs, next)
	for _, d := range l.driven {
		if d.until > 0 && d.until <= l.s.w.clockMs {
			d.awake = true
		}
	}
}

func (l *life) step(d *driven) {
	l.store.middle = func() { l.s.intrude(d.simStrand) }
	pass, err := d.d.Step(func(f func()) {
		l.effects = append(l.effects, simEffect{l, f, d.d, l.exclusive})
		l.exclusive = false
	})
	l.store.middle = nil
	if err != nil {
		if !l.store.dead && !l.store.hurt {
			l.s.fail("run/terminated", "a step failed without a fault: %v", err)
		}
		l.s.die()
		return
	}
	if pass.Step != "" {
		l.s.saw("step: " + string(pass.Step))
	}
	d.awake, d.until, d.paused = pass.Progress == engine.Moved, pass.Until, pass.Progress == engine.Parked || pass.Progress == engine.Waiting
}

// intrude is between what a pass reads and what it commits.
func (s *sim) intrude(st simStrand) {
	r, n := s.rec.strand(st.name), len(st.ops)-1
	for n >= 0 && (st.ops[n].kind != "prompt" || !s.rec.knows(st.text(n))) {
		n--
	}
	text := fmt.Sprintf("late input at the end of run %d of %s", n, st.name)
	switch {
	case n < 0 || !r.ending() || s.rec.knows(text):
	case st.ops[n].atEnd == "abort":
		s.live.abort(st.name, "a terminal commit", text)
	case st.ops[n].atEnd == "follow-up":
		s.live.deliver(st.name, text, engine.WhenDone)
	}
}

// next is what the client of a strand does next; nil: nothing, or not yet.
func (s *sim) next(st simStrand) func() {
	r, n := s.rec.strands[st.name], s.done[st.name]
	if r == nil {
		main := s.rec.strands[session.MainStrand]
		if s.done[session.MainStrand] < st.after || st.after > 0 && !main.idle() {
			return nil
		}
		return func() { s.live.fork(st) }
	}
	if n >= len(st.ops) || !r.idle() {
		return nil
	}
	return func() {
		if s.live.begin(st, n) {
			s.done[st.name]++
		}
	}
}

func (l *life) fork(st simStrand) {
	at := id.EntryID{}
	if st.after > 0 {
		at = l.s.rec.texts[l.s.script.strands[0].text(0)]
	}
	err := l.e.CreateStrand(st.seed(at))
	if l.s.rec.strands[st.name] == nil || l.store.dead {
		return // it is tried again
	}
	if err == nil {
		l.s.saw("fork")
	}
	l.drive(st)
}

// begin sends the nth operation of a strand, unless that is durable. It reports whether it was taken or refused for good.
func (l *life) begin(st simStrand, n int) bool {
	s, r := l.s, l.s.rec.strand(st.name)
	op, before := st.ops[n], 0
	for _, o := range st.ops[:n] {
		if o.kind != "prompt" {
			before++
		}
	}
	var err error
	switch op.kind {
	case "prompt":
		if s.rec.knows(st.text(n)) {
			return true
		}
		_, err = l.e.Prompt(st.name, engine.Prompt{Content: said(st.text(n)).Content, MaxTurns: s.script.maxTurns})
		return err == nil
	case "compaction":
		if r.structural > before-s.refused(st.name) {
			return true
		}
		_, err = l.e.Compact(st.name, new("short"))
	case "navigation":
		if r.structural > before-s.refused(st.name) {
			return true
		}
		to := machine.NavigationIntent{Summarize: op.summarize, Label: new("here")}
		if op.target >= 0 && op.target < len(st.ops) {
			to.TargetID = s.rec.texts[st.text(op.target)]
		}
		if to.TargetID.IsZero() {
			to.Summarize, to.Label = false, nil
		}
		_, err = l.e.Navigate(st.name, to)
	}
	if errors.Is(err, machine.ErrNothingToCompact) || errors.Is(err, machine.ErrInvalidNavigation) || errors.Is(err, machine.ErrUnknownTarget) {
		s.saw("refused " + op.kind)
		s.done["refused "+st.name]++
		return true
	}
	return err == nil
}

func (s *sim) refused(strand string) int { return s.done["refused "+strand] }

// question is one that a person decides about, and what they decide.
func (s *sim) question(d *driven) (gate string, decision machine.Decision, ok bool) {
	st := s.rec.strand(d.name).work
	if !d.paused || st.Work == nil {
		return "", nil, false
	}
	for _, p := range machine.Pauses(st) {
		tool, _ := p.Subject.Get("tool")
		name, _ := tool.Text()
		switch {
		case name == "ignored" || name == "parked":
			continue
		case name == "refused":
			return p.Gate, machine.Deny{}, true
		case p.Reason == words.PausedOnQuestion:
			return p.Gate, machine.Reply{Content: []message.UserBlock{message.Text{Text: "blue"}}}, true
		}
		return p.Gate, machine.Approve{}, true
	}
	return "", nil, false
}

// end checks what must hold at the end and returns what must converge.
func (s *sim) end() (simEnding, error) {
	if s.live.store.armed == armedFaults[0] && s.commits > s.armedAt+1 {
		s.fail("run/crash-fired", "a crash was armed %d commits ago", s.commits-s.armedAt)
	}
	s.check()
	owed := s.rec.owed(s.names())
	for _, ns := range slices.Sorted(maps.Keys(owed)) {
		if keys, err := s.rec.view.RegisterKeys(ns, ""); err != nil || len(keys) != owed[ns] {
			s.fail("terminal/registers", "%s holds %v, want %d (%v)", ns, keys, owed[ns], err)
		}
	}
	results, err := s.rec.view.RegisterKeys(register.FactCustom, "operation-result/")
	if err != nil || len(results) != len(s.rec.ends) {
		s.fail("terminal/last-result-once", "%d results of %d operations (%v)", len(results), len(s.rec.ends), err)
	}
	for op, n := range s.rec.ends {
		if n != 1 {
			s.fail("terminal/last-result-once", "operation %s ended %d times", op, n)
		}
	}
	for call, n := range s.w.ran {
		if tool, _, _ := strings.Cut(call, "-"); n > 1 && !repeatable(tool) {
			s.fail("replay/never-once", "%s ran %d times", call, n)
		}
	}
	for _, name := range s.names() {
		for _, o := range s.rec.strand(name).outcomes {
			s.saw("ended: " + o)
		}
	}
	end, err := s.rec.end(s.names())
	if strings.Contains(end.contexts, interrupted) {
		s.saw("interrupted call")
	}
	if s.broken != nil {
		return end, s.broken
	}
	return end, err
}
