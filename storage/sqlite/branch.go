package sqlite

import (
	"fmt"
	"slices"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/storage"
)

// walkFrom walks from an entry to the root, newest first, one descent by key for
// each entry. The rows come one by one, so that a walk may end early.
const walkFrom = `WITH RECURSIVE path(seq, parent_seq) AS (
  SELECT e.seq, e.parent_seq FROM ids i CROSS JOIN entries e ON e.seq = i.seq WHERE i.id = ?
  UNION ALL
  SELECT e.seq, e.parent_seq FROM path p CROSS JOIN entries e ON e.seq = p.parent_seq
) SELECT `

const (
	walkHeads = walkFrom + headColumns + " FROM path CROSS JOIN entries e ON e.seq = path.seq"
	walkRows  = walkFrom + entryColumns + " FROM path CROSS JOIN entries e ON e.seq = path.seq"
	rowAt     = "SELECT " + entryColumns + " FROM entries e WHERE e.seq = ?"
)

// ScanBranch walks the path from an entry to the root: see
// [storage.BranchQuery]. The cost is that of the path down to the stop or, newest
// first, to the last row returned.
func (r *reads) ScanBranch(q storage.BranchQuery) (list []entry.Entry, err error) {
	err = r.view(func(c *conn) error {
		if q.Order != storage.OldestFirst && q.Kind == "" && q.CustomType == nil && q.Cursor == nil {
			list, err = scanAll(c, q)
			return err
		}
		chosen, err := choose(c, q)
		if err != nil {
			return err
		}
		for _, seq := range chosen {
			if err := c.each(rowAt, func(row row) (bool, error) {
				_, e, err := decodeEntry(row)
				list = append(list, e)
				return true, err
			}, seq); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// scanAll reads payloads as it walks: every row up to the stop or limit is
// returned.
func scanAll(c *conn, q storage.BranchQuery) (list []entry.Entry, err error) {
	w := walker{start: q.Start}
	sieve, cut := newSieve(q), newCut(q)
	err = w.run(c, walkRows, func(h head, row row) (bool, error) {
		keep, more := cut.take(sieve.mark(h))
		if !keep {
			return more, nil
		}
		_, e, err := decodeEntry(row)
		list = append(list, e)
		return more, err
	})
	return list, err
}

// choose walks without payloads and returns the seqs to read, in order.
func choose(c *conn, q storage.BranchQuery) (chosen []int64, err error) {
	w := walker{start: q.Start}
	sieve, cut := newSieve(q), newCut(q)
	var marks []mark // of an oldest-first scan, which begins at the far end
	err = w.run(c, walkHeads, func(h head, _ row) (bool, error) {
		m := sieve.mark(h)
		if q.Order == storage.OldestFirst {
			marks = append(marks, m)
			return true, nil
		}
		keep, more := cut.take(m)
		if keep {
			chosen = append(chosen, m.seq)
		}
		return more, nil
	})
	for _, m := range slices.Backward(marks) {
		keep, more := cut.take(m)
		if keep {
			chosen = append(chosen, m.seq)
		}
		if !more {
			break
		}
	}
	return chosen, err
}

// mark is what a scan decides about one row of the path.
type mark struct {
	seq    int64
	stop   bool // the scan ends here, inclusively
	passes bool // the filter
}

// sieve finds the stops of a scan and the rows that pass its filter.
type sieve struct {
	storage.BranchQuery
	stopID string // the 16 bytes; "" for none
}

func newSieve(q storage.BranchQuery) sieve { return sieve{q, string(uuid(q.StopAtID))} }

func (s *sieve) mark(h head) mark {
	return mark{
		seq:  h.seq,
		stop: s.StopAtKind != "" && h.kind == s.StopAtKind || s.stopID != "" && h.id == s.stopID,
		passes: (s.Kind == "" || h.kind == s.Kind) &&
			(s.CustomType == nil || h.kind == entry.KindCustom && h.customType != nil && *h.customType == *s.CustomType),
	}
}

// cut applies stop, filter, cursor and limit to the marks of a path, in the
// order of the scan.
type cut struct {
	oldest bool
	cursor *int64
	left   int // rows still wanted; negative for all
}

func newCut(q storage.BranchQuery) *cut {
	c := &cut{oldest: q.Order == storage.OldestFirst, cursor: q.Cursor, left: -1}
	if q.Limit != nil {
		c.left = max(*q.Limit, 0)
	}
	return c
}

func (c *cut) take(m mark) (keep, more bool) {
	if c.left == 0 {
		return false, false
	}
	keep = m.passes && (c.cursor == nil || c.oldest && m.seq > *c.cursor || !c.oldest && m.seq < *c.cursor)
	if keep {
		c.left--
	}
	return keep, !m.stop && c.left != 0
}

// walker follows one path and trusts no link of it.
type walker struct {
	start id.EntryID
	seen  bool
	next  *int64 // seq of the parent to come; nil at the root
}

// run shows the rows of the walk until visit returns false.
func (w *walker) run(c *conn, text string, visit func(h head, r row) (bool, error)) error {
	ended := false
	err := c.each(text, func(r row) (bool, error) {
		cols := read(r, "entry on the path of "+w.start.String())
		h := readHead(cols)
		if err := cols.damaged(); err != nil {
			return false, err
		}
		if err := w.step(h); err != nil {
			return false, err
		}
		more, err := visit(h, r)
		ended = !more
		return more, err
	}, uuid(w.start))
	switch {
	case err != nil || ended:
		return err
	case !w.seen:
		return &storage.UnknownEntry{ID: w.start}
	case w.next != nil:
		return brokenPath(w.start, fmt.Sprintf("an entry at seq %d", *w.next), "none")
	}
	return nil
}

// step checks that a row is the one that its predecessor named.
func (w *walker) step(h head) error {
	switch {
	case !w.seen && h.id != string(uuid(w.start)):
		return brokenPath(w.start, "a row of that id", uuidText([]byte(h.id)))
	case w.seen && (w.next == nil || h.seq != *w.next):
		return brokenPath(w.start, "the end of the path", fmt.Sprintf("seq %d", h.seq))
	case h.parent != nil && *h.parent >= h.seq:
		return brokenPath(w.start, "a parent that is older than its child", fmt.Sprintf("seq %d under %d", h.seq, *h.parent))
	}
	w.seen, w.next = true, h.parent
	return nil
}

func brokenPath(start id.EntryID, expected, seen string) error {
	return &storage.CorruptRow{Report: corrupt.New("sqlite.ScanBranch", "path of "+start.String(), expected, seen)}
}
