package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/memory"
	"github.com/loom-run/loom/storage/sqlite"
)

// tallied counts what is committed.
type tallied struct {
	storage.Store
	commits, flushes atomic.Int64
}

func (c *tallied) CommitAll(txs ...tx.Tx) []storage.Outcome {
	c.commits.Add(int64(len(txs)))
	c.flushes.Add(1)
	return c.Store.CommitAll(txs...)
}

// crowd is an engine with many strands over a store.
func crowd(tb testing.TB, store storage.Store, strands int) (*engine.Engine, []string) {
	tb.Helper()
	w := newWorld()
	cfg, _ := config(w, store, []turn{callTools("safe"), callTools("safe"), say("done")})
	// Seeds that follow each other make streams that overlap, which only a clock that never stands still hides.
	cfg.Clock, cfg.Entropy = func() int64 { return time.Now().UnixMilli() }, rand.Uint64
	e, err := engine.Open(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(e.Close)
	if err := e.Start(fakeConfiguration); err != nil {
		tb.Fatal(err)
	}
	names := make([]string, strands)
	for i := range names {
		names[i] = "strand " + strconv.Itoa(i)
		if err := e.CreateStrand(engine.NewStrand{Name: names[i], Configuration: fakeConfiguration}); err != nil {
			tb.Fatal(err)
		}
	}
	return e, names
}

// round lets every strand run a turn of three steps, all at once, and returns how long each of them took, sorted.
func round(tb testing.TB, e *engine.Engine, names []string) []time.Duration {
	tb.Helper()
	took := make([]time.Duration, len(names))
	begin := time.Now()
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			op, err := started(e, name)
			if err == nil {
				var r machine.LastResult
				if r, err = e.Await(context.Background(), name, op); err == nil && r.Outcome != machine.OutcomeCompleted {
					err = fmt.Errorf("it ended with %+v", r)
				}
			}
			if err != nil {
				tb.Errorf("%s: %v", name, err)
			}
			took[i] = time.Since(begin)
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took
}

func started(e *engine.Engine, strand string) (id.OpID, error) {
	r, err := e.Prompt(strand, text("go"))
	return r.Op, err
}

// BenchmarkThousandStrands has 1,000 strands of one session run a turn of three steps against a scripted model, all at once: two calls and an answer, each with its
// intent, its result and its row in the ledger. B/strand is what a strand at rest holds of heap and stacks; slowest/median tells whether any of them starves.
func BenchmarkThousandStrands(b *testing.B) {
	const strands = 1000
	now := func() int64 { return time.Now().UnixMilli() }
	for name, open := range map[string]func(b *testing.B) storage.Store{
		"memory": func(*testing.B) storage.Store { return memory.New(now) },
		"sqlite": func(b *testing.B) storage.Store {
			s, err := sqlite.Open(sqlite.Config{Path: filepath.Join(b.TempDir(), "s.db"), Owner: "bench", Clock: now, Create: true})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = s.Close() })
			return s
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.StopTimer()
			var commits, flushes, took, spread float64
			var perStrand float64
			for range b.N { // a fresh session each: the second turn of a strand has another script
				store := &tallied{Store: open(b)}
				before := heap()
				e, names := crowd(b, store, strands)
				perStrand += float64(heap()-before) / strands
				store.commits.Store(0)
				store.flushes.Store(0)
				b.StartTimer()
				times := round(b, e, names)
				b.StopTimer()
				commits += float64(store.commits.Load())
				flushes += float64(store.flushes.Load())
				took += times[len(times)-1].Seconds()
				spread += float64(times[len(times)-1]) / float64(times[len(times)/2])
				e.Close()
			}
			n := float64(b.N)
			b.ReportMetric(commits/took, "commits/s")
			b.ReportMetric(commits/flushes, "per-flush")
			b.ReportMetric(perStrand/n, "B/strand")
			b.ReportMetric(spread/n, "slowest/median")
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// A strand that works never keeps the others from working: when most have made their turn, nobody is far behind.
func TestNoStrandStarves(t *testing.T) {
	e, names := crowd(t, memory.New(func() int64 { return time.Now().UnixMilli() }), 200)
	times := round(t, e, names)
	if slowest, median := times[len(times)-1], times[len(times)/2]; slowest > 5*median+time.Second {
		t.Errorf("half of the strands were done after %v, the slowest after %v", median, slowest)
	}
	strands, err := e.Session().Strands()
	if err != nil || len(strands) != 201 {
		t.Errorf("%d strands, %v", len(strands), err)
	}
	for _, name := range names {
		last, _, err := e.Session().LastResult(name)
		if err != nil || last.Value.Outcome != machine.OutcomeCompleted {
			t.Errorf("%s ended with %+v, %v", name, last.Value, err)
		}
	}
	if found, ok, err := e.Current(session.MainStrand); ok || err != nil {
		t.Errorf("main works on %s, %v", found, err)
	}
}
