// Package memory keeps a session in memory.
//
// # Purpose
//
// The simplest correct backend: the reference that the others are compared with,
// and the store of tests and of sessions that need not outlive their process.
//
// # Key types
//
// [Store].
//
// # Relationships
//
// Imports core and storage.
//
// # Traffic
//
// None beyond the contract.
//
// # Invariants
//
// Passes the same conformance suite as every backend. A commit builds its changes
// beside the state and swaps them in at the end, so a refusal leaves no trace. No
// lease, no catalogue, no generation. Rows go through their codecs, so that what
// is read is what a durable backend would read.
package memory

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
)

// Store is an open session in memory.
type Store struct {
	*rows
	closed bool // guarded by mu
}

// rows is the session itself, which outlives its handles.
type rows struct {
	now func() int64

	mu      sync.RWMutex // guards what follows
	entries []entry.Entry
	place   map[string]int // id of an entry: its index; ids of ledger rows: -1
	cells   map[register.Address]register.Cell
	ledger  []entry.UsageRow
	nextSeq int64
	stats   storage.Stats
}

var _ storage.Store = (*Store)(nil)

// New makes an empty session. now yields Unix ms.
func New(now func() int64) *Store {
	return &Store{rows: &rows{
		now: now, place: make(map[string]int), cells: make(map[register.Address]register.Cell), nextSeq: 1,
	}}
}

// Reopen closes s and opens its session again, as a later process would.
func (s *Store) Reopen() *Store {
	_ = s.Close() // it cannot fail
	return &Store{rows: s.rows}
}

// change is a transaction in the making.
type change struct {
	s       *rows
	ts      int64
	seq     int64
	entries []entry.Entry
	ledger  []entry.UsageRow
	place   map[string]int
	cells   map[register.Address]*register.Cell // nil: deleted
	stats   storage.Stats
}

// Commit implements storage.Store.
func (s *Store) Commit(t tx.Tx) (tx.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commit(t)
}

// CommitAll implements storage.Store.
func (s *Store) CommitAll(txs ...tx.Tx) []storage.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	return storage.OneByOne(s.commit, txs)
}

func (s *Store) commit(t tx.Tx) (tx.Result, error) {
	if s.closed {
		return tx.Result{}, &tx.Faulted{Reason: storage.ErrClosed.Error(), Err: storage.ErrClosed}
	}
	for _, e := range t.Expected {
		if s.cells[e.Address].Seq != e.Seq {
			return tx.Result{}, &tx.StaleExpectation{Failed: e}
		}
	}
	c := &change{
		s: s.rows, ts: s.now(), seq: s.nextSeq, stats: s.stats,
		place: make(map[string]int), cells: make(map[register.Address]*register.Cell),
	}
	r := tx.Result{FirstSeq: s.nextSeq, Seqs: make([]int64, 0, len(t.Writes)), Timestamp: c.ts}
	for _, w := range t.Writes {
		if rep := c.apply(w); rep != nil {
			return tx.Result{}, &tx.Corruption{Report: rep}
		}
		r.Seqs = append(r.Seqs, c.seq)
		c.seq++
	}
	c.adopt()
	return r, nil
}

func (c *change) apply(w tx.Write) *corrupt.Report {
	switch w := w.(type) {
	case tx.InsertEntry:
		return c.insert(w.Entry)
	case tx.InsertUsage:
		return c.bill(w.Row)
	case tx.SetRegister:
		return c.set(w)
	case tx.DeleteRegister:
		c.cells[w.Address] = nil
		return known(w.Address)
	}
	return corrupt.New("memory.Commit", "write", "one of the four writes", fmt.Sprintf("%T", w))
}

func known(a register.Address) *corrupt.Report {
	_, err := register.Parse(string(a.NS))
	rep, _ := corrupt.As(err)
	return rep
}

func (c *change) set(w tx.SetRegister) *corrupt.Report {
	if rep := known(w.Address); rep != nil {
		return rep
	}
	stored, err := jsonv.Parse(w.Value.Append(nil))
	if err != nil {
		return unreadable(w.Address.String(), err)
	}
	c.cells[w.Address] = &register.Cell{Seq: c.seq, Value: stored}
	return nil
}

// unreadable refuses a row that would not read back.
func unreadable(subject string, err error) *corrupt.Report {
	if rep, ok := corrupt.As(err); ok {
		return rep.In(subject)
	}
	return corrupt.New("memory.Commit", subject, "a row that reads back", err.Error())
}

// fresh refuses an id that any row has.
func (c *change) fresh(text string) *corrupt.Report {
	_, old := c.s.place[text]
	_, now := c.place[text]
	if old || now || text == "" {
		return corrupt.New("memory.Commit", "id", "an id that no row has", text)
	}
	return nil
}

