// Package dialecttest checks that the requests of a dialect are valid, whatever conversation they tell.
//
// # Purpose
//
// A stored conversation can be anything: written by several models, cut by a crash, forked in the middle of a batch, imported. One request that a
// provider refuses makes every later one fail too, so each dialect runs these properties over its grammar.
//
// # Key types
//
// [Requests] is the suite, [Conversations] what it draws, [BenchmarkRequests] the cost of a long one.
//
// # Relationships
//
// Imported by tests only.
//
// # Traffic
//
// None.
//
// # Invariants
//
// What is drawn can be stored: every message passes through its codec.
package dialecttest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
)

// Model is the one that the drawn conversations are told to.
var Model = provider.Model{Identity: provider.Identity{Provider: "route", ModelID: "own-model"}, ContextWindow: 100_000, MaxOutput: 10_000}

// Secrets are the texts of every signature that is not of [Model] in the dialect under test; none of them may be in a request.
const foreign = "foreign-signature"

// Own marks the signatures that must be in a request.
const Own = "own-signature"

// Requests checks the requests of a grammar. defects names what the dialect's servers would refuse in a body.
func Requests(t *testing.T, g *dialect.Grammar, defects func(body jsonv.Value) []string) {
	t.Run("every conversation makes a valid request", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			req := draw(t, g)
			body := g.Encode(req)
			v, err := jsonv.Parse(body)
			if err != nil {
				t.Fatalf("the request is not strict JSON: %v\n%s", err, body)
			}
			for _, d := range defects(v) {
				t.Errorf("%s\n%s", d, body)
			}
			if bytes.Contains(body, []byte(foreign)) {
				t.Errorf("a signature of another model is told:\n%s", body)
			}
		})
	})
	t.Run("a later request begins with the bytes of the earlier one", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			req := draw(t, g)
			full := g.Begin(req, nil).Prefix()
			for _, end := range settled(req.Messages) {
				early := req
				early.Messages = req.Messages[:end]
				early.Tools = rapid.Permutation(req.Tools).Draw(t, "tools")
				if prefix := g.Begin(early, nil).Prefix(); !bytes.HasPrefix(full, prefix) {
					t.Fatalf("%s\nis no prefix of\n%s", prefix, full)
				}
			}
		})
	})
	t.Run("what is remembered does not change the request", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { remembered(t, g) })
	})
	t.Run("only some large requests are remembered, and the same is said", func(t *testing.T) {
		var h dialect.History
		long := Long(2000)
		for n := 1500; n <= 2000; n += 100 {
			req := provider.Request{Model: Model, Messages: long[:n]}
			if !bytes.Equal(h.Encode(g, req), g.Encode(req)) {
				t.Fatalf("%d messages are told otherwise when they are remembered", n)
			}
		}
	})
}

// remembered encodes requests one after the other, each from what the one before left.
func remembered(t *rapid.T, g *dialect.Grammar) {
	whole := draw(t, g)
	var earlier *dialect.Encoding
	for i := range 4 {
		name := fmt.Sprint(i)
		req := whole
		req.System = rapid.SampledFrom([]string{"", "s"}).Draw(t, name+" system")
		req.Messages = slices.Clone(whole.Messages[:rapid.IntRange(0, len(whole.Messages)).Draw(t, name+" length")])
		if n := len(req.Messages); n > 0 && rapid.Bool().Draw(t, name+" departs") {
			req.Messages[rapid.IntRange(0, n-1).Draw(t, name+" at")] = user(rapid.String().Draw(t, name+" says"))
		}
		var before []byte
		if earlier != nil {
			before = earlier.Body()
		}
		next := g.Begin(req, earlier)
		if got, want := string(next.Body()), string(g.Encode(req)); got != want {
			t.Fatalf("remembering changes the request\n got %s\nwant %s", got, want)
		}
		if earlier != nil && !bytes.Equal(before, earlier.Body()) {
			t.Fatal("the remembered request was changed by the next one")
		}
		earlier = next
	}
}

