package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/wire"
)

// The browser's event loop is a goroutine of the runtime there.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("runtime.handleEvent"))
}

func timer(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// beat is one frame after a pause, or the end of the stream.
type beat struct {
	after time.Duration
	frame wire.Frame
	err   error
}

// source plays beats and then blocks, as a quiet stream does, unless it closes.
// opened and closed count its uses.
type source struct {
	beats          []beat
	closes         bool
	opened, closed int
}

func (s *source) frames(ctx context.Context) iter.Seq2[wire.Frame, error] {
	return func(yield func(wire.Frame, error) bool) {
		s.opened++
		defer func() { s.closed++ }()
		for _, b := range s.beats {
			select {
			case <-time.After(b.after):
			case <-ctx.Done():
				return
			}
			if !yield(b.frame, b.err) {
				return
			}
		}
		if !s.closes {
			<-ctx.Done()
		}
	}
}

func beats(frames []wire.Frame, every time.Duration) (out []beat) {
	for _, f := range frames {
		out = append(out, beat{after: every, frame: f})
	}
	return out
}

// record is a sink that notes when each output came.
type record struct {
	start time.Time
	outs  []plane.Output
	at    []time.Duration
	fail  int // refuse output number fail, counted from 1
}

func (r *record) put(o plane.Output) error {
	if r.fail > 0 && len(r.outs)+1 == r.fail {
		return errFull
	}
	r.outs, r.at = append(r.outs, o), append(r.at, time.Since(r.start))
	return nil
}

var errFull = errors.New("no room")

func (r *record) texts() (out []string) {
	for i, o := range r.outs {
		if c, ok := o.(plane.Chrome); ok {
			if t, ok := c.Event().(plane.LiveText); ok {
				out = append(out, fmt.Sprintf("%v %s", r.at[i], t.Text))
			}
		}
	}
	return out
}

func (r *record) last() plane.Event {
	if len(r.outs) == 0 {
		return nil
	}
	c, ok := r.outs[len(r.outs)-1].(plane.Chrome)
	if !ok {
		return nil
	}
	return c.Event()
}

// run is one drive inside a synctest bubble.
func run(ctx context.Context, w plane.Watch, src *source, r *record, p client.Ports) (plane.Ending, error) {
	r.start = time.Now()
	return client.Run(ctx, client.New(w, project.Appends), src.frames, r.put, p)
}

// closedOnce checks the promises of every way out.
func closedOnce(t *testing.T, src *source, r *record, ending plane.Ending) {
	t.Helper()
	synctest.Wait()
	if src.opened != 1 || src.closed != 1 {
		t.Errorf("the source was opened %d and closed %d times", src.opened, src.closed)
	}
	if ending == nil {
		t.Fatal("no ending")
	}
	ends := 0
	for _, o := range r.outs {
		if c, ok := o.(plane.Chrome); ok {
			if _, ok := c.Event().(plane.RunClosed); ok {
				ends++
			}
		}
	}
	if _, ok := r.last().(plane.RunClosed); !ok || ends != 1 {
		t.Errorf("%d ends, and the last output is %T", ends, r.last())
	}
}

func TestARunEndsWithItsCommittedEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{beats: beats(wholeRun(), time.Millisecond)}
		var r record
		ending, err := run(t.Context(), watch, src, &r, client.Ports{})
		if err != nil {
			t.Fatal(err)
		}
		closedOnce(t, src, &r, ending)
		if ending != (plane.Seen{Cause: wire.Completed{}}) {
			t.Errorf("ended as %#v", ending)
		}
		if want := stepAll(client.New(watch, project.Appends), wholeRun()); dump(r.outs) != dump(want) {
			t.Errorf("Run put out\n%sand Step\n%s", dump(r.outs), dump(want))
		}
	})
}

