package sqlite

import (
	"os"
	"path/filepath"
	"time"

	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// stamp is what shows that a file was written.
type stamp struct {
	size     int64
	modified time.Time
}

func stampOf(path string) (*stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return &stamp{info.Size(), info.ModTime()}, nil
}

// unmoved refuses what was read from a frozen file that somebody wrote meanwhile. A
// place that this process cannot write may be another's to write, and a frozen file
// is read without locks and without its log. So what was read stands only if the
// file is as it was when it was opened, and no log has begun beside it: a commit
// writes to the log first.
func (c *conn) unmoved() error {
	if c.still == nil {
		return nil
	}
	now, err := stampOf(c.Path())
	if err != nil {
		return err
	}
	if now.size == c.still.size && now.modified.Equal(c.still.modified) && !holds(c.Path()+"-wal") {
		return nil
	}
	return &storage.BackendFault{
		Reason: "the session was written by another process while it was read in a place that cannot be written here; nothing was changed; try again",
	}
}

// freezable reports that an opening failed only because SQLite could make no file
// beside a session that has no log and no journal. Such a file holds everything that
// was committed, and nothing else.
func freezable(path string, a sqlitedb.Access, err error) bool {
	f := sqlitedb.Classify(err)
	return a == sqlitedb.ReadTidy && (f == sqlitedb.FaultOpen || f == sqlitedb.FaultReadOnly) && unwritable(filepath.Dir(path)) && !holds(path+"-wal") && !holds(path+"-journal")
}
