package sqlite

import (
	"errors"
	"sync"
	"time"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// Store is an open session and its one writer. It is safe for use by several
// goroutines.
type Store struct {
	reads
	cfg Config

	mu       sync.Mutex // guards what follows; held for the whole of a commit
	w        *conn
	lease    leaseRow
	known    knowledge
	heads    heads
	closed   bool
	released bool  // the lease was given back, and nobody else was seen with it
	broken   error // a flush failed: what the disk holds is not known

	closing sync.Once
	outcome error
}

var _ storage.Store = (*Store)(nil)

// LeaseInterval is how often [Store.RenewLease] should run while an operation
// does: a third of the term.
func (s *Store) LeaseInterval() time.Duration { return s.cfg.LeaseTTL / 3 }

// RenewLease extends the lease without a commit. The error is *tx.LeaseLost,
// *tx.Corruption or *tx.Faulted. An idle session does without: it stays the
// writer until another process takes the lease.
func (s *Store) RenewLease() error {
	if s.given() {
		return nil
	}
	return s.fenced(func(_ *sessionRow, now int64) error {
		l := s.lease
		l.expiresAt = now + s.cfg.LeaseTTL.Milliseconds()
		return s.renew(l)
	})
}

func (s *Store) renew(l leaseRow) error {
	if err := l.write(s.w); err != nil {
		return err
	}
	s.lease, s.known.lease = l, &l
	return nil
}

// Release gives the lease back and keeps the session open: another process may
// become its writer at once. The next commit takes the lease again, unless somebody
// had it meanwhile: then it is refused with *tx.LeaseLost, as what this process knows
// of the session may be old. The error is one of the refusals.
func (s *Store) Release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil || s.released {
		return err
	}
	err := s.w.Within("BEGIN IMMEDIATE", func() error {
		if _, err := s.hold(s.cfg.Clock()); err != nil {
			return err
		}
		return s.drop()
	})
	s.known, s.released = knowledge{}, err == nil
	return s.refused(err)
}

// given reports that the lease was given back.
func (s *Store) given() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.released
}

// reclaim takes a lease that was released, with a new fence.
func (s *Store) reclaim(session sessionRow, now int64) (sessionRow, error) {
	session.fence++
	l := s.lease
	l.fence, l.since, l.expiresAt = session.fence, now, now+s.cfg.LeaseTTL.Milliseconds()
	return session, s.renew(l)
}

// RecordIdentity writes the ids of the session and of the one it came from into
// the session row, where [Peek] finds them. It is a projection of the registers
// session/id and session/parent, which are the truth. parent may be absent.
func (s *Store) RecordIdentity(own, parent id.SessionID) error {
	return s.fenced(func(row *sessionRow, _ int64) error {
		row.sessionID, row.parent = sqlitedb.UUID(own), sqlitedb.UUID(parent)
		return nil
	})
}

// fenced runs f in a transaction of the writer, if this is still the writer.
func (s *Store) fenced(f func(row *sessionRow, now int64) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	return s.change(f)
}

// change runs f in a transaction of the writer, if this is still the writer, and
// writes what f makes of the session row.
func (s *Store) change(f func(row *sessionRow, now int64) error) error {
	held := s.lease
	err := s.w.Within("BEGIN IMMEDIATE", func() error {
		now := s.cfg.Clock()
		row, err := s.hold(now)
		if err == nil {
			err = f(&row, now)
		}
		if err != nil {
			return err
		}
		return s.settle(row, now)
	})
	if err != nil {
		s.lease, s.known, s.heads = held, knowledge{}, heads{}
	} else {
		s.released = false
	}
	return s.refused(err)
}

// hold checks inside the transaction that is open that this is still the writer, and
// returns the session row. What no other connection has changed since the last look
// is not read again.
func (s *Store) hold(now int64) (sessionRow, error) {
	version, err := s.w.dataVersion()
	if err != nil {
		return sessionRow{}, err
	}
	if !s.known.valid || s.known.version != version {
		session, lease, err := readState(s.w)
		if err != nil {
			return sessionRow{}, err
		}
		s.known = knowledge{valid: true, version: version, session: session, lease: lease}
	}
	session, lease := s.known.session, s.known.lease
	if s.released && lease == nil && session.fence == s.lease.fence {
		return s.reclaim(session, now)
	}
	return session, s.lost(lease)
}