// settled is the lengths at which a conversation can have been sent: before each message of a person that follows a settled state.
func settled(messages []message.Message) []int {
	var ends []int
	open := map[string]bool{}
	for i, m := range messages {
		switch m := m.(type) {
		case *message.User:
			if len(open) == 0 {
				ends = append(ends, i)
			}
		case *message.Assistant:
			clear(open) // what is open here stays so, whatever comes
			calls, _ := m.ToolCalls()
			for _, c := range calls {
				open[c.ID] = true
			}
		case *message.ToolResult:
			delete(open, m.ToolCallID)
		case *message.Custom:
		}
	}
	return ends
}

// draw makes a request that tells any conversation.
func draw(t *rapid.T, g *dialect.Grammar) provider.Request {
	return provider.Request{
		Model: Model, System: rapid.SampledFrom([]string{"", "be brief"}).Draw(t, "system"),
		Thinking: rapid.SampledFrom(provider.ThinkingLevels()).Draw(t, "thinking"),
		Messages: Conversations(g.API).Draw(t, "messages"),
		Tools:    []provider.Tool{{Name: "a"}, {Name: "b", Description: "does b"}, {Name: "c"}}[:rapid.IntRange(0, 3).Draw(t, "tools")],
	}
}

// Conversations draws lists of messages as a store may hold them for a strand that spoke to several models, the dialect api among theirs: settled and
// unsettled, with every block, with ids and names that no dialect likes, and in orders that none accepts.
func Conversations(api string) *rapid.Generator[[]message.Message] {
	return rapid.Custom(func(t *rapid.T) []message.Message {
		g := &generator{t: t, api: api}
		for range rapid.IntRange(0, 7).Draw(t, "turns") {
			g.turn()
		}
		return g.out
	})
}

type generator struct {
	t   *rapid.T
	api string
	out []message.Message
	n   int
}

var ids = []string{"c1", "c2", "toolu_01", "functions.read:0", "an id with spaces", "", strings.Repeat("long", 40), "ümlaut"}

func (g *generator) turn() {
	switch rapid.IntRange(0, 9).Draw(g.t, "kind") {
	case 0, 1, 2:
		g.out = append(g.out, g.user())
	case 3:
		g.out = append(g.out, &message.Custom{Schema: "s", Payload: jsonv.Str("x")})
	case 4:
		g.out = append(g.out, g.result(rapid.SampledFrom(ids).Draw(g.t, "orphan")))
	default:
		g.exchange()
	}
}

// exchange is an answer and, mostly, the results of its calls.
func (g *generator) exchange() {
	a := g.answer()
	g.out = append(g.out, a)
	calls, _ := a.ToolCalls()
	for _, c := range rapid.Permutation(calls).Draw(g.t, "order") {
		switch rapid.IntRange(0, 9).Draw(g.t, "result") {
		case 0: // none
		case 1:
			g.out = append(g.out, g.user(), g.result(c.ID))
		case 2:
			g.out = append(g.out, g.result(c.ID), g.result(c.ID))
		default:
			g.out = append(g.out, g.result(c.ID))
		}
	}
}

func (g *generator) answer() *message.Assistant {
	a := &message.Assistant{API: g.api, Provider: "route", Model: Model.ModelID, StopReason: message.Stop}
	signature := Own
	if rapid.Bool().Draw(g.t, "foreign") {
		signature = foreign
		switch rapid.IntRange(0, 1).Draw(g.t, "by") {
		case 0:
			a.API = rapid.SampledFrom([]string{"anthropic-messages", "openai-responses", "gemini-generate-content", "openai-completions", "other"}).Draw(g.t, "api")
			if a.API == g.api {
				a.API = "other"
			}
		default:
			a.Model = "another-model"
		}
	}
	for range rapid.IntRange(0, 5).Draw(g.t, "blocks") {
		a.Content = append(a.Content, g.block(signature))
	}
	return a
}

