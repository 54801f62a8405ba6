package anthropic

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
	"github.com/loom-run/loom/provider/dialect/dialecttest"
)

func TestRequestsOfAnyConversationAreValid(t *testing.T) { dialecttest.Requests(t, &grammar, defects) }

// defects says what the provider would refuse in a request.
func defects(body jsonv.Value) (found []string) {
	bad := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	marks, short := 0, false
	mark := func(block jsonv.Value) {
		c, ok := block.Get("cache_control")
		if !ok {
			return
		}
		marks++
		if long := dialect.Text(c, "ttl") == "1h"; long && short {
			bad("a mark of an hour after one of five minutes")
		} else {
			short = short || !long
		}
		if strings.Contains(dialect.Text(block, "type"), "thinking") {
			bad("a mark on reasoning")
		}
	}
	for _, name := range []string{"tools", "system"} {
		list, _ := body.Get(name)
		for _, block := range list.Elems() {
			mark(block)
		}
	}
	messages, _ := body.Get("messages")
	seen, open := map[string]bool{}, []string(nil)
	for i, m := range messages.Elems() {
		role := dialect.Text(m, "role")
		if want := []string{person, model}[i%2]; role != want {
			bad("message %d is of %s", i, role)
		}
		content, _ := m.Get("content")
		if content.Len() == 0 {
			bad("message %d is empty", i)
		}
		said := false
		for j, block := range content.Elems() {
			mark(block)
			switch kind := dialect.Text(block, "type"); kind {
			case "text":
				said = true
				if dialect.Blank(dialect.Text(block, "text")) {
					bad("block %d of message %d is blank", j, i)
				}
			case "image":
				said = true
			case "thinking", "redacted_thinking":
				if dialect.Text(block, "signature")+dialect.Text(block, "data") == "" {
					bad("reasoning without a signature")
				}
			case "tool_use":
				id := dialect.Text(block, "id")
				input, _ := block.Get("input")
				if id == "" || seen[id] || id != grammar.MendID(id) || input.Kind() != jsonv.Object || dialect.ToolName(dialect.Text(block, "name")) != dialect.Text(block, "name") {
					bad("the call %s", block)
				}
				seen[id] = true
				open = append(open, id)
			case "tool_result":
				if said || len(open) == 0 || open[0] != dialect.Text(block, "tool_use_id") {
					bad("the result %s, while %v wait", block, open)
				} else {
					open = open[1:]
				}
				if inner, _ := block.Get("content"); inner.Len() == 0 {
					bad("an empty result")
				}
			default:
				bad("a block of the kind %q", kind)
			}
		}
		if role == person && len(open) > 0 {
			bad("the calls %v have no result", open)
			open = nil
		}
	}
	if marks > 4 {
		bad("%d cache marks", marks)
	}
	if messages.Len() == 0 || len(open) > 0 || messages.Len()%2 == 0 {
		bad("the end of %s", messages)
	}
	if thinking, ok := body.Get("thinking"); ok {
		budget, _ := dialect.Count(thinking, "budget_tokens")
		limit, _ := dialect.Count(body, "max_tokens")
		if budget < 1024 || budget >= limit {
			bad("a budget of %d below %d", budget, limit)
		}
	}
	return found
}

func BenchmarkTenThousandMessages(b *testing.B) { dialecttest.BenchmarkRequests(b, &grammar) }

var own = provider.Model{Identity: provider.Identity{Provider: "route", ModelID: "claude"}, API: API, MaxOutput: 64_000}

func user(text string) *message.User {
	return &message.User{Content: []message.UserBlock{message.Text{Text: text}}}
}

func wrote(blocks ...message.AssistantBlock) *message.Assistant {
	return &message.Assistant{API: API, Model: own.ModelID, Content: blocks}
}

