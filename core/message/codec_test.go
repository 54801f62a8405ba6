package message_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

func encode(m message.Message) string {
	var w jsonv.Writer
	message.Append(&w, m)
	return string(w.Bytes())
}

func decode(text string) (message.Message, error) {
	v, err := jsonv.ParseString(text)
	if err != nil {
		return nil, err
	}
	return message.Decode(v)
}

// roundTrip demands that m is written as JSON and read back the same, text for text.
func roundTrip(t fataler, m message.Message) {
	t.Helper()
	text := encode(m)
	if !jsontext.Value(text).IsValid() {
		t.Fatalf("%s is not JSON", text)
	}
	got, err := decode(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if d := coretest.Diff(m, got); d != "" || encode(got) != text {
		t.Fatalf("%s is written again as %s\n%s", text, encode(got), d)
	}
}

func TestEveryMessageReadsBackAsItWasWritten(t *testing.T) {
	for name, g := range map[string]*rapid.Generator[message.Message]{
		"user": widened(coretest.User()), "assistant": widened(coretest.Assistant()), "toolResult": widened(coretest.ToolResult()), "custom": widened(coretest.CustomMessage()),
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { roundTrip(t, g.Draw(t, "message")) })
		})
	}
}

func widened[M message.Message](g *rapid.Generator[M]) *rapid.Generator[message.Message] {
	return rapid.Map(g, func(m M) message.Message { return m })
}

func TestAStreamingResponseReadsBackToo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := coretest.Assistant().Draw(t, "message")
		m.StopReason, m.Deferred = message.Pending, nil
		roundTrip(t, m)
	})
}

func TestHandlesReadBackAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := coretest.Handle().Draw(t, "handle")
		var w jsonv.Writer
		message.AppendHandle(&w, want)
		got, err := message.DecodeHandle(w.Tree())
		if d := coretest.Diff(want, got); d != "" || err != nil {
			t.Fatal(err, d)
		}
	})
}

const (
	noUsage = `{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0.0,"output":0.0,"cacheRead":0.0,"cacheWrite":0.0,"total":0.0},` +
		`"evidence":{"version":1,"tokens":"complete","billing":"no-provider","cost":{"kind":"no-expense"}}}`
	user      = `{"role":"user","content":[{"type":"text","text":"hi"}],"timestamp":5,"origin":null}`
	assistant = `{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"ls","arguments":{}}],"api":"a","provider":"p","model":"m","usage":` + noUsage + `,"stopReason":"stop","timestamp":5}`
	result    = `{"role":"toolResult","toolCallId":"c","toolName":"ls","content":[],"isError":false,"timestamp":5}`
	custom    = `{"role":"custom","schema":"s","payload":null}`
	handle    = `{"provider":"p","modelId":"m","api":"a","id":"i"}`
)

// with replaces a piece of a text that has it once.
func with(t *testing.T, text, old, new string) string {
	t.Helper()
	if strings.Count(text, old) != 1 {
		t.Fatalf("%q is not once in %s", old, text)
	}
	return strings.Replace(text, old, new, 1)
}

func TestFormsThatAreReadButNotWritten(t *testing.T) {
	for name, c := range map[string][2]string{
		"content as one string":        {with(t, user, `[{"type":"text","text":"hi"}]`, `"hi"`), user},
		"no origin at all":             {with(t, user, `,"origin":null`, ``), user},
		"unknown fields":               {with(t, user, `"hi"`, `"hi","x":[{}]`), user},
		"null for what is absent":      {with(t, assistant, `"model":"m"`, `"model":"m","responseModel":null,"endTurn":null,"deferred":null,"errorMessage":null`), assistant},
		"fields in another order":      {`{"payload":null,"schema":"s","role":"custom"}`, custom},
		"redacted spelt out":           {with(t, assistant, `{"type":"toolCall","id":"c","name":"ls","arguments":{}}`, `{"type":"thinking","thinking":"","redacted":false}`), with(t, assistant, `{"type":"toolCall","id":"c","name":"ls","arguments":{}}`, `{"type":"thinking","thinking":""}`)},
		"no tool names is not no list": {with(t, result, `"isError"`, `"addedToolNames":[],"isError"`), with(t, result, `"isError"`, `"addedToolNames":[],"isError"`)},
		"tool names of null":           {with(t, result, `"isError"`, `"addedToolNames":null,"isError"`), result},
		"details of null are details":  {with(t, result, `"isError"`, `"details":null,"isError"`), with(t, result, `"isError"`, `"details":null,"isError"`)},
		"a handle beside another end":  {with(t, assistant, `"stopReason":"stop"`, `"stopReason":"stop","deferred":`+handle), with(t, assistant, `"stopReason":"stop"`, `"stopReason":"stop","deferred":`+handle)},
	} {
		m, err := decode(c[0])
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := encode(m); got != c[1] {
			t.Errorf("%s: is written as %s, want %s", name, got, c[1])
		}
	}
}

