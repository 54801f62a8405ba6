package engine_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
	"pgregory.net/rapid"
)

// The simulation runs an engine without a goroutine: it steps the driver itself,
// and an effect runs when the schedule says so. A seed makes a script of what
// client and model want; draws make the schedule and its faults. What comes out
// must equal the same script under no faults.

// sim is one playing of a script.
type sim struct {
	t        rapid.TB
	w        *world
	script   script
	schedule chooser
	faults   int // that may still be injected
	seen     map[string]int

	store     *simStore
	e         *engine.Engine
	d         *engine.Driver
	box       *simTools
	effects   []simEffect
	exclusive bool  // of the effect that is about to be spawned
	awake     bool  // the driver has a reason to step
	until     int64 // when time alone wakes it
	deaf      bool  // a ring was dropped
}

type simEffect struct {
	run       func()
	exclusive bool
}

// Stream is the model of the script. Whatever the client does while it answers is
// done once, however often the process dies of it.
func (s *sim) Stream(ctx context.Context, req provider.Request, _ func(provider.Delta)) (*message.Assistant, error) {
	if req.System == "" && len(req.Messages) == 1 && strings.Contains(message.TextOf(userOf(req).Content), "<conversation>") {
		s.seen["summary"]++
		if s.w.flake(fmt.Sprint("summary", s.answered()), 1) {
			return nil, &provider.Error{Class: provider.Server, Message: "try again"}
		}
		return say("what was said")(ctx, nil)
	}
	n := s.answered()
	if n >= len(s.script.turns) {
		return say(fmt.Sprintf("answer %d", n))(ctx, nil)
	}
	t := s.script.turns[n]
	if t.tooLong && !s.compacted(n) {
		s.seen["overflow"]++
		return nil, &provider.Error{Class: provider.Overflow, Message: "too long"}
	}
	if t.steer {
		s.deliver(fmt.Sprintf("steering of turn %d", n), steer)
	}
	if t.followUp {
		s.deliver(fmt.Sprintf("follow-up of turn %d", n), ask)
	}
	if t.abort && s.ended(machine.OutcomeAborted) == 0 {
		s.abort("a generation")
	}
	if ctx.Err() != nil {
		return nil, &provider.Error{Class: provider.Cancelled, Message: "cancelled"}
	}
	if s.w.flake(fmt.Sprint("turn", n), t.fails) {
		s.seen["retry"]++
		return nil, &provider.Error{Class: provider.Server, Message: "try again"}
	}
	if t.deferred {
		s.seen["deferred response"]++
		return &message.Assistant{API: "sim", Provider: "fake", Model: "m", StopReason: message.Deferred, Deferred: new(s.handle(n)), Usage: usage.Unknown(usage.API)}, nil
	}
	return s.says(ctx, n, t)
}

// handle is that of the nth response.
func (s *sim) handle(n int) message.DeferredHandle {
	return message.DeferredHandle{Provider: "fake", ModelID: "m", API: "sim", ID: fmt.Sprint(n), PollAfterMs: new(int64(50))}
}

// Fetch has a deferred response at the second poll that anybody made.
func (s *sim) Fetch(ctx context.Context, _ provider.Model, h message.DeferredHandle) (*message.Assistant, error) {
	if ctx.Err() != nil {
		return nil, &provider.Error{Class: provider.Cancelled, Message: "cancelled"}
	}
	s.seen["poll"]++
	n := s.answered()
	if s.w.flake(fmt.Sprint("poll", h.ID), 1) {
		return &message.Assistant{API: "sim", Provider: "fake", Model: "m", StopReason: message.Deferred, Deferred: &h, Usage: usage.Unknown(usage.API)}, nil
	}
	return s.says(ctx, n, s.script.turns[n])
}

// says is the content of a turn.
func (s *sim) says(ctx context.Context, n int, t simTurn) (*message.Assistant, error) {
	then := say(fmt.Sprintf("answer %d", n))
	if len(t.tools) > 0 {
		then = s.callsOf(n, t)
	}
	if t.large {
		then = large(9500, then)
	}
	return then(ctx, nil)
}