func encoded(t *testing.T, req provider.Request) jsonv.Value {
	t.Helper()
	v, err := jsonv.Parse(grammar.Encode(req))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTheRequestInFull(t *testing.T) {
	call := message.ToolCall{ID: "c", Name: "read", Arguments: message.ParseArguments(`{"p":1.50}`)}
	req := provider.Request{
		Model: own, System: "be brief", Thinking: provider.ThinkLow,
		Tools: []provider.Tool{{Name: "read", Description: "reads"}, {Name: "ls"}},
		Messages: []message.Message{
			user("hi"),
			wrote(message.Thinking{Thinking: "t", Signature: new("S")}, message.Thinking{Redacted: true, Signature: new("R")}, message.Text{Text: "a"}, call),
			&message.ToolResult{ToolCallID: "c", ToolName: "read", IsError: true, Content: []message.ResultBlock{message.Text{Text: "no"}, message.Image{Data: "QUJD", MimeType: "image/png"}}},
			user("and now?"),
		},
	}
	const want = `{"model":"claude","max_tokens":64000,"stream":true,` +
		`"tools":[{"name":"ls","input_schema":{"type":"object","properties":{}}},{"name":"read","description":"reads","input_schema":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral","ttl":"1h"}}],` +
		`"system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral","ttl":"1h"}}],"messages":[` +
		`{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]},` +
		`{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"S"},{"type":"redacted_thinking","data":"R"},{"type":"text","text":"a"},{"type":"tool_use","id":"c","name":"read","input":{"p":1.50}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"no"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}],"is_error":true},` +
		`{"type":"text","text":"and now?","cache_control":{"type":"ephemeral"}}]}],"thinking":{"type":"enabled","budget_tokens":2048}}`
	if diff := cmp.Diff(want, string(grammar.Encode(req))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSignaturesAreToldToTheirModelAlone switches the model in the middle of a conversation and back.
func TestSignaturesAreToldToTheirModelAlone(t *testing.T) {
	conversation := []message.Message{user("plan it"), wrote(message.Thinking{Thinking: "step 1", Signature: new("SIG")}, message.Text{Text: "Plan"}), user("go on")}
	stored := dialecttest.Stored(conversation[1])
	for name, c := range map[string]struct {
		model provider.Model
		told  bool
	}{
		"the same model":                       {own, true},
		"the same model over another route":    {provider.Model{Identity: provider.Identity{Provider: "other route", ModelID: "claude"}}, true},
		"another model of the same provider":   {provider.Model{Identity: provider.Identity{Provider: "route", ModelID: "claude-next"}}, false},
		"and back again to the one that began": {own, true},
	} {
		body := string(grammar.Encode(provider.Request{Model: c.model, Messages: conversation}))
		if got := strings.Contains(body, `{"type":"thinking","thinking":"step 1","signature":"SIG"}`); got != c.told || strings.Contains(body, "SIG") != c.told {
			t.Errorf("%s: %s", name, body)
		}
		if dialecttest.Stored(conversation[1]) != stored {
			t.Errorf("%s: the stored message changed", name)
		}
	}
}

func TestReasoningIsAskedForOnlyWhereTheProviderCanFollowIt(t *testing.T) {
	call := message.ToolCall{ID: "c", Name: "x", Arguments: jsonv.Obj()}
	result := &message.ToolResult{ToolCallID: "c", ToolName: "x"}
	signed := message.Thinking{Thinking: "t", Signature: new("S")}
	for name, c := range map[string]struct {
		messages []message.Message
		level    provider.Thinking
		max      int64
		want     int64
	}{
		"off":                                    {[]message.Message{user("a")}, provider.ThinkOff, 0, 0},
		"medium":                                 {[]message.Message{user("a")}, provider.ThinkMedium, 0, 8192},
		"high":                                   {[]message.Message{user("a")}, provider.ThinkHigh, 0, 16384},
		"no more than the answer may have":       {[]message.Message{user("a")}, provider.ThinkHigh, 4096, 3072},
		"nothing where there is no room":         {[]message.Message{user("a")}, provider.ThinkHigh, 1500, 0},
		"an open batch with reasoning":           {[]message.Message{user("a"), wrote(signed, call), result}, provider.ThinkLow, 0, 2048},
		"an open batch without":                  {[]message.Message{user("a"), wrote(call), result}, provider.ThinkLow, 0, 0},
		"an open batch of another model":         {[]message.Message{user("a"), &message.Assistant{Model: "other", Content: []message.AssistantBlock{signed, call}}, result}, provider.ThinkLow, 0, 0},
		"an open batch with text first":          {[]message.Message{user("a"), wrote(message.Text{Text: "t"}, signed, call), result}, provider.ThinkLow, 0, 0},
		"a batch that a person's turn has ended": {[]message.Message{user("a"), wrote(call), result, wrote(message.Text{Text: "done"}), user("b")}, provider.ThinkLow, 0, 2048},
	} {
		body := encoded(t, provider.Request{Model: own, Messages: c.messages, Thinking: c.level, MaxOutput: c.max})
		thinking, _ := body.Get("thinking")
		if got, _ := dialect.Count(thinking, "budget_tokens"); got != c.want {
			t.Errorf("%s: a budget of %d, want %d", name, got, c.want)
		}
	}
}

func TestAModelIsAskedToReasonInTheFormOfItsGeneration(t *testing.T) {
	for id, want := range map[string]bool{
		"claude-opus-5-5": true, "claude-opus-5": true, "claude-sonnet-4-6": true, "claude-opus-4-7": true, "anthropic.claude-opus-4-6-v1": true, "claude-fable-5-1": true,
		"claude-opus-5-20260724": true, "claude-haiku-4-5-20251001": false, "claude-sonnet-4-20250514": false, "claude-3-7-sonnet-20250219": false, "claude-opus-4-1": false,
		"claude": false, "claude-next": false, "another-9": false, "": false,
	} {
		if got := adaptive(id); got != want {
			t.Errorf("%s: %t", id, got)
		}
	}
	body := encoded(t, provider.Request{Model: provider.Model{Identity: provider.Identity{ModelID: "claude-opus-5"}}, Messages: []message.Message{user("a")}, Thinking: provider.ThinkMedium})
	thinking, _ := body.Get("thinking")
	config, _ := body.Get("output_config")
	if thinking.String() != `{"type":"adaptive"}` || config.String() != `{"effort":"medium"}` {
		t.Errorf("%s", body)
	}
	off := encoded(t, provider.Request{Model: provider.Model{Identity: provider.Identity{ModelID: "claude-opus-5"}}, Messages: []message.Message{user("a")}})
	if _, asked := off.Get("thinking"); asked {
		t.Errorf("%s", off)
	}
}

func TestWhatTheProviderRanIsToldBackToItAlone(t *testing.T) {
	folded := dialecttest.Fold(New(), provider.Request{Model: own}, corpus["what the provider ran"].Body).Settled
	messages := []message.Message{user("a"), folded, user("b")}
	body := string(grammar.Encode(provider.Request{Model: own, Messages: messages}))
	for _, block := range []string{`{"type":"server_tool_use","id":"s","name":"search","input":{"q":1}}`, `{"type":"search_tool_result","tool_use_id":"s","content":[1]}`} {
		if !strings.Contains(body, block) {
			t.Errorf("%s is not in %s", block, body)
		}
	}
	if other := string(grammar.Encode(provider.Request{Model: provider.Model{}, Messages: messages})); strings.Contains(other, "search") {
		t.Errorf("another model is told %s", other)
	}
	half := new(*folded)
	half.Content = append(half.Content[:1:1], half.Content[2:]...)
	if alone := string(grammar.Encode(provider.Request{Model: own, Messages: []message.Message{user("a"), half, user("b")}})); strings.Contains(alone, "server_tool_use") {
		t.Errorf("a use without its result is told: %s", alone)
	}
}
