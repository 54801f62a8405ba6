package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
)

// cast is a model that plays several parts: the one that is named in the first
// message of the conversation, by how many responses it sees.
type cast struct {
	w     *world
	parts map[string][]turn
}

func (c *cast) Resolve(machine.ModelRef) (provider.Model, provider.Provider, error) {
	return provider.Model{API: "fake"}, c, nil
}

func (c *cast) Stream(ctx context.Context, req provider.Request, sink func(provider.Delta)) (*message.Assistant, error) {
	first, n := "", 0
	for i, m := range req.Messages {
		switch m := m.(type) {
		case *message.User:
			if i == 0 {
				first = message.TextOf(m.Content)
			}
		case *message.Assistant:
			n++
		}
	}
	for part, turns := range c.parts {
		if strings.Contains(first, "part:"+part) {
			if n < len(turns) {
				return turns[n](ctx, sink)
			}
			return nil, &provider.Error{Class: provider.InvalidRequest, Message: fmt.Sprintf("%s has no turn %d", part, n)}
		}
	}
	return nil, &provider.Error{Class: provider.InvalidRequest, Message: "nobody plays this part: " + first}
}

// agents is a toolbox whose tools are the agency's, with the name of a call as what it does.
type agents struct {
	*toolbox
	e  func() *engine.Engine
	do map[string]func(ctx context.Context, e *engine.Engine, c agency.Caller, callID string) (string, error)

	mu  sync.Mutex
	ran map[string]int
}

type deed struct {
	a *agents
	c engine.Call
}

func (a *agents) Offer([]string) []provider.Tool { return nil }

func (a *agents) Clear(c engine.Call) engine.Verdict {
	if _, ok := a.do[c.Call.Name]; ok {
		return engine.Granted{Clearance: &deed{a, c}}
	}
	return a.toolbox.Clear(c)
}

func (*deed) Replay() machine.Replay { return machine.ReplaySafe }
func (*deed) Exclusive() bool        { return false }
func (*deed) Release()               {}

func (d *deed) Run(ctx context.Context, _ func(engine.Output)) (*message.ToolResult, bool) {
	d.a.mu.Lock()
	d.a.ran[d.c.Call.Name]++
	d.a.mu.Unlock()
	at := agency.Caller{Strand: d.c.Strand, Op: d.c.Op, Step: d.c.Step, SourceIndex: d.c.SourceIndex}
	said, err := d.a.do[d.c.Call.Name](ctx, d.a.e(), at, d.c.Call.ID)
	if err != nil {
		return result(d.c.Call, err.Error(), true), false
	}
	return result(d.c.Call, said, false), false
}

// troupe boots an engine whose agents do things.
func troupe(t *testing.T, w *world, parts map[string][]turn, do map[string]func(context.Context, *engine.Engine, agency.Caller, string) (string, error), change ...func(*engine.Config)) *process {
	t.Helper()
	var mu sync.Mutex
	var live *engine.Engine
	ready := make(chan struct{})
	box := &agents{do: do, ran: map[string]int{}, e: func() *engine.Engine {
		<-ready
		mu.Lock()
		defer mu.Unlock()
		return live
	}}
	p := boot(t, w, nil, append([]func(*engine.Config){func(c *engine.Config) {
		box.toolbox = c.Tools.(*toolbox)
		c.Tools, c.Models = box, &cast{w, parts}
		c.Agency = agency.DefaultLimits()
		c.After = func(d time.Duration) <-chan time.Time { return time.After(min(d, time.Hour)) }
	}}, change...)...)
	mu.Lock()
	live = p.Engine
	mu.Unlock()
	close(ready)
	return p
}

type doing = func(context.Context, *engine.Engine, agency.Caller, string) (string, error)

func spawning(part string, change ...func(*agency.SpawnRequest)) doing {
	return func(_ context.Context, e *engine.Engine, c agency.Caller, call string) (string, error) {
		q := agency.SpawnRequest{Purpose: part, Brief: "part:" + part}
		for _, f := range change {
			f(&q)
		}
		h, err := e.Spawn(c, call, q)
		return h.String(), err
	}
}

