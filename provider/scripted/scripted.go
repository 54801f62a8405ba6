// Package scripted is the model of tests and benchmarks: it answers what a script says.
//
// # Purpose
//
// An engine is tested against answers that are known beforehand: text, reasoning, calls, failures of every class, silence. The script can be Go
// values or a file, so that a child process that is killed and started again goes on with the same one.
//
// # Key types
//
// [Script] is a list of [Turn]; a turn is a list of [Step] with a way to end. [Provider] plays it. [Parse] and [Load] read the JSON form.
//
// # Relationships
//
// Imports provider, core/jsonv, core/message, core/usage. Imported by tests and benchmarks.
//
// # Traffic
//
// None.
//
// # Invariants
//
//   - Which turn answers a request is a function of the request, unless the script says otherwise: the number of assistant messages in it. So a
//     restarted process plays the turn that was interrupted, not the one after.
//   - The same script and request give the same deltas and the same message, ids included.
package scripted

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider"
)

// API is the name of the dialect, as stored in the api field of an assistant message.
const API = "scripted"

// Model is the identity that scripts answer under when a test has no other.
var Model = provider.Model{Identity: provider.Identity{Provider: "scripted", ModelID: "scripted"}, API: API}

// Script is what a [Provider] answers.
type Script struct {
	Turns []Turn
	// Sequential plays a turn for each call of Stream, whatever it asks. By default the number of assistant messages in the request chooses, and a
	// request repeated after a failure gets the same turn again.
	Sequential bool
}

// Turn is one answer.
type Turn struct {
	Steps []Step
	// Stop is how the answer ends; empty means toolUse when there are calls, otherwise stop.
	Stop message.StopReason
	// Usage is what the answer reports; nil is the usage of no provider.
	Usage *usage.Usage
	// Fail, when it is set, ends the turn as a failure after its steps.
	Fail *Failure
	// Chunk is the most characters of one delta; 0 gives each step in one piece.
	Chunk int
}

// Failure is a failed end.
type Failure struct {
	Class        provider.Class
	Message      string // empty: a sentence that names the class
	Status       int
	RetryAfterMs *int64
	// Times is how often the turn fails before it settles, counted in this process; 0 is always.
	Times int
}

// Step is a [Text], [Thinking], [Call] or [Stall].
type Step interface{ step() }

// Text is prose.
type Text string

// Thinking is reasoning.
type Thinking string

// Call asks for a tool.
type Call struct {
	ID   string // empty: one made of the turn and the step
	Name string
	Args string // JSON text, and not checked here: text that is no object becomes malformed arguments
}

// Stall says nothing more until the call is cancelled.
type Stall struct{}

func (Text) step()     {}
func (Thinking) step() {}
func (Call) step()     {}
func (Stall) step()    {}

// Provider plays a script. It is safe for concurrent use.
type Provider struct {
	script Script
	now    func() int64

	mu       sync.Mutex // guards the rest
	requests []provider.Request
	failures map[int]int // how often a turn has failed
}

var _ provider.Provider = (*Provider)(nil)

// New returns a provider at the start of the script. now is the clock of its messages, in Unix milliseconds.
func New(script Script, now func() int64) *Provider {
	return &Provider{script: script, now: now, failures: map[int]int{}}
}

// Requests returns what was asked so far.
func (p *Provider) Requests() []provider.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// Stream plays the turn of the request. A request beyond the script fails as [provider.InvalidRequest].
func (p *Provider) Stream(ctx context.Context, req provider.Request, sink func(provider.Delta)) (*message.Assistant, error) {
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	number, failing := p.begin(req)
	if number >= len(p.script.Turns) {
		return nil, &provider.Error{
			Class:   provider.InvalidRequest,
			Message: fmt.Sprintf("the script has %d turns and was asked for turn %d", len(p.script.Turns), number+1),
		}
	}
	turn := p.script.Turns[number]
	m := &message.Assistant{API: API, Provider: req.Model.Provider, Model: req.Model.ModelID, Usage: usage.Zero()}
	if turn.Usage != nil {
		m.Usage = *turn.Usage
	}
	failure := p.play(ctx, number, m, sink)
	if failure == nil && failing {
		failure = turn.Fail.error()
	}
	m.Timestamp = p.now()
	if failure != nil {
		return nil, failed(failure, m)
	}
	m.StopReason = turn.Stop
	if calls, _ := m.ToolCalls(); m.StopReason == "" {
		m.StopReason = message.Stop
		if len(calls) > 0 {
			m.StopReason = message.ToolUse
		}
	}
	return m, nil
}

