package sqlite

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// Rewrite is one precise rewrite of a closed session file: the one exception to
// rows that never change.
type Rewrite struct {
	Path  string
	Clock func() int64 // Unix ms

	// Entry is asked about each entry, oldest first: what it is to be, and whether
	// that differs. Value is asked about each register, and with the zero address
	// about the details of each ledger row that has some. Their errors end the
	// rewrite and are returned.
	Entry func(entry.Entry) (rewritten entry.Entry, changed bool, err error)
	Value func(register.Address, jsonv.Value) (rewritten jsonv.Value, changed bool, err error)

	// Verify and Bytes, when given, look at the new session before it takes the place
	// of the old one: at its rows, and at the bytes of its file. Their errors end the
	// rewrite and are returned.
	Verify func(*Reader) error
	Bytes  func(io.Reader) error

	BusyTimeout time.Duration // 0 for the default

	// Process and Running are those of [Config].
	Process Process
	Running Running

	// At, when given, is told when each step is done: the places where a crash test
	// dies.
	At func(Step)
}

// Step is a point in the course of a rewrite.
type Step string

// The steps, in order. Up to StepVerified the session is the old one; what it was
// at StepRenamed it stays.
const (
	StepClaimed  Step = "claimed"  // the lease is held
	StepAlone    Step = "alone"    // the log is taken back into the file
	StepBegun    Step = "begun"    // the new file is there and empty
	StepCopied   Step = "copied"   // its rows are written, and not committed
	StepWritten  Step = "written"  // they are committed, and the file is closed
	StepVerified Step = "verified" // it was looked at and flushed
	StepRenamed  Step = "renamed"  // it has taken the place of the old one
	StepDone     Step = "done"     // so has its name, durably
)

// Steps lists all of them.
var Steps = [...]Step{StepClaimed, StepAlone, StepBegun, StepCopied, StepWritten, StepVerified, StepRenamed, StepDone}

// Rewritten is what a rewrite did.
type Rewritten struct {
	Generation int64 // the new one
	Entries    int   // that differ
	Values     int
}

// RewriteInto writes the session anew through the transforms, into a file beside it
// that takes its place at the end, under a generation that is one higher. Every id,
// parent, kind, key and seq stays, and every time of an entry. It holds the
// session's lease throughout. Before the new file is in place any failure, and any
// death of the process, leaves the old session with its content; after that it is
// the new one.
//
// The error is *storage.LeaseHeld when somebody writes the session,
// *storage.OpenFailed, *storage.UnsupportedVersion, *storage.CorruptRow,
// *storage.BackendFault, or that of a transform or a look.
func RewriteInto(r Rewrite) (Rewritten, error) {
	s, err := openAs(Config{
		Path: r.Path, Owner: rewriteOwner, Clock: r.Clock, LeaseTTL: ClosedLeaseTTL, BusyTimeout: r.BusyTimeout,
		Process: r.Process, Running: r.Running, closed: true,
	})
	if err != nil {
		return Rewritten{}, err
	}
	w := &rewriting{Rewrite: r, old: s, temp: s.w.Path() + rewriteSuffix}
	w.at(StepClaimed)
	if err := w.run(); err != nil {
		return Rewritten{}, w.abandon(err)
	}
	w.at(StepRenamed)
	// The lease of the old file stays: who still waits for that file must not take it.
	// Nobody finds it any more, so that it holds up nobody.
	err = errors.Join(syncFolder(s.w.Path()), s.w.Close())
	w.at(StepDone)
	if err != nil {
		return w.done, &storage.BackendFault{Reason: "the session was rewritten, but a power cut may undo it; check the disk", Err: err}
	}
	return w.done, nil
}

// rewriting is a rewrite in progress.
type rewriting struct {
	Rewrite
	old    *Store
	temp   string
	before sessionRow
	done   Rewritten
}

func (w *rewriting) at(s Step) {
	if w.At != nil {
		w.At(s)
	}
}

