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
	"github.com/loom-run/loom/provider/dialect/dialecttest"
	"github.com/loom-run/loom/provider/remote"
)

var testModel = provider.Model{Identity: provider.Identity{Provider: "openai", ModelID: "m"}, API: API, ContextWindow: 100_000}

// foldStream folds a body in the given chunks to its end.
func foldStream(req provider.Request, chunks ...[]byte) dialecttest.Answer {
	return dialecttest.Fold(New(), req, chunks...)
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
		{"arguments that are another value", []string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":[1]}},{"index":1,"id":"b","function":{"name":"x","arguments":1}},{"index":2,"id":"c","function":{"name":"x","arguments":null}}`)},
			`x![1] x!1 x{}`},
		{"an id that was used, at another index", []string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}`), call(`{"index":1,"id":"a","function":{"name":"y","arguments":"{}"}}`)}, `x{} y{}`},
		{"arguments that are no object", []string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":"[1]"}}`)}, `x![1]`},
		{"an argument twice", []string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"p\":1,\"p\":2}"}}`)}, `x!{"p":1,"p":2}`},
		{"empty parts say nothing", []string{call(`{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}`), call(`{}`), call(`{"function":null}`), call(`null`)}, `x{}`},
		{"the deprecated single function", []string{delta(`"function_call":{"name":"x","arguments":"{\"p\":"}`), delta(`"function_call":{"arguments":"1}"}`)}, `x{"p":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := stream(append(c.events, finish("tool_calls"), "[DONE]")...)
			a := foldStream(provider.Request{Model: testModel}, body)
			if a.Failure != nil {
				t.Fatal(a.Failure)
			}
			if got := dialecttest.Sketch(a.Settled.Content); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if a.Settled.StopReason != message.ToolUse {
				t.Errorf("stop reason %s", a.Settled.StopReason)
			}
			ids := map[string]bool{}
			calls, _ := a.Settled.ToolCalls()
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
			if a.Failure != nil {
				t.Fatal(a.Failure)
			}
			if got := dialecttest.Sketch(a.Settled.Content); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestBlocksFollowTheOrderOfArrival(t *testing.T) {
	a := foldStream(provider.Request{Model: testModel}, stream(
		delta(`"reasoning":"t1"`), delta(`"content":"a"`), delta(`"content":"b"`), delta(`"reasoning":"t2"`),
		delta(`"tool_calls":[{"index":0,"id":"i","function":{"name":"x","arguments":"{}"}}]`), delta(`"content":"c"`), finish("stop")))
	if got, want := dialecttest.Sketch(a.Settled.Content), `(t1) "ab" (t2) x{} "c"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	want := []provider.Delta{
		provider.ThinkingDelta{Block: 0, Text: "t1"}, provider.TextDelta{Block: 1, Text: "a"}, provider.TextDelta{Block: 1, Text: "b"},
		provider.ThinkingDelta{Block: 2, Text: "t2"}, provider.ToolCallDelta{Block: 3, CallID: "i", Name: "x", Fragment: "{}"}, provider.TextDelta{Block: 4, Text: "c"},
	}
	if diff := cmp.Diff(want, a.Deltas); diff != "" {
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
			case c.class == "" && a.Failure != nil:
				t.Fatal(a.Failure)
			case c.class == "":
				if a.Settled.StopReason != c.want || *a.Settled.RawStopReason != c.reason {
					t.Errorf("got %s (%s), want %s", a.Settled.StopReason, *a.Settled.RawStopReason, c.want)
				}
			case a.Failure == nil || a.Failure.Class != c.class:
				t.Errorf("got %v, want class %s", a.Failure, c.class)
			case c.fields == some && (a.Failure.Partial == nil || dialecttest.Sketch(a.Failure.Partial.Content) != `"a"`):
				t.Error("what arrived is lost")
			case c.class == provider.UnmappedStopReason && a.Failure.Detail != c.reason:
				t.Errorf("detail %q, want the raw reason", a.Failure.Detail)
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
				if a.Failure != nil {
					t.Fatal(a.Failure)
				}
				if got := dialecttest.Sketch(a.Settled.Content); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
				return
			}
			if a.Failure == nil || a.Failure.Class != c.class {
				t.Fatalf("got %v, want class %s", a.Failure, c.class)
			}
			got := ""
			if p := a.Failure.Partial; p != nil {
				got = dialecttest.Sketch(p.Content)
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
			if a.Failure == nil || a.Failure.Class != c.class {
				t.Fatalf("got %v, want class %s", a.Failure, c.class)
			}
			if a.Failure.Partial != nil {
				t.Error("an error alone is no partial answer")
			}
		})
	}
	named := append([]byte("event: error\n"), stream(`{"message":"Overloaded","type":"overloaded_error"}`)...)
	if a := foldStream(provider.Request{Model: testModel}, named); a.Failure == nil || a.Failure.Class != provider.Overloaded {
		t.Errorf("an event named error: got %v", a.Failure)
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
			if a.Failure != nil {
				t.Fatal(a.Failure)
			}
			if diff := cmp.Diff(c.want, a.Settled.Usage, cmp.AllowUnexported(usage.Evidence{}, usage.Amount{})); diff != "" {
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
	if a.Settled.Usage.Output != 3 || a.Settled.Usage.Input != 10 {
		t.Errorf("got %+v", a.Settled.Usage)
	}
	inChoice := foldStream(provider.Request{Model: testModel}, stream(delta(`"content":"a"`),
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":1,"completion_tokens":2}}]}`))
	if inChoice.Settled.Usage.Output != 2 {
		t.Errorf("usage inside a choice: got %+v", inChoice.Settled.Usage)
	}
	none := foldStream(provider.Request{Model: testModel}, stream(delta(`"content":"a"`), finish("stop")))
	if diff := cmp.Diff(usage.Unknown(usage.API), none.Settled.Usage, cmp.AllowUnexported(usage.Evidence{}, usage.Amount{})); diff != "" {
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
	if a.Failure == nil || a.Failure.Class != provider.Overflow || a.Failure.Partial == nil || a.Failure.Partial.Usage.CacheRead != 60_000 {
		t.Errorf("got %v", a.Failure)
	} else if !provider.IsOverflow(a.Failure.Message) {
		t.Errorf("the sentence does not say that it is an overflow: %s", a.Failure.Message)
	}
	if a := foldStream(req, body(100_000, 0, 64)); a.Failure != nil {
		t.Errorf("at the window: %v", a.Failure)
	}
	if a := foldStream(req, body(100_001, 0, 65)); a.Failure != nil {
		t.Errorf("an answer that says something: %v", a.Failure)
	}
	req.Model.ContextWindow = 0
	if a := foldStream(req, body(100_001, 0, 0)); a.Failure != nil {
		t.Errorf("an unknown window: %v", a.Failure)
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
			if a.Failure != nil {
				t.Fatal(a.Failure)
			}
			if got := message.TextOf(a.Settled.Content); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if c.replaced == 0 {
				if a.Settled.Diagnostics != nil {
					t.Errorf("nothing was mended, yet: %s", a.Settled.Diagnostics)
				}
				return
			}
			n, _ := a.Settled.Diagnostics.Get("replaced_characters")
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
	calls, _ := a.Settled.ToolCalls()
	if calls[0].ID != "call_0_2" {
		t.Errorf("an id of an earlier call was kept: %s", calls[0].ID)
	}
	if calls[1].ID == calls[2].ID || !strings.HasPrefix(calls[1].ID, "call_") {
		t.Errorf("calls without ids got %q and %q", calls[1].ID, calls[2].ID)
	}
	if n, _ := a.Settled.Diagnostics.Get("renamed_calls"); n.String() != "3" {
		t.Errorf("diagnostics %s", a.Settled.Diagnostics)
	}
	again := foldStream(provider.Request{Model: testModel, Messages: history}, body)
	if diff := cmp.Diff(dialecttest.Stored(a.Settled), dialecttest.Stored(again.Settled)); diff != "" {
		t.Errorf("the same answer got other ids:\n%s", diff)
	}
}

func TestAHostileStreamIsBounded(t *testing.T) {
	var fragments []string
	for i := range dialect.MaxCalls + 1 {
		fragments = append(fragments, fmt.Sprintf(`{"index":%d,"id":"i%d","function":{"name":"x","arguments":"{}"}}`, i, i))
	}
	a := foldStream(provider.Request{Model: testModel}, stream(delta(`"tool_calls":[`+strings.Join(fragments, ",")+`]`), finish("tool_calls")))
	if a.Failure == nil || a.Failure.Class != provider.MalformedStream {
		t.Errorf("got %v", a.Failure)
	}
}

func TestAnAnswerThatWasNotStreamedIsReadToo(t *testing.T) {
	whole := func(body string) dialecttest.Answer { return dialecttest.Whole(t, New(), body) }
	a := whole(`{"id":"r","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a","tool_calls":[{"id":"i","type":"function","function":{"name":"x","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`)
	if a.Failure != nil {
		t.Fatal(a.Failure)
	}
	if got := dialecttest.Sketch(a.Settled.Content); got != `"a" x{}` || a.Settled.Usage.Output != 2 {
		t.Errorf("got %s with %+v", got, a.Settled.Usage)
	}
	if a := whole(`{"detail":"Not Found"}`); a.Failure == nil || !strings.Contains(a.Failure.Message, "Not Found") {
		t.Errorf("an error without its usual field: %v", a.Failure)
	}
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

func TestEveryStreamHasOneOutcomeWhateverItsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := bodies().Draw(t, "body")
		req := provider.Request{Model: testModel}
		whole := foldStream(req, body)
		dialecttest.Check(t.Fatalf, whole)
		var chunks [][]byte
		for rest := body; len(rest) > 0; {
			n := rapid.IntRange(1, min(len(rest), 40)).Draw(t, "n")
			chunks = append(chunks, rest[:n])
			rest = rest[n:]
		}
		cut := foldStream(req, chunks...)
		if diff := cmp.Diff(whole.Deltas, cut.Deltas); diff != "" {
			t.Fatalf("deltas (-whole +cut):\n%s", diff)
		}
		if diff := cmp.Diff(whole.Outcome(), cut.Outcome()); diff != "" {
			t.Fatalf("outcome (-whole +cut):\n%s", diff)
		}
	})
}

func FuzzFold(f *testing.F) {
	dialecttest.Fuzz(f, func() remote.Dialect { return New() },
		stream(delta(`"content":"a"`), finish("stop"), "[DONE]"),
		stream(delta(`"tool_calls":[{"index":0,"id":"i","function":{"name":"x","arguments":"{\"p\":1}"}}]`), finish("tool_calls")),
		stream(`{"error":{"message":"x","code":429}}`),
		stream(`{"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":1e3}}`, `{"choices":[{"delta":{"content":"\ud800"}}]}`, "[DONE]"))
}
