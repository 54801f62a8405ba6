package client_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
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
