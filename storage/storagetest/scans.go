package storagetest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/storage"
)

var root0 = usage.Unknown(usage.API)

// forest commits two branches that part below a compaction, with custom rows and
// another root between them, and returns both tips. Seqs have gaps.
func (b *bench) forest() (tips [2]id.EntryID, compaction id.EntryID) {
	at := id.EntryID{}
	grow := func(e entry.Entry) { b.must(insert(e)); at = e.ID }
	for i := range 4 {
		grow(b.said(at, fmt.Sprint("old ", i)))
		b.must(insertUsage(b.spent(int64(i))))
	}
	grow(b.custom(at, "note", nil))
	grow(b.compacted(at, "so far"))
	compaction = at
	fork := at
	for i := range 3 {
		grow(b.said(at, fmt.Sprint("left ", i)))
		grow(b.custom(at, []string{"note", "mark"}[i%2], nil))
	}
	tips[0], at = at, fork
	b.must(insert(b.said(id.EntryID{}, "another root")))
	for i := range 5 {
		grow(b.said(at, fmt.Sprint("right ", i)))
	}
	grow(entry.Entry{ID: b.entryID(), Parent: at, Body: entry.BranchSummary{FromID: tips[0], Summary: "left"}})
	tips[1] = at
	return tips, compaction
}

func (b *bench) scan(name string, q storage.BranchQuery) []entry.Entry {
	b.Helper()
	got, err := b.store.ScanBranch(q)
	want, known := b.model.branch(q)
	if !known {
		if unknown, ok := errors.AsType[*storage.UnknownEntry](err); !ok || unknown.ID != q.Start {
			b.Fatalf("%s: %v, want an unknown entry", name, err)
		}
		return nil
	}
	b.equal(name, texts(got), texts(want), err)
	return got
}

func branchPipeline(b *bench) {
	tips, compaction := b.forest()
	stranger := b.model.entries[len(b.model.entries)-7].ID // the other root: on no path of a tip
	var starts []id.EntryID
	for _, e := range b.model.entries {
		starts = append(starts, e.ID)
	}
	for _, start := range append(starts, b.entryID()) {
		for _, order := range []storage.Order{storage.DefaultOrder, storage.OldestFirst, storage.NewestFirst} {
			b.scan("plain", storage.BranchQuery{Start: start, Order: order})
			b.scan("stop at kind", storage.BranchQuery{Start: start, Order: order, StopAtKind: entry.KindCompaction})
			b.scan("stop at id", storage.BranchQuery{Start: start, Order: order, StopAtID: compaction})
			b.scan("stop at both", storage.BranchQuery{Start: start, Order: order, StopAtID: compaction, StopAtKind: entry.KindCustom})
		}
	}
	for _, start := range tips {
		for _, order := range []storage.Order{storage.OldestFirst, storage.NewestFirst} {
			for _, limit := range []*int{nil, new(-1), new(0), new(1), new(3), new(1000)} {
				for _, cursor := range []*int64{nil, new(int64(0)), new(int64(9)), new(int64(14)), new(int64(math.MaxInt64))} {
					q := storage.BranchQuery{Start: start, Order: order, Limit: limit, Cursor: cursor}
					b.scan("cut", q)
					q.Kind = entry.KindMessage
					b.scan("cut of one kind", q)
					q.StopAtKind = entry.KindCompaction
					b.scan("stop row that does not pass the filter", q)
					q.Kind, q.CustomType = "", new("note")
					b.scan("cut of one custom type", q)
					q.StopAtKind, q.StopAtID = "", stranger
					b.scan("stop that is not on the path", q)
					q.Kind = entry.KindMessage
					b.scan("custom type of a message", q)
				}
			}
		}
	}
	if rows := b.scan("down to the compaction", storage.BranchQuery{Start: tips[0], StopAtKind: entry.KindCompaction}); len(rows) != 7 || rows[6].ID != compaction {
		b.Fatalf("the projection's scan returned %d rows", len(rows))
	}
}

