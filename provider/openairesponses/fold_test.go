package openairesponses

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect/dialecttest"
	"github.com/loom-run/loom/provider/remote"
)

func open() remote.Dialect { return New() }

const (
	created = `{"type":"response.created","response":{"id":"r1","model":"served","status":"in_progress","output":[]}}`
	mark    = "[DONE]"
)

func closed(status, rest string) string {
	return `{"type":"response.` + status + `","response":{"id":"r1","model":"served","status":"` + status + `","output":[]` + rest + `}}`
}

var completed = closed("completed", `,"usage":{"input_tokens":10,"output_tokens":5,"total_tokens":15}`)

func added(index, item string) string {
	return `{"type":"response.output_item.added","output_index":` + index + `,"item":` + item + `}`
}

func done(index, item string) string {
	return `{"type":"response.output_item.done","output_index":` + index + `,"item":` + item + `}`
}

func event(kind, index, rest string) string {
	return `{"type":"response.` + kind + `","item_id":"i","output_index":` + index + `,"content_index":0` + rest + `}`
}

func delta(index, text string) string {
	return event("output_text.delta", index, `,"delta":"`+text+`"`)
}

func textOf(text string) string {
	return `{"type":"message","id":"m","role":"assistant","status":"completed","content":[{"type":"output_text","text":"` + text + `","annotations":[]}]}`
}

func callOf(id, name, args string) string {
	return `{"type":"function_call","id":"fc","call_id":"` + id + `","name":"` + name + `","arguments":` + jsonv.Str(args).String() + `,"status":"completed"}`
}

func argsDelta(index, piece string) string {
	return event("function_call_arguments.delta", index, `,"delta":`+jsonv.Str(piece).String())
}

func stream(events ...string) []byte {
	return dialecttest.Stream(append([]string{created}, events...)...)
}

const begunText = `{"type":"message","id":"m","role":"assistant","content":[]}`