func TestMessagesThatAreRefused(t *testing.T) {
	image := `{"type":"image","data":"AA==","mimeType":"image/png"}`
	call := `{"type":"toolCall","id":"c","name":"ls","arguments":{}}`
	thinking := `{"type":"thinking","thinking":"hm"}`
	text := `{"type":"text","text":"hi"}`
	for name, c := range map[string]struct{ text, subject string }{
		"no object":                      {`[]`, "value"},
		"no role":                        {`{}`, "role"},
		"an unknown role":                {`{"role":"system","content":[]}`, "role"},
		"a role in capitals":             {with(t, user, `"user"`, `"User"`), "role"},
		"a role of a number":             {`{"role":1}`, "role"},
		"no content":                     {with(t, user, `"content":[{"type":"text","text":"hi"}],`, ``), "content"},
		"content of null":                {with(t, user, `[{"type":"text","text":"hi"}]`, `null`), "content"},
		"a block of text":                {with(t, user, text, `"hi"`), "content[0].value"},
		"a block without type":           {with(t, user, text, `{"text":"hi"}`), "content[0].type"},
		"an unknown block":               {with(t, user, text, `{"type":"audio"}`), "content[0].type"},
		"a text without text":            {with(t, user, text, `{"type":"text"}`), "content[0].text"},
		"a text of null":                 {with(t, user, text, text+`,{"type":"text","text":null}`), "content[1].text"},
		"thinking in a user message":     {with(t, user, text, thinking), "content[0].type"},
		"a call in a user message":       {with(t, user, text, call), "content[0].type"},
		"an image in a response":         {with(t, assistant, call, image), "content[0].type"},
		"a call in a result":             {with(t, result, `[]`, `[`+call+`]`), "content[0].type"},
		"thinking in a result":           {with(t, result, `[]`, `[`+thinking+`]`), "content[0].type"},
		"an image without a type":        {with(t, user, text, `{"type":"image","data":"AA=="}`), "content[0].mimeType"},
		"redacted in words":              {with(t, assistant, call, `{"type":"thinking","thinking":"","redacted":"yes"}`), "content[0].redacted"},
		"a signature of a number":        {with(t, assistant, call, `{"type":"thinking","thinking":"","thinkingSignature":1}`), "content[0].thinkingSignature"},
		"a call without arguments":       {with(t, assistant, `,"arguments":{}`, ``), "content[0].arguments"},
		"arguments of null":              {with(t, assistant, `"arguments":{}`, `"arguments":null`), "content[0].arguments"},
		"arguments in a string":          {with(t, assistant, `"arguments":{}`, `"arguments":"{}"`), "content[0].arguments"},
		"arguments in an array":          {with(t, assistant, `"arguments":{}`, `"arguments":[{}]`), "content[0].arguments"},
		"a time with a fraction":         {with(t, user, `"timestamp":5`, `"timestamp":5.0`), "timestamp"},
		"no time":                        {with(t, user, `"timestamp":5,`, ``), "timestamp"},
		"an empty origin":                {with(t, user, `"origin":null`, `"origin":{}`), "origin.value"},
		"a response without usage":       {with(t, assistant, `"usage":`+noUsage+`,`, ``), "usage"},
		"malformed usage":                {with(t, assistant, noUsage, `{"input":0}`), "usage.output"},
		"no stop reason":                 {with(t, assistant, `"stopReason":"stop",`, ``), "stopReason"},
		"an unknown stop reason":         {with(t, assistant, `"stopReason":"stop"`, `"stopReason":"tool_use"`), "stopReason"},
		"deferred without a handle":      {with(t, assistant, `"stopReason":"stop"`, `"stopReason":"deferred"`), "deferred"},
		"deferred to nothing":            {with(t, assistant, `"stopReason":"stop"`, `"stopReason":"deferred","deferred":null`), "deferred"},
		"half a handle":                  {with(t, assistant, `"stopReason":"stop"`, `"stopReason":"deferred","deferred":{"provider":"p"}`), "deferred.modelId"},
		"a handle that expires in words": {with(t, assistant, `"stopReason":"stop"`, `"stopReason":"deferred","deferred":`+with(t, handle, `"id":"i"`, `"id":"i","expiresAt":"soon"`)), "deferred.expiresAt"},
		"an end in words":                {with(t, assistant, `"stopReason":"stop"`, `"stopReason":"stop","endTurn":"yes"`), "endTurn"},
		"a result without isError":       {with(t, result, `"isError":false,`, ``), "isError"},
		"isError of null":                {with(t, result, `"isError":false`, `"isError":null`), "isError"},
		"a result without a call":        {with(t, result, `"toolCallId":"c",`, ``), "toolCallId"},
		"a result in a string":           {with(t, result, `"content":[]`, `"content":"done"`), "content"},
		"tool names that are none":       {with(t, result, `"isError"`, `"addedToolNames":["a",1],"isError"`), "addedToolNames[1]"},
		"a custom message without more":  {`{"role":"custom","schema":"s"}`, "payload"},
		"a custom message without name":  {`{"role":"custom","payload":1}`, "schema"},
	} {
		m, err := decode(c.text)
		r, ok := corrupt.As(err)
		if !ok {
			t.Errorf("%s: %s reads as %v, %v", name, c.text, m, err)
		} else if r.Subject != c.subject {
			t.Errorf("%s: the report is about %q, want %q (%v)", name, r.Subject, c.subject, r)
		}
	}
}

func TestUserBlocksReadAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := coretest.UserBlock().Draw(t, "block")
		var w jsonv.Writer
		message.AppendBlock(&w, want)
		got, err := message.DecodeUserBlock(w.Tree())
		if d := coretest.Diff(want, got); d != "" || err != nil {
			t.Fatal(err, d)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		var w jsonv.Writer
		message.AppendBlock(&w, coretest.ToolCall().Draw(t, "block"))
		if b, err := message.DecodeUserBlock(w.Tree()); err == nil {
			t.Fatalf("a call was read as %v", b)
		}
	})
}

func TestACallWithoutArgumentsIsWrittenWithNone(t *testing.T) {
	m := &message.Assistant{Content: []message.AssistantBlock{message.ToolCall{ID: "c", Name: "ls"}}, API: "a", Provider: "p", Model: "m", StopReason: message.Stop, Timestamp: 5}
	if got := encode(m); got != assistant {
		t.Errorf("%s, want %s", got, assistant)
	}
}

func TestStopReasonsAreAClosedSet(t *testing.T) {
	words := []string{"pending", "stop", "length", "toolUse", "error", "aborted", "deferred"}
	for _, w := range words {
		if r, ok := message.ParseStopReason(w); !ok || string(r) != w {
			t.Errorf("%s is %q, %v", w, r, ok)
		}
	}
	for _, w := range []string{"", "Stop", "end_turn", "tool_use", "stop "} {
		if r, ok := message.ParseStopReason(w); ok || r != "" {
			t.Errorf("%q is %q, %v", w, r, ok)
		}
	}
}

func TestWhatAMessageSays(t *testing.T) {
	call := func(id string) message.ToolCall { return message.ToolCall{ID: id} }
	m := &message.Assistant{Content: []message.AssistantBlock{
		message.Thinking{Thinking: "hm"}, message.Text{Text: ""}, message.Text{Text: "one"}, call("a"), message.Text{Text: ""}, message.Text{Text: "two"}, call("b"),
	}}
	if got := message.TextOf(m.Content); got != "one\n\ntwo" {
		t.Errorf("text %q", got)
	}
	if got := message.TextOf([]message.UserBlock{message.Image{Data: "AA=="}}); got != "" {
		t.Errorf("text of an image %q", got)
	}
	calls, at := m.ToolCalls()
	if d := cmp.Diff([]int{3, 6}, at); d != "" || len(calls) != 2 || calls[0].ID != "a" || calls[1].ID != "b" {
		t.Errorf("%v at %v", calls, at)
	}
}

