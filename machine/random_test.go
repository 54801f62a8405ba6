package machine_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/machine"
	"pgregory.net/rapid"
)

// TestAnyRunEnds plays runs in which models, tools, people, the clock and the power supply do as they like. What must hold after every commit and at the
// end of a run is checked by the world; here it is that each run comes to its end.
func TestAnyRunEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newChaos(t)
		for range rapid.IntRange(1, 3).Draw(t, "runs") {
			if err := c.accept(c.settings(), c.prompts()...); err != nil {
				t.Fatalf("an idle strand refuses a prompt: %v", err)
			}
			// An abort may come anywhere in the run, and is asked for again now and then.
			abort := rapid.IntRange(0, 150).Draw(t, "abort at")
			fuel := 1000
			for ; !c.current().IsZero() && fuel > 0; fuel-- {
				if abort--; abort == 0 {
					c.abort()
				}
				c.turn()
			}
			if fuel == 0 {
				_, st, _, _ := c.operation()
				t.Fatalf("the run does not end; it stands at %s", st.Value())
			}
		}
	})
}

// chaos decides by lot what happens in a world. Each kind of trouble has a bound, so that a run that goes on for ever is the machine's fault.
type chaos struct {
	*world
	t      *rapid.T
	budget map[string]int
	await  machine.Key // what the last pass awaited
	until  int64       // when it would go on by itself
}

func newChaos(t *rapid.T) *chaos {
	c := &chaos{world: newWorld(t), t: t, budget: map[string]int{
		"crash": 6, "queue": 8, "withdraw": 3, "configure": 2, "intrude": 8, "turn": 10, "unusable": 1,
	}}
	c.limit = rapid.SampledFrom([]int64{0, 8192}).Draw(t, "limit")
	c.world.retry = machine.RetryPolicy{
		MaxAttempts: rapid.SampledFrom([]*int64{nil, new(int64(1)), new(int64(2)), new(int64(4))}).Draw(t, "attempts"), BaseDelayMs: 100, MaxDelayMs: 1000,
	}
	return c
}

func (c *chaos) settings() machine.Settings {
	modes := []machine.DrainMode{machine.DrainAll, machine.DrainOneAtATime}
	s := settings
	s.SteeringMode = rapid.SampledFrom(modes).Draw(c.t, "steering")
	s.FollowUpMode = rapid.SampledFrom(modes).Draw(c.t, "follow-up")
	s.ToolExecution = rapid.SampledFrom([]machine.ToolExecution{machine.Sequential, machine.Parallel}).Draw(c.t, "tools")
	s.MaxTurns = rapid.SampledFrom([]*int64{nil, nil, new(int64(1)), new(int64(3))}).Draw(c.t, "max turns")
	return s
}

func (c *chaos) prompts() (list []message.Message) {
	for range rapid.IntRange(1, 2).Draw(c.t, "prompts") {
		list = append(list, text("prompt"))
	}
	return list
}

func (c *chaos) draw(what string, n int) int { return rapid.IntRange(0, n-1).Draw(c.t, what) }

// spend reports whether there is still some of a kind of trouble left, and takes one.
func (c *chaos) spend(kind string) bool {
	c.budget[kind]--
	return c.budget[kind] >= 0
}

// turn lets something happen; half of the time it is the driver.
func (c *chaos) turn() {
	switch c.draw("event", 16) {
	case 0:
		if c.spend("crash") {
			c.crash()
		}
	case 1:
		if _, st, _, _ := c.operation(); !running(st) {
			c.abort()
		}
	case 2, 3:
		c.admission()
	case 4:
		if waiting := sorted(c.queued); len(waiting) > 0 && c.spend("withdraw") {
			_ = c.withdraw(rapid.SampledFrom(waiting).Draw(c.t, "which"))
		}
	case 5, 6:
		c.settle()
	case 7:
		if c.spend("intrude") {
			c.between = c.intrude
		}
		c.drive()
		c.between = nil
	default:
		c.drive()
	}
}

// intrude commits something between a decision and its commit.
func (c *chaos) intrude() {
	switch c.draw("intruder", 4) {
	case 0:
		c.admission()
	case 1:
		if c.draw("impatient", 4) == 0 {
			c.abort()
		}
	case 2:
		if c.spend("configure") {
			_, seq := load(c.world, register.StrandConfig, strand, machine.DecodeConfiguration)
			c.must(c.commit(tx.Tx{
				Writes:   []tx.Write{tx.Set(register.StrandConfig, strand, config.Value())},
				Expected: []tx.Expectation{tx.Expect(register.StrandConfig, strand, seq)},
			}))
		}
	case 3: // and the report that was being consumed comes from a worker that is no more
		if c.spend("crash") {
			clear(c.flying)
		}
	}
}

func (c *chaos) admission() {
	if !c.spend("queue") {
		return
	}
	what := rapid.SampledFrom([]machine.PendingEntry{
		machine.PendingMessage(text("queued")), {Body: entry.Custom{Type: "hidden"}}, {Body: entry.Custom{Type: "shown"}},
	}).Draw(c.t, "what")
	switch q := c.draw("queue", 4); q {
	case 3:
		c.admitNextRun(what)
	default:
		_, _ = c.admit(machine.Queue(q), what) // refused where no run is open for it
	}
}