// corpus is one stream for each thing that the dialect can say.
var corpus = dialecttest.Corpus{
	"text":                               {stream(added("0", begunText), delta("0", "a"), delta("0", "b"), event("output_text.done", "0", `,"text":"ab"`), done("0", textOf("ab")), completed, mark), `"ab"#{"id":"m"}`, message.Stop, ""},
	"text that came at its end":          {stream(added("0", begunText), done("0", textOf("ab")), completed), `"ab"#{"id":"m"}`, message.Stop, ""},
	"text whose deltas were abridged":    {stream(added("0", begunText), delta("0", "a"), event("output_text.done", "0", `,"text":"abc"`), done("0", textOf("abc")), completed), `"abc"#{"id":"m"}`, message.Stop, ""},
	"text whose end says something else": {stream(added("0", begunText), delta("0", "xyz"), done("0", textOf("abc")), completed), `"abc"#{"id":"m"}`, message.Stop, ""},
	"phases": {stream(done("0", `{"type":"message","id":"m","phase":"commentary","content":[{"type":"output_text","text":"so"}]}`), done("1", `{"type":"message","id":"n","phase":"final_answer","content":[{"type":"output_text","text":"this"}]}`), completed),
		`"so"#{"id":"m","phase":"commentary"} "this"#{"id":"n","phase":"final_answer"}`, message.Stop, ""},
	"two parts of one message": {stream(added("0", begunText), delta("0", "a"), `{"type":"response.output_text.delta","output_index":0,"content_index":1,"delta":"b"}`,
		done("0", `{"type":"message","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]}`), completed), `"a" "b"`, message.Stop, ""},
	"a refusal is what the model says": {stream(added("0", begunText), event("refusal.delta", "0", `,"delta":"no"`), event("refusal.done", "0", `,"refusal":"no"`), done("0", `{"type":"message","content":[{"type":"refusal","refusal":"no"}]}`), completed),
		`"no"`, message.Stop, ""},
	"reasoning with a summary": {stream(added("0", `{"type":"reasoning","id":"rs","summary":[]}`), `{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"a"}`,
		`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":1,"delta":"b"}`,
		done("0", `{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"encrypted_content":"ENC"}`), done("1", textOf("x")), completed),
		"(a\n\nb)#ENC \"x\"#{\"id\":\"m\"}", message.Stop, ""},
	"reasoning that is not shown": {stream(done("0", `{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"ENC"}`), done("1", textOf("x")), completed), `()#ENC "x"#{"id":"m"}`, message.Stop, ""},
	"raw reasoning": {stream(added("0", `{"type":"reasoning","summary":[]}`), event("reasoning_text.delta", "0", `,"delta":"t"`), done("0", `{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"tu"}]}`), done("1", textOf("x")), completed),
		`(tu) "x"#{"id":"m"}`, message.Stop, ""},
	"parallel calls": {stream(added("0", callOf("x", "f", "")), added("1", callOf("y", "g", "")), argsDelta("1", `{"q":`), argsDelta("0", `{"p":1}`), argsDelta("1", `2}`),
		done("0", callOf("x", "f", `{"p":1}`)), done("1", callOf("y", "g", `{"q":2}`)), completed), `f{"p":1} g{"q":2}`, message.ToolUse, ""},
	"a call that came whole":       {stream(done("0", callOf("x", "f", `{"p":1}`)), completed), `f{"p":1}`, message.ToolUse, ""},
	"arguments that are no object": {stream(done("0", `{"type":"function_call","call_id":"x","name":"f","arguments":[1]}`), completed), `f![1]`, message.ToolUse, ""},
	"other arguments in the end":   {stream(done("0", callOf("x", "f", `{"p":1}`)), `{"type":"response.completed","response":{"status":"completed","output":[`+callOf("x", "f", `{"p":2}`)+`]}}`), `f!{"p":2}`, message.ToolUse, ""},
	"a call without arguments":     {stream(added("0", callOf("x", "f", "")), done("0", callOf("x", "f", "")), completed), `f{}`, message.ToolUse, ""},
	"a call that is malformed":     {stream(done("0", callOf("x", "f", `{"p":`)), completed), `f!{"p":`, message.ToolUse, ""},
	"a call that contradicts":      {stream(added("0", callOf("x", "f", "")), argsDelta("0", `{"p":1}`), done("0", callOf("x", "f", `{"p":2}`)), completed), `f!{"p":2}`, message.ToolUse, ""},
	"a call of two names":          {stream(added("0", callOf("x", "f", "")), done("0", callOf("x", "g", `{}`)), completed), `f!{}`, message.ToolUse, ""},
	"a call that the limit cut":    {stream(added("0", callOf("x", "f", "")), argsDelta("0", `{"p":`), closed("incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`)), `f!{"p":`, message.Length, ""},
	"a call that was cut at once":  {stream(added("0", callOf("x", "f", "")), closed("incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`)), `f!`, message.Length, ""},
	"a reused call id":             {stream(done("0", callOf("x", "f", `{}`)), done("1", callOf("x", "g", `{}`)), completed), `f{} g{}`, message.ToolUse, ""},
	"what the provider ran":        {stream(added("0", `{"type":"web_search_call","id":"ws"}`), `{"type":"response.web_search_call.searching","output_index":0}`, `{"type":"response.web_search_call.query.delta","output_index":0,"delta":"q"}`, done("0", `{"type":"web_search_call","id":"ws","status":"completed"}`), done("1", textOf("a")), completed), `[web_search_call]{"type":"web_search_call","id":"ws","status":"completed"} "a"#{"id":"m"}`, message.Stop, ""},
	"a part of an unknown kind":    {stream(done("0", `{"type":"message","content":[{"type":"output_audio","data":"x"},{"type":"output_text","text":"a"}]}`), completed), `[output_audio]{"type":"output_audio","data":"x"} "a"`, message.Stop, ""},
	"unknown events":               {stream(`{"type":"response.novel"}`, `{"type":"novel"}`, done("0", textOf("a")), completed), `"a"#{"id":"m"}`, message.Stop, ""},
	"unknown content":              {stream(added("0", begunText), delta("0", "a"), event("output_audio.delta", "0", `,"delta":"x"`)), `"a"`, "", provider.MalformedStream},
	"content of another kind":      {stream(added("0", begunText), delta("0", "a"), argsDelta("0", "{")), `"a"`, "", provider.MalformedStream},
	"other calls in the end":       {stream(done("0", callOf("x", "f", `{}`)), `{"type":"response.completed","response":{"status":"completed","output":[`+callOf("x", "f", `{}`)+`,`+callOf("y", "g", `{}`)+`]}}`), `f{}`, "", provider.MalformedStream},
	"nothing but the end":          {stream(`{"type":"response.completed","response":{"status":"completed","output":[` + textOf("a") + `,` + callOf("y", "g", `{}`) + `]}}`), `"a"#{"id":"m"} g{}`, message.ToolUse, ""},
	"an id that rotates":           {stream(added("0", begunText), `{"type":"response.output_text.delta","item_id":"1","output_index":0,"content_index":0,"delta":"a"}`, `{"type":"response.output_text.delta","item_id":"2","output_index":0,"content_index":0,"delta":"b"}`, completed), `"ab"`, message.Stop, ""},
	"a repeated item":              {stream(added("0", begunText), delta("0", "a"), added("0", begunText), done("0", textOf("a")), done("0", textOf("a")), completed), `"a"#{"id":"m"}`, message.Stop, ""},
	"another answer, spliced on":   {stream(numbered(0, added("0", begunText)), numbered(1, delta("0", "a")), numbered(0, strings.Replace(created, "r1", "r2", 1)), numbered(1, delta("0", "b")), completed), `"a"`, "", provider.Disconnect},
	"no end":                       {stream(added("0", begunText), delta("0", "a"), done("0", textOf("a"))), `"a"#{"id":"m"}`, "", provider.Disconnect},
	"half a call is dropped":       {stream(done("0", textOf("a")), added("1", callOf("x", "f", "")), argsDelta("1", "{")), `"a"#{"id":"m"}`, "", provider.Disconnect},
	"the length of the answer":     {stream(added("0", begunText), delta("0", "a"), closed("incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`)), `"a"`, message.Length, ""},
	"withheld":                     {stream(added("0", begunText), delta("0", "a"), closed("incomplete", `,"incomplete_details":{"reason":"content_filter"}`)), `"a"`, "", provider.Refused},
	"a reason nobody knows":        {stream(added("0", begunText), delta("0", "a"), closed("incomplete", `,"incomplete_details":{"reason":"novel"}`)), `"a"`, "", provider.UnmappedStopReason},
	"a response that was given up": {stream(added("0", begunText), delta("0", "a"), closed("cancelled", ``)), `"a"`, "", provider.UnmappedStopReason},
	"a failure of the provider":    {stream(added("0", begunText), delta("0", "a"), closed("failed", `,"error":{"code":"server_error","message":"oops"}`)), `"a"`, "", provider.Server},
	"a failure of nothing":         {stream(closed("failed", `,"error":null`)), ``, "", provider.Server},
	"a failure of the rate":        {stream(closed("failed", `,"error":{"code":"rate_limit_exceeded","message":"slow"}`)), ``, "", provider.RateLimit},
	"a request that does not fit":  {stream(closed("failed", `,"error":{"code":"context_length_exceeded","message":"x"}`)), ``, "", provider.Overflow},
	"an account without credit":    {stream(`{"type":"error","code":"insufficient_quota","message":"pay"}`), ``, "", provider.Quota},
	"an error":                     {stream(added("0", begunText), delta("0", "a"), `{"type":"error","error":{"type":"server_error","message":"oops"}}`), `"a"`, "", provider.Server},
	"an event that is no JSON":     {stream(done("0", textOf("a")), "{"), `"a"#{"id":"m"}`, "", provider.MalformedStream},
	"nothing":                      {nil, ``, "", provider.Disconnect},
}

// numbered adds a sequence number to an event.
func numbered(n int64, e string) string {
	v, err := jsonv.ParseString(e)
	if err != nil {
		panic(err)
	}
	return v.With("sequence_number", jsonv.Num(n)).String()
}

func TestEveryThingThatTheDialectSays(t *testing.T) { corpus.Test(t, New()) }

func TestEveryStreamHasOneOutcomeWhateverItsCut(t *testing.T) {
	dialecttest.Streams(t, open, corpus.Streams()...)
}

func FuzzFold(f *testing.F) { dialecttest.Fuzz(f, open, corpus.Streams()...) }

// TestAStreamThatIsAttachedToAgainRepeatsNothing cuts a stream anywhere and goes on with what a second attachment replays from the start.
func TestAStreamThatIsAttachedToAgainRepeatsNothing(t *testing.T) {
	events := []string{created, strings.Replace(created, "created", "queued", 1), added("0", begunText), delta("0", "a"), delta("0", "b"), done("0", textOf("ab")), completed}
	for i := range events {
		events[i] = numbered(int64(i), events[i])
	}
	want := dialecttest.Fold(New(), provider.Request{}, dialecttest.Stream(events...))
	for cut := range events {
		for from := range 2 {
			spliced := append(append([]string(nil), events[:cut]...), events[from:]...)
			got := dialecttest.Fold(New(), provider.Request{}, dialecttest.Stream(spliced...))
			if got.Outcome() != want.Outcome() || len(got.Deltas) != len(want.Deltas) {
				t.Errorf("cut after %d, again from %d: %s", cut, from, got.Outcome())
			}
		}
	}
}

func TestUsageIsNormalisedToDisjointBuckets(t *testing.T) {
	for _, c := range []struct {
		name, report string
		want         usage.Usage
	}{
		{"cached and reasoning tokens are parts", `{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":15}`,
			usage.Usage{Input: 6, CacheRead: 4, Output: 5, Reasoning: new(int64(3)), TotalTokens: 15, Evidence: usage.Reported(usage.API, usage.Complete)}},
		{"no total", `{"input_tokens":10,"output_tokens":5}`, usage.Usage{Input: 10, Output: 5, TotalTokens: 15, Evidence: usage.Reported(usage.API, usage.Complete)}},
		{"one side only", `{"output_tokens":5}`, usage.Usage{Output: 5, TotalTokens: 5, Evidence: usage.Reported(usage.API, usage.Partial)}},
		{"nothing", `{}`, usage.Unknown(usage.API)},
		{"no report", `null`, usage.Unknown(usage.API)},
	} {
		a := dialecttest.Fold(New(), provider.Request{}, stream(done("0", textOf("a")), closed("completed", `,"usage":`+c.report)))
		if a.Failure != nil {
			t.Fatal(a.Failure)
		}
		if diff := cmp.Diff(c.want, a.Settled.Usage, cmp.AllowUnexported(usage.Evidence{}, usage.Amount{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestAnAnswerThatWasNotStreamedIsReadToo(t *testing.T) {
	a := dialecttest.Whole(t, New(), `{"id":"r","object":"response","status":"completed","model":"served","output":[`+textOf("a")+`],"usage":{"input_tokens":1,"output_tokens":2}}`)
	if a.Failure != nil || dialecttest.Sketch(a.Settled.Content) != `"a"#{"id":"m"}` || a.Settled.Usage.Output != 2 {
		t.Errorf("%+v, %v", a.Settled, a.Failure)
	}
	if a := dialecttest.Whole(t, New(), `{"error":{"message":"no","code":"model_not_found"}}`); a.Failure == nil || a.Failure.Class != provider.NotFound {
		t.Errorf("%v", a.Failure)
	}
}

func BenchmarkFold(b *testing.B) {
	events := []string{added("0", begunText)}
	for range 1000 {
		events = append(events, delta("0", " word"))
	}
	body := stream(append(events, completed)...)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if a := dialecttest.Fold(New(), provider.Request{}, body); a.Failure != nil {
			b.Fatal(a.Failure)
		}
	}
}
