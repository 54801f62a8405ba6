package sqlite

import (
	_ "embed" // the blank file
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/loom-run/loom/storage/sqlitedb"
)

// blank is a session file before its session: the tables, the switch to the log, and
// no row. It is written whole, so that a session begins with two flushes of a small
// file in place of two transactions under a rollback journal, and without the cost of
// making tables. A test compares it with schema, and writes it anew.
//
//go:embed blank.db
var blank []byte

// versionless is the version of a blank file: the session row brings one.
const versionless = -1

// found makes the file of a new session: blank where the system can make it whole
// or not at all, empty elsewhere. A file that is there already stays as it is.
func found(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := placeBlank(path); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return createFile(path)
}

// createFile makes an empty file that only its owner may read. The file is new,
// so nobody's locks are dropped by closing it.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// isBlank reports whether a file without a version holds no row of any kind: its
// maker was killed before the session row was written, and nobody was told of it.
func isBlank(c *conn) (bool, error) {
	tables := [...]string{"session", "writer_lease", "ids", "entries", "usage_ledger", "registers"}
	if _, _, err := c.One("SELECT 1 FROM " + strings.Join(tables[:], ", ") + " LIMIT 0"); sqlitedb.Classify(err) == sqlitedb.FaultOther && err != nil {
		return false, nil //nolint:nilerr // other tables: its version says the rest
	} else if err != nil {
		return false, err
	}
	for _, table := range tables {
		if _, some, err := c.One("SELECT 1 FROM " + table); err != nil || some {
			return false, err
		}
	}
	return true, nil
}