func branchPages(b *bench) {
	tips, _ := b.forest()
	for _, start := range tips {
		for _, order := range []storage.Order{storage.OldestFirst, storage.NewestFirst} {
			for _, q := range []storage.BranchQuery{
				{Start: start, Order: order}, {Start: start, Order: order, Kind: entry.KindMessage},
				{Start: start, Order: order, StopAtKind: entry.KindCompaction},
			} {
				whole := b.scan("whole", q)
				for size := 1; size <= len(whole)+1; size++ {
					var pages []entry.Entry
					page := q
					page.Limit = new(size)
					for {
						rows := b.scan("page", page)
						if len(rows) == 0 {
							break
						}
						pages = append(pages, rows...)
						page.Cursor = new(rows[len(rows)-1].Seq)
					}
					b.equal(fmt.Sprintf("pages of %d", size), texts(pages), texts(whole), nil)
				}
			}
		}
	}
}

func entryScans(b *bench) {
	b.forest()
	for _, order := range []storage.Order{storage.DefaultOrder, storage.OldestFirst, storage.NewestFirst} {
		for _, limit := range []*int{nil, new(-5), new(0), new(1), new(4)} {
			for _, bounds := range [][2]*int64{{nil, nil}, {new(int64(3)), nil}, {nil, new(int64(12))}, {new(int64(5)), new(int64(5))}, {new(int64(9)), new(int64(2))}, {new(int64(math.MinInt64)), new(int64(math.MaxInt64))}} {
				for _, kind := range []entry.Kind{"", entry.KindMessage, entry.KindCompaction, "nonsense"} {
					for _, custom := range []*string{nil, new("note"), new("none")} {
						q := storage.EntryQuery{Kind: kind, CustomType: custom, FromSeq: bounds[0], ToSeq: bounds[1], Order: order, Limit: limit}
						got, err := b.store.ScanEntries(q)
						b.equal(fmt.Sprintf("%+v", q), texts(got), texts(b.model.scanEntries(q)), err)
						heads, err := b.store.ScanEntryHeads(q)
						b.equal(fmt.Sprintf("heads of %+v", q), headTexts(heads), headTexts(headsOf(got)), err)
					}
				}
			}
		}
	}
}

// pageBytes reads the entries in pages of every size: together they are the whole, and
// no page goes on after it has reached its size.
func pageBytes(b *bench) {
	b.forest()
	for _, order := range []storage.Order{storage.OldestFirst, storage.NewestFirst} {
		for _, size := range []int{1, 200, 700, 1 << 20} {
			var pages []entry.Entry
			q := storage.EntryQuery{Order: order, Bytes: size}
			for {
				rows, err := b.store.ScanEntries(q)
				if err != nil {
					b.Fatalf("page of %d bytes: %v", size, err)
				}
				if len(rows) == 0 {
					break
				}
				sum := 0
				for i, e := range rows {
					if i > 0 && sum >= size {
						b.Fatalf("a page of %d bytes has another row after %d", size, sum)
					}
					sum += len(entry.Encode(e))
				}
				pages = append(pages, rows...)
				last := rows[len(rows)-1].Seq
				if q.ToSeq = new(last - 1); order == storage.OldestFirst {
					q.FromSeq, q.ToSeq = new(last+1), nil
				}
			}
			b.equal(fmt.Sprintf("pages of %d bytes", size), texts(pages), texts(b.model.scanEntries(storage.EntryQuery{Order: order})), nil)
		}
	}
}

