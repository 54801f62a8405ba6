package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/automation"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/projection"
	"github.com/loom-run/loom/storage"
	"pgregory.net/rapid"
)

// bomb is a store whose process dies right after commit n is durable: that commit
// and every later one gets no answer. Each commit leaves a sound session.
type bomb struct {
	storage.Store
	t    *testing.T
	w    *world
	dead chan struct{}

	mu      sync.Mutex
	left    int // 0: it never explodes
	commits int
}

func (b *bomb) CommitAll(txs ...tx.Tx) []storage.Outcome { return storage.OneByOne(b.Commit, txs) }

func (b *bomb) Commit(t tx.Tx) (tx.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.dead:
		return tx.Result{}, &tx.Faulted{Reason: "the process is dead"}
	default:
	}
	r, err := b.Store.Commit(t)
	if err != nil {
		return r, err
	}
	b.commits++
	sound(b.t, b.w, fmt.Sprintf("after commit %d", b.commits))
	if b.commits == b.left {
		close(b.dead)
		return tx.Result{}, &tx.Faulted{Reason: "the process died"}
	}
	return r, nil
}

// scenario is a script that a client plays against an engine.
type scenario struct {
	turns     func(s *stage) []turn
	models    func(s *stage) engine.Models // nil: those of turns
	prompts   []string                     // one run after the other
	also      []string                     // input that the turns send and that has a run of its own
	change    func(*engine.Config)
	maxTurns  *int64
	onlyEnds  bool // an abort may meet any moment: only outcomes converge
	wantRuns  []machine.Outcome
	wantCount int // the least number of commits, whatever lands first
}

// stage is one playing of a scenario, over several lives of its engine.
type stage struct {
	*world
	t *testing.T

	mu   sync.Mutex
	live *engine.Engine
}

func (s *stage) engine() *engine.Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live
}

// send delivers input from within an effect, unless an earlier life did.
func (s *stage) send(text string, how func(*engine.Engine, string) error) {
	if s.knows(text) {
		return
	}
	// It fails when the process dies; the next life sends again.
	_ = how(s.engine(), text)
}

func steer(e *engine.Engine, text string) error {
	return e.Steer(session.MainStrand, &message.User{Content: []message.UserBlock{message.Text{Text: text}}})
}

func ask(e *engine.Engine, s string) error {
	_, err := e.Prompt(session.MainStrand, text(s))
	return err
}

// while is a turn that does something before it answers.
func while(do func(), then turn) turn {
	return func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
		do()
		return then(ctx, sink)
	}
}

