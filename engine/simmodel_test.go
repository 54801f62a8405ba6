package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/summary"
	"github.com/loom-run/loom/provider"
)

// writer is the provider of the models that write summaries.
const writer = "writer"

// Resolve finds the model of a strand, or the one that writes its summaries.
func (l *life) Resolve(ref machine.ModelRef) (provider.Model, provider.Provider, error) {
	s := l.s.strandOf(ref.ModelID)
	m := provider.Model{Identity: provider.Identity(ref), API: "sim", ContextWindow: l.s.script.window}
	asked := &simModel{l, s}
	if ref.Provider == writer {
		if l.s.script.silent {
			return m, nil, errors.New("there is no model that writes summaries")
		}
		m.ContextWindow = 3000
		return m, asked, nil
	}
	r := l.s.rec.strand(s.name)
	t := s.turn(r.answered)
	if t.fatal == "gone" && !r.failed {
		return m, nil, errors.New("there is no such model")
	}
	if t.deferred == "deaf" && !r.failed {
		return m, onlyAsked{asked}, nil
	}
	return m, asked, nil
}

// simModel is the model of a strand. Whatever the client does while it answers is done once, however often the process dies of it.
type simModel struct {
	l      *life
	strand simStrand
}

// onlyAsked cannot be asked for what it deferred.
type onlyAsked struct{ m *simModel }

func (o onlyAsked) Stream(ctx context.Context, req provider.Request, sink func(provider.Delta)) (*message.Assistant, error) {
	return o.m.Stream(ctx, req, sink)
}

func refusal(c provider.Class, text string) (*message.Assistant, error) {
	return nil, &provider.Error{Class: c, Message: text}
}

func (m *simModel) Stream(ctx context.Context, req provider.Request, sink func(provider.Delta)) (*message.Assistant, error) {
	if err := m.l.struck(ctx); err != nil {
		return nil, err
	}
	s, r := m.l.s, m.l.s.rec.strand(m.strand.name)
	if req.Model.Provider == writer {
		return m.summary(ctx, sink)
	}
	n := r.answered
	t := m.strand.turn(n)
	switch {
	case t.fatal == "never fits" && !r.failed:
		return refusal(provider.Overflow, "too long")
	case t.fatal == "refused" && !r.failed:
		m.during(n, t)
		return refusal(provider.Auth, "the key was refused")
	case t.tooLong && !r.compacted && n > 0 && !r.failed:
		s.saw("overflow")
		return refusal(provider.Overflow, "too long")
	case s.script.window > 0 && size(req) > s.script.window:
		s.saw("request that fits into no window")
		return refusal(provider.Overflow, "too long")
	}
	m.during(n, t)
	if t.abort && !m.abortedOnce(n) {
		m.l.abort(m.strand.name, "a generation", m.late(n))
	}
	if ctx.Err() != nil {
		return refusal(provider.Cancelled, "cancelled")
	}
	if s.w.flake(fmt.Sprint("turn", m.strand.name, n), t.fails) {
		s.saw("retry")
		return refusal(provider.Server, "try again")
	}
	if t.deferred != "" && !(t.deferred != "well" && r.failed) {
		s.saw("deferred response")
		return m.deferral(n, t), nil
	}
	return m.says(ctx, n, t)
}

func size(req provider.Request) (tokens int64) {
	for _, m := range req.Messages {
		tokens += summary.Estimate(m)
	}
	return tokens
}

// during is what clients do while the nth turn is being made.
func (m *simModel) during(n int, t simTurn) {
	name := m.strand.name
	if t.steer {
		m.l.deliver(name, fmt.Sprintf("steering of turn %d of %s", n, name), engine.AtOnce)
	}
	if t.followUp {
		m.l.deliver(name, fmt.Sprintf("follow-up of turn %d of %s", n, name), engine.WhenDone)
	}
	if t.write {
		m.l.write(name, fmt.Sprintf("writing of turn %d of %s", n, name))
	}
	if t.withdraw {
		m.l.takeBack(name, fmt.Sprintf("withdrawn of turn %d of %s", n, name))
	}
}

func (m *simModel) abortedOnce(n int) bool { return m.l.s.rec.knows(m.late(n)) }

func (m *simModel) late(n int) string {
	return fmt.Sprintf("late input of turn %d of %s", n, m.strand.name)
}

func (m *simModel) deferral(n int, t simTurn) *message.Assistant {
	h := m.handle(n, t)
	if t.deferred == "handle" {
		h.Provider = "another"
	}
	return m.deferredAs(h)
}

func (m *simModel) deferredAs(h message.DeferredHandle) *message.Assistant {
	ref := m.strand.model()
	return &message.Assistant{API: "sim", Provider: ref.Provider, Model: ref.ModelID, StopReason: message.Deferred, Deferred: &h, Usage: usage.Unknown(usage.API)}
}