func origin(t testing.TB) func(message.Origin, error) *message.Origin {
	return func(o message.Origin, err error) *message.Origin {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return &o
	}
}

// samples has each field of each message present once and absent once.
func samples(t testing.TB) []message.Message {
	object := jsonv.Obj(jsonv.F("path", jsonv.Str("a/b")), jsonv.F("deep", jsonv.Arr(jsonv.Num(1), jsonv.Value{}, jsonv.FloatNum(0.5))))
	spent := usage.Usage{Input: 9, Output: 3, TotalTokens: 12, Evidence: usage.Reported(usage.API, usage.Complete)}
	return []message.Message{
		&message.User{Content: []message.UserBlock{message.Text{Text: "look: \"<&>\u2028\x7f é世😀\n"}, message.Image{Data: "AA==", MimeType: "image/png"}}, Timestamp: 1767225600000},
		&message.User{Content: []message.UserBlock{message.Text{Text: "hi", Signature: new("sig")}}, Origin: origin(t)(message.Human("ada.l_1", "Ada \"L\" 😀"))},
		&message.User{Content: []message.UserBlock{}, Origin: origin(t)(message.Peer("019b76da-a800-7cc1-beeb-8da1658eec67", "main"))},
		&message.User{Content: []message.UserBlock{}, Origin: origin(t)(message.Strand("review"))},
		&message.Assistant{Content: []message.AssistantBlock{}, API: "a", Provider: "p", Model: "m", Usage: usage.Unknown(usage.API), StopReason: message.Error, ErrorMessage: new("429")},
		&message.Assistant{
			Content: []message.AssistantBlock{
				message.Thinking{Thinking: "hm", Signature: new("c2ln")}, message.Thinking{Redacted: true}, message.Text{Text: "done", Signature: new("")},
				message.ToolCall{ID: "call_1", Name: "read", Arguments: object, ThoughtSignature: new("t"), Namespace: new("fs")},
				message.ToolCall{ID: "call_2", Name: "read", Arguments: message.MalformedArguments(`{"path": `, "the end of input")},
			},
			API: "openai-completions", Provider: "openai", Model: "gpt", ResponseModel: new("gpt-1"), ResponseID: new("r"), Diagnostics: &object,
			Usage: spent, StopReason: message.ToolUse, RawStopReason: new("tool_calls"), EndTurn: new(false), Timestamp: 1767225600001,
		},
		&message.Assistant{
			Content: []message.AssistantBlock{}, API: "a", Provider: "p", Model: "m", Usage: spent, StopReason: message.Deferred,
			Deferred: &message.DeferredHandle{Provider: "p", ModelID: "m", API: "a", ID: "i", ExpiresAt: new(int64(7)), PollAfterMs: new(int64(8)), Data: new(jsonv.Value{})},
		},
		&message.ToolResult{ToolCallID: "call_1", ToolName: "read", Content: []message.ResultBlock{}, Timestamp: 1767225600002},
		&message.ToolResult{
			ToolCallID: "call_1", ToolName: "read", Content: []message.ResultBlock{message.Text{Text: "x"}, message.Image{Data: "AA==", MimeType: "image/png"}},
			Details: new(jsonv.Value{}), Usage: &spent, AddedToolNames: []string{"web"}, IsError: true,
		},
		&message.Custom{Schema: "note/1", Payload: object},
		&message.Custom{Schema: "note/1"},
	}
}

// The file is the format: a line of it that changes is a row that older builds wrote and this one would write otherwise.
func TestGolden(t *testing.T) {
	var lines strings.Builder
	for _, m := range samples(t) {
		roundTrip(t, m)
		lines.WriteString(encode(m) + "\n")
	}
	coretest.Golden(t, "message.jsonl", []byte(lines.String()), *update)
}

func FuzzDecode(f *testing.F) {
	if seeds, err := os.ReadFile("testdata/message.jsonl"); err == nil {
		for line := range strings.Lines(string(seeds)) {
			f.Add([]byte(line))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := decode(string(text))
		if err != nil {
			if r, ok := corrupt.As(err); !ok || len(r.Error()) > 20_000 {
				t.Fatalf("%T: %.200v", err, err)
			}
			return
		}
		roundTrip(t, m)
	})
}