func (s *sim) callsOf(n int, t simTurn) turn {
	blocks := calls(t.tools...)
	for i, b := range blocks {
		c := b.(message.ToolCall)
		c.ID = fmt.Sprintf("%s-%d.%d", c.Name, n, i)
		blocks[i] = c
	}
	return reply(message.ToolUse, blocks...)
}

func (s *sim) Resolve(machine.ModelRef) (provider.Model, provider.Provider, error) {
	m := provider.Model{API: "sim"}
	if s.script.compacts {
		m.ContextWindow = 10_000
	}
	return m, s, nil
}

func userOf(req provider.Request) *message.User {
	u, ok := req.Messages[0].(*message.User)
	if !ok {
		return &message.User{}
	}
	return u
}

// answered counts the responses that the conversation has.
func (s *sim) answered() (n int) {
	rows, _ := s.w.store.ScanEntries(storage.EntryQuery{})
	for _, r := range rows {
		if a, ok := messageOf(r).(*message.Assistant); ok && a.StopReason != message.Error && a.StopReason != message.Aborted && a.StopReason != message.Deferred {
			n++
		}
	}
	return n
}

// compacted reports whether something was compacted since the nth response became due.
func (s *sim) compacted(n int) bool {
	rows, _ := s.w.store.ScanEntries(storage.EntryQuery{})
	for _, r := range slices.Backward(rows) {
		if r.Body.Kind() == entry.KindCompaction {
			return true
		}
		if a, ok := messageOf(r).(*message.Assistant); ok && a.StopReason != message.Error && a.StopReason != message.Aborted && a.StopReason != message.Deferred {
			return false
		}
	}
	return n == 0 // there is nothing that could be compacted
}

// abort aborts the run, and sends more: that waits for the next one.
func (s *sim) abort(during string) {
	s.insist(func() error { _, _, err := s.e.Abort(session.MainStrand); return err })
	s.seen["abort during "+during]++
	s.deliver("late input", ask)
}

// deliver sends input during an effect, unless it is durable already.
func (s *sim) deliver(text string, how func(*engine.Engine, string) error) {
	if s.w.knows(text) {
		return
	}
	s.seen[strings.Fields(text)[0]]++
	s.insist(func() error { return how(s.e, text) })
}

// insist repeats what a fault may refuse, until the process is dead of it.
func (s *sim) insist(act func() error) {
	for !s.store.dead {
		err := act()
		if err == nil || err == machine.ErrNoActiveRun {
			return
		}
	}
}

// ended counts the runs that ended so.
func (s *sim) ended(o machine.Outcome) (n int) {
	cells, _ := s.w.store.Registers(register.FactCustom, "operation-result/")
	for _, c := range cells {
		if r, err := machine.DecodeLastResult(c.Value); err == nil && r.Outcome == o {
			n++
		}
	}
	return n
}

// boot starts a process over what the last one left.
func (s *sim) boot() {
	for range 100 {
		s.store = &simStore{Store: s.w.store, s: s, ends: s.store.ends}
		cfg, box := config(s.w, s.store, nil)
		s.box = &simTools{box, s}
		cfg.Models, cfg.Tools, cfg.Settings = s, s.box, s.script.settings
		cfg.Retry.MaxAttempts = nil
		e, err := engine.Open(cfg)
		if err != nil {
			continue
		}
		if err := cfg.Session.EnsureStrand(session.MainStrand, fakeConfiguration); err != nil {
			e.Close()
			continue
		}
		s.e, s.d = e, e.Driver(session.MainStrand)
		s.effects, s.awake, s.until, s.deaf = nil, true, 0, false
		return
	}
	s.t.Fatal("the session does not open any more")
}

// die ends the process: what was only in memory is gone.
func (s *sim) die() {
	s.e.Close()
	if len(s.effects) == 0 {
		s.box.settled(s.t)
	}
	s.boot()
}

