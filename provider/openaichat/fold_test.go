package openaichat

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
	"github.com/loom-run/loom/provider/sse"
)

var testModel = provider.Model{Identity: provider.Identity{Provider: "openai", ModelID: "m"}, API: API, ContextWindow: 100_000}

// answer is the outcome of folding a stream.
type answer struct {
	settled *message.Assistant
	failure *provider.Error
	deltas  []provider.Delta
}

// foldStream folds a body in the given chunks, as the client does, to its end.
func foldStream(req provider.Request, chunks ...[]byte) answer {
	var a answer
	f := newFold(dialect.Peer{Name: "host", KeyName: "KEY", Speaks: "chat-completions"}, req, func(d provider.Delta) { a.deltas = append(a.deltas, d) })
	parser := sse.New(sse.Limits{})
	for _, chunk := range chunks {
		events, err := parser.Feed(chunk, nil)
		if err != nil {
			panic(err)
		}
		for _, e := range events {
			f.Event(e)
		}
	}
	a.settled, a.failure = f.Settle(nil, 7)
	return a
}

// stream writes the data of events as a body.
func stream(events ...string) []byte {
	return []byte("data: " + strings.Join(events, "\n\ndata: ") + "\n\n")
}

// delta writes a chunk with one choice.
func delta(fields string) string { return `{"choices":[{"index":0,"delta":{` + fields + `}}]}` }

