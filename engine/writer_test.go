package engine

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/memory"
)

// scripted answers commits in the order of a list and then passes them on.
type scripted struct {
	storage.Store
	refusals []error
	commits  int
}

func (s *scripted) Commit(t tx.Tx) (tx.Result, error) {
	s.commits++
	if len(s.refusals) > 0 {
		err := s.refusals[0]
		s.refusals = s.refusals[1:]
		return tx.Result{}, err
	}
	return s.Store.Commit(t)
}

func newMemory() *memory.Store { return memory.New(func() int64 { return 1 }) }

func fact(n int64) tx.Tx {
	return tx.Tx{Writes: []tx.Write{tx.Set(register.FactName, "n", jsonv.Num(n)), tx.Set(register.FactName, "m", jsonv.Num(n))}}
}

func TestFactsAboutCommitsHaveTheOrderOfTheirSeqs(t *testing.T) {
	var inside atomic.Bool
	var told []Fact
	w := &writer{store: newMemory(), notify: func(f Fact) {
		if inside.Swap(true) {
			t.Error("the observer was called while it was being called")
		}
		told = append(told, f)
		inside.Store(false)
	}}
	var wg sync.WaitGroup
	for strand := range 8 {
		wg.Go(func() {
			name := string(rune('a' + strand))
			for range 25 {
				if _, err := w.commit(fact(1), RunStarted{Strand: name}, RunFinished{Strand: name}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if len(told) != 8*25*3 {
		t.Fatalf("%d facts were told", len(told))
	}
	next := int64(1)
	for i := 0; i < len(told); i += 3 {
		start, isStart := told[i].(RunStarted)
		c, isCommit := told[i+1].(Committed)
		end, isEnd := told[i+2].(RunFinished)
		if !isStart || !isCommit || !isEnd || start.Strand != end.Strand {
			t.Fatalf("a commit was told as %v", told[i:i+3])
		}
		if c.FirstSeq != next || c.LastSeq != next+1 || c.Timestamp != 1 {
			t.Fatalf("told %+v, want the seqs from %d", c, next)
		}
		next = c.LastSeq + 1
	}
}

func TestARefusedCommitTellsNothing(t *testing.T) {
	stale := &tx.StaleExpectation{Failed: tx.ExpectAbsent(register.FactName, "n")}
	store := &scripted{Store: newMemory(), refusals: []error{stale, &tx.Faulted{Reason: "no"}}}
	w := &writer{store: store, notify: func(f Fact) { t.Errorf("told %v", f) }}
	for range 2 {
		if _, err := w.commit(fact(1), RunStarted{}, RunFinished{}); err == nil {
			t.Error("a refusal was swallowed")
		}
	}
	w.notify = func(Fact) {}
	if _, err := w.commit(fact(1), nil, nil); err != nil {
		t.Errorf("after a stale expectation and a fault: %v", err)
	}
}

func TestACommitWithoutWritesIsNoNews(t *testing.T) {
	w := &writer{store: newMemory(), notify: func(f Fact) { t.Errorf("told %v", f) }}
	if _, err := w.commit(tx.Tx{Expected: []tx.Expectation{tx.ExpectAbsent(register.FactName, "n")}}, nil, nil); err != nil {
		t.Fatal(err)
	}
}

func TestALostLeaseIsFinal(t *testing.T) {
	lost := &tx.LeaseLost{HeldBy: new("somebody")}
	store := &scripted{Store: newMemory(), refusals: []error{lost}}
	w := &writer{store: store, notify: func(Fact) {}}
	for range 3 {
		if _, err := w.commit(fact(1), nil, nil); !errors.Is(err, lost) {
			t.Errorf("got %v", err)
		}
	}
	if store.commits != 1 {
		t.Errorf("the store was asked %d times", store.commits)
	}
	w.end(ErrClosed)
	if _, err := w.commit(fact(1), nil, nil); !errors.Is(err, lost) {
		t.Errorf("after the end for another reason: %v", err)
	}
}
