package sqlitedb

import (
	"errors"
	"io/fs"
	"syscall"

	driversqlite "modernc.org/sqlite"
)

// Fault is what an error of SQLite means to us.
type Fault uint8

const (
	FaultOther Fault = iota
	FaultBusy
	FaultFull
	FaultDisk
	FaultDamaged
	FaultForeign // not a database
	FaultReadOnly
	FaultOpen
	FaultTooBig
	FaultMemory
	FaultDuplicate
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

// Classify says what an error of this package, or of a file that the caller made beside
// a database, means. An error of anything else is FaultOther.
func Classify(err error) Fault {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return FaultFull // of a file that we made ourselves
	}
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return FaultReadOnly
	}
	e, ok := errors.AsType[*driversqlite.Error](err)
	if !ok {
		return FaultOther
	}
	switch e.Code() {
	case codeIOShmSize:
		return FaultFull
	case codePrimaryKey, codeUnique, codeRowID:
		return FaultDuplicate
	}
	switch e.Code() & primaryCodeMask {
	case codeBusy, codeLocked, codeProtocol:
		return FaultBusy
	case codeFull:
		return FaultFull
	case codeIO:
		return FaultDisk
	case codeCorrupt:
		return FaultDamaged
	case codeNotADB:
		return FaultForeign
	case codeReadOnly:
		return FaultReadOnly
	case codeCantOpen:
		return FaultOpen
	case codeTooBig:
		return FaultTooBig
	case codeNoMem:
		return FaultMemory
	}
	return FaultOther
}
