package projection

import (
	"errors"
	"sync"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// Saved is a state with what it is of. None of the three means anything without the others.
type Saved[S any] struct {
	State      S
	High       int64 // the seq up to which rows are in it
	Generation int64 // of the rewrites of the session
}

// Checkpoint keeps the state of one projection of one session. One that loses what it was
// given costs a longer catch-up and nothing else.
type Checkpoint[S any] interface {
	Load() (s Saved[S], ok bool, err error)
	Save(s Saved[S]) error
}

// Ephemeral keeps nothing: each start folds anew.
func Ephemeral[S any]() Checkpoint[S] { return ephemeral[S]{} }

type ephemeral[S any] struct{}

func (ephemeral[S]) Load() (s Saved[S], ok bool, err error) { return s, false, nil }
func (ephemeral[S]) Save(Saved[S]) error                    { return nil }

// Disk is a file of checkpoints, and of what lists say of sessions. It can be deleted at any time.
type Disk struct {
	path string
	mu   sync.Mutex
	c    *sqlitedb.Conn
}

const diskVersion = 1

var diskSchema = []string{
	`CREATE TABLE checkpoint (session BLOB NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, generation INTEGER NOT NULL, high INTEGER NOT NULL, state BLOB NOT NULL, PRIMARY KEY (session, name)) STRICT, WITHOUT ROWID`,
	`CREATE TABLE listed (session BLOB PRIMARY KEY, stamp TEXT NOT NULL, line BLOB NOT NULL) STRICT, WITHOUT ROWID`,
}

// OpenDisk opens the file at a path, making it if there is none. One that is no such file, is
// damaged or of another version is made anew.
func OpenDisk(path string) (*Disk, error) {
	d, err := openDisk(path)
	if sqlitedb.Spoilt(err) {
		if err := DeleteDisk(path); err != nil {
			return nil, err
		}
		return openDisk(path)
	}
	return d, err
}

// DeleteDisk deletes the file with those beside it.
func DeleteDisk(path string) error { return sqlitedb.Delete(path) }

func openDisk(path string) (*Disk, error) {
	c, err := sqlitedb.Open(path, sqlitedb.Options{Create: true, Synchronous: sqlitedb.Normal, CacheKiB: 1024, More: [][2]string{{"secure_delete", "1"}}})
	if err != nil {
		return nil, err
	}
	err = c.Prepare(diskVersion, diskSchema)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &Disk{path: path, c: c}, nil
}

// Close gives up the file.
func (d *Disk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.c.Close()
}

// Of is the checkpoint of a projection of a session. The projection must have a codec.
func Of[S any](d *Disk, s id.SessionID, p Projection[S]) Checkpoint[S] {
	return onDisk[S]{d, sqlitedb.UUID(s), p}
}

type onDisk[S any] struct {
	d       *Disk
	session []byte
	p       Projection[S]
}

// Load implements Checkpoint. A state that cannot be read is none.
func (c onDisk[S]) Load() (s Saved[S], ok bool, err error) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	r, ok, err := c.d.c.One("SELECT version, generation, high, state FROM checkpoint WHERE session = ? AND name = ?", c.session, c.p.Name)
	if err != nil || !ok || r[0] != int64(c.p.Version) {
		return s, false, err
	}
	text, _ := r[3].([]byte)
	state, err := c.p.Decode(text)
	if err != nil {
		return s, false, nil //nolint:nilerr // it is folded anew
	}
	generation, _ := r[1].(int64)
	high, _ := r[2].(int64)
	return Saved[S]{state, high, generation}, true, nil
}

// Save implements Checkpoint. One that is behind what another process kept of the same
// generation is not kept.
func (c onDisk[S]) Save(s Saved[S]) error {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	_, err := c.d.c.Exec(`INSERT INTO checkpoint VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (session, name) DO UPDATE SET version = excluded.version, generation = excluded.generation, high = excluded.high, state = excluded.state
		WHERE excluded.version <> version OR excluded.generation <> generation OR excluded.high > high`,
		c.session, c.p.Name, int64(c.p.Version), s.Generation, s.High, c.p.Encode(s.State))
	return err
}

// Listed is what a list said of each session, with a stamp of what its files looked like.
func (d *Disk) Listed() (map[id.SessionID]Line, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[id.SessionID]Line{}
	err := d.c.Each("SELECT session, stamp, line FROM listed", func(r sqlitedb.Row) (bool, error) {
		raw, _ := r[0].([]byte)
		s, err := id.ParseSessionID(sqlitedb.UUIDText(raw))
		if err != nil {
			return true, nil //nolint:nilerr // a line of nobody is none
		}
		stamp, _ := r[1].(string)
		text, _ := r[2].([]byte)
		all[s] = Line{stamp, text}
		return true, nil
	})
	return all, err
}

// Line is what a list says of a session.
type Line struct {
	Stamp string
	Text  []byte
}

// List keeps the lines that changed, and forgets those of sessions that are gone.
func (d *Disk) List(changed map[id.SessionID]Line, gone []id.SessionID) error {
	if len(changed)+len(gone) == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.c.Within("BEGIN IMMEDIATE", func() error {
		for s, l := range changed {
			if _, err := d.c.Exec("INSERT INTO listed VALUES (?, ?, ?) ON CONFLICT (session) DO UPDATE SET stamp = excluded.stamp, line = excluded.line", sqlitedb.UUID(s), l.Stamp, l.Text); err != nil {
				return err
			}
		}
		for _, s := range gone {
			if _, err := d.c.Exec("DELETE FROM listed WHERE session = ?", sqlitedb.UUID(s)); err != nil {
				return err
			}
			if _, err := d.c.Exec("DELETE FROM checkpoint WHERE session = ?", sqlitedb.UUID(s)); err != nil {
				return err
			}
		}
		return nil
	})
}
