package client_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
)

func acts(s words.Activity) wire.Frame { return frameOf(wire.Activity{State: s}) }

// TestARunThatWaitsAsksItsHost, once for each time that it waits, and ends paused where
// nobody decides; without a host that can be asked it waits.
func TestARunThatWaitsAsksItsHost(t *testing.T) {
	waits := frameOf(wire.PendingLevel{Rows: []wire.Pending{wire.PlanRequest{ID: "g"}}})
	asks, works := acts(words.ActivityAsking), acts(words.ActivityRunning)
	end := (&script{}).end(wire.Completed{}, measured).frames
	for name, c := range map[string]struct {
		frames []wire.Frame
		says   []bool // what the host answers, each after a second
		want   wire.Cause
		asked  int
	}{
		"decided":                      {append([]wire.Frame{waits, asks, asks, works}, end...), []bool{true}, wire.Completed{}, 1},
		"left open":                    {[]wire.Frame{waits, asks}, []bool{false}, wire.Paused{Reason: new(words.PausedOnPlan)}, 1},
		"decided by somebody else":     {append([]wire.Frame{waits, asks, works}, end...), []bool{false}, wire.Completed{}, 1},
		"asked again while it decides": {[]wire.Frame{waits, asks, works, asks}, []bool{true, false}, wire.Paused{Reason: new(words.PausedOnPlan)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &source{beats: beats(c.frames, time.Millisecond)}
				if last := &src.beats[len(src.beats)-1]; last.frame.Kind() == wire.KindRunEnd {
					last.after = time.Minute // the call takes its time
				}
				var r record
				asked := 0
				ending, err := run(t.Context(), watch, src, &r, client.Ports{Parked: func(ctx context.Context) bool {
					asked++
					time.Sleep(time.Second) // of the bubble's clock
					return c.says[asked-1]
				}})
				if err != nil {
					t.Fatal(err)
				}
				closedOnce(t, src, &r, ending)
				seen, ok := ending.(plane.Seen)
				if p, paused := seen.Cause.(wire.Paused); paused {
					if want, ok := c.want.(wire.Paused); !ok || p.Reason == nil || *p.Reason != *want.Reason {
						t.Errorf("ended as %#v", p)
					}
				} else if !ok || seen.Cause != c.want {
					t.Errorf("ended as %#v", ending)
				}
				if asked != c.asked {
					t.Errorf("the host was asked %d times", asked)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // nobody can be asked, and it is stopped
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		src := &source{beats: beats([]wire.Frame{waits, asks}, time.Millisecond)}
		var r record
		ending, err := run(ctx, watch, src, &r, client.Ports{})
		if lost, ok := ending.(plane.Lost); err != nil || !ok || lost.Why != plane.Interrupted {
			t.Errorf("%#v, %v", ending, err)
		}
	})
}
