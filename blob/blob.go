// Package blob keeps large tool outputs as files named by their content.
//
// # Purpose
//
// An output that is too large for the conversation, or not text, is kept whole
// beside the session. The name of a blob is the digest of its bytes: equal
// outputs are stored once, and a damaged one is noticed by whoever reads it.
//
// # Key types
//
// [Store] is one folder of blobs, one per session. [Ref] names a blob; it is what
// the details of a tool result carry, under [DetailsKey].
//
// # Relationships
//
// Imports core/corrupt and core/jsonv.
//
// # Traffic
//
// Files in the store's folder, and nothing else.
//
// # Invariants
//
//   - A blob is there whole or not at all: it is written under another name,
//     flushed, renamed, and the folder is flushed. When Put has returned, the
//     blob survives a power cut as far as the disk is honest.
//   - A reader gets the bytes that were put, or an error instead of the end.
//   - The folder has mode 0700, its files 0600. It is created by the first Put.
//   - A name that is not a digest opens nothing, so no path leads out.
package blob

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/loom-run/loom/core/corrupt"
)

// tempPrefix begins the names of blobs that are being written.
const tempPrefix = "put-"

// Store is a folder of blobs. It belongs to the process that owns the session;
// others may read it. Its methods may be called from several goroutines.
type Store struct {
	dir string
}

// Open returns the store in dir. Nothing is created before the first Put, and
// nothing is checked: a folder that cannot be used is the error of the first
// call that needs it.
func Open(dir string) *Store { return &Store{dir: dir} }

// ErrNotFound says that the store holds no blob of that name.
var ErrNotFound = errors.New("blob: not in this store")

// Put stores all that r yields. When it fails, nothing is stored.
func (s *Store) Put(r io.Reader) (ref Ref, err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return Ref{}, fmt.Errorf("blob: make the folder: %w", err)
	}
	temp, err := os.CreateTemp(s.dir, tempPrefix) // mode 0600
	if err != nil {
		return Ref{}, fmt.Errorf("blob: write: %w", err)
	}
	defer func() {
		if err != nil {
			_ = temp.Close()
			_ = os.Remove(temp.Name())
		}
	}()
	digest := sha256.New()
	size, err := io.Copy(io.MultiWriter(temp, digest), r)
	if err != nil {
		return Ref{}, fmt.Errorf("blob: write: %w", err)
	}
	ref = Ref{SHA256: hex.EncodeToString(digest.Sum(nil)), Size: size}
	if s.has(ref) {
		_ = temp.Close()
		_ = os.Remove(temp.Name())
		return ref, nil
	}
	if err := temp.Sync(); err != nil {
		return Ref{}, fmt.Errorf("blob: flush: %w", err)
	}
	if err := temp.Close(); err != nil {
		return Ref{}, fmt.Errorf("blob: flush: %w", err)
	}
	if err := os.Rename(temp.Name(), s.path(ref)); err != nil {
		return Ref{}, fmt.Errorf("blob: name: %w", err)
	}
	if err := syncFolder(s.dir); err != nil {
		return Ref{}, fmt.Errorf("blob: flush the folder: %w", err)
	}
	return ref, nil
}

// PutBytes stores p.
func (s *Store) PutBytes(p []byte) (Ref, error) { return s.Put(bytes.NewReader(p)) }

// has reports whether the blob is there and undamaged. A damaged one is
// replaced by the Put that asks.
func (s *Store) has(ref Ref) bool {
	r, err := s.Open(ref)
	if err != nil {
		return false
	}
	defer func() { _ = r.Close() }()
	_, err = io.Copy(io.Discard, r)
	return err == nil
}

// Open returns a reader of the blob. Its Read returns a [*corrupt.Report] in
// place of [io.EOF] when the bytes are not those that were put, so a caller must
// read to the end before it trusts what it read.
func (s *Store) Open(ref Ref) (io.ReadCloser, error) {
	if err := ref.check(); err != nil {
		return nil, err
	}
	file, err := os.Open(s.path(ref))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, ref.SHA256)
	}
	if err != nil {
		return nil, fmt.Errorf("blob: open: %w", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("blob: open %s: %w", ref.SHA256, err)
	}
	return &reader{file: file, ref: ref, digest: sha256.New()}, nil
}

func (s *Store) path(ref Ref) string { return filepath.Join(s.dir, ref.SHA256) }

// List names what the folder holds, by ascending digest, as far as its files have
// the names of blobs. Their content is not read: see [Store.Open].
func (s *Store) List() ([]Ref, error) {
	files, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("blob: list: %w", err)
	}
	var refs []Ref
	for _, f := range files {
		info, err := f.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since
		}
		if err != nil {
			return nil, fmt.Errorf("blob: list: %w", err)
		}
		if ref := (Ref{SHA256: f.Name(), Size: info.Size()}); ref.check() == nil {
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

// Sweep removes what a killed process was writing, and returns how many such
// files there were. It is for recovery, before the first Put.
func (s *Store) Sweep() (int, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("blob: sweep: %w", err)
	}
	n := 0
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, e.Name())); err != nil {
			return n, fmt.Errorf("blob: sweep: %w", err)
		}
		n++
	}
	return n, nil
}

type reader struct {
	file   *os.File
	ref    Ref
	digest hash.Hash
	size   int64
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.file.Read(p)
	r.digest.Write(p[:n])
	r.size += int64(n)
	if errors.Is(err, io.EOF) {
		if got := hex.EncodeToString(r.digest.Sum(nil)); got != r.ref.SHA256 || r.size != r.ref.Size {
			return n, corrupt.New("blob.Open", r.ref.SHA256, strconv.FormatInt(r.ref.Size, 10)+" bytes of that digest",
				strconv.FormatInt(r.size, 10)+" bytes of digest "+got)
		}
	}
	return n, err
}

func (r *reader) Close() error { return r.file.Close() }
