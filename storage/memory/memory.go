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

// Within implements storage.Reader.
func (s *Store) Within(f func(storage.Reader) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return storage.ErrClosed
	}
	return f(state{s.rows})
}

// Entries implements storage.Reader.
func (s *Store) Entries(ids ...id.EntryID) (found map[id.EntryID]entry.Entry, err error) {
	err = s.Within(func(r storage.Reader) (err error) { found, err = r.Entries(ids...); return err })
	return found, err
}

// Register implements storage.Reader.
func (s *Store) Register(ns register.Namespace, key string) (cell register.Cell, ok bool, err error) {
	err = s.Within(func(r storage.Reader) (err error) { cell, ok, err = r.Register(ns, key); return err })
	return cell, ok, err
}

// Registers implements storage.Reader.
func (s *Store) Registers(ns register.Namespace, prefix string) (list []storage.KeyedCell, err error) {
	err = s.Within(func(r storage.Reader) (err error) { list, err = r.Registers(ns, prefix); return err })
	return list, err
}

// Snapshot implements storage.Reader.
func (s *Store) Snapshot(of ...storage.CellRange) (snap storage.Snapshot, err error) {
	err = s.Within(func(r storage.Reader) (err error) { snap, err = r.Snapshot(of...); return err })
	return snap, err
}

// ScanBranch implements storage.Reader.
func (s *Store) ScanBranch(q storage.BranchQuery) (rows []entry.Entry, err error) {
	err = s.Within(func(r storage.Reader) (err error) { rows, err = r.ScanBranch(q); return err })
	return rows, err
}

// ScanEntries implements storage.Reader.
func (s *Store) ScanEntries(q storage.EntryQuery) (rows []entry.Entry, err error) {
	err = s.Within(func(r storage.Reader) (err error) { rows, err = r.ScanEntries(q); return err })
	return rows, err
}

// ScanEntryHeads implements storage.Reader.
func (s *Store) ScanEntryHeads(q storage.EntryQuery) (heads []storage.Head, err error) {
	err = s.Within(func(r storage.Reader) (err error) { heads, err = r.ScanEntryHeads(q); return err })
	return heads, err
}

// ScanUsage implements storage.Reader.
func (s *Store) ScanUsage(q storage.UsageQuery) (rows []entry.UsageRow, err error) {
	err = s.Within(func(r storage.Reader) (err error) { rows, err = r.ScanUsage(q); return err })
	return rows, err
}

// Stats implements storage.Reader.
func (s *Store) Stats() (stats storage.Stats, err error) {
	err = s.Within(func(r storage.Reader) (err error) { stats, err = r.Stats(); return err })
	return stats, err
}

// Close implements storage.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
