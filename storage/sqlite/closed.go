package sqlite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/loom-run/loom/storage/sqlitedb"
)

// Operations on closed files hold the session's lease, like everybody who writes,
// under names of their own.
const (
	rewriteOwner = "rewrite"
	movePrefix   = "move:"

	// ClosedLeaseTTL is the term of the lease of such an operation, which does not
	// renew it while it works through the rows.
	ClosedLeaseTTL = 10 * time.Minute
)

// reserved reports whether an owner belongs to operations on closed files.
func reserved(owner string) bool {
	return owner == rewriteOwner || strings.HasPrefix(owner, movePrefix)
}

// rewriteSuffix ends the name of the file that a rewrite makes.
const rewriteSuffix = ".rewrite"

// sweep removes what a killed rewrite left: it may hold what was to be erased.
func sweep(path string) error {
	for _, suffix := range append([]string{""}, sqlitedb.Besides[:]...) {
		if err := os.Remove(path + rewriteSuffix + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what an interrupted rewrite left: %w", err)
		}
	}
	return nil
}

// sole takes the log back into the file and makes sure that no other connection
// has the session open: in any other state there may be a log or an index of one
// beside the file, which would be taken for those of whatever file has its name
// next. Nobody can begin a log again while the lease is held.
func (s *Store) sole() error {
	const pause = 5 * time.Millisecond
	for tries := int64(0); ; tries++ {
		mode := ""
		err := s.w.Once("PRAGMA journal_mode=delete", func(r row) { mode = fmt.Sprint(r[0]) })
		if err == nil && mode == "delete" {
			break
		}
		if err != nil && sqlitedb.Classify(err) != sqlitedb.FaultBusy {
			return err
		}
		if tries >= int64(s.cfg.BusyTimeout/pause) {
			return unmade("another process has the session open", err)
		}
		time.Sleep(pause) // SQLite does not wait by itself for this lock
	}
	for _, suffix := range sqlitedb.Besides[:2] {
		if _, err := os.Stat(s.w.Path() + suffix); !errors.Is(err, fs.ErrNotExist) {
			return unmade("there still is a log beside the session", err)
		}
	}
	return nil
}

// Bytes shows the raw bytes of a session: each page of the database as its readers
// see it, free ones included, then the log and the journal beside it and what a
// killed rewrite left, where there is such. It does so without a lease, and without opening the database as a file,
// which would drop locks. The index of the log (-shm) holds page numbers and
// checksums and nothing of the session, so it is not among them.
//
// An error of show is returned as it is.
func (r *Reader) Bytes(show func(part string, content io.Reader) error) error {
	var shown error
	err := r.parts(func(part string, content io.Reader) error {
		shown = show(part, content)
		return shown
	})
	if shown != nil {
		return shown
	}
	return err
}

func (r *Reader) parts(show func(part string, content io.Reader) error) error {
	return r.view(func(c *conn) error {
		p := &pages{c: c}
		if err := c.Once("PRAGMA page_count", func(r row) { p.count = read(r, "page count").num() }); err != nil {
			return err
		}
		if err := show("database", p); err != nil {
			return err
		}
		for _, suffix := range []string{"-wal", "-journal", rewriteSuffix, rewriteSuffix + "-wal", rewriteSuffix + "-journal"} {
			if err := showFile(c.Path()+suffix, suffix[1:], show); err != nil {
				return err
			}
		}
		return nil
	})
}

func showFile(path, part string, show func(string, io.Reader) error) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	return show(part, f)
}

// pages reads a database page by page through a connection.
type pages struct {
	c     *conn
	last  int64 // page that was read
	count int64
	page  []byte // what is left of it
}

func (p *pages) Read(b []byte) (int, error) {
	for len(p.page) == 0 {
		if p.last == p.count {
			return 0, io.EOF
		}
		p.last++
		r, ok, err := p.c.One("SELECT data FROM sqlite_dbpage WHERE pgno = ?", p.last)
		if err != nil {
			return 0, err
		}
		if !ok {
			continue // the page of locks at 1 GiB
		}
		cols := read(r, "page")
		if p.page = cols.blob(); cols.err != nil {
			return 0, cols.damaged()
		}
	}
	n := copy(b, p.page)
	p.page = p.page[n:]
	return n, nil
}

// syncFolder makes a rename in the folder of path durable, where the system can.
func syncFolder(path string) error {
	f, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(syncDir(f), f.Close())
}
