//go:build linux

package torture

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestTortureRivals starts two lives at once where one was killed: one of them gets the session, the other one is told who has it, or comes when the
// work is done. Nothing happens twice.
func TestTortureRivals(t *testing.T) {
	rounds := max(8, number(t, killsVariable, defaultKills)/100)
	reference := rehearse(t, work)
	refusals := 0
	for n := range rounds {
		s, err := newStage(work, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.enter(death{atCommit: 4 + n%50}); err != nil {
			t.Fatal(err)
		}
		var lives [2]life
		var errs [2]error
		var wg sync.WaitGroup
		for i := range lives {
			wg.Go(func() { lives[i], errs[i] = s.live(2+i, death{}) })
		}
		wg.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		// The last life is judged as the one that ended the work.
		slices.SortStableFunc(lives[:], func(a, b life) int { return b.refusals() - a.refusals() })
		refusals += lives[0].refusals()
		// They live side by side, so what belongs to the refused one is no leftover.
		rival := fmt.Sprintf("of life %d)", lives[0].Number)
		for i := range lives[1].Events {
			e := &lives[1].Events[i]
			e.Strays = slices.DeleteFunc(e.Strays, func(stray string) bool { return lives[0].refusals() > 0 && strings.HasSuffix(stray, rival) })
		}
		found, err := newLook(s, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lives {
			s.acts = append(s.acts, act{l, found})
		}
		if first := lives[0]; first.refusals() == 0 && first.Events[len(first.Events)-1].Kind != done {
			t.Errorf("round %d: one life ended without the session and without a reason: %+v", n, first.Events)
		}
		if faults := judge(work, reference, s.acts, true); len(faults) > 0 {
			t.Fatalf("round %d: %v\n%s", n, faults, s.story())
		}
	}
	t.Logf("%d rounds, %d times one was refused", rounds, refusals)
	if refusals == 0 {
		t.Error("no life met the other: this run shows nothing")
	}
}

// refusals is 1 for a life that was told that another one has the session.
func (l life) refusals() int {
	if n := len(l.Events); n > 0 && l.Events[n-1].Kind == failed && strings.Contains(l.Events[n-1].Error, "open in another process (pid ") {
		return 1
	}
	return 0
}