func TestAStreamThatStopsIsSaid(t *testing.T) {
	broke := errors.New("reset by peer")
	for why, src := range map[plane.LostWord]*source{
		plane.StreamClosed: {beats: beats(wholeRun()[:6], time.Millisecond), closes: true},
		plane.StreamBroke:  {beats: append(beats(wholeRun()[:6], time.Millisecond), beat{err: broke})},
	} {
		synctest.Test(t, func(t *testing.T) {
			var r record
			ending, err := run(t.Context(), watch, src, &r, client.Ports{Timer: timer, Coalesce: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			closedOnce(t, src, &r, ending)
			lost, ok := ending.(plane.Lost)
			if !ok || lost.Why != why || (why == plane.StreamBroke) != errors.Is(lost.Err, broke) {
				t.Errorf("%s: %#v", why, ending)
			}
			if got := r.texts(); len(got) != 2 || !strings.HasSuffix(got[1], "I look around.") {
				t.Errorf("%s: held text was lost: %q", why, got)
			}
		})
	}
}

// TestAPortThatIsNotGivenIsAnAbilityThatIsOff takes each port away, all of them, and none,
// from a run that ends and from one that is cancelled.
func TestAPortThatIsNotGivenIsAnAbilityThatIsOff(t *testing.T) {
	want := kept(stepAll(client.New(watch, project.Appends), wholeRun()))
	all := func() client.Ports {
		return client.Ports{
			Timer: timer, Coalesce: 3 * time.Millisecond, Abort: func(context.Context) error { return nil }, AbortWait: time.Second,
			GiveUp: make(chan struct{}), Dropped: func(client.Drop) {},
		}
	}
	without := []func() client.Ports{func() client.Ports { return client.Ports{} }, all}
	for i := range reflect.TypeFor[client.Ports]().NumField() {
		without = append(without, func() client.Ports {
			p := all()
			reflect.ValueOf(&p).Elem().Field(i).SetZero()
			return p
		})
	}
	for _, ports := range without {
		for _, cancelled := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				src := &source{beats: beats(wholeRun(), time.Millisecond)}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if cancelled {
					time.AfterFunc(10*time.Millisecond, cancel)
				}
				var r record
				p := ports() // a channel of it belongs to the bubble
				ending, err := run(ctx, watch, src, &r, p)
				if err != nil {
					t.Fatal(err)
				}
				closedOnce(t, src, &r, ending)
				if _, whole := ending.(plane.Seen); whole && !slices.Equal(kept(r.outs), want) || !whole && !cancelled {
					t.Errorf("%+v: %v and\n%s", p, ending, strings.Join(kept(r.outs), "\n"))
				}
			})
		}
	}
}

// TestStatesShareNothing steps many at the same time; the race detector looks on.
func TestStatesShareNothing(t *testing.T) {
	all := streams(t)
	var tasks sync.WaitGroup
	for name, s := range all {
		want := dump(stepAll(client.New(s.watch, project.Redraws), s.frames))
		for range 4 {
			tasks.Go(func() {
				if got := dump(stepAll(client.New(s.watch, project.Redraws), s.frames)); got != want {
					t.Errorf("%s: beside others it gave\n%s\nnot\n%s", name, got, want)
				}
			})
		}
	}
	tasks.Wait()
}

func TestTextIsLetGoAtTheCadence(t *testing.T) {
	sc := &script{}
	said := ""
	for _, word := range []string{"one ", "two ", "three ", "four ", "five "} {
		sc.passing(wire.Live, word, wire.TextDelta{Segment: seg(2, 0), Offset: int64(len(said)), Text: word})
		said += word
	}
	for name, c := range map[string]struct {
		ports client.Ports
		want  []string
	}{
		"no cadence":   {client.Ports{Timer: timer}, []string{"40ms one ", "80ms two ", "120ms three ", "160ms four ", "200ms five "}},
		"no timer":     {client.Ports{Coalesce: time.Second}, []string{"40ms one ", "80ms two ", "120ms three ", "160ms four ", "200ms five "}},
		"every 100 ms": {client.Ports{Timer: timer, Coalesce: 100 * time.Millisecond}, []string{"140ms one two three ", "260ms four five "}},
		"when idle":    {client.Ports{Timer: timer, Coalesce: time.Minute}, []string{"1.7s one two three four five "}},
	} {
		synctest.Test(t, func(t *testing.T) {
			// The model goes silent for long after it spoke.
			src := &source{beats: append(beats(sc.frames, 40*time.Millisecond), beat{after: 10 * time.Second, err: errors.New("over")})}
			var r record
			ending, _ := run(t.Context(), watch, src, &r, c.ports)
			closedOnce(t, src, &r, ending)
			if got := r.texts(); strings.Join(got, "|") != strings.Join(c.want, "|") {
				t.Errorf("%s: %q", name, got)
			}
		})
	}
}

