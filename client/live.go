package client

import (
	"slices"

	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/wire"
)

// Bounds of what is shown ahead of its commit: the bytes of one segment, and the
// segments of one response. Past them a segment waits for its authoritative text.
const (
	maxLive     = 64 << 20
	maxSegments = 256
)

// liveText is the text that was shown ahead of its commit. A strand makes one
// response at a time, so the segments of one entry are all there is.
type liveText struct {
	entry    id.EntryID
	segments []liveSegment
	spare    [][]byte
	settled  [8]id.EntryID // the newest committed entries, whose late deltas are refused
	next     int
}

type liveSegment struct {
	block     int
	reasoning bool
	shown     []byte
	stalled   bool // a piece is missing: nothing more is shown
}

func (l *liveText) find(seg wire.Segment, reasoning bool) int {
	if seg.Entry != l.entry {
		return -1
	}
	return slices.IndexFunc(l.segments, func(s liveSegment) bool { return s.block == seg.Block && s.reasoning == reasoning })
}

// take removes segment i and returns what it showed.
func (l *liveText) take(i int) string {
	s := l.segments[i]
	l.segments = slices.Delete(l.segments, i, i+1)
	shown := string(s.shown)
	if cap(s.shown) <= 1<<20 && len(l.spare) < 4 {
		l.spare = append(l.spare, s.shown[:0])
	}
	return shown
}

func (l *liveText) add(block int, reasoning bool) int {
	var buf []byte
	if n := len(l.spare); n > 0 {
		buf, l.spare = l.spare[n-1], l.spare[:n-1]
	}
	l.segments = append(l.segments, liveSegment{block: block, reasoning: reasoning, shown: buf})
	return len(l.segments) - 1
}

// over reports whether an entry is committed: a late delta of it says nothing.
func (l *liveText) over(entry id.EntryID) bool { return slices.Contains(l.settled[:], entry) }

// end marks an entry as committed: its deltas are superseded.
func (l *liveText) end(entry id.EntryID) {
	if !l.over(entry) {
		l.settled[l.next] = entry
		l.next = (l.next + 1) % len(l.settled)
	}
}

// delta shows a piece of a segment when it is the next one. A piece further on
// tells that one is missing; what is shown must stay a prefix, so the segment
// waits for its end.
func (st *step) delta(seg wire.Segment, reasoning bool, offset int64, text string) {
	l := &st.live
	if l.over(seg.Entry) {
		return
	}
	if seg.Entry != l.entry {
		st.abandon()
		l.entry = seg.Entry
	}
	i := l.find(seg, reasoning)
	if i < 0 {
		if len(l.segments) >= maxSegments {
			return
		}
		i = l.add(seg.Block, reasoning)
	}
	s := &l.segments[i]
	switch {
	case offset < int64(len(s.shown)):
		return // shown already
	case offset > int64(len(s.shown)) || len(s.shown)+len(text) > maxLive:
		s.stalled = true
	}
	if s.stalled || text == "" {
		return
	}
	s.shown = append(s.shown, text...)
	st.show(plane.LiveText{Segment: seg, Reasoning: reasoning, Text: text})
}

// settle says what becomes of the live text of a segment whose final text came.
func (st *step) settle(seg wire.Segment, reasoning bool, final string) {
	shown := ""
	if i := st.live.find(seg, reasoning); i >= 0 {
		shown = st.live.take(i)
	}
	st.live.end(seg.Entry)
	v := project.Decide(shown, final, st.surface)
	if w, ok := v.(plane.Withhold); ok {
		st.withheld.Add(w.Text)
	}
	st.show(plane.Settled{Segment: seg, Reasoning: reasoning, Verdict: v})
}

// endTurn ends an entry: blocks of it that were shown and are not among the
// committed ones do not count.
func (st *step) endTurn(entry id.EntryID) {
	if st.live.entry == entry {
		st.abandon()
	}
	st.live.end(entry)
}

// abandon takes back the live text of an attempt that will not be committed.
func (st *step) abandon() {
	for len(st.live.segments) > 0 {
		s := st.live.segments[0]
		seg := wire.Segment{Entry: st.live.entry, Block: s.block}
		if shown := st.live.take(0); shown != "" {
			st.show(plane.Settled{Segment: seg, Reasoning: s.reasoning, Verdict: project.Decide(shown, "", st.surface)})
		}
	}
}
