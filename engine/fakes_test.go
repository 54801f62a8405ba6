package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/memory"
)

// world is what outlives a process: the store, and the effects that tools had.
type world struct {
	store *memory.Store

	mu      sync.Mutex
	ran     map[string]int // tool executions by call id
	asked   int            // provider requests
	seed    uint64
	clockMs int64
}

func newWorld() *world {
	w := &world{ran: make(map[string]int), clockMs: 1_767_225_600_000}
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
	return w.seed * 0x9E3779B97F4A7C15
}

// crashing is a store whose process dies right after commit n is durable: that
// commit and every later one gets no answer.
type crashing struct {
	storage.Store
	mu   sync.Mutex
	left int
	dead chan struct{}
}

func (c *crashing) Commit(t tx.Tx) (tx.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 {
		return tx.Result{}, &tx.Faulted{Reason: "the process is dead"}
	}
	r, err := c.Store.Commit(t)
	if err != nil {
		return r, err
	}
	if c.left--; c.left == 0 {
		close(c.dead)
		return tx.Result{}, &tx.Faulted{Reason: "the process died"}
	}
	return r, nil
}

// scriptedModel answers by how many assistant messages it sees.
type scriptedModel struct {
	w     *world
	turns []func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error)
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

func reply(stop message.StopReason, blocks ...message.AssistantBlock) func(context.Context, func(provider.Delta)) (*message.Assistant, error) {
	return func(context.Context, func(provider.Delta)) (*message.Assistant, error) {
		u := usage.Usage{Input: 10, Output: 2, TotalTokens: 12, Evidence: usage.Reported(usage.API, usage.Complete)}
		return &message.Assistant{Content: blocks, API: "fake", Provider: "fake", Model: "m", StopReason: stop, Usage: u}, nil
	}
}

func say(text string) func(context.Context, func(provider.Delta)) (*message.Assistant, error) {
	return reply(message.Stop, message.Text{Text: text})
}

func callTools(names ...string) func(context.Context, func(provider.Delta)) (*message.Assistant, error) {
	var blocks []message.AssistantBlock
	for i, n := range names {
		blocks = append(blocks, message.ToolCall{ID: fmt.Sprintf("%s-%d", n, i), Name: n, Arguments: jsonv.Obj()})
	}
	return reply(message.ToolUse, blocks...)
}

// toolbox has the tools safe, unsafe, slow (until cancelled) and denied.
type toolbox struct {
	w       *world
	started chan string // nil: nobody listens
}

func (t *toolbox) Offer([]string) []provider.Tool { return nil }
func (t *toolbox) Abort(id.OpID)                  {}

func (t *toolbox) Clear(c engine.Call) (engine.Clearance, *message.ToolResult) {
	if c.Call.Name == "denied" {
		return nil, result(c.Call, "not allowed", true)
	}
	return &clearance{t, c.Call}, nil
}

type clearance struct {
	t    *toolbox
	call message.ToolCall
}

func (c *clearance) Replay() machine.Replay {
	if c.call.Name == "safe" {
		return machine.ReplaySafe
	}
	return machine.ReplayNever
}
func (c *clearance) Exclusive() bool { return c.call.Name != "safe" }
func (c *clearance) Release()        {}

func (c *clearance) Run(ctx context.Context, progress func(engine.Output)) (*message.ToolResult, bool) {
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
	return result(c.call, "did "+c.call.ID, false), false
}

func result(c message.ToolCall, text string, isError bool) *message.ToolResult {
	return &message.ToolResult{ToolCallID: c.ID, ToolName: c.Name, IsError: isError, Content: []message.ResultBlock{message.Text{Text: text}}}
}

// process is one life of the engine over a world.
type process struct {
	*engine.Engine
	dead chan struct{}
}

// boot opens the world's session; crashAfter > 0 kills the process at that commit.
func boot(t *testing.T, w *world, crashAfter int, turns []func(context.Context, func(provider.Delta)) (*message.Assistant, error), change ...func(*engine.Config)) *process {
	t.Helper()
	p := &process{dead: make(chan struct{})}
	var store storage.Store = w.store
	if crashAfter > 0 {
		store = &crashing{Store: w.store, left: crashAfter, dead: p.dead}
	}
	cfg := engine.Config{
		Session: session.New(store), Models: &scriptedModel{w, turns}, Tools: &toolbox{w: w},
		Clock: w.now, Entropy: w.entropy, After: func(time.Duration) <-chan time.Time { c := make(chan time.Time, 1); c <- time.Time{}; return c },
		Settings: machine.Settings{SteeringMode: machine.DrainAll, FollowUpMode: machine.DrainAll, ToolExecution: machine.Parallel},
		Retry:    machine.RetryPolicy{MaxAttempts: new(int64(3)), BaseDelayMs: 1, MaxDelayMs: 2},
	}
	for _, f := range change {
		f(&cfg)
	}
	e, err := engine.Open(cfg)
	if err != nil {
		return p // the crash hit the mint of the session's id
	}
	p.Engine = e
	if err := e.Start(machine.Configuration{Model: machine.ModelRef{Provider: "fake", ModelID: "m"}, ThinkingLevel: machine.ThinkingOff}); err != nil {
		select {
		case <-p.dead:
		default:
			t.Fatalf("start: %v", err)
		}
	}
	t.Cleanup(e.Close)
	return p
}
