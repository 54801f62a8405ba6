package openaichat

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider/remote"
	"github.com/loom-run/loom/provider/remote/remotetest"
)

const tokensOfVoice = `"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`

func endOf(a remotetest.Answer) string {
	if a.Word != "" {
		return a.Word
	}
	return map[message.StopReason]string{message.Stop: "stop", message.Length: "length", message.ToolUse: "tool_calls"}[a.Stop]
}

func callOfVoice(i int, c remotetest.Call, id, args string) string {
	return fmt.Sprintf(`{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}`, i, id, c.Name, jsonv.Str(args))
}

func TestConformance(t *testing.T) {
	remotetest.Run(t, remotetest.Voice{
		New: func() remote.Dialect { return New() },
		Stream: func(a remotetest.Answer) (events []string) {
			if a.Thinking != "" {
				events = append(events, delta(`"reasoning_content":`+jsonv.Str(a.Thinking).String()))
			}
			for _, piece := range a.Text {
				events = append(events, delta(`"content":`+jsonv.Str(piece).String()))
			}
			for i, c := range a.Calls {
				half := len(c.Arguments) / 2
				events = append(events, delta(`"tool_calls":[`+callOfVoice(i, c, c.ID, c.Arguments[:half])+`]`),
					delta(fmt.Sprintf(`"tool_calls":[{"index":%d,"function":{"arguments":%s}}]`, i, jsonv.Str(c.Arguments[half:]))))
			}
			if a.Open {
				return events
			}
			return append(events, finish(endOf(a)), `{"choices":[],`+tokensOfVoice+`}`, "[DONE]")
		},
		Whole: func(a remotetest.Answer) string {
			var calls []string
			for i, c := range a.Calls {
				calls = append(calls, callOfVoice(i, c, c.ID, c.Arguments))
			}
			fields := `"role":"assistant","content":` + jsonv.Str(strings.Join(a.Text, "")).String()
			if a.Thinking != "" {
				fields += `,"reasoning_content":` + jsonv.Str(a.Thinking).String()
			}
			if calls != nil {
				fields += `,"tool_calls":[` + strings.Join(calls, ",") + `]`
			}
			return `{"choices":[{"index":0,"message":{` + fields + `},"finish_reason":"` + endOf(a) + `"}],` + tokensOfVoice + `}`
		},
		Fault: `{"error":{"message":"busy","type":"overloaded_error"}}`, Novel: "novel", Withheld: "content_filter", CutCall: true,
	})
}
