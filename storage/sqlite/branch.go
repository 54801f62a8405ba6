package sqlite

import (
	"fmt"
	"slices"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

const (
	startOf = "SELECT " + headColumns + " FROM ids i CROSS JOIN entries e ON e.seq = i.seq WHERE i.id = ?"
	headAt  = "SELECT " + headColumns + " FROM entries e WHERE e.seq = ?"
	rowAt   = "SELECT " + entryColumns + " FROM entries e WHERE e.seq = ?"
	rowsTo  = "SELECT " + entryColumns + " FROM entries e WHERE e.seq <= ? ORDER BY e.seq DESC"
)

// ScanBranch walks the path from an entry to the root: see [storage.BranchQuery].
// The cost is that of the rows returned, each with a logarithm of the length of the
// path at most; a plain scan from the newest on costs its rows alone.
func (r *reads) ScanBranch(q storage.BranchQuery) (list []entry.Entry, err error) {
	err = r.view(func(c *conn) error {
		s := &branchScan{c: c, q: q, limit: -1}
		if q.Limit != nil {
			s.limit = max(*q.Limit, 0)
		}
		list, err = s.run()
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// branchScan answers one query. Stop and cursor become bounds of seqs, since seqs
// only fall on the way to the root; then the rows are walked where most of them are
// wanted, and searched where few may be.
type branchScan struct {
	c     *conn
	q     storage.BranchQuery
	limit int // negative for none
	path  path
	lo    int64 // seqs wanted, inclusive
	hi    int64
}

func (s *branchScan) run() ([]entry.Entry, error) {
	start, err := s.startHead()
	if err != nil {
		return nil, err
	}
	s.path = path{start, s.headAt}
	if s.lo, s.hi = oldest, newest; s.limit == 0 {
		return nil, nil
	}
	if err := s.bound(); err != nil || s.lo > s.hi {
		return nil, err
	}
	dense := s.q.CustomType == nil && (s.q.Kind == "" || s.q.Kind == entry.KindMessage)
	switch {
	case s.q.CustomType != nil && s.q.Kind != "" && s.q.Kind != entry.KindCustom:
		return nil, nil // nothing is both
	case dense && s.q.Order != storage.OldestFirst:
		return s.walkFrom(start)
	case s.q.Kind == "" && s.q.CustomType == nil:
		return s.walkOldest(start)
	}
	return s.search()
}

// bound turns stop and cursor into bounds.
func (s *branchScan) bound() error {
	stops, err := s.stops()
	if err != nil {
		return err
	}
	oldestFirst := s.q.Order == storage.OldestFirst
	for _, at := range stops {
		if oldestFirst {
			s.hi = min(s.hi, at)
		} else {
			s.lo = max(s.lo, at)
		}
	}
	switch at := s.q.Cursor; {
	case at == nil:
	case oldestFirst && *at == newest, !oldestFirst && *at == oldest:
		s.lo, s.hi = newest, oldest
	case oldestFirst:
		s.lo = max(s.lo, *at+1)
	default:
		s.hi = min(s.hi, *at-1)
	}
	return nil
}

// stops are the seqs of the rows at which the scan ends, as far as they are on the
// path: the first of the kind in the order of the scan, and the row of the id.
func (s *branchScan) stops() (list []int64, err error) {
	if kind := s.q.StopAtKind; kind != "" {
		want := &stretch{oldest, newest, marksOf(kind, nil), func(h *head) bool { return h.kind == kind }}
		err = s.path.search(s.q.Order, want, func(h *head) bool {
			list = append(list, h.seq)
			return false
		})
	}
	if stop := s.q.StopAtID; err == nil && !stop.IsZero() {
		var found, on *head
		if found, err = s.one(startOf, sqlitedb.UUID(stop)); err == nil && found != nil {
			on, err = s.path.climb(s.path.start, found.seq)
		}
		if on != nil && on.seq == found.seq {
			list = append(list, on.seq)
		}
	}
	return list, err
}

// walkFrom reads every row of the bounds from the newest on.
func (s *branchScan) walkFrom(start *head) (list []entry.Entry, err error) {
	from, err := s.path.climb(start, s.hi)
	if err != nil || from == nil || from.seq < s.lo {
		return nil, err
	}
	return s.read(from, func(h *head) bool { return s.q.Kind == "" || s.q.Kind == h.kind })
}

// read decodes the rows of a walk that are wanted, down to the bound and up to the limit.
func (s *branchScan) read(from *head, wanted func(*head) bool) ([]entry.Entry, error) {
	var d decoder
	n := 0
	err := s.walk(from, func(h *head, rest *columns) (bool, error) {
		if h.seq < s.lo || !wanted(h) {
			return h.seq >= s.lo, nil
		}
		u, err := s.c.payload(h, rest)
		n++
		return err == nil && d.add(u) && n != s.limit, err
	})
	return d.finish(err)
}

// walkOldest reads the rows of the bounds from the oldest on: it finds the newest
// row of the page by its depth and walks up from there.
func (s *branchScan) walkOldest(start *head) (list []entry.Entry, err error) {
	last, err := s.path.climb(start, s.hi)
	if err != nil || last == nil || last.seq < s.lo {
		return nil, err
	}
	if s.limit > 0 {
		depth := int64(s.limit) - 1
		if s.lo > oldest {
			before, err := s.path.climb(last, s.lo-1)
			if err != nil {
				return nil, err
			}
			if before != nil {
				depth += before.depth + 1
			}
		}
		if last, err = s.path.level(last, min(depth, last.depth)); err != nil {
			return nil, err
		}
	}
	list, err = s.read(last, func(*head) bool { return true })
	slices.Reverse(list)
	return list, err
}

// search finds the rows of the bounds that the filter keeps, then reads them.
func (s *branchScan) search() (list []entry.Entry, err error) {
	kind := s.q.Kind
	if s.q.CustomType != nil {
		kind = entry.KindCustom
	}
	want := &stretch{s.lo, s.hi, marksOf(kind, s.q.CustomType), func(h *head) bool {
		return h.kind == kind && (s.q.CustomType == nil || h.customType != nil && *h.customType == *s.q.CustomType)
	}}
	var chosen []int64
	err = s.path.search(s.q.Order, want, func(h *head) bool {
		chosen = append(chosen, h.seq)
		return len(chosen) != s.limit
	})
	for i := 0; err == nil && i < len(chosen); i++ {
		err = s.c.Each(rowAt, func(r row) (bool, error) {
			e, err := s.c.entry(r)
			list = append(list, e)
			return false, err
		}, chosen[i])
	}
	return list, err
}

// strays is how many rows of other branches a walk steps over before it looks up
// the next row of its own.
const strays = 4

// walk shows the rows of the path from a row to the root until visit returns false: the head, which is verified, and the columns after it.
// Rows of one branch mostly follow each other in the table, so they are read as a
// range; rows of others between them are stepped over while they are few.
func (s *branchScan) walk(from *head, visit func(*head, *columns) (bool, error)) error {
	next, depth, ended := from.seq, from.depth, false
	for !ended {
		at, missed := next, 0
		err := s.c.Each(rowsTo, func(r row) (bool, error) {
			if seq, ok := r[0].(int64); ok && seq > next && seq < at {
				missed++
				return missed < strays, nil
			}
			cols := read(r, "entry")
			h := readHead(cols)
			if err := cols.damaged(); err != nil {
				return false, err
			}
			if h.seq != next || h.depth != depth || !h.placed() {
				return false, s.broken(fmt.Sprintf("seq %d at depth %d", next, depth), fmt.Sprintf("seq %d at depth %d", h.seq, h.depth))
			}
			more, err := visit(h, cols)
			if err != nil || !more || h.parent == nil {
				ended = true
				return false, err
			}
			next, depth, missed = *h.parent, h.depth-1, 0
			return true, nil
		}, at)
		if err != nil {
			return err
		}
		if !ended && next == at && missed == 0 {
			return s.broken(fmt.Sprintf("an entry at seq %d", next), "none")
		}
	}
	return nil
}

func (s *branchScan) startHead() (*head, error) {
	h, err := s.one(startOf, sqlitedb.UUID(s.q.Start))
	switch {
	case err != nil:
		return nil, err
	case h == nil:
		return nil, &storage.UnknownEntry{ID: s.q.Start}
	case h.id != string(sqlitedb.UUID(s.q.Start)):
		return nil, s.broken("a row of that id", sqlitedb.UUIDText([]byte(h.id)))
	case !h.placed():
		return nil, s.broken("links to older entries", fmt.Sprintf("those of seq %d", h.seq))
	}
	return h, nil
}

// headAt reads a head of the path by its seq. Its depth is known beforehand, so that
// a link that leads elsewhere is noticed.
func (s *branchScan) headAt(seq, depth int64) (*head, error) {
	h, err := s.one(headAt, seq)
	switch {
	case err != nil:
		return nil, err
	case h == nil:
		return nil, s.broken(fmt.Sprintf("an entry at seq %d", seq), "none")
	case h.depth != depth || !h.placed():
		return nil, s.broken(fmt.Sprintf("depth %d at seq %d", depth, seq), fmt.Sprintf("depth %d", h.depth))
	}
	return h, nil
}

func (s *branchScan) one(text string, arg any) (*head, error) {
	r, ok, err := s.c.One(text, arg)
	if err != nil || !ok {
		return nil, err
	}
	return verifiedHead(r)
}

func (s *branchScan) broken(expected, seen string) error {
	return brokenPath(s.q.Start, expected, seen)
}

func brokenPath(start id.EntryID, expected, seen string) error {
	return &storage.CorruptRow{Report: corrupt.New("sqlite.ScanBranch", "path of "+start.String(), expected, seen)}
}
