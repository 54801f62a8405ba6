package engine

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
)

// counted is a store that counts its flushes.
type counted struct {
	storage.Store
	flushes int // of one caller at a time
}

func (c *counted) CommitAll(txs ...tx.Tx) []storage.Outcome {
	c.flushes++
	return c.Store.CommitAll(txs...)
}

// BenchmarkCommitters has strands commit through one writer, each after the
// other answer, as strands do: sixteen under FULL, and one under NORMAL in turns with
// them, which is what the budget compares. ratio is the commits of the sixteen in a
// second over those of the one; per-flush is how many commits shared a flush.
func BenchmarkCommitters(b *testing.B) {
	const strands, each = 16, 50
	many, flushes := committer(b, sqlite.Full)
	one, _ := committer(b, sqlite.Normal)
	var full, normal []float64
	for b.Loop() {
		full = append(full, rate(b, many, strands, each))
		normal = append(normal, rate(b, one, 1, 4*each))
	}
	rounds := len(full)
	b.ReportMetric(median(full), "commits/s")
	b.ReportMetric(median(normal), "one-NORMAL/s")
	b.ReportMetric(median(full)/median(normal), "ratio")
	b.ReportMetric(float64(rounds*strands*each)/float64(flushes.flushes), "per-flush")
}

func committer(b *testing.B, mode sqlite.Synchronous) (*writer, *counted) {
	s, err := sqlite.Open(sqlite.Config{
		Path: filepath.Join(b.TempDir(), "s.db"), Owner: "bench", Clock: func() int64 { return time.Now().UnixMilli() }, Create: true, Synchronous: mode,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	c := &counted{Store: s}
	return &writer{store: c, notify: func(Fact) {}}, c
}

// rate lets strands commit and returns how many commits that is in a second.
func rate(b *testing.B, w *writer, strands, each int) float64 {
	start := time.Now()
	var wg sync.WaitGroup
	for range strands {
		wg.Go(func() { work(b, w, each) })
	}
	wg.Wait()
	return float64(strands*each) / time.Since(start).Seconds()
}

// work is what the turns of a strand commit: an entry of 2 KB, its leaf and state.
func work(b *testing.B, w *writer, n int) {
	ids := id.NewGenerator(clock.Real(func() int64 { return time.Now().UnixMilli() }), uint64(time.Now().UnixNano()))
	first, ids := ids.Op()
	strand, text := first.String(), strings.Repeat("All work and no play. ", 90)
	state := jsonv.Obj(jsonv.F("phase", jsonv.Str(strings.Repeat("x", 600))))
	var leaf id.EntryID
	for range n {
		e := entry.Entry{Parent: leaf, Body: entry.Message{Message: &message.User{Content: []message.UserBlock{message.Text{Text: text}}}}}
		e.ID, ids = ids.Entry()
		leaf = e.ID
		_, err := w.commit(tx.Tx{Writes: []tx.Write{
			tx.InsertEntry{Entry: e}, tx.Set(register.StrandLeaf, strand, register.Leaf(leaf)), tx.Set(register.OpState, strand, state),
		}}, nil, nil)
		if err != nil {
			b.Error(err)
			return
		}
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