func finish(reason string) string {
	return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

// sketch renders content in one line for tables: text as is, thinking in (), calls as name{args}#id.
func sketch(blocks []message.AssistantBlock) string {
	var out []string
	for _, b := range blocks {
		switch b := b.(type) {
		case message.Text:
			out = append(out, fmt.Sprintf("%q", b.Text))
		case message.Thinking:
			out = append(out, fmt.Sprintf("(%s)", b.Thinking))
		case message.ToolCall:
			if raw, _, bad := message.AsMalformed(b.Arguments); bad {
				out = append(out, fmt.Sprintf("%s!%s", b.Name, raw))
				continue
			}
			out = append(out, b.Name+b.Arguments.String())
		}
	}
	return strings.Join(out, " ")
}

func TestFragmentsBuildTheCallsTheyBelongTo(t *testing.T) {
	call := func(fields string) string { return delta(`"tool_calls":[` + fields + `]`) }
	for _, c := range []struct {
		name   string
		events []string
		want   string
	}{
		{"parallel calls by index, interleaved",
			[]string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":""}},{"index":1,"id":"b","function":{"name":"y","arguments":""}}`),
				call(`{"index":1,"function":{"arguments":"{\"q\":"}},{"index":0,"function":{"arguments":"{\"p\":"}}`),
				call(`{"index":0,"function":{"arguments":"1}"}},{"index":1,"function":{"arguments":"2}"}}`)},
			`x{"p":1} y{"q":2}`},
		{"an index that starts above zero", []string{call(`{"index":3,"id":"a","function":{"name":"x","arguments":"{}"}}`)}, `x{}`},
		{"a later part without index",
			[]string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"p\":"}}`), call(`{"function":{"arguments":"1}"}}`)}, `x{"p":1}`},
		{"a later part by id alone",
			[]string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"p\":"}}`), call(`{"id":"a","function":{"arguments":"1}"}}`)}, `x{"p":1}`},
		{"a name after the id",
			[]string{call(`{"index":0,"id":"a","function":{"name":"","arguments":""}}`), call(`{"index":0,"function":{"name":"x","arguments":"{}"}}`)}, `x{}`},
		{"a name after the id, without index",
			[]string{call(`{"id":"a"}`), call(`{"function":{"name":"x","arguments":"{}"}}`)}, `x{}`},
		{"an empty name later does not blank the first",
			[]string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":""}}`), call(`{"index":0,"function":{"name":"","arguments":"{}"}}`)}, `x{}`},
		{"a name that is repeated in every part",
			[]string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":"{"}}`), call(`{"index":0,"function":{"name":"x","arguments":"}"}}`)}, `x{}`},
		{"a name repeated without index or id",
			[]string{call(`{"function":{"name":"x","arguments":"{"}}`), call(`{"function":{"name":"x","arguments":"}"}}`), call(`{"function":{"name":"x","arguments":"{}"}}`)},
			`x{} x{}`},
		{"an index used for every call",
			[]string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"p\":1}"}}`), call(`{"index":0,"id":"b","function":{"name":"y","arguments":"{\"q\":2}"}}`)},
			`x{"p":1} y{"q":2}`},
		{"a fresh id in every part of one index",
			[]string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"p\":"}}`), call(`{"index":0,"id":"b","function":{"arguments":"1}"}}`)}, `x{"p":1}`},
		{"an id that comes late, without index",
			[]string{call(`{"function":{"name":"x","arguments":"{"}}`), call(`{"id":"a","function":{"arguments":"}"}}`)}, `x{}`},
		{"parallel calls by id, without index",
			[]string{call(`{"id":"a","function":{"name":"x","arguments":"{\"p\":"}},{"id":"b","function":{"name":"y","arguments":"{\"q\":"}}`),
				call(`{"id":"b","function":{"arguments":"2}"}},{"id":"a","function":{"arguments":"1}"}}`)},
			`x{"p":1} y{"q":2}`},
		{"calls in a row, without index or id in later parts",
			[]string{call(`{"id":"a","function":{"name":"x","arguments":"{\"p\":"}}`), call(`{"function":{"arguments":"\"}\"}"}}`),
				call(`{"id":"b","function":{"name":"y","arguments":"{\"q\":"}}`), call(`{"function":{"arguments":"2}"}}`)},
			`x{"p":"}"} y{"q":2}`},
		{"a part that could belong to two open calls belongs to none",
			[]string{call(`{"id":"a","function":{"name":"x","arguments":"{\"p\":"}},{"id":"b","function":{"name":"y","arguments":"{\"q\":"}}`),
				call(`{"function":{"arguments":"1}"}}`), call(`{"id":"a","function":{"arguments":"1}"}}`), call(`{"id":"b","function":{"arguments":"2}"}}`)},
			`x!{"p":1} y!{"q":2}`},
		{"a name that changes", []string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":"{"}}`), call(`{"index":0,"function":{"name":"y","arguments":"}"}}`)}, `x!{}`},
		{"no name at all", []string{call(`{"index":0,"id":"a","function":{"arguments":"{}"}}`)}, `unnamed_tool!{}`},
		{"bare arguments alone", []string{call(`{"function":{"arguments":"{}"}}`)}, `unnamed_tool!{}`},
		{"no arguments", []string{call(`{"index":0,"id":"a","function":{"name":"x"}}`)}, `x{}`},
		{"space for arguments", []string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":" \n"}}`)}, `x{}`},
		{"arguments that are an object already", []string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":{"p":[1]}}}`)}, `x{"p":[1]}`},
		{"one broken call among good ones",
			[]string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"p\":1}"}},{"index":1,"id":"b","function":{"name":"y","arguments":"{\"q\":"}}`)},
			`x{"p":1} y!{"q":`},
		{"arguments that are no object", []string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":"[1]"}}`)}, `x![1]`},
		{"an argument twice", []string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"p\":1,\"p\":2}"}}`)}, `x!{"p":1,"p":2}`},
		{"empty parts say nothing", []string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}`), call(`{}`), call(`{"function":null}`), call(`null`)}, `x{}`},
		{"the deprecated single function", []string{delta(`"function_call":{"name":"x","arguments":"{\"p\":"}`), delta(`"function_call":{"arguments":"1}"}`)}, `x{"p":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := stream(append(c.events, finish("tool_calls"), "[DONE]")...)
			a := foldStream(provider.Request{Model: testModel}, body)
			if a.failure != nil {
				t.Fatal(a.failure)
			}
			if got := sketch(a.settled.Content); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if a.settled.StopReason != message.ToolUse {
				t.Errorf("stop reason %s", a.settled.StopReason)
			}
			ids := map[string]bool{}
			calls, _ := a.settled.ToolCalls()
			for _, call := range calls {
				if call.ID == "" || ids[call.ID] {
					t.Errorf("the id %q is empty or used twice", call.ID)
				}
				ids[call.ID] = true
			}
		})
	}
}

func TestContentIsReadFromTheFieldsThatServersUse(t *testing.T) {
	for _, c := range []struct{ name, fields, want string }{
		{"text", `"content":"a"`, `"a"`},
		{"no text", `"content":null`, ``},
		{"empty text", `"content":""`, ``},
		{"typed parts", `"content":[{"type":"thinking","thinking":[{"type":"text","text":"t"}]},{"type":"text","text":"a"},{"type":"new"}]`, `(t) "a"`},
		{"reasoning of one vendor", `"reasoning_content":"t","content":"a"`, `(t) "a"`},
		{"reasoning of another", `"reasoning":"t"`, `(t)`},
		{"reasoning details", `"reasoning_details":[{"type":"reasoning.text","text":"t"},{"type":"reasoning.summary","summary":"s"},{"type":"reasoning.encrypted","data":"x"}]`, `(ts)`},
		{"reasoning in two fields counts once", `"reasoning":"t","reasoning_details":[{"text":"t"}]`, `(t)`},
		{"a refusal is what the model says", `"refusal":"no"`, `"no"`},
		{"an empty refusal is none", `"refusal":""`, ``},
		{"unknown fields", `"audio":{"x":1},"content":"a"`, `"a"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := foldStream(provider.Request{Model: testModel}, stream(delta(c.fields), finish("stop"), "[DONE]"))
			if a.failure != nil {
				t.Fatal(a.failure)
			}
			if got := sketch(a.settled.Content); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestBlocksFollowTheOrderOfArrival(t *testing.T) {
	a := foldStream(provider.Request{Model: testModel}, stream(
		delta(`"reasoning":"t1"`), delta(`"content":"a"`), delta(`"content":"b"`), delta(`"reasoning":"t2"`),
		delta(`"tool_calls":[{"index":0,"id":"i","function":{"name":"x","arguments":"{}"}}]`), delta(`"content":"c"`), finish("stop")))
	if got, want := sketch(a.settled.Content), `(t1) "ab" (t2) x{} "c"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	want := []provider.Delta{
		provider.ThinkingDelta{Block: 0, Text: "t1"}, provider.TextDelta{Block: 1, Text: "a"}, provider.TextDelta{Block: 1, Text: "b"},
		provider.ThinkingDelta{Block: 2, Text: "t2"}, provider.ToolCallDelta{Block: 3, CallID: "i", Name: "x", Fragment: "{}"}, provider.TextDelta{Block: 4, Text: "c"},
	}
	if diff := cmp.Diff(want, a.deltas); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFinishReasonsAreMappedByWhatTheAnswerHolds(t *testing.T) {
	const some = `"content":"a"`
	const whole = `"tool_calls":[{"index":0,"id":"i","function":{"name":"x","arguments":"{}"}}]`
	const half = `"tool_calls":[{"index":0,"id":"i","function":{"name":"x","arguments":"{"}}]`
	for _, c := range []struct {
		fields, reason string
		want           message.StopReason
		class          provider.Class
	}{
		{some, "stop", message.Stop, ""},
		{whole, "stop", message.ToolUse, ""},
		{half, "stop", message.ToolUse, ""},
		{some, "tool_calls", message.Stop, ""},
		{whole, "tool_calls", message.ToolUse, ""},
		{whole, "function_call", message.ToolUse, ""},
		{some, "length", message.Length, ""},
		{half, "length", message.Length, ""},
		{some, "content_filter", "", provider.Refused},
		{some, "error", "", provider.Server},
		{some, "insufficient_system_resource", "", provider.Overloaded},
		{some, "novel", "", provider.UnmappedStopReason},
		{half, "novel", "", provider.UnmappedStopReason},
		{whole, "novel", message.ToolUse, ""},
	} {
		t.Run(c.reason+" after "+c.fields, func(t *testing.T) {
			a := foldStream(provider.Request{Model: testModel}, stream(delta(c.fields), finish(c.reason), "[DONE]"))
			switch {
			case c.class == "" && a.failure != nil:
				t.Fatal(a.failure)
			case c.class == "":
				if a.settled.StopReason != c.want || *a.settled.RawStopReason != c.reason {
					t.Errorf("got %s (%s), want %s", a.settled.StopReason, *a.settled.RawStopReason, c.want)
				}
			case a.failure == nil || a.failure.Class != c.class:
				t.Errorf("got %v, want class %s", a.failure, c.class)
			case c.fields == some && (a.failure.Partial == nil || sketch(a.failure.Partial.Content) != `"a"`):
				t.Error("what arrived is lost")
			case c.class == provider.UnmappedStopReason && a.failure.Detail != c.reason:
				t.Errorf("detail %q, want the raw reason", a.failure.Detail)
			}
		})
	}
}

func TestAnAnswerIsCompleteOnlyByTheProvidersWord(t *testing.T) {
	text := delta(`"content":"a"`)
	whole := delta(`"tool_calls":[{"index":0,"id":"i","function":{"name":"x","arguments":"{}"}}]`)
	half := delta(`"tool_calls":[{"index":1,"id":"j","function":{"name":"y","arguments":"{\"p\":"}}]`)
	bare := delta(`"tool_calls":[{"index":2,"id":"k","function":{"name":"z"}}]`)
	for _, c := range []struct {
		name    string
		body    []byte
		want    string // content of the settled message
		partial string // content of the partial one
		class   provider.Class
	}{
		{"reason and mark", stream(text, finish("stop"), "[DONE]"), `"a"`, "", ""},
		{"reason without mark", stream(text, finish("stop")), `"a"`, "", ""},
		{"mark without reason", stream(text, "[DONE]"), `"a"`, "", ""},
		{"mark without reason, with a call", stream(whole, "[DONE]"), `x{}`, "", ""},
		{"neither", stream(text), "", `"a"`, provider.Disconnect},
		{"half a call is dropped, whole ones stay", stream(text, whole, half, bare), "", `"a" x{}`, provider.Disconnect},
		{"nothing", nil, "", "", provider.Disconnect},
		{"only the mark", stream("[DONE]"), "", "", provider.Disconnect},
		{"an event that is not JSON", stream(text, "{"), "", `"a"`, provider.MalformedStream},
		{"an event that is no object", stream(text, "[1]"), "", `"a"`, provider.MalformedStream},
		{"content of a wrong kind", stream(text, delta(`"content":5`)), "", `"a"`, provider.MalformedStream},
		{"an unterminated last event", append(stream(text), "data: "+finish("stop")+"\n"...), "", `"a"`, provider.Disconnect},
		{"nothing after the mark counts", stream(text, finish("stop"), "[DONE]", delta(`"content":"b"`), `{"error":"x"}`), `"a"`, "", ""},
		{"other choices do not count", stream(`{"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":"stop"}]}`, text, finish("stop")), `"a"`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := foldStream(provider.Request{Model: testModel}, c.body)
			if c.class == "" {
				if a.failure != nil {
					t.Fatal(a.failure)
				}
				if got := sketch(a.settled.Content); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
				return
			}
			if a.failure == nil || a.failure.Class != c.class {
				t.Fatalf("got %v, want class %s", a.failure, c.class)
			}
			got := ""
			if p := a.failure.Partial; p != nil {
				got = sketch(p.Content)
				if p.StopReason != message.Error || p.ErrorMessage == nil {
					t.Errorf("the partial answer has stop reason %s and message %v", p.StopReason, p.ErrorMessage)
				}
			}
			if got != c.partial {
				t.Errorf("partial %s, want %s", got, c.partial)
			}
		})
	}
}

func TestErrorsInsideAStreamAreClassified(t *testing.T) {
	for _, c := range []struct {
		event string
		class provider.Class
	}{
		{`{"error":{"message":"Context length exceeded","code":"CONTEXT_LENGTH_EXCEEDED"}}`, provider.Overflow},
		{`{"error":{"message":"Token limit reached","code":400}}`, provider.InvalidRequest},
		{`{"error":{"message":"slow down","type":"rate_limit_error"}}`, provider.RateLimit},
		{`{"error":{"message":"Too many tokens, throttling applies"}}`, provider.RateLimit},
		{`{"error":{"message":"maximum context length","code":429}}`, provider.RateLimit},
		{`{"error":{"message":"x","code":"insufficient_quota"}}`, provider.Quota},
		{`{"error":{"message":"Overloaded","type":"overloaded_error"}}`, provider.Overloaded},
		{`{"error":{"message":"x","type":"server_error"}}`, provider.Server},
		{`{"error":{"message":"x","code":502}}`, provider.Server},
		{`{"error":"plain words"}`, provider.InvalidRequest},
		{`{"object":"error","message":"no such model","code":404}`, provider.NotFound},
		{`{"type":"error","message":"x"}`, provider.InvalidRequest},
	} {
		t.Run(c.event, func(t *testing.T) {
			a := foldStream(provider.Request{Model: testModel}, stream(c.event, "[DONE]"))
			if a.failure == nil || a.failure.Class != c.class {
				t.Fatalf("got %v, want class %s", a.failure, c.class)
			}
			if a.failure.Partial != nil {
				t.Error("an error alone is no partial answer")
			}
		})
	}
	named := append([]byte("event: error\n"), stream(`{"message":"Overloaded","type":"overloaded_error"}`)...)
	if a := foldStream(provider.Request{Model: testModel}, named); a.failure == nil || a.failure.Class != provider.Overloaded {
		t.Errorf("an event named error: got %v", a.failure)
	}
}

func TestUsageIsNormalisedToDisjointBuckets(t *testing.T) {
	for _, c := range []struct {
		name, report string
		want         usage.Usage
	}{
		{"cached and reasoning tokens are parts",
			`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":3}}`,
			usage.Usage{Input: 6, CacheRead: 4, Output: 5, Reasoning: new(int64(3)), TotalTokens: 15, Evidence: usage.Reported(usage.API, usage.Complete)}},
		{"reasoning beside the completion",
			`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":45,"completion_tokens_details":{"reasoning_tokens":30}}`,
			usage.Usage{Input: 10, Output: 35, Reasoning: new(int64(30)), TotalTokens: 45, Evidence: usage.Reported(usage.API, usage.Complete)}},
		{"tokens written to the cache",
			`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":2,"cache_write_tokens":3}}`,
			usage.Usage{Input: 5, CacheRead: 2, CacheWrite: 3, Output: 5, TotalTokens: 15, Evidence: usage.Reported(usage.API, usage.Complete)}},
		{"cache hits of another vendor", `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_cache_hit_tokens":8}`,
			usage.Usage{Input: 2, CacheRead: 8, Output: 5, TotalTokens: 15, Evidence: usage.Reported(usage.API, usage.Complete)}},
		{"no total", `{"prompt_tokens":10,"completion_tokens":5}`,
			usage.Usage{Input: 10, Output: 5, TotalTokens: 15, Evidence: usage.Reported(usage.API, usage.Complete)}},
		{"one side only", `{"completion_tokens":5}`, usage.Usage{Output: 5, TotalTokens: 5, Evidence: usage.Reported(usage.API, usage.Partial)}},
		{"nothing", `{}`, usage.Unknown(usage.API)},
		{"only a total", `{"total_tokens":9}`, usage.Unknown(usage.API)},
		{"counts that cannot be", `{"prompt_tokens":-4,"completion_tokens":99999999999999999999,"total_tokens":-99999999999999999999,"prompt_tokens_details":{"cached_tokens":7}}`,
			usage.Usage{CacheRead: 7, Output: dialect.MaxCount, Evidence: usage.Reported(usage.API, usage.Complete)}},
		{"counts of a wrong kind", `{"prompt_tokens":"4","completion_tokens":1.5}`, usage.Unknown(usage.API)},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := stream(delta(`"content":"a"`), finish("stop"), `{"choices":[],"usage":`+c.report+`}`, "[DONE]")
			a := foldStream(provider.Request{Model: testModel}, body)
			if a.failure != nil {
				t.Fatal(a.failure)
			}
			if diff := cmp.Diff(c.want, a.settled.Usage, cmp.AllowUnexported(usage.Evidence{}, usage.Amount{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheLastUsageReportCountsOnce(t *testing.T) {
	report := func(n int) string {
		return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":10,"completion_tokens":%d}}`, n)
	}
	a := foldStream(provider.Request{Model: testModel}, stream(report(1), report(2), report(3), finish("stop"), `{"choices":[],"usage":null}`))
	if a.settled.Usage.Output != 3 || a.settled.Usage.Input != 10 {
		t.Errorf("got %+v", a.settled.Usage)
	}
	inChoice := foldStream(provider.Request{Model: testModel}, stream(delta(`"content":"a"`),
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":1,"completion_tokens":2}}]}`))
	if inChoice.settled.Usage.Output != 2 {
		t.Errorf("usage inside a choice: got %+v", inChoice.settled.Usage)
	}
	none := foldStream(provider.Request{Model: testModel}, stream(delta(`"content":"a"`), finish("stop")))
	if diff := cmp.Diff(usage.Unknown(usage.API), none.settled.Usage, cmp.AllowUnexported(usage.Evidence{}, usage.Amount{})); diff != "" {
		t.Errorf("no report is unknown, not zero:\n%s", diff)
	}
}

func TestAnAnswerOfAlmostNothingToMoreThanTheWindowIsAnOverflow(t *testing.T) {
	body := func(prompt, cached, output int) []byte {
		return stream(finish("stop"), fmt.Sprintf(
			`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`, prompt, output, cached))
	}
	req := provider.Request{Model: testModel}
	a := foldStream(req, body(100_001, 60_000, 64))
	if a.failure == nil || a.failure.Class != provider.Overflow || a.failure.Partial == nil || a.failure.Partial.Usage.CacheRead != 60_000 {
		t.Errorf("got %v", a.failure)
	} else if !provider.IsOverflow(a.failure.Message) {
		t.Errorf("the sentence does not say that it is an overflow: %s", a.failure.Message)
	}
	if a := foldStream(req, body(100_000, 0, 64)); a.failure != nil {
		t.Errorf("at the window: %v", a.failure)
	}
	if a := foldStream(req, body(100_001, 0, 65)); a.failure != nil {
		t.Errorf("an answer that says something: %v", a.failure)
	}
	req.Model.ContextWindow = 0
	if a := foldStream(req, body(100_001, 0, 0)); a.failure != nil {
		t.Errorf("an unknown window: %v", a.failure)
	}
}

func TestBrokenCharactersAreReplacedAndCounted(t *testing.T) {
	for _, c := range []struct {
		name, content, want string
		replaced            int64
	}{
		{"bytes that are no UTF-8, one for each run", "a\xff\xfeb\xc3", "a\uFFFDb\uFFFD", 2},
		{"a high surrogate alone", `a\ud83db`, "a\uFFFDb", 1},
		{"a low surrogate alone", `a\uDE00b`, "a\uFFFDb", 1},
		{"two high ones", `\ud83d\ud83d\ude00`, "\uFFFD\U0001F600", 1},
		{"a pair is whole", `\ud83d\ude00`, "\U0001F600", 0},
		{"an escaped backslash is no escape", `\ud83d\\ud83d`, "\uFFFD\\ud83d", 1},
		{"both kinds", "\xff\\ud83d", "\uFFFD\uFFFD", 2},
		{"a true replacement character", "a\uFFFD", "a\uFFFD", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := foldStream(provider.Request{Model: testModel}, stream(delta(`"content":"`+c.content+`"`), finish("stop")))
			if a.failure != nil {
				t.Fatal(a.failure)
			}
			if got := message.TextOf(a.settled.Content); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if c.replaced == 0 {
				if a.settled.Diagnostics != nil {
					t.Errorf("nothing was mended, yet: %s", a.settled.Diagnostics)
				}
				return
			}
			n, _ := a.settled.Diagnostics.Get("replaced_characters")
			if got, _ := n.Int64(); got != c.replaced {
				t.Errorf("counted %d, want %d", got, c.replaced)
			}
		})
	}
}

func TestCallIDsAreUniqueInTheConversation(t *testing.T) {
	history := []message.Message{&message.Assistant{Content: []message.AssistantBlock{message.ToolCall{ID: "call_0", Name: "x", Arguments: jsonv.Obj()}}}}
	body := stream(`{"id":"r1","choices":[{"index":0,"delta":{"tool_calls":[`+
		`{"index":0,"id":"call_0","function":{"name":"a","arguments":"{}"}},{"index":1,"function":{"name":"b","arguments":"{}"}},{"index":2,"function":{"name":"c","arguments":"{}"}}]}}]}`,
		finish("tool_calls"))
	a := foldStream(provider.Request{Model: testModel, Messages: history}, body)
	calls, _ := a.settled.ToolCalls()
	if calls[0].ID != "call_0_2" {
		t.Errorf("an id of an earlier call was kept: %s", calls[0].ID)
	}
	if calls[1].ID == calls[2].ID || !strings.HasPrefix(calls[1].ID, "call_") {
		t.Errorf("calls without ids got %q and %q", calls[1].ID, calls[2].ID)
	}
	if n, _ := a.settled.Diagnostics.Get("renamed_calls"); n.String() != "3" {
		t.Errorf("diagnostics %s", a.settled.Diagnostics)
	}
	again := foldStream(provider.Request{Model: testModel, Messages: history}, body)
	if diff := cmp.Diff(storedForm(a.settled), storedForm(again.settled)); diff != "" {
		t.Errorf("the same answer got other ids:\n%s", diff)
	}
}

func TestAHostileStreamIsBounded(t *testing.T) {
	var fragments []string
	for i := range dialect.MaxCalls + 1 {
		fragments = append(fragments, fmt.Sprintf(`{"index":%d,"id":"i%d","function":{"name":"x","arguments":"{}"}}`, i, i))
	}
	a := foldStream(provider.Request{Model: testModel}, stream(delta(`"tool_calls":[`+strings.Join(fragments, ",")+`]`), finish("tool_calls")))
	if a.failure == nil || a.failure.Class != provider.MalformedStream {
		t.Errorf("got %v", a.failure)
	}
}

func TestAnAnswerThatWasNotStreamedIsReadToo(t *testing.T) {
	whole := func(body string) answer {
		var a answer
		f := newFold(dialect.Peer{Name: "host"}, provider.Request{Model: testModel}, func(d provider.Delta) { a.deltas = append(a.deltas, d) })
		v, err := jsonv.ParseString(body)
		if err != nil {
			t.Fatal(err)
		}
		f.Whole(v, 0)
		a.settled, a.failure = f.Settle(nil, 7)
		return a
	}
	a := whole(`{"id":"r","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a","tool_calls":[{"id":"i","type":"function","function":{"name":"x","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`)
	if a.failure != nil {
		t.Fatal(a.failure)
	}
	if got := sketch(a.settled.Content); got != `"a" x{}` || a.settled.Usage.Output != 2 {
		t.Errorf("got %s with %+v", got, a.settled.Usage)
	}
	if a := whole(`{"detail":"Not Found"}`); a.failure == nil || !strings.Contains(a.failure.Message, "Not Found") {
		t.Errorf("an error without its usual field: %v", a.failure)
	}
}

// storedForm is the JSON of a message.
func storedForm(m message.Message) string {
	var w jsonv.Writer
	message.Append(&w, m)
	return string(w.Bytes())
}

// bodies draws streams that are mostly well formed and sometimes cut or broken.
func bodies() *rapid.Generator[[]byte] {
	text := rapid.Map(rapid.String(), func(s string) string {
		quoted, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		return string(quoted)
	})
	fragment := rapid.Custom(func(t *rapid.T) string {
		var fields []string
		if rapid.Bool().Draw(t, "indexed") {
			fields = append(fields, fmt.Sprintf(`"index":%d`, rapid.IntRange(0, 3).Draw(t, "index")))
		}
		if rapid.Bool().Draw(t, "identified") {
			fields = append(fields, fmt.Sprintf(`"id":"c%d"`, rapid.IntRange(0, 3).Draw(t, "id")))
		}
		name := rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "name")
		args := rapid.SampledFrom([]string{"", "{", "}", "{}", `{\"p\":`, `1}`, `\"`}).Draw(t, "args")
		return "{" + strings.Join(append(fields, `"function":{"name":"`+name+`","arguments":"`+args+`"}`), ",") + "}"
	})
	event := rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0, 1, 2:
			return delta(`"content":` + text.Draw(t, "content"))
		case 3:
			return delta(`"reasoning":` + text.Draw(t, "reasoning"))
		case 4, 5, 6:
			return delta(`"tool_calls":[` + strings.Join(rapid.SliceOfN(fragment, 1, 3).Draw(t, "fragments"), ",") + `]`)
		case 7:
			return finish(rapid.SampledFrom([]string{"stop", "tool_calls", "length", "novel", "content_filter"}).Draw(t, "reason"))
		case 8:
			return `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":6}}`
		}
		return rapid.SampledFrom([]string{"[DONE]", "{", `{"error":{"message":"x"}}`, "null", `{"choices":null}`}).Draw(t, "odd")
	})
	return rapid.Custom(func(t *rapid.T) []byte {
		body := stream(rapid.SliceOfN(event, 0, 12).Draw(t, "events")...)
		return body[:len(body)-rapid.IntRange(0, min(3, len(body))).Draw(t, "cut")]
	})
}

