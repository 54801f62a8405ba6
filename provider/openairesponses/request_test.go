package openairesponses

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
	if store, _ := body.Get("store"); store.String() != "false" {
		bad("the conversation would be stored")
	}
	input, _ := body.Get("input")
	if input.Len() == 0 {
		bad("no input")
	}
	seen, open, reasoning := map[string]bool{}, []string(nil), false
	for i, item := range input.Elems() {
		kind := dialect.Text(item, "type")
		if kind != "function_call" && kind != "function_call_output" && len(open) > 0 && kind != "reasoning" && dialect.Text(item, "role") != "assistant" {
			bad("item %d is a %s while the calls %v have no output", i, kind, open)
		}
		if reasoning && kind != "reasoning" && kind != "function_call" && dialect.Text(item, "role") != "assistant" {
			bad("item %d follows reasoning that led to nothing", i)
		}
		reasoning = kind == "reasoning"
		if id, named := item.Get("id"); named {
			bad("item %d names %s, which is not stored", i, id)
		}
		content, _ := item.Get("content")
		switch kind {
		case "message":
			if content.Len() == 0 {
				bad("message %d is empty", i)
			}
			for _, part := range content.Elems() {
				if text, ok := part.Get("text"); ok {
					if s, _ := text.Text(); dialect.Blank(s) {
						bad("message %d is blank", i)
					}
				}
			}
		case "reasoning":
			if dialect.Text(item, "encrypted_content") == "" {
				bad("reasoning without its content")
			}
		case "function_call":
			id := dialect.Text(item, "call_id")
			args, err := jsonv.ParseString(dialect.Text(item, "arguments"))
			if id == "" || len(id) > maxWireID || seen[id] || err != nil || args.Kind() != jsonv.Object || dialect.ToolName(dialect.Text(item, "name")) != dialect.Text(item, "name") {
				bad("the call %s", item)
			}
			seen[id] = true
			open = append(open, id)
		case "function_call_output":
			if len(open) == 0 || open[0] != dialect.Text(item, "call_id") {
				bad("the output %s, while %v wait", item, open)
			} else {
				open = open[1:]
			}
			if out, _ := item.Get("output"); out.Kind() == jsonv.Array && out.Len() == 0 || out.Kind() == jsonv.String && dialect.Blank(dialect.Text(item, "output")) {
				bad("an empty output")
			}
		default:
			bad("an item of the kind %q", kind)
		}
	}
	if len(open) > 0 || reasoning {
		bad("the end of %s", input)
	}
	return found
}

func BenchmarkTenThousandMessages(b *testing.B) { dialecttest.BenchmarkRequests(b, &grammar) }

var own = provider.Model{Identity: provider.Identity{Provider: "route", ModelID: "gpt"}, API: API}

func user(text string) *message.User {
	return &message.User{Content: []message.UserBlock{message.Text{Text: text}}}
}

func wrote(blocks ...message.AssistantBlock) *message.Assistant {
	return &message.Assistant{API: API, Model: own.ModelID, Content: blocks}
}

func TestTheRequestInFull(t *testing.T) {
	picture := message.Image{Data: "QUJD", MimeType: "image/png"}
	req := provider.Request{
		Model: own, System: "be brief", Thinking: provider.ThinkMedium, MaxOutput: 9,
		Tools: []provider.Tool{{Name: "read", Description: "reads"}},
		Messages: []message.Message{
			&message.User{Content: []message.UserBlock{message.Text{Text: "hi"}, picture}},
			wrote(message.Thinking{Thinking: "t", Signature: new("ENC")}, message.Text{Text: "a", Signature: new(`{"id":"m","phase":"commentary"}`)},
				message.ToolCall{ID: "c", Name: "read", Arguments: message.ParseArguments(`{"p":1.50}`)}, message.ToolCall{ID: "d", Name: "read", Arguments: jsonv.Obj()}),
			&message.ToolResult{ToolCallID: "c", ToolName: "read", IsError: true, Content: []message.ResultBlock{message.Text{Text: "no"}}},
			&message.ToolResult{ToolCallID: "d", ToolName: "read", Content: []message.ResultBlock{message.Text{Text: "see"}, picture}},
			wrote(message.Text{Text: "done"}, message.Thinking{Thinking: "leads to nothing", Signature: new("ENC2")}),
		},
	}
	const want = `{"model":"gpt","stream":true,"store":false,"include":["reasoning.encrypted_content"],"instructions":"be brief","max_output_tokens":9,"reasoning":{"effort":"medium","summary":"auto"},` +
		`"tools":[{"type":"function","name":"read","description":"reads","parameters":{"type":"object","properties":{}},"strict":false}],"input":[` +
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"},{"type":"input_image","image_url":"data:image/png;base64,QUJD","detail":"auto"}]},` +
		`{"type":"reasoning","summary":[{"type":"summary_text","text":"t"}],"encrypted_content":"ENC"},` +
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[]}],"phase":"commentary"},` +
		`{"type":"function_call","call_id":"c","name":"read","arguments":"{\"p\":1.50}"},{"type":"function_call","call_id":"d","name":"read","arguments":"{}"},` +
		`{"type":"function_call_output","call_id":"c","output":"{\"is_error\":true,\"content\":\"no\"}"},` +
		`{"type":"function_call_output","call_id":"d","output":[{"type":"input_text","text":"see"},{"type":"input_image","image_url":"data:image/png;base64,QUJD","detail":"auto"}]},` +
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done","annotations":[]}]}]}`
	if diff := cmp.Diff(want, string(grammar.Encode(req))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReasoningThatCannotBeToldIsLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		by   provider.Model
		b    message.Thinking
		told bool
	}{
		"the model's own":               {own, message.Thinking{Thinking: "t", Signature: new("ENC")}, true},
		"without its encrypted content": {own, message.Thinking{Thinking: "t"}, false},
		"of another model":              {provider.Model{Identity: provider.Identity{ModelID: "o3"}}, message.Thinking{Thinking: "t", Signature: new("ENC")}, false},
	} {
		body := string(grammar.Encode(provider.Request{Model: c.by, Messages: []message.Message{user("a"), wrote(c.b, message.Text{Text: "x"}), user("b")}}))
		if strings.Contains(body, `"encrypted_content":"ENC"`) != c.told || strings.Contains(body, `"reasoning"`) != c.told {
			t.Errorf("%s: %s", name, body)
		}
	}
}
