package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
	"golang.org/x/sys/unix"
)

func TestRefusedOpeningLeavesTheFileAsItWas(t *testing.T) {
	stray := leaseRow{owner: "x", fence: 9, process: Process{PID: 1, Host: "h"}}
	const rebuilt = "CREATE TABLE other AS SELECT * FROM session"
	for name, c := range map[string]struct {
		edit []string
		raw  string // replaces the file
		want string // part of the message
	}{
		"newer version":           {edit: []string{"PRAGMA user_version=7"}, want: "storage format 7 and this build reads up to 1"},
		"older version":           {edit: []string{"PRAGMA user_version=0"}, want: "storage format 0"},
		"another database":        {edit: []string{"PRAGMA application_id=5"}, want: "not a session"},
		"no session row":          {edit: []string{"DELETE FROM session"}, want: "saw none"},
		"several session rows":    {edit: []string{rebuilt, "INSERT INTO other SELECT * FROM session", "DROP TABLE session", "ALTER TABLE other RENAME TO session"}, want: "saw several"},
		"session row is damaged":  {edit: []string{"UPDATE session SET next_seq = next_seq + 1"}, want: "digest"},
		"fence from nowhere":      {edit: []string{fmt.Sprintf("INSERT INTO writer_lease VALUES (1, 'x', 9, 0, 0, 1, 'h', '', %d)", stray.digest())}, want: "a fence up to 1, saw 9"},
		"a table is missing":      {edit: []string{"DROP TABLE session"}, want: "session"},
		"not a database":          {raw: strings.Repeat("This is not a database. ", 400), want: "not a session"},
		"a short file":            {raw: "x", want: "not a session"},
		"a file of zeros":         {raw: strings.Repeat("\x00", 8192), want: "not a session"},
		"an empty file":           {raw: "", want: "empty"},
		"cut in the middle":       {raw: "cut", want: "damaged"},
		"held by somebody else":   {edit: nil, want: "open in another process (pid 77 on elsewhere"},
		"held, with a foreign ID": {edit: nil, want: "ends at"},
	} {
		for _, log := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, log %v", name, log), func(t *testing.T) {
				cfg, clock := newConfig(t)
				s := mustOpen(t, cfg)
				chain(t, s, newMinter(1), id.EntryID{}, 3)
				mustClose(t, s)
				switch {
				case c.raw == "cut":
					content, err := os.ReadFile(cfg.Path)
					if err != nil {
						t.Fatal(err)
					}
					writeFile(t, cfg.Path, string(content[:len(content)/2+100]))
				case strings.HasPrefix(name, "held"):
					held := cfg
					held.Process = Process{PID: 77, Host: "elsewhere"}
					holder := mustOpen(t, held)
					cfg.Path = crashed(t, holder)
					mustClose(t, holder)
				case c.edit != nil:
					edit(t, cfg.Path, c.edit...)
				default:
					writeFile(t, cfg.Path, c.raw)
				}
				if name == "held, with a foreign ID" {
					c.want = time.UnixMilli(epoch + 30_000).Format(time.TimeOnly)
				}
				if log && c.edit != nil {
					cfg.Path = withLog(t, cfg.Path)
				}
				clock.ms++
				before := folder(t, cfg.Path)
				cfg.Owner, cfg.Create = "second", name != "an empty file"
				_, err := Open(cfg)
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("open: %v, want %q in it", err, c.want)
				}
				if after := dropIndex(folder(t, cfg.Path)); after != dropIndex(before) {
					t.Errorf("the refused opening changed\n%s to\n%s", before, after)
				}
			})
		}
	}
}