// checkAnswer checks what holds for every answer.
func checkAnswer(fail func(string, ...any), a answer) {
	if (a.settled == nil) == (a.failure == nil) {
		fail("want exactly one of message and error, got %v and %v", a.settled, a.failure)
		return
	}
	m := a.settled
	if m == nil {
		if m = a.failure.Partial; m == nil {
			return
		}
	}
	back, err := jsonv.ParseString(storedForm(m))
	if err == nil {
		_, err = message.Decode(back)
	}
	if err != nil {
		fail("the message cannot be stored: %v", err)
	}
	calls, _ := m.ToolCalls()
	ids := map[string]bool{}
	for _, c := range calls {
		if c.ID == "" || ids[c.ID] || c.Name == "" || c.Arguments.Kind() != jsonv.Object {
			fail("a call that cannot be replayed: %+v", c)
		}
		ids[c.ID] = true
		if _, _, malformed := message.AsMalformed(c.Arguments); malformed && a.settled == nil {
			fail("a partial answer holds a call that is not whole: %+v", c)
		}
	}
	for _, b := range m.Content {
		if t, ok := b.(message.Text); ok && t.Text == "" {
			fail("an empty text block")
		}
	}
	if m.StopReason == message.ToolUse && len(calls) == 0 || m.StopReason == message.Stop && len(calls) > 0 {
		fail("stop reason %s with %d calls", m.StopReason, len(calls))
	}
}

