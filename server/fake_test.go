package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/events/search"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/server/memlisten"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage/memory"
	"github.com/loom-run/loom/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeSession is a session over the store in memory, with an engine that runs
// when a test says so. It tells facts as the real one does: each commit, with its
// beginning ahead of it and its end behind, in the order of the seqs.
type fakeSession struct {
	self    id.SessionID
	session *session.Session

	mu      sync.Mutex
	ids     id.Generator
	observe func(engine.Fact)
	leaf    id.EntryID
	current id.OpID
	prompts []Prompt
	stopped []string
	closed  int
	info    Info
	fail    error    // of a prompt
	moves   []string // what was asked of it besides runs
}

func newFakeSession(t interface{ Fatal(...any) }, seed uint64) *fakeSession {
	f := &fakeSession{session: session.New(memory.New(func() int64 { return 1_700_000_000_000 })), observe: func(engine.Fact) {}}
	f.ids = id.NewGenerator(clock.Fixed(1_700_000_000_000), seed)
	var err error
	if f.self, f.ids, err = f.session.EnsureID(f.ids); err != nil {
		t.Fatal(err)
	}
	if err := f.session.EnsureStrand(session.MainStrand, machine.Configuration{}); err != nil {
		t.Fatal(err)
	}
	f.info = Info{Session: f.self, Status: Idle, Cwd: new("/repo")}
	return f
}

func (f *fakeSession) EditQueued(_ context.Context, row QueuedRow, text string) (int64, error) {
	f.moves = append(f.moves, "edit "+row.ID.String()+" "+text)
	return row.Seq + 1, f.fail
}

func (f *fakeSession) Configure(_ context.Context, strand string, c Configuring) (Configured, error) {
	f.moves = append(f.moves, "configure "+strand)
	return Configured{Provider: "p", ModelID: *cmp.Or(c.Model, new("m")), Mode: words.ModeDefault, Seq: 7}, f.fail
}

func (f *fakeSession) Withdraw(_ context.Context, row QueuedRow) (int64, error) {
	f.moves = append(f.moves, "withdraw "+row.ID.String())
	return row.Seq + 1, f.fail
}

func (f *fakeSession) commit(before, after engine.Fact, writes ...tx.Write) tx.Result {
	r, err := f.session.Store().Commit(tx.Tx{Writes: writes})
	if err != nil {
		panic(err)
	}
	for _, fact := range []engine.Fact{before, engine.Committed{FirstSeq: r.FirstSeq, LastSeq: r.Seqs[len(r.Seqs)-1]}, after} {
		if fact != nil {
			f.observe(fact)
		}
	}
	return r
}

func (f *fakeSession) entryID() (e id.EntryID) {
	e, f.ids = f.ids.Entry()
	return e
}

// insert makes the write of a message at the leaf.
func (f *fakeSession) insert(e id.EntryID, m message.Message) tx.Write {
	w := tx.InsertEntry{Entry: entry.Entry{ID: e, Parent: f.leaf, Body: entry.Message{Message: m}}}
	f.leaf = e
	return w
}

func (f *fakeSession) bill(e id.EntryID, u usage.Usage) tx.Write {
	var row id.UsageID
	row, f.ids = f.ids.Usage()
	return tx.InsertUsage{Row: entry.UsageRow{ID: row, EntryID: e, Usage: u}}
}

// begin accepts a prompt.
func (f *fakeSession) begin(text string) (id.OpID, int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current, f.ids = f.ids.Op()
	e := f.entryID()
	r := f.commit(engine.RunStarted{Strand: session.MainStrand, Op: f.current}, nil,
		f.insert(e, &message.User{Content: []message.UserBlock{message.Text{Text: text}}}))
	return f.current, r.Seqs[0]
}

