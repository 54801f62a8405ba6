package sqlite

import (
	"errors"
	"sync"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/storage"
)

// Reader reads a session without a lease, also while another handle or process
// writes it. It changes nothing.
type Reader struct {
	reads
	closing sync.Once
	outcome error
}

var _ storage.Reader = (*Reader)(nil)

// OpenReader opens an existing session for reading. The error is
// *storage.OpenFailed or *storage.UnsupportedVersion.
func OpenReader(path string) (*Reader, error) {
	first, err := look(path, func(c *conn) (bool, error) {
		seen, err := inspect(c, current.reads)
		if err == nil && seen.exists {
			err = cellsFound(c)
		}
		return seen.exists, err
	})
	if err != nil {
		return nil, err
	}
	return newReader(path, first), nil
}

func newReader(path string, first *conn) *Reader {
	r := &Reader{}
	r.readers.dial = func() (*conn, error) { return dialQuiet(path, DefaultBusyTimeout) }
	r.readers.free, r.readers.open = []*conn{first}, 1
	return r
}

// Held tells who is the session's writer at a time in Unix ms: nil when nobody is,
// because there is no lease, its term is over, or its holder is provably dead.
func (r *Reader) Held(now int64) (held *storage.LeaseHeld, err error) {
	return r.held(now, thisProcess(), running)
}

func (r *Reader) held(now int64, self Process, running Running) (held *storage.LeaseHeld, err error) {
	err = r.view(func(c *conn) error {
		_, lease, err := readState(c)
		if err == nil && !claimable(lease, now, self, running) {
			held = lease.held()
		}
		return err
	})
	return held, err
}

// Close releases the handle; a second call returns the first outcome.
func (r *Reader) Close() error {
	r.closing.Do(func() { r.outcome = readFault(r.readers.close()) })
	return r.outcome
}

// Summary is what a list of sessions shows.
type Summary struct {
	Version    int64
	Created    int64        // Unix ms
	ID, Parent id.SessionID // absent when not recorded
	Generation int64
	Stats      storage.Stats
}

// Peek reads the summary of an existing session. It never creates a file. The
// error is *storage.OpenFailed or *storage.UnsupportedVersion.
func Peek(path string) (Summary, error) {
	var seen state
	c, err := look(path, func(c *conn) (_ bool, err error) {
		seen, err = inspect(c, current.reads)
		return seen.exists, err
	})
	if err != nil {
		return Summary{}, err
	}
	s := Summary{Version: Version, Created: seen.session.createdAt, Generation: seen.session.generation}
	var counters error
	s.ID, s.Parent, err = seen.session.identity()
	s.Stats, counters = seen.session.stats()
	if err := errors.Join(err, counters, c.Close()); err != nil {
		return Summary{}, openFault(path, err)
	}
	return s, nil
}

// look opens a quiet connection to an existing session of our version. judge sees
// it inside a read transaction and says whether there is a session.
func look(path string, judge func(*conn) (exists bool, err error)) (*conn, error) {
	if err := checkPath(path, false); err != nil {
		return nil, err
	}
	c, err := dialQuiet(path, DefaultBusyTimeout)
	if err != nil {
		return nil, openFault(path, err)
	}
	err = c.Within("BEGIN", func() error {
		exists, err := judge(c)
		if err == nil && !exists {
			err = emptyFile(path)
		}
		if moved := c.unmoved(); moved != nil {
			err = &storage.OpenFailed{Reason: moved.Error(), Err: moved}
		}
		return err
	})
	if err != nil {
		return nil, openFault(path, errors.Join(err, c.Close()))
	}
	return c, nil
}
