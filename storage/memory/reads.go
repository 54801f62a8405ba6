package memory

import (
	"slices"
	"strings"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/storage"
)

// state reads the rows while somebody holds the lock.
type state struct{ *rows }

var _ storage.Reader = state{}

// Within implements storage.Reader: what is read is one state already.
func (s state) Within(f func(storage.Reader) error) error { return f(s) }

// Close implements storage.Reader. The state is not the handle.
func (s state) Close() error { return nil }

// Entries implements storage.Reader.
func (s state) Entries(ids ...id.EntryID) (map[id.EntryID]entry.Entry, error) {
	found := make(map[id.EntryID]entry.Entry, len(ids))
	for _, i := range ids {
		if n, ok := s.place[i.String()]; ok && n >= 0 {
			found[i] = s.entries[n]
		}
	}
	return found, nil
}

// Register implements storage.Reader.
func (s state) Register(ns register.Namespace, key string) (register.Cell, bool, error) {
	c, ok := s.cells[register.Address{NS: ns, Key: key}]
	return c, ok, nil
}

// Registers implements storage.Reader.
func (s state) Registers(ns register.Namespace, prefix string) ([]storage.KeyedCell, error) {
	return s.list(ns, prefix), nil
}

// list is Registers inside the lock.
func (s state) list(ns register.Namespace, prefix string) (out []storage.KeyedCell) {
	for a, c := range s.cells {
		if a.NS == ns && strings.HasPrefix(a.Key, prefix) {
			out = append(out, storage.KeyedCell{Key: a.Key, Cell: c})
		}
	}
	slices.SortFunc(out, func(a, b storage.KeyedCell) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// Snapshot implements storage.Reader.
func (s state) Snapshot(of ...storage.CellRange) (storage.Snapshot, error) {
	var g storage.Gathering
	for _, r := range of {
		for _, c := range s.list(r.NS, r.Prefix) {
			if err := g.Add(r, c.Key, c.Cell, len(c.Value.Append(nil))); err != nil {
				return storage.Snapshot{}, err
			}
		}
	}
	return storage.Snapshot{Next: s.nextSeq, Stats: s.stats, Cells: g.Cells}, nil
}

// ScanBranch implements storage.Reader.
func (s state) ScanBranch(q storage.BranchQuery) ([]entry.Entry, error) {
	n, ok := s.place[q.Start.String()]
	if !ok || n < 0 {
		return nil, &storage.UnknownEntry{ID: q.Start}
	}
	stops := func(e entry.Entry) bool {
		return q.StopAtKind != "" && e.Body.Kind() == q.StopAtKind || !q.StopAtID.IsZero() && e.ID == q.StopAtID
	}
	oldestFirst := q.Order == storage.OldestFirst
	kept := func(e entry.Entry) bool {
		before := q.Cursor != nil && (oldestFirst && e.Seq <= *q.Cursor || !oldestFirst && e.Seq >= *q.Cursor)
		return !before && matches(e, q.Kind, q.CustomType)
	}
	var path []entry.Entry // newest first; of a newest-first scan only what it keeps, so that a page costs a page
	for q.Limit == nil || oldestFirst || len(path) < *q.Limit {
		e := s.entries[n]
		if oldestFirst || kept(e) {
			path = append(path, e)
		}
		if e.Parent.IsZero() || !oldestFirst && stops(e) {
			break
		}
		n = s.place[e.Parent.String()] // exists: the commit checked it
	}
	if oldestFirst {
		slices.Reverse(path)
		if i := slices.IndexFunc(path, stops); i >= 0 {
			path = path[:i+1]
		}
		path = slices.DeleteFunc(path, func(e entry.Entry) bool { return !kept(e) })
	}
	return limited(path, q.Limit), nil
}

func matches(e entry.Entry, kind entry.Kind, customType *string) bool {
	if kind != "" && e.Body.Kind() != kind {
		return false
	}
	if customType == nil {
		return true
	}
	c, ok := e.Body.(entry.Custom)
	return ok && c.Type == *customType
}

func limited[T any](rows []T, limit *int) []T {
	if limit == nil || *limit > len(rows) {
		return rows
	}
	return rows[:max(*limit, 0)]
}

func within(seq int64, from, to *int64) bool {
	return (from == nil || seq >= *from) && (to == nil || seq <= *to)
}

// ScanEntries implements storage.Reader.
func (s state) ScanEntries(q storage.EntryQuery) ([]entry.Entry, error) {
	rows := scan(s.entries, q.Order, q.Limit, func(e entry.Entry) bool {
		return within(e.Seq, q.FromSeq, q.ToSeq) && matches(e, q.Kind, q.CustomType)
	})
	return upTo(rows, q.Bytes), nil
}

// upTo cuts behind the row that reaches a size.
func upTo(rows []entry.Entry, bytes int) []entry.Entry {
	if bytes <= 0 {
		return rows
	}
	for i, e := range rows {
		if bytes -= len(entry.Encode(e)); bytes <= 0 {
			return rows[:i+1]
		}
	}
	return rows
}

// ScanEntryHeads implements storage.Reader.
func (s state) ScanEntryHeads(q storage.EntryQuery) ([]storage.Head, error) {
	q.Bytes = 0
	rows, err := s.ScanEntries(q)
	if err != nil {
		return nil, err
	}
	heads := make([]storage.Head, len(rows))
	for i, e := range rows {
		heads[i] = storage.Head{ID: e.ID, Parent: e.Parent, Seq: e.Seq}
	}
	return heads, nil
}

// ScanUsage implements storage.Reader.
func (s state) ScanUsage(q storage.UsageQuery) ([]entry.UsageRow, error) {
	return scan(s.ledger, q.Order, q.Limit, func(r entry.UsageRow) bool { return within(r.Seq, q.FromSeq, q.ToSeq) }), nil
}

// scan filters rows that lie by ascending seq.
func scan[T any](rows []T, order storage.Order, limit *int, keep func(T) bool) []T {
	var out []T
	for _, r := range rows {
		if keep(r) {
			out = append(out, r)
		}
	}
	if order == storage.NewestFirst {
		slices.Reverse(out)
	}
	return limited(out, limit)
}

// Stats implements storage.Reader.
func (s state) Stats() (storage.Stats, error) {
	return s.stats, nil
}
