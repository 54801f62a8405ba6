//go:build unix

package admin

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const foldersLock = true

// lockFolder locks a folder until the file it returns is closed, or the process ends.
// Where somebody else has it, there is no file and no error; where it is gone by the
// time it is locked, the error is fs.ErrNotExist.
func lockFolder(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		if err = sameFile(f, path); err == nil {
			return f, nil
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = nil
	}
	return nil, errors.Join(err, f.Close())
}

// sameFile fails unless the path still leads to the open file.
func sameFile(f *os.File, path string) error {
	open, err := f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Lstat(path)
	if err == nil && !os.SameFile(open, there) {
		err = fs.ErrNotExist
	}
	return err
}

// syncFolderOf makes a rename in the folder of path durable.
func syncFolderOf(path string) error {
	f, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
