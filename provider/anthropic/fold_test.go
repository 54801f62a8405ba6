package anthropic

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect/dialecttest"
	"github.com/loom-run/loom/provider/remote"
)

func open() remote.Dialect { return New() }

func started(usage string) string {
	return `{"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"served","content":[],"stop_reason":null,"usage":` + usage + `}}`
}

func begins(index, block string) string {
	return `{"type":"content_block_start","index":` + index + `,"content_block":` + block + `}`
}

func delta(index, d string) string {
	return `{"type":"content_block_delta","index":` + index + `,"delta":` + d + `}`
}

func ends(index string) string { return `{"type":"content_block_stop","index":` + index + `}` }

func finish(reason string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},"usage":{"output_tokens":9}}`
}

const (
	hello   = `{"input_tokens":5,"output_tokens":1}`
	stopped = `{"type":"message_stop"}`
	ping    = `{"type":"ping"}`
)

// said is a whole text block.
func said(index, text string) []string {
	return []string{begins(index, `{"type":"text","text":""}`), delta(index, `{"type":"text_delta","text":"`+text+`"}`), ends(index)}
}

func answer(parts ...any) []byte {
	events := []string{started(hello)}
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			events = append(events, p)
		case []string:
			events = append(events, p...)
		}
	}
	return dialecttest.Stream(events...)
}

// corpus is one stream for each thing that the dialect can say.
var corpus = dialecttest.Corpus{
	"text": {answer(ping, said("0", "a"), finish("end_turn"), stopped), `"a"`, message.Stop, ""},
	"text that came with its beginning": {answer(begins("0", `{"type":"text","text":"a"}`), delta("0", `{"type":"text_delta","text":"b"}`), ends("0"), finish("end_turn"), stopped),
		`"ab"`, message.Stop, ""},
	"an empty block is none": {answer(said("0", ""), said("1", "a"), finish("end_turn"), stopped), `"a"`, message.Stop, ""},
	"thinking and its signature in pieces": {answer(begins("0", `{"type":"thinking","thinking":"","signature":""}`), delta("0", `{"type":"thinking_delta","thinking":"t"}`),
		delta("0", `{"type":"signature_delta","signature":"S1"}`), delta("0", `{"type":"signature_delta","signature":"S2"}`), ends("0"), said("1", "a"), finish("end_turn"), stopped),
		`(t)#S1S2 "a"`, message.Stop, ""},
	"thinking that is not shown": {answer(begins("0", `{"type":"thinking","thinking":"","signature":"S"}`), ends("0"), said("1", "a"), finish("end_turn"), stopped), `()#S "a"`, message.Stop, ""},
	"redacted thinking":          {answer(begins("0", `{"type":"redacted_thinking","data":"DATA"}`), ends("0"), said("1", "a"), finish("end_turn"), stopped), `[]#DATA "a"`, message.Stop, ""},
	"parallel calls, interleaved": {answer(begins("0", `{"type":"tool_use","id":"x","name":"f","input":{}}`), begins("1", `{"type":"tool_use","id":"y","name":"g","input":{}}`),
		delta("1", `{"type":"input_json_delta","partial_json":"{\"q\":"}`), delta("0", `{"type":"input_json_delta","partial_json":"{\"p\":"}`),
		delta("0", `{"type":"input_json_delta","partial_json":"1}"}`), delta("1", `{"type":"input_json_delta","partial_json":"2}"}`), ends("0"), ends("1"), finish("tool_use"), stopped),
		`f{"p":1} g{"q":2}`, message.ToolUse, ""},
	"a call without arguments": {answer(begins("0", `{"type":"tool_use","id":"x","name":"f","input":{}}`), delta("0", `{"type":"input_json_delta","partial_json":""}`), ends("0"), finish("tool_use"), stopped),
		`f{}`, message.ToolUse, ""},
	"a call whose input came with its beginning": {answer(begins("0", `{"type":"tool_use","id":"x","name":"f","input":{"p":1}}`), ends("0"), finish("tool_use"), stopped), `f{"p":1}`, message.ToolUse, ""},
	"a call whose input came with its beginning, and in pieces": {answer(begins("0", `{"type":"tool_use","id":"x","name":"f","input":{"p":1}}`),
		delta("0", `{"type":"input_json_delta","partial_json":"{\"p\":2}"}`), ends("0"), finish("tool_use"), stopped), `f{"p":2}`, message.ToolUse, ""},
	"an input that is no object": {answer(begins("0", `{"type":"tool_use","id":"x","name":"f","input":[1]}`), ends("0"), begins("1", `{"type":"tool_use","id":"y","name":"f","input":null}`), ends("1"),
		finish("tool_use"), stopped), `f![1] f{}`, message.ToolUse, ""},
	"an input that is a text": {answer(begins("0", `{"type":"tool_use","id":"x","name":"f","input":"{\"p\":1}"}`), ends("0"), finish("tool_use"), stopped), `f{"p":1}`, message.ToolUse, ""},
	"a call that is malformed": {answer(begins("0", `{"type":"tool_use","id":"x","name":"f","input":{}}`), delta("0", `{"type":"input_json_delta","partial_json":"{\"p\":"}`), ends("0"), finish("tool_use"), stopped),
		`f!{"p":`, message.ToolUse, ""},
	"a call that the limit cut": {answer(said("0", "a"), begins("1", `{"type":"tool_use","id":"x","name":"f","input":{}}`), delta("1", `{"type":"input_json_delta","partial_json":"{\"p\":"}`), finish("max_tokens"), stopped),
		`"a" f!{"p":`, message.Length, ""},
	"a call that the limit cut before its arguments": {answer(begins("0", `{"type":"tool_use","id":"x","name":"f","input":{}}`), finish("max_tokens"), stopped), `f!`, message.Length, ""},
	"a reused call id": {answer(begins("0", `{"type":"tool_use","id":"x","name":"f","input":{}}`), ends("0"), begins("1", `{"type":"tool_use","id":"x","name":"g","input":{}}`), ends("1"), finish("tool_use"), stopped),
		`f{} g{}`, message.ToolUse, ""},
	"a reused index": {answer(said("0", "a"), said("0", "b"), finish("end_turn"), stopped), `"a" "b"`, message.Stop, ""},
	"what the provider ran": {answer(begins("0", `{"type":"server_tool_use","id":"s","name":"search","input":{}}`), delta("0", `{"type":"input_json_delta","partial_json":"{\"q\":"}`),
		delta("0", `{"type":"input_json_delta","partial_json":"1}"}`), ends("0"), begins("1", `{"type":"search_tool_result","tool_use_id":"s","content":[1]}`), ends("1"), said("2", "a"), finish("end_turn"), stopped),
		`[server_tool_use search]{"type":"server_tool_use","id":"s","name":"search","input":{"q":1}} [search_tool_result]{"type":"search_tool_result","tool_use_id":"s","content":[1]} "a"`, message.Stop, ""},
	"a block of an unknown kind, in pieces": {answer(begins("0", `{"type":"compaction","content":null}`), delta("0", `{"type":"compaction_delta","content":"so "}`), delta("0", `{"type":"compaction_delta","content":"far"}`), ends("0"), finish("end_turn"), stopped),
		`[compaction]{"type":"compaction","content":"so far"}`, message.Stop, ""},
	"an unknown event and an unknown delta": {answer(`{"type":"novel","x":1}`, begins("0", `{"type":"text","text":"a"}`), delta("0", `{"type":"citations_delta","citation":{}}`), ends("0"), finish("end_turn"), stopped), `"a"`, message.Stop, ""},
	"content in the first event": {dialecttest.Stream(`{"type":"message_start","message":{"id":"m","model":"served","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"x","name":"f","input":{"p":1}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}}`, stopped),
		`"a" f{"p":1}`, message.ToolUse, ""},
	"a repeated beginning":            {answer(started(hello), said("0", "a"), finish("end_turn"), stopped), `"a"`, message.Stop, ""},
	"a repeated beginning of a block": {answer(begins("0", `{"type":"text","text":""}`), delta("0", `{"type":"text_delta","text":"a"}`), begins("0", `{"type":"text","text":""}`), delta("0", `{"type":"text_delta","text":"b"}`), ends("0"), finish("end_turn"), stopped), `"ab"`, message.Stop, ""},
	"another answer, spliced on":      {answer(said("0", "a"), started(hello), said("0", "a"), finish("end_turn"), stopped), `"a"`, "", provider.Disconnect},
	"no end mark":                     {answer(said("0", "a"), finish("end_turn")), `"a"`, message.Stop, ""},
	"no stop reason":                  {answer(said("0", "a"), stopped), `"a"`, message.Stop, ""},
	"neither":                         {answer(said("0", "a")), `"a"`, "", provider.Disconnect},
	"half a call is dropped":          {answer(said("0", "a"), begins("1", `{"type":"tool_use","id":"x","name":"f","input":{}}`)), `"a"`, "", provider.Disconnect},
	"an error after some text":        {answer(begins("0", `{"type":"text","text":"a"}`), `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), `"a"`, "", provider.Overloaded},
	"an error of the rate":            {answer(`{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`), ``, "", provider.RateLimit},
	"an error of the provider":        {answer(`{"type":"error","error":{"type":"api_error","message":"oops"}}`), ``, "", provider.Server},
	"an error of the request":         {answer(`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}`), ``, "", provider.Overflow},
	"a stop sequence":                 {answer(said("0", "a"), finish("stop_sequence"), stopped), `"a"`, message.Stop, ""},
	"a paused turn":                   {answer(said("0", "a"), finish("pause_turn"), stopped), `"a"`, message.Stop, ""},
	"the window is full":              {answer(said("0", "a"), finish("model_context_window_exceeded"), stopped), `"a"`, message.Length, ""},
	"a reason nobody knows":           {answer(said("0", "a"), finish("novel"), stopped), `"a"`, "", provider.UnmappedStopReason},
	"a refusal":                       {answer(said("0", ""), `{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber","explanation":"Not this."}},"usage":{"output_tokens":0}}`, stopped), ``, "", provider.Refused},
	"deltas without a beginning":      {answer(delta("0", `{"type":"text_delta","text":"a"}`), finish("end_turn"), stopped), `"a"`, message.Stop, ""},
	"an event that is no JSON":        {answer(said("0", "a"), "{"), `"a"`, "", provider.MalformedStream},
	"nothing":                         {nil, ``, "", provider.Disconnect},
}

func TestEveryThingThatTheDialectSays(t *testing.T) { corpus.Test(t, New()) }

func TestEveryStreamHasOneOutcomeWhateverItsCut(t *testing.T) {
	dialecttest.Streams(t, open, corpus.Streams()...)
}

func FuzzFold(f *testing.F) { dialecttest.Fuzz(f, open, corpus.Streams()...) }

func TestARefusalNamesItsCategory(t *testing.T) {
	a := dialecttest.Fold(New(), provider.Request{}, corpus["a refusal"].Body)
	if a.Failure.Detail != "refusal cyber" || !strings.HasSuffix(a.Failure.Message, ": Not this") || a.Failure.Retryable() {
		t.Errorf("%+v", a.Failure)
	}
}

func TestUsageIsWhatWasReportedLast(t *testing.T) {
	for _, c := range []struct {
		name        string
		first, last string
		want        usage.Usage
	}{
		{"disjoint as it comes", `{"input_tokens":50,"cache_creation_input_tokens":30000,"cache_read_input_tokens":1200,"output_tokens":1}`, `{"output_tokens":400}`,
			usage.Usage{Input: 50, CacheWrite: 30000, CacheRead: 1200, Output: 400, TotalTokens: 31650, Evidence: usage.Reported(usage.API, usage.Complete)}},
		{"two lifetimes", `{"input_tokens":1,"cache_creation_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":4,"ephemeral_1h_input_tokens":5},"output_tokens":1}`, `{"output_tokens":2}`,
			usage.Usage{Input: 1, CacheWrite: 9, CacheWrite1h: new(int64(5)), Output: 2, TotalTokens: 12, Evidence: usage.Reported(usage.API, usage.Complete)}},
		{"the later value wins", `{"input_tokens":43,"output_tokens":1}`, `{"input_tokens":61,"output_tokens":2}`,
			usage.Usage{Input: 61, Output: 2, TotalTokens: 63, Evidence: usage.Reported(usage.API, usage.Complete)}},
		{"no report at the end", `{"input_tokens":43,"output_tokens":1}`, `null`,
			usage.Usage{Input: 43, Output: 1, TotalTokens: 44, Evidence: usage.Reported(usage.API, usage.Partial)}},
		{"output alone", `null`, `{"output_tokens":2}`, usage.Usage{Output: 2, TotalTokens: 2, Evidence: usage.Reported(usage.API, usage.Partial)}},
		{"nothing", `null`, `null`, usage.Unknown(usage.API)},
		{"counts that cannot be", `{"input_tokens":-4,"output_tokens":1}`, `{"output_tokens":99999999999999999999}`,
			usage.Usage{Output: 1_000_000_000_000, TotalTokens: 1_000_000_000_000, Evidence: usage.Reported(usage.API, usage.Complete)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			events := append(append([]string{started(c.first)}, said("0", "a")...), `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":`+c.last+`}`, stopped)
			a := dialecttest.Fold(New(), provider.Request{}, dialecttest.Stream(events...))
			if a.Failure != nil {
				t.Fatal(a.Failure)
			}
			if diff := cmp.Diff(c.want, a.Settled.Usage, cmp.AllowUnexported(usage.Evidence{}, usage.Amount{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	broken := dialecttest.Fold(New(), provider.Request{}, answer(said("0", "a")))
	if c, _ := broken.Failure.Partial.Usage.Evidence.Tokens(); c != usage.Partial || broken.Failure.Partial.Usage.Input != 5 {
		t.Errorf("usage of a broken answer: %+v", broken.Failure.Partial.Usage)
	}
}

func TestAnAnswerThatWasNotStreamedIsReadToo(t *testing.T) {
	a := dialecttest.Whole(t, New(), `{"id":"m","type":"message","role":"assistant","model":"served","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"x","name":"f","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}`)
	if a.Failure != nil || dialecttest.Sketch(a.Settled.Content) != `"a" f{}` || a.Settled.Usage.Output != 2 || *a.Settled.ResponseModel != "served" {
		t.Errorf("%+v, %v", a.Settled, a.Failure)
	}
	if a := dialecttest.Whole(t, New(), `{"type":"error","error":{"type":"not_found_error","message":"model: x"}}`); a.Failure == nil || a.Failure.Class != provider.NotFound {
		t.Errorf("%v", a.Failure)
	}
}

func BenchmarkFold(b *testing.B) {
	events := []string{started(hello), begins("0", `{"type":"text","text":""}`)}
	for range 1000 {
		events = append(events, delta("0", `{"type":"text_delta","text":" word"}`))
	}
	body := dialecttest.Stream(append(events, ends("0"), finish("end_turn"), stopped)...)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if a := dialecttest.Fold(New(), provider.Request{}, body); a.Failure != nil {
			b.Fatal(a.Failure)
		}
	}
}
