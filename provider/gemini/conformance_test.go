package gemini

import (
	"strings"
	"testing"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider/remote/remotetest"
)

func endOf(a remotetest.Answer) string {
	switch {
	case a.Word != "":
		return a.Word
	case a.Stop == message.Length:
		return "MAX_TOKENS"
	}
	return "STOP"
}

// partsOf is an answer as parts, whose arguments are values: they cannot be broken.
func partsOf(a remotetest.Answer) (list []string) {
	if a.Thinking != "" {
		list = append(list, `{"text":`+jsonv.Str(a.Thinking).String()+`,"thought":true}`)
	}
	for _, piece := range a.Text {
		list = append(list, `{"text":`+jsonv.Str(piece).String()+`}`)
	}
	for _, c := range a.Calls {
		fields := `"name":"` + c.Name + `","id":"` + c.ID + `"`
		if c.Arguments != "" {
			fields += `,"args":` + c.Arguments
		}
		list = append(list, call(fields))
	}
	return list
}

func TestConformance(t *testing.T) {
	remotetest.Run(t, remotetest.Voice{
		New: open,
		Stream: func(a remotetest.Answer) (events []string) {
			for _, p := range partsOf(a) {
				events = append(events, parts(p))
			}
			if a.Open {
				return events
			}
			return append(events, finish(endOf(a)))
		},
		Whole: func(a remotetest.Answer) string { return finish(endOf(a), strings.Join(partsOf(a), ",")) },
		Fault: `{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}`, Novel: "OTHER", Withheld: "SAFETY",
	})
}
