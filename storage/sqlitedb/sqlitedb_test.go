package sqlitedb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	driversqlite "modernc.org/sqlite"
)

func mustOpen(t *testing.T, path string, o Options) *Conn {
	t.Helper()
	c, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestEveryPragmaIsSetAndReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	w := mustOpen(t, path, Options{Create: true, Synchronous: Normal, CacheKiB: 100, More: [][2]string{{"secure_delete", "1"}}})
	r := mustOpen(t, path, Options{ReadOnly: true})
	common := map[string]string{"busy_timeout": "5000", "foreign_keys": "1", "temp_store": "2", "trusted_schema": "0", "cell_size_check": "1", "journal_mode": "wal"}
	for c, more := range map[*Conn]map[string]string{
		w: {"synchronous": "1", "cache_size": "-100", "query_only": "0", "secure_delete": "1", "wal_autocheckpoint": "1000"},
		r: {"synchronous": "2", "cache_size": "-4096", "query_only": "1"},
	} {
		for _, list := range []map[string]string{common, more} {
			for name, want := range list {
				var got string
				if err := c.Once("PRAGMA "+name, func(r Row) { got = fmt.Sprint(r[0]) }); err != nil || got != want {
					t.Errorf("%s is %q, %v, want %q", name, got, err, want)
				}
			}
		}
	}
	if !driversqlite.FdatasyncEnabled() || !driversqlite.OFDLockingEnabled() {
		t.Errorf("fdatasync %v, open-file-description locks %v", driversqlite.FdatasyncEnabled(), driversqlite.OFDLockingEnabled())
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
	if _, err := r.Exec("CREATE TABLE t (x)"); Classify(err) != FaultReadOnly {
		t.Errorf("a reader made a table: %v", err)
	}
	if _, err := Open(path, Options{More: [][2]string{{"cache_size", "nonsense"}}}); err == nil || !strings.Contains(err.Error(), `not "nonsense"`) {
		t.Errorf("a PRAGMA that was not taken: %v", err)
	}
}

func TestWhatCannotBeOpenedIsRefusedBeforeItIsTouched(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link, besides := filepath.Join(dir, "link"), filepath.Join(dir, "b.db")
	if err := errors.Join(os.Symlink(write("target", ""), link), os.Mkdir(besides+"-wal", 0o700)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"": "needs a file", ":memory:": "needs a file", dir: "a folder", link: "symbolic link", besides: "b.db-wal is not a regular file",
		write("short", "not a database"): "no database", filepath.Join(dir, "none", "x.db"): "folder does not exist",
	} {
		for _, create := range []bool{false, true} {
			_, err := Open(path, Options{Create: create})
			if no, ok := errors.AsType[*Unopenable](err); !ok || !strings.Contains(no.Reason, want) {
				t.Errorf("%q: %v, want %q", path, err, want)
			}
		}
	}
	missing := filepath.Join(dir, "missing.db")
	for _, o := range []Options{{}, {ReadOnly: true}, {ReadOnly: true, Create: true}} {
		if _, err := Open(missing, o); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a refused opening made a file")
	}
}

func TestAFailedOpeningHoldsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); Classify(err) != FaultForeign {
		t.Fatalf("opened: %v", err)
	}
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("this system does not list open files")
	}
	for _, fd := range list {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(target, path) {
			t.Errorf("%s is still open", target)
		}
	}
}

func TestATransactionIsKeptWholeOrNotAtAll(t *testing.T) {
	c := mustOpen(t, filepath.Join(t.TempDir(), "x.db"), Options{Create: true})
	count := func() (n int64) {
		if err := c.Once("SELECT count(*) FROM t", func(r Row) { n, _ = r[0].(int64) }); err != nil {
			t.Error(err)
		}
		return n
	}
	insert := func() error { _, err := c.Exec("INSERT INTO t VALUES (?)", int64(1)); return err }
	if _, err := c.Exec("CREATE TABLE t (x UNIQUE) STRICT"); err == nil {
		t.Error("a column without a type in a STRICT table")
	}
	if _, err := c.Exec("CREATE TABLE t (x INTEGER UNIQUE) STRICT"); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("failed")
	if err := c.Within("BEGIN IMMEDIATE", func() error { return errors.Join(insert(), failed) }); !errors.Is(err, failed) || count() != 0 {
		t.Errorf("%v, %d rows", err, count())
	}
	if err := c.Within("BEGIN IMMEDIATE", insert); err != nil || count() != 1 {
		t.Errorf("%v, %d rows", err, count())
	}
	if err := c.Within("BEGIN IMMEDIATE", insert); Classify(err) != FaultDuplicate || count() != 1 {
		t.Errorf("%v, %d rows", err, count())
	}
}

func TestTablesAreMadeOnceAndThoseOfAnotherVersionAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	tables := []string{"CREATE TABLE a (x INTEGER)", "CREATE TABLE b (y INTEGER)"}
	for range 2 {
		c, err := Open(path, Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.Prepare(3, tables), c.Close()); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Prepare(4, tables); !errors.Is(err, ErrVersion) || !Spoilt(err) {
		t.Errorf("tables of another version: %v", err)
	}
	if err := errors.Join(c.Close(), Delete(path), Delete(path)); err != nil {
		t.Fatal(err)
	}
	if c, err = Open(path, Options{Create: true}); err != nil {
		t.Fatal(err)
	}
	if err := c.Prepare(1, []string{"CREATE TABLE a (x INTEGER)", "no statement"}); err == nil || Spoilt(err) {
		t.Errorf("a table that cannot be made: %v", err)
	}
	if r, _, err := c.One("SELECT count(*) FROM sqlite_schema"); err != nil || r[0] != int64(0) {
		t.Errorf("a part of the tables was made: %v, %v", r, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}
