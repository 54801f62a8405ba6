package wire_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wiretest"
)

// The model of docs/formats/cursor.md: a store that grows and is rewritten, a server
// that answers from it, and a client that is cut off whenever the schedule says so.
// The client's decisions are those of wire.Position. A duty can be left out, which
// must be noticed.

// duty is one of the duties of the page.
type duty int

const (
	none duty = iota
	listenFirst
	rememberCommits
	keepOrder
	countOrdinals
	nameTheStart
	refuseOldGenerations
	takeEachOnce
	holdWithCursor
	dropOnRewrite
	restateLevels
)

var duties = map[duty]string{
	listenFirst: "the server listens before it reads", rememberCommits: "the server cannot forget a commit",
	keepOrder: "frames leave in their order", countOrdinals: "the frames of a row are told apart", nameTheStart: "the server names the start",
	refuseOldGenerations: "a cursor of an older generation is refused", takeEachOnce: "the client takes a frame once",
	holdWithCursor: "the client holds frame and cursor together", dropOnRewrite: "the client drops what was rewritten",
	restateLevels: "levels are restated on attach",
}

// modelRow is a row of the store: how many frames it gives, and their content.
type modelRow struct {
	seq    int64
	frames int
	text   string
}

// modelStore is a session.
type modelStore struct {
	generation int64
	rows       []modelRow
	next       int64
	level      int // a current value that is not history
}

func (s *modelStore) commit(frames int) {
	s.next++
	s.rows = append(s.rows, modelRow{s.next, frames, fmt.Sprintf("g%d s%d", s.generation, s.next)})
}

// rewrite changes what rows say, and takes one out.
func (s *modelStore) rewrite(gone int) {
	s.generation++
	if len(s.rows) > 0 {
		s.rows = slices.Delete(slices.Clone(s.rows), gone%len(s.rows), gone%len(s.rows)+1)
	}
	for i := range s.rows {
		s.rows[i].text = fmt.Sprintf("g%d s%d rewritten", s.generation, s.rows[i].seq)
	}
}

// frames is F(g, after) up to a seq.
func (s *modelStore) frames(after wire.Cursor, to int64) (out []wire.Frame) {
	for _, r := range s.rows {
		for n := 1; n <= r.frames && r.seq <= to; n++ {
			c := wire.Cursor{Generation: s.generation, Seq: r.seq, Ordinal: n}
			if c.Compare(after) > 0 {
				out = append(out, wire.Frame{
					ID: fmt.Sprintf("%d/%d", r.seq, n), Cursor: c, Delivery: wire.Replay, Session: wiretest.Session(1), Lane: wire.LaneMain,
					Body: wire.TextEnd{Content: r.text},
				})
			}
		}
	}
	return out
}

// link is one connection: the server's side of it, and what is on its way.
type link struct {
	store      *modelStore
	leftOut    duty
	generation int64
	cursor     wire.Cursor // behind what was sent
	heard      int64       // commits up to here were told
	head       int64       // what was read when the link was opened
	wire       []wire.Frame
	start      wire.Cursor
	levels     []int
}

// attach opens a link in three steps, between which commits may come.
func attach(s *modelStore, from wire.Cursor, leftOut duty, between func()) (l *link, stale bool) {
	l = &link{store: s, leftOut: leftOut, generation: s.generation}
	if leftOut == listenFirst {
		l.head = s.next
		between()
		l.heard = s.next
	} else {
		l.heard = s.next
		between()
		l.head = s.next
	}
	if from.Generation != s.generation && !from.IsZero() && leftOut != refuseOldGenerations {
		return nil, true
	}
	l.cursor = from
	if from.IsZero() || from.Generation != s.generation {
		l.cursor = wire.Cursor{Generation: s.generation, Seq: from.Seq, Ordinal: from.Ordinal}
	}
	l.start = l.cursor
	if leftOut == nameTheStart {
		l.start = wire.Cursor{Generation: s.generation, Seq: l.head + 1}
	}
	l.replay(l.head)
	if leftOut != restateLevels {
		l.levels = append(l.levels, s.level)
	}
	return l, false
}

func (l *link) replay(to int64) {
	after := l.cursor
	if l.leftOut == countOrdinals && after.Ordinal > 0 {
		after.Ordinal = 1 << 30 // behind the whole row
	}
	fresh := l.store.frames(after, to)
	if l.leftOut == keepOrder {
		slices.Reverse(fresh)
	}
	l.wire = append(l.wire, fresh...)
	if len(fresh) > 0 {
		l.cursor = slices.MaxFunc(fresh, func(a, b wire.Frame) int { return a.Cursor.Compare(b.Cursor) }).Cursor
	}
}

// follow sends what was committed since. A rewrite ends the link.
func (l *link) follow(forget bool) (open bool) {
	if l.store.generation != l.generation {
		return false
	}
	if l.leftOut == rememberCommits && forget {
		l.heard = l.store.next // the hint fell out of a full queue
		return true
	}
	if l.store.next > l.heard {
		l.heard = l.store.next
		l.replay(l.heard)
	}
	return true
}

// modelClient is a client.
type modelClient struct {
	position wire.Position
	held     []wire.Frame
	level    int
	leftOut  duty
}

// take takes one frame; cut says that the client ends in the middle of it.
func (c *modelClient) take(f wire.Frame, cut bool) {
	before := c.position
	switch taken := c.position.Take(f); {
	case taken == wire.Next:
	case taken == wire.Seen && c.leftOut == takeEachOnce:
	default:
		return
	}
	if cut && c.leftOut == holdWithCursor {
		return // the cursor was kept and the frame was not
	}
	if cut {
		c.position = before
		return
	}
	c.held = append(c.held, f)
}