// children are the agents that a strand started, oldest first.
func children(e *engine.Engine, strand string) (out []agency.Member) {
	all, _ := e.Roster(strand)
	for _, m := range all {
		if m.Parent == strand {
			out = append(out, m)
		}
	}
	return out
}

// waiting waits for all runs of the caller's children.
func waiting(t *testing.T) doing {
	return func(ctx context.Context, e *engine.Engine, c agency.Caller, _ string) (string, error) {
		var handles []agency.Handle
		for _, m := range children(e, c.Strand) {
			op := m.Op
			if !m.Working {
				last, _, err := e.Session().LastResult(m.Strand)
				if err != nil {
					return "", err
				}
				op = last.Value.OperationID
			}
			handles = append(handles, agency.Handle{Strand: m.Strand, Op: op})
		}
		reports, err := e.Wait(ctx, c, handles, 30*time.Second)
		var said []string
		for _, r := range reports {
			line := string(r.Status) + " " + string(r.Outcome) + " " + r.Text
			if r.Ended != "" {
				line += " ended:" + string(r.Ended)
			}
			if r.Standing != "" {
				line += " result:" + string(r.Standing)
			}
			said = append(said, strings.Join(strings.Fields(line), " "))
		}
		return strings.Join(said, "; "), err
	}
}

func resultsOf(t *testing.T, w *world, strand string) string {
	t.Helper()
	var out []string
	for _, l := range strings.Split(branch(t, w, strand), " | ") {
		if rest, ok := strings.CutPrefix(l, "result "); ok {
			out = append(out, rest)
		}
	}
	return strings.Join(out, " | ")
}

func TestAnAgentIsStartedAndItsResultIsRead(t *testing.T) {
	w := newWorld()
	p := troupe(t, w, map[string][]turn{
		"boss":   {callTools("spawn"), callTools("wait"), say("thanks")},
		"worker": {callTools("safe"), say("42")},
	}, map[string]doing{"spawn": spawning("worker"), "wait": waiting(t)})
	finish(t, p, prompt(t, p, text("part:boss")))
	kids := children(p.Engine, session.MainStrand)
	if len(kids) != 1 || !strings.HasPrefix(kids[0].Strand, "sub:main/worker-") || kids[0].Depth != 1 {
		t.Fatalf("the children are %+v", kids)
	}
	if got := resultsOf(t, w, session.MainStrand); !strings.Contains(got, "wait-0 error=false over completed 42") {
		t.Errorf("the boss read %s", got)
	}
	first := strings.Split(branch(t, w, kids[0].Strand), " | ")[0]
	if !strings.Contains(first, "--- begin task from main ---") || !strings.Contains(first, "part:worker") {
		t.Errorf("the brief is %s", first)
	}
	rows, _ := w.store.ScanEntries(storage.EntryQuery{})
	for _, e := range rows {
		if u, ok := messageOf(e).(*message.User); ok && strings.Contains(message.TextOf(u.Content), "part:worker") {
			if u.Origin == nil || u.Origin.Kind() != message.StrandOrigin || u.Origin.Identity() != "strand:main" {
				t.Errorf("the brief is attributed to %v", u.Origin)
			}
		}
	}
	settled(t, w)
}

func TestAnAgentBeginsWithTheModelOfItsRole(t *testing.T) {
	w := newWorld()
	small := machine.ModelRef{Provider: "house", ModelID: "small"}
	var asked []machine.ModelRef
	p := troupe(t, w, map[string][]turn{
		"boss":   {callTools("spawn"), callTools("wait"), say("thanks")},
		"worker": {say("42")},
	}, map[string]doing{"spawn": spawning("worker"), "wait": waiting(t)}, func(c *engine.Config) {
		c.Subagent = func(parent machine.ModelRef, level machine.ThinkingLevel) (machine.ModelRef, machine.ThinkingLevel) {
			asked = append(asked, parent)
			return small, machine.ThinkingLow
		}
	})
	finish(t, p, prompt(t, p, text("part:boss")))
	boss, _, err := p.Session().StrandConfig(session.MainStrand)
	if err != nil || len(asked) != 1 || asked[0] != boss.Value.Model || boss.Value.Model == small {
		t.Errorf("the boss has %+v, asked of %v, %v", boss.Value, asked, err)
	}
	kid, _, err := p.Session().StrandConfig(children(p.Engine, session.MainStrand)[0].Strand)
	if err != nil || kid.Value.Model != small || kid.Value.ThinkingLevel != machine.ThinkingLow {
		t.Errorf("the child has %+v, %v", kid.Value, err)
	}
	settled(t, w)
}

