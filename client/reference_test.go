package client_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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
// keeps the replayed frames of the strand in the order of their cursors, and tells of
// each what a transcript must hold, a line a frame. It knows no state, no ledgers and
// no live text. Where that is not all, [divergences] says so.
func reference(s stream) (out []string) {
	for _, f := range committed(s) {
		switch b := f.Body.(type) {
		case wire.UserMessage:
			out = append(out, fmt.Sprint("prompt ", b.Entry, " ", b.Text, " of ", b.Bytes, " bytes with ", b.Images, " images"))
		case wire.TextEnd:
			out = append(out, fmt.Sprint("text ", b.Segment.Entry, "/", b.Segment.Block, " ", b.Content))
		case wire.ReasoningEnd:
			out = append(out, fmt.Sprint("reasoning ", b.Segment.Entry, "/", b.Segment.Block, " ", b.Content))
		case wire.ToolCall:
			out = append(out, fmt.Sprint("call ", b.Segment.Entry, "/", b.Segment.Block, " ", b.CallID, " ", b.Name, " ", b.Arguments))
		case wire.ToolResult:
			said := ""
			for _, t := range b.Text {
				said += t.Text
			}
			line := fmt.Sprint("result ", b.Entry, " ", b.CallID, " of ", b.Name, ", failed ", b.IsError, ": ", said)
			if b.Structured != nil {
				line += " structured " + b.Structured.String()
			}
			if b.Gate != nil {
				line += " gate " + string(b.Gate.Disposition)
			}
			out = append(out, line)
		case wire.CompactionBoundary:
			out = append(out, fmt.Sprint("boundary ", b.Entry, " from ", number(b.TokensBefore), " keeps ", b.Kept))
		case wire.BranchSummary:
			out = append(out, "info "+b.Summary)
		case wire.TaskNotification:
			out = append(out, fmt.Sprint("task ", b.Task, " ", b.Status, " ", b.Summary))
		case wire.RunEnd:
			out = append(out, fmt.Sprint("end ", f.Operation, " ", b.Terminal.Word(), " with ", len(b.Gates), " gates"))
		case wire.TurnEnd: // accounts
		default:
			out = append(out, "another frame")
		}
	}
	return out
}

// committed are the replayed frames of the watched strand, each once, in order.
func committed(s stream) (out []wire.Frame) {
	for _, f := range s.frames {
		if f.Delivery == wire.Replay && f.Strand == s.watch.Strand && !slices.ContainsFunc(out, func(g wire.Frame) bool { return g.Cursor == f.Cursor }) {
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b wire.Frame) int { return a.Cursor.Compare(b.Cursor) })
	return out
}

func number(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprint(*n)
}

// told is the transcript in the words of the reference.
func told(outs []plane.Output) (out []string) {
	for _, o := range transcript(outs) {
		switch m := o.(plane.Transcript).Message().(type) {
		case sdkmsg.Assistant:
			out = append(out, toldBlock(m))
		case sdkmsg.User:
			out = append(out, toldUser(m))
		case sdkmsg.CompactBoundary:
			out = append(out, fmt.Sprint("boundary ", m.Loom.Entry, " from ", number(m.Metadata.PreTokens), " keeps ", m.Loom.Kept))
		case sdkmsg.PermissionDenied:
			out = append(out, "denied "+m.ToolUseID)
		case sdkmsg.Informational:
			out = append(out, "info "+m.Content)
		case sdkmsg.TaskNotification:
			out = append(out, fmt.Sprint("task ", m.TaskID, " ", m.Loom.Status, " ", m.Summary))
		case sdkmsg.Result:
			cause, _ := project.EndingOf(m)
			out = append(out, fmt.Sprint("end ", m.Loom.Operation, " ", cause.Word(), " with ", len(m.Loom.Gates), " gates"))
		default:
			out = append(out, "another message")
		}
	}
	return out
}

func toldBlock(m sdkmsg.Assistant) string {
	at := fmt.Sprint(m.Message.ID, "/", m.Loom.Block, " ")
	switch b := m.Message.Content[0].(type) {
	case sdkmsg.TextBlock:
		return "text " + at + b.Text
	case sdkmsg.Thinking:
		return "reasoning " + at + b.Thinking
	case sdkmsg.RedactedThinking:
		return "reasoning " + at + b.Data
	case sdkmsg.ToolUse:
		return fmt.Sprint("call ", at, b.ID, " ", b.Name, " ", b.Input)
	}
	return "another block"
}

func toldUser(m sdkmsg.User) string {
	r, ok := m.Message.Content[0].(sdkmsg.ToolResult)
	if !ok {
		return fmt.Sprint("prompt ", m.Loom.Entry, " ", m.Message.Content[0].(sdkmsg.TextBlock).Text, " of ", *m.Loom.Bytes, " bytes with ", m.Loom.Images, " images")
	}
	line := fmt.Sprint("result ", m.Loom.Entry, " ", r.ToolUseID, " of ", m.Loom.Tool, ", failed ", r.IsError, ": ", r.Content.Texts())
	if m.ToolUseResult != nil {
		line += " structured " + m.ToolUseResult.String()
	}
	if m.Loom.Gate != nil {
		line += " gate " + string(m.Loom.Gate.Disposition)
	}
	return line
}

