package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
	driversqlite "modernc.org/sqlite"
)

// fault is what an error of SQLite means to us.
type fault uint8

const (
	faultOther fault = iota
	faultBusy
	faultFull
	faultDisk
	faultDamaged
	faultForeign // not a database
	faultReadOnly
	faultOpen
	faultTooBig
	faultMemory
	faultDuplicate
)

// Result codes of SQLite. The low byte is the primary code.
const (
	codeBusy        = 5
	codeLocked      = 6
	codeNoMem       = 7
	codeReadOnly    = 8
	codeIO          = 10
	codeCorrupt     = 11
	codeFull        = 13
	codeCantOpen    = 14
	codeProtocol    = 15
	codeTooBig      = 18
	codeConstraint  = 19
	codeNotADB      = 26
	codeIOShmSize   = codeIO | 19<<8 // the index of the log could not grow
	codePrimaryKey  = codeConstraint | 6<<8
	codeUnique      = codeConstraint | 8<<8
	codeRowID       = codeConstraint | 10<<8
	primaryCodeMask = 0xff
)

func classify(err error) fault {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return faultFull // of a file that we made ourselves
	}
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return faultReadOnly
	}
	e, ok := errors.AsType[*driversqlite.Error](err)
	if !ok {
		return faultOther
	}
	switch e.Code() {
	case codeIOShmSize:
		return faultFull
	case codePrimaryKey, codeUnique, codeRowID:
		return faultDuplicate
	}
	switch e.Code() & primaryCodeMask {
	case codeBusy, codeLocked, codeProtocol:
		return faultBusy
	case codeFull:
		return faultFull
	case codeIO:
		return faultDisk
	case codeCorrupt:
		return faultDamaged
	case codeNotADB:
		return faultForeign
	case codeReadOnly:
		return faultReadOnly
	case codeCantOpen:
		return faultOpen
	case codeTooBig:
		return faultTooBig
	case codeNoMem:
		return faultMemory
	}
	return faultOther
}

// cause is the error that stands behind a refusal: SQLite's own, marked where
// callers act on what it means.
func (f fault) cause(err error) error {
	if f == faultFull {
		return fmt.Errorf("%w: %w", storage.ErrFull, err)
	}
	if f == faultReadOnly {
		return fmt.Errorf("%w: %w", storage.ErrReadOnly, err)
	}
	return err
}

// sentence says what happened and what to do; the caller says what was kept.
func (f fault) sentence(err error) (happened, remedy string) {
	switch f {
	case faultBusy:
		return "another process kept the session file locked", "try again"
	case faultFull:
		return "the disk is full", "free some space and try again"
	case faultDisk:
		return "the disk reported an error", "check the disk, then open the session again"
	case faultDamaged:
		return "the session file is damaged", "run a check of the session, then restore it from a copy"
	case faultForeign:
		return "the file is not a session", "check its path"
	case faultReadOnly:
		return "the place of the session cannot be written", "check the permissions of the file and its folder"
	case faultOpen:
		return "the session file cannot be opened", "check the permissions of the file and its folder"
	case faultTooBig:
		return "a row is larger than a session can hold", "send less at once"
	case faultMemory:
		return "there is not enough memory", "free some and try again"
	case faultOther, faultDuplicate:
	}
	return "the session file gave an unexpected error: " + err.Error(), "open the session again"
}

// commitFault turns an error inside a commit into its refusal.
func commitFault(err error) error {
	f := classify(err)
	if f == faultDamaged {
		return &tx.Corruption{Report: damagedPage(err)}
	}
	happened, remedy := f.sentence(err)
	return &tx.Faulted{Reason: happened + "; nothing of this change was kept, everything before it is safe; " + remedy, Err: f.cause(err)}
}

// readFault turns an error of a read into one of storage.
func readFault(err error) error {
	if err == nil {
		return nil
	}
	if isStorageError(err) {
		return err
	}
	f := classify(err)
	if f == faultDamaged {
		return &storage.CorruptRow{Report: damagedPage(err)}
	}
	happened, remedy := f.sentence(err)
	return &storage.BackendFault{Reason: happened + "; nothing could be read; " + remedy, Err: f.cause(err)}
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
	f := classify(err)
	if f == faultDamaged {
		return damagedSession(damagedPage(err))
	}
	if f == faultOpen && unwritable(filepath.Dir(path)) {
		f = faultReadOnly // SQLite could not make the files beside it
	}
	happened, remedy := f.sentence(err)
	return &storage.OpenFailed{Reason: fmt.Sprintf("cannot open the session %s: %s; nothing was changed; %s", path, happened, remedy), Err: f.cause(err)}
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