// abandon gives the session back as it was.
func (w *rewriting) abandon(err error) error {
	cleared := sweep(w.old.w.Path())
	logged := w.old.w.Steady()
	if undone := errors.Join(cleared, logged, w.old.Close()); undone != nil {
		err = errors.Join(err, readFault(undone))
	}
	return err
}

func (w *rewriting) run() error {
	if err := w.old.sole(); err != nil {
		return readFault(err)
	}
	w.at(StepAlone)
	if err := w.write(); err != nil {
		return err
	}
	w.at(StepWritten)
	if err := w.look(); err != nil {
		return err
	}
	w.at(StepVerified)
	return w.replace()
}

// errAsked carries an error of whoever was asked through transactions.
type errAsked struct{ err error }

func (e *errAsked) Error() string { return e.err.Error() }
func (e *errAsked) Unwrap() error { return e.err }

// outward is the error that the caller gets.
func outward(err error) error {
	if asked, ok := errors.AsType[*errAsked](err); ok {
		return asked.err
	}
	if refusal, ok := errors.AsType[*tx.Corruption](err); ok {
		return &storage.CorruptRow{Report: refusal.Report}
	}
	if lost, ok := errors.AsType[*tx.LeaseLost](err); ok {
		return unmade("another process has taken the session", lost)
	}
	return readFault(err)
}

// unmade is a rewrite that did not come to pass.
func unmade(reason string, err error) error {
	return &storage.BackendFault{Reason: reason + "; nothing was changed; try again", Err: err}
}

// write makes the new file, row by row, in one transaction.
func (w *rewriting) write() error {
	if err := createFile(w.temp); err != nil {
		return readFault(err)
	}
	c, err := dial(w.temp, sqlitedb.ReadWrite)
	if err != nil {
		return readFault(err)
	}
	err = c.Tune(w.old.cfg.BusyTimeout, Full, writerCache)
	w.at(StepBegun)
	if err == nil {
		err = w.old.w.Within("BEGIN", func() error {
			return c.Within("BEGIN IMMEDIATE", func() error { return w.rows(c) })
		})
	}
	if err == nil {
		err = c.Steady()
	}
	return outward(errors.Join(err, c.Close()))
}

// rows copies every row under its seq, by ascending seq: a payload that shares the
// bytes of others finds them as it did when it was written first.
func (w *rewriting) rows(to *conn) error {
	session, lease, err := readState(w.old.w)
	if err == nil {
		err = w.old.lost(lease)
	}
	if err != nil {
		return err
	}
	w.before = session
	if _, err := create(to, false, w.old.cfg.format.version, session.createdAt); err != nil {
		return err
	}
	a := &application{w: to, known: &knowledge{}, heads: &heads{}}
	err = w.inOrder(func(seq int64, copy func(*application) error) error {
		a.session.nextSeq = seq
		return copy(a)
	})
	if err != nil {
		return err
	}
	session.generation++
	w.done.Generation = session.generation
	w.at(StepCopied)
	return session.update(to)
}

// inOrder shows a copier for each row of the old session, by ascending seq.
func (w *rewriting) inOrder(show func(seq int64, copy func(*application) error) error) error {
	cells := make(map[int64]register.Address)
	err := w.old.w.Each("SELECT ns, key, seq FROM registers", func(r row) (bool, error) {
		c := read(r, "register")
		a := register.Address{NS: register.Namespace(c.text()), Key: c.text()}
		cells[c.num()] = a
		return true, c.damaged()
	})
	if err != nil {
		return err
	}
	const all = "SELECT seq, 0 FROM entries UNION ALL SELECT seq, 1 FROM usage_ledger UNION ALL SELECT seq, 2 FROM registers ORDER BY 1"
	return w.old.w.Each(all, func(r row) (bool, error) {
		c := read(r, "row")
		seq, table := c.num(), c.num()
		if err := c.damaged(); err != nil {
			return false, err
		}
		copy := func(a *application) error { return w.cell(a, cells[seq]) }
		switch table {
		case 0:
			copy = func(a *application) error { return w.entry(a, seq) }
		case 1:
			copy = func(a *application) error { return w.usage(a, seq) }
		}
		return true, show(seq, copy)
	})
}

