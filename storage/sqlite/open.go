package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// Defaults of a [Config].
const (
	DefaultLeaseTTL    = 30 * time.Second
	DefaultBusyTimeout = 5 * time.Second
)

// Config says which session to open and as whom.
type Config struct {
	Path string
	// Owner names this opening; it must be unique among all of them.
	Owner string
	// Clock gives the Unix ms. It stamps commits and judges leases.
	Clock func() int64
	// Create makes the session when the file is missing or empty.
	Create bool

	// Take takes the lease whoever holds it: see [Take].
	Take bool

	LeaseTTL    time.Duration // term of the lease; 0 for the default
	BusyTimeout time.Duration // wait for other processes' locks; 0 for the default
	Synchronous Synchronous

	// AfterCommit, when given, runs after a commit is durable and before Commit
	// returns it, with the writer held: the place where a crash test dies.
	AfterCommit func(tx.Result)

	// Process and Running stand for the running process and the system's process
	// table in tests of the lease. The zero values are the real ones.
	Process Process
	Running Running

	format *format // nil: [current]
	closed bool    // for an operation on a closed file, whose owners are reserved
}

func (c *Config) complete() error {
	refuse := func(reason string) error {
		return &storage.OpenFailed{Reason: "cannot open the session " + c.Path + ": " + reason + "; nothing was changed"}
	}
	switch {
	case c.Clock == nil:
		return refuse("no clock was given")
	case c.Owner == "":
		return refuse("no owner was given")
	case reserved(c.Owner) && !c.closed:
		return refuse("the owner " + c.Owner + " is reserved")
	case c.LeaseTTL < 0 || c.BusyTimeout < 0:
		return refuse("a time limit is negative")
	}
	if c.LeaseTTL == 0 {
		c.LeaseTTL = DefaultLeaseTTL
	}
	if c.LeaseTTL < 3*time.Millisecond {
		return refuse("the lease is shorter than 3 ms")
	}
	if c.BusyTimeout == 0 {
		c.BusyTimeout = DefaultBusyTimeout
	}
	if c.Process == (Process{}) {
		c.Process = thisProcess()
	}
	if c.Running == nil {
		c.Running = running
	}
	if c.format == nil {
		c.format = &current
	}
	return nil
}

// Open opens a session for writing, or refuses with *storage.LeaseHeld,
// *storage.UnsupportedVersion or *storage.OpenFailed. A refused opening leaves
// the file byte-identical.
func Open(cfg Config) (*Store, error) {
	cfg.closed = false
	return openAs(cfg)
}

func openAs(cfg Config) (*Store, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if err := checkPath(cfg.Path, cfg.Create); err != nil {
		return nil, err
	}
	if err := cfg.refuse(); err != nil {
		return nil, openFault(cfg.Path, err)
	}
	s, err := cfg.admit()
	if err != nil {
		return nil, openFault(cfg.Path, err)
	}
	return s, nil
}

// checkPath refuses what no session can be opened at, before SQLite tries.
func checkPath(path string, create bool) error {
	err := sqlitedb.CheckPath(path, create)
	if no, ok := errors.AsType[*sqlitedb.Unopenable](err); ok {
		reason := no.Reason
		if errors.Is(err, sqlitedb.ErrNoDatabase) {
			reason = "the file is not a session"
		}
		return &storage.OpenFailed{Reason: "cannot open the session " + path + ": " + reason + "; nothing was changed", Err: no.Err}
	}
	return err
}

// Vacant refuses, with *storage.OpenFailed, a path where a session file that is put
// there would find a log, an index of one or a journal of a file that is gone: SQLite
// would take them for those of the new one, and replay the rows of the old session into
// it. (An opening that creates has a path of its own.)
func Vacant(path string) error {
	for _, suffix := range sqlitedb.Besides {
		if _, err := os.Lstat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			return &storage.OpenFailed{Reason: fmt.Sprintf(
				"cannot put the session at %s: %s is left there of a session whose file is gone; nothing was changed; put that file back, or move what is left away", path, filepath.Base(path)+suffix)}
		}
	}
	return nil
}

// quiet is the access that reads a file and leaves no trace: see the format page. A
// power cut may leave a journal that somebody must carry out before anything can be
// read, log or not.
func quiet(path string) sqlitedb.Access {
	if holds(path+"-wal") && !holds(path+"-journal") {
		return sqlitedb.ReadPassive
	}
	return sqlitedb.ReadTidy
}

