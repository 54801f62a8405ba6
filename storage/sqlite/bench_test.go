package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/storage"
	"golang.org/x/sys/unix"
)

// author writes the commits of a session with one strand, the way an engine
// does.
type author struct {
	ids     id.Generator
	op      id.OpID
	leaf    id.EntryID
	leafSeq int64
	opSeq   int64
	text    string
	state   jsonv.Value
}

func newAuthor(entryBytes int) *author {
	a := &author{ids: id.NewGenerator(clock.Real(func() int64 { return time.Now().UnixMilli() }), 1)}
	a.op, a.ids = a.ids.Op()
	a.text = strings.Repeat("All work and no play. ", entryBytes/22+1)[:entryBytes]
	a.state = jsonv.Obj(jsonv.F("kind", jsonv.Str("run")), jsonv.F("phase", jsonv.Str(strings.Repeat("x", 600))))
	return a
}

// placement is an entry and the leaf that moves to it: two writes.
func (a *author) placement() tx.Tx {
	e := entry.Entry{Parent: a.leaf, Body: entry.Message{Message: &message.User{Content: []message.UserBlock{message.Text{Text: a.text}}}}}
	e.ID, a.ids = a.ids.Entry()
	a.leaf = e.ID
	return tx.Tx{
		Writes:   []tx.Write{tx.InsertEntry{Entry: e}, tx.Set(register.StrandLeaf, "main", register.Leaf(e.ID))},
		Expected: []tx.Expectation{tx.Expect(register.StrandLeaf, "main", a.leafSeq)},
	}
}

// settlement is what the end of a model response commits: five writes.
func (a *author) settlement() tx.Tx {
	t := a.placement()
	row := entry.UsageRow{EntryID: a.leaf, Usage: usage.Usage{Input: 1200, Output: 300, TotalTokens: 1500, Evidence: usage.Reported(usage.API, usage.Complete)}}
	row.ID, a.ids = a.ids.Usage()
	t.Writes = append(t.Writes, tx.InsertUsage{Row: row},
		tx.Set(register.OpState, a.op.String(), a.state), tx.Delete(register.PendingEntry, a.leaf.String()))
	t.Expected = append(t.Expected, tx.Expect(register.OpState, a.op.String(), a.opSeq))
	return t
}

// settled takes over what a commit returned.
func (a *author) settled(r tx.Result) {
	a.leafSeq = r.Seqs[1]
	if len(r.Seqs) > 3 {
		a.opSeq = r.Seqs[3]
	}
}

func openBench(b *testing.B, mode Synchronous) *Store {
	s, err := Open(Config{Path: filepath.Join(b.TempDir(), "s.db"), Owner: "bench", Clock: func() int64 { return time.Now().UnixMilli() }, Create: true, Synchronous: mode})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// rawAppend is the yardstick: what the disk takes for 4 KiB.
type rawAppend struct {
	f     *os.File
	block [4096]byte
}

func newRawAppend(b *testing.B) *rawAppend {
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return &rawAppend{f: f}
}

func (r *rawAppend) once(b *testing.B) {
	if _, err := r.f.Write(r.block[:]); err != nil {
		b.Fatal(err)
	}
	if err := unix.Fdatasync(int(r.f.Fd())); err != nil {
		b.Fatal(err)
	}
}

func percentile(d []time.Duration, p float64) time.Duration {
	slices.Sort(d)
	return d[int(float64(len(d)-1)*p)]
}

// BenchmarkCommit times commits with a 2 KB entry in turns with the yardstick,
// so that both see the same disk, after the log has wrapped once. It reports
// medians: p50-µs of the commit, raw-p50-µs, and their ratio.
func BenchmarkCommit(b *testing.B) {
	for _, c := range []struct {
		name string
		mode Synchronous
		next func(*author) tx.Tx
	}{
		{"placement of 2 writes, FULL", Full, (*author).placement},
		{"settlement of 5 writes, FULL", Full, (*author).settlement},
		{"settlement of 5 writes, NORMAL", Normal, (*author).settlement},
		{"settlement of 5 writes, not flushed", off, (*author).settlement},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, a, raw := openBench(b, c.mode), newAuthor(2000), newRawAppend(b)
			commit := func() {
				r, err := s.Commit(c.next(a))
				if err != nil {
					b.Fatal(err)
				}
				a.settled(r)
			}
			for range 200 {
				commit()
			}
			var ours, disk []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				commit()
				between := time.Now()
				raw.once(b)
				ours, disk = append(ours, between.Sub(start)), append(disk, time.Since(between))
			}
			p50, floor := percentile(ours, 0.5), percentile(disk, 0.5)
			b.ReportMetric(micros(p50), "p50-µs")
			b.ReportMetric(micros(percentile(ours, 0.99)), "p99-µs")
			b.ReportMetric(micros(floor), "raw-p50-µs")
			b.ReportMetric(float64(p50)/float64(floor), "ratio")
		})
	}
}