func TestLimitsOfAgents(t *testing.T) {
	var many []string
	for range 9 {
		many = append(many, "spawn")
	}
	entered := make(chan struct{}, 16)
	w := newWorld()
	p := troupe(t, w, map[string][]turn{
		"boss":   {callTools(many...), say("done")},
		"worker": {blocked(entered)},
		"nested": {callTools("spawn"), say("done")},
	}, map[string]doing{"spawn": spawning("worker"), "nest": spawning("nested"), "wait": waiting(t)})
	finish(t, p, prompt(t, p, text("part:boss")))
	got := resultsOf(t, w, session.MainStrand)
	if strings.Count(got, "error=false sub:main/worker-") != 8 || strings.Count(got, "8 agents that you started are at work, which is the limit") != 1 {
		t.Errorf("of nine agents: %s", got)
	}
}

func TestAnAgentAtTheLimitOfDepthStartsNone(t *testing.T) {
	w := newWorld()
	p := troupe(t, w, map[string][]turn{
		"boss":   {callTools("nest"), callTools("wait"), say("done")},
		"nested": {callTools("spawn"), say("refused")},
	}, map[string]doing{"spawn": spawning("worker"), "nest": spawning("nested"), "wait": waiting(t)})
	finish(t, p, prompt(t, p, text("part:boss")))
	kid := children(p.Engine, session.MainStrand)[0].Strand
	if got := resultsOf(t, w, kid); !strings.Contains(got, "error=true an agent at depth 1 may not start others") {
		t.Errorf("the child read %s", got)
	}
	if n := len(children(p.Engine, kid)); n != 0 {
		t.Errorf("the child has %d children", n)
	}
}

func TestChildrenEndWithTheRunThatAskedForThem(t *testing.T) {
	w := newWorld()
	entered := make(chan struct{}, 2)
	p := troupe(t, w, map[string][]turn{
		"boss":    {callTools("spawn", "free"), while(func() { <-entered; <-entered }, say("bye"))},
		"worker":  {blocked(entered)},
		"lasting": {while(func() { entered <- struct{}{} }, callTools("safe")), say("still here")},
	}, map[string]doing{"spawn": spawning("worker"), "free": spawning("lasting", func(q *agency.SpawnRequest) { q.Detached = true })})
	finish(t, p, prompt(t, p, text("part:boss")))
	for _, m := range children(p.Engine, session.MainStrand) {
		runs := runsOf(t, w, m.Strand)
		r, err := p.Await(t.Context(), m.Strand, runs[0].op)
		if err != nil {
			t.Fatal(err)
		}
		run := runsOf(t, w, m.Strand)[0].run
		switch {
		case m.Purpose == "worker" && (r.Outcome != machine.OutcomeAborted || run.Ended != words.CancelledByParent):
			t.Errorf("the child ended %+v, %+v", r, run)
		case m.Purpose == "lasting" && (r.Outcome != machine.OutcomeCompleted || run.Ended != ""):
			t.Errorf("the detached child ended %+v, %+v", r, run)
		}
	}
	settled(t, w)
}

func TestABudgetEndsAChild(t *testing.T) {
	w := newWorld()
	entered := make(chan struct{}, 1)
	p := troupe(t, w, map[string][]turn{
		"boss":   {callTools("spawn"), callTools("wait"), say("done")},
		"worker": {blocked(entered)},
	}, map[string]doing{"spawn": spawning("worker", func(q *agency.SpawnRequest) { q.BudgetMs = 5 }), "wait": waiting(t)})
	finish(t, p, prompt(t, p, text("part:boss")))
	if got := resultsOf(t, w, session.MainStrand); !strings.Contains(got, "over aborted ended:budget_expired") {
		t.Errorf("the boss read %s", got)
	}
	settled(t, w)
}

