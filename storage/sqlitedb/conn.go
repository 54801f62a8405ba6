package sqlitedb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	driversqlite "modernc.org/sqlite"
)

// prepareProcess sets the two switches that must precede the first database of a
// process. Where the system has neither, SQLite's defaults stay: the format page
// says what is then left.
var prepareProcess = sync.OnceValue(func() error {
	if _, err := driversqlite.OFDLocking(true); err != nil && !errors.Is(err, driversqlite.ErrOFDLockingUnavailable) {
		return fmt.Errorf("open-file-description locks: %w", err)
	}
	if _, err := driversqlite.Fdatasync(true); err != nil && !errors.Is(err, driversqlite.ErrFdatasyncUnavailable) {
		return fmt.Errorf("fdatasync: %w", err)
	}
	return nil
})

// Access is how a connection opens the file.
type Access uint8

const (
	ReadWrite   Access = iota // the file must exist
	ReadTidy                  // reads; the system files that it makes go with it
	ReadPassive               // reads; a log with content stays as it is
	ReadFrozen                // reads a file without a log where no file can be made beside it, and takes no locks
)

// Row is one row of a result: int64, float64, string, []byte or nil.
type Row []driver.Value

// Conn is one connection. It is used by one goroutine at a time. The driver is
// used without database/sql: a file has one writer, and the layer would cost a
// fifth of every short statement.
type Conn struct {
	c     driver.Conn
	path  string // absolute
	stmts map[string]*stmt
}

type stmt struct {
	s    statement
	args []driver.NamedValue // reused from call to call
}

// statement is what the driver's prepared statements are.
type statement interface {
	driver.StmtExecContext
	driver.StmtQueryContext
	Close() error
}

// neverDone is the context of every statement: the driver watches a context that
// can end, which costs more than a short statement does, and the writer's
// statements must not be cut off.
var neverDone = context.Background()

// Dial opens a connection to an existing file. None of its PRAGMAs is set: [Conn.Tune]
// comes next, and [Conn.Steady] as soon as the file is known to be what the caller
// took it for. [Open] does all of it. Callers refuse with [CheckPath] before.
func Dial(path string, a Access) (*Conn, error) {
	if err := prepareProcess(); err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	mode := "rw"
	switch a {
	case ReadWrite, ReadTidy:
	case ReadPassive:
		mode = "ro"
	case ReadFrozen:
		mode = "ro&immutable=1"
	}
	// As a URI, because a plain name ends at its first question mark.
	name := (&url.URL{Scheme: "file", Path: filepath.ToSlash(abs), RawQuery: "mode=" + mode + "&_dqs=0&_defensive=1&_error_rc=1"}).String()
	c, err := new(driversqlite.Driver).Open(name)
	if err != nil {
		return nil, err
	}
	return &Conn{c: c, path: abs, stmts: make(map[string]*stmt)}, nil
}

// Path is the absolute path of the file.
func (c *Conn) Path() string { return c.path }

func (c *Conn) prepare(text string) (*stmt, error) {
	if s, ok := c.stmts[text]; ok {
		return s, nil
	}
	s, err := c.c.Prepare(text)
	if err != nil {
		return nil, err
	}
	full, ok := s.(statement)
	if !ok {
		return nil, fmt.Errorf("the driver's statements are %T", s)
	}
	p := &stmt{s: full}
	c.stmts[text] = p
	return p, nil
}

func (s *stmt) bind(args []any) []driver.NamedValue {
	s.args = s.args[:0]
	for i, a := range args {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return s.args
}

// Exec runs one statement. Arguments are int64, string, []byte or nil.
func (c *Conn) Exec(text string, args ...any) (changed int64, err error) {
	s, err := c.prepare(text)
	if err != nil {
		return 0, err
	}
	res, err := s.s.ExecContext(neverDone, s.bind(args))
	clear(s.args) // so that a large payload is not kept alive
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Each runs a query and shows its rows until visit returns false. The row is
// reused; its blobs are not.
func (c *Conn) Each(text string, visit func(row Row) (bool, error), args ...any) error {
	s, err := c.prepare(text)
	if err != nil {
		return err
	}
	rows, err := s.s.QueryContext(neverDone, s.bind(args))
	clear(s.args)
	if err != nil {
		return err
	}
	dest := make(Row, len(rows.Columns()))
	for {
		if err = rows.Next(dest); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			break
		}
		more, verr := visit(dest)
		if verr != nil || !more {
			err = verr
			break
		}
	}
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	return err
}

// One runs a query of at most one row.
func (c *Conn) One(text string, args ...any) (found Row, ok bool, err error) {
	err = c.Each(text, func(r Row) (bool, error) {
		found, ok = r, true
		return false, nil
	}, args...)
	return found, ok, err
}

// Close ends the statements first: SQLite keeps a connection with open ones
// alive, with its locks.
func (c *Conn) Close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.s.Close())
	}
	c.stmts = nil
	return errors.Join(append(errs, c.c.Close())...)
}

