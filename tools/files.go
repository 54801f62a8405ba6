package tools

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// fileLimit is the most bytes of a file that the file tools read.
const fileLimit = 8 << 20

// load reads a regular file whole.
func (w *workspace) load(at place) ([]byte, fs.FileInfo, error) {
	f, info, err := w.openRegular(at)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	if info.Size() > fileLimit {
		return nil, nil, refusePath("%q has %d bytes; files of at most %d are read. Use grep to find the part that matters", at.shown, info.Size(), fileLimit)
	}
	// The size may be wrong by now, and is 0 for the files of /proc.
	content, err := io.ReadAll(io.LimitReader(f, fileLimit+1))
	if err != nil {
		return nil, nil, w.failure(at.shown, err)
	}
	if len(content) > fileLimit {
		return nil, nil, refusePath("%q has more than %d bytes, which is the most that is read", at.shown, fileLimit)
	}
	return content, info, nil
}

// existing describes the file that a write is going to replace; nil for none.
func (w *workspace) existing(at place) (fs.FileInfo, error) {
	info, err := w.root.Stat(filepath.FromSlash(at.rel))
	switch {
	case errors.Is(err, fs.ErrNotExist) && w.stands():
		return nil, nil
	case err != nil:
		return nil, w.failure(at.shown, err)
	case info.IsDir():
		return nil, refusePath("%q is a folder", at.shown)
	case !info.Mode().IsRegular():
		return nil, refusePath("%q is not a regular file", at.shown)
	case info.Mode().Perm()&0o200 == 0:
		// Renaming over it would work, and would go around what the mode says.
		return nil, refusePath("%q is read-only", at.shown)
	}
	return info, nil
}

// replace gives a file this content, whole or not at all. A new file gets the
// usual mode, a replaced one keeps its own.
func (w *workspace) replace(at place, content []byte, was fs.FileInfo) error {
	var number [8]byte
	_, _ = rand.Read(number[:]) // never fails
	return w.replaceThrough(filepath.FromSlash(path.Join(path.Dir(at.rel), ".loom-"+hex.EncodeToString(number[:])+".tmp")), at, content, was)
}

// replaceThrough is replace by way of a name in the same folder, which nothing has.
func (w *workspace) replaceThrough(temp string, at place, content []byte, was fs.FileInfo) (err error) {
	if dir := path.Dir(at.rel); dir != "." {
		if err := w.root.MkdirAll(filepath.FromSlash(dir), 0o777); err != nil {
			return w.failure(at.shown, err)
		}
	}
	f, err := w.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return w.failure(at.shown, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = w.root.Remove(temp)
			err = w.failure(at.shown, err)
		}
	}()
	if _, err := f.Write(content); err != nil {
		return err
	}
	if was != nil {
		if err := f.Chmod(was.Mode().Perm()); err != nil {
			return err
		}
	}
	// Without this a power cut may leave an empty file under the new name.
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return w.root.Rename(temp, filepath.FromSlash(at.rel))
}
