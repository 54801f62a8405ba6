package sqlite

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// future is a format two versions ahead, with a step that says that it ran.
func future(steps ...int64) *format {
	f := &format{version: Version + 2, steps: map[int64]func(*conn) error{}}
	for _, from := range steps {
		f.steps[from] = func(c *conn) error {
			return c.Once(fmt.Sprintf("CREATE TABLE step_from_%d (x)", from), nil)
		}
	}
	return f
}

func versionOf(t *testing.T, path string) (version int64, tables string) {
	t.Helper()
	c, err := dial(path, sqlitedb.ReadTidy)
	if err != nil {
		t.Fatal(err)
	}
	defer mustCloseConn(t, c)
	if err := c.Once("PRAGMA user_version", func(r row) { version, _ = r[0].(int64) }); err != nil {
		t.Fatal(err)
	}
	if err := c.Once("SELECT coalesce(group_concat(name), '') FROM sqlite_schema WHERE name LIKE 'step%'", func(r row) { tables, _ = r[0].(string) }); err != nil {
		t.Fatal(err)
	}
	return version, tables
}

func TestAnOlderSessionIsBroughtStepByStep(t *testing.T) {
	cfg, _ := newConfig(t)
	s := mustOpen(t, cfg)
	chain(t, s, newMinter(1), id.EntryID{}, 3)
	mustClose(t, s)
	cfg.Owner, cfg.format = "newer build", future(1, 2)
	s = mustOpen(t, cfg)
	if rows, err := s.ScanEntries(storage.EntryQuery{}); err != nil || len(rows) != 3 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	mustClose(t, s)
	if v, tables := versionOf(t, cfg.Path); v != 3 || tables != "step_from_1,step_from_2" {
		t.Errorf("version %d, %s", v, tables)
	}
}

func TestAGapInTheChainIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	for _, log := range []bool{false, true} {
		cfg, clock := newConfig(t)
		s := mustOpen(t, cfg)
		chain(t, s, newMinter(1), id.EntryID{}, 3)
		if log {
			cfg.Path = crashed(t, s)
		}
		mustClose(t, s)
		if _, err := Peek(cfg.Path); err != nil { // the index of a log that has none is not a change
			t.Fatal(err)
		}
		before := folder(t, cfg.Path)
		clock.ms += 10 * DefaultLeaseTTL.Milliseconds()
		cfg.Owner, cfg.format = "newer build", future(1)
		_, err := Open(cfg)
		if v := asType[*storage.UnsupportedVersion](t, err); v.Found != 1 || v.Supported != 3 || v.Migrates {
			t.Errorf("%+v", v)
		}
		if folder(t, cfg.Path) != before {
			t.Errorf("log %v: the refused opening wrote", log)
		}
	}
}

// TestAFailedStepKeepsTheStepsBefore fails the second of two steps, as a crash or a
// full disk would, and opens again.
func TestAFailedStepKeepsTheStepsBefore(t *testing.T) {
	cfg, _ := newConfig(t)
	s := mustOpen(t, cfg)
	chain(t, s, newMinter(1), id.EntryID{}, 3)
	mustClose(t, s)
	cfg.Owner, cfg.format = "newer build", future(1, 2)
	run := cfg.format.steps[2]
	broken := errors.New("no room")
	cfg.format.steps[2] = func(c *conn) error { return errors.Join(run(c), broken) }
	_, err := Open(cfg)
	if failed := asType[*storage.OpenFailed](t, err); !errors.Is(err, broken) || !strings.Contains(failed.Reason, "it stays in format 2 and keeps everything") {
		t.Errorf("%v", err)
	}
	if v, tables := versionOf(t, cfg.Path); v != 2 || tables != "step_from_1" {
		t.Errorf("version %d, %s", v, tables)
	}
	cfg.Owner, cfg.format.steps[2] = "again", run
	mustClose(t, mustOpen(t, cfg))
	if v, tables := versionOf(t, cfg.Path); v != 3 || tables != "step_from_1,step_from_2" {
		t.Errorf("version %d, %s", v, tables)
	}
}

// slowly is a format two versions ahead. Each of its steps makes tables one by one and
// says so.
func slowly() *format {
	f := future()
	for _, from := range []int64{1, 2} {
		f.steps[from] = func(c *conn) error {
			for n := range 20 {
				fmt.Println("step", from, n)
				if err := c.Once(fmt.Sprintf("CREATE TABLE step_from_%d_%d AS SELECT * FROM entries", from, n), nil); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return f
}

func migrateForAWhile(path string) error {
	s, err := Open(Config{Path: path, Owner: fmt.Sprint("child ", os.Getpid()), Clock: wallClock, format: slowly()})
	if err != nil {
		return err
	}
	fmt.Println("opened")
	return s.Close()
}

// TestTortureKilledMigration kills a process that migrates, at each word that it says. The session is in one of the formats, whole, with every row, and the
// next opening brings it to the end.
func TestTortureKilledMigration(t *testing.T) {
	cfg, _ := newConfig(t)
	cfg.Clock = wallClock
	s := mustOpen(t, cfg)
	chain(t, s, newMinter(1), id.EntryID{}, 40)
	mustClose(t, s)
	released := readFile(t, cfg.Path)
	reached := map[string]int{}
	for words := 1; words <= 41; words += 2 {
		if err := os.WriteFile(cfg.Path, released, 0o600); err != nil {
			t.Fatal(err)
		}
		c := start(t, "migrate", cfg.Path)
		for range words {
			if line := c.line(); line == "" || strings.HasPrefix(line, "error") {
				t.Fatalf("the child said %q", line)
			}
		}
		c.kill()
		version, tables := versionOf(t, cfg.Path)
		count := 0
		if tables != "" {
			count = 1 + strings.Count(tables, ",")
		}
		if int64(count) != 20*(version-1) {
			t.Errorf("killed after %d words: format %d with %d of its tables", words, version, count)
		}
		reached[fmt.Sprint("format ", version)]++
		cfg.Owner, cfg.format = fmt.Sprint("after ", words), slowly()
		s := mustOpen(t, cfg)
		if rows, err := s.ScanEntries(storage.EntryQuery{}); err != nil || len(rows) != 40 {
			t.Errorf("killed after %d words: %d rows, %v", words, len(rows), err)
		}
		mustClose(t, s)
		if v, _ := versionOf(t, cfg.Path); v != 3 {
			t.Errorf("killed after %d words: it came to format %d", words, v)
		}
	}
	if len(reached) < 3 {
		t.Errorf("every kill came at the same stage: %v", reached)
	}
}

func TestReadersDoNotMigrate(t *testing.T) {
	f := future(1, 2)
	if v := asType[*storage.UnsupportedVersion](t, f.reads(1)); !v.Migrates || !strings.Contains(v.Error(), "format 1") || !strings.Contains(v.Error(), "format 3") {
		t.Errorf("%v", v)
	}
	if v := asType[*storage.UnsupportedVersion](t, f.reads(4)); v.Migrates || !strings.Contains(v.Error(), "use a newer loom") {
		t.Errorf("%v", v)
	}
	if err := f.reads(3); err != nil {
		t.Error(err)
	}
}
