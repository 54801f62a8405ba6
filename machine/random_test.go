package machine_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine"
	"pgregory.net/rapid"
)

// TestAnyRunEnds plays runs in which models, tools, people, the clock and the power supply do as they like. What must hold after every commit and at the
// end of a run is checked by the world; here it is that each run comes to its end.
func TestAnyRunEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { newChaos(t, drawn{t}).play() })
}

var seeds = flag.Int("seeds", 4000, "how many seeds TestEveryStepIsTaken tries at most")

// TestEveryStepIsTaken plays the same by numbered seeds, until every kind of commit that a pass can make was made.
func TestEveryStepIsTaken(t *testing.T) {
	taken := map[machine.Step]int{}
	missing := func() (list []machine.Step) {
		for _, s := range machine.Steps() {
			if taken[s] == 0 {
				list = append(list, s)
			}
		}
		return list
	}
	n := 0
	for ; n < *seeds && (n < 100 || len(missing()) > 0); n++ {
		c := newChaos(t, newDice(uint64(n)))
		c.onStep = func(s machine.Step) { taken[s]++ }
		c.play()
	}
	if list := missing(); len(list) > 0 {
		t.Errorf("%d seeds never took: %q", n, list)
	}
	for s := range taken {
		if !slices.Contains(machine.Steps(), s) {
			t.Errorf("%q is taken and not listed", s)
		}
	}
	t.Logf("%d seeds: %v", n, taken)
}

// chooser makes the decisions of a chaos.
type chooser interface {
	choose(n int, what string) int
}

// drawn decides by draws, which shrink.
type drawn struct{ t *rapid.T }

func (d drawn) choose(n int, what string) int { return rapid.IntRange(0, n-1).Draw(d.t, what) }

// dice decides by a seed.
type dice struct{ id.Generator }

func (d *dice) choose(n int, _ string) int {
	var x uint64
	x, d.Generator = d.Draw()
	return int(x % uint64(n))
}

func newDice(seed uint64) *dice { return &dice{id.NewGenerator(clock.Fixed(0), seed)} }

// chaos decides by lot what happens in a world. Each kind of trouble has a bound, so that a run that goes on for ever is the machine's fault.
type chaos struct {
	*world
	lot    chooser
	budget map[string]int
	await  machine.Key     // what the last pass awaited
	parked []machine.Pause // what it was parked on
	until  int64           // when it would go on by itself
}

func newChaos(t rapid.TB, lot chooser) *chaos {
	c := &chaos{world: newWorld(t), lot: lot, budget: map[string]int{
		"crash": 6, "queue": 8, "withdraw": 3, "edit": 3, "configure": 2, "intrude": 8, "turn": 10, "unusable": 2,
		"hook": 3, "hold": 4, "poll": 3, "summary": 4,
	}}
	c.hooks = machine.Hooks{RunStart: c.draw("run start", 4) == 0, RunEnd: c.draw("run end", 4) == 0}
	c.limit = pick(c, "limit", int64(0), 8192)
	c.world.retry = machine.RetryPolicy{
		MaxAttempts: pick(c, "attempts", nil, new(int64(1)), new(int64(2)), new(int64(4))), BaseDelayMs: 100, MaxDelayMs: 1000,
	}
	return c
}

func pick[T any](c *chaos, what string, list ...T) T { return list[c.draw(what, len(list))] }

func (c *chaos) draw(what string, n int) int { return c.lot.choose(n, what) }

func (c *chaos) flip(what string) bool { return c.draw(what, 2) == 0 }

// play plays a few operations to their ends.
func (c *chaos) play() {
	for range 1 + c.draw("operations", 3) {
		var err error
		switch c.draw("operation", 6) {
		case 0:
			err = c.acceptCompaction(pick(c, "prepared", nil, c.prepared()), pick(c, "instructions", nil, new("short")))
		case 1:
			err = c.navigation()
		default:
			err = c.accept(c.settings(), c.prompts()...)
		}
		if err != nil && !errors.Is(err, machine.ErrNothingToCompact) && !errors.Is(err, machine.ErrInvalidNavigation) {
			c.t.Fatalf("an idle strand refuses: %v", err)
		}
		c.finish()
		for st, _ := c.strandState(); st.Start != nil; st, _ = c.strandState() {
			c.must(c.accept(c.settings()))
			c.finish()
		}
	}
}

// prepared is something to summarise.
func (c *chaos) prepared() *machine.CompactionPreparation {
	return &machine.CompactionPreparation{
		MessagesToSummarize: []message.Message{text("old"), text("older"), text("oldest")}, RetainedTail: []message.Message{text("new")},
		TokensBefore: 150000, Settings: settings.Compaction,
	}
}