// withLog copies a file so that its last change lies in a log beside it.
func withLog(t *testing.T, path string) string {
	t.Helper()
	c, err := dial(path, sqlitedb.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer mustCloseConn(t, c)
	if err := c.Once("CREATE TABLE IF NOT EXISTS log_only (x)", nil); err != nil {
		t.Fatal(err)
	}
	s := &Store{cfg: Config{Path: path}}
	return crashed(t, s)
}

// dropIndex ignores the index of a log: a reader makes it anew where a crash
// left a log without one.
func dropIndex(listing string) string {
	lines := strings.Split(listing, "\n")
	kept := lines[:0]
	for _, l := range lines {
		if !strings.HasSuffix(l, "-shm") {
			kept = append(kept, l)
		}
	}
	return strings.Join(kept, "\n")
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpeningRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	file, fifo := filepath.Join(dir, "file"), filepath.Join(dir, "fifo")
	writeFile(t, file, "")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"": "needs a file", ":memory:": "needs a file", dir: "a folder", fifo: "regular file",
		filepath.Join(dir, "none", "s.db"): "folder does not exist", filepath.Join(file, "s.db"): "not a directory",
	} {
		for _, create := range []bool{false, true} {
			_, err := Open(Config{Path: path, Owner: "x", Clock: func() int64 { return 1 }, Create: create})
			failed := asType[*storage.OpenFailed](t, err)
			if !strings.Contains(failed.Reason, want) {
				t.Errorf("%q: %v, want %q in it", path, err, want)
			}
		}
		if _, err := Peek(path); err == nil {
			t.Errorf("peek at %q succeeded", path)
		}
	}
	missing := filepath.Join(dir, "none.db")
	for name, open := range map[string]func() error{
		"Open": func() error {
			_, err := Open(Config{Path: missing, Owner: "x", Clock: func() int64 { return 1 }})
			return err
		},
		"OpenReader": func() error { _, err := OpenReader(missing); return err },
		"Peek":       func() error { _, err := Peek(missing); return err },
		"Check":      func() error { _, err := Check(missing); return err },
	} {
		if err := open(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of a missing file: %v, want fs.ErrNotExist", name, err)
		}
	}
	if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Error("looking at a missing file created it")
	}
}

func TestConfigIsRefusedBeforeTheFileIsTouched(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no clock":       func(c *Config) { c.Clock = nil },
		"no owner":       func(c *Config) { c.Owner = "" },
		"rewrite":        func(c *Config) { c.Owner = "rewrite" },
		"move":           func(c *Config) { c.Owner = "move:1" },
		"negative wait":  func(c *Config) { c.BusyTimeout = -1 },
		"negative lease": func(c *Config) { c.LeaseTTL = -time.Second },
		"tiny lease":     func(c *Config) { c.LeaseTTL = time.Millisecond },
	} {
		cfg, _ := newConfig(t)
		change(&cfg)
		_, err := Open(cfg)
		asType[*storage.OpenFailed](t, err)
		if _, serr := os.Stat(cfg.Path); serr == nil {
			t.Errorf("%s: the file was created", name)
		}
	}
}

func TestAPathMayHoldAnything(t *testing.T) {
	cfg, _ := newConfig(t)
	for _, name := range []string{"a b?mode=memory.db", "%41%00.db", "#x.db", "file:y.db", "ü\xff.db", "a//b&_pragma=user_version(9).db"} {
		cfg.Path = filepath.Join(t.TempDir(), filepath.Base(name))
		s := mustOpen(t, cfg)
		mustClose(t, s)
		if _, err := os.Stat(cfg.Path); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestAFileIsOnlyItsOwners(t *testing.T) {
	cfg, _ := newConfig(t)
	s := mustOpen(t, cfg)
	chain(t, s, newMinter(1), id.EntryID{}, 1)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(cfg.Path + suffix)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", suffix, info.Mode(), err)
		}
	}
}

func TestACreationThatWasCutOffIsTakenUp(t *testing.T) {
	cfg, _ := newConfig(t)
	writeFile(t, cfg.Path, "")
	s := mustOpen(t, cfg)
	chain(t, s, newMinter(1), id.EntryID{}, 1)
	mustClose(t, s)
	sound(t, cfg.Path)
}

func TestASessionBesideItsLogIsSwitchedToIt(t *testing.T) {
	cfg, _ := newConfig(t)
	mustClose(t, mustOpen(t, cfg))
	edit(t, cfg.Path, "PRAGMA journal_mode=delete") // as a crash between creation and the switch leaves it
	if sum, err := Peek(cfg.Path); err != nil || sum.Created != epoch {
		t.Errorf("%+v, %v", sum, err)
	}
	s := mustOpen(t, cfg)
	chain(t, s, newMinter(1), id.EntryID{}, 1)
	if quiet(cfg.Path) != sqlitedb.ReadPassive {
		t.Error("there is no log")
	}
}

