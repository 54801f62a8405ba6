package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/memory"
	"pgregory.net/rapid"
)

// world is what outlives a process: the store, and the effects that tools had.
type world struct {
	store *memory.Store

	mu      sync.Mutex
	ran     map[string]int // tool executions by call id
	asked   int            // provider requests
	seed    uint64
	clockMs int64
	flaked  map[string]int // failures that were shown, by name
}

func newWorld() *world {
	w := &world{ran: make(map[string]int), flaked: make(map[string]int), clockMs: 1_767_225_600_000}
	w.store = memory.New(w.now)
	return w
}

func (w *world) now() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clockMs++
	return w.clockMs
}

func (w *world) entropy() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seed++
	return w.seed * 0xD1342543DE82EF95 // not the step of the generators themselves: theirs would overlap within a millisecond
}

// requests counts what the model was asked.
func (w *world) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// flake reports n times that something fails.
func (w *world) flake(name string, n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flaked[name]++
	return w.flaked[name] <= n
}

// knows reports whether input is durable, queued or placed. A client that got no
// answer looks before it sends again.
func (w *world) knows(text string) bool {
	quoted := string(jsonv.Str(text).Append(nil))
	cells, _ := w.store.Registers(register.PendingEntry, "")
	rows, _ := w.store.ScanEntries(storage.EntryQuery{})
	return slices.ContainsFunc(cells, func(c storage.KeyedCell) bool { return strings.Contains(c.Value.String(), quoted) }) ||
		slices.ContainsFunc(rows, func(e entry.Entry) bool {
			u, ok := messageOf(e).(*message.User)
			return ok && message.TextOf(u.Content) == text
		})
}

// messageOf is nil for entries that are none.
func messageOf(e entry.Entry) message.Message {
	b, _ := e.Body.(entry.Message)
	return b.Message
}

type turn = func(context.Context, func(provider.Delta)) (*message.Assistant, error)

// scriptedModel answers by how many assistant messages it sees.
type scriptedModel struct {
	w     *world
	turns []turn
}

func (m *scriptedModel) Resolve(machine.ModelRef) (provider.Model, provider.Provider, error) {
	return provider.Model{API: "fake"}, m, nil
}

func (m *scriptedModel) Stream(ctx context.Context, req provider.Request, sink func(provider.Delta)) (*message.Assistant, error) {
	m.w.mu.Lock()
	m.w.asked++
	m.w.mu.Unlock()
	n := 0
	for _, msg := range req.Messages {
		if _, ok := msg.(*message.Assistant); ok {
			n++
		}
	}
	if n >= len(m.turns) {
		return nil, &provider.Error{Class: provider.InvalidRequest, Message: fmt.Sprintf("the script has no turn %d", n)}
	}
	return m.turns[n](ctx, sink)
}

func reply(stop message.StopReason, blocks ...message.AssistantBlock) turn {
	return func(context.Context, func(provider.Delta)) (*message.Assistant, error) {
		u := usage.Usage{Input: 10, Output: 2, TotalTokens: 12, Evidence: usage.Reported(usage.API, usage.Complete)}
		return &message.Assistant{Content: blocks, API: "fake", Provider: "fake", Model: "m", StopReason: stop, Usage: u}, nil
	}
}

func say(text string) turn { return reply(message.Stop, message.Text{Text: text}) }

func callTools(names ...string) turn { return reply(message.ToolUse, calls(names...)...) }

func calls(names ...string) []message.AssistantBlock {
	var blocks []message.AssistantBlock
	for i, n := range names {
		blocks = append(blocks, message.ToolCall{ID: fmt.Sprintf("%s-%d", n, i), Name: n, Arguments: jsonv.Obj()})
	}
	return blocks
}

// blocked is a turn that ends only with its context, as a provider reports it.
func blocked(entered chan<- struct{}) turn {
	return func(ctx context.Context, _ func(provider.Delta)) (*message.Assistant, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return nil, &provider.Error{Class: provider.Cancelled, Message: "the request was cancelled"}
	}
}

// toolbox has the tools safe and ender, which may be replayed and of which the
// second ends the run, unsafe, slow (until it is cancelled), denied, asked (a person
// approves it) and question (a person replies).
type toolbox struct {
	w       *world
	started chan string // nil: nobody listens

	answerWithin int64 // ms, of the questions about the tool asked

	mu      sync.Mutex
	granted int // clearances given out
	used    int // run or released
	aborted []id.OpID
}