// holds reports whether there is a file with content.
func holds(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() > 0
}

// refuse looks at a file with a log beside it and returns the refusal, if there
// is one, without having written anything. Without a log, admit refuses as
// quietly by itself, and the second connection is saved.
func (c *Config) refuse() error {
	if quiet(c.Path) != sqlitedb.ReadPassive {
		return nil
	}
	w, err := dialReader(c.Path, sqlitedb.ReadPassive, c.BusyTimeout)
	if err != nil {
		return err
	}
	var seen state
	err = w.Within("BEGIN", func() error {
		seen, err = inspect(w, c.format.admits)
		return err
	})
	if err == nil {
		err = c.refusal(seen)
	}
	return errors.Join(err, w.Close())
}

// refusal judges what was seen.
func (c *Config) refusal(seen state) error {
	if !seen.exists {
		if c.Create {
			return nil
		}
		return emptyFile(c.Path)
	}
	_, err := c.admission().judge(seen.session, seen.lease)
	return err
}

// emptyFile is the refusal of a file without a session: that of a process that was
// killed while it was making one.
func emptyFile(path string) error {
	return &storage.OpenFailed{Reason: "cannot open the session " + path + ": the file is empty; nothing was changed", Err: fs.ErrNotExist}
}

func (c *Config) admission() admission {
	return admission{now: c.Clock(), ttl: c.LeaseTTL.Milliseconds(), owner: c.Owner, take: c.Take, self: c.Process, running: c.Running}
}

