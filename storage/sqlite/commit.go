package sqlite

import (
	"fmt"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
)

// Commit applies t, or refuses it and changes nothing: see [storage.Store].
func (s *Store) Commit(t tx.Tx) (tx.Result, error) {
	if err := admissible(t); err != nil {
		return tx.Result{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return tx.Result{}, err
	}
	a := &application{w: s.w, recent: s.recent}
	held := s.lease
	if err := s.w.within("BEGIN IMMEDIATE", func() error { return s.apply(t, a) }); err != nil {
		s.lease = held
		return tx.Result{}, s.refused(err)
	}
	if len(a.fresh) > 0 {
		s.recent = a.fresh
	}
	if s.cfg.AfterCommit != nil {
		s.cfg.AfterCommit(a.result)
	}
	return a.result, nil
}

// admissible refuses what no state of the session could make right.
func admissible(t tx.Tx) error {
	refuse := func(i int, what, expected, seen string) error {
		return &tx.Corruption{Report: corrupt.New("sqlite.Commit", fmt.Sprintf("write %d %s", i, what), expected, seen)}
	}
	for i, w := range t.Writes {
		var ns register.Namespace
		switch w := w.(type) {
		case tx.InsertEntry:
			if w.Entry.ID.IsZero() || w.Entry.Body == nil {
				return refuse(i, "entry", "an id and a body", w.Entry.ID.String())
			}
			continue
		case tx.InsertUsage:
			if w.Row.ID.IsZero() {
				return refuse(i, "usage row", "an id", "none")
			}
			continue
		case tx.SetRegister:
			ns = w.NS
		case tx.DeleteRegister:
			ns = w.NS
		default:
			return refuse(i, "kind", "one of the four writes", fmt.Sprintf("%T", w))
		}
		if _, err := register.Parse(string(ns)); err != nil {
			return refuse(i, "namespace", "one of the twelve namespaces", string(ns))
		}
	}
	return nil
}

// apply is the body of a commit, between BEGIN IMMEDIATE and COMMIT.
func (s *Store) apply(t tx.Tx, a *application) error {
	session, lease, err := readState(s.w)
	if err != nil {
		return err
	}
	if err := s.lost(lease); err != nil {
		return err
	}
	for _, e := range t.Expected {
		if err := s.expect(e); err != nil {
			return err
		}
	}
	now := s.cfg.Clock()
	a.session = session
	a.result = tx.Result{FirstSeq: session.nextSeq, Seqs: make([]int64, 0, len(t.Writes)), Timestamp: now}
	for _, w := range t.Writes {
		a.result.Seqs = append(a.result.Seqs, a.session.nextSeq)
		if err := a.write(w); err != nil {
			return err
		}
		a.session.nextSeq++
	}
	if len(t.Writes) > 0 {
		if err := a.finish(); err != nil {
			return err
		}
	}
	if l := s.lease; now+s.cfg.LeaseTTL.Milliseconds()-l.expiresAt >= s.LeaseInterval().Milliseconds() {
		l.expiresAt = now + s.cfg.LeaseTTL.Milliseconds()
		return s.renew(l)
	}
	return nil
}

// expect judges one expectation against the state before the transaction.
func (s *Store) expect(e tx.Expectation) error {
	r, ok, err := s.w.one("SELECT seq FROM registers WHERE ns = ? AND key = ?", string(e.NS), e.Key)
	if err != nil {
		return err
	}
	var seq int64
	if ok {
		c := read(r, "register "+e.String())
		seq = c.num()
		if err := c.damaged(); err != nil {
			return err
		}
	}
	if ok != (e.Seq != 0) || seq != e.Seq {
		return &tx.StaleExpectation{Failed: e}
	}
	return nil
}

// application applies the writes of one transaction, in order. session is the
// row as it will be; the write in hand gets its nextSeq.
type application struct {
	w       *conn
	session sessionRow
	result  tx.Result
	fresh   map[id.EntryID]int64 // seqs of the entries of this transaction
	recent  map[id.EntryID]int64 // of the last one that had any: the usual parents
	spent   *usage.Usage         // of the ledger rows of this transaction
}

func (a *application) write(w tx.Write) error {
	switch w := w.(type) {
	case tx.InsertEntry:
		return a.insertEntry(w.Entry)
	case tx.InsertUsage:
		return a.insertUsage(w.Row)
	case tx.SetRegister:
		return a.set(w)
	case tx.DeleteRegister:
		_, err := a.w.exec("DELETE FROM registers WHERE ns = ? AND key = ?", string(w.NS), w.Key)
		return err
	}
	panic(fmt.Sprintf("a write of an unknown kind, %T, was admitted", w))
}

func (a *application) insertEntry(e entry.Entry) error {
	h := head{seq: a.session.nextSeq, id: string(uuid(e.ID)), kind: e.Body.Kind()}
	if c, ok := e.Body.(entry.Custom); ok {
		h.customType = &c.Type
	}
	if !e.Parent.IsZero() {
		at, err := a.parent(e)
		if err != nil {
			return err
		}
		h.parent = &at
	}
	now := a.result.Timestamp
	e.Seq, e.Timestamp = h.seq, now
	payload := entry.Encode(e)
	if _, err := entry.Parse(payload); err != nil {
		return unreadable("entry "+e.ID.String(), err)
	}
	if err := a.claim("entry "+e.ID.String(), []byte(h.id)); err != nil {
		return err
	}
	_, err := a.w.exec("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		h.seq, []byte(h.id), optional(h.parent), string(h.kind), optional(h.customType), now, entryDigest(h, now, payload), payload)
	if err != nil {
		return err
	}
	if a.fresh == nil {
		a.fresh = make(map[id.EntryID]int64)
	}
	a.fresh[e.ID] = h.seq
	if h.kind == entry.KindMessage {
		a.session.messages++
	}
	return nil
}

// parent finds the seq of an entry's parent.
func (a *application) parent(e entry.Entry) (int64, error) {
	for _, known := range []map[id.EntryID]int64{a.fresh, a.recent} {
		if at, ok := known[e.Parent]; ok {
			return at, nil
		}
	}
	r, ok, err := a.w.one("SELECT e.seq FROM ids i CROSS JOIN entries e ON e.seq = i.seq WHERE i.id = ?", uuid(e.Parent))
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, &tx.Corruption{Report: corrupt.New("sqlite.Commit", "entry "+e.ID.String()+".parentId", "an entry of this session", e.Parent.String())}
	}
	c := read(r, "entry "+e.Parent.String())
	return c.num(), c.damaged()
}

// claim enters an id into the namespace of entries and ledger rows.
func (a *application) claim(subject string, rowID []byte) error {
	_, err := a.w.exec("INSERT INTO ids VALUES (?, ?)", rowID, a.session.nextSeq)
	if classify(err) == faultDuplicate {
		return &tx.Corruption{Report: corrupt.New("sqlite.Commit", subject, "an id that was never used in this session", uuidText(rowID))}
	}
	return err
}

func (a *application) insertUsage(row entry.UsageRow) error {
	row.Seq = a.session.nextSeq
	var text jsonv.Writer
	entry.AppendUsageRow(&text, row)
	payload := text.Bytes()
	subject := "usage " + row.ID.String()
	v, err := parse(payload)
	if err == nil {
		_, err = entry.DecodeUsageRow(v)
	}
	if err != nil {
		return unreadable(subject, err)
	}
	rowID := uuid(row.ID)
	if err := a.claim(subject, rowID); err != nil {
		return err
	}
	if _, err := a.w.exec("INSERT INTO usage_ledger VALUES (?, ?, ?, ?)", row.Seq, rowID, usageDigest(row.Seq, rowID, payload), payload); err != nil {
		return err
	}
	if a.spent == nil {
		a.spent = new(usage.Zero())
	}
	*a.spent = a.spent.Add(row.Usage)
	return nil
}

func (a *application) set(w tx.SetRegister) error {
	value := w.Value.Append(nil)
	if _, err := parse(value); err != nil {
		return unreadable("register "+w.String(), err)
	}
	ns, seq := string(w.NS), a.session.nextSeq
	_, err := a.w.exec("INSERT INTO registers VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET seq = excluded.seq, digest = excluded.digest, value = excluded.value",
		ns, w.Key, seq, registerDigest(ns, w.Key, seq, value), value)
	return err
}

// finish writes the counters.
func (a *application) finish() error {
	if a.spent != nil {
		before, err := a.session.stats()
		if err != nil {
			return err
		}
		var text jsonv.Writer
		usage.Append(&text, before.Usage.Add(*a.spent))
		a.session.usage = text.Bytes()
	}
	return a.session.update(a.w)
}

// unreadable refuses a row that would not read back: nesting that is too deep, a
// message that has not settled, a doubled name. Once written it would fail every
// later read.
func unreadable(subject string, err error) error {
	if r, ok := corrupt.As(err); ok {
		return &tx.Corruption{Report: r.In(subject)}
	}
	return &tx.Corruption{Report: corrupt.New("sqlite.Commit", subject, "a row that reads back", err.Error())}
}

// optional binds a missing value as NULL.
func optional[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}
