package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// cause is the error that stands behind a refusal: SQLite's own, marked where
// callers act on what it means.
func cause(f sqlitedb.Fault, err error) error {
	if f == sqlitedb.FaultFull {
		return fmt.Errorf("%w: %w", storage.ErrFull, err)
	}
	if f == sqlitedb.FaultReadOnly {
		return fmt.Errorf("%w: %w", storage.ErrReadOnly, err)
	}
	return err
}

// sentence says what happened and what to do; the caller says what was kept.
func sentence(f sqlitedb.Fault, err error) (happened, remedy string) {
	switch f {
	case sqlitedb.FaultBusy:
		return "another process kept the session file locked", "try again"
	case sqlitedb.FaultFull:
		return "the disk is full", "free some space and try again"
	case sqlitedb.FaultDisk:
		return "the disk reported an error", "check the disk, then open the session again"
	case sqlitedb.FaultDamaged:
		return "the session file is damaged", "run a check of the session, then restore it from a copy"
	case sqlitedb.FaultForeign:
		return "the file is not a session", "check its path"
	case sqlitedb.FaultReadOnly:
		return "the place of the session cannot be written", "check the permissions of the file and its folder"
	case sqlitedb.FaultOpen:
		return "the session file cannot be opened", "check the permissions of the file and its folder"
	case sqlitedb.FaultTooBig:
		return "a row is larger than a session can hold", "send less at once"
	case sqlitedb.FaultMemory:
		return "there is not enough memory", "free some and try again"
	case sqlitedb.FaultOther, sqlitedb.FaultDuplicate:
	}
	return "the session file gave an unexpected error: " + err.Error(), "open the session again"
}

// commitFault turns an error inside a commit into its refusal.
func commitFault(err error) error {
	f := sqlitedb.Classify(err)
	if f == sqlitedb.FaultDamaged {
		return &tx.Corruption{Report: damagedPage(err)}
	}
	happened, remedy := sentence(f, err)
	return &tx.Faulted{Reason: happened + "; nothing of this change was kept, everything before it is safe; " + remedy, Err: cause(f, err)}
}

// readFault turns an error of a read into one of storage.
func readFault(err error) error {
	if err == nil {
		return nil
	}
	if isStorageError(err) {
		return err
	}
	f := sqlitedb.Classify(err)
	if f == sqlitedb.FaultDamaged {
		return &storage.CorruptRow{Report: damagedPage(err)}
	}
	happened, remedy := sentence(f, err)
	return &storage.BackendFault{Reason: happened + "; nothing could be read; " + remedy, Err: cause(f, err)}
}

func isStorageError(err error) bool {
	_, row := errors.AsType[*storage.CorruptRow](err)
	_, unknown := errors.AsType[*storage.UnknownEntry](err)
	_, backend := errors.AsType[*storage.BackendFault](err)
	return row || unknown || backend || errors.Is(err, storage.ErrClosed)
}

// openFault turns an error of an opening into its refusal. It names the file:
// the reader of the message may have asked for several.
func openFault(path string, err error) error {
	if held, ok := errors.AsType[*storage.LeaseHeld](err); ok {
		return held
	}
	if version, ok := errors.AsType[*storage.UnsupportedVersion](err); ok {
		return version
	}
	if failed, ok := errors.AsType[*storage.OpenFailed](err); ok {
		return failed
	}
	if row, ok := errors.AsType[*storage.CorruptRow](err); ok {
		return damagedSession(row.Report)
	}
	f := sqlitedb.Classify(err)
	if f == sqlitedb.FaultDamaged {
		return damagedSession(damagedPage(err))
	}
	if f == sqlitedb.FaultOpen && unwritable(filepath.Dir(path)) {
		f = sqlitedb.FaultReadOnly // SQLite could not make the files beside it
	}
	happened, remedy := sentence(f, err)
	return &storage.OpenFailed{Reason: fmt.Sprintf("cannot open the session %s: %s; nothing was changed; %s", path, happened, remedy), Err: cause(f, err)}
}

// damagedSession refuses a session whose own row cannot be trusted.
func damagedSession(r *corrupt.Report) error {
	return &storage.OpenFailed{
		Reason: "the session is damaged and was not opened: " + r.Error() + "; nothing was changed; restore it from a copy",
		Err:    r,
	}
}

func damagedPage(err error) *corrupt.Report {
	return corrupt.New("sqlite", "database page", "a sound page", err.Error())
}