func (t *toolbox) Offer([]string) []provider.Tool { return nil }

func (t *toolbox) Abort(op id.OpID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.aborted = append(t.aborted, op)
}

func (t *toolbox) Clear(c engine.Call) engine.Verdict {
	switch {
	case c.Call.Name == "denied":
		return engine.Denied{Result: result(c.Call, "not allowed", true)}
	case c.Call.Name == "asked" && c.Consent == nil:
		return engine.Question{Reason: words.PausedOnApproval, Subject: c.Arguments, AnswerWithin: t.answerWithin, Window: words.ExpiredApproval}
	case c.Call.Name == "question":
		return engine.Question{Reason: words.PausedOnQuestion, Subject: c.Arguments}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.granted++
	return engine.Granted{Clearance: &clearance{t: t, call: c.Call}}
}

// grantedOf is the clearance of a verdict; nil when there is none.
func grantedOf(v engine.Verdict) *clearance {
	g, ok := v.(engine.Granted)
	if !ok {
		return nil
	}
	return g.Clearance.(*clearance)
}

// settled checks that no clearance leaked.
func (t *toolbox) settled(tb rapid.TB) {
	tb.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.granted != t.used {
		tb.Errorf("%d clearances were given out and %d run or given back", t.granted, t.used)
	}
}

type clearance struct {
	t    *toolbox
	call message.ToolCall
	over bool
}

func (c *clearance) Replay() machine.Replay {
	if repeatable(c.call.Name) {
		return machine.ReplaySafe
	}
	return machine.ReplayNever
}

func (c *clearance) Exclusive() bool { return c.call.Name != "safe" }

func repeatable(tool string) bool { return tool == "safe" || tool == "ender" || tool == "abort" }

func (c *clearance) use() {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	if c.over {
		panic("the clearance of " + c.call.ID + " was used twice")
	}
	c.over = true
	c.t.used++
}

func (c *clearance) Release() { c.use() }

func (c *clearance) Run(ctx context.Context, progress func(engine.Output)) (*message.ToolResult, bool) {
	c.use()
	c.t.w.mu.Lock()
	c.t.w.ran[c.call.ID]++
	c.t.w.mu.Unlock()
	if c.t.started != nil {
		c.t.started <- c.call.ID
	}
	if c.call.Name == "slow" {
		<-ctx.Done()
		return result(c.call, "cancelled", true), false
	}
	progress(engine.Output{Stream: "stdout", Tail: "working", TotalBytes: 7})
	return result(c.call, "did "+c.call.ID, false), c.call.Name == "ender"
}

// listening makes the toolbox tell which calls started.
func listening(started chan string) func(*engine.Config) {
	return func(c *engine.Config) { c.Tools.(*toolbox).started = started }
}

func result(c message.ToolCall, text string, isError bool) *message.ToolResult {
	return &message.ToolResult{ToolCallID: c.ID, ToolName: c.Name, IsError: isError, Content: []message.ResultBlock{message.Text{Text: text}}}
}

// process is one life of the engine over a world.
type process struct {
	*engine.Engine
	tools *toolbox
}

// config is what an engine of these tests works with. Timers fire at once.
func config(w *world, store storage.Store, turns []turn) (engine.Config, *toolbox) {
	box := &toolbox{w: w}
	return engine.Config{
		Session: session.New(store), Models: &scriptedModel{w, turns}, Tools: box,
		Clock: w.now, Entropy: w.entropy, After: func(time.Duration) <-chan time.Time { c := make(chan time.Time, 1); c <- time.Time{}; return c },
		Settings: machine.Settings{SteeringMode: machine.DrainAll, FollowUpMode: machine.DrainAll, ToolExecution: machine.Parallel},
		Retry:    machine.RetryPolicy{MaxAttempts: new(int64(3)), BaseDelayMs: 1, MaxDelayMs: 2},
	}, box
}

var fakeConfiguration = machine.Configuration{Model: machine.ModelRef{Provider: "fake", ModelID: "m"}, ThinkingLevel: machine.ThinkingOff}

// boot opens the world's session and starts its drivers.
func boot(t *testing.T, w *world, turns []turn, change ...func(*engine.Config)) *process {
	t.Helper()
	cfg, box := config(w, w.store, turns)
	for _, f := range change {
		f(&cfg)
	}
	e, err := engine.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Start(fakeConfiguration); err != nil {
		t.Fatal(err)
	}
	return &process{e, box}
}