// say streams a response in pieces and settles it.
func (f *fakeSession) say(stop message.StopReason, u usage.Usage, blocks ...message.AssistantBlock) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.entryID()
	for i, b := range blocks {
		switch b := b.(type) {
		case message.Text:
			half := len(b.Text) / 2
			for _, piece := range []string{b.Text[:half], b.Text[half:]} {
				f.observe(engine.TextDelta{Strand: session.MainStrand, Op: f.current, Response: e, Block: i, Text: piece})
			}
		case message.ToolCall:
			f.observe(engine.ToolCallDelta{Strand: session.MainStrand, Op: f.current, Response: e, Block: i, CallID: b.ID, Name: b.Name, Fragment: `{"path":`})
		case message.Thinking:
			f.observe(engine.ThinkingDelta{Strand: session.MainStrand, Op: f.current, Response: e, Block: i, Text: b.Thinking})
		}
	}
	f.commit(nil, nil, f.insert(e, &message.Assistant{
		Content: blocks, API: "fake", Provider: "p", Model: "m", Usage: u, StopReason: stop,
	}), f.bill(e, u))
}

// note inserts a row that is no part of the conversation.
func (f *fakeSession) note() {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.entryID()
	f.commit(nil, nil, tx.InsertEntry{Entry: entry.Entry{ID: e, Parent: f.leaf, Body: entry.Custom{Type: "note"}}})
	f.leaf = e
}

// result settles a call.
func (f *fakeSession) result(call, text string, details ...jsonv.Member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.observe(engine.ToolOutput{Strand: session.MainStrand, Op: f.current, CallID: call, Stream: "stdout", Tail: text, TotalBytes: int64(len(text))})
	m := &message.ToolResult{ToolCallID: call, ToolName: "read", Content: []message.ResultBlock{message.Text{Text: text}}}
	if len(details) > 0 {
		m.Details = new(jsonv.Obj(details...))
	}
	f.commit(nil, nil, f.insert(f.entryID(), m))
}

// end is the terminal transaction.
func (f *fakeSession) end(outcome machine.Outcome, failure *machine.OperationError) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := machine.LastResult{Kind: "run", OperationID: f.current, LeafID: f.leaf, Outcome: outcome, Error: failure}
	if outcome == machine.OutcomeCompleted {
		last.Completion = machine.ByAssistant
	}
	op := f.current
	f.current = id.OpID{}
	f.commit(nil, engine.RunFinished{Strand: session.MainStrand, Op: op},
		tx.Set(register.StrandLastResult, session.MainStrand, last.Value()),
		tx.Set(register.FactCustom, machine.ResultKey(op), last.Value()))
}

var counted = usage.Usage{Input: 10, Output: 2, Cost: usage.Cost{Total: usage.Micros(1500)}, Evidence: usage.Reported(usage.API, usage.Complete).WithPrice(usage.APIRates)}

// oneRun is a run with a tool call.
func (f *fakeSession) oneRun(prompt, answer string) id.OpID {
	op, _ := f.begin(prompt)
	f.say(message.ToolUse, counted, message.Thinking{Thinking: "hm"}, message.Text{Text: "I read."},
		message.ToolCall{ID: "c1", Name: "read", Arguments: jsonv.Obj(jsonv.F("path", jsonv.Str("a")))})
	f.result("c1", "content of a")
	f.say(message.Stop, counted, message.Text{Text: answer})
	f.end(machine.OutcomeCompleted, nil)
	return op
}

var fakeTools = []Tool{
	{Name: "read", Mount: words.MountedHands, Class: new(words.ClassRead), Path: new("path"), Exclusive: new(false), Repeats: new(true)},
	{Name: "note", Mount: words.MountedBuiltin},
}

// The methods of Resident.

func (f *fakeSession) ID() id.SessionID    { return f.self }
func (f *fakeSession) Source() Source      { return FromSession(&f.session.View) }
func (f *fakeSession) Info() (Info, error) { return f.info, nil }
func (f *fakeSession) Close() error        { f.closed++; return nil }
func (f *fakeSession) Level(string) (Level, error) {
	return Level{Provider: "p", ModelID: "m", Mode: "default", Cwd: "/repo", Tools: fakeTools}, nil
}

