package project_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/internal/cases"
	"github.com/loom-run/loom/sdkmsg"
)

func fold(lines []sdkmsg.Line) project.Conversation {
	var c project.Conversation
	for _, l := range lines {
		c.Add(l)
	}
	return c
}

func lineOf(t *testing.T, v jsonv.Value) sdkmsg.Line {
	t.Helper()
	l, err := sdkmsg.LineOf(v)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// interrupted is a response over two lines whose call was cancelled, in our own words.
const interrupted = `{"type":"user","message":{"content":"look"},"uuid":"1"}
{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"I look."}],"usage":{"output_tokens":3}},"uuid":"2"}
{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"c","name":"Task","input":{}}],"usage":{"output_tokens":145}},"uuid":"3"}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c","content":"[Request interrupted by user for tool use]","is_error":true}]},"uuid":"4"}
{"type":"user","message":{"content":[{"type":"text","text":"[Request interrupted by user for tool use]"}]},"uuid":"5"}`

func linesOf(t *testing.T, text string) (out []sdkmsg.Line) {
	t.Helper()
	for line := range strings.Lines(text) {
		v, err := jsonv.ParseString(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, lineOf(t, v))
	}
	return out
}

// wantInterrupted holds one prompt, one response and one aborted turn.
func wantInterrupted(t *testing.T, lines []sdkmsg.Line, prompts int) {
	t.Helper()
	c := fold(lines)
	if len(c.Turns) != prompts+2 {
		t.Fatalf("%d turns: %+v", len(c.Turns), c.Turns)
	}
	r, end := c.Turns[prompts].Response, c.Turns[prompts+1].Ended
	if r == nil || len(r.Cards) != 1 || r.Cards[0].Outcome != project.CancelledCall || r.Text == "" || r.Usage.Output != plane.Exactly(145) {
		t.Errorf("the response is %+v", r)
	}
	if end == nil || !end.Aborted || !end.IsError {
		t.Errorf("the end is %+v", end)
	}
	if twice := fold(append(append([]sdkmsg.Line(nil), lines...), lines...)); !reflect.DeepEqual(twice.Turns, c.Turns) {
		t.Errorf("the same lines twice are %+v", twice.Turns)
	}
}

func TestOneResponseOverSeveralLinesIsOne(t *testing.T) {
	wantInterrupted(t, linesOf(t, interrupted), 1)
}

func TestAConversationOfARemoteClient(t *testing.T) {
	v := readCase(t, "client-runtime", "OT05.json")
	var lines []sdkmsg.Line
	for _, record := range v.Elems() {
		content, _ := record.Get("content")
		inner, _ := content.Get("content")
		if data, ok := inner.Get("data"); ok {
			lines = append(lines, lineOf(t, data))
		}
	}
	if len(lines) != 4 {
		t.Fatalf("%d lines", len(lines))
	}
	wantInterrupted(t, lines, 0) // the prompt is in a shape of that client
}

func readCase(t *testing.T, path ...string) jsonv.Value {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{cases.Dir(t), "sessions"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonv.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTurnsResultsAndCostOfAHeadlessRun(t *testing.T) {
	var lines []sdkmsg.Line
	for _, x := range readCase(t, "sdk-stream-json", "SD01", "sample-turns.json").Elems() {
		lines = append(lines, lineOf(t, x))
	}
	c := fold(lines)
	var tools []string
	var in, out []int64
	for _, turn := range c.Turns {
		if r := turn.Response; r != nil {
			// What the model read is one number there, and buckets that do not overlap here.
			in, out = append(in, r.Usage.Input.N+r.Usage.CacheRead.N+r.Usage.CacheWrite.N), append(out, r.Usage.Output.N)
			for _, card := range r.Cards {
				tools = append(tools, card.Tool)
				if card.Outcome != project.Succeeded || card.Text == "" {
					t.Errorf("%+v", card)
				}
				if card.Tool == "Edit" && len(card.Hunks) != 1 {
					t.Errorf("the edit changed %+v", card.Hunks)
				}
			}
		}
	}
	if want := []string{"Read", "Edit", "mcp__github__add_pull_request_review_comment"}; !reflect.DeepEqual(tools, want) {
		t.Errorf("%v", tools)
	}
	if !reflect.DeepEqual(in, []int64{150, 300, 225, 270}) || !reflect.DeepEqual(out, []int64{75, 50, 80, 60}) {
		t.Errorf("tokens in %v, out %v", in, out)
	}
	end := c.Turns[len(c.Turns)-1].Ended
	if end == nil || end.Cost != plane.Exactly(34_700) || !strings.HasPrefix(end.Answer, "Successfully removed") {
		t.Errorf("%+v", end)
	}
}

func TestWhatALineDoesNotSayIsUnknown(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(cases.Dir(t), "sessions", "sdk-stream-json", "SD03.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	c := fold(linesOf(t, string(data)))
	if len(c.Turns) != 2 || c.Turns[0].Response == nil || c.Turns[1].Ended == nil {
		t.Fatalf("%+v", c.Turns)
	}
	if r := c.Turns[0].Response; r.Text != "hello" || r.Usage.Input != plane.Exactly(1200) || r.Usage.Output != plane.Exactly(10) || r.Usage.CacheRead.Known {
		t.Errorf("%+v", r)
	}
	if e := c.Turns[1].Ended; e.Cost.Known || e.Answer != "hello" || e.Usage.Input.Known || e.IsError {
		t.Errorf("%+v", e)
	}
}
