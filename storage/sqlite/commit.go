package sqlite

import (
	"errors"
	"fmt"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// Commit applies t, or refuses it and changes nothing: see [storage.Store].
func (s *Store) Commit(t tx.Tx) (tx.Result, error) {
	o := s.CommitAll(t)[0]
	return o.Result, o.Err
}

// CommitAll applies several transactions with one flush: see [storage.Store].
func (s *Store) CommitAll(txs ...tx.Tx) []storage.Outcome {
	outcomes := make([]storage.Outcome, len(txs))
	if len(txs) == 0 {
		return outcomes
	}
	for i, t := range txs {
		outcomes[i].Err = admissible(t)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.usable()
	if err == nil {
		err = s.batch(txs, outcomes)
	}
	for i := range outcomes {
		switch o := &outcomes[i]; {
		case o.Err != nil:
		case err != nil:
			*o = storage.Outcome{Err: err}
		case s.cfg.AfterCommit != nil:
			s.cfg.AfterCommit(o.Result)
		}
	}
	return outcomes
}

// batch applies what is admissible of txs inside one transaction of SQLite. Its
// error refuses all of it; a refusal of one alone is in its outcome.
func (s *Store) batch(txs []tx.Tx, outcomes []storage.Outcome) error {
	return s.change(func(row *sessionRow, now int64) error {
		for i, t := range txs {
			if outcomes[i].Err != nil {
				continue
			}
			a := &application{w: s.w, now: now, session: *row, known: &s.known, heads: &s.heads}
			err := s.alone(len(txs), func() error { return a.apply(t) })
			if refusal := refusalOf(err); refusal != nil && len(txs) > 1 {
				outcomes[i].Err = refusal
				continue
			}
			if err != nil {
				return err
			}
			*row, outcomes[i].Result = a.session, a.result
			s.known.learn(a.cells)
		}
		return nil
	})
}

// alone runs f so that its error takes back what f wrote, and nothing else of a
// batch. The only transaction of a batch is taken back with it.
func (s *Store) alone(of int, f func() error) error {
	if of == 1 {
		return f()
	}
	if _, err := s.w.Exec("SAVEPOINT one"); err != nil {
		return err
	}
	err := f()
	if err != nil {
		s.heads = heads{}
		if _, undone := s.w.Exec("ROLLBACK TO one"); undone != nil {
			return errors.Join(undone, err)
		}
	}
	if _, done := s.w.Exec("RELEASE one"); done != nil {
		return errors.Join(done, err)
	}
	return err
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

// application applies the writes of one transaction, in order. session is the
// row as it will be; the write in hand gets its nextSeq.
type application struct {
	w       *conn
	now     int64
	session sessionRow
	result  tx.Result
	known   *knowledge
	cells   map[register.Address]int64 // seqs of the cells that it wrote; 0 for deleted ones
	heads   *heads
	spent   *usage.Usage // of the ledger rows of this transaction
}

func (a *application) apply(t tx.Tx) error {
	for _, e := range t.Expected {
		if err := a.expect(e); err != nil {
			return err
		}
	}
	a.result = tx.Result{FirstSeq: a.session.nextSeq, Seqs: make([]int64, 0, len(t.Writes)), Timestamp: a.now}
	for _, w := range t.Writes {
		a.result.Seqs = append(a.result.Seqs, a.session.nextSeq)
		if err := a.write(w); err != nil {
			return err
		}
		a.session.nextSeq++
	}
	return a.account()
}

// expect judges one expectation against the state before the transaction.
func (a *application) expect(e tx.Expectation) error {
	seq, known := a.known.cells[e.Address]
	if !known {
		r, ok, err := a.w.One("SELECT seq FROM registers WHERE ns = ? AND key = ?", string(e.NS), e.Key)
		if err != nil {
			return err
		}
		if ok {
			c := read(r, "register "+e.String())
			seq = c.num()
			if err := c.damaged(); err != nil {
				return err
			}
		}
		a.known.learn(map[register.Address]int64{e.Address: seq})
	}
	if seq != e.Seq {
		return &tx.StaleExpectation{Failed: e}
	}
	return nil
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
		a.wrote(w.Address, 0)
		_, err := a.w.Exec("DELETE FROM registers WHERE ns = ? AND key = ?", string(w.NS), w.Key)
		return err
	}
	panic(fmt.Sprintf("a write of an unknown kind, %T, was admitted", w))
}

func (a *application) insertEntry(e entry.Entry) error {
	now := a.result.Timestamp
	h := &head{seq: a.session.nextSeq, id: string(sqlitedb.UUID(e.ID)), kind: e.Body.Kind(), ts: now}
	if c, ok := e.Body.(entry.Custom); ok {
		h.customType = &c.Type
	}
	if err := a.place(h, e); err != nil {
		return err
	}
	e.Seq, e.Timestamp = h.seq, now
	payload := entry.Encode(e)
	if _, err := entry.Parse(payload); err != nil {
		return unreadable("entry "+e.ID.String(), err)
	}
	if err := a.claim("entry "+e.ID.String(), []byte(h.id)); err != nil {
		return err
	}
	kept, err := a.storeEntry(h, payload)
	if err != nil {
		return err
	}
	h.payload = kept.digest()
	_, err = a.w.Exec("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		h.seq, []byte(h.id), optional(h.parent), h.depth, optional(h.jump), int64(h.marks), string(h.kind), optional(h.customType), now,
		h.payload, h.digest(), nullable(kept.shares), kept.text)
	if err != nil {
		return err
	}
	a.heads.add(h)
	if h.kind == entry.KindMessage {
		a.session.messages++
	}
	return nil
}

// place finds the parent and links the entry into its path.
func (a *application) place(h *head, e entry.Entry) error {
	if e.Parent.IsZero() {
		h.link(nil, nil)
		return nil
	}
	parent, err := a.heads.find(a.w, sqlitedb.UUID(e.Parent))
	if err != nil {
		return err
	}
	if parent == nil {
		return &tx.Corruption{Report: corrupt.New("sqlite.Commit", "entry "+e.ID.String()+".parentId", "an entry of this session", e.Parent.String())}
	}
	jump := parent
	if parent.jump != nil {
		if jump, err = a.heads.at(a.w, *parent.jump); err != nil {
			return err
		}
	}
	h.link(parent, jump)
	return nil
}

func (a *application) wrote(cell register.Address, seq int64) {
	if a.cells == nil {
		a.cells = make(map[register.Address]int64)
	}
	a.cells[cell] = seq
}

// claim enters an id into the namespace of entries and ledger rows.
func (a *application) claim(subject string, rowID []byte) error {
	_, err := a.w.Exec("INSERT INTO ids VALUES (?, ?)", rowID, a.session.nextSeq)
	if sqlitedb.Classify(err) == sqlitedb.FaultDuplicate {
		return &tx.Corruption{Report: corrupt.New("sqlite.Commit", subject, "an id that was never used in this session", sqlitedb.UUIDText(rowID))}
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
	rowID := sqlitedb.UUID(row.ID)
	if err := a.claim(subject, rowID); err != nil {
		return err
	}
	if _, err := a.w.Exec("INSERT INTO usage_ledger VALUES (?, ?, ?, ?)", row.Seq, rowID, usageDigest(row.Seq, rowID, payload), payload); err != nil {
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
	kept, err := a.storeCell(w.NS, value)
	if err != nil {
		return err
	}
	ns, seq := string(w.NS), a.session.nextSeq
	a.wrote(w.Address, seq)
	_, err = a.w.Exec("INSERT INTO registers VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET seq = excluded.seq, digest = excluded.digest, shares = excluded.shares, value = excluded.value",
		ns, w.Key, seq, registerDigest(ns, w.Key, seq, kept), nullable(kept.shares), kept.text)
	return err
}

// account adds what was spent to the counters.
func (a *application) account() error {
	if a.spent == nil {
		return nil
	}
	before, err := a.session.stats()
	if err != nil {
		return err
	}
	var text jsonv.Writer
	usage.Append(&text, before.Usage.Add(*a.spent))
	a.session.usage = text.Bytes()
	return nil
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
