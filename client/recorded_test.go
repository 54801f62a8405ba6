package client_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
)

// stream is what a client hears, and which lane it watches.
type stream struct {
	watch  plane.Watch
	frames []wire.Frame
}

// framesOf reads a recording.
func framesOf(t testing.TB, file string) (frames []wire.Frame) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		f, err := wire.DecodeFrame([]byte(strings.TrimSuffix(line, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, f)
	}
	return frames
}

// drawn is one of the streams.
func drawn(t *rapid.T, from map[string]stream) (string, stream) {
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(from))).Draw(t, "stream")
	return name, from[name]
}

// recorded are runs of a real engine, each as the watcher of each of its strands hears
// it. A test of the engine side keeps them those of today's engine.
func recorded(t testing.TB) map[string]stream {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "runs", "*.jsonl"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	out := map[string]stream{}
	for _, file := range append(files, filepath.Join("..", "wire", "testdata", "gen-1", "run.jsonl")) {
		frames := framesOf(t, file)
		for _, f := range frames {
			if f.Strand != "" {
				name := strings.TrimSuffix(filepath.Base(file), ".jsonl") + ", " + f.Strand
				out[name] = stream{plane.Watch{Session: f.Session, Strand: f.Strand}, frames}
			}
		}
	}
	return out
}

// streams are what the tests of restarts go through.
func streams(t testing.TB) map[string]stream {
	out := recorded(t)
	out["every kind"] = stream{watch, wholeRun()}
	out["delivered again"] = stream{strand, deliveredAgain()}
	return out
}

// deliveredAgain is a notification under two frames: it is delivered at least once.
func deliveredAgain() []wire.Frame {
	s := &script{}
	s.replay("u", wire.UserMessage{Text: "go"})
	s.replay("n1", taskNotification())
	s.replay("n2", taskNotification())
	later := taskNotification()
	later.Seq = new(int64(4))
	s.replay("n3", later)
	return s.frames
}

func TestRecordingsHoldWhatIsHardToInvent(t *testing.T) {
	kinds, lanes, endings := map[wire.Kind]bool{}, map[wire.Lane]bool{}, map[string]bool{}
	denied, failed := false, false
	for _, s := range recorded(t) {
		for _, f := range s.frames {
			kinds[f.Kind()], lanes[f.Lane] = true, true
			switch b := f.Body.(type) {
			case wire.RunEnd:
				endings[b.Terminal.Word()] = true
			case wire.ToolResult:
				denied = denied || project.Denied(b.Gate)
			case wire.TurnEnd:
				failed = failed || b.StopReason == "error"
			case wire.Broken, wire.Unknown:
				t.Errorf("%s is not read", f.Append(nil))
			default:
			}
		}
	}
	for _, k := range []wire.Kind{wire.KindTaskStarted, wire.KindTaskNotification, wire.KindBackground, wire.KindCompactionBoundary, wire.KindRetry, wire.KindToolDisclosure} {
		if !kinds[k] {
			t.Errorf("no recording has a %s", k)
		}
	}
	for _, l := range []wire.Lane{wire.LaneMain, wire.LaneAgent, wire.LaneBackground} {
		if !lanes[l] {
			t.Errorf("no recording has the lane %s", l)
		}
	}
	if !endings["completed"] || !endings["aborted"] || !endings["failed"] || !denied || !failed {
		t.Errorf("endings %v, a denial %v, an attempt that failed %v", slices.Collect(maps.Keys(endings)), denied, failed)
	}
}

// TestARecordingIsReadAlikeAtEveryChunking reads the bytes of a stream in pieces that
// end anywhere.
func TestARecordingIsReadAlikeAtEveryChunking(t *testing.T) {
	all := recorded(t)
	read := func(t interface{ Fatal(...any) }, s stream, cut func() int) (got []string) {
		var text []byte
		for _, f := range s.frames {
			text = append(wire.AppendEvent(text, f), wire.Heartbeat...)
		}
		state, events := client.New(s.watch, project.Redraws), wire.NewEventReader(&pieces{text, cut})
		for {
			f, err := events.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				return got
			}
			got = append(got, kept(state.Step(f))...)
		}
	}
	want := map[string][]string{}
	for name, s := range all {
		want[name] = kept(stepAll(client.New(s.watch, project.Redraws), s.frames))
		if got := read(t, s, func() int { return 1 }); !slices.Equal(got, want[name]) {
			t.Errorf("%s, byte by byte:\n%s\n\nnot\n%s", name, strings.Join(got, "\n"), strings.Join(want[name], "\n"))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name, s := drawn(t, all)
		most := rapid.SampledFrom([]int{3, 50, 3000}).Draw(t, "most")
		sizes := rapid.SliceOfN(rapid.IntRange(1, most), 1, 40).Draw(t, "sizes")
		i := 0
		if got := read(t, s, func() int { i++; return sizes[i%len(sizes)] }); !slices.Equal(got, want[name]) {
			t.Fatalf("%s:\n%s\n\nnot\n%s", name, strings.Join(got, "\n"), strings.Join(want[name], "\n"))
		}
	})
}

