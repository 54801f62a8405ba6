package sqlite

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "unsafe" // for the name of another package's variable

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
	"golang.org/x/sys/unix"
	driversqlite "modernc.org/sqlite"
)

func wallClock() int64 { return time.Now().UnixMilli() }

// acknowledge commits n messages, or until an error, and says for each, once
// Commit has returned, where it is.
func acknowledge(s *Store, ids id.Generator, parent id.EntryID, n int) (id.Generator, id.EntryID, error) {
	for k := 0; n < 0 || k < n; k++ {
		var i id.EntryID
		i, ids = ids.Entry()
		t := tx.Tx{Writes: []tx.Write{
			tx.InsertEntry{Entry: said(i, parent, strings.Repeat("text ", 50))},
			tx.Set(register.StrandLeaf, "main", register.Leaf(i)),
		}}
		r, err := s.Commit(t)
		if err != nil {
			return ids, parent, err
		}
		fmt.Println(r.FirstSeq, i)
		parent = i
	}
	return ids, parent, nil
}

func freshIDs() id.Generator { return id.NewGenerator(clock.Real(wallClock), rand.Uint64()) }

// leafOf is where the session's strand ends.
func leafOf(s storage.Reader) (id.EntryID, error) {
	cell, _, err := s.Register(register.StrandLeaf, "main")
	if err != nil {
		return id.EntryID{}, err
	}
	return register.DecodeLeaf(cell.Value)
}

// allThere fails unless every acknowledged line is a stored entry.
func allThere(t *testing.T, s storage.Reader, acknowledged []string) (missing int) {
	t.Helper()
	entries, err := s.ScanEntries(storage.EntryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]bool{}
	for _, e := range entries {
		stored[fmt.Sprint(e.Seq, " ", e.ID)] = true
	}
	for _, line := range acknowledged {
		if !stored[line] {
			missing++
		}
	}
	return missing
}

// TestTortureKilledWriter kills a process that commits, again and again, on one
// file. LOOM_TORTURE is the number of kills.
func TestTortureKilledWriter(t *testing.T) {
	kills := 30
	if text, ok := os.LookupEnv("LOOM_TORTURE"); ok {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("LOOM_TORTURE: %v", err)
		}
		kills = n
	}
	cfg, _ := newConfig(t)
	cfg.Clock, cfg.Synchronous = wallClock, Full
	mustClose(t, mustOpen(t, cfg))
	var acknowledged []string
	random := rand.New(rand.NewPCG(1, 2))
	for k := range kills {
		c := start(t, "commit until killed", cfg.Path)
		for range 1 + random.IntN(40) {
			line := c.line()
			if line == "" || strings.HasPrefix(line, "error") {
				t.Fatalf("kill %d: the child said %q", k, line)
			}
			acknowledged = append(acknowledged, line)
		}
		acknowledged = append(acknowledged, c.kill()...)
		cfg.Owner = fmt.Sprint("after kill ", k)
		s, err := Open(cfg) // the holder is dead, so there is nothing to wait for
		if err != nil {
			t.Fatalf("kill %d: %v", k, err)
		}
		if n := allThere(t, s, acknowledged); n > 0 {
			t.Fatalf("kill %d: %d of %d acknowledged commits are missing", k, n, len(acknowledged))
		}
		for _, f := range storage.Check(s) {
			t.Errorf("kill %d: %s", k, f)
		}
		mustClose(t, s)
	}
	t.Logf("%d commits acknowledged over %d kills", len(acknowledged), kills)
}

func commitUntilKilled(path string) error {
	s, err := Open(Config{Path: path, Owner: fmt.Sprint("child ", os.Getpid()), Clock: wallClock})
	if err != nil {
		return err
	}
	leaf, err := leafOf(s)
	if err != nil {
		return err
	}
	_, _, err = acknowledge(s, freshIDs(), leaf, -1)
	return err
}

// TestTheLocksSurviveStrayClosings shows that no acknowledged commit is lost
// when the writer's own process opens and closes its file again, through this
// package and past it, while another process opens the file for writing. With
// the default locks the same steps lose commits: that is what the switch is for.
func TestTheLocksSurviveStrayClosings(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("open-file-description locks are Linux's")
	}
	for _, c := range []struct {
		role string
		lost bool
	}{{"write under OFD locks", false}, {"write under POSIX locks", true}} {
		t.Run(c.role, func(t *testing.T) {
			cfg, _ := newConfig(t)
			cfg.Clock = wallClock
			mustClose(t, mustOpen(t, cfg))
			writer := start(t, c.role, cfg.Path)
			acknowledged := until(t, writer, "strayed")
			if said := start(t, "visit", cfg.Path).wait(); strings.Join(said, "; ") != "held; read 5; read 5; read 5" {
				t.Fatalf("the visitor said %q", said)
			}
			writer.tell()
			acknowledged = append(acknowledged, until(t, writer, "done")...)
			writer.kill()

			cfg.Owner = "heir"
			s := mustOpen(t, cfg)
			if n := allThere(t, s, acknowledged); (n > 0) != c.lost {
				t.Errorf("%d of %d acknowledged commits are missing", n, len(acknowledged))
			}
			if !c.lost {
				for _, f := range storage.Check(s) {
					t.Error(f)
				}
			}
		})
	}
}