func (f *fakeSession) Check(context.Context) (Report, error) {
	return Report{Findings: []Finding{{"orphan", "entry 1", "it has no parent"}}, Rows: 7}, nil
}

func (f *fakeSession) Current(string) (id.OpID, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current, !f.current.IsZero(), nil
}

func (f *fakeSession) Prompt(_ context.Context, q Prompt) (engine.Receipt, error) {
	f.prompts = append(f.prompts, q)
	if f.fail != nil {
		return engine.Receipt{}, f.fail
	}
	if op, busy, _ := f.Current(q.Strand); busy {
		return engine.Receipt{Queued: true, Op: op, Seq: 1}, nil
	}
	op, seq := f.begin(q.Text)
	return engine.Receipt{Op: op, Seq: seq}, nil
}

func (f *fakeSession) Resume(_ context.Context, q Resume) (id.OpID, bool, error) {
	return f.Current(q.Strand)
}

func (f *fakeSession) Abort(strand string) (id.OpID, bool, error) {
	op, ok, err := f.Current(strand)
	if ok {
		f.end(machine.OutcomeAborted, nil)
	}
	return op, ok, err
}

func (f *fakeSession) Fork(_ context.Context, strand string, at id.EntryID) (id.SessionID, error) {
	if strand != "main" {
		return id.SessionID{}, Refuse(BadRequest, "there is no such strand")
	}
	f.moves = append(f.moves, "fork at "+at.String())
	return f.self, nil
}

func (f *fakeSession) Navigate(_ context.Context, to Navigation) (Moved, error) {
	f.moves = append(f.moves, fmt.Sprintf("%s goes to %s, summarize %v", to.Strand, to.Entry, to.Summarize))
	return Moved{Seq: 7}, nil
}

func (f *fakeSession) Compact(_ context.Context, strand string, instructions *string) (Moved, error) {
	f.moves = append(f.moves, strand+" is compacted: "+*instructions)
	return Moved{Seq: 8}, nil
}

func (f *fakeSession) Rewind(_ context.Context, at id.EntryID, dryRun bool) (Rewound, error) {
	if at.IsZero() {
		return Rewound{Refused: []RefusedFile{{"a", "somebody changed it"}}}, nil
	}
	return Rewound{Changed: []string{at.String()}, Insertions: 2, Deletions: 1}, nil
}

func (f *fakeSession) Rules(context.Context) ([]Rule, error) {
	return []Rule{{Text: "bash(rm *)", Behavior: words.RuleDeny, Place: words.RuleForUser, InEffect: new(true)}, {Text: "read", Behavior: words.RuleAllow, Place: words.RuleForCommand}}, nil
}

func (f *fakeSession) WriteRule(_ context.Context, q Rule, remove bool) (Ruled, error) {
	if q.Text == "Bash" {
		return Ruled{}, &RuleRefused{Issues: []RuleProblem{{words.RuleUnknownTool, q.Text, "There is no tool of that name."}}}
	}
	live := words.RuleLive
	if remove {
		live = words.RuleNotLive
	}
	return Ruled{q, live}, nil
}

func (f *fakeSession) StopTask(_ context.Context, task string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = append(f.stopped, task)
	return true, f.fail
}

func (f *fakeSession) Decide(_ context.Context, q Decided) (op id.OpID, seq int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	st, ok, err := f.session.OpState(f.current)
	if err != nil || !ok {
		return op, 0, errors.Join(err, machine.ErrNoSuchGate)
	}
	t, err := machine.Answer(machine.Operation{ID: f.current, Strand: q.Strand}, st.Value, st.Seq, 1_700_000_000_000, q.Gate, q.Decision, nil)
	if err != nil {
		return op, 0, err
	}
	next, _ := machine.StateIn(t, f.current)
	closed, _ := machine.Gates(st.Value, next, 1_700_000_000_000)
	r := f.commit(nil, engine.GatesChanged{Strand: q.Strand, Op: f.current, Closed: closed}, t.Writes...)
	return f.current, r.Seqs[len(r.Seqs)-1], nil
}