// begin records the request and returns the number of its turn, and whether that turn fails this time.
func (p *Provider) begin(req provider.Request) (number int, failing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.script.Sequential {
		number = len(p.requests)
	} else {
		for _, m := range req.Messages {
			if _, ok := m.(*message.Assistant); ok {
				number++
			}
		}
	}
	p.requests = append(p.requests, req)
	if number >= len(p.script.Turns) {
		return number, false
	}
	fail := p.script.Turns[number].Fail
	if fail == nil || fail.Times > 0 && p.failures[number] >= fail.Times {
		return number, false
	}
	p.failures[number]++
	return number, true
}

// play gives out the steps of a turn and gathers them in m.
func (p *Provider) play(ctx context.Context, number int, m *message.Assistant, sink func(provider.Delta)) *provider.Error {
	turn := p.script.Turns[number]
	for i, step := range turn.Steps {
		block := len(m.Content)
		var drawn string
		for piece := range pieces(text(step), turn.Chunk) {
			if ctx.Err() != nil {
				keep(m, step, drawn)
				return ended(ctx)
			}
			if _, call := step.(Call); piece == "" && !call {
				continue
			}
			switch s := step.(type) {
			case Text:
				sink(provider.TextDelta{Block: block, Text: piece})
			case Thinking:
				sink(provider.ThinkingDelta{Block: block, Text: piece})
			case Call:
				delta := provider.ToolCallDelta{Block: block, Fragment: piece}
				if drawn == "" {
					delta.CallID, delta.Name = s.id(number, i), s.Name
				}
				sink(delta)
			case Stall:
			}
			drawn += piece
		}
		switch s := step.(type) {
		case Text, Thinking:
			keep(m, s, drawn)
		case Call:
			m.Content = append(m.Content, message.ToolCall{ID: s.id(number, i), Name: s.Name, Arguments: message.ParseArguments(s.Args)})
		case Stall:
			<-ctx.Done()
		}
		if ctx.Err() != nil {
			return ended(ctx)
		}
	}
	return nil
}

func text(s Step) string {
	switch s := s.(type) {
	case Text:
		return string(s)
	case Thinking:
		return string(s)
	case Call:
		return s.Args
	case Stall:
	}
	return ""
}

// keep adds what was drawn of a text; a call that was not drawn to its end is no call.
func keep(m *message.Assistant, step Step, drawn string) {
	if drawn == "" {
		return
	}
	switch step.(type) {
	case Text:
		m.Content = append(m.Content, message.Text{Text: drawn})
	case Thinking:
		m.Content = append(m.Content, message.Thinking{Thinking: drawn})
	case Call, Stall:
	}
}

func (c Call) id(turn, step int) string {
	if c.ID != "" {
		return c.ID
	}
	return fmt.Sprintf("call_%d_%d", turn+1, step+1)
}

// pieces cuts s into runs of n characters. A call without arguments still is one piece.
func pieces(s string, n int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		count, from := 0, 0
		for i := range s {
			if count++; n > 0 && count > n {
				if !yield(s[from:i]) {
					return
				}
				from, count = i, 1
			}
		}
		yield(s[from:])
	}
}

func ended(ctx context.Context) *provider.Error {
	if ctx.Err() == context.DeadlineExceeded {
		return &provider.Error{Class: provider.Deadline, Detail: provider.LimitCaller, Message: "the time for this request is over"}
	}
	return &provider.Error{Class: provider.Cancelled, Message: "the request was cancelled"}
}

func (f *Failure) error() *provider.Error {
	e := &provider.Error{Class: f.Class, Status: f.Status, Message: f.Message, RetryAfterMs: f.RetryAfterMs}
	if e.Message == "" {
		e.Message = "the script fails here as " + string(f.Class)
	}
	return e
}

// failed completes an error with what was given out before it.
func failed(e *provider.Error, m *message.Assistant) *provider.Error {
	if _, reported := m.Usage.Evidence.Tokens(); len(m.Content) == 0 && !reported {
		return e
	}
	m.StopReason = message.Error
	if e.Class == provider.Cancelled {
		m.StopReason = message.Aborted
	}
	m.ErrorMessage = new(e.Message)
	e.Partial = m
	return e
}

// Say is a script of answers of text alone.
func Say(texts ...string) Script {
	var s Script
	for _, t := range texts {
		s.Turns = append(s.Turns, Turn{Steps: []Step{Text(t)}})
	}
	return s
}

// Arguments is the JSON text of an object with string fields, given as name, value, name, value.
func Arguments(pairs ...string) string {
	var fields []jsonv.Member
	for pair := range slices.Chunk(pairs, 2) {
		fields = append(fields, jsonv.F(pair[0], jsonv.Str(pair[1])))
	}
	return jsonv.Obj(fields...).String()
}