// divergences are where the two differ, each with the reason. Each changes what the
// reference says into what is kept. One that no stream shows is red, and so is a
// difference that none of them explains.
var divergences = map[string]func(stream, []string) []string{
	"a call that was denied with nobody asked has a line of its own": func(s stream, in []string) (out []string) {
		return besides(in, s, func(f wire.Frame) (string, bool) {
			b, ok := f.Body.(wire.ToolResult)
			return "denied " + b.CallID, ok && b.Gate != nil && b.Gate.Disposition == words.GateDenied && b.Gate.Settlement == nil
		}, func(f wire.Frame) string { return "result " + f.Body.(wire.ToolResult).Entry.String() })
	},
	"the summary stands behind its boundary, as what the model reads there": func(s stream, in []string) []string {
		return besides(in, s, func(f wire.Frame) (string, bool) {
			b, ok := f.Body.(wire.CompactionBoundary)
			return fmt.Sprint("prompt ", b.Entry, " ", b.Summary, " of ", b.Bytes, " bytes with 0 images"), ok
		}, func(f wire.Frame) string { return "boundary " + f.Body.(wire.CompactionBoundary).Entry.String() })
	},
	"a notification is delivered at least once, and told once": func(s stream, in []string) (out []string) {
		var known []string
		var tasks []wire.TaskNotification
		for _, f := range committed(s) {
			if b, ok := f.Body.(wire.TaskNotification); ok {
				tasks = append(tasks, b)
			}
		}
		for _, line := range in {
			if strings.HasPrefix(line, "task ") {
				key := project.TaskKey(tasks[0])
				tasks = tasks[1:]
				if slices.Contains(known, key) {
					continue
				}
				known = append(known, key)
			}
			out = append(out, line)
		}
		return out
	},
}

// besides adds a line behind that of each frame that has one.
func besides(in []string, s stream, more func(wire.Frame) (string, bool), of func(wire.Frame) string) (out []string) {
	for _, line := range in {
		out = append(out, line)
		for _, f := range committed(s) {
			if extra, ok := more(f); ok && strings.HasPrefix(line, of(f)) {
				out = append(out, extra)
			}
		}
	}
	return out
}

// explained is what the reference says, changed by the divergences but for one.
func explained(s stream, without string, shown map[string]bool) []string {
	out := reference(s)
	for _, name := range slices.Sorted(maps.Keys(divergences)) {
		if name == without {
			continue
		}
		changed := divergences[name](s, out)
		shown[name] = shown[name] || !slices.Equal(changed, out)
		out = changed
	}
	return out
}

func TestTheTranscriptIsThatOfTheReference(t *testing.T) {
	shown := map[string]bool{}
	for name, s := range streams(t) {
		if got, want := told(stepAll(client.New(s.watch, project.Redraws), s.frames)), explained(s, "", shown); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nnot\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	all := streams(t)
	rapid.Check(t, func(t *rapid.T) { // live frames may be missing, and replayed ones come twice
		name, s := drawn(t, all)
		other := stream{watch: s.watch}
		for _, f := range s.frames {
			if f.Delivery == wire.Replay || rapid.Bool().Draw(t, "there") {
				other.frames = append(other.frames, f)
			}
			if f.Delivery == wire.Replay && rapid.Bool().Draw(t, "twice") {
				other.frames = append(other.frames, f)
			}
		}
		if got, want := told(stepAll(client.New(s.watch, project.Redraws), other.frames)), explained(other, "", shown); !slices.Equal(got, want) {
			t.Fatalf("%s:\n%q\nnot\n%q", name, got, want)
		}
	})
	for name := range divergences {
		if !shown[name] {
			t.Errorf("no stream shows that %s", name)
		}
	}
}

// TestEachDivergenceIsNeeded takes each out: some stream differs then.
func TestEachDivergenceIsNeeded(t *testing.T) {
	for without := range divergences {
		differs := false
		for _, s := range streams(t) {
			differs = differs || !slices.Equal(told(stepAll(client.New(s.watch, project.Redraws), s.frames)), explained(s, without, map[string]bool{}))
		}
		if !differs {
			t.Errorf("nothing differs without: %s", without)
		}
	}
}

// TestTheReferenceCanDisagree plants a difference: a text that another one replaced.
func TestTheReferenceCanDisagree(t *testing.T) {
	frames := wholeRun()
	want := explained(stream{watch, frames}, "", map[string]bool{})
	i := slices.IndexFunc(frames, func(f wire.Frame) bool { return f.Kind() == wire.KindTextEnd })
	b := frames[i].Body.(wire.TextEnd)
	b.Content = "planted"
	frames[i].Body = b
	if slices.Equal(told(stepAll(client.New(watch, project.Redraws), frames)), want) {
		t.Error("a planted difference is not seen")
	}
}

// TestLevelsAreHeldAsTheyWereStatedLast compares what a host holds of levels at the end
// with the last statement of each: edges and order change nothing about it.
func TestLevelsAreHeldAsTheyWereStatedLast(t *testing.T) {
	for name, s := range streams(t) {
		var want, got struct{ tasks, context, run string }
		for _, f := range s.frames {
			switch b := f.Body.(type) {
			case wire.Background:
				want.tasks = fmt.Sprint(len(b.Tasks))
			case wire.LastTurnUsage:
				if f.Strand == s.watch.Strand {
					want.context = b.Entry.String()
				}
			case wire.RunStart:
				if f.Strand == s.watch.Strand {
					want.run = f.Operation.String()
				}
			default:
			}
		}
		for _, o := range stepAll(client.New(s.watch, project.Redraws), s.frames) {
			if c, ok := o.(plane.Chrome); ok {
				switch e := c.Event().(type) {
				case plane.BackgroundNow:
					got.tasks = fmt.Sprint(len(e.Tasks))
				case plane.ContextUsed:
					got.context = e.Entry.String()
				case plane.RunOpened:
					got.run = e.Operation.String()
				default:
				}
			}
		}
		if got != want {
			t.Errorf("%s: held is %+v, stated was %+v", name, got, want)
		}
	}
}