func (g *generator) block(signature string) message.AssistantBlock {
	g.n++
	mark := fmt.Sprintf("%s-%d", signature, g.n)
	signed := func(name string) *string {
		if rapid.Bool().Draw(g.t, name) {
			return &mark
		}
		return nil
	}
	switch rapid.IntRange(0, 6).Draw(g.t, "block") {
	case 0, 1:
		return message.Text{Text: g.text(), Signature: signed("signed text")}
	case 2:
		return message.Thinking{Thinking: g.text(), Signature: signed("signed thinking")}
	case 3:
		return message.Thinking{Thinking: "", Signature: &mark, Redacted: true}
	}
	return message.ToolCall{
		ID: rapid.SampledFrom(ids).Draw(g.t, "id"), Name: rapid.SampledFrom([]string{"read", "a.b c/ü", "", strings.Repeat("n", 90)}).Draw(g.t, "name"),
		Arguments:        message.ParseArguments(rapid.SampledFrom([]string{"", `{"p":1.50,"q":{"r":[null]}}`, `{"p":`, "[1]"}).Draw(g.t, "arguments")),
		ThoughtSignature: signed("signed call"),
	}
}

func (g *generator) text() string {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", " \n", "text", "trailing "})).Draw(g.t, "text")
}

func (g *generator) user() *message.User {
	m := &message.User{}
	for range rapid.IntRange(0, 3).Draw(g.t, "parts") {
		if rapid.IntRange(0, 4).Draw(g.t, "picture") == 0 {
			m.Content = append(m.Content, picture)
			continue
		}
		m.Content = append(m.Content, message.Text{Text: g.text()})
	}
	return m
}

func (g *generator) result(id string) *message.ToolResult {
	r := &message.ToolResult{ToolCallID: id, ToolName: "read", IsError: rapid.Bool().Draw(g.t, "failed")}
	for range rapid.IntRange(0, 2).Draw(g.t, "parts") {
		if rapid.IntRange(0, 4).Draw(g.t, "picture") == 0 {
			r.Content = append(r.Content, picture)
			continue
		}
		r.Content = append(r.Content, message.Text{Text: g.text()})
	}
	return r
}

var picture = message.Image{Data: "QUJD", MimeType: "image/png"}

func user(text string) *message.User {
	return &message.User{Content: []message.UserBlock{message.Text{Text: text}}}
}

// Long is a conversation of n messages of about 500 bytes.
func Long(n int) []message.Message {
	line := strings.Repeat("the quick brown fox \"jumps\" over\n", 15)
	said := func(blocks ...message.AssistantBlock) *message.Assistant {
		return &message.Assistant{Content: append([]message.AssistantBlock{message.Text{Text: line}}, blocks...), StopReason: message.Stop}
	}
	var out []message.Message
	for i := 0; len(out) < n; i++ {
		id := fmt.Sprintf("call_%d", i)
		out = append(out, user(line), said(message.ToolCall{ID: id, Name: "read", Arguments: message.ParseArguments(`{"path":"main.go"}`)}),
			&message.ToolResult{ToolCallID: id, ToolName: "read", Content: []message.ResultBlock{message.Text{Text: line}}}, said())
	}
	return out[:n]
}

// BenchmarkRequests measures a request of ten thousand messages: told for the first time, and told again with one message more.
func BenchmarkRequests(b *testing.B, g *dialect.Grammar) {
	req := provider.Request{Model: Model, System: "s", Messages: Long(10_000)}
	size := int64(len(g.Encode(req)))
	b.Run("first", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			g.Encode(req)
		}
	})
	b.Run("next", func(b *testing.B) {
		var h dialect.History
		h.Encode(g, req)
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			req.Messages = append(req.Messages[:len(req.Messages)-1:len(req.Messages)-1], user("next"))
			h.Encode(g, req)
		}
	})
}