// run plays a schedule and returns what the client holds at rest wrongly, if anything.
func run(schedule []byte, leftOut duty) string {
	s := &modelStore{generation: 1}
	c := &modelClient{leftOut: leftOut}
	var l *link
	i := 0
	draw := func(n int) int {
		if i >= len(schedule) {
			return 0
		}
		i++
		return int(schedule[i-1]) % n
	}
	open := func(between func()) {
		var stale bool
		if l, stale = attach(s, c.position.Cursor(), leftOut, between); stale {
			c.position = wire.Position{}
			if leftOut != dropOnRewrite {
				c.held = nil
			}
			l, _ = attach(s, wire.Cursor{}, leftOut, func() {})
		}
		if c.position.Cursor() != l.start {
			c.position = wire.At(l.start)
		}
	}
	deliver := func(n int, cut bool) {
		for ; l != nil && n > 0 && len(l.wire) > 0; n-- {
			f := l.wire[0]
			l.wire = l.wire[1:]
			c.take(f, cut && (n == 1 || len(l.wire) == 0))
		}
		if l != nil && len(l.wire) == 0 && len(l.levels) > 0 {
			c.level = l.levels[len(l.levels)-1]
			l.levels = nil
		}
	}
	for i < len(schedule) {
		switch draw(10) {
		case 0, 1:
			s.commit(draw(4))
		case 2:
			s.level++
			if l != nil {
				l.levels = append(l.levels, s.level)
			}
		case 3:
			if draw(4) == 0 {
				s.rewrite(draw(8))
			}
		case 4: // the connection breaks in the middle of a frame
			deliver(draw(4), true)
			l = nil
		case 5:
			if l == nil {
				open(func() {
					if draw(2) == 0 {
						s.commit(1 + draw(3))
					}
				})
			}
		case 6:
			if l != nil && !l.follow(draw(3) == 0) {
				l = nil
			}
		case 7: // what was gathered overlaps what was read
			if l != nil && len(l.wire) > 0 {
				l.wire = slices.Concat(l.wire[:1], l.wire)
			}
		default:
			deliver(1+draw(5), false)
		}
	}
	// Rest: the link that stands goes on, or a last one is opened.
	for range 3 {
		if l == nil {
			open(func() {})
		}
		if !l.follow(false) {
			l = nil
			continue
		}
		deliver(1<<20, false)
	}
	return difference(c, s)
}

// difference compares what the client holds with the uncut run.
func difference(c *modelClient, s *modelStore) string {
	var got, want strings.Builder
	for _, f := range c.held {
		fmt.Fprintf(&got, "%s %s %v\n", f.ID, f.Cursor, f.Body)
	}
	for _, f := range s.frames(wire.Cursor{}, s.next) {
		fmt.Fprintf(&want, "%s %s %v\n", f.ID, f.Cursor, f.Body)
	}
	if got.String() != want.String() {
		return fmt.Sprintf("it holds\n%sand the uncut run is\n%s", got.String(), want.String())
	}
	if c.level != s.level {
		return fmt.Sprintf("its level is %d and the session's %d", c.level, s.level)
	}
	return ""
}

func TestAClientThatWasCutHoldsWhatTheUncutOneHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "schedule")
		if wrong := run(schedule, none); wrong != "" {
			t.Fatal(wrong)
		}
	})
}

func TestEachDutyOfTheCursorIsNeeded(t *testing.T) {
	schedules := rapid.SliceOfN(rapid.Byte(), 20, 200)
	for d, name := range duties {
		found := false
		for seed := range 2000 {
			if found = run(schedules.Example(seed), d) != ""; found {
				break
			}
		}
		if !found {
			t.Errorf("nothing is missed without this: %s", name)
		}
	}
}

func FuzzCursorLaw(f *testing.F) {
	f.Add([]byte{5, 0, 0, 3, 7, 4, 4, 1, 5, 1, 6, 1, 7, 3, 0, 2})
	f.Fuzz(func(t *testing.T, schedule []byte) {
		if len(schedule) > 1000 {
			return
		}
		if wrong := run(schedule, none); wrong != "" {
			t.Fatal(wrong)
		}
	})
}

func TestAPositionTakesEachFrameOnce(t *testing.T) {
	at := func(g, seq int64, n int) wire.Frame {
		return wire.Frame{Delivery: wire.Replay, Cursor: wire.Cursor{Generation: g, Seq: seq, Ordinal: n}, Body: wire.TextEnd{}}
	}
	var p wire.Position
	for _, c := range []struct {
		frame wire.Frame
		want  wire.Taken
	}{
		{wire.Frame{Delivery: wire.Live, Body: wire.TextDelta{}}, wire.Passing},
		{wire.Frame{Delivery: wire.Level, Body: wire.Queue{}}, wire.Passing},
		{at(3, 5, 1), wire.Next},
		{at(3, 5, 1), wire.Seen},
		{at(3, 5, 2), wire.Next},
		{at(3, 4, 9), wire.Seen},
		{at(2, 9, 1), wire.Elsewhere},
		{at(4, 9, 1), wire.Elsewhere},
		{at(3, 6, 1), wire.Next},
	} {
		before := p.Cursor()
		got := p.Take(c.frame)
		if got != c.want || got != wire.Next && p.Cursor() != before || got == wire.Next && p.Cursor() != c.frame.Cursor {
			t.Errorf("%v at %v: %d, then at %v", c.frame.Cursor, before, got, p.Cursor())
		}
	}
}
