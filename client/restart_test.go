package client_test

import (
	"errors"
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
	"github.com/loom-run/loom/wire/wiretest"
)

// strand follows the whole strand: its runs come and go.
var strand = plane.Watch{Session: session, Strand: "main"}

// kept is the transcript of outputs, as it is stored.
func kept(outs []plane.Output) (lines []string) {
	for _, o := range transcript(outs) {
		lines = append(lines, string(o.(plane.Transcript).Line().Append(nil)))
	}
	return lines
}

func stored(t interface{ Fatal(...any) }, lines []string) (out []sdkmsg.Line) {
	for _, text := range lines {
		l, err := sdkmsg.DecodeLine([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

// replayed are the frames that come again to a client that says where it stands.
func replayed(frames []wire.Frame, after wire.Cursor) (out []wire.Frame) {
	for _, f := range frames {
		if f.Delivery == wire.Replay && f.Cursor.Compare(after) > 0 {
			out = append(out, f)
		}
	}
	return out
}

func TestACutAndAResumeEqualTheUncutRun(t *testing.T) {
	for name, s := range streams(t) {
		want := kept(stepAll(client.New(s.watch, project.Redraws), s.frames))
		for cut := range len(s.frames) + 1 {
			before := client.New(s.watch, project.Redraws)
			got := kept(stepAll(before, s.frames[:cut]))
			export := before.Export()

			after := client.New(s.watch, project.Redraws)
			if err := after.Import(export); err != nil {
				t.Fatalf("%s, cut at %d: %v\n%s", name, cut, err, export)
			}
			if again := after.Export(); string(again) != string(export) {
				t.Fatalf("%s, cut at %d: the export became\n%s\nfrom\n%s", name, cut, again, export)
			}
			got = append(got, kept(stepAll(after, append(replayed(s.frames, after.Cursor()), s.frames[cut:]...)))...)
			if !slices.Equal(got, want) {
				t.Fatalf("%s, cut at %d:\n%s\n\nnot\n%s", name, cut, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}

func TestAStateIsRebuiltFromItsTranscript(t *testing.T) {
	for name, s := range streams(t) {
		want := kept(stepAll(client.New(s.watch, project.Redraws), s.frames))
		for cut := range len(s.frames) + 1 {
			got := kept(stepAll(client.New(s.watch, project.Redraws), s.frames[:cut]))
			after := client.Rebuild(s.watch, project.Redraws, stored(t, got))
			// It knows no position: all that is replayed comes again.
			got = append(got, kept(stepAll(after, replayed(s.frames, wire.Cursor{})))...)
			if a, b := ids(t, got), ids(t, want); !slices.Equal(a, b) {
				t.Fatalf("%s, cut at %d: the ids are\n%v\nnot\n%v", name, cut, a, b)
			}
		}
	}
}

func ids(t *testing.T, lines []string) (out []string) {
	for _, l := range stored(t, lines) {
		out = append(out, l.UUID)
	}
	return out
}

func TestFramesThatComeTwiceChangeNothing(t *testing.T) {
	all := streams(t)
	rapid.Check(t, func(t *rapid.T) {
		name, s := drawn(t, all)
		want := kept(stepAll(client.New(s.watch, project.Redraws), s.frames))
		var frames []wire.Frame
		for i, f := range s.frames {
			frames = append(frames, f)
			if back := rapid.IntRange(0, 3).Draw(t, "again"); back > 0 {
				frames = append(frames, s.frames[max(0, i-back+1):i+1]...)
			}
		}
		if got := kept(stepAll(client.New(s.watch, project.Redraws), frames)); !slices.Equal(got, want) {
			t.Fatalf("%s:\n%s\n\nnot\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestAnImportIsWholeOrRefused(t *testing.T) {
	s := client.New(watch, project.Redraws)
	stepAll(s, wholeRun()[:10])
	good := string(s.Export())
	other := client.New(plane.Watch{Session: wiretest.Session(9), Strand: "main"}, project.Redraws)
	for name, bad := range map[string]string{
		"nothing":         "",
		"no JSON":         "{",
		"no ledger":       "{}",
		"another version": strings.Replace(good, `"loomLedger":1`, `"loomLedger":2`, 1),
		"a newer field":   strings.Replace(good, `"loomLedger":1`, `"loomLedger":1,"more":true`, 1),
		"cut":             good[:len(good)/2],
		"another session": string(other.Export()),
		"counts that lie": strings.Replace(good, `"known":true,"exact":true`, `"known":false,"exact":true`, 1),
	} {
		fresh := client.New(watch, project.Redraws)
		before := string(fresh.Export())
		if err := fresh.Import([]byte(bad)); !errors.Is(err, client.ErrLedger) {
			t.Errorf("%s: %v", name, err)
		}
		if after := string(fresh.Export()); after != before {
			t.Errorf("%s: a part of it was taken:\n%s", name, after)
		}
	}
}

func FuzzImport(f *testing.F) {
	s := client.New(watch, project.Redraws)
	f.Add(s.Export())
	stepAll(s, wholeRun())
	f.Add(s.Export())
	f.Fuzz(func(t *testing.T, data []byte) {
		fresh := client.New(watch, project.Redraws)
		if fresh.Import(data) != nil {
			return
		}
		if err := client.New(watch, project.Redraws).Import(fresh.Export()); err != nil {
			t.Fatalf("what was taken is not taken again: %v", err)
		}
		stepAll(fresh, wholeRun())
	})
}

// notified is a notification as it is delivered.
func notified(seq int64, told bool) wire.Frame {
	n := taskNotification()
	n.Seq, n.Injected = &seq, &told
	f := delivered(wire.Live, n)
	f.ID = "n" + string(rune('0'+seq))
	return f
}

func TestACompletionIsShownOnceAndOwedToTheModelOnce(t *testing.T) {
	count := func(outs []plane.Output) (cards, owed int) {
		for _, o := range outs {
			if c, ok := o.(plane.Chrome); ok {
				switch c.Event().(type) {
				case plane.TaskClosed:
					cards++
				case plane.CompletionDue:
					owed++
				default:
				}
			}
		}
		return cards, owed
	}
	s := client.New(strand, project.Redraws)
	if cards, owed := count(stepAll(s, []wire.Frame{notified(1, false), notified(1, false), notified(2, true)})); cards != 2 || owed != 1 {
		t.Errorf("%d cards, %d owed", cards, owed)
	}
	// The process ends between the delivery and its receipt, and it comes again.
	after := client.New(strand, project.Redraws)
	if err := after.Import(s.Export()); err != nil {
		t.Fatal(err)
	}
	if cards, owed := count(stepAll(after, []wire.Frame{notified(1, false), notified(2, true)})); cards != 0 || owed != 0 {
		t.Errorf("after a restart: %d cards, %d owed", cards, owed)
	}
	// A transcript that told the model, and showed no card, leaves the card to be shown.
	n := taskNotification()
	n.Seq = new(int64(1))
	told := sdkmsg.Line{UUID: "u", Message: sdkmsg.User{IsSynthetic: true, Message: sdkmsg.Input{Content: sdkmsg.Content{sdkmsg.TextBlock{Text: project.TaskXML(n)}}}}}
	rebuilt := client.Rebuild(strand, project.Redraws, []sdkmsg.Line{told})
	if cards, owed := count(stepAll(rebuilt, []wire.Frame{notified(1, false)})); cards != 1 || owed != 0 {
		t.Errorf("the two ledgers are one: %d cards, %d owed", cards, owed)
	}
}

// TestRowsStayInTheirLanes mixes the frames of several owners and looks at whose the
// outputs are.
func TestRowsStayInTheirLanes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := client.New(strand, project.Redraws)
		for range rapid.IntRange(1, 30).Draw(t, "frames") {
			f := wiretest.Frame().Draw(t, "frame")
			f.Session = rapid.SampledFrom([]wire.Frame{{Session: session}, {Session: wiretest.Session(2)}}).Draw(t, "session").Session
			f.Strand = rapid.SampledFrom([]string{"main", "agent-1", ""}).Draw(t, "strand")
			f.Lane = rapid.SampledFrom([]wire.Lane{wire.LaneMain, wire.LaneAgent, wire.LaneWorkflow, wire.LaneBackground, wire.LaneSession, "new"}).Draw(t, "lane")
			f.Task = rapid.SampledFrom([]string{"", "t1", "t2"}).Draw(t, "task")
			for _, o := range s.Step(f) {
				p := proofOf(o)
				if !o.Valid() || f.Session != session || f.Strand != "" && f.Strand != "main" || !f.Lane.Known() || p.Lane() != f.Lane || p.Task() != f.Task {
					t.Fatalf("a frame of %s %q %s gave\n%s", f.Lane, f.Strand, f.Kind(), dump([]plane.Output{o}))
				}
				if task := rowOf(o); task != "" && f.Task != "" && task != f.Task {
					t.Fatalf("a frame of the task %s changed the row of %s", f.Task, task)
				}
			}
		}
	})
}

func proofOf(o plane.Output) plane.Proof {
	switch o := o.(type) {
	case plane.Transcript:
		return o.Proof()
	case plane.Chrome:
		return o.Proof()
	}
	return plane.Proof{}
}

// rowOf is the row that an output draws, for those of tasks.
func rowOf(o plane.Output) string {
	c, ok := o.(plane.Chrome)
	if !ok {
		return ""
	}
	switch e := c.Event().(type) {
	case plane.TaskOpened:
		return e.Started.Task
	case plane.TaskMoved:
		return e.Progress.Task
	case plane.TaskClosed:
		return e.Notification.Task
	case plane.WorkflowMoved:
		return e.Progress.Run
	default:
		return ""
	}
}

func TestAWorkflowIsOverOnce(t *testing.T) {
	s := client.New(strand, project.Redraws)
	b := wire.WorkflowProgress{Run: "w", Name: "n", Status: words.BackgroundRunning}
	over := 0
	for _, status := range []words.BackgroundStatus{words.BackgroundRunning, words.BackgroundCompleted, words.BackgroundCompleted, words.BackgroundRunning, words.BackgroundFailed} {
		b.Status = status
		f := delivered(wire.Level, b)
		f.Lane, f.Task = wire.LaneWorkflow, "w"
		for _, o := range s.Step(f) {
			if _, ok := o.(plane.Chrome).Event().(plane.WorkflowEnded); ok {
				over++
			}
		}
	}
	if over != 1 {
		t.Errorf("over %d times", over)
	}
}