func TestAnAbortWaitsForTheEndAndNotForever(t *testing.T) {
	aborted := func() wire.Frame { return (&script{seq: 50}).end(wire.Aborted{}, measured).frames[0] }
	told := errors.New("unreachable")
	cause := errors.New("the person pressed a key")
	for name, c := range map[string]struct {
		end    *beat // what the server sends after the abort
		answer error
		hangs  bool // the abort itself gets no answer
		ports  client.Ports
		giveUp time.Duration
		want   string
		took   time.Duration
	}{
		"the end comes":         {end: &beat{after: 2 * time.Second, frame: aborted()}, ports: client.Ports{Timer: timer, AbortWait: 5 * time.Second}, want: "aborted", took: 2 * time.Second},
		"no end comes":          {ports: client.Ports{Timer: timer, AbortWait: 5 * time.Second}, want: "interrupted", took: 5 * time.Second},
		"no answer comes":       {hangs: true, ports: client.Ports{Timer: timer, AbortWait: 5 * time.Second}, want: "interrupted", took: 5 * time.Second},
		"the abort fails":       {answer: told, ports: client.Ports{Timer: timer, AbortWait: 5 * time.Second}, want: "interrupted"},
		"no patience":           {ports: client.Ports{Timer: timer}, want: "interrupted"},
		"no timer":              {ports: client.Ports{AbortWait: 5 * time.Second}, want: "interrupted"},
		"nobody to tell":        {ports: client.Ports{Timer: timer, AbortWait: 5 * time.Second}, want: "interrupted", hangs: true},
		"a second key":          {ports: client.Ports{Timer: timer, AbortWait: 5 * time.Second}, giveUp: time.Second, want: "interrupted", took: time.Second},
		"the stream breaks":     {end: &beat{after: 2 * time.Second, err: errors.New("reset")}, ports: client.Ports{Timer: timer, AbortWait: 5 * time.Second}, want: "interrupted", took: 2 * time.Second},
		"no answer, second key": {hangs: true, ports: client.Ports{}, giveUp: time.Second, want: "interrupted", took: time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			src := &source{beats: beats(wholeRun()[:4], time.Millisecond)}
			ctx, cancel := context.WithCancelCause(t.Context())
			if c.end != nil {
				c.end.after += 996 * time.Millisecond // from the last frame to the abort
				src.beats = append(src.beats, *c.end)
			}
			if name != "nobody to tell" {
				c.ports.Abort = func(ctx context.Context) error {
					calls++
					if c.hangs {
						<-ctx.Done()
						return ctx.Err()
					}
					return c.answer
				}
			}
			giveUp := make(chan struct{})
			c.ports.GiveUp = giveUp
			time.AfterFunc(time.Second, func() { cancel(cause) })
			if c.giveUp > 0 {
				time.AfterFunc(time.Second+c.giveUp, func() { close(giveUp) })
			}
			var r record
			ending, err := run(ctx, watch, src, &r, c.ports)
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(r.start) - time.Second
			closedOnce(t, src, &r, ending)
			got := ""
			switch e := ending.(type) {
			case plane.Seen:
				got = e.Cause.Word()
			case plane.Lost:
				got = string(e.Why)
				want := cause
				if c.answer != nil {
					want = told
				}
				if !errors.Is(e.Err, want) {
					t.Errorf("%s: lost because of %v", name, e.Err)
				}
			}
			if got != c.want || took != c.took {
				t.Errorf("%s: %s after %v", name, got, took)
			}
			if want := 1; name != "nobody to tell" && calls != want {
				t.Errorf("%s: the server was told %d times", name, calls)
			}
		})
	}
}

func TestNothingRunsOnWhereverItIsCancelled(t *testing.T) {
	frames := wholeRun()
	for cancelAt := range len(frames) + 1 {
		synctest.Test(t, func(t *testing.T) {
			src := &source{beats: beats(frames, 10*time.Millisecond)}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Duration(cancelAt)*10*time.Millisecond+5*time.Millisecond, cancel)
			var r record
			ending, err := run(ctx, watch, src, &r, client.Ports{
				Timer: timer, Coalesce: 7 * time.Millisecond, AbortWait: time.Millisecond,
				Abort: func(context.Context) error { return nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			closedOnce(t, src, &r, ending)
			n := len(r.outs)
			time.Sleep(time.Hour) // inside the bubble: no real time passes
			if len(r.outs) != n {
				t.Error("output came after the run was over")
			}
		})
	}
}

func TestASinkThatFailsEndsTheRun(t *testing.T) {
	all := len(stepAll(client.New(watch, project.Appends), wholeRun()))
	for fail := 1; fail <= all; fail++ {
		synctest.Test(t, func(t *testing.T) {
			src := &source{beats: beats(wholeRun(), time.Millisecond)}
			r := record{fail: fail}
			ending, err := run(t.Context(), watch, src, &r, client.Ports{Timer: timer})
			synctest.Wait()
			if !errors.Is(err, errFull) || ending == nil || src.closed != 1 || len(r.outs) != fail-1 {
				t.Errorf("output %d failed: %v %v, closed %d, %d outputs", fail, ending, err, src.closed, len(r.outs))
			}
		})
	}
}

func TestDropsAreHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := (&script{}).replay("h", wire.Unknown{Word: "hologram"})
		frames := append(sc.frames, (&script{seq: 1}).end(wire.Completed{}, measured).frames...)
		var heard []client.Drop
		var r record
		_, err := run(t.Context(), watch, &source{beats: beats(frames, 1)}, &r, client.Ports{Dropped: func(d client.Drop) { heard = append(heard, d) }})
		if err != nil || len(heard) != 1 || heard[0].Why != client.NoArm || heard[0].Kind != "hologram" {
			t.Errorf("%+v %v", heard, err)
		}
	})
}

