package sqlite

import (
	"fmt"

	"github.com/loom-run/loom/storage"
)

// format is a storage version and the steps that lead there. A step runs inside a
// transaction of its own, which ends by naming its version, so that a crash between two
// steps leaves a file that the next opening takes further. Steps may change every table
// but session and writer_lease, which say whose the file is and are read before.
type format struct {
	version int64
	steps   map[int64]func(*conn) error // by the version that they start from
}

// current is the format that this build writes. Version 1 is the first that was ever
// released, so nothing leads to it.
var current = format{version: Version}

// admits refuses a version that this build can neither read nor bring to its own.
// Nothing has been written then.
func (f *format) admits(version int64) error {
	for v := version; v < f.version; v++ {
		if f.steps[v] == nil {
			return &storage.UnsupportedVersion{Found: version, Supported: f.version}
		}
	}
	if version > f.version {
		return &storage.UnsupportedVersion{Found: version, Supported: f.version}
	}
	return nil
}

// reads refuses every version but its own: reading changes nothing.
func (f *format) reads(version int64) error {
	err := f.admits(version)
	if err == nil && version != f.version {
		err = &storage.UnsupportedVersion{Found: version, Supported: f.version, Migrates: true}
	}
	return err
}

// migrate brings a session whose lease is held to the format of this build.
func (s *Store) migrate(from int64) error {
	f := s.cfg.format
	for v := from; v < f.version; v++ {
		err := s.w.Within("BEGIN IMMEDIATE", func() error {
			if _, err := s.hold(s.cfg.Clock()); err != nil {
				return err
			}
			if err := f.steps[v](s.w); err != nil {
				return err
			}
			return s.w.Once(fmt.Sprintf("PRAGMA user_version=%d", v+1), nil)
		})
		if err != nil {
			return &storage.OpenFailed{
				Reason: fmt.Sprintf("cannot open the session %s: it could not be brought from storage format %d to %d (%v); it stays in format %d and keeps everything", s.cfg.Path, v, v+1, err, v),
				Err:    err,
			}
		}
	}
	return nil
}
