package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// placeBlank writes the blank file without a name, flushes it, and gives it its name,
// so that it is there whole or not at all, and a process that is killed leaves
// nothing. The error is [errors.ErrUnsupported] where the file system has no files
// without names.
func placeBlank(path string) (err error) {
	folder := filepath.Dir(path)
	fd, err := unix.Open(folder, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
			return errors.ErrUnsupported
		}
		return &os.PathError{Op: "open", Path: folder, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(blank); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	switch {
	case errors.Is(err, unix.EEXIST): // somebody else made it meanwhile
		return nil
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EPERM): // no /proc, or no links
		return errors.ErrUnsupported
	case err != nil:
		return &os.LinkError{Op: "link", Old: folder, New: path, Err: err}
	}
	return syncFolder(path)
}
