package gemini

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect/dialecttest"
	"github.com/loom-run/loom/provider/remote"
)

func open() remote.Dialect { return New() }

// parts is a response with some parts and no end.
func parts(list ...string) string {
	return `{"candidates":[{"content":{"role":"model","parts":[` + strings.Join(list, ",") + `]},"index":0}],"modelVersion":"served","responseId":"r1"}`
}

func finish(reason string, list ...string) string {
	return `{"candidates":[{"content":{"role":"model","parts":[` + strings.Join(list, ",") + `]},"finishReason":"` + reason + `","index":0}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":15}}`
}

func text(s string) string { return `{"text":"` + s + `"}` }

func thought(s string) string { return `{"text":"` + s + `","thought":true}` }

func call(fields string) string { return `{"functionCall":{` + fields + `}}` }

func stream(events ...string) []byte { return dialecttest.Stream(events...) }

// corpus is one stream for each thing that the dialect can say.
var corpus = dialecttest.Corpus{
	"text":                             {stream(parts(text("a")), parts(text("b")), finish("STOP", text(""))), `"ab"`, message.Stop, ""},
	"text in one piece":                {stream(finish("STOP", text("a"))), `"a"`, message.Stop, ""},
	"thoughts":                         {stream(parts(thought("t")), parts(thought("u")), finish("STOP", text("a"))), `(tu) "a"`, message.Stop, ""},
	"a signature on a part of its own": {stream(parts(text("a")), finish("STOP", `{"text":"","thoughtSignature":"S"}`)), `"a" ""#S`, message.Stop, ""},
	"a signed text is not joined":      {stream(parts(text("a")), parts(`{"text":"b","thoughtSignature":"S"}`), finish("STOP", text("c"))), `"a" "b"#S "c"`, message.Stop, ""},
	"a signed thought":                 {stream(parts(`{"text":"t","thought":true,"thoughtSignature":"S"}`), finish("STOP", text("a"))), `(t)#S "a"`, message.Stop, ""},
	"a call":                           {stream(finish("STOP", call(`"name":"f","args":{"p":1}`))), `f{"p":1}`, message.ToolUse, ""},
	"a call without arguments":         {stream(finish("STOP", call(`"name":"f"`))), `f{}`, message.ToolUse, ""},
	"arguments that are no object":     {stream(finish("STOP", call(`"name":"f","args":[1]`), call(`"name":"f","args":null`))), `f![1] f{}`, message.ToolUse, ""},
	"parallel calls, the first signed": {stream(parts(`{"functionCall":{"name":"f","args":{"p":1},"id":"x"},"thoughtSignature":"S"}`), parts(call(`"name":"f","args":{"p":2},"id":"y"`)), finish("STOP", text(""))), `f{"p":1}#S f{"p":2}`, message.ToolUse, ""},
	"calls with the same id":           {stream(finish("STOP", call(`"name":"f","id":"x"`), call(`"name":"g","id":"x"`))), `f{} g{}`, message.ToolUse, ""},
	"calls and then text":              {stream(finish("STOP", call(`"name":"f"`), text("a"))), `f{} "a"`, message.ToolUse, ""},
	"arguments in pieces":              {stream(parts(call(`"name":"f","willContinue":true`)), parts(call(`"partialArgs":[{"jsonPath":"$.id","stringValue":"A","willContinue":true}],"willContinue":true`)), parts(call(`"partialArgs":[{"jsonPath":"$.id","stringValue":"B"}],"willContinue":true`)), parts(call(``)), finish("STOP", text(""))), `f{"id":"AB"}`, message.ToolUse, ""},
	"arguments in nested pieces":       {stream(parts(call(`"name":"f","willContinue":true`)), parts(call(`"partialArgs":[{"jsonPath":"$.a.b[0]","numberValue":1},{"jsonPath":"$.a.b[1]","boolValue":true},{"jsonPath":"$['c d']","nullValue":"NULL_VALUE"}]`)), finish("STOP", text(""))), `f{"a":{"b":[1,true]},"c d":null}`, message.ToolUse, ""},
	"arguments with no known place":    {stream(parts(call(`"name":"f","willContinue":true`)), parts(call(`"partialArgs":[{"jsonPath":"$..x","numberValue":1}]`)), finish("STOP", text(""))), `f!null`, message.ToolUse, ""},
	"arguments with a hole":            {stream(parts(call(`"name":"f","partialArgs":[{"jsonPath":"$.x[5]","numberValue":1}]`)), finish("STOP", text(""))), `f!{"x":null}`, message.ToolUse, ""},
	"a call that never ended":          {stream(parts(call(`"name":"f","willContinue":true`)), finish("STOP", text(""))), `f!`, message.ToolUse, ""},
	"a call that the limit cut":        {stream(parts(call(`"name":"f","willContinue":true`)), parts(call(`"partialArgs":[{"jsonPath":"$.x","numberValue":1}],"willContinue":true`)), finish("MAX_TOKENS", text(""))), `f!`, message.Length, ""},
	"a call without a name":            {stream(finish("STOP", call(`"args":{}`))), `unnamed_tool!{}`, message.ToolUse, ""},
	"what the provider ran":            {stream(parts(`{"executableCode":{"language":"PYTHON","code":"1"},"thoughtSignature":"S"}`), parts(`{"codeExecutionResult":{"outcome":"OUTCOME_OK"}}`), finish("STOP", text("a"))), `[executableCode]{"executableCode":{"language":"PYTHON","code":"1"},"thoughtSignature":"S"} [codeExecutionResult]{"codeExecutionResult":{"outcome":"OUTCOME_OK"}} "a"`, message.Stop, ""},
	"a part of an unknown kind":        {stream(finish("STOP", `{"novel":1}`, text("a"))), `[novel]{"novel":1} "a"`, message.Stop, ""},
	"a piece without candidates":       {stream(parts(text("a ")), `{"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":10}}`, finish("STOP", text("b"))), `"a b"`, message.Stop, ""},
	"other candidates do not count":    {stream(`{"candidates":[{"index":1,"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}`, finish("STOP", text("a"))), `"a"`, message.Stop, ""},
	"nothing counts after the end":     {stream(finish("STOP", text("a")), finish("STOP", text("b"))), `"a"`, message.Stop, ""},
	"the length of the answer":         {stream(finish("MAX_TOKENS", text("a"))), `"a"`, message.Length, ""},
	"withheld":                         {stream(parts(text("a")), finish("SAFETY")), `"a"`, "", provider.Refused},
	"recited":                          {stream(parts(text("a")), finish("RECITATION")), `"a"`, "", provider.Refused},
	"a prompt that was refused":        {stream(`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":7,"totalTokenCount":7}}`), ``, "", provider.Refused},
	"a call that the provider dropped": {stream(finish("MALFORMED_FUNCTION_CALL")), ``, "", provider.Server},
	"a reason nobody knows":            {stream(finish("OTHER", text("a"))), `"a"`, "", provider.UnmappedStopReason},
	"no end":                           {stream(parts(text("a"))), `"a"`, "", provider.Disconnect},
	"half a call is dropped":           {stream(parts(text("a"), call(`"name":"f","willContinue":true`))), `"a"`, "", provider.Disconnect},
	"an error of the rate":             {stream(`{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"slow"}}`), ``, "", provider.RateLimit},
	"an error after some text":         {stream(parts(text("a")), `{"error":{"code":503,"status":"UNAVAILABLE","message":"busy"}}`), `"a"`, "", provider.Overloaded},
	"an error in a list":               {stream(`[{"error":{"code":500,"status":"INTERNAL","message":"oops"}}]`), ``, "", provider.Server},
	"a request that does not fit":      {stream(`{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"The input token count exceeds the maximum number of tokens allowed"}}`), ``, "", provider.Overflow},
	"an event that is no JSON":         {stream(parts(text("a")), "{"), `"a"`, "", provider.MalformedStream},
	"an event that is no object":       {stream(parts(text("a")), "5"), `"a"`, "", provider.MalformedStream},
	"nothing":                          {nil, ``, "", provider.Disconnect},
}