func TestAClosedHandleHoldsNoFile(t *testing.T) {
	cfg, _ := newConfig(t)
	open := func() (n int) {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("this system does not list open files")
		}
		for _, fd := range list {
			if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(target, filepath.Dir(cfg.Path)) {
				n++
			}
		}
		return n
	}
	s := mustOpen(t, cfg)
	ids := chain(t, s, newMinter(1), id.EntryID{}, 3)
	r, err := OpenReader(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []storage.BranchQuery{{Start: ids[2], Limit: new(1)}, {Start: ids[2], StopAtID: ids[1]}, {Start: newMinter(9).entry()}} {
		_, _ = s.ScanBranch(q)
		_, _ = r.ScanBranch(q)
	}
	if open() == 0 {
		t.Error("the test sees no open file")
	}
	mustClose(t, r)
	mustClose(t, s)
	cfg.Owner = "second"
	held := mustOpen(t, cfg)
	cfg.Owner = "third"
	if _, err := Open(cfg); err == nil {
		t.Error("opened twice")
	}
	mustClose(t, held)
	if n := open(); n > 0 {
		t.Errorf("%d files are still open", n)
	}
}

func TestManyReadBesideTheWriter(t *testing.T) {
	cfg, _ := newConfig(t)
	s := mustOpen(t, cfg)
	m := newMinter(1)
	ids := chain(t, s, m, id.EntryID{}, 20)
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			for k := range 20 {
				rows, err := s.ScanBranch(storage.BranchQuery{Start: ids[k]})
				if err != nil || len(rows) != k+1 {
					t.Errorf("%d rows, %v", len(rows), err)
				}
				stats, err := s.Stats()
				if err != nil || stats.Messages < 20 {
					t.Errorf("%+v, %v", stats, err)
				}
			}
		})
	}
	chain(t, s, m, ids[19], 50)
	wg.Wait()
	if n := s.readers.open; n > maxReaders {
		t.Errorf("%d read connections", n)
	}
	var closing sync.WaitGroup
	for range 8 {
		closing.Go(func() {
			for {
				if _, err := s.Stats(); err != nil {
					if !errors.Is(err, storage.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	mustClose(t, s)
	closing.Wait()
}

func TestAFailedClosingIsRemembered(t *testing.T) {
	cfg, _ := newConfig(t)
	cfg.BusyTimeout = time.Millisecond
	s := mustOpen(t, cfg)
	other, err := dial(cfg.Path, sqlitedb.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	first := s.Close()
	asType[*storage.BackendFault](t, first)
	other.Rollback()
	mustCloseConn(t, other)
	if again := s.Close(); again != first {
		t.Errorf("%v, then %v", first, again)
	}
	cfg.Owner = "second"
	_, err = Open(cfg)
	asType[*storage.LeaseHeld](t, err) // it could not be given back
}

func TestRacingCreatorsMakeOneSession(t *testing.T) {
	cfg, _ := newConfig(t)
	cfg.Clock = func() int64 { return time.Now().UnixMilli() }
	var mu sync.Mutex
	var won []*Store
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			c := cfg
			c.Owner = fmt.Sprint("racer ", i)
			s, err := Open(c)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won = append(won, s)
			} else if _, held := errors.AsType[*storage.LeaseHeld](err); !held {
				t.Errorf("a loser got %v", err)
			}
		})
	}
	var others []*child
	for range 3 {
		others = append(others, start(t, "create and hold", cfg.Path))
	}
	winners := 0
	for _, c := range others {
		switch line := c.line(); {
		case line == "held":
			winners++
		case !strings.Contains(line, "open in another process"):
			t.Errorf("a loser got %q", line)
		}
	}
	wg.Wait()
	if winners += len(won); winners != 1 {
		t.Errorf("%d creators won", winners)
	}
	for _, c := range others {
		c.kill()
	}
	for _, s := range won {
		mustClose(t, s)
	}
	sound(t, cfg.Path)
}

// createAndHold opens a session and keeps it until the parent says something.
func createAndHold(path string) error {
	s, err := Open(Config{Path: path, Owner: fmt.Sprint("child ", os.Getpid()), Clock: func() int64 { return time.Now().UnixMilli() }, Create: true})
	if err != nil {
		fmt.Println(err)
		return nil
	}
	fmt.Println("held")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return s.Close()
}

func TestIdentityIsRecordedForThoseWhoPeek(t *testing.T) {
	cfg, clock := newConfig(t)
	s := mustOpen(t, cfg)
	g := newMinter(3).ids
	own, g := g.Session()
	parent, _ := g.Session()
	if a, b, err := s.CatalogIdentity(); err != nil || !a.IsZero() || !b.IsZero() {
		t.Errorf("before: %v, %v, %v", a, b, err)
	}
	if err := s.RecordIdentity(own, parent); err != nil {
		t.Fatal(err)
	}
	chain(t, s, newMinter(1), id.EntryID{}, 2)
	clock.ms += 5
	for _, when := range []string{"open", "closed"} {
		sum, err := Peek(cfg.Path)
		if err != nil || sum.ID != own || sum.Parent != parent || sum.Stats.Messages != 2 || sum.Version != Version || sum.Created != epoch || sum.Generation != 0 {
			t.Errorf("%s: %+v, %v", when, sum, err)
		}
		mustClose(t, s)
	}
	s = mustOpen(t, cfg)
	if err := s.RecordIdentity(own, id.SessionID{}); err != nil {
		t.Fatal(err)
	}
	if a, b, err := s.CatalogIdentity(); err != nil || a != own || !b.IsZero() {
		t.Errorf("after: %v, %v, %v", a, b, err)
	}
	if g, err := s.Generation(); err != nil || g != 0 {
		t.Errorf("generation %d, %v", g, err)
	}
}

func TestReaderSeesEachCommitOfALiveWriter(t *testing.T) {
	cfg, _ := newConfig(t)
	s := mustOpen(t, cfg)
	m := newMinter(1)
	ids := chain(t, s, m, id.EntryID{}, 2)
	r, err := OpenReader(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ids = append(ids, chain(t, s, m, ids[len(ids)-1], 1)...)
		path, err := r.ScanBranch(storage.BranchQuery{Start: ids[len(ids)-1]})
		if err != nil || len(path) != len(ids) {
			t.Errorf("the reader sees %d of %d, %v", len(path), len(ids), err)
		}
	}
	mustClose(t, s)
	if stats, err := r.Stats(); err != nil || stats.Messages != int64(len(ids)) {
		t.Errorf("after the writer closed: %+v, %v", stats, err)
	}
	mustClose(t, r)
	mustClose(t, r)
	if _, err := r.Stats(); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	sound(t, cfg.Path)
}

func TestLookingLeavesNothingBehind(t *testing.T) {
	cfg, _ := newConfig(t)
	s := mustOpen(t, cfg)
	chain(t, s, newMinter(1), id.EntryID{}, 3)
	left := crashed(t, s)
	mustClose(t, s)
	for name, path := range map[string]string{"closed": cfg.Path, "crashed": left} {
		before := folder(t, path)
		if sum, err := Peek(path); err != nil || sum.Stats.Messages != 3 {
			t.Errorf("%s: peek: %+v, %v", name, sum, err)
		}
		sound(t, path)
		if after := folder(t, path); dropIndex(after) != dropIndex(before) {
			t.Errorf("%s: looking changed\n%s to\n%s", name, before, after)
		} else if name == "closed" && after != before {
			t.Errorf("%s: looking left\n%s", name, after)
		}
	}
}

func TestReadersRefuseWhatOpeningRefuses(t *testing.T) {
	cfg, _ := newConfig(t)
	mustClose(t, mustOpen(t, cfg))
	edit(t, cfg.Path, "PRAGMA user_version=3")
	_, err := OpenReader(cfg.Path)
	if v := asType[*storage.UnsupportedVersion](t, err); v.Found != 3 || v.Supported != Version {
		t.Errorf("%+v", v)
	}
	_, err = Peek(cfg.Path)
	asType[*storage.UnsupportedVersion](t, err)
	edit(t, cfg.Path, fmt.Sprintf("PRAGMA user_version=%d", Version), "DELETE FROM session")
	_, err = OpenReader(cfg.Path)
	if _, ok := corrupt.As(asType[*storage.OpenFailed](t, err)); !ok {
		t.Errorf("no report in %v", err)
	}
}

func TestAfterCommitRunsBeforeTheAnswer(t *testing.T) {
	cfg, _ := newConfig(t)
	var seen []int64
	cfg.AfterCommit = func(r tx.Result) {
		stats, err := Peek(cfg.Path)
		if err != nil {
			t.Error(err)
		}
		seen = append(seen, r.FirstSeq, stats.Stats.Messages)
	}
	s := mustOpen(t, cfg)
	chain(t, s, newMinter(1), id.EntryID{}, 2)
	if fmt.Sprint(seen) != "[1 1 3 2]" {
		t.Errorf("%v", seen)
	}
}
