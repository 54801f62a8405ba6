package gemini

import (
	"fmt"
	"net/url"
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
	contents, _ := body.Get("contents")
	seen, open := map[string]bool{}, []string(nil)
	last := ""
	for i, c := range contents.Elems() {
		role := dialect.Text(c, "role")
		parts, _ := c.Get("parts")
		if role != "user" && role != "model" || i == 0 && role != "user" || role == "model" && last == "model" || parts.Len() == 0 {
			bad("content %d of %s: %s", i, role, c)
		}
		if len(open) > 0 && (role != "user" || parts.Len() != len(open)) {
			bad("content %d has %d parts for the calls %v", i, parts.Len(), open)
		}
		waiting := len(open) > 0
		for _, p := range parts.Elems() {
			call, isCall := p.Get("functionCall")
			response, isResponse := p.Get("functionResponse")
			text, isText := p.Get("text")
			switch {
			case isCall:
				args, _ := call.Get("args")
				id := dialect.Text(call, "id")
				if role != "model" || id == "" || seen[id] || args.Kind() != jsonv.Object || dialect.ToolName(dialect.Text(call, "name")) != dialect.Text(call, "name") {
					bad("the call %s", p)
				}
				if len(open) == 0 && dialect.Text(p, "thoughtSignature") == "" {
					bad("the first call is not signed: %s", p) // unless a later one is: then that is the provider's own order
					if strings.Contains(c.String(), dialecttest.Own) {
						found = found[:len(found)-1]
					}
				}
				seen[id] = true
				open = append(open, id)
			case isResponse:
				if !waiting || len(open) == 0 || open[0] != dialect.Text(response, "id") {
					bad("the response %s, while %v wait", p, open)
				} else {
					open = open[1:]
				}
			case isText:
				if s, _ := text.Text(); dialect.Blank(s) && dialect.Text(p, "thoughtSignature") == "" {
					bad("a blank part of content %d", i)
				}
				if waiting {
					bad("content %d mixes text and responses", i)
				}
				if thought, _ := p.Get("thought"); thought.String() == "true" && dialect.Text(p, "thoughtSignature") == "" {
					bad("a thought without its signature")
				}
			}
		}
		last = role
	}
	if last != "user" || len(open) > 0 {
		bad("the end of %s", contents)
	}
	return found
}

func BenchmarkTenThousandMessages(b *testing.B) { dialecttest.BenchmarkRequests(b, &grammar) }

var own = provider.Model{Identity: provider.Identity{Provider: "route", ModelID: "gemini-3-pro"}, API: API}

func user(text string) *message.User {
	return &message.User{Content: []message.UserBlock{message.Text{Text: text}}}
}

func wrote(blocks ...message.AssistantBlock) *message.Assistant {
	return &message.Assistant{API: API, Model: own.ModelID, Content: blocks}
}

