package openaichat

import (
	"encoding/json"
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

func user(blocks ...message.UserBlock) *message.User { return &message.User{Content: blocks} }

func assistant(blocks ...message.AssistantBlock) *message.Assistant {
	return &message.Assistant{Content: blocks, StopReason: message.Stop}
}

func result(id string, isError bool, blocks ...message.ResultBlock) *message.ToolResult {
	return &message.ToolResult{ToolCallID: id, ToolName: "tool", IsError: isError, Content: blocks}
}

func said(s string) message.Text { return message.Text{Text: s} }

func called(id, name, args string) message.ToolCall {
	return message.ToolCall{ID: id, Name: name, Arguments: message.ParseArguments(args)}
}

// encodedMessages is the messages field of the encoded request, one JSON text for each.
func encodedMessages(t *testing.T, req provider.Request) []string {
	t.Helper()
	var body struct {
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(grammar.Encode(req), &body); err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, m := range body.Messages {
		out = append(out, string(m))
	}
	return out
}

func TestMessagesAreMappedToTurns(t *testing.T) {
	human, err := message.Human("ada", "Ada")
	if err != nil {
		t.Fatal(err)
	}
	picture := message.Image{Data: "QUJD", MimeType: "image/png"}
	const pictureJSON = `{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}`
	longID := strings.Repeat("x", 60)
	for _, c := range []struct {
		name     string
		messages []message.Message
		want     []string
	}{
		{"text of a person", []message.Message{user(said("hi"))}, []string{`{"role":"user","content":"hi"}`}},
		{"several texts", []message.Message{user(said("a"), said("b"))}, []string{`{"role":"user","content":"a\n\nb"}`}},
		{"empty text is left out", []message.Message{user(said("   "), said("still there?"))}, []string{`{"role":"user","content":"still there?"}`}},
		{"a turn of nothing is left out", []message.Message{user(said("")), user()}, []string{}},
		{"pictures make typed parts", []message.Message{user(said("see"), picture, said(" "))},
			[]string{`{"role":"user","content":[{"type":"text","text":"see"},` + pictureJSON + `]}`}},
		{"an origin is told in front", []message.Message{&message.User{Content: []message.UserBlock{said("hi")}, Origin: &human}},
			[]string{`{"role":"user","content":` + quoted(message.Project(&message.User{Origin: &human})[0].(message.Text).Text+"\n\nhi") + `}`}},
		{"an answer", []message.Message{assistant(said("a"))}, []string{`{"role":"assistant","content":"a"}`}},
		{"reasoning is not replayed", []message.Message{assistant(message.Thinking{Thinking: "t"}, said("a"))}, []string{`{"role":"assistant","content":"a"}`}},
		{"an answer of nothing is left out", []message.Message{assistant(), assistant(said("")), assistant(message.Thinking{Thinking: "t"})}, []string{}},
		{"calls and their results", []message.Message{
			assistant(said("a"), called("1", "x", `{"p":1.50}`), called("2", "y", "")), result("1", false, said("one")), result("2", true, said("two"))},
			[]string{
				`{"role":"assistant","content":"a","tool_calls":[{"id":"1","type":"function","function":{"name":"x","arguments":"{\"p\":1.50}"}},{"id":"2","type":"function","function":{"name":"y","arguments":"{}"}}]}`,
				`{"role":"tool","tool_call_id":"1","content":"one"}`,
				`{"role":"tool","tool_call_id":"2","content":"[tool error]\ntwo"}`}},
		{"calls without text, and without a result", []message.Message{assistant(called("1", "x", ""))},
			[]string{`{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"x","arguments":"{}"}}]}`,
				`{"role":"tool","tool_call_id":"1","content":"[tool error]\n` + dialect.NoResult + `"}`}},
		{"a result of nothing", []message.Message{assistant(called("1", "x", ""), called("2", "x", "")), result("1", false), result("2", true, said(" "))},
			[]string{asked("1", "2"), `{"role":"tool","tool_call_id":"1","content":"(no output)"}`, `{"role":"tool","tool_call_id":"2","content":"[tool error]\n(no output)"}`}},
		{"pictures of results follow their whole batch", []message.Message{assistant(called("1", "x", ""), called("2", "x", ""), called("3", "x", "")), result("1", false, said("one"), picture), result("2", false, picture, picture), result("3", false, said("three")), user(said("go"))},
			[]string{
				asked("1", "2", "3"),
				`{"role":"tool","tool_call_id":"1","content":"one"}`,
				`{"role":"tool","tool_call_id":"2","content":"(the output is the picture that follows)"}`,
				`{"role":"tool","tool_call_id":"3","content":"three"}`,
				`{"role":"user","content":[{"type":"text","text":"Pictures from the output of the tool tool (call 1):"},` + pictureJSON +
					`,{"type":"text","text":"Pictures from the output of the tool tool (call 2):"},` + pictureJSON + `,` + pictureJSON + `]}`,
				`{"role":"user","content":"go"}`}},
		{"an application's own message is not sent", []message.Message{&message.Custom{Schema: "s", Payload: jsonv.Str("x")}}, []string{}},
		{"ids and names that the dialect would refuse", []message.Message{assistant(called(longID, "a.b c/ü", ""), called("ok", strings.Repeat("n", 70), ""), called("no", "", "")), result(longID, false, said("r")), result("ok", false), result("no", false)},
			[]string{
				`{"role":"assistant","content":null,"tool_calls":[{"id":"` + wireID(longID) + `","type":"function","function":{"name":"a_b_c__","arguments":"{}"}},` +
					`{"id":"ok","type":"function","function":{"name":"` + strings.Repeat("n", 64) + `","arguments":"{}"}},{"id":"no","type":"function","function":{"name":"unnamed_tool","arguments":"{}"}}]}`,
				`{"role":"tool","tool_call_id":"` + wireID(longID) + `","content":"r"}`,
				`{"role":"tool","tool_call_id":"ok","content":"(no output)"}`, `{"role":"tool","tool_call_id":"no","content":"(no output)"}`}},
		{"what stood between calls and results moves behind them", []message.Message{assistant(called("1", "x", ""), called("2", "x", "")), result("2", false), user(said("between")), result("1", false)},
			[]string{asked("1", "2"), `{"role":"tool","tool_call_id":"1","content":"(no output)"}`, `{"role":"tool","tool_call_id":"2","content":"(no output)"}`,
				`{"role":"user","content":"between"}`}},
		{"a call that is repeated in one answer is told once, with its first result", []message.Message{assistant(called("1", "x", ""), called("1", "y", "")), result("1", false, said("done")), result("1", true, said("aborted"))},
			[]string{asked("1"), `{"role":"tool","tool_call_id":"1","content":"done"}`}},
		{"an id that comes again in a later answer is another", []message.Message{assistant(called("1", "x", "")), result("1", false, said("a")), assistant(called("1", "x", "")), result("1", false, said("b"))},
			[]string{asked("1"), `{"role":"tool","tool_call_id":"1","content":"a"}`, asked("1_2"), `{"role":"tool","tool_call_id":"1_2","content":"b"}`}},
		{"a result without a call is left out", []message.Message{user(said("hi")), result("1", false, said("r"))}, []string{`{"role":"user","content":"hi"}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := encodedMessages(t, provider.Request{Model: testModel, Messages: c.messages})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if id := wireID(longID); len(id) > maxWireID || id == wireID(longID+"y") {
		t.Errorf("the short form of a long id is %q", id)
	}
}

// asked is an answer of nothing but calls of the tool x.
func asked(ids ...string) string {
	var calls []string
	for _, id := range ids {
		calls = append(calls, `{"id":"`+id+`","type":"function","function":{"name":"x","arguments":"{}"}}`)
	}
	return `{"role":"assistant","content":null,"tool_calls":[` + strings.Join(calls, ",") + `]}`
}

func quoted(s string) string { return jsonv.Str(s).String() }

func TestTheRequestAsksForAStreamWithUsage(t *testing.T) {
	schema, err := jsonv.ParseString(`{"type":"object","properties":{"path":{"type":"string"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	got := string(grammar.Encode(provider.Request{
		Model: testModel, System: "be brief", MaxOutput: 5,
		Tools:    []provider.Tool{{Name: "read", Description: "reads", Schema: schema}, {Name: "ls"}},
		Messages: []message.Message{user(said("hi"))},
	}))
	want := `{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":5,"tools":[` +
		`{"type":"function","function":{"name":"ls","parameters":{"type":"object","properties":{}}}},` +
		`{"type":"function","function":{"name":"read","description":"reads","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}}],` +
		`"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	bare := string(grammar.Encode(provider.Request{Model: testModel}))
	if want := `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]}`; bare != want {
		t.Errorf("got %s, want %s", bare, want)
	}
}

func TestRequestsOfAnyConversationAreValid(t *testing.T) { dialecttest.Requests(t, &grammar, defects) }

// defects says what the dialect would refuse in a request.
func defects(body jsonv.Value) (found []string) {
	bad := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	messages, _ := body.Get("messages")
	var open []string // calls that wait for their results
	seen := map[string]bool{}
	for i, m := range messages.Elems() {
		role := dialect.Text(m, "role")
		if role != "tool" && len(open) > 0 {
			bad("message %d is a %s while the calls %v have no result", i, role, open)
			open = nil
		}
		content, _ := m.Get("content")
		calls, called := m.Get("tool_calls")
		switch role {
		case "assistant":
			if s, _ := content.Text(); dialect.Blank(s) && !called {
				bad("message %d says nothing", i)
			}
			for _, c := range calls.Elems() {
				id := dialect.Text(c, "id")
				function, _ := c.Get("function")
				if id == "" || len(id) > maxWireID || seen[id] {
					bad("the call id %q is empty, too long or used again", id)
				}
				if name := dialect.Text(function, "name"); name == "" || name != dialect.ToolName(name) {
					bad("the tool name %q", name)
				}
				if args, err := jsonv.ParseString(dialect.Text(function, "arguments")); err != nil || args.Kind() != jsonv.Object {
					bad("arguments that are no object: %s", c)
				}
				seen[id] = true
				open = append(open, id)
			}
		case "tool":
			id := dialect.Text(m, "tool_call_id")
			if len(open) == 0 || open[0] != id {
				bad("message %d answers %q, and %v wait", i, id, open)
			} else {
				open = open[1:]
			}
			if s, _ := content.Text(); dialect.Blank(s) {
				bad("result %d says nothing", i)
			}
		case "user", "system":
			if s, isText := content.Text(); isText && dialect.Blank(s) || !isText && content.Len() == 0 {
				bad("message %d says nothing", i)
			}
		default:
			bad("the role %q", role)
		}
	}
	if len(open) > 0 {
		bad("the calls %v have no result at the end", open)
	}
	return found
}

func BenchmarkTenThousandMessages(b *testing.B) { dialecttest.BenchmarkRequests(b, &grammar) }

func BenchmarkFold(b *testing.B) {
	events := []string{delta(`"role":"assistant","content":""`)}
	for range 1000 {
		events = append(events, `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}`)
	}
	body := stream(append(events, finish("stop"), "[DONE]")...)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if a := foldStream(provider.Request{Model: testModel}, body); a.Failure != nil {
			b.Fatal(a.Failure)
		}
	}
}