func TestEveryThingThatTheDialectSays(t *testing.T) { corpus.Test(t, New()) }

func TestEveryStreamHasOneOutcomeWhateverItsCut(t *testing.T) {
	dialecttest.Streams(t, open, corpus.Streams()...)
}

func FuzzFold(f *testing.F) { dialecttest.Fuzz(f, open, corpus.Streams()...) }

func TestAPromptThatWasRefusedSaysByWhat(t *testing.T) {
	e := dialecttest.Fold(New(), provider.Request{}, corpus["a prompt that was refused"].Body).Failure
	if e.Detail != "BLOCKED_PROHIBITED_CONTENT" || e.Retryable() || e.Partial == nil || e.Partial.Usage.Input != 7 {
		t.Errorf("%+v", e)
	}
}

func TestUsageIsNormalisedToDisjointBuckets(t *testing.T) {
	complete := usage.Reported(usage.API, usage.Complete)
	for _, c := range []struct {
		name, report string
		want         usage.Usage
	}{
		{"cached is a part, thoughts are beside", `{"promptTokenCount":1000,"cachedContentTokenCount":600,"candidatesTokenCount":50,"thoughtsTokenCount":150,"totalTokenCount":1200}`,
			usage.Usage{Input: 400, CacheRead: 600, Output: 200, Reasoning: new(int64(150)), TotalTokens: 1200, Evidence: complete}},
		{"what tools put into the prompt", `{"promptTokenCount":147,"candidatesTokenCount":108,"totalTokenCount":783,"toolUsePromptTokenCount":360,"thoughtsTokenCount":168}`,
			usage.Usage{Input: 507, Output: 276, Reasoning: new(int64(168)), TotalTokens: 783, Evidence: complete}},
		{"zero counts are left out", `{"promptTokenCount":5}`, usage.Usage{Input: 5, TotalTokens: 5, Evidence: complete}},
		{"no prompt", `{"candidatesTokenCount":5}`, usage.Usage{Output: 5, TotalTokens: 5, Evidence: usage.Reported(usage.API, usage.Partial)}},
		{"no counts", `{"trafficType":"ON_DEMAND"}`, usage.Unknown(usage.API)},
	} {
		body := stream(`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"usageMetadata":` + c.report + `}`)
		a := dialecttest.Fold(New(), provider.Request{}, body)
		if a.Failure != nil {
			t.Fatal(a.Failure)
		}
		if diff := cmp.Diff(c.want, a.Settled.Usage, cmp.AllowUnexported(usage.Evidence{}, usage.Amount{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	broken := dialecttest.Fold(New(), provider.Request{}, stream(`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":9}}`)).Failure
	if c, _ := broken.Partial.Usage.Evidence.Tokens(); c != usage.Partial {
		t.Errorf("usage of a broken answer: %+v", broken.Partial.Usage)
	}
}

func TestAnAnswerThatWasNotStreamedIsReadToo(t *testing.T) {
	for name, body := range map[string]string{"one response": finish("STOP", text("a"), text("b")), "a list": "[" + parts(text("a")) + "," + finish("STOP", text("b")) + "]"} {
		if a := dialecttest.Whole(t, New(), body); a.Failure != nil || dialecttest.Sketch(a.Settled.Content) != `"ab"` {
			t.Errorf("%s: %+v, %v", name, a.Settled, a.Failure)
		}
	}
	if a := dialecttest.Whole(t, New(), `{"error":{"code":404,"message":"no"}}`); a.Failure == nil || a.Failure.Class != provider.NotFound {
		t.Errorf("%v", a.Failure)
	}
	if a := dialecttest.Whole(t, New(), `{"detail":"Not Found"}`); a.Failure == nil || !strings.Contains(a.Failure.Message, "Not Found") {
		t.Errorf("%v", a.Failure)
	}
}

// TestArgumentsInPiecesAreTheArguments takes arguments apart and has them put together again.
func TestArgumentsInPiecesAreTheArguments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		args := values(3).Draw(t, "args")
		var pieces []string
		take(t, args, "$", &pieces)
		events := []string{parts(call(`"name":"f","willContinue":true`))}
		for _, p := range pieces {
			events = append(events, parts(call(`"partialArgs":[`+p+`],"willContinue":true`)))
		}
		a := dialecttest.Fold(New(), provider.Request{}, stream(append(events, parts(call("")), finish("STOP"))...))
		if a.Failure != nil {
			t.Fatal(a.Failure)
		}
		calls, _ := a.Settled.ToolCalls()
		if !calls[0].Arguments.Equal(args) {
			t.Fatalf("%s became %s", args, calls[0].Arguments)
		}
	})
}

// take writes the pieces of a value.
func take(t *rapid.T, v jsonv.Value, path string, pieces *[]string) {
	add := func(field string) { *pieces = append(*pieces, `{"jsonPath":`+jsonv.Str(path).String()+`,`+field+`}`) }
	switch v.Kind() {
	case jsonv.Object:
		for name, f := range v.Fields() {
			take(t, f, path+"."+name, pieces)
		}
	case jsonv.Array:
		for i, e := range v.Elems() {
			take(t, e, path+"["+string(rune('0'+i))+"]", pieces)
		}
	case jsonv.String:
		s, _ := v.Text()
		cut := rapid.IntRange(0, len(s)).Draw(t, "cut")
		add(`"stringValue":` + jsonv.Str(s[:cut]).String() + `,"willContinue":true`)
		add(`"stringValue":` + jsonv.Str(s[cut:]).String())
	case jsonv.Int, jsonv.Float:
		add(`"numberValue":` + v.String())
	case jsonv.Bool:
		add(`"boolValue":` + v.String())
	case jsonv.Null:
		add(`"nullValue":"NULL_VALUE"`)
	}
}

// values draws objects without empty containers, which have no piece.
func values(depth int) *rapid.Generator[jsonv.Value] {
	return rapid.Custom(func(t *rapid.T) jsonv.Value {
		var fields []jsonv.Member
		for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z_]{1,4}`), 1, 3, rapid.ID[string]).Draw(t, "names") {
			fields = append(fields, jsonv.F(name, value(depth).Draw(t, name)))
		}
		return jsonv.Obj(fields...)
	})
}

func value(depth int) *rapid.Generator[jsonv.Value] {
	scalar := rapid.OneOf(
		rapid.Map(rapid.StringMatching(`[ -~]{0,6}`), jsonv.Str), rapid.Map(rapid.Int64(), jsonv.Num), rapid.Map(rapid.Bool(), jsonv.Boolean), rapid.Just(jsonv.Value{}))
	if depth == 0 {
		return scalar
	}
	return rapid.OneOf(scalar, values(depth-1), rapid.Map(rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[jsonv.Value] { return value(depth - 1) }), 1, 3),
		func(list []jsonv.Value) jsonv.Value { return jsonv.Arr(list...) }))
}

func BenchmarkFold(b *testing.B) {
	var events []string
	for range 1000 {
		events = append(events, parts(text(" word")))
	}
	body := stream(append(events, finish("STOP"))...)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if a := dialecttest.Fold(New(), provider.Request{}, body); a.Failure != nil {
			b.Fatal(a.Failure)
		}
	}
}
