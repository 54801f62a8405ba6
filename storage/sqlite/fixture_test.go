package sqlite

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"

	"github.com/loom-run/loom/storage/sqlitedb"
)

// fakeClock is a clock that tests move.
type fakeClock struct{ ms int64 }

func (c *fakeClock) now() int64 { return c.ms }

const epoch = 1_767_225_600_000

// newConfig opens a fresh session in a folder of its own, flushing nothing.
func newConfig(t testing.TB) (Config, *fakeClock) {
	c := &fakeClock{epoch}
	return Config{Path: filepath.Join(t.TempDir(), "session.db"), Owner: "first", Clock: c.now, Create: true, Synchronous: off}, c
}

func mustOpen(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustClose(t testing.TB, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// minter gives ids that no other minter of the test gives.
type minter struct{ ids id.Generator }

func newMinter(seed uint64) *minter { return &minter{id.NewGenerator(clock.Fixed(epoch), seed)} }

func (m *minter) entry() (i id.EntryID) {
	i, m.ids = m.ids.Entry()
	return i
}

func said(i, parent id.EntryID, text string) entry.Entry {
	return entry.Entry{ID: i, Parent: parent, Body: entry.Message{Message: &message.User{Content: []message.UserBlock{message.Text{Text: text}}}}}
}

// chain commits n messages, one for each transaction, and returns their ids.
func chain(t testing.TB, s *Store, m *minter, parent id.EntryID, n int) (ids []id.EntryID) {
	t.Helper()
	for k := range n {
		e := said(m.entry(), parent, fmt.Sprint("message ", k))
		if _, err := s.Commit(tx.Tx{Writes: []tx.Write{tx.InsertEntry{Entry: e}, tx.Set(register.StrandLeaf, "main", register.Leaf(e.ID))}}); err != nil {
			t.Fatalf("commit %d: %v", k, err)
		}
		parent = e.ID
		ids = append(ids, e.ID)
	}
	return ids
}

// sound fails the test unless a check of the file finds nothing.
func sound(t testing.TB, path string) {
	t.Helper()
	findings, err := Check(path)
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	for _, f := range findings {
		t.Errorf("check found %s", f)
	}
}

// edit runs SQL on a session file that nobody has open.
func edit(t testing.TB, path string, statements ...string) {
	t.Helper()
	c, err := dial(path, sqlitedb.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range statements {
		if err := c.Once(text, nil); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	mustCloseConn(t, c)
}

func mustCloseConn(t testing.TB, c *conn) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// folder is what a folder holds: the digest of each file but the index of a log,
// which readers may rebuild.
func folder(t testing.TB, path string) string {
	t.Helper()
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range list {
		content, err := os.ReadFile(filepath.Join(filepath.Dir(path), f.Name()))
		if err != nil || strings.HasSuffix(f.Name(), "-shm") {
			fmt.Fprintf(&out, "%s\n", f.Name())
			continue
		}
		fmt.Fprintf(&out, "%s %x\n", f.Name(), sha256.Sum256(content))
	}
	return out.String()
}

// crashed copies an open session as a crash of its process would leave it.
func crashed(t testing.TB, s *Store) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "crashed.db")
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(s.cfg.Path + suffix)
		if err == nil {
			err = os.WriteFile(path+suffix, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// Child processes: the test binary runs itself in one of these roles.

const roleEnv, pathEnv = "LOOM_TEST_ROLE", "LOOM_TEST_PATH"

var roles = map[string]func(path string) error{
	"commit until killed":     commitUntilKilled,
	"create and hold":         createAndHold,
	"write under OFD locks":   writeBesideStrays,
	"write under POSIX locks": writeUnderPOSIXLocks,
	"visit":                   visit,
	"rewrite":                 dieRewriting,
	"write beyond a limit":    writeBeyondLimit,
	"migrate":                 migrateForAWhile,
}

func TestMain(m *testing.M) {
	if role, ok := os.LookupEnv(roleEnv); ok {
		if err := roles[role](os.Getenv(pathEnv)); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child is a process in a role. Its standard output is a sequence of lines.
type child struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func start(t testing.TB, role, path string, env ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(append(os.Environ(), roleEnv+"="+role, pathEnv+"="+path), env...)
	c.cmd.Stderr = os.Stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.in, c.lines = in, bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill(); _ = c.cmd.Wait() })
	return c
}

// line is the next line of output, "" at its end.
func (c *child) line() string {
	c.lines.Scan()
	return c.lines.Text()
}

// rest is all output to come.
func (c *child) rest() (lines []string) {
	for c.lines.Scan() {
		lines = append(lines, c.lines.Text())
	}
	return lines
}

// tell sends a line.
func (c *child) tell() {
	c.t.Helper()
	if _, err := io.WriteString(c.in, "go\n"); err != nil {
		c.t.Fatal(err)
	}
}

// kill ends the process at once and returns what it had still said.
func (c *child) kill() []string {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	lines := c.rest()
	_ = c.cmd.Wait()
	return lines
}

// wait waits for the end of the process and returns what it had still said.
func (c *child) wait() []string {
	c.t.Helper()
	c.in.Close()
	lines := c.rest()
	if err := c.cmd.Wait(); err != nil {
		c.t.Fatalf("%v: %q", err, lines)
	}
	return lines
}

// told waits for a line of the parent; the end of input is one too.
func told(in *bufio.Reader) { _, _ = in.ReadString('\n') }

func asType[E error](t testing.TB, err error) E {
	t.Helper()
	e, ok := errors.AsType[E](err)
	if !ok {
		t.Fatalf("got %T %v, want %T", err, err, e)
	}
	return e
}