// snapshots commits pairs of cells that always agree, beside readers: no snapshot
// sees one half, and its Next tells what is in it.
func snapshots(b *bench) {
	pair := []storage.CellRange{{NS: register.FactName, Prefix: "pair"}, {NS: register.FactCustom, Prefix: "pa%"}}
	commit := func(n int64) {
		b.must(tx.Set(register.FactName, "pair/a", jsonv.Num(n)), tx.Set(register.FactName, "pair/b", jsonv.Num(n)),
			tx.Set(register.FactCustom, "pa%ir", jsonv.Num(n)), tx.Set(register.FactCustom, "pair", jsonv.Num(n)))
	}
	commit(0)
	var wg sync.WaitGroup
	failures := make(chan string, 4)
	for range cap(failures) {
		wg.Go(func() {
			for range 50 {
				snap, err := b.store.Snapshot(pair...)
				if err != nil {
					failures <- err.Error()
					return
				}
				var keys []string
				for _, c := range snap.Cells {
					keys = append(keys, c.String())
					if c.Value.String() != snap.Cells[0].Value.String() || c.Seq >= snap.Next || c.Seq < snap.Next-4 {
						failures <- fmt.Sprintf("half a commit: %+v", snap)
						return
					}
				}
				if fmt.Sprint(keys) != "[fact.name/pair/a fact.name/pair/b fact.custom/pa%ir]" {
					failures <- fmt.Sprintf("cells %v", keys)
					return
				}
			}
		})
	}
	for n := range int64(50) {
		commit(n)
	}
	wg.Wait()
	close(failures)
	for f := range failures {
		b.Fatalf("%s", f)
	}
	snapshotBounds(b)
}

func snapshotBounds(b *bench) {
	all := []storage.CellRange{{NS: register.FactLabel}}
	label := func(n int) string { return fmt.Sprintf("label %05d", n) }
	for n := range storage.MaxSnapshotCells {
		b.must(tx.Set(register.FactLabel, label(n), jsonv.Num(int64(n))))
	}
	if snap, err := b.store.Snapshot(all...); err != nil || len(snap.Cells) != storage.MaxSnapshotCells {
		b.Fatalf("a full snapshot: %d cells, %v", len(snap.Cells), err)
	}
	b.must(tx.Set(register.FactLabel, label(9999), jsonv.Num(1)))
	large := []storage.CellRange{{NS: register.FactName, Prefix: "large"}}
	b.must(tx.Set(register.FactName, "large", jsonv.Str(strings.Repeat("x", storage.MaxSnapshotBytes))))
	for _, of := range [][]storage.CellRange{all, large} {
		_, err := b.store.Snapshot(of...)
		if e, ok := errors.AsType[*storage.SnapshotTooLarge](err); !ok || e.Range != of[0] {
			b.Fatalf("beyond the bounds: %v", err)
		}
	}
	if snap, err := b.store.Snapshot(); err != nil || len(snap.Cells) != 0 || snap.Next == 0 || usageText(snap.Stats.Usage) != usageText(b.model.stats().Usage) {
		b.Fatalf("a snapshot of the counters: %+v, %v", snap, err)
	}
}

// headsOf is what a scan of heads returns for the rows of the same scan.
func headsOf(rows []entry.Entry) (heads []storage.Head) {
	for _, e := range rows {
		heads = append(heads, storage.Head{ID: e.ID, Parent: e.Parent, Seq: e.Seq})
	}
	return heads
}

func headTexts(heads []storage.Head) (list []string) {
	for _, h := range heads {
		list = append(list, fmt.Sprintf("%s under %q at %d", h.ID, h.Parent, h.Seq))
	}
	return list
}

func usageScans(b *bench) {
	b.forest()
	for _, order := range []storage.Order{storage.DefaultOrder, storage.OldestFirst, storage.NewestFirst} {
		for _, limit := range []*int{nil, new(-5), new(0), new(1), new(3)} {
			for _, bounds := range [][2]*int64{{nil, nil}, {new(int64(3)), nil}, {nil, new(int64(4))}, {new(int64(4)), new(int64(4))}, {new(int64(9)), new(int64(2))}} {
				q := storage.UsageQuery{FromSeq: bounds[0], ToSeq: bounds[1], Order: order, Limit: limit}
				got, err := b.store.ScanUsage(q)
				b.equal(fmt.Sprintf("%+v", q), rowTexts(got), rowTexts(b.model.scanUsage(q)), err)
			}
		}
	}
}