// settle writes the session row when it is another one, and renews the lease when a
// third of its term has gone.
func (s *Store) settle(row sessionRow, now int64) error {
	if row.digest() != s.known.session.digest() {
		if err := row.update(s.w); err != nil {
			return err
		}
		s.known.session = row
	}
	if l := s.lease; now+s.cfg.LeaseTTL.Milliseconds()-l.expiresAt >= s.LeaseInterval().Milliseconds() {
		l.expiresAt = now + s.cfg.LeaseTTL.Milliseconds()
		return s.renew(l)
	}
	return nil
}

// usable reports why nothing can be written any more.
func (s *Store) usable() error {
	switch {
	case s.closed:
		return &tx.Faulted{Reason: "the session is closed; nothing was written", Err: storage.ErrClosed}
	case s.broken != nil:
		return &tx.Faulted{Reason: "an earlier change could not be flushed to the disk; nothing more was written; check the disk, then open the session again", Err: s.broken}
	}
	return nil
}

// lost compares the stored lease with our own.
func (s *Store) lost(stored *leaseRow) error {
	switch {
	case stored == nil:
		return &tx.LeaseLost{}
	case stored.owner != s.lease.owner || stored.fence != s.lease.fence:
		return &tx.LeaseLost{HeldBy: stored.describe()}
	}
	return nil
}

// refused turns an error of a transaction into one of the four refusals.
func (s *Store) refused(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*sqlitedb.CommitError](err); ok && sqlitedb.Classify(err) == sqlitedb.FaultDisk {
		s.broken = err
		return &tx.Faulted{
			Reason: "the disk reported an error while a change was being flushed; whether it was kept is known when the session is opened again, everything before it is safe; check the disk first",
			Err:    err,
		}
	}
	if refusal := refusalOf(err); refusal != nil {
		return refusal
	}
	return commitFault(err)
}

// refusalOf is the refusal of a transaction that the state of the session gave it;
// nil for faults of the backend.
func refusalOf(err error) error {
	if row, ok := errors.AsType[*storage.CorruptRow](err); ok {
		return &tx.Corruption{Report: row.Report}
	}
	if isRefusal(err) {
		return err
	}
	return nil
}

func isRefusal(err error) bool {
	_, stale := errors.AsType[*tx.StaleExpectation](err)
	_, corruption := errors.AsType[*tx.Corruption](err)
	_, faulted := errors.AsType[*tx.Faulted](err)
	_, lost := errors.AsType[*tx.LeaseLost](err)
	return stale || corruption || faulted || lost
}

// Close waits for the calls in progress, gives the lease back and closes the
// file. A second call returns the first outcome. The handle is closed in any
// case.
func (s *Store) Close() error {
	s.closing.Do(func() {
		readers := s.readers.close()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closed = true
		released := s.release()
		if err := errors.Join(readers, released, s.w.Close()); err != nil {
			f := sqlitedb.Classify(err)
			happened, remedy := sentence(f, err)
			s.outcome = &storage.BackendFault{Reason: happened + " while the session was being closed; all changes were kept; " + remedy, Err: cause(f, err)}
		}
	})
	return s.outcome
}

// release deletes the lease if it is still our own.
func (s *Store) release() error {
	if s.lease.owner == "" {
		return nil // never claimed
	}
	// A lease that a power cut brings back costs the next opener a wait; a flush would
	// cost every closing one.
	if err := s.w.Pragmas([][2]string{{"synchronous", min(s.cfg.Synchronous.Pragma(), Normal.Pragma())}}); err != nil {
		return err
	}
	return s.w.Within("BEGIN IMMEDIATE", s.drop)
}

func (s *Store) drop() error {
	_, err := s.w.Exec("DELETE FROM writer_lease WHERE owner = ? AND fence = ?", s.lease.owner, s.lease.fence)
	return err
}
