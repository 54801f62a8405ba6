package sqlite

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/session/projection"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/memory"
	"pgregory.net/rapid"
)

// life is a list of transactions, some of which are refused.
type life struct {
	txs     []tx.Tx
	entries []id.EntryID
}

func drawLife(t *rapid.T) (l life) {
	m := newMinter(7)
	kinds := rapid.SampledFrom([]string{"message", "message", "message", "compaction", "any"})
	bodies := coretest.Body()
	var said []message.Message
	for n := range rapid.IntRange(1, 14).Draw(t, "transactions") {
		var one tx.Tx
		for range rapid.IntRange(0, 3).Draw(t, "writes") {
			var parent id.EntryID
			if k := len(l.entries); k > 0 {
				parent = l.entries[max(0, k-1-rapid.IntRange(0, 3).Draw(t, "back"))]
			}
			e := entry.Entry{ID: m.entry(), Parent: parent}
			switch kinds.Draw(t, "kind") {
			case "message":
				text := kept(fmt.Sprint(n, " ", string(bytes.Repeat([]byte("words "), rapid.SampledFrom([]int{1, 60, 900}).Draw(t, "length")))))
				said = append(said, text)
				e.Body = entry.Message{Message: text}
			case "compaction":
				tail := said[max(0, len(said)-rapid.IntRange(0, 5).Draw(t, "tail")):]
				e.Body = entry.Compaction{Summary: "so far", RetainedTail: slices.Clone(tail)}
			default:
				e.Body = bodies.Draw(t, "body")
			}
			l.entries = append(l.entries, e.ID)
			one.Writes = append(one.Writes, tx.InsertEntry{Entry: e}, tx.Set(register.StrandLeaf, "main", register.Leaf(e.ID)))
		}
		if rapid.Bool().Draw(t, "usage?") {
			row := coretest.UsageRow().Draw(t, "usage")
			one.Writes = append(one.Writes, tx.InsertUsage{Row: row})
		}
		if rapid.IntRange(0, 5).Draw(t, "refused?") == 0 {
			one.Expected = append(one.Expected, tx.Expect(register.FactName, "never", 1))
		}
		one.Writes = append(one.Writes, tx.Set(register.FactName, fmt.Sprint(n%3), jsonv.Num(int64(n))))
		l.txs = append(l.txs, one)
	}
	return l
}

// lived is all that can be read of a session: its rows, and the context and both ends
// of the path of each entry.
func lived(t rapid.TB, s storage.Reader, l life) (lines []string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v", err)
		}
	}
	rows, err := s.ScanEntries(storage.EntryQuery{})
	must(err)
	for _, e := range rows {
		lines = append(lines, string(entry.Encode(e)))
		path, err := s.ScanBranch(storage.BranchQuery{Start: e.ID, StopAtKind: entry.KindCompaction})
		must(err)
		var w jsonv.Writer
		w.BeginArray()
		for _, m := range projection.Project(path, projection.Policy{}) {
			message.Append(&w, m)
		}
		w.EndArray()
		lines = append(lines, string(w.Bytes()))
		for _, q := range []storage.BranchQuery{
			{Start: e.ID, Order: storage.OldestFirst, Limit: new(3)}, {Start: e.ID, Kind: entry.KindCustom}, {Start: e.ID, Cursor: new(e.Seq - 9), Limit: new(2)},
		} {
			page, err := s.ScanBranch(q)
			must(err)
			for _, p := range page {
				lines = append(lines, fmt.Sprint(p.Seq))
			}
		}
	}
	ledger, err := s.ScanUsage(storage.UsageQuery{})
	must(err)
	for _, row := range ledger {
		var w jsonv.Writer
		entry.AppendUsageRow(&w, row)
		lines = append(lines, string(w.Bytes()))
	}
	cells, err := s.Registers(register.FactName, "")
	must(err)
	for _, c := range cells {
		lines = append(lines, fmt.Sprint(c.Key, c.Seq, c.Value))
	}
	return lines
}

func open(t *rapid.T, cfg Config) *Store {
	s, err := Open(cfg)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

func closed(t *rapid.T, c io.Closer) {
	if err := c.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// live commits a life in batches of a size and closes the session.
func live(t *rapid.T, cfg Config, l life, size int, between func(*Store) error) string {
	s := open(t, cfg)
	for batch := range slices.Chunk(l.txs, size) {
		s.CommitAll(batch...)
		if between != nil {
			if err := between(s); err != nil {
				t.Fatalf("between commits: %v", err)
			}
		}
	}
	closed(t, s)
	return cfg.Path
}

// TestTheSameLifeIsTheSameSession commits one list of transactions in many ways: one by
// one and in batches, in one opening and in many, released between, flushed and
// not, through a rewrite that changes nothing, in a file and in memory.
// What can be read at the end is the same.
func TestTheSameLifeIsTheSameSession(owner *testing.T) {
	rapid.Check(owner, func(t *rapid.T) {
		l := drawLife(t)
		reference := memory.New(func() int64 { return epoch })
		for _, one := range l.txs {
			_, _ = reference.Commit(one) // a refusal is part of the life
		}
		want := lived(t, reference, l)
		for name, way := range map[string]func(t *rapid.T, cfg Config) string{
			"one by one":   func(t *rapid.T, cfg Config) string { return live(t, cfg, l, 1, nil) },
			"in batches":   func(t *rapid.T, cfg Config) string { return live(t, cfg, l, 7, nil) },
			"in one batch": func(t *rapid.T, cfg Config) string { return live(t, cfg, l, len(l.txs), nil) },
			"released":     func(t *rapid.T, cfg Config) string { return live(t, cfg, l, 2, (*Store).Release) },
			"flushed": func(t *rapid.T, cfg Config) string {
				cfg.Synchronous = Normal
				return live(t, cfg, l, 3, nil)
			},
			"a short lease": func(t *rapid.T, cfg Config) string {
				cfg.LeaseTTL = 3 * time.Millisecond
				return live(t, cfg, l, 1, nil)
			},
			"opened for each": func(t *rapid.T, cfg Config) string {
				for i, one := range l.txs {
					cfg.Owner = fmt.Sprint("opening ", i)
					s := open(t, cfg)
					_, _ = s.Commit(one)
					closed(t, s)
				}
				return cfg.Path
			},
			"rewritten": func(t *rapid.T, cfg Config) string {
				path := live(t, cfg, l, 4, nil)
				_, err := RewriteInto(Rewrite{
					Path: path, Clock: cfg.Clock,
					Entry: func(e entry.Entry) (entry.Entry, bool, error) { return e, false, nil },
					Value: func(_ register.Address, v jsonv.Value) (jsonv.Value, bool, error) { return v, false, nil },
				})
				if err != nil {
					t.Fatalf("rewrite: %v", err)
				}
				return path
			},
		} {
			cfg, _ := newConfig(owner)
			path := way(t, cfg)
			r, err := OpenReader(path)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got := lived(t, r, l)
			closed(t, r)
			for i := range max(len(got), len(want)) {
				if i >= len(got) || i >= len(want) || got[i] != want[i] {
					t.Fatalf("%s: line %d of %d differs, of %d", name, i, len(got), len(want))
				}
			}
			if findings, err := Check(path); err != nil || len(findings) > 0 {
				t.Fatalf("%s: %v, %v", name, findings, err)
			}
		}
	})
}