// handle is that of the nth response.
func (m *simModel) handle(n int, t simTurn) message.DeferredHandle {
	ref := m.strand.model()
	h := message.DeferredHandle{Provider: ref.Provider, ModelID: ref.ModelID, API: "sim", ID: fmt.Sprint(n), PollAfterMs: new(int64(50))}
	if t.deferred == "expired" {
		h.ExpiresAt = new(int64(1))
	}
	return h
}

// Fetch has a deferred response at the second poll that anybody made.
func (m *simModel) Fetch(ctx context.Context, _ provider.Model, h message.DeferredHandle) (*message.Assistant, error) {
	s, n := m.l.s, m.l.s.rec.strand(m.strand.name).answered
	t := m.strand.turn(n)
	if m.l.inject("crash during an effect") {
		m.l.store.dead = true
	}
	s.saw("poll")
	if len(t.tools) > 1 && !t.abort && t.steer && s.script.compared != everything && !m.abortedOnce(n) {
		m.l.abort(m.strand.name, "a poll", m.late(n))
	}
	switch {
	case ctx.Err() != nil:
		return refusal(provider.Cancelled, "cancelled")
	case t.deferred == "mismatch":
		h.ID += " of another"
		return m.deferredAs(h), nil
	case t.deferred == "failed":
		return refusal(provider.Server, "gone")
	case s.w.flake(fmt.Sprint("poll", m.strand.name, h.ID), 1):
		return m.deferredAs(h), nil
	}
	return m.says(ctx, n, t)
}

func (m *simModel) summary(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
	s, t := m.l.s, m.strand.trouble
	s.saw("summary")
	name := fmt.Sprint(m.strand.name, m.l.s.rec.strand(m.strand.name).answered)
	if late := "late input of a summary of " + m.strand.name; t.abort && !s.rec.knows(late) {
		m.l.abort(m.strand.name, "a summary", late)
	}
	switch {
	case ctx.Err() != nil:
		return refusal(provider.Cancelled, "cancelled")
	case t.never:
		return refusal(provider.Auth, "the key was refused")
	case t.tooBig && s.w.flake("size of summary"+name, 1):
		return refusal(provider.Overflow, "too long")
	case s.w.flake("summary"+name, t.fails):
		return refusal(provider.Server, "try again")
	}
	text := "what was said"
	if t.wordy {
		text += strings.Repeat(" word", 9000)
	}
	return say(text)(ctx, sink)
}

// says is the content of a turn.
func (m *simModel) says(ctx context.Context, n int, t simTurn) (*message.Assistant, error) {
	then := say(fmt.Sprintf("answer %d", n))
	if len(t.tools) > 0 {
		then = m.callsOf(n, t)
	}
	if t.large {
		then = large(9500, then)
	}
	a, err := then(ctx, nil)
	if a != nil {
		a.Provider, a.Model, a.API = "fake", m.strand.name, "sim"
	}
	return a, err
}

func (m *simModel) callsOf(n int, t simTurn) turn {
	blocks := calls(t.tools...)
	for i, b := range blocks {
		c := b.(message.ToolCall)
		c.ID = fmt.Sprintf("%s-%s-%d.%d", c.Name, m.strand.name, n, i)
		c.Arguments = jsonv.Obj(jsonv.F("tool", jsonv.Str(c.Name)))
		if c.Name == "malformed" {
			c.Arguments = message.MalformedArguments("{", "it ends too early")
		}
		blocks[i] = c
	}
	if t.cutOff {
		return reply(message.Length, blocks...)
	}
	return reply(message.ToolUse, blocks...)
}

// simTools has the tools of toolbox, and those that nobody decides about in time: ignored and parked. The tool refused is asked about and refused.
type simTools struct {
	*toolbox
	l *life
}

func (b *simTools) Clear(c engine.Call) engine.Verdict {
	q := engine.Question{Reason: words.PausedOnApproval, Subject: c.Arguments}
	switch c.Call.Name {
	case "refused":
		return q
	case "ignored":
		q.AnswerWithin, q.Window = 50, words.ExpiredApproval
		return q
	case "parked":
		q.ParkFor = 50
		return q
	}
	v := b.toolbox.Clear(c)
	if granted := grantedOf(v); granted != nil {
		return engine.Granted{Clearance: &simCall{granted, b.l, c.Strand}}
	}
	return v
}

type simCall struct {
	*clearance
	l      *life
	strand string
}

func (c *simCall) Exclusive() bool {
	c.l.exclusive = c.clearance.Exclusive()
	return c.l.exclusive
}