func (f *fakeSession) Grants(context.Context) (out []Granted, err error) {
	all, err := engine.GrantsOf(&f.session.View)
	for key, g := range all {
		out = append(out, Granted{key, g})
	}
	return out, err
}

func (f *fakeSession) Forget(_ context.Context, key string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commit(nil, nil, tx.Delete(register.FactCustom, key))
	return true, nil
}

// fakeHost hosts fake sessions.
type fakeHost struct {
	asked    search.Query
	found    search.Result
	unfound  error
	mu       sync.Mutex
	sessions map[id.SessionID]*fakeSession
	opens    int
	reads    int
	fail     error         // of an opening
	slow     chan struct{} // an opening waits for it
}

func hostOf(fs ...*fakeSession) *fakeHost {
	h := &fakeHost{sessions: map[id.SessionID]*fakeSession{}}
	for _, f := range fs {
		h.sessions[f.self] = f
	}
	return h
}

func (h *fakeHost) find(s id.SessionID) (*fakeSession, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.sessions[s]; f != nil {
		return f, nil
	}
	return nil, Refuse(UnknownSession, "there is no session "+s.String())
}

func (h *fakeHost) Create(_ context.Context, q NewSession, observe func(engine.Fact)) (Resident, error) {
	if q.Cwd == "/gone" {
		return nil, Refuse(BadCwd, "the directory /gone is not there")
	}
	f := newFakeSession(fatal{}, uint64(len(h.sessions))+77)
	f.observe = observe
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sessions[f.self] = f
	return f, nil
}

type fatal struct{}

func (fatal) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func (h *fakeHost) Open(_ context.Context, s id.SessionID, observe func(engine.Fact)) (Resident, error) {
	if h.slow != nil {
		<-h.slow
	}
	f, err := h.find(s)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opens++
	if err = errors.Join(err, h.fail); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.observe = observe
	f.mu.Unlock()
	return f, nil
}

func (h *fakeHost) Read(_ context.Context, s id.SessionID) (Reader, error) {
	h.mu.Lock()
	h.reads++
	h.mu.Unlock()
	return h.find(s)
}

func (h *fakeHost) About() About {
	return About{Build: "fake", Generation: 7, Modes: []words.PermissionMode{words.ModeDefault}, Rules: []words.RuleDestination{words.RuleForUser}, Store: "memory"}
}

func (h *fakeHost) Search(_ context.Context, q search.Query) (search.Result, error) {
	h.asked = q
	return h.found, h.unfound
}

func (h *fakeHost) List(context.Context) ([]Info, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Info
	for _, f := range h.sessions {
		out = append(out, f.info)
	}
	return out, nil
}

// serve starts a server over a host and returns a transport to it.
func serve(t *testing.T, host Host) (*Server, *http.Transport) {
	t.Helper()
	s := New(host)
	l := memlisten.New()
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	transport := &http.Transport{DialContext: l.DialContext}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := s.Close(5 * time.Second); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, transport
}

// all reads the replay frames of a session.
func all(t interface{ Fatal(...any) }, f *fakeSession, after wire.Cursor) (out []wire.Frame) {
	m, err := mint(f.self, f.Source())
	if err != nil {
		t.Fatal(err)
	}
	head, err := m.source.Head()
	if err != nil {
		t.Fatal(err)
	}
	for frame, err := range m.frames(after, head) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, frame)
	}
	return out
}

// events renders frames for comparing.
func events(frames []wire.Frame) string {
	var b []byte
	for _, f := range frames {
		b = append(f.Append(b), '\n')
	}
	return string(b)
}