// pieces reads a text in pieces of sizes.
type pieces struct {
	text []byte
	size func() int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.text[:min(len(p.text), p.size())])
	p.text = p.text[n:]
	return n, nil
}

// TestManyCutsEqualTheUncutRun restarts a client again and again, from an export, and
// sends it twice what it may hear twice.
func TestManyCutsEqualTheUncutRun(t *testing.T) {
	all := streams(t)
	rapid.Check(t, func(t *rapid.T) {
		name, s := drawn(t, all)
		want := kept(stepAll(client.New(s.watch, project.Redraws), s.frames))
		state := client.New(s.watch, project.Redraws)
		var got []string
		for i, f := range s.frames {
			got = append(got, kept(state.Step(f))...)
			switch rapid.IntRange(0, 9).Draw(t, "fate") {
			case 0: // the process ends; the server sends again what is behind the position
				next := client.New(s.watch, project.Redraws)
				if err := next.Import(state.Export()); err != nil {
					t.Fatal(err)
				}
				state = next
			case 1: // the connection breaks before the position was heard of
				back := rapid.IntRange(0, i).Draw(t, "back")
				got = append(got, kept(stepAll(state, replayed(s.frames[back:i+1], wire.Cursor{})))...)
			default:
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s:\n%s\n\nnot\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestEachSegmentEndsAsCommittedHoweverMuchIsLost loses live frames of a recording and
// applies what is left as a host does.
func TestEachSegmentEndsAsCommittedHoweverMuchIsLost(t *testing.T) {
	all := recorded(t)
	rapid.Check(t, func(t *rapid.T) {
		name, s := drawn(t, all)
		final := map[wire.Segment]string{}
		for _, f := range s.frames {
			if b, ok := f.Body.(wire.TextEnd); ok && f.Strand == s.watch.Strand {
				final[b.Segment] = b.Content
			}
		}
		surface := rapid.SampledFrom([]project.Surface{project.Redraws, project.Appends}).Draw(t, "surface")
		state := client.New(s.watch, surface)
		shown := map[wire.Segment][]plane.Output{}
		for _, f := range s.frames {
			if f.Delivery == wire.Live && rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
				continue
			}
			for _, o := range state.Step(f) {
				if seg, ok := segmentOf(o); ok {
					shown[seg] = append(shown[seg], o)
				}
			}
		}
		for seg, content := range final {
			if text, withheld := visible(t, shown[seg], surface); !withheld && text != content || withheld && !state.Withheld(content) {
				t.Fatalf("%s: %v shows %q, and %q is committed", name, seg, text, content)
			}
		}
		for seg := range shown {
			if text, _ := visible(t, shown[seg], surface); final[seg] == "" && surface == project.Redraws && text != "" && closed(shown[seg]) {
				t.Fatalf("%s: %v shows %q, and nothing is committed", name, seg, text)
			}
		}
	})
}

// segmentOf is the answer's segment that an output is about.
func segmentOf(o plane.Output) (wire.Segment, bool) {
	c, ok := o.(plane.Chrome)
	if !ok {
		return wire.Segment{}, false
	}
	switch e := c.Event().(type) {
	case plane.LiveText:
		return e.Segment, !e.Reasoning
	case plane.Settled:
		return e.Segment, !e.Reasoning
	default:
		return wire.Segment{}, false
	}
}

// closed reports whether a verdict about the segment came.
func closed(outs []plane.Output) bool {
	return slices.ContainsFunc(outs, func(o plane.Output) bool {
		_, ok := o.(plane.Chrome).Event().(plane.Settled)
		return ok
	})
}

// TestLanesDoNotMixHoweverTheyInterleave lets each owner's frames come in their order,
// the committed ones of all in that of their cursors, and everything else as it may:
// each watcher keeps its transcript, and is shown its lane alone.
func TestLanesDoNotMixHoweverTheyInterleave(t *testing.T) {
	all := recorded(t)
	rapid.Check(t, func(t *rapid.T) {
		name, s := drawn(t, all)
		want := kept(stepAll(client.New(s.watch, project.Redraws), s.frames))
		state := client.New(s.watch, project.Redraws)
		var got []string
		for _, f := range interleaved(t, s.frames) {
			outs := state.Step(f)
			for _, o := range outs {
				if p := proofOf(o); f.Strand != "" && f.Strand != s.watch.Strand || p.Lane() != f.Lane || p.Task() != f.Task {
					t.Fatalf("%s: a frame of %s %q gave\n%s", name, f.Lane, f.Strand, dump([]plane.Output{o}))
				}
			}
			got = append(got, kept(outs)...)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s:\n%s\n\nnot\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func interleaved(t *rapid.T, frames []wire.Frame) (out []wire.Frame) {
	type owner struct {
		lane         wire.Lane
		strand, task string
	}
	ownerOf := func(f wire.Frame) owner { return owner{f.Lane, f.Strand, f.Task} }
	waiting, committed := slices.Clone(frames), wire.Cursor{}
	for len(waiting) > 0 {
		next := slices.IndexFunc(waiting, func(f wire.Frame) bool { return f.Delivery == wire.Replay })
		var may []int
		ahead := map[owner]bool{}
		for i, f := range waiting {
			if !ahead[ownerOf(f)] && (f.Delivery != wire.Replay || i == next) {
				may = append(may, i)
			}
			ahead[ownerOf(f)] = true
		}
		i := may[rapid.IntRange(0, len(may)-1).Draw(t, "whose")]
		if f := waiting[i]; f.Delivery == wire.Replay {
			if f.Cursor.Compare(committed) <= 0 {
				t.Fatalf("%v comes behind %v", f.Cursor, committed)
			}
			committed = f.Cursor
		}
		out, waiting = append(out, waiting[i]), slices.Delete(waiting, i, i+1)
	}
	return out
}

// TestARestartShowsTheSameConversation stores what is kept, reads it back, and folds it
// into what a person sees: that is the live view without what passes.
func TestARestartShowsTheSameConversation(t *testing.T) {
	for name, s := range streams(t) {
		var live, again project.Conversation
		var file bytes.Buffer
		for _, o := range transcript(stepAll(client.New(s.watch, project.Redraws), s.frames)) {
			l := o.(plane.Transcript).Line()
			live.Add(l)
			file.Write(append(l.Append(nil), '\n'))
		}
		for line := range bytes.Lines(file.Bytes()) {
			l, err := sdkmsg.DecodeLine(bytes.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			again.Add(l)
		}
		if a, b := seen(again), seen(live); a != b {
			t.Errorf("%s: after a restart a person sees\n%s\nand before\n%s", name, a, b)
		}
	}
}

// TestReadersReadWhatThisEnginesToolsSay: what the readers of tool results expect is
// what the tools write.
func TestReadersReadWhatThisEnginesToolsSay(t *testing.T) {
	registered, reports := 0, map[string]int{}
	facts := map[string]bool{}
	for _, s := range recorded(t) {
		for _, f := range s.frames {
			b, ok := f.Body.(wire.ToolResult)
			if !ok || f.Strand != s.watch.Strand {
				continue
			}
			if r, ok := project.Registered(b); ok {
				registered++
				if !slices.ContainsFunc(s.frames, func(g wire.Frame) bool {
					n, ok := g.Body.(wire.TaskStarted)
					return ok && n.Task == r.Task
				}) {
					t.Errorf("%+v is of no task that started", r)
				}
			}
			if b.Name == "agent_wait" {
				r, ok := project.ReadAgentReport(b.Text[0].Text)
				if !ok || r.String() != b.Text[0].Text || r.Outcome == "failed" != (r.Failure != nil) {
					t.Errorf("%q is %+v, %v", b.Text[0].Text, r, ok)
				}
				reports[r.Outcome]++
			}
			user := project.Answered(b)
			if c := project.CardOf(sdkmsg.ToolUse{ID: b.CallID, Name: b.Name}, &user); c.Facts != nil {
				facts[b.Name] = true
			}
		}
	}
	if registered != 1 || reports["completed"] == 0 || reports["failed"] == 0 || !facts["ls"] || !facts["bash"] || !facts["job_start"] || !facts["agent_spawn"] {
		t.Errorf("%d registered, reports %v, facts of %v", registered, reports, facts)
	}
}

// seen is a conversation as text.
func seen(c project.Conversation) string {
	var b strings.Builder
	for _, turn := range c.Turns {
		b.WriteString(value(reflect.ValueOf(turn)) + "\n")
	}
	return b.String()
}