func (c *simCall) Run(ctx context.Context, progress func(engine.Output)) (*message.ToolResult, bool) {
	s := c.l.s
	if s.w.ran[c.call.ID] > 0 {
		s.saw("replayed call")
	}
	late := "late input of " + c.call.ID
	if c.call.Name == "abort" && ctx.Err() == nil && !s.rec.knows(late) {
		c.l.abort(c.strand, "a batch", late)
	}
	if c.l.inject("crash during an effect") {
		c.l.store.dead = true
	}
	return c.clearance.Run(ctx, progress)
}

// simHooks adds to the first run of a strand.
type simHooks struct{ s *sim }

func (h simHooks) RunStart(op machine.Operation) []machine.PendingEntry {
	text := "from the start of a run of " + op.Strand
	if h.s.rec.knows(text) {
		return nil
	}
	return []machine.PendingEntry{machine.PendingMessage(said(text))}
}

func (h simHooks) RunEnd(op machine.Operation, _ id.EntryID) *machine.PendingEntry {
	text := "from the end of a run of " + op.Strand
	if h.s.rec.knows(text) {
		return nil
	}
	return new(machine.PendingMessage(said(text)))
}

func said(s string) *message.User {
	return &message.User{Content: []message.UserBlock{message.Text{Text: s}}}
}

// The clients. Each insists on what a fault may refuse, until the process is dead of it; then it goes on with the next. What is durable is not sent again.

func (l *life) insist(act func() error) {
	for !l.store.dead {
		err := act()
		if err == nil || errors.Is(err, machine.ErrNoActiveRun) || errors.Is(err, machine.ErrNotPending) {
			return
		}
	}
}

// input is what a client wants to have delivered.
type input struct {
	strand, text string
	how          engine.Delivery
}

func (l *life) deliver(strand, text string, how engine.Delivery) {
	in := input{strand, text, how}
	if l.store.dead || l.s.rec.knows(text) || slices.Contains(l.s.inputs, in) {
		return
	}
	l.s.saw(strings.Fields(text)[0])
	l.s.inputs = append(l.s.inputs, in)
	l.send()
}

// send sends what was not delivered yet.
func (l *life) send() {
	for len(l.s.inputs) > 0 {
		in := l.s.inputs[0]
		if !l.s.rec.knows(in.text) {
			l.insist(func() error {
				_, err := l.e.Prompt(in.strand, engine.Prompt{Content: said(in.text).Content, Delivery: in.how})
				return err
			})
		}
		if !l.s.rec.knows(in.text) {
			return // the process died of it
		}
		l.s.inputs = l.s.inputs[1:]
	}
}

func (l *life) write(strand, text string) {
	if l.s.rec.knows(text) || l.store.dead {
		return
	}
	l.s.saw("writing")
	l.insist(func() error {
		_, err := l.e.Write(strand, machine.PendingMessage(said(text)))
		return err
	})
	l.insist(func() error {
		_, err := l.e.Write(strand, machine.PendingEntry{Body: entry.Custom{Type: "note of a program"}})
		return err
	})
}

// takeBack queues something, edits it and withdraws it.
func (l *life) takeBack(strand, text string) {
	if l.s.done[text] > 0 || l.store.dead {
		return
	}
	if !l.s.rec.knows(text + ", edited") {
		l.deliver(strand, text, engine.WhenDone)
	}
	l.insist(func() error {
		queue, err := l.e.Queue(strand)
		if err != nil {
			return err
		}
		for _, q := range queue {
			b, _ := q.Body.Body.(entry.Message)
			u, ok := b.Message.(*message.User)
			if !ok || !strings.HasPrefix(message.TextOf(u.Content), text) {
				continue
			}
			if message.TextOf(u.Content) == text {
				if _, err := l.e.EditQueued(strand, q.ID, q.Seq, nil, said(text+", edited").Content); err != nil {
					return err
				}
			}
			if _, err := l.e.Withdraw(strand, q.ID); err != nil {
				return err
			}
			l.s.saw("withdrawn input")
		}
		l.s.done[text]++
		return nil
	})
}

// abort aborts the run of a strand, and sends more: that waits for the run that follows.
func (l *life) abort(strand, during, late string) {
	l.insist(func() error { _, _, err := l.e.Abort(strand); return err })
	if r := l.s.rec.strand(strand); r.aborted() {
		l.s.saw("abort during " + during)
		if !l.s.rec.knows(late) {
			l.s.saw("late")
			l.s.inputs = append(l.s.inputs, input{strand, late, engine.WhenDone})
			l.send()
		}
		if l.s.faults > 0 && !l.store.dead && l.s.schedule.choose(3, "crash after an abort") == 1 {
			l.s.faults--
			l.s.saw("crash during an effect")
			l.store.dead = true
		}
	}
}
