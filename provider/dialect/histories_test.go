package dialect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider/dialect"
)

func person(text string) *message.User {
	return &message.User{Content: []message.UserBlock{message.Text{Text: text}}}
}

func calling(ids ...string) *message.Assistant {
	m := &message.Assistant{StopReason: message.ToolUse}
	for _, i := range ids {
		m.Content = append(m.Content, message.ToolCall{ID: i, Name: "read", Arguments: jsonv.Obj()})
	}
	return m
}

func saying(text string) *message.Assistant {
	return &message.Assistant{StopReason: message.Stop, Content: []message.AssistantBlock{message.Text{Text: text}}}
}

func did(id, text string) *message.ToolResult {
	return &message.ToolResult{ToolCallID: id, ToolName: "read", Content: []message.ResultBlock{message.Text{Text: text}}}
}

// Histories that made every later request of other agents invalid, each as its kind: what is told is in an order that is accepted, with one answer to each
// call, and nothing that a person said is lost. The stored messages stay as they are.
func TestHistoriesThatBrokeOtherAgents(t *testing.T) {
	for name, c := range map[string]struct {
		stored []message.Message
		want   []string
	}{
		"one of two parallel calls was interrupted": {
			[]message.Message{person("look"), calling("a", "b"), did("a", "done"), person("[interrupted]"), person("go on")},
			[]string{"person look", "calls a b", "a: done; b: nothing is known", "person [interrupted]", "person go on"},
		},
		"a call has a second result, of the abort": {
			[]message.Message{person("plan"), calling("a"), did("a", "done"), did("a", "aborted"), saying("so")},
			[]string{"person plan", "calls a", "a: done", "says so"},
		},
		"two responses call by the same id": {
			[]message.Message{calling("a"), did("a", "one"), calling("a"), did("a", "two")},
			[]string{"calls a", "a: one", "calls a_2", "a_2: two"},
		},
		"somebody spoke between the results of a batch": {
			[]message.Message{person("commit"), calling("a", "b"), did("a", "ok"), person("lint failed"), did("b", "pushed"), saying("done")},
			[]string{"person commit", "calls a b", "a: ok; b: pushed", "person lint failed", "says done"},
		},
		"a result whose call is gone": {
			[]message.Message{did("x", "late"), person("hi")},
			[]string{"person hi"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			turns := dialect.Arrange(c.stored, func(*message.Assistant) bool { return false }, dialect.Mend(64, dialect.Printable))
			if diff := cmp.Diff(c.want, outline(turns)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(outline(turns), outline(dialect.Arrange(c.stored, func(*message.Assistant) bool { return false }, dialect.Mend(64, dialect.Printable)))); diff != "" {
				t.Errorf("told again it differs:\n%s", diff)
			}
		})
	}
}

func outline(turns []dialect.Turn) (out []string) {
	for _, turn := range turns {
		switch turn := turn.(type) {
		case dialect.UserTurn:
			out = append(out, "person "+message.TextOf(turn.Message.Content))
		case dialect.AnswerTurn:
			line := "says " + message.TextOf(turn.Message.Content)
			if len(turn.Calls) > 0 {
				line = "calls"
			}
			for _, c := range turn.Calls {
				line += " " + c.ID
			}
			out = append(out, line)
		case dialect.ResultsTurn:
			var all []string
			for _, r := range turn.Results {
				text := "nothing is known"
				if r.Message != nil {
					text = message.TextOf(r.Message.Content)
				}
				all = append(all, fmt.Sprintf("%s: %s", r.ID, text))
			}
			out = append(out, strings.Join(all, "; "))
		}
	}
	return out
}