// play runs the script to its end.
func (s *sim) play() ending {
	s.store = &simStore{ends: make(map[string]int)}
	s.boot()
	for sent, steps := 0, 0; ; steps++ {
		if steps > 20_000 {
			s.t.Fatal("run/terminated: it does not end")
		}
		if s.store.dead {
			s.die()
		}
		if s.d.Rung() {
			if s.inject("dropped doorbell") {
				s.deaf = true
			} else {
				s.awake = true
			}
		}
		if s.inject("crash") {
			s.die()
		}
		s.arm()
		idle := s.idle()
		if idle && sent == s.script.prompts && len(s.effects) == 0 {
			break
		}
		if idle && sent < s.script.prompts {
			sent += s.prompt(sent)
			continue
		}
		s.act()
	}
	s.e.Close()
	s.box.settled(s.t)
	return s.end()
}

// inject decides whether a fault happens now.
func (s *sim) inject(fault string) bool {
	if s.faults == 0 || s.schedule.choose(25, fault) != 1 {
		return false
	}
	s.faults--
	s.seen[fault]++
	return true
}

// arm makes the store ready for a fault.
func (s *sim) arm() {
	if s.faults == 0 || s.store.armed != "" || s.schedule.choose(15, "arm") != 1 {
		return
	}
	s.faults--
	kinds := []string{"crash at a commit", "stale expectation", "read fault", "lost lease", "failed commit"}
	s.store.armed = kinds[s.schedule.choose(len(kinds), "fault")]
}

func (s *sim) idle() bool {
	st, _, err := session.NewView(s.w.store).StrandState(session.MainStrand)
	if err != nil {
		s.t.Fatal(err)
	}
	return st.Value.CurrentOperation.IsZero()
}

// prompt sends the nth prompt unless it is durable; it returns how many are.
func (s *sim) prompt(n int) int {
	what := fmt.Sprintf("prompt %d", n)
	if s.w.knows(what) {
		return 1
	}
	in := text(what)
	in.MaxTurns = s.script.maxTurns
	if _, err := s.e.Prompt(session.MainStrand, in); err == nil {
		return 1
	}
	return 0
}

// act does one of the things that can be done.
func (s *sim) act() {
	var can []string
	if s.awake {
		can = append(can, "step")
	}
	runnable := s.runnable()
	if len(runnable) > 0 {
		can = append(can, "run an effect")
	}
	if !s.awake && s.until > 0 {
		can = append(can, "let time pass")
	}
	gates, err := s.e.Pauses(session.MainStrand)
	if err != nil { // a fault of the read, which happens once
		gates, _ = s.e.Pauses(session.MainStrand)
	}
	if len(gates) > 0 {
		can = append(can, "answer")
	}
	if len(can) == 0 {
		if !s.deaf {
			s.t.Fatal("run/terminated: a wake-up was lost")
		}
		can = append(can, "look")
	}
	switch can[s.schedule.choose(len(can), "act")] {
	case "step":
		s.step()
	case "run an effect":
		i := runnable[s.schedule.choose(len(runnable), "effect")]
		if i > 0 {
			s.seen["effect out of order"]++
		}
		f := s.effects[i]
		s.effects = slices.Delete(s.effects, i, i+1)
		f.run()
	case "answer":
		s.seen["answer"]++
		d := machine.Decision(machine.Approve{})
		if gates[0].Reason == words.PausedOnQuestion {
			d = machine.Reply{Content: []message.UserBlock{message.Text{Text: "blue"}}}
		}
		_ = s.e.Answer(session.MainStrand, gates[0].Gate, d, nil) // a fault may refuse it, and then it is asked again
	case "let time pass":
		s.w.clockMs = max(s.w.clockMs, s.until)
		s.awake = true
	case "look":
		s.awake, s.deaf = true, false
	}
}

// runnable lists the effects whose turn has come: those that run alone wait for
// all before them, the others only for one that runs alone.
func (s *sim) runnable() (list []int) {
	for i, f := range s.effects {
		if f.exclusive {
			if i == 0 {
				list = append(list, i)
			}
			break
		}
		list = append(list, i)
	}
	return list
}

func (s *sim) step() {
	armed := s.store.armed
	pass, err := s.d.Step(func(f func()) {
		s.effects = append(s.effects, simEffect{f, s.exclusive})
		s.exclusive = false
	})
	if err != nil {
		if armed == "" && !s.store.dead {
			s.t.Fatalf("a step failed without a fault: %v", err)
		}
		s.die()
		return
	}
	s.awake, s.until = pass.Progress == engine.Moved, pass.Until
	if pass.Progress == engine.Waiting && len(s.effects) > 0 {
		s.seen["slow effect"]++
	}
}