// admit takes the lease, creating the session where there is none.
func (c *Config) admit() (*Store, error) {
	if c.Create {
		if err := found(c.Path); err != nil {
			return nil, err
		}
	}
	w, err := dial(c.Path, sqlitedb.ReadWrite)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: *c, w: w}
	s.readers.dial = func() (*conn, error) { return dialReader(c.Path, sqlitedb.ReadTidy, c.BusyTimeout) }
	version, err := s.claim()
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if err := s.migrate(version); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := sweep(c.Path); err != nil { // only who has the lease may
		return nil, errors.Join(err, s.Close())
	}
	// A fresh session is switched to the log now; for others this only reads.
	if err := w.Steady(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// claim takes the lease and returns the version of what the file holds.
func (s *Store) claim() (version int64, err error) {
	if err := s.w.Tune(s.cfg.BusyTimeout, s.cfg.Synchronous, writerCache); err != nil {
		return 0, err
	}
	return version, s.w.Within("BEGIN IMMEDIATE", func() error {
		seen, err := inspect(s.w, s.cfg.format.admits)
		if err != nil {
			return err
		}
		if err := s.cfg.refusal(seen); err != nil {
			return err
		}
		if seen.version == s.cfg.format.version {
			if err := cellsFound(s.w); err != nil {
				return err
			}
		}
		if version = seen.version; !seen.exists {
			version = s.cfg.format.version
			if seen.session, err = create(s.w, seen.blank, version, s.cfg.Clock()); err != nil {
				return err
			}
		}
		lease, err := s.cfg.admission().judge(seen.session, seen.lease)
		if err != nil {
			return err
		}
		s.lease, seen.session.fence = *lease, lease.fence
		return errors.Join(lease.write(s.w), seen.session.update(s.w))
	})
}

// create makes the session row of a fresh session, and its tables where the file is
// empty. The version comes with the row: a blank file has none.
func create(w *conn, blank bool, version, now int64) (sessionRow, error) {
	steps := []string{fmt.Sprintf("PRAGMA user_version=%d", version)}
	if !blank {
		steps = append(append(steps, fmt.Sprintf("PRAGMA application_id=%d", applicationID)), schema...)
	}
	for _, step := range steps {
		if err := w.Once(step, nil); err != nil {
			return sessionRow{}, err
		}
	}
	var none jsonv.Writer
	usage.Append(&none, usage.Zero())
	row := sessionRow{createdAt: now, nextSeq: 1, usage: none.Bytes()}
	return row, row.insert(w)
}

// state is what a session file says about itself. exists is false for an empty
// file, and for a blank one, which has the tables and nothing else.
type state struct {
	exists  bool
	blank   bool
	version int64
	session sessionRow
	lease   *leaseRow
}

const stateQuery = "SELECT " + sessionColumns + ", " + leaseColumns + " FROM session s LEFT JOIN writer_lease l"

// inspect reads the state inside the transaction that is open. Its errors are
// refusals of an opening, or what SQLite says.
func inspect(c *conn, admits func(version int64) error) (state, error) {
	version, exists, err := header(c, admits)
	if !exists || err != nil {
		return state{blank: version == versionless}, err
	}
	session, lease, err := readState(c)
	return state{exists: true, version: version, session: session, lease: lease}, err
}

// header reads what can be read before the shape of the tables is known, and that
// the file was not cut. exists is false for an empty file, and for a blank one, whose
// version is versionless.
func header(c *conn, admits func(version int64) error) (version int64, exists bool, err error) {
	var application, tables int64
	for _, q := range []struct {
		text string
		into *int64
	}{
		{"PRAGMA application_id", &application}, {"PRAGMA user_version", &version},
		{"SELECT count(*) FROM sqlite_schema", &tables},
	} {
		if err := c.Once(q.text, func(r row) { *q.into = read(r, q.text).num() }); err != nil {
			return 0, false, err
		}
	}
	switch {
	case application == 0 && version == 0 && tables == 0:
		return 0, false, nil
	case application != applicationID:
		return 0, false, &storage.OpenFailed{Reason: "the file is a database, but not a session of loom; nothing was changed; check its path"}
	case version == 0:
		if blank, err := isBlank(c); err != nil {
			return 0, false, err
		} else if blank {
			return versionless, false, whole(c)
		}
	}
	if err := admits(version); err != nil {
		return 0, false, err
	}
	return version, true, whole(c)
}

// readState reads the session row and the lease inside the transaction that is
// open. The error of a row that is missing, doubled or damaged is *CorruptRow.
func readState(c *conn) (sessionRow, *leaseRow, error) {
	var (
		session sessionRow
		lease   *leaseRow
		rows    int
	)
	err := c.Each(stateQuery, func(r row) (bool, error) {
		rows++
		cols := read(r, "")
		session, lease = readSession(cols), readLease(cols)
		return rows < 2, cols.damaged()
	})
	if err == nil && rows != 1 {
		seen := "none"
		if rows > 1 {
			seen = "several"
		}
		err = &storage.CorruptRow{Report: corrupt.New("sqlite.readState", "session row and lease", "one session row and at most one lease", seen)}
	}
	return session, lease, err
}

// soughtCells is how many registers an opening looks for, from the oldest on and from
// the newest back. Those of the main strand are the first of a session, those of the work
// under way the last; between them lie results of what is over, one for each run.
const soughtCells = 100

// cellsFound refuses a session with a register that reads would not find: its key is
// damaged where the index of keys has it, which has no digest. A leaf that is not found
// would be a session that begins anew. (An entry that is not found is missed by whoever
// leads to it.) Only keys are read.
func cellsFound(c *conn) error {
	for _, order := range []string{"ASC", "DESC"} {
		r, lost, err := c.One(`SELECT ns, key FROM (SELECT rowid AS place, ns, key FROM registers NOT INDEXED ORDER BY rowid ` + order + ` LIMIT ` + strconv.Itoa(soughtCells) + `) r
			WHERE place IS NOT (SELECT rowid FROM registers i INDEXED BY sqlite_autoindex_registers_1 WHERE i.ns = r.ns AND i.key = r.key)`)
		if err != nil {
			return err
		}
		if lost {
			return &storage.CorruptRow{Report: corrupt.New("sqlite.Open", fmt.Sprintf("register %v/%v", r[0], r[1]), "an index that leads to it", "none")}
		}
	}
	return nil
}

// dialQuiet opens a connection that reads the file and leaves no trace.
func dialQuiet(path string, busy time.Duration) (*conn, error) {
	a := quiet(path)
	c, err := dialReader(path, a, busy)
	if err == nil {
		// The first read is the first use of the files beside it.
		if err = c.Once("SELECT count(*) FROM sqlite_schema", nil); err == nil {
			return c, nil
		}
		err = errors.Join(err, c.Close())
	}
	if freezable(path, a, err) {
		return dialReader(path, sqlitedb.ReadFrozen, busy)
	}
	return nil, err
}

func dialReader(path string, a sqlitedb.Access, busy time.Duration) (*conn, error) {
	c, err := dial(path, a)
	if err != nil {
		return nil, err
	}
	if err = c.Tune(busy, Full, readerCache); err == nil {
		err = c.ReadOnly()
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