var scenarios = map[string]scenario{
	"simple": {
		turns:    func(*stage) []turn { return []turn{say("hello")} },
		wantRuns: completed, wantCount: 8,
	},
	"tools at once": {
		turns: func(*stage) []turn {
			return []turn{callTools("safe", "unsafe", "safe"), callTools("unsafe"), say("done")}
		},
		wantRuns: completed, wantCount: 20,
	},
	"tools one by one": {
		turns:    func(*stage) []turn { return []turn{callTools("unsafe", "safe", "unsafe"), say("done")} },
		change:   func(c *engine.Config) { c.Settings.ToolExecution = machine.Sequential },
		wantRuns: completed, wantCount: 15,
	},
	"refusals": {
		turns: func(*stage) []turn {
			return []turn{callTools("denied", "safe"), reply(message.Length, calls("unsafe")...), callTools("ender")}
		},
		wantRuns: completed, wantCount: 20,
	},
	"steering": {
		turns: func(s *stage) []turn {
			return []turn{
				while(func() { s.send("left", steer) }, callTools("safe")),
				while(func() { s.send("right", steer) }, say("turned")),
				say("done"),
			}
		},
		wantRuns: completed, wantCount: 18,
	},
	"follow-ups": {
		turns: func(s *stage) []turn {
			return []turn{while(func() { s.send("and", ask); s.send("also", ask) }, say("one")), say("two"), say("three")}
		},
		change:   func(c *engine.Config) { c.Settings.FollowUpMode = machine.DrainOneAtATime },
		wantRuns: completed, wantCount: 18,
	},
	"abort of a generation": {
		turns: func(s *stage) []turn {
			return []turn{func(ctx context.Context, _ func(provider.Delta)) (*message.Assistant, error) {
				if _, _, err := s.engine().Abort(session.MainStrand); err != nil {
					return nil, err
				}
				<-ctx.Done()
				return nil, &provider.Error{Class: provider.Cancelled, Message: "cancelled"}
			}}
		},
		wantRuns: []machine.Outcome{machine.OutcomeAborted}, wantCount: 9, onlyEnds: true,
	},
	"abort of a batch": {
		turns: func(s *stage) []turn {
			return []turn{while(func() { s.send("never seen", steer) }, callTools("abort", "unsafe", "safe"))}
		},
		wantRuns: []machine.Outcome{machine.OutcomeAborted}, wantCount: 12, onlyEnds: true,
	},
	"input after an abort": {
		also: []string{"late"},
		turns: func(s *stage) []turn {
			return []turn{func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
				if s.knows("late") {
					return say("both seen")(ctx, sink)
				}
				_, _, _ = s.engine().Abort(session.MainStrand)
				s.send("late", ask)
				return say("too late")(ctx, sink)
			}}
		},
		wantRuns: []machine.Outcome{machine.OutcomeAborted, machine.OutcomeCompleted}, wantCount: 16, onlyEnds: true,
	},
	"retries": {
		turns: func(s *stage) []turn {
			return []turn{func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
				if s.flake("busy", 2) {
					return nil, &provider.Error{Class: provider.RateLimit, Message: "slow down", RetryAfterMs: new(int64(5))}
				}
				return say("at last")(ctx, sink)
			}}
		},
		change:   func(c *engine.Config) { c.Retry.MaxAttempts = new(int64(5)) },
		wantRuns: completed, wantCount: 14,
	},
	"max turns": {
		turns:    func(*stage) []turn { return []turn{callTools("safe"), callTools("safe"), callTools("safe")} },
		maxTurns: new(int64(2)),
		wantRuns: []machine.Outcome{machine.OutcomeFailed}, wantCount: 18,
	},
	"threshold": {
		models: func(s *stage) engine.Models {
			return &bookish{w: s.world, window: 10000, turns: []turn{large(9500, callTools("safe", "unsafe")), say("two")}}
		},
		change:   func(c *engine.Config) { compacting(nil)(c) },
		wantRuns: completed, wantCount: 16,
	},
	"overflow": {
		models: func(s *stage) engine.Models {
			return &bookish{w: s.world, turns: []turn{say(long("one")), func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
				if len(compactions(s.t, s.world)) == 0 {
					return nil, &provider.Error{Class: provider.Overflow, Message: "too long"}
				}
				return say("fits")(ctx, sink)
			}}}
		},
		prompts:  []string{"go", "again"},
		change:   func(c *engine.Config) { compacting(nil)(c) },
		wantRuns: []machine.Outcome{machine.OutcomeCompleted, machine.OutcomeCompleted}, wantCount: 16,
	},
	"a deferred response": {
		models: func(*stage) engine.Models {
			return &postponing{there: 2, handle: later(), answer: callTools("safe")}
		},
		wantRuns: completed, wantCount: 14,
	},
	"questions": {
		turns:    func(*stage) []turn { return []turn{callTools("asked", "safe", "asked"), say("done")} },
		wantRuns: completed, wantCount: 18,
	},
	"a rule": {
		turns:    func(*stage) []turn { return []turn{say("it is a hack"), say("done properly"), say("never said")} },
		change:   func(c *engine.Config) { c.Automation.Rules = []automation.Rule{noHacks} },
		wantRuns: completed, wantCount: 13,
	},
	"a schedule": {
		turns: func(s *stage) []turn {
			return []turn{while(func() { s.jump(dueThen) }, say("working")), say("seen")}
		},
		change: func(c *engine.Config) {
			c.Automation.Schedules = []automation.Schedule{{
				Name: "look", Target: session.MainStrand, When: automation.At{Ms: dueThen}, Body: "look again", MaxFires: 3, LifeMs: automation.MaxLifeMs,
			}}
		},
		wantRuns: completed, wantCount: 14,
	},
	"failure": {
		turns: func(*stage) []turn {
			return []turn{callTools("safe"), func(context.Context, func(provider.Delta)) (*message.Assistant, error) {
				return nil, &provider.Error{Class: provider.Auth, Message: "the key was refused"}
			}}
		},
		wantRuns: []machine.Outcome{machine.OutcomeFailed}, wantCount: 14,
	},
}

var completed = []machine.Outcome{machine.OutcomeCompleted}