// end checks what must hold at the end and returns what must converge.
func (s *sim) end() ending {
	view := session.NewView(s.w.store)
	strand, _, err := view.StrandState(session.MainStrand)
	if err != nil {
		s.t.Fatal(err)
	}
	for ns, want := range map[register.Namespace]int{
		register.OpMeta: 0, register.OpState: 0, register.OpToolArgs: 0, register.PendingEntry: len(strand.Value.PendingNextRun),
	} {
		if keys, err := view.RegisterKeys(ns, ""); err != nil || len(keys) != want {
			s.t.Fatalf("terminal/registers: %s holds %v (%v)", ns, keys, err)
		}
	}
	for op, n := range s.store.ends {
		if n != 1 {
			s.t.Fatalf("terminal/last-result-once: operation %s ended %d times", op, n)
		}
	}
	for call, n := range s.w.ran {
		if tool, _, _ := strings.Cut(call, "-"); n > 1 && !repeatable(tool) {
			s.t.Fatalf("replay/never-once: %s ran %d times", call, n)
		}
	}
	end := ending{context: fingerprint(s.t, s.w), reported: reported(s.t, s.w)}
	if rows, _ := s.w.store.ScanEntries(storage.EntryQuery{Kind: entry.KindCompaction}); len(rows) > 0 {
		s.seen["compaction"]++
	}
	if strings.Contains(transcript(s.t, s.w), interrupted) {
		s.seen["interrupted call"]++
	}
	cells, _ := s.w.store.Registers(register.FactCustom, "operation-result/")
	for _, c := range cells {
		r, _ := machine.DecodeLastResult(c.Value)
		end.outcomes = append(end.outcomes, r.Outcome)
		s.seen["run "+string(r.Outcome)]++
	}
	return end
}

// converges plays a script without faults and with them, and compares.
func converges(t rapid.TB, sc script, schedule chooser, faults int, seen map[string]int) {
	calm := (&sim{t: t, w: newWorld(), script: sc, schedule: eager{}, seen: map[string]int{}}).play()
	got := (&sim{t: t, w: newWorld(), script: sc, schedule: schedule, faults: faults, seen: seen}).play()
	if fmt.Sprint(got.outcomes) != fmt.Sprint(calm.outcomes) {
		t.Fatalf("convergence/outcome: %v, without faults %v", got.outcomes, calm.outcomes)
	}
	if sc.aborts { // an abort may meet any moment of the rest
		return
	}
	if got.context != calm.context {
		t.Fatalf("convergence/projection:\n%s\nwithout faults\n%s", got.context, calm.context)
	}
	if got.reported != calm.reported {
		t.Fatalf("convergence/ledger: %d attempts are known, without faults %d", got.reported, calm.reported)
	}
}

var seeds = flag.Int("seeds", 150, "how many seeds the simulation sweeps")

func TestFaultsDoNotChangeWhatARunComesTo(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(*seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			converges(t, newScript(seed), newDice(^seed), int(seed%7), seen)
		})
		if t.Failed() {
			return
		}
	}
	for _, what := range []string{
		"crash", "crash at a commit", "stale expectation", "read fault", "lost lease", "failed commit", "dropped doorbell",
		"slow effect", "effect out of order", "steering", "follow-up", "late", "abort during a generation", "abort during a batch",
		"retry", "replayed call", "interrupted call", "answer", "deferred response", "poll", "summary", "overflow", "compaction", "run completed", "run failed", "run aborted",
	} {
		if seen[what] < 3 {
			t.Errorf("the sweep had only %d of: %s", seen[what], what)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%5d %s", seen[what], what)
	}
}

// FuzzSchedules looks for schedules that a seed does not make, and shrinks them.
func FuzzSchedules(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		sc := newScript(rapid.Uint64().Draw(t, "script"))
		converges(t, sc, drawn{t}, rapid.IntRange(0, 6).Draw(t, "faults"), map[string]int{})
	}))
}
