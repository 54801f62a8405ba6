package openairesponses

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider/remote/remotetest"
)

// endOf is the fields of the closing state.
func endOf(a remotetest.Answer) (status, rest string) {
	reason := a.Word
	if a.Stop == message.Length {
		reason = "max_output_tokens"
	}
	rest = `,"usage":{"input_tokens":10,"output_tokens":5,"total_tokens":15}`
	if reason == "" {
		return "completed", rest
	}
	return "incomplete", rest + `,"incomplete_details":{"reason":"` + reason + `"}`
}

func itemsOf(a remotetest.Answer) (items []string) {
	if a.Thinking != "" {
		items = append(items, `{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":`+jsonv.Str(a.Thinking).String()+`}]}`)
	}
	if a.Text != nil {
		items = append(items, `{"type":"message","role":"assistant","content":[{"type":"output_text","text":`+jsonv.Str(strings.Join(a.Text, "")).String()+`}]}`)
	}
	for _, c := range a.Calls {
		items = append(items, callOf(c.ID, c.Name, c.Arguments))
	}
	return items
}

func TestConformance(t *testing.T) {
	remotetest.Run(t, remotetest.Voice{
		New: open,
		Stream: func(a remotetest.Answer) []string {
			events := []string{created}
			index := 0
			item := func(begin string, end string, deltas ...string) {
				at := strconv.Itoa(index)
				events = append(append(events, added(at, begin)), deltas...)
				if !a.Open && a.Stop != message.Length {
					events = append(events, done(at, end))
				}
				index++
			}
			items := itemsOf(a)
			at := func() string { return strconv.Itoa(index) }
			if a.Thinking != "" {
				item(`{"type":"reasoning","summary":[]}`, items[index], event("reasoning_text.delta", at(), `,"delta":`+jsonv.Str(a.Thinking).String()))
			}
			if a.Text != nil {
				var deltas []string
				for _, piece := range a.Text {
					deltas = append(deltas, event("output_text.delta", at(), `,"delta":`+jsonv.Str(piece).String()))
				}
				item(`{"type":"message","role":"assistant","content":[]}`, items[index], deltas...)
			}
			for _, c := range a.Calls {
				half := len(c.Arguments) / 2
				item(callOf(c.ID, c.Name, ""), items[index], argsDelta(at(), c.Arguments[:half]), argsDelta(at(), c.Arguments[half:]))
			}
			if a.Open {
				return events
			}
			status, rest := endOf(a)
			return append(events, closed(status, rest))
		},
		Whole: func(a remotetest.Answer) string {
			status, rest := endOf(a)
			return fmt.Sprintf(`{"id":"r1","object":"response","model":"served","status":%q,"output":[%s]%s}`, status, strings.Join(itemsOf(a), ","), rest)
		},
		Fault: `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`, Novel: "novel", Withheld: "content_filter", CutCall: true,
	})
}
