package admin

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// stageName begins the names of folders in which files are put together.
const stageName = "stage-"

// stage makes a folder that only its owner may look into, and what clears it away. It
// is locked until then, so that sweep can tell it from what a killed process left.
func (r Root) stage() (dir string, clear func() error, err error) {
	for {
		if dir, err = os.MkdirTemp(r.Dir, stageName); err != nil {
			return "", nil, err
		}
		lock, err := lockFolder(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", nil, errors.Join(err, os.RemoveAll(dir))
		}
		if lock != nil {
			return dir, func() error { return errors.Join(os.RemoveAll(dir), lock.Close()) }, nil
		}
		// Somebody swept it between the two steps, when it was empty.
	}
}

// sweep removes the stages of processes that were killed: nobody can finish what they
// began, and what was to be erased may be in them. What cannot be removed stays, and an
// erasure tells of it.
func (r Root) sweep() {
	if !foldersLock {
		return // one at work cannot be told from one that was killed
	}
	all, err := os.ReadDir(r.Dir)
	if err != nil {
		return
	}
	for _, d := range all {
		if !d.IsDir() || !strings.HasPrefix(d.Name(), stageName) {
			continue
		}
		dir := filepath.Join(r.Dir, d.Name())
		if lock, err := lockFolder(dir); err == nil && lock != nil {
			_, _ = os.RemoveAll(dir), lock.Close()
		}
	}
}