// drive makes a pass and answers a question at once or later.
func (c *chaos) drive() {
	c.await, c.until = nil, 0
	switch a := c.pass().(type) {
	case machine.AwaitEffect:
		c.await = a.Key
		if c.report == nil {
			c.report = c.orphan(a.Key)
		}
		if c.draw("answer", 4) > 0 {
			c.settle()
		}
	case machine.Wait:
		c.until = a.Until
		if c.draw("sleep", 4) > 0 {
			c.now = max(c.now, a.Until)
		}
	case machine.Fault:
		c.t.Fatalf("%v", a.Report)
	case nil, machine.Transition, machine.Dispatch, machine.Finish:
	}
}

// settle reports something that is awaited, if nothing is reported already.
func (c *chaos) settle() {
	if c.report != nil {
		return
	}
	switch k := c.await.(type) {
	case machine.AdmissionKey:
		c.report = machine.Admitted{OutputLimit: c.limit, ContextWindow: 200000, RequestAPI: "openai-completions"}
		if c.draw("usable", 16) == 0 && c.spend("unusable") {
			c.report = machine.AdmissionRefused{Error: failure}
		}
	case machine.ResponseKey:
		if c.flying[k.ResponseID] {
			delete(c.flying, k.ResponseID)
			c.report = machine.Responded{ResponseID: k.ResponseID, Message: c.response()}
		}
	case machine.ClearanceKey:
		c.clearance(k)
	case machine.CallsKey:
		n := rapid.SampledFrom(k.SourceIndexes).Draw(c.t, "call")
		if i := c.resultID(n); c.flying[i] {
			delete(c.flying, i)
			c.report = machine.ToolSettled{SourceIndex: n, Result: c.result(), Terminate: rapid.Bool().Draw(c.t, "terminate")}
		}
	}
	c.await = nil
}

func (c *chaos) clearance(k machine.ClearanceKey) {
	if k.Call.Name == "deny" {
		c.report = machine.Refused{SourceIndex: k.SourceIndex, Result: c.result(), Terminate: rapid.Bool().Draw(c.t, "terminate")}
		return
	}
	replay := c.replay[k.Call.Name]
	c.safe[c.resultID(k.SourceIndex)] = replay == machine.ReplaySafe
	c.report = machine.Cleared{SourceIndex: k.SourceIndex, Arguments: jsonv.Obj(jsonv.F("n", jsonv.Num(int64(c.draw("arguments", 3))))), Replay: replay}
}

func (c *chaos) result() *message.ToolResult {
	r := &message.ToolResult{ToolCallID: "of the tool's own", Content: []message.ResultBlock{message.Text{Text: "out"}}}
	if c.draw("billed", 3) == 0 {
		r.Usage = new(spent("1/2"))
	}
	return r
}

// response is anything that a provider may settle with; when the turns are used up, an answer.
func (c *chaos) response() *message.Assistant {
	m := &message.Assistant{
		API: "openai-completions", Provider: config.Model.Provider, Model: config.Model.ModelID, Timestamp: c.now,
		Usage: rapid.SampledFrom([]usage.Usage{spent("10/20"), spent("unknown"), usage.Zero()}).Draw(c.t, "usage"), StopReason: message.Stop,
	}
	_, st, _, _ := c.operation()
	if !running(st) && rapid.Bool().Draw(c.t, "heard of the abort") {
		m.StopReason = message.Aborted
		return m
	}
	if !c.spend("turn") {
		return m
	}
	m.StopReason = rapid.SampledFrom([]message.StopReason{
		message.Stop, message.Length, message.ToolUse, message.ToolUse, message.ToolUse, message.Error, message.Error, message.Deferred,
	}).Draw(c.t, "stop reason")
	switch m.StopReason {
	case message.Stop, message.Length, message.ToolUse:
		for n := range c.draw("blocks", 5) {
			name := rapid.SampledFrom([]string{"", "read", "bash", "deny", "garbled"}).Draw(c.t, "block")
			switch name {
			case "":
				m.Content = append(m.Content, message.Text{Text: "words"})
			case "garbled":
				m.Content = append(m.Content, message.ToolCall{ID: fmt.Sprint("c", n), Name: "read", Arguments: message.MalformedArguments("{", "no")})
			default:
				m.Content = append(m.Content, message.ToolCall{ID: fmt.Sprint("c", n), Name: name, Arguments: jsonv.Obj()})
			}
		}
	case message.Error:
		m.ErrorMessage = rapid.SampledFrom([]*string{nil, new("no"), new("prompt is too long")}).Draw(c.t, "error")
		m.RawStopReason = rapid.SampledFrom([]*string{nil, new("retryable"), new("retryable")}).Draw(c.t, "raw")
		if rapid.Bool().Draw(c.t, "wish") {
			m.Diagnostics = new(jsonv.Obj(jsonv.F("retry_after_ms", jsonv.Num(int64(c.draw("ms", 5000))))))
		}
	case message.Deferred:
		m.Deferred = &message.DeferredHandle{Provider: m.Provider, ModelID: m.Model, API: m.API, ID: "x"}
	case message.Pending, message.Aborted:
	}
	return m
}

func sorted(set map[id.EntryID]bool) []id.EntryID {
	return slices.SortedFunc(maps.Keys(set), func(a, b id.EntryID) int { return cmp.Compare(a.String(), b.String()) })
}

func running(st machine.State) bool {
	_, yes := st.Control.(machine.Running)
	return yes
}
