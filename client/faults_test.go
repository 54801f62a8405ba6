package client_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wiretest"
)

// TestPlantedFaultsAreCaught feeds each file of testdata/faults: frames that a defect
// of a server would send. Its first line says what becomes of the last frame: the word
// of a drop, or the event that it still gives.
func TestPlantedFaultsAreCaught(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "faults", "*.txt"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d faults, %v", len(files), err)
	}
	verdicts := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer("SESSION", session.String(), "OP", op.String(), "OTHER", wiretest.Session(2).String(), "ENTRY", wiretest.Entry(1).String()).
			Replace(string(data))
		want, frames, _ := strings.Cut(text, "\n")
		s := client.New(watch, project.Redraws)
		got := ""
		for line := range strings.Lines(frames) {
			f, err := wire.DecodeFrame([]byte(strings.TrimSpace(line)))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			got = became(s, f)
		}
		if got != want {
			t.Errorf("%s: %s, not %s", file, got, want)
		}
		verdicts[want] = true
	}
	for _, w := range []client.DropWord{client.NoArm, client.ContractViolation, client.ForeignLane, client.Repeated} {
		if !verdicts["drop "+string(w)] {
			t.Errorf("no planted fault is dropped as %s", w)
		}
	}
}

// became is what a frame gave: the word of its drop, or its last output.
func became(s *client.State, f wire.Frame) string {
	outs := s.Step(f)
	if drops := s.LastDrops(); len(drops) > 0 && len(outs) == 0 {
		return "drop " + string(drops[0].Why)
	}
	if len(outs) == 0 {
		return "nothing"
	}
	switch o := outs[len(outs)-1].(type) {
	case plane.Transcript:
		return "keep " + reflect.TypeOf(o.Message()).Name()
	case plane.Chrome:
		if e, ok := o.Event().(plane.RunOpened); ok && e.Roster.State() == wire.Unreadable {
			return "show RunOpened, its roster unreadable"
		}
		return "show " + reflect.TypeOf(o.Event()).Name()
	}
	return ""
}

// TestAnyBodyGivesValidOutputsOrADrop spoils one field of a frame of each kind: the
// frame is dropped with a word, or what it gives is whole.
func TestAnyBodyGivesValidOutputsOrADrop(t *testing.T) {
	for _, k := range wire.Kinds() {
		for seed := range 40 {
			v := wiretest.Spoilt(wiretest.FrameJSON(k).Example(seed)).Example(seed)
			f, err := wire.DecodeFrame(v.Append(nil))
			if err != nil {
				continue
			}
			s := client.New(plane.Watch{Session: f.Session, Strand: f.Strand}, project.Appends)
			for _, o := range s.Step(f) {
				if !o.Valid() {
					t.Fatalf("%s gave\n%s", v, dump([]plane.Output{o}))
				}
			}
		}
	}
}

