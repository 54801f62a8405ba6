package project

import (
	"strings"

	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/sdkmsg"
)

// Conversation is a transcript as a person sees it, folded from its lines: those of
// this runtime, and those of others in the same vocabulary. The same line twice
// changes nothing. The zero Conversation is empty.
type Conversation struct {
	Turns []Turn
	seen  map[string]bool
}

// Turn is one thing in a conversation: what a person asked, what a model answered, or
// how it ended.
type Turn struct {
	Prompt    string // of a person; empty in the others
	Synthetic bool   // the prompt was written by a harness
	Response  *Response
	Ended     *Ending
}

// Response is one response of a model: the blocks of all lines with its message id.
type Response struct {
	ID, Model string
	Text      string
	Reasoning string
	Cards     []Card
	Usage     plane.Tally
	uses      []sdkmsg.ToolUse
}

// Ending is how a turn of the person ended.
type Ending struct {
	Subtype string
	IsError bool
	Aborted bool
	Answer  string      // repeats the last text; a reader shows it once
	Cost    plane.Count // in millionths of a US dollar
	Usage   plane.Tally
	Errors  []string
}

// Add takes the next line.
func (c *Conversation) Add(l sdkmsg.Line) {
	if l.UUID != "" {
		if c.seen[l.UUID] {
			return
		}
		if c.seen == nil {
			c.seen = map[string]bool{}
		}
		c.seen[l.UUID] = true
	}
	switch m := l.Message.(type) {
	case sdkmsg.Assistant:
		c.respond(m)
	case sdkmsg.User:
		c.user(m)
	case sdkmsg.Result:
		c.end(m)
	case sdkmsg.Init, sdkmsg.CompactBoundary, sdkmsg.Informational, sdkmsg.PermissionDenied, sdkmsg.TaskNotification, sdkmsg.Unknown:
	}
}

// respond takes a line of a response. Lines without a message id are responses of
// their own.
func (c *Conversation) respond(m sdkmsg.Assistant) {
	var r *Response
	for i := len(c.Turns) - 1; i >= 0 && m.Message.ID != ""; i-- {
		if have := c.Turns[i].Response; have != nil && have.ID == m.Message.ID {
			r = have
			break
		}
	}
	if r == nil {
		r = &Response{ID: m.Message.ID}
		c.Turns = append(c.Turns, Turn{Response: r})
	}
	if m.Message.Model != "" {
		r.Model = m.Message.Model
	}
	for _, b := range m.Message.Content {
		switch b := b.(type) {
		case sdkmsg.TextBlock:
			r.Text = joinLine(r.Text, b.Text)
		case sdkmsg.Thinking:
			r.Reasoning = joinLine(r.Reasoning, b.Thinking)
		case sdkmsg.ToolUse:
			r.uses = append(r.uses, b)
			r.Cards = append(r.Cards, CardOf(b, nil))
		case sdkmsg.RedactedThinking, sdkmsg.ToolResult, sdkmsg.Image, sdkmsg.UnknownBlock:
		}
	}
	if m.Message.Usage != nil { // later lines of a response know more
		r.Usage = tallyOf(m.Message.Usage, true)
	}
}

func joinLine(a, b string) string {
	if a != "" && b != "" && !strings.HasSuffix(a, "\n") {
		return a + "\n" + b
	}
	return a + b
}

// user takes a prompt, or the results of calls. The mark that a person interrupted is
// no prompt of theirs: it ends the turn.
func (c *Conversation) user(m sdkmsg.User) {
	results := false
	for _, b := range m.Message.Content {
		if r, ok := b.(sdkmsg.ToolResult); ok {
			results = true
			c.answer(r.ToolUseID, m)
		}
	}
	if results {
		return
	}
	text := m.Message.Content.Texts()
	if m.Loom == nil && strings.HasPrefix(text, interruption) {
		c.Turns = append(c.Turns, Turn{Ended: &Ending{Subtype: sdkmsg.ErrorExecution, IsError: true, Aborted: true}})
		return
	}
	c.Turns = append(c.Turns, Turn{Prompt: text, Synthetic: m.IsSynthetic})
}

// answer makes the card of a call again, now with its result.
func (c *Conversation) answer(callID string, m sdkmsg.User) {
	for i := len(c.Turns) - 1; i >= 0; i-- {
		r := c.Turns[i].Response
		if r == nil {
			continue
		}
		for k, use := range r.uses {
			if use.ID == callID {
				r.Cards[k] = CardOf(use, &m)
				return
			}
		}
	}
}

func (c *Conversation) end(m sdkmsg.Result) {
	e := &Ending{Subtype: m.Subtype, IsError: m.IsError, Usage: tallyOf(m.Usage, m.Loom == nil || m.Loom.UsageExact), Errors: m.Errors}
	if m.Result != nil {
		e.Answer = *m.Result
	}
	if cause, ok := EndingOf(m); ok {
		e.Aborted = cause.Word() == "aborted"
	}
	if m.TotalCostUSD != nil {
		if usd, ok := m.TotalCostUSD.Float64(); ok && usd >= 0 && usd < 1e9 {
			e.Cost = plane.Exactly(int64(usd*1_000_000 + 0.5))
			if m.Loom != nil && !m.Loom.CostExact {
				e.Cost = e.Cost.Floor()
			}
		}
	}
	c.Turns = append(c.Turns, Turn{Ended: e})
}

// tallyOf is usage as far as a line tells it.
func tallyOf(u *sdkmsg.Usage, exact bool) (t plane.Tally) {
	if u == nil {
		return t
	}
	count := func(n *int64) plane.Count {
		switch {
		case n == nil:
			return plane.Count{}
		case exact:
			return plane.Exactly(*n)
		}
		return plane.AtLeast(*n)
	}
	return plane.Tally{Input: count(u.Input), Output: count(u.Output), CacheRead: count(u.CacheRead), CacheWrite: count(u.CacheWrite)}
}
