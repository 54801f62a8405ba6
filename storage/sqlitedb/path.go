package sqlitedb

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Besides are the suffixes of the files that SQLite keeps beside a database.
var Besides = [...]string{"-wal", "-shm", "-journal"}

// SmallestDatabase is the size of the smallest page. SQLite takes a shorter file
// for an empty one and would write over it.
const SmallestDatabase = 512

// ErrNoDatabase stands behind an [Unopenable] path whose file is too short.
var ErrNoDatabase = errors.New("the file is no database")

// Unopenable is a path that was refused before SQLite tried it: nothing was touched.
type Unopenable struct {
	Path   string
	Reason string // words in the middle of a sentence
	Err    error  // nil where nothing of the system stands behind it
}

func (e *Unopenable) Error() string { return e.Path + ": " + e.Reason }
func (e *Unopenable) Unwrap() error { return e.Err }

// CheckPath refuses, with *Unopenable, what no database can be opened at, before
// SQLite tries. A missing file is refused too, with fs.ErrNotExist, unless create.
// An empty one is not. (An opening that failed inside SQLite may leave files beside
// the path, and SQLite writes to whatever lies at their names.)
func CheckPath(path string, create bool) error {
	refuse := func(err error, reason string) error { return &Unopenable{Path: path, Reason: reason, Err: err} }
	if path == "" || path == ":memory:" {
		return refuse(nil, "it needs a file")
	}
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.Mode()&fs.ModeSymlink != 0: // SQLite would keep the log beside the other name
		return refuse(nil, "it is a symbolic link; use the name that it leads to")
	case err == nil && info.IsDir():
		return refuse(nil, "it is a folder")
	case err == nil && !info.Mode().IsRegular():
		return refuse(nil, "it is not a regular file")
	case err == nil && info.Size() > 0 && info.Size() < SmallestDatabase:
		return refuse(ErrNoDatabase, ErrNoDatabase.Error())
	}
	// SQLite opens and writes what lies at the names beside the file, whatever it is.
	for _, suffix := range Besides {
		if beside, err := os.Lstat(path + suffix); err == nil && !beside.Mode().IsRegular() {
			return refuse(nil, "beside it, "+filepath.Base(path)+suffix+" is not a regular file; remove it")
		}
	}
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return refuse(err, err.Error())
	}
	folder, above := os.Stat(filepath.Dir(path))
	switch {
	case above != nil:
		return refuse(above, "its folder does not exist")
	case !folder.IsDir():
		return refuse(nil, "what should be its folder is a file")
	case !create:
		return refuse(fs.ErrNotExist, "there is no such file")
	}
	return nil
}