// TestAWrongTypeInAnyFieldIsADropOrAnOutput puts a value of each type in the place of
// each value of a frame of each kind, alone.
func TestAWrongTypeInAnyFieldIsADropOrAnOutput(t *testing.T) {
	wrong := []jsonv.Value{{}, jsonv.Boolean(true), jsonv.Num(-7), jsonv.Str("\x1b[2J"), jsonv.Arr(), jsonv.Arr(jsonv.Value{}), jsonv.Obj()}
	broken, places := 0, 0
	for _, b := range bodies() {
		v, err := jsonv.Parse(frameOf(b).Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		for n := range countValues(v) {
			for _, w := range wrong {
				at := n
				places++
				f, err := wire.DecodeFrame(replaceValue(v, &at, w).Append(nil))
				if err != nil {
					continue // no envelope: nobody's frame
				}
				s := client.New(watch, project.Appends)
				outs := s.Step(f)
				for _, o := range outs {
					if !o.Valid() {
						t.Fatalf("%s gave\n%s", replaceValue(v, &at, w), dump([]plane.Output{o}))
					}
				}
				if _, is := f.Body.(wire.Broken); is {
					broken++
					if s.Drops().ContractViolation+s.Drops().ForeignLane != 1 {
						t.Errorf("%s: %+v", f.Append(nil), s.Drops())
					}
				}
				s.Lose(plane.StreamClosed, nil)
				if s.Ending() == nil {
					t.Errorf("%s: no ending", f.Append(nil))
				}
			}
		}
	}
	if places < 2000 || broken < places/4 {
		t.Errorf("%d of %d broke the contract", broken, places)
	}
}

// countValues is how many values a document has, itself among them.
func countValues(v jsonv.Value) int {
	n := 1
	for _, x := range v.Fields() {
		n += countValues(x)
	}
	if v.Kind() == jsonv.Array {
		for _, x := range v.Elems() {
			n += countValues(x)
		}
	}
	return n
}

// replaceValue puts another value in the place of the one that is at places behind.
func replaceValue(v jsonv.Value, at *int, w jsonv.Value) jsonv.Value {
	if *at == 0 {
		*at = -1
		return w
	}
	*at--
	switch v.Kind() {
	case jsonv.Object:
		var out []jsonv.Member
		for name, x := range v.Fields() {
			if *at >= 0 {
				x = replaceValue(x, at, w)
			}
			out = append(out, jsonv.F(name, x))
		}
		return jsonv.Obj(out...)
	case jsonv.Array:
		var out []jsonv.Value
		for _, x := range v.Elems() {
			if *at >= 0 {
				x = replaceValue(x, at, w)
			}
			out = append(out, x)
		}
		return jsonv.Arr(out...)
	}
	return v
}

// TestAMissingFrameTakesOnlyItself leaves out committed frames: what the others say is
// kept under the same ids, and the run ends visibly.
func TestAMissingFrameTakesOnlyItself(t *testing.T) {
	all := streams(t)
	rapid.Check(t, func(t *rapid.T) {
		name, s := drawn(t, all)
		if name == "delivered again" {
			t.Skip("one delivery stands for the other")
		}
		state, whole := client.New(s.watch, project.Redraws), client.New(s.watch, project.Redraws)
		var got, want []plane.MessageID
		for _, f := range s.frames {
			outs := whole.Step(f)
			if rapid.IntRange(0, 4).Draw(t, "lost") == 0 {
				continue
			}
			for _, o := range transcript(outs) {
				want = append(want, o.(plane.Transcript).ID())
			}
			for _, o := range transcript(state.Step(f)) {
				got = append(got, o.(plane.Transcript).ID())
			}
		}
		state.Lose(plane.StreamClosed, nil)
		if !slices.Equal(got, want) || state.Ending() == nil {
			t.Fatalf("%s: kept are %v, not %v; it ended as %v", name, got, want, state.Ending())
		}
	})
}

// TestAStreamThatNeverEndsDoesNotGrowTheMemory repeats frames of each kind with keys that
// are always new, and what has a bound in each of them.
func TestAStreamThatNeverEndsDoesNotGrowTheMemory(t *testing.T) {
	for i := range len(endless(0)) + 1 { // each alone, and then all of them
		s := client.New(strand, project.Appends)
		var seq int64
		feed := func(rounds int) {
			for range rounds {
				bodies := endless(seq)
				if i < len(bodies) {
					bodies = bodies[i : i+1]
				}
				for _, b := range bodies {
					f := delivered(deliveries(b.Kind())[len(deliveries(b.Kind()))-1], b)
					seq++
					f.ID = strconv.FormatInt(seq, 10)
					if f.Delivery == wire.Replay {
						f.Cursor.Seq = seq
					}
					s.Step(f)
				}
			}
		}
		feed(2000) // to the bounds
		before := heap()
		feed(4000)
		if after := heap(); after > before+128<<10 {
			t.Errorf("%d: the heap grew by %d bytes", i, after-before)
		}
		export := s.Export()
		if len(export) > 4<<20 {
			t.Errorf("%d: the ledger has %d bytes", i, len(export))
		}
		if err := client.New(strand, project.Appends).Import(export); err != nil {
			t.Error(err)
		}
	}
}

// endless are frames whose keys grow: calls without results, denials, notifications,
// workflows, blocks of one response, and texts that another one replaces.
func endless(n int64) []wire.Body {
	key := strconv.FormatInt(n, 10)
	task := taskNotification()
	task.Seq = &n
	return []wire.Body{
		wire.ToolCall{Segment: seg(1, int(n)), CallID: key, Name: "bash", Arguments: jsonv.Obj()},
		wire.ToolResult{CallID: "x" + key, Name: "bash", Gate: &wire.Gate{Disposition: words.GateDenied}},
		task,
		wire.WorkflowProgress{Run: key, Name: "n", Status: words.BackgroundCompleted},
		wire.TextEnd{Segment: seg(2, int(n)), Content: strings.Repeat(key, 20)},
		wire.TextDelta{Segment: seg(3, int(n)), Text: strings.Repeat(key, 20)},
		wire.TextDelta{Segment: seg(uint64(n)+9, 0), Text: "shown"},
		wire.TextEnd{Segment: seg(uint64(n)+9, 0), Content: "withheld " + key},
	}
}

func TestTenMegabytesOfHostileTextPass(t *testing.T) {
	text := strings.Repeat("\x1b]0;x\a\u202e\u200b", 1<<20)
	s := client.New(watch, project.Appends)
	frames := (&script{}).passing(wire.Live, "d", wire.TextDelta{Segment: seg(1, 0), Text: text}).replay("e", wire.TextEnd{Segment: seg(1, 0), Content: "[removed]"}).frames
	outs := stepAll(s, frames)
	if !s.Withheld("[removed]") || len(transcript(outs)) != 1 {
		t.Errorf("%d outputs", len(outs))
	}
}

// TestTheFieldGuardCanFail plants a field that nobody mapped.
func TestTheFieldGuardCanFail(t *testing.T) {
	var planted struct {
		Known   string
		Planted struct{ Deep int64 }
	}
	planted.Known = "k"
	missing := 0
	leaves(reflect.ValueOf(&planted).Elem(), "Planted", func(path string, _ reflect.Value) {
		if _, ok := disposition[path]; !ok {
			missing++
		}
	})
	if missing != 2 {
		t.Errorf("%d fields are missed, not both", missing)
	}
}