func until(t *testing.T, c *child, end string) (lines []string) {
	t.Helper()
	for {
		switch line := c.line(); {
		case line == end:
			return lines
		case line == "" || strings.HasPrefix(line, "error"):
			t.Fatalf("the writer said %q after %q", line, lines)
		default:
			lines = append(lines, line)
		}
	}
}

// prepareProcess is what sqlitedb runs before the first database of a process. Nothing
// else may set it: this test shows what is lost without it.
//
//go:linkname prepareProcess github.com/loom-run/loom/storage/sqlitedb.prepareProcess
var prepareProcess func() error

func writeUnderPOSIXLocks(path string) error {
	prepareProcess = func() error { _, err := driversqlite.Fdatasync(true); return err }
	return writeBesideStrays(path)
}

func writeBesideStrays(path string) error {
	s, err := Open(Config{Path: path, Owner: "writer", Clock: wallClock})
	if err != nil {
		return err
	}
	ids, leaf, err := acknowledge(s, freshIDs(), id.EntryID{}, 5)
	if err != nil {
		return err
	}
	if err := stray(path); err != nil {
		return err
	}
	fmt.Println("strayed")
	told(bufio.NewReader(os.Stdin))
	if _, _, err := acknowledge(s, ids, leaf, 5); err != nil {
		return err
	}
	fmt.Println("done")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return errors.New("the writer was not killed")
}

// stray opens and closes the file in every way there is.
func stray(path string) error {
	if _, err := Peek(path); err != nil {
		return err
	}
	r, err := OpenReader(path)
	if err != nil {
		return err
	}
	if _, err := r.Stats(); err != nil {
		return err
	}
	if err := r.Close(); err != nil {
		return err
	}
	if _, err := Open(Config{Path: path, Owner: "second handle", Clock: wallClock}); err == nil {
		return errors.New("a second handle was opened")
	}
	for _, suffix := range []string{"", "-wal", "-shm"} { // what nobody else may do
		if _, err := os.ReadFile(path + suffix); err != nil {
			return err
		}
	}
	return nil
}

// visit does from another process what may be done beside a writer: a writer's
// opening, which is refused, two readers', and that of any tool for SQLite.
func visit(path string) error {
	_, err := Open(Config{Path: path, Owner: "visitor", Clock: wallClock})
	if _, held := errors.AsType[*storage.LeaseHeld](err); !held {
		return fmt.Errorf("open: %w", err)
	}
	fmt.Println("held")
	sum, err := Peek(path)
	if err != nil {
		return err
	}
	fmt.Println("read", sum.Stats.Messages)
	r, err := OpenReader(path)
	if err != nil {
		return err
	}
	entries, err := r.ScanEntries(storage.EntryQuery{})
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	fmt.Println("read", len(entries))
	tool, err := dial(path, sqlitedb.ReadWrite)
	if err != nil {
		return err
	}
	err = tool.Once("SELECT count(*) FROM entries", func(r row) { fmt.Println("read", r[0]) })
	return errors.Join(err, tool.Close())
}

// TestAFailedFlushEndsTheHandle lets a child run into the limit of its file
// size: the disk's answer is an error, and nobody knows what of the commit is
// there until the file is opened again.
func TestAFailedFlushEndsTheHandle(t *testing.T) {
	cfg, _ := newConfig(t)
	cfg.Clock = wallClock
	s := mustOpen(t, cfg)
	chain(t, s, newMinter(1), id.EntryID{}, 2)
	mustClose(t, s)
	said := start(t, "write beyond a limit", cfg.Path).wait()
	if n := len(said); n < 3 || !strings.Contains(said[n-2], "while a change was being flushed") || !strings.Contains(said[n-1], "earlier change could not be flushed") {
		t.Fatalf("the child said %q", said)
	}
	cfg.Owner = "heir"
	s = mustOpen(t, cfg)
	if n := allThere(t, s, said[:len(said)-2]); n > 0 {
		t.Errorf("%d acknowledged commits are missing", n)
	}
	mustClose(t, s)
	sound(t, cfg.Path)
}

func writeBeyondLimit(path string) error {
	signal.Ignore(unix.SIGXFSZ)
	s, err := Open(Config{Path: path, Owner: "limited", Clock: wallClock})
	if err != nil {
		return err
	}
	leaf, err := leafOf(s)
	if err != nil {
		return err
	}
	const limit = 200_000
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: unix.RLIM_INFINITY}); err != nil {
		return err
	}
	ids, leaf, err := acknowledge(s, freshIDs(), leaf, -1)
	fmt.Println(err)
	_, _, err = acknowledge(s, ids, leaf, 1)
	fmt.Println(err)
	return nil // the process ends here, as after a crash
}
