package engine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

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

func (s *scripted) CommitAll(txs ...tx.Tx) []storage.Outcome { return storage.OneByOne(s.Commit, txs) }

func (s *scripted) Commit(t tx.Tx) (tx.Result, error) {
	s.commits++
	if len(s.refusals) > 0 {
		err := s.refusals[0]
		s.refusals = s.refusals[1:]
		if err != nil {
			return tx.Result{}, err
		}
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

// gate holds the first flush until told, and remembers how many came in each.
type gate struct {
	storage.Store
	open    chan struct{}
	flushes []int
}

func (g *gate) CommitAll(txs ...tx.Tx) []storage.Outcome {
	if g.flushes = append(g.flushes, len(txs)); len(g.flushes) == 1 {
		<-g.open
	}
	return g.Store.CommitAll(txs...)
}

func TestCommitsThatWaitShareAFlushAndKeepTheirOwnOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &gate{Store: newMemory(), open: make(chan struct{})}
		var told []Fact
		w := &writer{store: store, notify: func(f Fact) { told = append(told, f) }}
		const committers = 16
		var refused, landed atomic.Int64
		for i := range committers {
			go func() {
				write := fact(int64(i))
				if i%3 == 2 { // nobody sets it, so this one is refused
					write.Expected = []tx.Expectation{tx.Expect(register.FactName, "never", 9)}
				}
				r, err := w.commit(write, nil, RunFinished{Strand: fmt.Sprint(i)})
				switch _, stale := errors.AsType[*tx.StaleExpectation](err); {
				case stale:
					refused.Add(1)
				case err != nil || r.Seqs[0] != r.FirstSeq:
					t.Error(r, err)
				default:
					landed.Add(1)
				}
			}()
			synctest.Wait()
		}
		close(store.open)
		synctest.Wait()
		if fmt.Sprint(store.flushes) != "[1 15]" || refused.Load() != 5 || landed.Load() != 11 {
			t.Errorf("flushes of %v, %d refused, %d landed", store.flushes, refused.Load(), landed.Load())
		}
		if len(told) != 2*11 {
			t.Fatalf("%d facts", len(told))
		}
		for i := 0; i < len(told); i += 2 {
			if c, ok := told[i].(Committed); !ok || c.FirstSeq != int64(i+1) {
				t.Fatalf("fact %d is %+v", i, told[i])
			}
		}
	})
}

func TestALeaseThatIsLostInABatchEndsThoseBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := &tx.LeaseLost{}
		script := &scripted{Store: newMemory(), refusals: []error{nil, lost}}
		store := &gate{Store: script, open: make(chan struct{})}
		w := &writer{store: store, notify: func(Fact) {}}
		var over atomic.Int64
		for range maxBatch + 10 {
			go func() {
				if _, err := w.commit(fact(1), nil, nil); errors.Is(err, lost) {
					over.Add(1)
				}
			}()
		}
		synctest.Wait()
		close(store.open)
		synctest.Wait()
		if script.commits != 1+maxBatch || over.Load() != 10 {
			t.Errorf("the store was asked for %d, %d were told of the loss", script.commits, over.Load())
		}
	})
}
