// Package projection keeps read models of a session: values that are folded from its rows
// and can be thrown away.
//
// # Purpose
//
// What a list, a gauge or a report shows is in the rows, but not in one of them. A fold
// reads each row once, and goes on from where it was.
//
// # Key types
//
// [Projection] is a fold, [Change] what it is shown; [CatchUp] folds what is new, [Rebuild]
// all there is. A [Checkpoint] keeps a [Saved] state: [Ephemeral] not at all, [Disk] in a
// file. [Driver] keeps one up to date by hints of a bus. [Stats], [UsageByDay] and
// [Overview] are folds.
//
// # Relationships
//
// Imports core, storage for its contract, storage/sqlitedb and events. Who opens sessions
// hands a way to read them in.
//
// # Traffic
//
// Reads of sessions; its own file of checkpoints. Commits to no session. A driver waits for
// hints and starts no timer: where nothing happens, nothing runs.
//
// # Invariants
//
//   - A read model has no authority. The same rows in the same order give the same state,
//     so that what was folded bit by bit is what is folded anew.
//   - A hint says only that it is worth to look. Whatever hints are lost, the next one, a
//     Sync or a restart makes up for it.
//   - All reads of one catch-up end at a frontier that was read before the first of them: what is
//     committed meanwhile is read the next time, and never passed over.
//   - State, seq and generation are one. Rows of another generation mean a fold from the
//     beginning.
//   - A fold that fails leaves the state that was good, and says so.
package projection

import (
	"fmt"
	"math"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/storage"
)

// Change is a row that was committed: [EntryAppended] or [UsageAppended].
type Change interface{ change() }

// EntryAppended is a row of the tree.
type EntryAppended struct{ Entry entry.Entry }

// UsageAppended is a row of the ledger, with the row of the tree that it paid for; nil where
// it paid for none.
type UsageAppended struct {
	Row  entry.UsageRow
	Paid *entry.Entry
}

func (EntryAppended) change() {}
func (UsageAppended) change() {}

// Projection is a fold.
type Projection[S any] struct {
	Name    string // of its checkpoints
	Version int    // raised when the state or its meaning changes; a checkpoint of another version is none
	New     func() S
	// Clone returns a state that Apply may change while others read this one; nil: the
	// state is a plain value.
	Clone func(S) S
	// Apply folds one change in. It depends on nothing else, and what it does not know
	// changes nothing.
	Apply func(S, Change) S
	// Encode and Decode are of checkpoints on disk; nil: there are none.
	Encode func(S) []byte
	Decode func([]byte) (S, error)
}

// Fault is a fold that went wrong, or rows that could not be read.
type Fault struct {
	Projection string
	Err        error
}

func (e *Fault) Error() string {
	return fmt.Sprintf("the read model %s could not be brought up to date: %v; it is as it was", e.Projection, e.Err)
}

func (e *Fault) Unwrap() error { return e.Err }

// pageRows is how many rows are read at once.
const pageRows = 512

// CatchUp folds the rows behind a seq into a state. It returns the new state and the seq up
// to which it is of; state itself is not changed. rows must be of one generation throughout.
func CatchUp[S any](rows storage.Reader, p Projection[S], state S, after int64) (S, int64, error) {
	for {
		next, high, more, err := step(rows, p, state, after, math.MaxInt)
		if err != nil || !more {
			return next, high, err
		}
		state, after = next, high
	}
}

// step is a part of CatchUp: at most so many changes, up to a seq between two rows. more says
// that there are others behind it.
func step[S any](rows storage.Reader, p Projection[S], state S, after int64, limit int) (_ S, high int64, more bool, _ error) {
	frontier, err := newest(rows)
	if err != nil || frontier <= after {
		return state, after, false, fault(p, err)
	}
	high = after
	next := state
	if p.Clone != nil {
		next = p.Clone(state)
	}
	entries := pager[entry.Entry]{from: after + 1, read: func(from int64) ([]entry.Entry, error) {
		return rows.ScanEntries(storage.EntryQuery{FromSeq: &from, ToSeq: &frontier, Limit: new(pageRows)})
	}, seq: func(e entry.Entry) int64 { return e.Seq }}
	ledger := pager[entry.UsageRow]{from: after + 1, read: func(from int64) ([]entry.UsageRow, error) {
		return rows.ScanUsage(storage.UsageQuery{FromSeq: &from, ToSeq: &frontier, Limit: new(pageRows)})
	}, seq: func(u entry.UsageRow) int64 { return u.Seq }}
	for range limit {
		e, hasEntry, err := entries.peek()
		if err != nil {
			return state, after, false, fault(p, err)
		}
		u, hasUsage, err := ledger.peek()
		if err != nil {
			return state, after, false, fault(p, err)
		}
		var c Change
		switch {
		case hasEntry && (!hasUsage || e.Seq < u.Seq):
			c, high = EntryAppended{e}, e.Seq
			entries.next()
		case hasUsage:
			if c, err = paid(rows, u); err != nil {
				return state, after, false, fault(p, err)
			}
			high = u.Seq
			ledger.next()
		default:
			return next, frontier, false, nil
		}
		if next, err = apply(p, next, c); err != nil {
			return state, after, false, err
		}
	}
	return next, high, true, nil
}

// paid is a row of the ledger with what it paid for.
func paid(rows storage.Reader, u entry.UsageRow) (Change, error) {
	if u.EntryID.IsZero() {
		return UsageAppended{Row: u}, nil
	}
	found, err := rows.Entries(u.EntryID)
	if e, ok := found[u.EntryID]; ok {
		return UsageAppended{u, &e}, err
	}
	return UsageAppended{Row: u}, err
}

// Rebuild folds all rows.
func Rebuild[S any](rows storage.Reader, p Projection[S]) (S, int64, error) {
	return CatchUp(rows, p, p.New(), 0)
}

func fault[S any](p Projection[S], err error) error {
	if err == nil {
		return nil
	}
	return &Fault{p.Name, err}
}

// apply makes a crash of a fold its failure.
func apply[S any](p Projection[S], s S, c Change) (next S, err error) {
	defer func() {
		if r := recover(); r != nil {
			next, err = s, &Fault{p.Name, fmt.Errorf("it crashed over %T: %v", c, r)}
		}
	}()
	return p.Apply(s, c), nil
}

// newest is the seq of the newest row of either kind; 0 when there is none.
func newest(rows storage.Reader) (int64, error) {
	last, err := rows.ScanEntryHeads(storage.EntryQuery{Order: storage.NewestFirst, Limit: new(1)})
	if err != nil {
		return 0, err
	}
	paid, err := rows.ScanUsage(storage.UsageQuery{Order: storage.NewestFirst, Limit: new(1)})
	if err != nil {
		return 0, err
	}
	seq := int64(0)
	if len(last) > 0 {
		seq = last[0].Seq
	}
	if len(paid) > 0 {
		seq = max(seq, paid[0].Seq)
	}
	return seq, nil
}

// pager reads rows by their seq, a page at a time.
type pager[R any] struct {
	read func(from int64) ([]R, error)
	seq  func(R) int64
	from int64
	page []R
	done bool
}

func (p *pager[R]) peek() (row R, ok bool, err error) {
	if len(p.page) == 0 && !p.done {
		if p.page, err = p.read(p.from); err != nil {
			return row, false, err
		}
		p.done = len(p.page) == 0
	}
	if len(p.page) == 0 {
		return row, false, nil
	}
	return p.page[0], true, nil
}

func (p *pager[R]) next() {
	p.from = p.seq(p.page[0]) + 1
	p.page = p.page[1:]
}
