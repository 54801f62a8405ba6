package sqlite

import (
	"errors"
	"sync"
	"time"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
)

// Store is an open session and its one writer. It is safe for use by several
// goroutines.
type Store struct {
	reads
	cfg Config

	mu     sync.Mutex // guards what follows; held for the whole of a commit
	w      *conn
	lease  leaseRow
	recent map[id.EntryID]int64 // seqs of the entries of the last transaction that had any; entries never change
	closed bool
	broken error // a flush failed: what the disk holds is not known

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
	return s.fenced(func(sessionRow) error {
		l := s.lease
		l.expiresAt = s.cfg.Clock() + s.cfg.LeaseTTL.Milliseconds()
		return s.renew(l)
	})
}

func (s *Store) renew(l leaseRow) error {
	if err := l.write(s.w); err != nil {
		return err
	}
	s.lease = l
	return nil
}

// RecordIdentity writes the ids of the session and of the one it came from into
// the session row, where [Peek] finds them. It is a projection of the registers
// session/id and session/parent, which are the truth. parent may be absent.
func (s *Store) RecordIdentity(own, parent id.SessionID) error {
	return s.fenced(func(row sessionRow) error {
		before := row.digest()
		row.sessionID, row.parent = uuid(own), uuid(parent)
		if row.digest() == before {
			return nil
		}
		return row.update(s.w)
	})
}

// fenced runs f in a transaction of the writer, if this is still the writer.
func (s *Store) fenced(f func(sessionRow) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	held := s.lease
	err := s.w.within("BEGIN IMMEDIATE", func() error {
		session, lease, err := readState(s.w)
		if err == nil {
			err = s.lost(lease)
		}
		if err == nil {
			err = f(session)
		}
		return err
	})
	if err != nil {
		s.lease = held
	}
	return s.refused(err)
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
	if _, ok := errors.AsType[*commitError](err); ok && classify(err) == faultDisk {
		s.broken = err
		return &tx.Faulted{
			Reason: "the disk reported an error while a change was being flushed; whether it was kept is known when the session is opened again, everything before it is safe; check the disk first",
			Err:    err,
		}
	}
	if row, ok := errors.AsType[*storage.CorruptRow](err); ok {
		return &tx.Corruption{Report: row.Report}
	}
	if isRefusal(err) {
		return err
	}
	return commitFault(err)
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
		if err := errors.Join(readers, released, s.w.close()); err != nil {
			f := classify(err)
			happened, remedy := f.sentence(err)
			s.outcome = &storage.BackendFault{Reason: happened + " while the session was being closed; all changes were kept; " + remedy, Err: f.cause(err)}
		}
	})
	return s.outcome
}

// release deletes the lease if it is still our own.
func (s *Store) release() error {
	if s.lease.owner == "" {
		return nil // never claimed
	}
	return s.w.within("BEGIN IMMEDIATE", func() error {
		_, err := s.w.exec("DELETE FROM writer_lease WHERE owner = ? AND fence = ?", s.lease.owner, s.lease.fence)
		return err
	})
}