// ending is what a scenario came to.
type ending struct {
	outcomes []machine.Outcome
	context  string // fingerprint of what the model would see next
	reported int    // attempts whose usage is known
	commits  int
}

// play runs a scenario to its end. With bang > 0, the first process dies at that
// commit; fired says whether it got there.
func (sc scenario) play(t *testing.T, bang int) (end ending, fired bool) {
	t.Helper()
	s := &stage{world: newWorld(), t: t}
	prompts := sc.prompts
	if prompts == nil {
		prompts = []string{"go"}
	}
	for life := 0; ; life++ {
		b := &bomb{Store: s.store, t: t, w: s.world, dead: make(chan struct{})}
		if life == 0 {
			b.left = bang
		}
		err := sc.live(t, s, b, prompts)
		select {
		case <-b.dead:
			fired = true
			continue
		default:
		}
		if err != nil {
			t.Fatalf("crash at commit %d, life %d: %v\n%s", bang, life, err, transcript(t, s.world))
		}
		if life == 0 {
			end.commits = b.commits
		}
		break
	}
	settled(t, s.world)
	for _, text := range append(prompts, sc.also...) {
		end.outcomes = append(end.outcomes, s.outcome(text))
	}
	end.context, end.reported = fingerprint(t, s.world), reported(t, s.world)
	return end, fired
}

// live is one process: it sends the prompts that are not durable yet and waits
// until the strand is idle after each.
func (sc scenario) live(t *testing.T, s *stage, store *bomb, prompts []string) error {
	cfg, box := config(s.world, store, nil)
	if sc.models != nil {
		cfg.Models = sc.models(s)
	} else {
		cfg.Models = &scriptedModel{s.world, sc.turns(s)}
	}
	cfg.Tools = &abortingTools{box, s}
	if sc.change != nil {
		sc.change(&cfg)
	}
	e, err := engine.Open(cfg)
	if err != nil {
		return err
	}
	defer box.settled(t)
	defer e.Close()
	s.mu.Lock()
	s.live = e
	s.mu.Unlock()
	if err := e.Start(fakeConfiguration); err != nil {
		return err
	}
	for _, p := range append(prompts, sc.also...) { // the process may have died of sending the latter
		if err := approveAll(t.Context(), e); err != nil {
			return err
		}
		if s.knows(p) {
			continue
		}
		in := text(p)
		in.MaxTurns = sc.maxTurns
		if _, err := e.Prompt(session.MainStrand, in); err != nil {
			return err
		}
	}
	return approveAll(t.Context(), e)
}

// approveAll waits until a strand is idle, and decides what it pauses on.
func approveAll(ctx context.Context, e *engine.Engine) error {
	for {
		err := awaitIdle(ctx, e)
		pause, ok := errors.AsType[*engine.Paused](err)
		if !ok {
			return err
		}
		err = e.Answer(session.MainStrand, pause.Pauses[0].Gate, machine.Approve{}, nil)
		if err != nil && !errors.Is(err, machine.ErrNoSuchGate) {
			return err
		}
	}
}

func awaitIdle(ctx context.Context, e *engine.Engine) error {
	for {
		op, busy, err := e.Current(session.MainStrand)
		if err != nil {
			return err
		}
		if !busy {
			state, _, err := e.Session().StrandState(session.MainStrand)
			if err != nil || state.Value.Start == nil && state.Value.CurrentOperation.IsZero() {
				return err
			}
			runtime.Gosched() // the driver is about to start what is queued
			if err := e.Failure(session.MainStrand); err != nil {
				return err
			}
			continue
		}
		if _, err := e.Await(ctx, session.MainStrand, op); err != nil {
			return err
		}
	}
}

// abortingTools has the tool abort, which aborts its own run and waits for that.
type abortingTools struct {
	*toolbox
	s *stage
}

func (a *abortingTools) Clear(c engine.Call) engine.Verdict {
	v := a.toolbox.Clear(c)
	if c.Call.Name == "abort" {
		return engine.Granted{Clearance: &abortingCall{grantedOf(v), a.s}}
	}
	return v
}

type abortingCall struct {
	*clearance
	s *stage
}

func (c *abortingCall) Run(ctx context.Context, progress func(engine.Output)) (*message.ToolResult, bool) {
	if _, _, err := c.s.engine().Abort(session.MainStrand); err == nil {
		<-ctx.Done()
	}
	return c.clearance.Run(ctx, progress)
}