// Within runs f inside a transaction that begins with begin. An error of f rolls
// everything back.
func (c *Conn) Within(begin string, f func() error) error {
	if _, err := c.Exec(begin); err != nil {
		return err
	}
	if err := f(); err != nil {
		c.Rollback()
		return err
	}
	if _, err := c.Exec("COMMIT"); err != nil {
		c.Rollback()
		return &CommitError{err}
	}
	return nil
}

// Rollback ends the transaction. Some faults have ended it already, which is not
// an error here; if anything else went wrong, the next BEGIN says so.
func (c *Conn) Rollback() { _, _ = c.Exec("ROLLBACK") }

// CommitError marks a failure of COMMIT itself: after a failed flush the outcome
// is known only after recovery.
type CommitError struct{ err error }

func (e *CommitError) Error() string { return e.err.Error() }
func (e *CommitError) Unwrap() error { return e.err }

// Synchronous is how far a commit is carried before it is acknowledged.
type Synchronous uint8

const (
	// Full flushes the log at every commit: it survives a power cut as far as the
	// disk is honest.
	Full Synchronous = iota
	// Normal flushes at checkpoints: a power cut, unlike a crash of the process,
	// may lose the last commits, but never part of one.
	Normal
	// Off never flushes: for tests that do not ask about power.
	Off
)

// Pragma is the value as PRAGMA synchronous takes and gives it.
func (s Synchronous) Pragma() string { return strconv.Itoa(int(2 - s)) }

func (s Synchronous) String() string { return [...]string{"FULL", "NORMAL", "OFF"}[s] }

// Tune sets what holds for a connection alone and changes no file.
func (c *Conn) Tune(busy time.Duration, sync Synchronous, cacheKiB int) error {
	return c.Pragmas([][2]string{
		{"busy_timeout", strconv.FormatInt(busy.Milliseconds(), 10)},
		{"foreign_keys", "1"},
		{"synchronous", sync.Pragma()},
		{"cache_size", strconv.Itoa(-cacheKiB)},
		{"mmap_size", "0"},
		{"temp_store", "2"},
		{"trusted_schema", "0"},
		{"cell_size_check", "1"},
	})
}

// Steady sets how the log is kept. It may change the file, so it comes after the
// file is known to be what the caller took it for.
func (c *Conn) Steady() error {
	return c.Pragmas([][2]string{
		{"journal_mode", "wal"},
		{"wal_autocheckpoint", "1000"},
		{"journal_size_limit", "-1"},
	})
}

// ReadOnly makes a statement that writes fail.
func (c *Conn) ReadOnly() error { return c.Pragmas([][2]string{{"query_only", "1"}}) }

// Pragmas sets each and reads it back: SQLite ignores what it cannot do.
func (c *Conn) Pragmas(list [][2]string) error {
	for _, p := range list {
		name, want := p[0], p[1]
		if err := c.Once("PRAGMA "+name+"="+want, nil); err != nil {
			return fmt.Errorf("PRAGMA %s: %w", name, err)
		}
		var got string
		err := c.Once("PRAGMA "+name, func(r Row) { got = fmt.Sprint(r[0]) })
		if err != nil {
			return fmt.Errorf("PRAGMA %s: %w", name, err)
		}
		if got == "" && name == "mmap_size" {
			got = "0" // a build without memory mapping has no answer
		}
		if got != want {
			return fmt.Errorf("PRAGMA %s is %q and not %q", name, got, want)
		}
	}
	return nil
}

// Once runs a statement that is not worth keeping.
func (c *Conn) Once(text string, visit func(Row)) error {
	defer func() {
		if s, ok := c.stmts[text]; ok {
			delete(c.stmts, text)
			_ = s.s.Close()
		}
	}()
	return c.Each(text, func(r Row) (bool, error) {
		if visit != nil {
			visit(r)
		}
		return true, nil
	})
}