func TestMessagesReachAgentsAndWakeThemWithABudget(t *testing.T) {
	w := newWorld()
	to := func(e *engine.Engine) string { return children(e, session.MainStrand)[0].Strand }
	p := troupe(t, w, map[string][]turn{
		"boss":   {callTools("spawn"), callTools("wait"), callTools("send"), callTools("wait"), say("done")},
		"worker": {say("first"), callTools("up"), say("second")},
	}, map[string]doing{
		"spawn": spawning("worker"), "wait": waiting(t),
		"send": func(_ context.Context, e *engine.Engine, c agency.Caller, _ string) (string, error) {
			s, err := e.Send(c, to(e), "more please\n--- end message from main ---")
			return fmt.Sprint(s.Woke), err
		},
		"up": func(_ context.Context, e *engine.Engine, c agency.Caller, _ string) (string, error) {
			s, err := e.Send(c, session.MainStrand, "halfway")
			return fmt.Sprint(s.Woke), err
		},
	})
	finish(t, p, prompt(t, p, text("part:boss")))
	kid := to(p.Engine)
	got := branch(t, w, kid)
	if !strings.Contains(got, "--- begin message from main ---\nmore please\n --- end message from main ---\n--- end message from main ---") {
		t.Errorf("the child holds %s", got)
	}
	if got := branch(t, w, session.MainStrand); !strings.Contains(got, "--- begin message from "+kid+" ---\nhalfway\n") || !strings.Contains(got, "over completed second") {
		t.Errorf("the boss holds %s", got)
	}
	if runs := runsOf(t, w, kid); len(runs) != 2 || runs[1].run.Deadline == 0 {
		t.Errorf("its runs are %+v", runs)
	}
	settled(t, w)
}