// navigation goes somewhere where every call has its result.
func (c *chaos) navigation() error {
	targets := []id.EntryID{{}}
	for _, i := range slices.SortedFunc(maps.Keys(c.rows), byText) {
		if len(c.openCalls(c.branch(i))) == 0 {
			targets = append(targets, i)
		}
	}
	to := machine.NavigationIntent{TargetID: pick(c, "target", targets...), Summarize: c.flip("summarize"), Label: pick(c, "label", nil, new("here"))}
	var prep *machine.BranchPreparation
	if to.Summarize {
		prep = &machine.BranchPreparation{Messages: []message.Message{text("left"), text("behind")}, TotalTokens: 12}
	}
	return c.acceptNavigation(to, prep)
}

// finish lets things happen until the strand is idle. An abort may come anywhere, and is asked for again now and then.
func (c *chaos) finish() {
	abort, fuel := c.draw("abort at", pick(c, "abort within", 15, 50, 200)), 1000
	for ; !c.current().IsZero() && fuel > 0; fuel-- {
		if abort--; abort == 0 {
			c.abort()
		}
		c.turn()
	}
	if fuel == 0 {
		_, st, _, _ := c.operation()
		c.t.Fatalf("the run does not end; it stands at %s", st.Value())
	}
}

func (c *chaos) settings() machine.Settings {
	modes := []machine.DrainMode{machine.DrainAll, machine.DrainOneAtATime}
	s := settings
	s.SteeringMode = pick(c, "steering", modes...)
	s.FollowUpMode = pick(c, "follow-up", modes...)
	s.ToolExecution = pick(c, "tools", machine.Sequential, machine.Parallel)
	s.MaxTurns = pick(c, "max turns", nil, nil, new(int64(1)), new(int64(3)))
	off := s.Compaction
	off.Enabled = false
	s.Compaction = pick(c, "compaction", s.Compaction, s.Compaction, off, machine.CompactionSettings{Enabled: true})
	return s
}

func (c *chaos) prompts() (list []message.Message) {
	for range 1 + c.draw("prompts", 2) {
		list = append(list, text("prompt"))
	}
	return list
}

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
		c.rewrite()
		if waiting := sorted(c.queued); len(waiting) > 0 && c.spend("withdraw") {
			_ = c.withdraw(pick(c, "which", waiting...))
		}
	case 5, 6:
		c.settle()
	case 7:
		if c.spend("intrude") {
			c.between = c.intrude
		}
		c.drive()
		c.between = nil
	case 8: // what is rare meets trouble more often
		s, making := machine.Structural{}, false
		if _, st, _, ok := c.operation(); ok {
			s, making = st.Summary()
		}
		_, polling := c.run().Phase.(machine.AwaitingDeferred)
		if making && s.Generation != nil || polling {
			if c.draw("abort it", 4) == 0 {
				c.abort()
			}
			if c.flip("lose it") && c.spend("crash") {
				c.crash()
			}
		}
		c.drive()
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

// rewrite changes what somebody queued. Who else wrote it may not.
func (c *chaos) rewrite() {
	waiting := c.listed()
	if len(waiting) == 0 || !c.spend("edit") {
		return
	}
	i := pick(c, "edited", waiting...).ID
	cell, _ := c.cell(register.PendingEntry, i.String())
	queued, _ := load(c.world, register.PendingEntry, i.String(), machine.DecodePendingEntry)
	body, isMessage := queued.Body.(entry.Message)
	plan, err := machine.Edit(i, queued, cell.Seq, nil, []message.UserBlock{message.Text{Text: "edited"}})
	if user, _ := body.Message.(*message.User); !isMessage || user == nil {
		if err == nil {
			c.t.Fatalf("%s is edited, and it is no message of a person", i)
		}
		return
	}
	c.must(err)
	c.land("edit", plan)
}

func (c *chaos) admission() {
	if !c.spend("queue") {
		return
	}
	what := pick(c, "what", machine.PendingMessage(text("queued")), machine.PendingEntry{Body: entry.Custom{Type: "hidden"}},
		machine.PendingEntry{Body: entry.Custom{Type: "shown"}})
	switch q := c.draw("queue", 4); q {
	case 3:
		c.admitNextRun(what, pick(c, "start", nil, &machine.Start{}, &machine.Start{MaxTurns: new(int64(2))}))
	default:
		_, _ = c.admit(machine.Queue(q), what) // refused where no run is open for it
	}
}