func TestAWatchOfAStrandGoesOnOverTheEndsOfItsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := wholeRun()
		for i := range second {
			if !second[i].Operation.IsZero() {
				second[i].Operation = wiretestOp2
			}
			second[i].Cursor.Seq += 100
			if second[i].Delivery != wire.Replay {
				second[i].Cursor = wire.Cursor{}
			}
		}
		src := &source{beats: beats(append(wholeRun(), second...), time.Millisecond), closes: true}
		var r record
		ending, err := run(t.Context(), plane.Watch{Session: session, Strand: "main"}, src, &r, client.Ports{})
		if err != nil {
			t.Fatal(err)
		}
		ends := strings.Count(dump(r.outs), "RunClosed")
		if _, ok := ending.(plane.Seen); !ok || ends != 2 || src.closed != 1 {
			t.Errorf("%d ends, %#v", ends, ending)
		}
	})
}

// TestHeldTextHasABound: a cadence that never comes does not hold all of it back.
func TestHeldTextHasABound(t *testing.T) {
	proof, _ := watch.Self()
	var c client.Coalescer
	said, out := "", ""
	for i := range 1000 {
		piece := strings.Repeat(string(rune('a'+i%26)), 999)
		said += piece
		for _, o := range c.Add(plane.Show(proof, plane.LiveText{Segment: seg(1, 0), Text: piece})) {
			out += o.(plane.Chrome).Event().(plane.LiveText).Text
		}
		if len(said)-len(out) > 80_000 {
			t.Fatalf("%d bytes are held", len(said)-len(out))
		}
	}
	for _, o := range c.Flush() {
		out += o.(plane.Chrome).Event().(plane.LiveText).Text
	}
	if out != said {
		t.Error("it is another text")
	}
}

func TestMergedTextIsTheSameText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		proof, _ := watch.Self()
		var c client.Coalescer
		var in, out []plane.Output
		for range rapid.IntRange(0, 30).Draw(t, "n") {
			var e plane.Event = plane.LiveText{
				Segment: seg(1, rapid.IntRange(0, 1).Draw(t, "block")), Reasoning: rapid.Bool().Draw(t, "reasoning"),
				Text: rapid.String().Draw(t, "text"),
			}
			if rapid.IntRange(0, 4).Draw(t, "other") == 0 {
				e = plane.Waiting{}
			}
			o := plane.Show(proof, e)
			in = append(in, o)
			out = append(out, c.Add(o)...)
			if rapid.IntRange(0, 3).Draw(t, "flush") == 0 {
				out = append(out, c.Flush()...)
			}
		}
		out = append(out, c.Flush()...)
		if c.Holds() {
			t.Fatal("something is held after a flush")
		}
		if got, want := flat(out), flat(in); got != want {
			t.Fatalf("in  %s\nout %s", want, got)
		}
	})
}

// flat renders outputs with neighbouring pieces of one segment put together.
func flat(outs []plane.Output) string {
	var b strings.Builder
	var last plane.LiveText
	for _, o := range outs {
		t, ok := o.(plane.Chrome).Event().(plane.LiveText)
		if !ok {
			b.WriteString("|other")
			last = plane.LiveText{Segment: wire.Segment{Block: -1}}
			continue
		}
		if t.Segment != last.Segment || t.Reasoning != last.Reasoning || b.Len() == 0 {
			fmt.Fprintf(&b, "|%d %v:", t.Segment.Block, t.Reasoning)
		}
		b.WriteString(t.Text)
		last = t
	}
	return b.String()
}
