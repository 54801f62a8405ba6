package sqlite

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// Export is one copy of a closed session file for another place.
type Export struct {
	Path string
	To   string // a file that does not exist yet, in a folder that does
	// Op names the operation. The session stays leased in its name until the export is
	// released; the same operation may copy again.
	Op    string
	Clock func() int64 // Unix ms

	BusyTimeout time.Duration // 0 for the default

	// Process and Running are those of [Config].
	Process Process
	Running Running
}

func (e *Export) open() (*Store, error) {
	return openAs(Config{
		Path: e.Path, Owner: movePrefix + e.Op, Clock: e.Clock, LeaseTTL: ClosedLeaseTTL, BusyTimeout: e.BusyTimeout,
		Process: e.Process, Running: e.Running, closed: true,
	})
}

// ExportClosed copies a session that nobody writes to a file of its own, which is
// flushed, has no lease, and holds nothing of free pages. It returns the SHA-256 of the copy
// in hexadecimal. The session stays as it is, and leased to the operation: see
// [ReleaseExport]. Of a copy that fails nothing is left.
//
// The error is *storage.LeaseHeld, *storage.OpenFailed, *storage.UnsupportedVersion,
// *storage.CorruptRow or *storage.BackendFault.
func ExportClosed(e Export) (digest string, err error) {
	if _, err := os.Lstat(e.To); !errors.Is(err, fs.ErrNotExist) {
		return "", &storage.BackendFault{Reason: "there is something at " + e.To + " already; nothing was written", Err: fs.ErrExist}
	}
	s, err := e.open()
	if err != nil {
		return "", err
	}
	if digest, err = s.export(e.To); err != nil {
		return "", errors.Join(readFault(err), removeCopy(e.To), s.Close())
	}
	s.lease = leaseRow{} // it stays
	if err := s.Close(); err != nil {
		return "", errors.Join(err, removeCopy(e.To))
	}
	return digest, nil
}

// removeCopy removes a copy and what SQLite made beside it.
func removeCopy(path string) error {
	var errs []error
	for _, suffix := range append([]string{""}, sqlitedb.Besides[:]...) {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *Store) export(to string) (digest string, err error) {
	if err := createFile(to); err != nil { // with its mode; SQLite takes an empty file for none
		return "", err
	}
	if _, err := s.w.Exec("VACUUM INTO ?", to); err != nil {
		return "", err
	}
	c, err := dial(to, sqlitedb.ReadWrite)
	if err != nil {
		return "", err
	}
	err = c.Tune(s.cfg.BusyTimeout, Full, writerCache)
	if err == nil { // the lease names this machine, which is nobody's business elsewhere
		err = c.Pragmas([][2]string{{"secure_delete", "1"}})
	}
	if err == nil {
		err = c.Within("BEGIN IMMEDIATE", func() error {
			_, err := c.Exec("DELETE FROM writer_lease")
			return err
		})
	}
	if err == nil {
		err = c.Steady()
	}
	if err := errors.Join(err, c.Close()); err != nil {
		return "", err
	}
	return digestFile(to)
}

// digestFile reads a copy that nobody else knows yet, and flushes it.
func digestFile(path string) (digest string, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("the copy cannot be read back: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// ReleaseExport gives back the lease that an export left. Somebody else's stays: a
// session that another operation or process holds is left alone, and that is no error.
func ReleaseExport(e Export) error {
	s, err := e.open()
	if _, held := errors.AsType[*storage.LeaseHeld](err); held {
		return nil
	}
	if err != nil {
		return err
	}
	return s.Close()
}
