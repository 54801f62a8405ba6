package client_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
)

// reference reads a stream slowly and in other words: it looks at all of it at once,
// keeps the replayed frames in the order of their cursors, and tells of each what a
// transcript must hold. It knows no state, no ledgers and no live text.
func reference(frames []wire.Frame) (out []string) {
	var committed []wire.Frame
	for _, f := range frames {
		if f.Delivery == wire.Replay && !slices.ContainsFunc(committed, func(g wire.Frame) bool { return g.Cursor == f.Cursor }) {
			committed = append(committed, f)
		}
	}
	slices.SortStableFunc(committed, func(a, b wire.Frame) int { return a.Cursor.Compare(b.Cursor) })
	for _, f := range committed {
		switch b := f.Body.(type) {
		case wire.UserMessage:
			out = append(out, "prompt "+b.Text)
		case wire.TextEnd:
			out = append(out, "text "+b.Content)
		case wire.ReasoningEnd:
			out = append(out, "reasoning "+b.Content)
		case wire.ToolCall:
			out = append(out, "call "+b.CallID+" "+b.Name+" "+b.Arguments.String())
		case wire.ToolResult:
			said := ""
			for _, t := range b.Text {
				said += t.Text
			}
			out = append(out, "result "+b.CallID+" "+said)
			if b.Gate != nil && b.Gate.Disposition == words.GateDenied && b.Gate.Settlement == nil { // nobody was asked
				out = append(out, "denied "+b.CallID)
			}
		case wire.CompactionBoundary:
			out = append(out, "boundary", "prompt "+b.Summary)
		case wire.BranchSummary:
			out = append(out, "info "+b.Summary)
		case wire.RunEnd:
			out = append(out, "end "+b.Terminal.Word())
		}
	}
	return out
}

// told is the transcript in the words of the reference.
func told(outs []plane.Output) (out []string) {
	for _, o := range transcript(outs) {
		switch m := o.(plane.Transcript).Message().(type) {
		case sdkmsg.Assistant:
			switch b := m.Message.Content[0].(type) {
			case sdkmsg.TextBlock:
				out = append(out, "text "+b.Text)
			case sdkmsg.Thinking:
				out = append(out, "reasoning "+b.Thinking)
			case sdkmsg.RedactedThinking:
				out = append(out, "reasoning "+b.Data)
			case sdkmsg.ToolUse:
				out = append(out, "call "+b.ID+" "+b.Name+" "+b.Input.String())
			default:
				out = append(out, "another block")
			}
		case sdkmsg.User:
			if r, ok := m.Message.Content[0].(sdkmsg.ToolResult); ok {
				said := ""
				for _, b := range r.Content {
					if t, ok := b.(sdkmsg.TextBlock); ok {
						said += t.Text
					}
				}
				out = append(out, "result "+r.ToolUseID+" "+said)
			} else {
				out = append(out, "prompt "+m.Message.Content[0].(sdkmsg.TextBlock).Text)
			}
		case sdkmsg.CompactBoundary:
			out = append(out, "boundary")
		case sdkmsg.PermissionDenied:
			out = append(out, "denied "+m.ToolUseID)
		case sdkmsg.Informational:
			out = append(out, "info "+m.Content)
		case sdkmsg.Result:
			cause, _ := project.EndingOf(m)
			out = append(out, "end "+cause.Word())
		default:
			out = append(out, "another message")
		}
	}
	return out
}

func TestTheTranscriptIsThatOfTheReference(t *testing.T) {
	for name, s := range streams(t) {
		if got, want := told(stepAll(client.New(s.watch, project.Redraws), s.frames)), reference(s.frames); !slices.Equal(got, want) {
			t.Errorf("%s:\n%q\nnot\n%q", name, got, want)
		}
		rapid.Check(t, func(t *rapid.T) { // live frames may be missing, and replayed ones come twice
			var frames []wire.Frame
			for _, f := range s.frames {
				if f.Delivery == wire.Replay || rapid.Bool().Draw(t, "there") {
					frames = append(frames, f)
				}
				if f.Delivery == wire.Replay && rapid.Bool().Draw(t, "twice") {
					frames = append(frames, f)
				}
			}
			if got, want := told(stepAll(client.New(s.watch, project.Redraws), frames)), reference(frames); !slices.Equal(got, want) {
				t.Fatalf("%s:\n%q\nnot\n%q", name, got, want)
			}
		})
	}
}

// TestTheReferenceCanDisagree plants a difference: a text that another one replaced.
func TestTheReferenceCanDisagree(t *testing.T) {
	frames := wholeRun()
	want := reference(frames)
	i := slices.IndexFunc(frames, func(f wire.Frame) bool { return f.Kind() == wire.KindTextEnd })
	b := frames[i].Body.(wire.TextEnd)
	b.Content = "planted"
	frames[i].Body = b
	if slices.Equal(told(stepAll(client.New(watch, project.Redraws), frames)), want) {
		t.Error("a planted difference is not seen")
	}
}