// drive makes a pass and answers a question at once or later.
func (c *chaos) drive() {
	c.await, c.parked, c.until = nil, nil, 0
	switch a := c.pass().(type) {
	case machine.AwaitEffect:
		c.await, c.until = a.Key, a.Until
		if c.report == nil {
			c.report = c.orphan(a.Key)
		}
		if c.draw("answer", 4) > 0 {
			c.settle()
		}
	case machine.Park:
		c.parked, c.until = a.Pauses, a.Until
	case machine.Wait:
		c.until = a.Until
	case machine.Fault:
		c.t.Fatalf("%v", a.Report)
	case nil, machine.Transition, machine.Dispatch, machine.Finish:
	}
	if c.until > 0 && c.draw("sleep", 4) > 0 && (c.parked == nil || c.flip("nobody answers")) {
		c.now = max(c.now, c.until)
	}
}

// settle reports something that is awaited, if nothing is reported already.
func (c *chaos) settle() {
	if len(c.parked) > 0 {
		c.decide(pick(c, "gate", c.parked...))
		return
	}
	if k, ok := c.await.(machine.MeasureKey); ok {
		c.measure = &machine.Measure{Leaf: k.Leaf, Tokens: pick(c, "tokens", int64(1000), 190000, 199000, 250000), Window: pick(c, "window", int64(0), 200000, 200000, 200000)}
		if c.draw("something to summarise", 4) > 0 {
			c.measure.Preparation = c.prepared()
		}
	}
	if c.report != nil {
		return
	}
	switch k := c.await.(type) {
	case machine.AdmissionKey, machine.PollAdmissionKey, machine.SummaryAdmissionKey:
		c.report = machine.Admitted{OutputLimit: c.limit, ContextWindow: 200000, RequestAPI: "openai-completions"}
		if c.draw("usable", 8) == 0 && c.spend("unusable") {
			c.report = machine.AdmissionRefused{Error: pick(c, "why", failure, machine.OperationError{Code: machine.CodeModelUnavailable})}
		}
	case machine.ResponseKey:
		if c.flying[k.ResponseID] {
			delete(c.flying, k.ResponseID)
			m := c.response()
			if d, waits := c.run().Phase.(machine.AwaitingDeferred); waits {
				c.later(m, *c.world.response(d.Deferred.SourceEntryID).Deferred)
			}
			c.report = machine.Responded{ResponseID: k.ResponseID, Message: m}
		}
	case machine.ClearanceKey:
		c.clearance(k)
	case machine.CallsKey:
		n := pick(c, "call", k.SourceIndexes...)
		if i := c.resultID(n); c.flying[i] {
			delete(c.flying, i)
			c.report = machine.ToolSettled{SourceIndex: n, Result: c.result(), Terminate: c.flip("terminate")}
		}
	case machine.VerdictKey:
		c.report = machine.Verdict{TaskID: k.TaskID, Choice: pick[machine.SummaryChoice](c, "verdict", machine.DeclineSummary{}, machine.SupplySummary{Summary: "notes"},
			machine.SupplySummary{Summary: "notes", Usage: new(spent("1/2"))}, machine.WriteSummary{}, machine.WriteSummary{}, machine.WriteSummary{})}
	case machine.SummaryKey:
		if c.writing[k] {
			delete(c.writing, k)
			c.report = machine.Summarized{TaskID: k.TaskID, Attempt: k.Attempt, Index: k.Index, Usage: pick(c, "usage", spent("10/20"), spent("unknown")), Result: c.summary()}
		}
	case machine.RunStartKey:
		c.report = machine.RunStarting{Entries: pick(c, "first", nil, []machine.PendingEntry{machine.PendingMessage(text("first")), {Body: entry.Custom{Type: "hidden"}}})}
	case machine.RunEndKey:
		e := machine.RunEnding{}
		if c.spend("hook") {
			e.FollowUp = pick(c, "more", nil, new(machine.PendingMessage(text("more"))), &machine.PendingEntry{Body: entry.Custom{Type: "hidden"}})
		}
		c.report = e
	}
	c.await = nil
}

// summary is what one request of a summary leads to.
func (c *chaos) summary() machine.SummaryResult {
	if !c.spend("summary") {
		return machine.SummaryProduced{Summary: "the end"}
	}
	g := c.world.summary()
	tooLong := machine.OperationError{Code: machine.CodeContextOverflow, Message: "too long"}
	return pick[machine.SummaryResult](c, "summary", machine.SummaryProduced{Summary: "all"}, machine.SummaryFailed{Error: failure},
		machine.SummaryFailed{Error: failure, Retryable: true}, machine.SummaryFailed{Error: failure, Retryable: true}, machine.SummaryFailed{Error: tooLong},
		machine.SummaryContinues{Summary: "a part", Messages: g.Context.Progress.Messages + 1}, machine.SummaryContinues{Summary: "no more", Messages: g.Context.Progress.Messages})
}