func (c *change) insert(e entry.Entry) *corrupt.Report {
	if e.Body == nil {
		return corrupt.New("memory.Commit", "entry "+e.ID.String(), "a body", "")
	}
	if rep := c.fresh(e.ID.String()); rep != nil {
		return rep
	}
	if !e.Parent.IsZero() {
		p := e.Parent.String()
		old, isOld := c.s.place[p]
		now, isNow := c.place[p]
		if !(isOld && old >= 0 || isNow && now >= 0) {
			return corrupt.New("memory.Commit", "parentId of "+e.ID.String(), "an entry that exists", p)
		}
	}
	e.Seq, e.Timestamp = c.seq, c.ts
	stored, err := entry.Parse(entry.Encode(e))
	if err != nil {
		return unreadable("entry "+e.ID.String(), err)
	}
	c.place[e.ID.String()] = len(c.s.entries) + len(c.entries)
	c.entries = append(c.entries, stored)
	if e.Body.Kind() == entry.KindMessage {
		c.stats.Messages++
	}
	return nil
}

func (c *change) bill(row entry.UsageRow) *corrupt.Report {
	if rep := c.fresh(row.ID.String()); rep != nil {
		return rep
	}
	row.Seq = c.seq
	w := new(jsonv.Writer)
	entry.AppendUsageRow(w, row)
	v, err := jsonv.Parse(w.Bytes())
	if err == nil {
		row, err = entry.DecodeUsageRow(v)
	}
	if err != nil {
		return unreadable("usage "+row.ID.String(), err)
	}
	c.place[row.ID.String()] = -1
	c.ledger = append(c.ledger, row)
	c.stats.Usage = c.stats.Usage.Add(row.Usage)
	return nil
}

// adopt makes the change the state.
func (c *change) adopt() {
	c.s.entries = append(c.s.entries, c.entries...)
	c.s.ledger = append(c.s.ledger, c.ledger...)
	for k, v := range c.place {
		c.s.place[k] = v
	}
	for a, cell := range c.cells {
		if cell == nil {
			delete(c.s.cells, a)
		} else {
			c.s.cells[a] = *cell
		}
	}
	c.s.nextSeq, c.s.stats = c.seq, c.stats
}

// reading takes the read lock, or says that the store is closed.
func (s *Store) reading() (unlock func(), err error) {
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return nil, storage.ErrClosed
	}
	return s.mu.RUnlock, nil
}

// Entries implements storage.Store.
func (s *Store) Entries(ids ...id.EntryID) (map[id.EntryID]entry.Entry, error) {
	unlock, err := s.reading()
	if err != nil {
		return nil, err
	}
	defer unlock()
	found := make(map[id.EntryID]entry.Entry, len(ids))
	for _, i := range ids {
		if n, ok := s.place[i.String()]; ok && n >= 0 {
			found[i] = s.entries[n]
		}
	}
	return found, nil
}

// Register implements storage.Store.
func (s *Store) Register(ns register.Namespace, key string) (register.Cell, bool, error) {
	unlock, err := s.reading()
	if err != nil {
		return register.Cell{}, false, err
	}
	defer unlock()
	c, ok := s.cells[register.Address{NS: ns, Key: key}]
	return c, ok, nil
}

// Registers implements storage.Store.
func (s *Store) Registers(ns register.Namespace, prefix string) ([]storage.KeyedCell, error) {
	unlock, err := s.reading()
	if err != nil {
		return nil, err
	}
	defer unlock()
	return s.list(ns, prefix), nil
}

// list is Registers inside the lock.
func (s *Store) list(ns register.Namespace, prefix string) (out []storage.KeyedCell) {
	for a, c := range s.cells {
		if a.NS == ns && strings.HasPrefix(a.Key, prefix) {
			out = append(out, storage.KeyedCell{Key: a.Key, Cell: c})
		}
	}
	slices.SortFunc(out, func(a, b storage.KeyedCell) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// Snapshot implements storage.Store.
func (s *Store) Snapshot(of ...storage.CellRange) (storage.Snapshot, error) {
	unlock, err := s.reading()
	if err != nil {
		return storage.Snapshot{}, err
	}
	defer unlock()
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

// ScanBranch implements storage.Store.
func (s *Store) ScanBranch(q storage.BranchQuery) ([]entry.Entry, error) {
	unlock, err := s.reading()
	if err != nil {
		return nil, err
	}
	defer unlock()
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

// ScanEntries implements storage.Store.
func (s *Store) ScanEntries(q storage.EntryQuery) ([]entry.Entry, error) {
	unlock, err := s.reading()
	if err != nil {
		return nil, err
	}
	defer unlock()
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

// ScanEntryHeads implements storage.Store.
func (s *Store) ScanEntryHeads(q storage.EntryQuery) ([]storage.Head, error) {
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

// ScanUsage implements storage.Store.
func (s *Store) ScanUsage(q storage.UsageQuery) ([]entry.UsageRow, error) {
	unlock, err := s.reading()
	if err != nil {
		return nil, err
	}
	defer unlock()
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

// Stats implements storage.Store.
func (s *Store) Stats() (storage.Stats, error) {
	unlock, err := s.reading()
	if err != nil {
		return storage.Stats{}, err
	}
	defer unlock()
	return s.stats, nil
}

// Close implements storage.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