// outcome is the end of the run that took a prompt.
func (s *stage) outcome(text string) machine.Outcome {
	s.t.Helper()
	rows, _ := s.store.ScanEntries(storage.EntryQuery{})
	cells, err := s.store.Registers("fact.custom", "operation-result/")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range cells { // by operation id, which is by time
		r, err := machine.DecodeLastResult(c.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		branch, err := s.store.ScanBranch(storage.BranchQuery{Start: r.LeafID}) // also what was compacted
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range branch {
			if line(messageOf(e)) == "user "+text {
				return r.Outcome
			}
		}
	}
	s.t.Fatalf("no run took %q; there are %d entries", text, len(rows))
	return ""
}

// interrupted begins the result of a call whose outcome nobody knows.
const interrupted = "the process ended while this call was running"

// fingerprint renders the projected context without ids and times. A call that a
// crash interrupted and that must not be repeated may say so instead of its result.
func fingerprint(t rapid.TB, w *world) string {
	t.Helper()
	view := session.NewView(w.store)
	leaf, _, err := view.StrandLeaf(session.MainStrand)
	if err != nil {
		t.Fatal(err)
	}
	list, err := view.Project(leaf.Value, projection.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, m := range list {
		if r, ok := m.(*message.ToolResult); ok && strings.HasPrefix(message.TextOf(r.Content), interrupted) && !repeatable(r.ToolName) {
			m = result(message.ToolCall{ID: r.ToolCallID, Name: r.ToolName}, "did "+r.ToolCallID, false)
		}
		b.WriteString(line(m) + "\n")
	}
	return b.String()
}

// reported counts the attempts whose usage is known: those that a crash took are
// billed as unknown.
func reported(t rapid.TB, w *world) (n int) {
	t.Helper()
	rows, err := w.store.ScanUsage(storage.UsageQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if _, known := r.Usage.Evidence.Tokens(); known {
			n++
		}
	}
	return n
}

// TestEveryCommitMayBeTheLast kills the process right after each commit is
// durable and before anybody hears of it, then lives on over what is left.
func TestEveryCommitMayBeTheLast(t *testing.T) {
	for name, sc := range scenarios {
		t.Run(name, func(t *testing.T) {
			whole, _ := sc.play(t, 0)
			if fmt.Sprint(whole.outcomes) != fmt.Sprint(sc.wantRuns) {
				t.Fatalf("without a crash its runs ended %v, want %v\n%s", whole.outcomes, sc.wantRuns, whole.context)
			}
			if whole.commits < sc.wantCount {
				t.Errorf("it made %d commits: it does not reach what it should", whole.commits)
			}
			for k := 1; k <= whole.commits; k++ {
				got, fired := sc.play(t, k)
				if !fired && k <= sc.wantCount { // beyond, it depends on which results land together
					t.Errorf("commit %d was not reached", k)
				}
				if fmt.Sprint(got.outcomes) != fmt.Sprint(whole.outcomes) {
					t.Errorf("crash at commit %d: outcomes %v, want %v", k, got.outcomes, whole.outcomes)
				}
				if sc.onlyEnds {
					continue
				}
				if got.context != whole.context {
					t.Errorf("crash at commit %d: the context is\n%s\nwant\n%s", k, got.context, whole.context)
				}
				if got.reported != whole.reported {
					t.Errorf("crash at commit %d: %d attempts are known, want %d", k, got.reported, whole.reported)
				}
			}
		})
	}
}

func TestACrashedStrandRefusesInputAndSaysWhatIsKept(t *testing.T) {
	w := newWorld()
	b := &bomb{Store: w.store, t: t, w: w, dead: make(chan struct{}), left: 6}
	p := boot(t, w, []turn{say("hello")}, func(c *engine.Config) { c.Session = session.New(b) })
	op := prompt(t, p, text("go"))
	_, err := p.Await(t.Context(), session.MainStrand, op)
	if err == nil || !strings.Contains(err.Error(), "keeps everything up to its last commit") {
		t.Errorf("got %v", err)
	}
	if _, err := p.Prompt(session.MainStrand, text("again")); err == nil {
		t.Error("input was taken by a stopped strand")
	}
	p.Close()
	if _, err := p.Prompt(session.MainStrand, text("again")); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}
