package engine

import (
	"fmt"
	"testing"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/projection"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/memory"
	"pgregory.net/rapid"
)

// TestTheBranchCacheEqualsAFreshProjection grows a tree, moves about in it and
// asks in between.
func TestTheBranchCacheEqualsAFreshProjection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := newMemory()
		s := session.New(store)
		ids := id.NewGenerator(clock.Fixed(1), 1)
		policy := projection.Policy{}.With("note", func(projection.CustomView) message.Message {
			return &message.User{Content: []message.UserBlock{message.Text{Text: "note"}}}
		})
		var cache branchCache
		var all []id.EntryID
		var leaf id.EntryID
		add := func(body entry.Body) {
			e := entry.Entry{Parent: leaf, Body: body}
			e.ID, ids = ids.Entry()
			if _, err := store.Commit(tx.Tx{Writes: []tx.Write{tx.InsertEntry{Entry: e}}}); err != nil {
				t.Fatal(err)
			}
			leaf = e.ID
			all = append(all, leaf)
		}
		say := func(n int) entry.Body {
			return entry.Message{Message: &message.User{Content: []message.UserBlock{message.Text{Text: fmt.Sprint(n)}}}}
		}
		add(say(0))
		t.Repeat(map[string]func(*rapid.T){
			"say":     func(*rapid.T) { add(say(len(all))) },
			"note":    func(*rapid.T) { add(entry.Custom{Type: "note"}) },
			"compact": func(*rapid.T) { add(entry.Compaction{Summary: fmt.Sprint("summary ", len(all))}) },
			"move":    func(t *rapid.T) { leaf = rapid.SampledFrom(all).Draw(t, "leaf") },
			"ask": func(t *rapid.T) {
				got, err := cache.messages(s, leaf, policy)
				if err != nil {
					t.Fatal(err)
				}
				want, err := s.Project(leaf, policy)
				if err != nil {
					t.Fatal(err)
				}
				if diff := coretest.Diff(want, got); diff != "" {
					t.Fatal(diff)
				}
			},
		})
	})
}

func TestALeafThatCannotBeReadLeavesTheCacheAsItWas(t *testing.T) {
	store := newMemory()
	s := session.New(store)
	first, ids := id.NewGenerator(clock.Fixed(1), 1).Entry()
	unknown, _ := ids.Entry()
	if _, err := store.Commit(tx.Tx{Writes: []tx.Write{tx.InsertEntry{Entry: entry.Entry{ID: first, Body: entry.Compaction{Summary: "s"}}}}}); err != nil {
		t.Fatal(err)
	}
	var cache branchCache
	for _, leaf := range []id.EntryID{first, unknown, first} {
		got, err := cache.messages(s, leaf, projection.Policy{})
		if (err != nil) != (leaf == unknown) || err == nil && len(got) != 1 {
			t.Errorf("%s: %d messages, %v", leaf, len(got), err)
		}
	}
}

// counting counts the rows that scans of branches return.
type counting struct {
	storage.Store
	rows int
}

func (c *counting) ScanBranch(q storage.BranchQuery) ([]entry.Entry, error) {
	list, err := c.Store.ScanBranch(q)
	c.rows += len(list)
	return list, err
}

func TestOnlyWhatIsNewIsRead(t *testing.T) {
	store := &counting{Store: newMemory()}
	s := session.New(store)
	ids := id.NewGenerator(clock.Fixed(1), 1)
	var cache branchCache
	var leaf id.EntryID
	for n := range 50 {
		e := entry.Entry{Parent: leaf, Body: entry.Custom{Type: "note"}}
		e.ID, ids = ids.Entry()
		if _, err := store.Commit(tx.Tx{Writes: []tx.Write{tx.InsertEntry{Entry: e}}}); err != nil {
			t.Fatal(err)
		}
		leaf, store.rows = e.ID, 0
		for range 2 { // the second asks for what is known
			if _, err := cache.messages(s, leaf, projection.Policy{}); err != nil {
				t.Fatal(err)
			}
		}
		if store.rows > 2 {
			t.Errorf("with %d entries, %d were read for one that is new", n+1, store.rows)
		}
	}
}

// BenchmarkNextContextOf10kEntries is the context of a request when one exchange
// is new since the last.
func BenchmarkNextContextOf10kEntries(b *testing.B) {
	store := memory.New(func() int64 { return 1 })
	s := session.New(store)
	ids := id.NewGenerator(clock.Fixed(1), 99)
	var leaf id.EntryID
	insert := func(e entry.Entry) {
		if _, err := store.Commit(tx.Tx{Writes: []tx.Write{tx.InsertEntry{Entry: e}}}); err != nil {
			b.Fatal(err)
		}
		leaf = e.ID
	}
	for _, e := range coretest.Transcript(1, 30<<20)[:10_000] {
		insert(e)
	}
	var cache branchCache
	if _, err := cache.messages(s, leaf, projection.Policy{}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		e := entry.Entry{Parent: leaf, Body: entry.Message{Message: &message.User{Content: []message.UserBlock{message.Text{Text: "next"}}}}}
		e.ID, ids = ids.Entry()
		insert(e)
		b.StartTimer()
		if _, err := cache.messages(s, leaf, projection.Policy{}); err != nil {
			b.Fatal(err)
		}
	}
}
