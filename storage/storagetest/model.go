package storagetest

import (
	"maps"
	"slices"
	"strings"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/storage"
)

// model is a session as the contract words it: slow, and plain enough to be
// believed.
type model struct {
	entries   []entry.Entry    // by seq
	ledger    []entry.UsageRow // by seq
	registers map[register.Address]register.Cell
	used      map[string]bool // ids, as text
	nextSeq   int64
}

func newModel() *model {
	return &model{registers: map[register.Address]register.Cell{}, used: map[string]bool{}, nextSeq: 1}
}

func (m *model) clone() *model {
	return &model{
		entries: slices.Clone(m.entries), ledger: slices.Clone(m.ledger),
		registers: maps.Clone(m.registers), used: maps.Clone(m.used), nextSeq: m.nextSeq,
	}
}

// commit applies t at time now, or refuses it and changes nothing.
func (m *model) commit(t tx.Tx, now int64) (tx.Result, error) {
	for _, e := range t.Expected {
		if cell, ok := m.registers[e.Address]; ok != (e.Seq != 0) || cell.Seq != e.Seq {
			return tx.Result{}, &tx.StaleExpectation{Failed: e}
		}
	}
	next := m.clone()
	r := tx.Result{FirstSeq: m.nextSeq, Timestamp: now}
	for _, w := range t.Writes {
		if !next.apply(w, now) {
			return tx.Result{}, &tx.Corruption{Report: corrupt.New("model", "write", "a legal one", "")}
		}
		r.Seqs = append(r.Seqs, next.nextSeq)
		next.nextSeq++
	}
	*m = *next
	return r, nil
}

func (m *model) apply(w tx.Write, now int64) bool {
	switch w := w.(type) {
	case tx.InsertEntry:
		e := w.Entry
		if m.used[e.ID.String()] || !e.Parent.IsZero() && m.entry(e.Parent) == nil {
			return false
		}
		e.Seq, e.Timestamp = m.nextSeq, now
		if _, err := entry.Parse(entry.Encode(e)); err != nil {
			return false
		}
		m.used[e.ID.String()] = true
		m.entries = append(m.entries, e)
	case tx.InsertUsage:
		row := w.Row
		if m.used[row.ID.String()] {
			return false
		}
		m.used[row.ID.String()] = true
		row.Seq = m.nextSeq
		m.ledger = append(m.ledger, row)
	case tx.SetRegister:
		m.registers[w.Address] = register.Cell{Seq: m.nextSeq, Value: w.Value}
	case tx.DeleteRegister:
		delete(m.registers, w.Address)
	}
	return true
}

func (m *model) entry(i id.EntryID) *entry.Entry {
	for k := range m.entries {
		if m.entries[k].ID == i {
			return &m.entries[k]
		}
	}
	return nil
}

func (m *model) stats() storage.Stats {
	s := storage.Stats{Usage: usage.Zero()}
	for _, e := range m.entries {
		if e.Body.Kind() == entry.KindMessage {
			s.Messages++
		}
	}
	for _, row := range m.ledger {
		s.Usage = s.Usage.Add(row.Usage)
	}
	return s
}

// branch is a branch scan, step by step as the contract numbers them.
func (m *model) branch(q storage.BranchQuery) ([]entry.Entry, bool) {
	var path []entry.Entry
	for at := m.entry(q.Start); at != nil; at = m.entry(at.Parent) {
		path = append(path, *at)
		if at.Parent.IsZero() {
			break
		}
	}
	if path == nil {
		return nil, false
	}
	if q.Order == storage.OldestFirst {
		slices.Reverse(path)
	}
	if i := slices.IndexFunc(path, func(e entry.Entry) bool {
		return q.StopAtKind != "" && e.Body.Kind() == q.StopAtKind || !q.StopAtID.IsZero() && e.ID == q.StopAtID
	}); i >= 0 {
		path = path[:i+1]
	}
	path = slices.DeleteFunc(path, func(e entry.Entry) bool { return !passes(e, q.Kind, q.CustomType) })
	if q.Cursor != nil {
		path = slices.DeleteFunc(path, func(e entry.Entry) bool {
			if q.Order == storage.OldestFirst {
				return e.Seq <= *q.Cursor
			}
			return e.Seq >= *q.Cursor
		})
	}
	return limited(path, q.Limit), true
}

func passes(e entry.Entry, kind entry.Kind, customType *string) bool {
	if kind != "" && e.Body.Kind() != kind {
		return false
	}
	if customType == nil {
		return true
	}
	c, ok := e.Body.(entry.Custom)
	return ok && c.Type == *customType
}

func limited[T any](list []T, limit *int) []T {
	if limit != nil {
		list = list[:max(0, min(*limit, len(list)))]
	}
	return list
}

func (m *model) scanEntries(q storage.EntryQuery) []entry.Entry {
	list := slices.DeleteFunc(slices.Clone(m.entries), func(e entry.Entry) bool {
		return !passes(e, q.Kind, q.CustomType) || outside(e.Seq, q.FromSeq, q.ToSeq)
	})
	if q.Order == storage.NewestFirst {
		slices.Reverse(list)
	}
	return limited(list, q.Limit)
}

func (m *model) scanUsage(q storage.UsageQuery) []entry.UsageRow {
	list := slices.DeleteFunc(slices.Clone(m.ledger), func(row entry.UsageRow) bool { return outside(row.Seq, q.FromSeq, q.ToSeq) })
	if q.Order == storage.NewestFirst {
		slices.Reverse(list)
	}
	return limited(list, q.Limit)
}

func outside(seq int64, from, to *int64) bool {
	return from != nil && seq < *from || to != nil && seq > *to
}

func (m *model) list(ns register.Namespace, prefix string) []storage.KeyedCell {
	var list []storage.KeyedCell
	for a, cell := range m.registers {
		if a.NS == ns && strings.HasPrefix(a.Key, prefix) {
			list = append(list, storage.KeyedCell{Key: a.Key, Cell: cell})
		}
	}
	slices.SortFunc(list, func(x, y storage.KeyedCell) int { return strings.Compare(x.Key, y.Key) })
	return list
}

func (m *model) allRegisters() []string {
	var out []string
	for _, ns := range register.Namespaces {
		out = append(out, cellTexts(ns, m.list(ns, ""))...)
	}
	return out
}

func (b *bench) allRegisters() ([]string, error) {
	var out []string
	for _, ns := range register.Namespaces {
		list, err := b.store.Registers(ns, "")
		if err != nil {
			return nil, err
		}
		out = append(out, cellTexts(ns, list)...)
	}
	return out, nil
}

func cellTexts(ns register.Namespace, list []storage.KeyedCell) []string {
	out := make([]string, len(list))
	for i, c := range list {
		out[i] = cellText(register.Address{NS: ns, Key: c.Key}, c.Cell)
	}
	return out
}
