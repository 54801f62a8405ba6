package engine

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

func (k *ticket) isOpen() bool {
	select {
	case <-k.open:
		return true
	default:
		return false
	}
}

// TestTheTurnstileKeepsItsRules draws takes, ends and cancellations in any order
// and checks after each what must always hold.
func TestTheTurnstileKeepsItsRules(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	rapid.Check(t, func(t *rapid.T) {
		var gate turnstile
		var running, waiting []*ticket // waiting in the order in which they were taken
		pick := func(t *rapid.T, list []*ticket) int {
			if len(list) == 0 {
				t.Skip("there is none")
			}
			return rapid.IntRange(0, len(list)-1).Draw(t, "ticket")
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) { waiting = append(waiting, gate.take(rapid.Bool().Draw(t, "exclusive"))) },
			"leave": func(t *rapid.T) {
				i := pick(t, running)
				gate.leave(running[i])
				running = slices.Delete(running, i, i+1)
			},
			"cancel": func(t *rapid.T) {
				i := pick(t, waiting)
				if err := gate.enter(over, waiting[i]); err == nil {
					t.Fatal("a ticket that waits was let in")
				}
				waiting = slices.Delete(waiting, i, i+1)
			},
			"": func(t *rapid.T) {
				for len(waiting) > 0 && waiting[0].isOpen() {
					if err := gate.enter(over, waiting[0]); err != nil {
						t.Fatal("a ticket that is open was turned away")
					}
					running = append(running, waiting[0])
					waiting = waiting[1:]
				}
				alone := slices.ContainsFunc(running, func(k *ticket) bool { return k.exclusive })
				switch {
				case alone && len(running) > 1:
					t.Fatalf("an exclusive ticket runs beside %d others", len(running)-1)
				case slices.ContainsFunc(waiting, (*ticket).isOpen):
					t.Fatal("a ticket overtook one that was taken before")
				case len(waiting) > 0 && !alone && (!waiting[0].exclusive || len(running) == 0):
					t.Fatal("the first in line could run and waits")
				}
			},
		})
	})
}

func TestACancelledWaitLeavesNoHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate turnstile
		first := gate.take(true)
		ctx, cancel := context.WithCancel(t.Context())
		second, third, fourth := gate.take(true), gate.take(false), gate.take(false)
		errs := make(chan error, 3)
		go func() { errs <- gate.enter(ctx, second) }()
		entered := make(chan *ticket, 2)
		for _, k := range []*ticket{third, fourth} {
			go func() {
				if err := gate.enter(t.Context(), k); err != nil {
					t.Error(err)
				}
				entered <- k
			}()
		}
		synctest.Wait()
		cancel()
		if err := <-errs; err != context.Canceled {
			t.Errorf("the cancelled wait ended with %v", err)
		}
		synctest.Wait()
		if len(entered) != 0 {
			t.Error("something ran beside an exclusive ticket")
		}
		gate.leave(first)
		synctest.Wait()
		if len(entered) != 2 {
			t.Errorf("%d of two concurrent tickets run", len(entered))
		}
	})
}
