package sqlite

import (
	"path/filepath"

	"github.com/loom-run/loom/storage/sqlitedb"
)

// conn is one connection to a session file. It is used by one goroutine at a time.
type conn struct {
	*sqlitedb.Conn
	still *stamp // of a frozen file, when it was opened; nil for others
}

// row is one row of a result.
type row = sqlitedb.Row

// dial opens a connection whose PRAGMAs are not set yet: a session is first looked at.
func dial(path string, a sqlitedb.Access) (*conn, error) {
	var still *stamp
	if a == sqlitedb.ReadFrozen {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		if still, err = stampOf(abs); err != nil {
			return nil, err
		}
	}
	c, err := sqlitedb.Dial(path, a)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, still: still}, nil
}

// Synchronous is how far a commit is carried before it is acknowledged.
type Synchronous = sqlitedb.Synchronous

const (
	// Full flushes the log at every commit: it survives a power cut as far as the
	// disk is honest.
	Full = sqlitedb.Full
	// Normal flushes at checkpoints: a power cut, unlike a crash of the process,
	// may lose the last commits, but never part of one.
	Normal = sqlitedb.Normal
	// off never flushes: for tests that do not ask about power.
	off = sqlitedb.Off
)

// Cache sizes in KiB. They are limits, not reservations.
const (
	writerCache = 2048
	readerCache = 4096
)
