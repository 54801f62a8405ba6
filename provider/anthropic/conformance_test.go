package anthropic

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider/remote/remotetest"
)

func endOf(a remotetest.Answer) string {
	if a.Word != "" {
		return a.Word
	}
	return map[message.StopReason]string{message.Stop: "end_turn", message.Length: "max_tokens", message.ToolUse: "tool_use"}[a.Stop]
}

func TestConformance(t *testing.T) {
	remotetest.Run(t, remotetest.Voice{
		New: open,
		Stream: func(a remotetest.Answer) []string {
			events := []string{started(`{"input_tokens":10,"output_tokens":1}`)}
			index := 0
			block := func(begin string, deltas ...string) {
				at := strconv.Itoa(index)
				events = append(events, begins(at, begin))
				for _, d := range deltas {
					events = append(events, delta(at, d))
				}
				if !a.Open {
					events = append(events, ends(at))
				}
				index++
			}
			if a.Thinking != "" {
				block(`{"type":"thinking","thinking":"","signature":""}`, `{"type":"thinking_delta","thinking":`+jsonv.Str(a.Thinking).String()+`}`)
			}
			if a.Text != nil {
				var deltas []string
				for _, piece := range a.Text {
					deltas = append(deltas, `{"type":"text_delta","text":`+jsonv.Str(piece).String()+`}`)
				}
				block(`{"type":"text","text":""}`, deltas...)
			}
			for _, c := range a.Calls {
				half := len(c.Arguments) / 2
				block(fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":{}}`, c.ID, c.Name),
					`{"type":"input_json_delta","partial_json":`+jsonv.Str(c.Arguments[:half]).String()+`}`,
					`{"type":"input_json_delta","partial_json":`+jsonv.Str(c.Arguments[half:]).String()+`}`)
			}
			if a.Open {
				return events
			}
			return append(events, `{"type":"message_delta","delta":{"stop_reason":"`+endOf(a)+`","stop_sequence":null},"usage":{"output_tokens":5}}`, stopped)
		},
		Whole: func(a remotetest.Answer) string {
			var content []string
			if a.Thinking != "" {
				content = append(content, `{"type":"thinking","thinking":`+jsonv.Str(a.Thinking).String()+`,"signature":""}`)
			}
			if a.Text != nil {
				content = append(content, `{"type":"text","text":`+jsonv.Str(strings.Join(a.Text, "")).String()+`}`)
			}
			for _, c := range a.Calls {
				input := c.Arguments
				if input == "" {
					input = "{}"
				}
				if _, err := jsonv.ParseString(input); err != nil {
					return "" // a call that is a value cannot be broken
				}
				content = append(content, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, c.ID, c.Name, input))
			}
			return `{"id":"m1","type":"message","role":"assistant","model":"served","content":[` + strings.Join(content, ",") + `],"stop_reason":"` + endOf(a) +
				`","usage":{"input_tokens":10,"output_tokens":5}}`
		},
		Fault: `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`, Novel: "novel", Withheld: "refusal", CutCall: true,
	})
}
