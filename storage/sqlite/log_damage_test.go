package sqlite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// crash is a session as a killed process leaves it: the file with all that was closed
// before, and a log with several commits.
type crash struct {
	file, log []byte
	states    []string // after the nth commit of the log; the first is that of the file
	ends      []int    // the last frame of each commit
	place     *place
}

const frameSize = frameHeaderSize + 4096

func newCrash(t *testing.T) *crash {
	t.Helper()
	cfg, clock := newConfig(t)
	l := &watchedSession{TB: t, cfg: cfg, clock: clock, m: newMinter(1), rec: new(recording), small: 1000, h: history{{digest: nothing}}}
	l.open("the founding")
	for range 3 {
		l.commit("a message", l.message(3000)...)
	}
	l.close()
	c := &crash{states: []string{l.h[len(l.h)-1].digest}, place: newPlace(t, 9)}
	l.open("the opening of who is killed")
	l.commit("a message", l.message(100)...)
	l.commit("a long message", l.message(9000)...)
	l.batch("a batch", l.s.CommitAll)
	l.commit("the last message", l.message(100)...)
	for _, m := range l.h[len(l.h)-5:] {
		c.states = append(c.states, m.digest)
	}
	left := crashed(t, l.s)
	c.file, c.log = readFile(t, left), readFile(t, left+"-wal")
	for n := 0; logHeaderSize+n*frameSize < len(c.log); n++ {
		if binary.BigEndian.Uint32(c.log[logHeaderSize+n*frameSize+4:]) != 0 {
			c.ends = append(c.ends, n)
		}
	}
	if len(c.ends) != len(c.states)-1 {
		t.Fatalf("the log ends %d commits and the session had %d states", len(c.ends), len(c.states))
	}
	return c
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// upTo is the state that a log gives whose frames are whole up to, and without, n.
func (c *crash) upTo(n int) string {
	k := 0
	for k < len(c.ends) && c.ends[k] < n {
		k++
	}
	return c.states[k]
}

// is fails unless a file and a log, nil for none, read as that state. Every so often
// the session is written, too.
func (c *crash) is(t *testing.T, what, want string, file, log []byte) {
	t.Helper()
	files := map[string][]byte{"session.db": file}
	if log != nil {
		files["session.db-wal"] = log
	}
	if err := c.place.lay(files); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReader(c.place.cfg.Path)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	got, err := checked(&r.reads, 0)
	if err != nil || got != want {
		t.Errorf("%s: another state than that of the commits before: %v", what, err)
	}
	mustClose(t, r)
	if c.place.lays%10 != 0 {
		return
	}
	if got, err := c.place.reopen(); err != nil || got != want {
		t.Errorf("%s, when it is written: %v", what, err)
	}
}

// A log that is damaged ends before the frame where it is: each frame has a checksum
// over all before it. What is left is a prefix of the commits.
func TestADamagedLogEndsBeforeTheDamage(t *testing.T) {
	c := newCrash(t)
	c.is(t, "unharmed", c.states[len(c.states)-1], c.file, c.log)
	every := 1024
	if rounds(t) > 1 {
		every = 16
	}
	flip := func(at int, frame int) {
		log := bytes.Clone(c.log)
		log[at] ^= byte(1 << (at % 8))
		c.is(t, fmt.Sprintf("byte %d, in frame %d", at, frame), c.upTo(frame), c.file, log)
	}
	for at := range logHeaderSize {
		flip(at, 0)
	}
	for frame := range (len(c.log) - logHeaderSize) / frameSize {
		from := logHeaderSize + frame*frameSize
		for at := from; at < from+frameHeaderSize; at += 3 {
			flip(at, frame)
		}
		for at := from + frameHeaderSize + frame; at < from+frameSize; at += every {
			flip(at, frame)
		}
	}
}

// A log that is cut ends with its last whole frame. One that is gone, or empty, leaves
// the session as it was when it was closed last, and nobody can tell.
func TestALogThatIsCutGivesThePrefixBeforeTheCut(t *testing.T) {
	c := newCrash(t)
	for frame := range (len(c.log)-logHeaderSize)/frameSize + 1 {
		at := logHeaderSize + frame*frameSize
		for _, size := range []int{at - 1, at, at + 1, at + frameHeaderSize, at + 2000} {
			if size < len(c.log) {
				c.is(t, fmt.Sprintf("%d bytes of the log", size), c.upTo((size-logHeaderSize)/frameSize), c.file, c.log[:size])
			}
		}
	}
	for _, size := range []int{0, 1, logHeaderSize - 1} {
		c.is(t, fmt.Sprintf("%d bytes of the log", size), c.states[0], c.file, c.log[:size])
	}
	c.is(t, "no log", c.states[0], c.file, nil)
}

// A file that is cut is the session, where the log has what is missing, or is refused.
func TestACutFileBesideItsLogIsWholeOrRefused(t *testing.T) {
	c := newCrash(t)
	last := c.states[len(c.states)-1]
	refused := 0
	for size := sqlitedb.SmallestDatabase; size < len(c.file); size += 1021 {
		for _, size := range []int{size, size / 4096 * 4096} {
			if size < sqlitedb.SmallestDatabase {
				continue
			}
			err := c.place.lay(map[string][]byte{"session.db": c.file[:size], "session.db-wal": c.log})
			if err != nil {
				t.Fatal(err)
			}
			r, err := OpenReader(c.place.cfg.Path)
			if err != nil {
				if failed := asType[*storage.OpenFailed](t, err); !strings.Contains(failed.Reason, "damaged") {
					t.Errorf("%d bytes of the file: %v", size, err)
				}
				refusedCut(t, c.place.cfg, fmt.Sprintf("%d bytes of the file", size))
				refused++
				continue
			}
			if got, err := checked(&r.reads, 0); err != nil || got != last {
				t.Errorf("%d bytes of the file: another state, %v", size, err)
			}
			mustClose(t, r)
		}
	}
	if refused == 0 {
		t.Error("no cut was refused: this shows nothing")
	}
}

// The index of a log holds nothing that is not in the log.
func TestTheIndexOfALogIsMadeAnew(t *testing.T) {
	c := newCrash(t)
	live, _ := newConfig(t)
	s := mustOpen(t, live)
	chain(t, s, newMinter(1), id.EntryID{}, 40)
	for name, index := range map[string][]byte{
		"none": nil, "empty": {}, "zeros": make([]byte, 32<<10), "noise": bytes.Repeat([]byte{0x37, 0x7f, 6, 0x82}, 8<<10),
		"that of another session": readFile(t, live.Path+"-shm"), "one that was cut": readFile(t, live.Path+"-shm")[:1000],
	} {
		files := map[string][]byte{"session.db": c.file, "session.db-wal": c.log}
		c.place.lays = 2 // no index of its own choice
		if index != nil {
			files["session.db-shm"] = index
		}
		if err := c.place.lay(maps.Clone(files)); err != nil {
			t.Fatal(err)
		}
		if got, err := c.place.reopen(); err != nil || got != c.states[len(c.states)-1] {
			t.Errorf("%s: another state, %v", name, err)
		}
	}
}

// What lies at the names that SQLite uses is looked at before SQLite opens it.
func TestALinkInTheWayIsRefused(t *testing.T) {
	c := newCrash(t)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	for _, name := range []string{"", "-wal", "-shm", "-journal"} {
		for kind, make := range map[string]func(path string) error{
			"link to a file":   func(path string) error { return os.Symlink(elsewhere, path) },
			"link to nothing":  func(path string) error { return os.Symlink(elsewhere+"-none", path) },
			"folder":           func(path string) error { return os.Mkdir(path, 0o700) },
			"link to a folder": func(path string) error { return os.Symlink(filepath.Dir(elsewhere), path) },
		} {
			what := fmt.Sprintf("a %s at the session%s", kind, name)
			writeFile(t, elsewhere, string(c.file))
			c.place.lays = 2
			files := map[string][]byte{"session.db": c.file, "session.db-wal": c.log}
			delete(files, "session.db"+name)
			if err := c.place.lay(files); err != nil {
				t.Fatal(err)
			}
			if err := make(c.place.cfg.Path + name); err != nil {
				t.Fatal(err)
			}
			for _, create := range []bool{false, true} {
				cfg := c.place.cfg
				cfg.Create = create
				_, err := Open(cfg)
				if failed := asType[*storage.OpenFailed](t, err); !strings.Contains(failed.Reason, "nothing was changed") ||
					!strings.Contains(failed.Reason, "symbolic link") && !strings.Contains(failed.Reason, "is a folder") && !strings.Contains(failed.Reason, "is not a regular file") {
					t.Errorf("%s: %v", what, err)
				}
			}
			for verb, look := range map[string]func() error{
				"read":  func() error { r, err := OpenReader(c.place.cfg.Path); return closeIf(r != nil, r, err) },
				"peek":  func() error { _, err := Peek(c.place.cfg.Path); return err },
				"check": func() error { _, err := Check(c.place.cfg.Path); return err },
			} {
				asType[*storage.OpenFailed](t, look())
				if t.Failed() {
					t.Errorf("%s, %s", what, verb)
				}
			}
			if string(readFile(t, elsewhere)) != string(c.file) {
				t.Errorf("%s: it was followed and written", what)
			}
			if _, err := os.Lstat(elsewhere + "-none"); err == nil {
				t.Errorf("%s: it was followed and made", what)
			}
		}
	}
}