func TestEveryStreamHasOneOutcomeWhateverItsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := bodies().Draw(t, "body")
		req := provider.Request{Model: testModel}
		whole := foldStream(req, body)
		checkAnswer(t.Fatalf, whole)
		var chunks [][]byte
		for rest := body; len(rest) > 0; {
			n := rapid.IntRange(1, min(len(rest), 40)).Draw(t, "n")
			chunks = append(chunks, rest[:n])
			rest = rest[n:]
		}
		cut := foldStream(req, chunks...)
		if diff := cmp.Diff(whole.deltas, cut.deltas); diff != "" {
			t.Fatalf("deltas (-whole +cut):\n%s", diff)
		}
		if diff := cmp.Diff(outcomeOf(whole), outcomeOf(cut)); diff != "" {
			t.Fatalf("outcome (-whole +cut):\n%s", diff)
		}
	})
}

// outcomeOf is the terminal of an answer as text.
func outcomeOf(a answer) string {
	if a.settled != nil {
		return storedForm(a.settled)
	}
	if a.failure.Partial == nil {
		return a.failure.Error()
	}
	return a.failure.Error() + storedForm(a.failure.Partial)
}

func FuzzFold(f *testing.F) {
	f.Add(stream(delta(`"content":"a"`), finish("stop"), "[DONE]"), uint(5))
	f.Add(stream(delta(`"tool_calls":[{"index":0,"id":"i","function":{"name":"x","arguments":"{\"p\":1}"}}]`), finish("tool_calls")), uint(1))
	f.Add(stream(`{"error":{"message":"x","code":429}}`), uint(9))
	f.Add(stream(`{"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":1e3}}`, `{"choices":[{"delta":{"content":"\ud800"}}]}`, "[DONE]"), uint(2))
	f.Fuzz(func(t *testing.T, body []byte, size uint) {
		if len(body) > 1<<16 {
			t.Skip("larger than worth it")
		}
		req := provider.Request{Model: testModel}
		whole := foldStream(req, body)
		checkAnswer(t.Errorf, whole)
		step := int(size%32) + 1
		var chunks [][]byte
		for i := 0; i < len(body); i += step {
			chunks = append(chunks, body[i:min(i+step, len(body))])
		}
		if diff := cmp.Diff(outcomeOf(whole), outcomeOf(foldStream(req, chunks...))); diff != "" {
			t.Errorf("outcome (-whole +cut):\n%s", diff)
		}
	})
}
