package machine_test

import (
	"slices"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
)

// store is a session in memory that applies transactions by the rules of storage: expectations against what was before, all writes or none, every write
// a seq, ids used once, parents there. Rows and cells are kept as what their text is read back as.
type store struct {
	now     int64 // Unix ms
	lastSeq int64
	rows    map[id.EntryID]entry.Entry
	ledger  []entry.UsageRow
	used    map[string]bool // ids of rows of both kinds
	cells   map[register.Address]register.Cell
}

func newStore(now int64) *store {
	return &store{
		now: now, rows: map[id.EntryID]entry.Entry{}, used: map[string]bool{}, cells: map[register.Address]register.Cell{},
	}
}

func (s *store) commit(t tx.Tx) error {
	for _, e := range t.Expected {
		if s.cells[e.Address].Seq != e.Seq {
			return &tx.StaleExpectation{Failed: e}
		}
	}
	before, cells := *s, make(map[register.Address]register.Cell)
	for _, w := range t.Writes { // what a refusal puts back
		switch w := w.(type) {
		case tx.SetRegister:
			cells[w.Address] = s.cells[w.Address]
		case tx.DeleteRegister:
			cells[w.Address] = s.cells[w.Address]
		}
	}
	for n, w := range t.Writes {
		s.lastSeq++
		err := s.apply(w)
		if err == nil {
			continue
		}
		for _, w := range t.Writes[:n] {
			switch w := w.(type) {
			case tx.InsertEntry:
				delete(s.rows, w.Entry.ID)
				delete(s.used, w.Entry.ID.String())
			case tx.InsertUsage:
				delete(s.used, w.Row.ID.String())
			}
		}
		for a, c := range cells {
			s.cells[a] = c
			if c.Seq == 0 {
				delete(s.cells, a)
			}
		}
		s.lastSeq, s.ledger = before.lastSeq, before.ledger
		return err
	}
	return nil
}

func (s *store) apply(w tx.Write) error {
	switch w := w.(type) {
	case tx.InsertEntry:
		e := w.Entry
		e.Seq, e.Timestamp = s.lastSeq, s.now
		if _, known := s.rows[e.Parent]; !known && !e.Parent.IsZero() {
			return refuse("entry "+e.ID.String(), "a parent that exists", e.Parent.String())
		}
		read, err := entry.Parse(entry.Encode(e))
		if err == nil {
			err = s.use(e.ID.String())
		}
		if err != nil {
			return err
		}
		s.rows[e.ID] = read
	case tx.InsertUsage:
		row := w.Row
		row.Seq = s.lastSeq
		var text jsonv.Writer
		entry.AppendUsageRow(&text, row)
		read, err := entry.DecodeUsageRow(parseText(string(text.Bytes())))
		if err == nil {
			err = s.use(row.ID.String())
		}
		if err != nil {
			return err
		}
		s.ledger = append(s.ledger, read)
	case tx.SetRegister:
		v, err := jsonv.ParseString(w.Value.String())
		if err != nil {
			return err
		}
		s.cells[w.Address] = register.Cell{Seq: s.lastSeq, Value: v}
	case tx.DeleteRegister:
		delete(s.cells, w.Address)
	}
	return nil
}

func (s *store) use(i string) error {
	if s.used[i] {
		return refuse("row "+i, "an id that was never used", i)
	}
	s.used[i] = true
	return nil
}

func refuse(subject, expected, seen string) error {
	return &tx.Corruption{Report: corrupt.New("store.commit", subject, expected, seen)}
}

func (s *store) cell(ns register.Namespace, key string) (register.Cell, bool) {
	c, ok := s.cells[register.Address{NS: ns, Key: key}]
	return c, ok
}

// keys lists the keys of a namespace in order.
func (s *store) keys(ns register.Namespace) (keys []string) {
	for a := range s.cells {
		if a.NS == ns {
			keys = append(keys, a.Key)
		}
	}
	slices.Sort(keys)
	return keys
}

// branch is the path from the root to an entry.
func (s *store) branch(leaf id.EntryID) (path []entry.Entry) {
	for !leaf.IsZero() {
		e := s.rows[leaf]
		path = append(path, e)
		leaf = e.Parent
	}
	slices.Reverse(path)
	return path
}
