package sqlite

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/storage"
	"pgregory.net/rapid"
)

// tree is heads by seq, linked as a commit links them.
type tree []*head

func (g *tree) grow(parent *head, kind entry.Kind, customType *string) *head {
	h := &head{seq: int64(len(*g)), kind: kind, customType: customType}
	var jump *head
	if parent != nil {
		if jump = parent; parent.jump != nil {
			jump = (*g)[*parent.jump]
		}
	}
	h.link(parent, jump)
	*g = append(*g, h)
	return h
}

// ancestors is the path of an entry, newest first, by its parents alone.
func (g tree) ancestors(h *head) (list []*head) {
	for ; ; h = g[*h.parent] {
		if list = append(list, h); h.parent == nil {
			return list
		}
	}
}

// at reads heads and counts how many.
func (g tree) at(t rapid.TB, reads *int) func(seq, depth int64) (*head, error) {
	return func(seq, depth int64) (*head, error) {
		*reads++
		if g[seq].depth != depth {
			t.Fatalf("depth %d was expected at seq %d, which has %d", depth, seq, g[seq].depth)
		}
		return g[seq], nil
	}
}

func drawTree(t *rapid.T) tree {
	var g tree
	types := []string{"note", "mark", "rare"}
	for i := range rapid.IntRange(1, 300).Draw(t, "entries") {
		var parent *head
		// Mostly a child of the last one, so that paths grow long.
		if at := rapid.IntRange(-1, 12*max(i, 1)).Draw(t, "parent"); i > 0 && at >= 0 {
			parent = g[min(at, i-1)]
		}
		var customType *string
		kind := rapid.SampledFrom([]entry.Kind{entry.KindMessage, entry.KindMessage, entry.KindMessage, entry.KindCustom, entry.KindCompaction}).Draw(t, "kind")
		if kind == entry.KindCustom {
			customType = new(rapid.SampledFrom(types).Draw(t, "type"))
		}
		g.grow(parent, kind, customType)
	}
	return g
}

func TestEveryPlaceIsThatOfItsPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawTree(t)
		for _, h := range g {
			up := g.ancestors(h)
			if !h.placed() || h.depth != int64(len(up)-1) {
				t.Fatalf("seq %d is at depth %d of a path of %d", h.seq, h.depth, len(up))
			}
			if h.depth == 0 {
				continue
			}
			at := slices.IndexFunc(up, func(a *head) bool { return a.seq == *h.jump })
			if at < 1 || up[at].depth != jumpDepth(h.depth) {
				t.Fatalf("the jump of depth %d leads to depth %d, want %d", h.depth, up[at].depth, jumpDepth(h.depth))
			}
			var all marks
			for _, a := range up[:at] {
				all |= marksOf(a.kind, a.customType)
			}
			if h.marks != all {
				t.Fatalf("the marks of seq %d are %x, the stretch has %x", h.seq, h.marks, all)
			}
		}
	})
}

func TestSearchFindsWhatAWalkFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawTree(t)
		start := rapid.SampledFrom(g).Draw(t, "start")
		seqs := rapid.Int64Range(-2, int64(len(g))+2)
		kind := rapid.SampledFrom([]entry.Kind{entry.KindMessage, entry.KindCustom, entry.KindCompaction, entry.KindBranchSummary}).Draw(t, "kind")
		want := &stretch{seqs.Draw(t, "lo"), seqs.Draw(t, "hi"), marksOf(kind, nil), func(h *head) bool { return h.kind == kind }}
		limit := rapid.IntRange(1, 10).Draw(t, "limit")
		reads := 0
		p := path{start, g.at(t, &reads)}
		for _, order := range []storage.Order{storage.NewestFirst, storage.OldestFirst} {
			var expected, got []int64
			up := g.ancestors(start)
			if order == storage.OldestFirst {
				slices.Reverse(up)
			}
			for _, h := range up {
				if h.seq >= want.lo && h.seq <= want.hi && want.keeps(h) && len(expected) < limit {
					expected = append(expected, h.seq)
				}
			}
			reads = 0
			if err := p.search(order, want, func(h *head) bool { got = append(got, h.seq); return len(got) < limit }); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, expected) {
				t.Fatalf("order %d: %v, want %v", order, got, expected)
			}
			if most := 4 * (limit + 2) * bits.Len(uint(len(g))+1); reads > most {
				t.Fatalf("order %d: %d heads were read of a path of %d", order, reads, len(up))
			}
		}
	})
}

func TestClimbAndLevelFindTheirRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawTree(t)
		start := rapid.SampledFrom(g).Draw(t, "start")
		up := g.ancestors(start)
		reads := 0
		p := path{start, g.at(t, &reads)}
		bound := rapid.Int64Range(-2, int64(len(g))).Draw(t, "bound")
		got, err := p.climb(start, bound)
		at := slices.IndexFunc(up, func(h *head) bool { return h.seq <= bound })
		if err != nil || (got == nil) != (at < 0) || got != nil && got != up[at] {
			t.Fatalf("climb to %d: %+v, %v", bound, got, err)
		}
		depth := rapid.Int64Range(0, start.depth).Draw(t, "depth")
		if got, err := p.level(start, depth); err != nil || got != up[start.depth-depth] {
			t.Fatalf("level %d: %+v, %v", depth, got, err)
		}
	})
}

// TestALongPathIsSearchedInItsLogarithm is the guarantee in numbers: a path of a
// million, one compaction in its middle, and a thousand forks upon forks of it.
func TestALongPathIsSearchedInItsLogarithm(t *testing.T) {
	const length, middle = 1_000_000, 500_000
	var g tree
	var tip *head
	for i := range length {
		kind := entry.KindMessage
		if i == middle {
			kind = entry.KindCompaction
		}
		tip = g.grow(tip, kind, nil)
	}
	for range 1000 {
		from := g[*tip.parent]
		g.grow(from, entry.KindMessage, nil)
		tip = g.grow(g[len(g)-1], entry.KindMessage, nil)
	}
	reads := 0
	p := path{tip, g.at(t, &reads)}
	most := 3 * bits.Len(length) // of the skew binary numbers
	for name, run := range map[string]func() (int64, error){
		"the newest compaction": func() (found int64, err error) {
			err = p.search(storage.NewestFirst, &stretch{oldest, newest, markCompaction, func(h *head) bool { return h.kind == entry.KindCompaction }},
				func(h *head) bool { found = h.seq; return false })
			return found, err
		},
		"the oldest compaction": func() (found int64, err error) {
			err = p.search(storage.OldestFirst, &stretch{oldest, newest, markCompaction, func(h *head) bool { return h.kind == entry.KindCompaction }},
				func(h *head) bool { found = h.seq; return false })
			return found, err
		},
		"a seq":   func() (int64, error) { h, err := p.climb(tip, middle); return h.seq, err },
		"a depth": func() (int64, error) { h, err := p.level(tip, middle); return h.seq, err },
	} {
		reads = 0
		if at, err := run(); err != nil || at != middle {
			t.Errorf("%s: %d, %v", name, at, err)
		}
		if reads > 2*most {
			t.Errorf("%s: %d heads were read", name, reads)
		}
		t.Log(name, reads)
	}
}

func TestJumpDepthsAreTheSkewBinaryNumbers(t *testing.T) {
	var got []int64
	for d := int64(1); d <= 15; d++ {
		got = append(got, jumpDepth(d))
	}
	if want := "[0 1 0 3 4 3 0 7 8 7 10 11 10 7 0]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}