// later makes of a response what a poll may bring.
func (c *chaos) later(m *message.Assistant, h message.DeferredHandle) {
	if m.StopReason != message.Deferred && (m.StopReason == message.Aborted || c.flip("is it there")) {
		return
	}
	*m = message.Assistant{API: m.API, Provider: m.Provider, Model: m.Model, Timestamp: m.Timestamp, Usage: m.Usage, StopReason: message.Stop}
	if c.spend("poll") {
		m.StopReason, m.Deferred = message.Deferred, &h
		if c.draw("another handle", 4) == 0 {
			h.ID = "another"
		}
	}
}

// decide answers a question, as somebody, perhaps too late.
func (c *chaos) decide(pause machine.Pause) {
	op, st, in, _ := c.operation()
	d := pick[machine.Decision](c, "decision", machine.Approve{}, machine.Approve{Arguments: new(jsonv.Obj(jsonv.F("edited", jsonv.Boolean(true))))},
		machine.Deny{}, machine.Deny{Note: new("not that")}, machine.Deny{Stop: true}, machine.Reply{Content: []message.UserBlock{message.Text{Text: "blue"}}})
	plan, err := machine.Answer(op, st, in.StateSeq, c.now, pause.Gate, d, pick(c, "who", nil, &ann))
	if err != nil {
		return
	}
	c.land("answer", plan)
	if _, err := machine.Answer(op, st, in.StateSeq, c.now, pause.Gate, d, nil); err != nil {
		c.t.Fatalf("from the same state the same answer is refused: %v", err)
	}
	op, st, in, _ = c.operation()
	if _, err := machine.Answer(op, st, in.StateSeq, c.now, pause.Gate, d, nil); !errors.Is(err, machine.ErrNoSuchGate) {
		c.t.Fatalf("a second answer: %v", err)
	}
	c.parked = nil
}

var ann = func() message.Origin {
	o, err := message.Human("ann", "Ann")
	if err != nil {
		panic(err)
	}
	return o
}()

func (c *chaos) clearance(k machine.ClearanceKey) {
	if k.Call.Name == "deny" {
		c.report = machine.Refused{SourceIndex: k.SourceIndex, Result: c.result(), Terminate: c.flip("terminate")}
		return
	}
	if hold := k.Call.Name == "hold" && k.Consent == nil || c.draw("ask", 10) == 0; hold && c.spend("hold") {
		c.report = machine.Asked{
			SourceIndex: k.SourceIndex, Reason: pick(c, "reason", words.PausedOnApproval, words.PausedOnApproval, words.PausedOnQuestion, words.PausedOnPlan),
			Subject: jsonv.Str("may I"), AnswerWithin: pick(c, "answer within", int64(0), 500), ParkFor: pick(c, "park for", int64(0), 700),
			Window: pick(c, "window", words.ExpiredApproval, words.ExpiredDenialLimit),
		}
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
		Usage: pick(c, "usage", spent("10/20"), spent("unknown"), usage.Zero()), StopReason: message.Stop,
	}
	_, st, _, _ := c.operation()
	if !running(st) && c.flip("heard of the abort") {
		m.StopReason = message.Aborted
		return m
	}
	if !c.spend("turn") {
		return m
	}
	m.StopReason = pick(c, "stop reason",
		message.Stop, message.Length, message.ToolUse, message.ToolUse, message.ToolUse, message.Error, message.Error, message.Deferred)
	switch m.StopReason {
	case message.Stop, message.Length, message.ToolUse:
		for n := range c.draw("blocks", 5) {
			name := pick(c, "block", "", "read", "bash", "deny", "garbled", "hold")
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
		m.ErrorMessage = pick(c, "error", nil, new("no"), new("prompt is too long"))
		m.RawStopReason = pick(c, "raw", nil, new("retryable"), new("retryable"))
		if c.flip("wish") {
			m.Diagnostics = new(jsonv.Obj(jsonv.F("retry_after_ms", jsonv.Num(int64(c.draw("ms", 5000))))))
		}
	case message.Deferred:
		m.Deferred = &message.DeferredHandle{
			Provider: m.Provider, ModelID: m.Model, API: m.API, ID: pick(c, "handle", "x", "x", "x", ""), PollAfterMs: pick(c, "poll after", nil, new(int64(50))),
		}
		if c.draw("expires", 4) == 0 {
			m.Deferred.ExpiresAt = new(c.now + 60)
		}
	case message.Pending, message.Aborted:
	}
	return m
}

func sorted(set map[id.EntryID]bool) []id.EntryID { return slices.SortedFunc(maps.Keys(set), byText) }

func byText(a, b id.EntryID) int { return cmp.Compare(a.String(), b.String()) }

func running(st machine.State) bool {
	_, yes := st.Control.(machine.Running)
	return yes
}
