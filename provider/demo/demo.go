// Package demo is the model that is built in: a handful of fixed rules that use the tools, so that Loom can be tried without a key.
//
// # Purpose
//
// A newcomer without a key sees a whole turn on their own files: a prompt, tool calls, results, an answer. The demo looks at real things and
// reports what it saw; it never pretends to be a language model, and every answer says what it is and how to configure a real one.
//
// # Key types
//
// [Respond] is the model, a pure function from a request to a [Response]. [Provider] streams it.
//
// # Relationships
//
// Imports provider, core/jsonv, core/message, core/usage. Imported by provider/catalogue.
//
// # Traffic
//
// None: it contacts nobody, and its usage says so.
//
// # Invariants
//
//   - The same request gives the same response, call ids included.
//   - A command is run and a file is written only when the prompt says so in the plain forms "run: COMMAND" and "write FILE: TEXT".
//   - A prompt costs at most [MaxCalls] calls; a tool that is not offered is not called, and a refused one is reported and not tried again.
package demo

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider"
)

// API is the name of the dialect, as stored in the api field of an assistant message.
const API = "demo"

// Model is the one model of this provider. Its window is larger than any conversation it reads.
var Model = provider.Model{
	Identity:      provider.Identity{Provider: "demo", ModelID: "demo"},
	API:           API,
	ContextWindow: 1_000_000,
	MaxOutput:     10_000,
}

// Provider streams the responses of [Respond].
type Provider struct {
	now func() int64
}

var _ provider.Provider = (*Provider)(nil)

// New returns the provider. now is the clock of its messages, in Unix milliseconds.
func New(now func() int64) *Provider { return &Provider{now: now} }

// Stream gives the response out word by word. It fails only when ctx ends.
func (p *Provider) Stream(ctx context.Context, req provider.Request, sink func(provider.Delta)) (*message.Assistant, error) {
	if ctx.Err() != nil {
		return nil, p.ended(ctx, req, "")
	}
	r := Respond(req)
	said := 0
	for said < len(r.Text) {
		word := wordEnd(r.Text[said:])
		sink(provider.TextDelta{Text: r.Text[said : said+word]})
		said += word
		if ctx.Err() != nil {
			return nil, p.ended(ctx, req, r.Text[:said])
		}
	}
	m := p.message(req, r.Text)
	for _, c := range r.Calls {
		sink(provider.ToolCallDelta{Block: len(m.Content), CallID: c.ID, Name: c.Name, Fragment: c.Arguments.String()})
		m.Content = append(m.Content, c)
		if ctx.Err() != nil {
			return nil, p.ended(ctx, req, r.Text)
		}
	}
	m.StopReason = message.Stop
	if len(r.Calls) > 0 {
		m.StopReason = message.ToolUse
	}
	return m, nil
}

func (p *Provider) message(req provider.Request, text string) *message.Assistant {
	m := &message.Assistant{
		API: API, Provider: req.Model.Provider, Model: req.Model.ModelID, Usage: usage.Zero(), Timestamp: p.now(),
	}
	if text != "" {
		m.Content = append(m.Content, message.Text{Text: text})
	}
	return m
}

// ended is the error of a call whose context ended after text was given out.
func (p *Provider) ended(ctx context.Context, req provider.Request, text string) *provider.Error {
	e := &provider.Error{Class: provider.Cancelled, Message: "the request was cancelled; what was said is kept"}
	if ctx.Err() == context.DeadlineExceeded {
		e = &provider.Error{Class: provider.Deadline, Detail: provider.LimitCaller, Message: "the time for this request is over; what was said is kept"}
	}
	if text != "" {
		e.Partial = p.message(req, text)
		e.Partial.ErrorMessage = new(e.Message)
		e.Partial.StopReason = message.Error
		if e.Class == provider.Cancelled {
			e.Partial.StopReason = message.Aborted
		}
	}
	return e
}

// wordEnd is the length of the first word of s with the space after it.
func wordEnd(s string) int {
	if at := strings.IndexAny(s, " \n"); at >= 0 {
		return at + 1
	}
	return len(s)
}

// firstLines cuts s to at most lines lines and width characters in each, and tells whether something was left out.
func firstLines(s string, lines, width int) (kept []string, more bool) {
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" {
			continue
		}
		if len(kept) == lines {
			return kept, true
		}
		if utf8.RuneCountInString(line) > width {
			line, more = string([]rune(line)[:width])+"…", true
		}
		kept = append(kept, line)
	}
	return kept, more
}