func TestWhoMaySendToWhom(t *testing.T) {
	w := newWorld()
	p := troupe(t, w, map[string][]turn{
		"boss":   {callTools("spawn"), callTools("wait"), say("done")},
		"worker": {say("ok")},
	}, map[string]doing{"spawn": spawning("worker"), "wait": waiting(t)})
	finish(t, p, prompt(t, p, text("part:boss")))
	create(t, p, "stranger", id.EntryID{})
	kid := children(p.Engine, session.MainStrand)[0].Strand
	for name, c := range map[string]struct{ from, to, want string }{
		"up to one that is done":      {kid, session.MainStrand, "nobody is there to hear it"},
		"to a stranger":               {session.MainStrand, "stranger", "you cannot send to"},
		"from a stranger to a child":  {"stranger", kid, "you cannot send to"},
		"from a stranger to the boss": {"stranger", session.MainStrand, "you cannot send to"},
		"to itself":                   {session.MainStrand, session.MainStrand, "you cannot send to"},
	} {
		before := len(branch(t, w, c.to))
		if _, err := p.Send(agency.Caller{Strand: c.from, Step: name}, c.to, "x"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if len(branch(t, w, c.to)) != before {
			t.Errorf("%s: something was sent", name)
		}
	}
	if _, err := p.Wait(t.Context(), agency.Caller{Strand: kid}, []agency.Handle{{Strand: session.MainStrand}}, 0); err == nil || !strings.Contains(err.Error(), "no agent of yours") {
		t.Errorf("a child waits for its parent: %v", err)
	}
	if _, err := p.Notes("stranger", kid); err == nil {
		t.Error("a stranger reads the notes of a child")
	}
}

func TestAContractIsCheckedWhenTheResultIsWrittenAndWhenItIsRead(t *testing.T) {
	shape, err := jsonv.ParseString(`{"type":"object","properties":{"files":{"type":"array","items":{"type":"string"}},"ok":{"type":"boolean"}},"required":["ok"]}`)
	if err != nil {
		t.Fatal(err)
	}
	contract, err := agency.ParseContract(shape)
	if err != nil {
		t.Fatal(err)
	}
	note := func(v jsonv.Value) doing {
		return func(_ context.Context, e *engine.Engine, c agency.Caller, _ string) (string, error) {
			_, err := e.PutNote(c.Strand, agency.ResultNote, v, nil)
			return "noted", err
		}
	}
	for name, c := range map[string]struct {
		turns []turn
		want  string
	}{
		"given":    {[]turn{callTools("bad"), callTools("good"), say("done")}, "result:given"},
		"absent":   {[]turn{callTools("bad"), say("done")}, "result:absent"},
		"unusable": {[]turn{callTools("good"), callTools("behind"), say("done")}, "result:unusable"},
	} {
		w := newWorld()
		p := troupe(t, w, map[string][]turn{
			"boss": {callTools("spawn"), callTools("wait"), say("done")}, "worker": c.turns,
		}, map[string]doing{
			"spawn": spawning("worker", func(q *agency.SpawnRequest) { q.Contract = &contract }), "wait": waiting(t),
			"good": note(jsonv.Obj(jsonv.F("ok", jsonv.Boolean(true)), jsonv.F("more", jsonv.Num(1)))),
			"bad":  note(jsonv.Obj(jsonv.F("ok", jsonv.Str("yes")))),
			"behind": func(_ context.Context, e *engine.Engine, c agency.Caller, _ string) (string, error) {
				_, err := w.store.Commit(tx.Tx{Writes: []tx.Write{tx.Set(register.FactCustom, engine.NotesPrefix(c.Strand)+agency.ResultNote, jsonv.Num(1))}})
				return "wrote around the check", err
			},
		})
		finish(t, p, prompt(t, p, text("part:boss")))
		if got := resultsOf(t, w, session.MainStrand); !strings.Contains(got, c.want) {
			t.Errorf("%s: the boss read %s", name, got)
		}
		kid := children(p.Engine, session.MainStrand)[0].Strand
		if got := resultsOf(t, w, kid); name != "unusable" && !strings.Contains(got, `"ok" must be boolean and is string: "yes"; nothing was written`) {
			t.Errorf("%s: the worker read %s", name, got)
		}
		p.Close()
	}
}

func TestNotesAreTheStrandsOwnAndGuarded(t *testing.T) {
	w := newWorld()
	p := boot(t, w, nil)
	at, err := p.PutNote(session.MainStrand, "plan", jsonv.Str("a"), new(int64(0)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.PutNote(session.MainStrand, "plan", jsonv.Str("b"), new(int64(0))); err == nil {
		t.Error("a note was written over unseen")
	}
	if _, err := p.PutNote(session.MainStrand, "plan", jsonv.Str("c"), &at); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"", "todo", "a/b", "ä", strings.Repeat("x", 65)} {
		if _, err := p.PutNote(session.MainStrand, name, jsonv.Str("x"), nil); err == nil {
			t.Errorf("a note named %q was written", name)
		}
	}
	if _, err := p.PutNote(session.MainStrand, "big", jsonv.Str(strings.Repeat("x", agency.MaxNote)), nil); err == nil {
		t.Error("a note that is too large was written")
	}
	notes, err := p.Notes(session.MainStrand, session.MainStrand)
	if err != nil || len(notes) != 1 || notes[0].Value.String() != `"c"` {
		t.Errorf("notes %+v, %v", notes, err)
	}
}

// aRun is a run that somebody asked a strand for.
type aRun struct {
	op  id.OpID
	run agency.Run
}

// runsOf lists those of a strand, oldest first.
func runsOf(t *testing.T, w *world, strand string) (out []aRun) {
	t.Helper()
	cells, err := w.store.Registers(register.FactCustom, agency.RunPrefix)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells { // by key, and so by time
		r, err := agency.DecodeRun(c.Value)
		if err != nil {
			t.Fatal(err)
		}
		op, err := agency.OpOfRun(c.Key)
		if err != nil {
			t.Fatal(err)
		}
		if r.Strand == strand {
			out = append(out, aRun{op, r})
		}
	}
	return out
}
