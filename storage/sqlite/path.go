package sqlite

import (
	"hash/fnv"
	"math"
	"math/bits"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/storage"
)

// The path index. Every entry stores, beside the seq of its parent, its depth, the
// seq of one farther ancestor (its jump), and a set of what lies on the path from
// itself down to that ancestor. Jumps follow the skew binary numbers: the jump of an
// entry is either its parent, or where the jump of its parent's jump leads when the
// two stretches are equally long. The stretch of an entry,
//
//	[entry … jump)  =  {entry}  or  {entry} + [parent … its jump) + [that jump … its jump),
//
// is therefore a perfectly balanced binary tree, and any path is a list of at most
// logarithmically many of them. They need no table of their own, are written once
// with the entry, are shared by all branches that pass through it, and cost a fork
// nothing. The format page has the argument.

// jumpDepth is the depth that the jump of an entry of depth d leads to, for d > 0.
func jumpDepth(d int64) int64 {
	for left := d; ; {
		w := int64(1)<<(bits.Len64(uint64(left)+1)-1) - 1 // the greatest 2^k-1 up to left
		if left == w {
			return d - w
		}
		left -= w
	}
}

// marks is a set of kinds and custom types. A kind is told exactly; a custom type
// shares its bit with one in fifty-nine others.
type marks int64

const (
	markMessage marks = 1 << iota
	markCompaction
	markBranchSummary
	markCustom
	markTypes // the first of the bits of custom types
)

const typeBits = 59

func marksOf(kind entry.Kind, customType *string) marks {
	var m marks
	switch kind {
	case entry.KindMessage:
		m = markMessage
	case entry.KindCompaction:
		m = markCompaction
	case entry.KindBranchSummary:
		m = markBranchSummary
	case entry.KindCustom:
		m = markCustom
	}
	if customType != nil {
		h := fnv.New64a()
		_, _ = h.Write([]byte(*customType)) // it cannot fail
		m |= markTypes << (h.Sum64() % typeBits)
	}
	return m
}

// link gives an entry its place under a parent. jump is the parent's jump, or the
// parent itself where that is a root.
func (h *head) link(parent, jump *head) {
	h.marks = marksOf(h.kind, h.customType)
	if parent == nil {
		return
	}
	h.parent, h.depth = &parent.seq, parent.depth+1
	if jumpDepth(h.depth) == parent.depth {
		h.jump = &parent.seq
		return
	}
	h.jump = jump.jump
	h.marks |= parent.marks | jump.marks
}

// single reports a stretch of one entry.
func (h *head) single() bool { return h.jump == nil || *h.jump == *h.parent }

// placed reports whether the links of a row can be right.
func (h *head) placed() bool {
	if h.parent == nil || h.jump == nil {
		return h.parent == nil && h.jump == nil && h.depth == 0
	}
	return h.depth > 0 && *h.parent < h.seq && *h.jump <= *h.parent && h.single() == (jumpDepth(h.depth) == h.depth-1)
}

// stretch is what a search wants of a path: rows of seqs from lo to hi that the
// filter keeps. need is a set that every one of them has.
type stretch struct {
	lo, hi int64
	need   marks
	keeps  func(*head) bool
}

func (s *stretch) without(h *head) bool {
	return h.seq < s.lo || h.jump != nil && *h.jump >= s.hi || h.marks&s.need != s.need
}

// path reads the heads of one path by seq and trusts no link of it.
type path struct {
	start *head
	at    func(seq, depth int64) (*head, error)
}

// climb finds the newest row of the path from h on with a seq up to bound, or nil.
func (p *path) climb(h *head, bound int64) (*head, error) {
	return p.seek(h, func(seq, _ int64) bool { return seq <= bound })
}

// level finds the row of the path from h on with a depth; h is at least as deep.
func (p *path) level(h *head, depth int64) (*head, error) {
	return p.seek(h, func(_, d int64) bool { return d <= depth })
}

// seek finds the newest row of the path from h on that reached reports, given that
// it reports all older ones too; nil when there is none.
func (p *path) seek(h *head, reached func(seq, depth int64) bool) (_ *head, err error) {
	for h != nil && !reached(h.seq, h.depth) {
		switch {
		case h.jump == nil:
			return nil, nil
		case reached(*h.jump, jumpDepth(h.depth)):
			h, err = p.parent(h)
		default:
			h, err = p.jump(h)
		}
		if err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (p *path) parent(h *head) (*head, error) { return p.at(*h.parent, h.depth-1) }
func (p *path) jump(h *head) (*head, error)   { return p.at(*h.jump, jumpDepth(h.depth)) }

// search shows the rows that s wants, in order, until visit returns false. It reads
// heads in the number of the rows times the logarithm of the path, at most.
func (p *path) search(order storage.Order, s *stretch, visit func(*head) bool) error {
	if order != storage.OldestFirst {
		for h := p.start; ; {
			if more, err := p.visit(h, s, false, visit); err != nil || !more || h.seq < s.lo || h.jump == nil {
				return err
			}
			next, err := p.jump(h)
			if err != nil {
				return err
			}
			h = next
		}
	}
	var tops []*head // of the trees of the path, newest first
	for h := p.start; ; {
		tops = append(tops, h)
		if h.jump == nil || h.seq < s.lo {
			break
		}
		next, err := p.jump(h)
		if err != nil {
			return err
		}
		h = next
	}
	for i := len(tops) - 1; i >= 0; i-- {
		if more, err := p.visit(tops[i], s, true, visit); err != nil || !more {
			return err
		}
	}
	return nil
}

// visit shows what s wants of the stretch of h.
func (p *path) visit(h *head, s *stretch, oldestFirst bool, show func(*head) bool) (more bool, err error) {
	if s.without(h) {
		return true, nil
	}
	self := func() bool { return h.seq < s.lo || h.seq > s.hi || !s.keeps(h) || show(h) }
	if h.single() {
		return self(), nil
	}
	if !oldestFirst && !self() {
		return false, nil
	}
	near, err := p.parent(h)
	if err != nil {
		return false, err
	}
	far, err := p.jump(near)
	if err != nil {
		return false, err
	}
	first, second := near, far
	if oldestFirst {
		first, second = far, near
	}
	for _, part := range []*head{first, second} {
		if more, err := p.visit(part, s, oldestFirst, show); err != nil || !more {
			return false, err
		}
	}
	return !oldestFirst || self(), nil
}

// everything is the bounds of an unbounded stretch.
const oldest, newest = math.MinInt64, math.MaxInt64
