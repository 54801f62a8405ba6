package storagetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
)

// sprout is an entry of the tree below: its parent by name ("" for none).
type sprout struct {
	name, parent string
	compaction   bool
}

// growth is a small tree in which branches part everywhere that an index of
// branches could get wrong: above a compaction, at it, below it, and around a
// second compaction on one of the branches. One commit a line.
var growth = [][]sprout{
	{{"root", "", false}, {"a", "root", false}},
	{{"b", "a", false}},
	{{"C1", "b", true}},
	{{"d", "C1", false}, {"e", "d", false}},
	{{"above", "a", false}},
	{{"at", "C1", false}},
	{{"below", "d", false}},
	{{"C2", "below", true}}, // on a branch that parted below the first
	{{"f", "C2", false}},
	{{"between", "below", false}}, // above the second, below the first
	{{"at2", "C2", false}, {"at2+", "at2", false}},
	{{"tip", "f", false}},
	{{"at+", "at", false}},
}

// branchGrowth checks after every commit that each entry ever written still
// scans to its exact path to the root. The paths are kept by the suite itself,
// not by the model.
func branchGrowth(b *bench) {
	ids := map[string]id.EntryID{}
	paths := map[string][]id.EntryID{} // newest first
	compactions := map[id.EntryID]bool{}
	for _, commit := range growth {
		var writes []tx.Write
		for _, s := range commit {
			e := b.said(ids[s.parent], s.name)
			if s.compaction {
				e = b.compacted(ids[s.parent], s.name)
				compactions[e.ID] = true
			}
			ids[s.name] = e.ID
			paths[s.name] = append([]id.EntryID{e.ID}, paths[s.parent]...)
			writes = append(writes, insert(e))
		}
		b.must(writes...)
		b.exactPaths(paths, compactions)
	}
	b.reopen()
	b.exactPaths(paths, compactions)
}

// exactPaths scans every path whole, down to its newest compaction, and in pages.
func (b *bench) exactPaths(paths map[string][]id.EntryID, compactions map[id.EntryID]bool) {
	b.Helper()
	for name, path := range paths {
		start := path[0]
		b.path(name, path, storage.BranchQuery{Start: start})
		b.path(name+", oldest first", reversed(path), storage.BranchQuery{Start: start, Order: storage.OldestFirst})
		context := path
		if i := slices.IndexFunc(path, func(i id.EntryID) bool { return compactions[i] }); i >= 0 {
			context = path[:i+1]
		}
		b.path(name+", its context", context, storage.BranchQuery{Start: start, StopAtKind: entry.KindCompaction})
		b.path(name+", compactions", slices.DeleteFunc(slices.Clone(path), func(i id.EntryID) bool { return !compactions[i] }),
			storage.BranchQuery{Start: start, Kind: entry.KindCompaction})
		b.pages(name, path, 2)
	}
}

// path compares the ids of one scan.
func (b *bench) path(name string, want []id.EntryID, q storage.BranchQuery) []entry.Entry {
	b.Helper()
	rows, err := b.store.ScanBranch(q)
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	got := make([]id.EntryID, len(rows))
	for i, e := range rows {
		got[i] = e.ID
	}
	if !slices.Equal(got, want) {
		b.Fatalf("the path of %s is\n%v, want\n%v", name, got, want)
	}
	return rows
}

// pages reads a path page by page.
func (b *bench) pages(name string, path []id.EntryID, size int) {
	b.Helper()
	q := storage.BranchQuery{Start: path[0], Limit: new(size)}
	for from := 0; from <= len(path); from += size {
		rows := b.path(fmt.Sprintf("%s, page at %d", name, from), path[from:min(from+size, len(path))], q)
		if len(rows) > 0 {
			q.Cursor = new(rows[len(rows)-1].Seq)
		}
	}
}

func reversed(path []id.EntryID) []id.EntryID {
	out := slices.Clone(path)
	slices.Reverse(out)
	return out
}

// longBranch writes ten thousand entries, with a fork at every thousandth, and
// reads the newest page of each. What a page costs is compared with what the
// whole branch costs in the same run, so that no speed of a machine is assumed.
func longBranch(b *bench) {
	const length, page, perCommit = 10_000, 50, 500
	path := make([]id.EntryID, 0, length) // oldest first
	var parent id.EntryID
	for len(path) < length {
		writes := make([]tx.Write, perCommit)
		for i := range writes {
			e := b.said(parent, "one of many")
			parent, path = e.ID, append(path, e.ID)
			writes[i] = insert(e)
		}
		if _, err := b.store.Commit(tx.Tx{Writes: writes}); err != nil {
			b.Fatalf("commit of entry %d: %v", len(path), err)
		}
	}
	for at := 1000; at <= length; at += 1000 {
		fork := b.said(path[at-1], "fork")
		if _, err := b.store.Commit(tx.Tx{Writes: []tx.Write{insert(fork)}}); err != nil {
			b.Fatalf("fork at %d: %v", at, err)
		}
		want := append([]id.EntryID{fork.ID}, reversed(path[at-page+1:at])...)
		b.path(fmt.Sprintf("the fork at %d, newest page", at), want, storage.BranchQuery{Start: fork.ID, Limit: new(page)})
	}
	stats, err := b.store.Stats()
	if err != nil || stats.Messages != length+length/1000 {
		b.Fatalf("stats count %d messages, %v", stats.Messages, err)
	}
	newest := reversed(path)
	whole := quickest(3, func() { b.path("the long branch", newest, storage.BranchQuery{Start: parent}) })
	part := quickest(9, func() { b.path("its newest page", newest[:page], storage.BranchQuery{Start: parent, Limit: new(page)}) })
	if part > whole/4 {
		b.Fatalf("the newest %d of %d entries take %s, all of them %s", page, length, part, whole)
	}
}

// quickest is the time of the fastest of several runs: what disturbs a machine
// only makes one slower.
func quickest(runs int, run func()) time.Duration {
	best := time.Duration(1<<63 - 1)
	for range runs {
		from := time.Now()
		run()
		best = min(best, time.Since(from))
	}
	return best
}