func TestTheRequestInFull(t *testing.T) {
	picture := message.Image{Data: "QUJD", MimeType: "image/png"}
	req := provider.Request{
		Model: own, System: "be brief", Thinking: provider.ThinkHigh, MaxOutput: 9,
		Tools: []provider.Tool{{Name: "read", Description: "reads"}},
		Messages: []message.Message{
			&message.User{Content: []message.UserBlock{message.Text{Text: "hi"}, picture, message.Image{Data: "QUJD", MimeType: "image/bmp"}}},
			wrote(message.Thinking{Thinking: "t"}, message.Thinking{Thinking: "u", Signature: new("S0")}, message.Text{Text: "a", Signature: new("S1")},
				message.ToolCall{ID: "c", Name: "read", Arguments: message.ParseArguments(`{"p":1.50}`), ThoughtSignature: new("S2")}, message.ToolCall{ID: "d", Name: "read", Arguments: jsonv.Obj()}),
			&message.ToolResult{ToolCallID: "c", ToolName: "read", IsError: true, Content: []message.ResultBlock{message.Text{Text: "no"}}},
			&message.ToolResult{ToolCallID: "d", ToolName: "read", Content: []message.ResultBlock{picture}},
			user("and now?"),
			&message.Assistant{Model: "other", Content: []message.AssistantBlock{message.ToolCall{ID: "e", Name: "read", Arguments: jsonv.Obj(), ThoughtSignature: new("OTHER")}}},
			&message.ToolResult{ToolCallID: "e", ToolName: "read"},
		},
	}
	const want = `{"systemInstruction":{"parts":[{"text":"be brief"}]},"tools":[{"functionDeclarations":[{"name":"read","description":"reads","parametersJsonSchema":{"type":"object","properties":{}}}]}],` +
		`"generationConfig":{"maxOutputTokens":9,"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"high"}},"contents":[` +
		`{"role":"user","parts":[{"text":"hi"},{"inlineData":{"mimeType":"image/png","data":"QUJD"}},{"text":"(a picture of the type image/bmp was left out: this model cannot be shown one)"}]},` +
		`{"role":"model","parts":[{"text":"u","thought":true,"thoughtSignature":"S0"},{"text":"a","thoughtSignature":"S1"},{"functionCall":{"id":"c","name":"read","args":{"p":1.50}},"thoughtSignature":"S2"},{"functionCall":{"id":"d","name":"read","args":{}}}]},` +
		`{"role":"user","parts":[{"functionResponse":{"id":"c","name":"read","response":{"error":"no"}}},{"functionResponse":{"id":"d","name":"read","response":{"output":"(the output is the picture that follows)"}}}]},` +
		`{"role":"user","parts":[{"text":"Pictures from the output of the tool read (call d):"},{"inlineData":{"mimeType":"image/png","data":"QUJD"}},{"text":"and now?"}]},` +
		`{"role":"model","parts":[{"functionCall":{"id":"e","name":"read","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]},` +
		`{"role":"user","parts":[{"functionResponse":{"id":"e","name":"read","response":{"output":"(no output)"}}}]}]}`
	if diff := cmp.Diff(want, string(grammar.Encode(req))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReasoningIsAskedForInTheWordsOfTheModel(t *testing.T) {
	for _, c := range []struct {
		model string
		level provider.Thinking
		want  string
	}{
		{"gemini-2.5-flash", provider.ThinkLow, `{"includeThoughts":true,"thinkingBudget":2048}`},
		{"gemini-2.5-pro", provider.ThinkMax, `{"includeThoughts":true,"thinkingBudget":24576}`},
		{"gemini-3-flash", provider.ThinkMinimal, `{"includeThoughts":true,"thinkingLevel":"low"}`},
		{"gemini-3-pro", provider.ThinkMedium, `{"includeThoughts":true,"thinkingLevel":"medium"}`},
		{"gemini-3-pro", provider.ThinkOff, ``},
	} {
		v, err := jsonv.Parse(grammar.Encode(provider.Request{Model: provider.Model{Identity: provider.Identity{ModelID: c.model}}, Thinking: c.level}))
		if err != nil {
			t.Fatal(err)
		}
		config, _ := v.Get("generationConfig")
		got := ""
		if thinking, ok := config.Get("thinkingConfig"); ok {
			got = thinking.String()
		}
		if got != c.want {
			t.Errorf("%s at %s: %s, want %s", c.model, c.level, got, c.want)
		}
	}
}

func TestTheModelIsInTheAddress(t *testing.T) {
	base, err := url.Parse("https://host/v1beta")
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		"gemini-3-pro":     "https://host/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse",
		"tunedModels/mine": "https://host/v1beta/tunedModels/mine:streamGenerateContent?alt=sse",
		"a?b#c":            "https://host/v1beta/models/a%3Fb%23c:streamGenerateContent?alt=sse",
	} {
		if got := New().URL(base, provider.Model{Identity: provider.Identity{ModelID: id}}).String(); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}
