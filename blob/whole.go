package blob

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// Others names what lies in the folder besides blobs: halves that are being written,
// or that a killed process left, and whatever else.
func (s *Store) Others() (names []string, err error) {
	files, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("blob: list: %w", err)
	}
	for _, f := range files {
		if (Ref{SHA256: f.Name()}).check() != nil {
			names = append(names, f.Name())
		}
	}
	return names, nil
}

// Half reports whether a file of that name is one that is being written, or that a
// killed process was writing: see [Store.Sweep].
func Half(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// Raw opens a blob for a search: unlike [Store.Open] it yields a damaged one too, as
// it is.
func (s *Store) Raw(ref Ref) (io.ReadCloser, error) {
	r, err := s.Open(ref)
	if err != nil {
		return nil, err
	}
	checked, ok := r.(*reader)
	if !ok {
		return r, nil
	}
	return checked.file, nil
}

// Adopt puts a blob of another store into this one. Where the system can, both then
// name the same bytes, which no store ever changes; else they are copied, and a
// damaged blob is not. Removing it from one leaves it in the other.
func (s *Store) Adopt(ref Ref, from *Store) error {
	if err := ref.check(); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("blob: make the folder: %w", err)
	}
	err := os.Link(from.path(ref), s.path(ref))
	switch {
	case err == nil:
		if err := syncFolder(s.dir); err != nil {
			return fmt.Errorf("blob: flush the folder: %w", err)
		}
		return nil
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s", ErrNotFound, ref.SHA256)
	}
	r, err := from.Open(ref)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	_, err = s.Put(r)
	return err
}

// Remove takes blobs out of the store. One that is not there is removed already.
func (s *Store) Remove(refs ...Ref) error {
	for _, ref := range refs {
		if err := ref.check(); err != nil {
			return err
		}
		if err := os.Remove(s.path(ref)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("blob: remove: %w", err)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	if err := syncFolder(s.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("blob: flush the folder: %w", err)
	}
	return nil
}