// grown is a closed session of n messages on one branch, compacted near its end.
func grown(b *testing.B, n int) (path string, leaf id.EntryID) {
	b.Helper()
	s, a := openBench(b, off), newAuthor(500)
	for done := 0; done < n; {
		var t tx.Tx
		for range min(1000, n-done) {
			w := a.placement().Writes[0].(tx.InsertEntry)
			if done++; done == n-100 {
				w.Entry.Body = entry.Compaction{Summary: a.text}
			}
			t.Writes = append(t.Writes, w)
		}
		if _, err := s.Commit(t); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	settleDisk(b, s.cfg.Path)
	return s.cfg.Path, a.leaf
}

// settleDisk flushes what was written without flushes, so that no measurement pays for
// it. Nobody has the file open.
func settleDisk(b *testing.B, path string) {
	b.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		b.Fatal(err)
	}
}

// sizes are the lengths of branch that reads are measured at. The largest takes
// a minute to write and is left out of short runs.
func sizes() []int {
	if testing.Short() {
		return []int{10_000}
	}
	return []int{10_000, 1_000_000}
}

// BenchmarkRead measures what must not grow with a session: opening it with the scan
// that a projection makes, the newest page, the same after a thousand forks of the
// branch, and rows by id. It reports medians.
func BenchmarkRead(b *testing.B) {
	for _, n := range sizes() {
		path, leaf := grown(b, n)
		b.Run(fmt.Sprintf("open and project/%d", n), func(b *testing.B) {
			var opened, closed []time.Duration
			for b.Loop() {
				began := time.Now()
				s, err := Open(Config{Path: path, Owner: "bench", Clock: wallClock})
				if err != nil {
					b.Fatal(err)
				}
				if rows, err := s.ScanBranch(storage.BranchQuery{Start: leaf, StopAtKind: entry.KindCompaction}); err != nil || len(rows) != 101 {
					b.Fatal(len(rows), err)
				}
				opened, began = append(opened, time.Since(began)), time.Now()
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				closed = append(closed, time.Since(began))
			}
			b.ReportMetric(micros(percentile(opened, 0.5)), "p50-µs")
			b.ReportMetric(micros(percentile(closed, 0.5)), "close-p50-µs")
		})
		r, err := OpenReader(path)
		if err != nil {
			b.Fatal(err)
		}
		newest := func(b *testing.B, leaf id.EntryID) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if rows, err := r.ScanBranch(storage.BranchQuery{Start: leaf, Limit: new(50)}); err != nil || len(rows) != 50 {
					b.Fatal(len(rows), err)
				}
				took = append(took, time.Since(began))
			}
			b.ReportMetric(micros(percentile(took, 0.5)), "p50-µs")
		}
		b.Run(fmt.Sprintf("newest 50/%d", n), func(b *testing.B) { newest(b, leaf) })
		fork := forked(b, path, leaf)
		b.Run(fmt.Sprintf("newest 50 after 1000 forks/%d", n), func(b *testing.B) { newest(b, leaf) })
		b.Run(fmt.Sprintf("newest 50 of the last fork/%d", n), func(b *testing.B) { newest(b, fork) })
		b.Run(fmt.Sprintf("row by id/%d", n), func(b *testing.B) {
			for b.Loop() {
				if rows, err := r.Entries(leaf); err != nil || len(rows) != 1 {
					b.Fatal(len(rows), err)
				}
			}
		})
		b.Run(fmt.Sprintf("peek/%d", n), func(b *testing.B) {
			for b.Loop() {
				if s, err := Peek(path); err != nil || s.Stats.Messages != int64(n-1+1000) {
					b.Fatal(s, err)
				}
			}
		})
		if n == 10_000 {
			b.Run("whole branch of 10000", func(b *testing.B) {
				for b.Loop() {
					if rows, err := r.ScanBranch(storage.BranchQuery{Start: leaf}); err != nil || len(rows) != n {
						b.Fatal(len(rows), err)
					}
				}
			})
			b.Run("heads of a branch of 10000", func(b *testing.B) {
				for b.Loop() {
					if rows, err := r.ScanBranch(storage.BranchQuery{Start: leaf, Kind: entry.KindCompaction}); err != nil || len(rows) != 1 {
						b.Fatal(len(rows), err)
					}
				}
			})
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// forked lets a thousand branches leave a branch within its newest hundred entries,
// and returns the end of the last of them.
func forked(b *testing.B, path string, leaf id.EntryID) id.EntryID {
	b.Helper()
	s, err := Open(Config{Path: path, Owner: "bench", Clock: wallClock, Synchronous: off})
	if err != nil {
		b.Fatal(err)
	}
	rows, err := s.ScanBranch(storage.BranchQuery{Start: leaf, Limit: new(100)})
	if err != nil {
		b.Fatal(err)
	}
	a := newAuthor(500)
	for n := range 1000 {
		a.leaf = rows[n%len(rows)].ID
		if _, err := s.Commit(tx.Tx{Writes: a.placement().Writes[:1]}); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	return a.leaf
}

// BenchmarkCompactions compacts again and again, each time keeping a tail of 4 MiB
// and committing the input of the summary before, as an engine does. It reports the
// size of the file over the distinct bytes of messages in it.
func BenchmarkCompactions(b *testing.B) {
	const size, tail, between = 8 << 10, 512, 20
	rounds := 500
	if testing.Short() {
		rounds = 50
	}
	for b.Loop() {
		s, m := openBench(b, off), newMinter(1)
		var parent id.EntryID
		var said []message.Message
		distinct := 0
		say := func() {
			one := kept(fmt.Sprintf("%08d ", distinct/size) + strings.Repeat("x", size))
			e := entry.Entry{ID: m.entry(), Parent: parent, Body: entry.Message{Message: one}}
			mustCommit(b, s, tx.InsertEntry{Entry: e})
			parent, said, distinct = e.ID, append(said, one), distinct+size
		}
		for range tail {
			say()
		}
		for range rounds {
			for range between {
				say()
			}
			said = said[len(said)-tail:]
			w := new(jsonv.Writer)
			w.Begin()
			w.Name("retainedTail")
			w.BeginArray()
			for _, one := range said {
				message.Append(w, one)
			}
			w.EndArray()
			w.End()
			v, err := jsonv.Parse(w.Bytes())
			if err != nil {
				b.Fatal(err)
			}
			e := entry.Entry{ID: m.entry(), Parent: parent, Body: entry.Compaction{Summary: "so far", RetainedTail: said}}
			mustCommit(b, s, tx.Set(register.OpPreparation, "task", v))
			mustCommit(b, s, tx.InsertEntry{Entry: e}, tx.Delete(register.OpPreparation, "task"))
			parent = e.ID
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		info, err := os.Stat(s.cfg.Path)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/float64(distinct), "file/messages")
		b.ReportMetric(float64(rounds), "compactions")
	}
}
