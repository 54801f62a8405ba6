package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
)

// TestARunThatAnotherProcessFinishedEndsHereToo: a process that slept through the
// takeover of its session finds nothing left to do. It must say so, not wait.
func TestARunThatAnotherProcessFinishedEndsHereToo(t *testing.T) {
	lost := &tx.LeaseLost{HeldBy: new("another process")}
	for name, c := range map[string]struct {
		change func(*world) func(*engine.Config)
		want   func(error) bool
	}{
		"with a lease": {
			func(w *world) func(*engine.Config) {
				return func(c *engine.Config) { c.Session = session.New(&leased{Store: w.store, lost: lost}) }
			},
			func(err error) bool { return errors.Is(err, lost) },
		},
		"without one": {
			func(*world) func(*engine.Config) { return func(*engine.Config) {} },
			func(err error) bool { return err != nil && strings.Contains(err.Error(), "ended by another process") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			entered, wake := make(chan struct{}), make(chan struct{})
			asleep := func(context.Context, func(provider.Delta)) (*message.Assistant, error) {
				close(entered)
				<-wake
				return say("too late")(nil, nil)
			}
			stopped := make(chan engine.StrandStopped, 1)
			p := boot(t, w, []turn{asleep}, c.change(w), func(c *engine.Config) {
				c.Observe = func(f engine.Fact) {
					if s, ok := f.(engine.StrandStopped); ok {
						stopped <- s
					}
				}
			})
			op := prompt(t, p, text("go"))
			<-entered
			q := boot(t, w, []turn{say("from the other")})
			if got := finish(t, q, op); got.Outcome != machine.OutcomeCompleted {
				t.Fatalf("the other process: %+v", got)
			}
			before := transcript(t, w)
			close(wake)
			if s := <-stopped; s.Op != op || !c.want(s.Err) {
				t.Errorf("the strand stopped with %+v", s)
			}
			if _, err := p.Prompt(session.MainStrand, text("more")); err == nil {
				t.Error("input was taken by a process that is not the writer")
			}
			if transcript(t, w) != before {
				t.Error("it wrote after it was taken over")
			}
		})
	}
}
