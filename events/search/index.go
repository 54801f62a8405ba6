package search

import (
	"errors"
	"fmt"
	"sync"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// schemaVersion is raised when the tables or the tokens change. A file of another version
// is made again: it has nothing that cannot be read anew.
const schemaVersion = 2

// schema is what a new file is made with. words has the tokens and not the text, which
// would be kept twice.
var schema = []string{
	`CREATE TABLE source (session BLOB PRIMARY KEY, generation INTEGER NOT NULL, high INTEGER NOT NULL, stamp TEXT NOT NULL, workspace TEXT NOT NULL) STRICT, WITHOUT ROWID`,
	`CREATE TABLE row (id INTEGER PRIMARY KEY, session BLOB NOT NULL, entry BLOB NOT NULL, seq INTEGER NOT NULL, role TEXT NOT NULL, tool TEXT NOT NULL, strand TEXT NOT NULL, text TEXT NOT NULL) STRICT`,
	`CREATE INDEX row_session ON row (session, seq)`,
	`CREATE VIRTUAL TABLE words USING fts5 (body, names, facets, content='', contentless_delete=1, tokenize="ascii tokenchars '` + signs + `'")`,
}

// Unusable is an index that cannot be opened or read. [Remake] makes a new one.
type Unusable struct {
	Path string
	Err  error
}

func (e *Unusable) Error() string {
	return fmt.Sprintf("the search index %s cannot be used (%v); no session is touched by that, `loom search rebuild` makes it anew", e.Path, e.Err)
}

func (e *Unusable) Unwrap() error { return e.Err }

// Failed is a read or a write that failed for a passing reason, such as a full disk or another
// process that is slow. What was indexed before is kept.
type Failed struct {
	Path string
	Err  error
}

func (e *Failed) Error() string {
	return fmt.Sprintf("the search index %s could not be read or written (%v); what was indexed before is kept, try again", e.Path, e.Err)
}

func (e *Failed) Unwrap() error { return e.Err }

// Index is an open index. Its methods may be called side by side.
type Index struct {
	path string
	mu   sync.Mutex
	c    *sqlitedb.Conn
}

// Open opens the index at a path, making it if there is none. What is there and is no index
// is [*Unusable]. A path at which none can be is [*Failed], and refused before the database
// tries it.
func Open(path string) (*Index, error) {
	c, err := sqlitedb.Open(path, sqlitedb.Options{
		Create: true, Synchronous: sqlitedb.Normal, CacheKiB: 16 << 10, More: [][2]string{{"secure_delete", "1"}},
	})
	if err == nil {
		if err = c.Prepare(schemaVersion, schema); err != nil {
			err = errors.Join(err, c.Close())
		}
	}
	if err != nil {
		return nil, faultAt(path, err)
	}
	return &Index{path: path, c: c}, nil
}

// Close gives up the file.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.c.Close()
}

// Remake deletes what is at a path, and opens a new index there.
func Remake(path string) (*Index, error) {
	if err := Delete(path); err != nil {
		return nil, err
	}
	return Open(path)
}

// Delete deletes an index with the files that are kept beside it. A process that has it open
// goes on with it, and finds in it what it has.
func Delete(path string) error {
	if err := sqlitedb.Delete(path); err != nil {
		return &Failed{path, err}
	}
	return nil
}

// Known is a session that the index has rows of, or read without finding any.
type Known struct {
	Session    id.SessionID
	Generation int64
	High       int64  // the seq up to which it was read
	Stamp      string // what the host said of its file then
}

// Sources lists the sessions that were read.
func (x *Index) Sources() ([]Known, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []Known
	err := x.c.Each("SELECT session, generation, high, stamp FROM source", func(r sqlitedb.Row) (bool, error) {
		k := Known{Generation: number(r[1]), High: number(r[2]), Stamp: text(r[3])}
		var err error
		if k.Session, err = id.ParseSessionID(sqlitedb.UUIDText(blob(r[0]))); err != nil {
			return false, err
		}
		all = append(all, k)
		return true, nil
	})
	return all, x.fault(err)
}

// Remove takes everything of a session out, in one transaction.
func (x *Index) Remove(s id.SessionID) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.fault(x.c.Within("BEGIN IMMEDIATE", func() error {
		if err := x.clear(sqlitedb.UUID(s)); err != nil {
			return err
		}
		_, err := x.c.Exec("DELETE FROM source WHERE session = ?", sqlitedb.UUID(s))
		return err
	}))
}

// clear takes the rows of a session out.
func (x *Index) clear(session []byte) error {
	if _, err := x.c.Exec("DELETE FROM words WHERE rowid IN (SELECT id FROM row WHERE session = ?)", session); err != nil {
		return err
	}
	_, err := x.c.Exec("DELETE FROM row WHERE session = ?", session)
	return err
}

// Purge makes the file forget what was removed: tokens that no row has any more leave its
// tables, freed pages are zero, and so is the log. It is for erasures, and reads and writes
// the whole index.
func (x *Index) Purge() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, err := x.c.Exec("INSERT INTO words (words) VALUES ('optimize')"); err != nil {
		return x.fault(err)
	}
	return x.fault(x.c.Each("PRAGMA wal_checkpoint(TRUNCATE)", func(r sqlitedb.Row) (bool, error) {
		if number(r[0]) != 0 {
			return false, errors.New("another process reads the index, so its log could not be emptied; try again")
		}
		return false, nil
	}))
}

// Rows is how many entries can be found.
func (x *Index) Rows() (int64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r, _, err := x.c.One("SELECT count(*) FROM row")
	if err != nil {
		return 0, x.fault(err)
	}
	return number(r[0]), nil
}

// fault names the file in an error of its database.
func (x *Index) fault(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*QueryError](err); ok {
		return err
	}
	if _, ok := errors.AsType[*SourceError](err); ok {
		return err
	}
	return faultAt(x.path, err)
}

func faultAt(path string, err error) error {
	if sqlitedb.Spoilt(err) || errors.Is(err, errGone) {
		return &Unusable{path, err}
	}
	return &Failed{path, err}
}

func number(v any) int64 {
	n, _ := v.(int64)
	return n
}

func blob(v any) []byte {
	b, _ := v.([]byte)
	return b
}

func text(v any) string {
	s, _ := v.(string)
	return s
}
