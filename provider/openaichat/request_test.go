package openaichat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
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
	if err := json.Unmarshal(encode(req), &body); err != nil {
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
		{"calls without text", []message.Message{assistant(called("1", "x", ""))},
			[]string{`{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"x","arguments":"{}"}}]}`}},
		{"a result of nothing", []message.Message{result("1", false), result("2", true, said(" "))},
			[]string{`{"role":"tool","tool_call_id":"1","content":"(no output)"}`, `{"role":"tool","tool_call_id":"2","content":"[tool error]\n(no output)"}`}},
		{"pictures of results follow their whole batch", []message.Message{result("1", false, said("one"), picture), result("2", false, picture, picture), result("3", false, said("three")), user(said("go"))},
			[]string{
				`{"role":"tool","tool_call_id":"1","content":"one"}`,
				`{"role":"tool","tool_call_id":"2","content":"(the output is the picture that follows)"}`,
				`{"role":"tool","tool_call_id":"3","content":"three"}`,
				`{"role":"user","content":[{"type":"text","text":"Pictures from the output of the tool tool (call 1):"},` + pictureJSON +
					`,{"type":"text","text":"Pictures from the output of the tool tool (call 2):"},` + pictureJSON + `,` + pictureJSON + `]}`,
				`{"role":"user","content":"go"}`}},
		{"an application's own message is not sent", []message.Message{&message.Custom{Schema: "s", Payload: jsonv.Str("x")}}, []string{}},
		{"ids and names that the dialect would refuse", []message.Message{assistant(called(longID, "a.b c/ü", ""), called("ok", strings.Repeat("n", 70), ""), called("no", "", "")), result(longID, false, said("r"))},
			[]string{
				`{"role":"assistant","content":null,"tool_calls":[{"id":"` + wireID(longID) + `","type":"function","function":{"name":"a_b_c__","arguments":"{}"}},` +
					`{"id":"ok","type":"function","function":{"name":"` + strings.Repeat("n", 64) + `","arguments":"{}"}},{"id":"no","type":"function","function":{"name":"unnamed_tool","arguments":"{}"}}]}`,
				`{"role":"tool","tool_call_id":"` + wireID(longID) + `","content":"r"}`}},
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

func quoted(s string) string { return jsonv.Str(s).String() }

func TestTheRequestAsksForAStreamWithUsage(t *testing.T) {
	schema, err := jsonv.ParseString(`{"type":"object","properties":{"path":{"type":"string"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	got := string(encode(provider.Request{
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
	bare := string(encode(provider.Request{Model: testModel}))
	if want := `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]}`; bare != want {
		t.Errorf("got %s, want %s", bare, want)
	}
}

// conversations draws settled histories: every call is followed by its result.
func conversations() *rapid.Generator[[]message.Message] {
	text := rapid.Map(rapid.String(), said)
	return rapid.Custom(func(t *rapid.T) []message.Message {
		var out []message.Message
		for i := range rapid.IntRange(0, 6).Draw(t, "turns") {
			out = append(out, user(text.Draw(t, "prompt")))
			answer := assistant(text.Draw(t, "answer"))
			out = append(out, answer)
			for j := range rapid.IntRange(0, 3).Draw(t, "calls") {
				id := fmt.Sprintf("c%d-%d", i, j)
				answer.Content = append(answer.Content, called(id, rapid.String().Draw(t, "name"), rapid.String().Draw(t, "args")))
				r := result(id, rapid.Bool().Draw(t, "failed"), text.Draw(t, "result"))
				if rapid.Bool().Draw(t, "pictured") {
					r.Content = append(r.Content, message.Image{Data: "QUJD", MimeType: "image/png"})
				}
				out = append(out, r)
			}
		}
		return out
	})
}

func TestALaterRequestBeginsWithTheBytesOfTheEarlierOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := conversations().Draw(t, "messages")
		tools := []provider.Tool{{Name: "a"}, {Name: "b"}, {Name: "c"}}
		req := provider.Request{Model: testModel, System: "s", Messages: messages, Tools: tools}
		full := encode(req)
		if _, err := jsonv.Parse(full); err != nil {
			t.Fatalf("the request is not strict JSON: %v", err)
		}
		var turns []int // where a turn begins
		for i, m := range messages {
			if _, ok := m.(*message.User); ok {
				turns = append(turns, i)
			}
		}
		for _, end := range turns {
			req.Messages = messages[:end]
			req.Tools = rapid.Permutation(tools).Draw(t, "tools")
			early := bytes.TrimSuffix(encode(req), []byte("]}"))
			if !bytes.HasPrefix(full, early) {
				t.Fatalf("%s\nis no prefix of\n%s", early, full)
			}
		}
	})
}

func TestTheSizeHintHoldsForOrdinaryText(t *testing.T) {
	req := provider.Request{Model: testModel, Messages: longConversation(200)}
	if body := encode(req); len(body) > sizeHint(req) {
		t.Errorf("%d bytes, hinted %d: a large request is copied while it grows", len(body), sizeHint(req))
	}
}

func TestWhatIsRememberedDoesNotChangeTheRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := conversations().Draw(t, "messages")
		request := func(name string) provider.Request {
			req := provider.Request{Model: testModel, System: rapid.SampledFrom([]string{"", "s"}).Draw(t, name+" system")}
			req.Messages = slices.Clone(messages[:rapid.IntRange(0, len(messages)).Draw(t, name+" length")])
			if n := len(req.Messages); n > 0 && rapid.Bool().Draw(t, name+" departs") {
				req.Messages[rapid.IntRange(0, n-1).Draw(t, name+" at")] = user(said(rapid.String().Draw(t, name+" says")))
			}
			return req
		}
		var earlier *encoding
		for range 4 {
			req := request("request")
			next := newEncoding(req, earlier)
			if got, want := string(next.close()), string(encode(req)); got != want {
				t.Fatalf("remembering changes the request\n got %s\nwant %s", got, want)
			}
			if earlier != nil {
				again := provider.Request{Model: testModel, Messages: earlier.messages}
				if head := string(encodeHead(nil, again)); head == string(earlier.body[:earlier.head]) && string(earlier.close()) != string(encode(again)) {
					t.Fatal("the remembered request was changed by the next one")
				}
			}
			earlier = next
		}
	})
}

func TestOnlySomeLargeRequestsAreRemembered(t *testing.T) {
	var h history
	body := func(messages []message.Message) {
		t.Helper()
		req := provider.Request{Model: testModel, Messages: messages}
		if got := string(h.encode(req)); got != string(encode(req)) {
			t.Fatal("remembering changes the request")
		}
	}
	body(longConversation(4))
	if len(h.list) != 0 {
		t.Error("a small request is remembered")
	}
	growing := longConversation(800)
	for n := 600; n <= 800; n += 50 {
		body(growing[:n])
	}
	if len(h.list) != 1 || len(h.list[0].messages) != 800 {
		t.Errorf("a growing conversation is remembered %d times", len(h.list))
	}
	for range 10 {
		body(longConversation(200))
	}
	if len(h.list) != maxHistories {
		t.Errorf("%d conversations are remembered", len(h.list))
	}
	huge := []message.Message{user(said(strings.Repeat("x", maxRemembered)))}
	body(huge)
	total := 0
	for _, e := range h.list {
		total += len(e.body)
	}
	if total > maxRemembered {
		t.Errorf("%d bytes are remembered", total)
	}
}

// longConversation has n messages of about 500 bytes.
func longConversation(n int) []message.Message {
	line := strings.Repeat("the quick brown fox \"jumps\" over\n", 15)
	var out []message.Message
	for i := 0; len(out) < n; i++ {
		id := fmt.Sprintf("call_%d", i)
		out = append(out, user(said(line)), assistant(said(line), called(id, "read", `{"path":"main.go"}`)), result(id, false, said(line)), assistant(said(line)))
	}
	return out[:n]
}

func BenchmarkEncodeTenThousandMessages(b *testing.B) {
	req := provider.Request{Model: testModel, System: "s", Messages: longConversation(10_000)}
	b.SetBytes(int64(len(encode(req))))
	b.ReportAllocs()
	for b.Loop() {
		encode(req)
	}
}

// BenchmarkNextTurnOfTenThousandMessages is the encoding of a request whose predecessor is remembered.
func BenchmarkNextTurnOfTenThousandMessages(b *testing.B) {
	req := provider.Request{Model: testModel, System: "s", Messages: longConversation(10_000)}
	var h history
	b.SetBytes(int64(len(h.encode(req))))
	b.ReportAllocs()
	for b.Loop() {
		req.Messages = append(req.Messages[:len(req.Messages)-1:len(req.Messages)-1], user(said("next")))
		h.encode(req)
	}
}

func BenchmarkFold(b *testing.B) {
	events := []string{delta(`"role":"assistant","content":""`)}
	for range 1000 {
		events = append(events, `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}`)
	}
	body := stream(append(events, finish("stop"), "[DONE]")...)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if a := foldStream(provider.Request{Model: testModel}, body); a.failure != nil {
			b.Fatal(a.failure)
		}
	}
}