// only reads the one row of a table that was listed.
func (w *rewriting) only(text string, args ...any) (row, error) {
	r, ok, err := w.old.w.One(text, args...)
	if err == nil && !ok {
		err = &storage.CorruptRow{Report: corrupt.New("sqlite.Rewrite", "row", "the row that was listed", "none")}
	}
	return r, err
}

func (w *rewriting) entry(a *application, seq int64) error {
	r, err := w.only("SELECT "+entryColumns+" FROM entries e WHERE e.seq = ?", seq)
	if err != nil {
		return err
	}
	e, err := w.old.w.entry(r)
	if err != nil {
		return err
	}
	out, changed, err := w.Entry(e)
	if err != nil {
		return &errAsked{err}
	}
	if changed {
		w.done.Entries++
		if out.ID != e.ID || out.Parent != e.Parent || out.Body == nil || out.Body.Kind() != e.Body.Kind() {
			return &storage.CorruptRow{Report: corrupt.New("sqlite.Rewrite", "entry "+e.ID.String(), "the same id, parent and kind", "another of them")}
		}
		e.Body = out.Body
	}
	a.result.Timestamp = e.Timestamp
	return a.insertEntry(e)
}

func (w *rewriting) usage(a *application, seq int64) error {
	r, err := w.only("SELECT "+usageColumns+" FROM usage_ledger WHERE seq = ?", seq)
	if err != nil {
		return err
	}
	u, err := decodeUsage(r)
	if err != nil {
		return err
	}
	if u.Details != nil {
		v, err := w.value(register.Address{}, *u.Details)
		if err != nil {
			return err
		}
		u.Details = &v
	}
	return a.insertUsage(u)
}

func (w *rewriting) cell(a *application, at register.Address) error {
	r, err := w.only("SELECT "+registerColumns+" FROM registers WHERE ns = ? AND key = ?", string(at.NS), at.Key)
	if err != nil {
		return err
	}
	_, _, cell, err := w.old.w.decodeRegister(r)
	if err != nil {
		return err
	}
	v, err := w.value(at, cell.Value)
	if err != nil {
		return err
	}
	return a.set(tx.SetRegister{Address: at, Value: v})
}

func (w *rewriting) value(at register.Address, v jsonv.Value) (jsonv.Value, error) {
	out, changed, err := w.Value(at, v)
	if err != nil {
		return v, &errAsked{err}
	}
	if !changed {
		return v, nil
	}
	w.done.Values++
	return out, nil
}

// look lets the caller see the new file, and flushes it. Nobody else knows the file,
// so it may be opened as one.
func (w *rewriting) look() error {
	if w.Verify != nil {
		r, err := OpenReader(w.temp)
		if err != nil {
			return err
		}
		err = w.Verify(r)
		if closed := r.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return err
		}
	}
	f, err := os.OpenFile(w.temp, os.O_RDWR, 0)
	if err != nil {
		return readFault(err)
	}
	defer func() { _ = f.Close() }() // nothing is written through it
	if w.Bytes != nil {
		if err := w.Bytes(f); err != nil {
			return err
		}
	}
	return readFault(f.Sync())
}

// replace puts the new file in the place of the old one while nobody can read or
// write that. Its first line is a promise: the session is still ours, and as it was
// when it was read.
func (w *rewriting) replace() error {
	c := w.old.w
	if _, err := c.Exec("BEGIN EXCLUSIVE"); err != nil {
		return readFault(err)
	}
	session, lease, err := readState(c)
	if err == nil {
		err = w.old.lost(lease)
	}
	if err == nil && session.digest() != w.before.digest() {
		err = unmade("another process has changed the session", nil)
	}
	for _, suffix := range sqlitedb.Besides {
		if _, there := os.Lstat(w.temp + suffix); err == nil && there == nil {
			err = unmade("there still is a file beside the new session, "+suffix, nil)
		}
	}
	if err == nil {
		err = os.Rename(w.temp, c.Path())
	}
	c.Rollback() // it wrote nothing
	return outward(err)
}
