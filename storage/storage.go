// Package storage is the contract between a session and what keeps it.
//
// # Purpose
//
// A session is exactly three stores (the tree of entries, the registers, the
// usage ledger) behind one handle. Everything else is a projection that may be
// rebuilt and never wins against them.
//
// # Key types
//
// [Store] and its read half [Reader], the queries [BranchQuery], [EntryQuery],
// [UsageQuery], the [Outcome] of a commit among several, [Snapshot], the read errors [CorruptRow], [UnknownEntry], [BackendFault],
// [ErrClosed], [ErrFull], [ErrReadOnly], and the refusals of an opening [LeaseHeld], [UnsupportedVersion],
// [OpenFailed]. [Check] walks a whole store and names each broken [Invariant] in
// a [Finding].
//
// # Relationships
//
// Imports core only. Each backend is a package below this one.
//
// # Traffic
//
// Commits are core/tx transactions, refused with the four errors of that package.
//
// # Invariants
//
// All or none; every write consumes the next seq; a failed commit consumes
// nothing; ids of entries and ledger rows share one namespace and are never used
// twice; a parent exists at commit. A read returns exactly the committed row.
// A Limit of nil is unlimited, a limit of 0 or less returns no rows.
package storage

import (
	"errors"
	"fmt"
	"time"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
)

// Reader is the read half of an open session. It is safe for use by several
// goroutines. Each call sees one committed state. The errors of its calls are
// *CorruptRow, *BackendFault and ErrClosed, and *UnknownEntry where it is named.
type Reader interface {
	// Entries returns the rows found; a missing id is simply absent.
	Entries(ids ...id.EntryID) (map[id.EntryID]entry.Entry, error)
	// Register returns a cell, or ok false.
	Register(ns register.Namespace, key string) (cell register.Cell, ok bool, err error)
	// Registers lists the cells whose key starts with prefix, by ascending key
	// (byte order).
	Registers(ns register.Namespace, prefix string) ([]KeyedCell, error)
	// ScanBranch walks the path from an entry to the root. A start that does not
	// exist is *UnknownEntry.
	ScanBranch(q BranchQuery) ([]entry.Entry, error)
	// ScanEntries reads entries by seq.
	ScanEntries(q EntryQuery) ([]entry.Entry, error)
	// ScanEntryHeads is ScanEntries without the payloads, which are not read.
	ScanEntryHeads(q EntryQuery) ([]Head, error)
	// ScanUsage reads the ledger by seq.
	ScanUsage(q UsageQuery) ([]entry.UsageRow, error)
	// Stats returns the counters that commits maintain.
	Stats() (Stats, error)
	// Snapshot reads counters and cells in one committed state. More than
	// MaxSnapshotCells cells or MaxSnapshotBytes bytes of them are *SnapshotTooLarge.
	// Rows below its Next never change, so scans up to there complete the state.
	Snapshot(of ...CellRange) (Snapshot, error)
	// Within runs f over one committed state: every read of the Reader that f is given
	// sees it, whatever is committed meanwhile. That Reader is good until f returns; its
	// Close does nothing. f must be short and must neither commit nor use the handle
	// itself, for a store may hold commits up until it returns. An error of f is
	// returned as it is.
	Within(f func(Reader) error) error
	// Close releases the handle; a second call returns the first outcome.
	Close() error
}

// Store is one open session with its writer. Commits are serialised.
type Store interface {
	Reader
	// Commit applies t or refuses it with one of *tx.StaleExpectation,
	// *tx.Corruption, *tx.Faulted, *tx.LeaseLost. It cannot be cancelled.
	Commit(t tx.Tx) (tx.Result, error)
	// CommitAll commits several transactions in order, each whole or refused by
	// itself, as so many calls of Commit would; those that are applied become
	// durable together. A fault of the backend may refuse all of them.
	CommitAll(txs ...tx.Tx) []Outcome
}

// Outcome is what became of one of several transactions: a result or a refusal.
type Outcome struct {
	Result tx.Result
	Err    error
}

// OneByOne is CommitAll for a store to which it makes no difference whether commits
// come together.
func OneByOne(commit func(tx.Tx) (tx.Result, error), txs []tx.Tx) []Outcome {
	outcomes := make([]Outcome, len(txs))
	for i, t := range txs {
		outcomes[i].Result, outcomes[i].Err = commit(t)
	}
	return outcomes
}

// Head is where an entry stands, without what it says.
type Head struct {
	ID, Parent id.EntryID // Parent is absent for a root
	Seq        int64
}

// KeyedCell is a listed register.
type KeyedCell struct {
	Key string
	register.Cell
}

// Order of a scan. The zero value is the default of the scan it is used in.
type Order uint8

// The orders.
const (
	DefaultOrder Order = iota // branch scans: newest first; others: oldest first
	OldestFirst
	NewestFirst
)

// BranchQuery walks from Start to the root. The steps are applied in this order:
// order, inclusive stop, filter, exclusive cursor, limit. A stop row is returned
// only if it also passes the filter; a stop that is not on the path never fires.
type BranchQuery struct {
	Start      id.EntryID // unknown: *UnknownEntry
	Order      Order
	StopAtKind entry.Kind // "" for none
	StopAtID   id.EntryID
	Kind       entry.Kind // "" for all
	CustomType *string    // matches only custom entries
	Cursor     *int64     // newest first keeps seq < cursor, oldest first seq > cursor
	Limit      *int
}

// EntryQuery reads entries of the whole session by seq.
type EntryQuery struct {
	Kind           entry.Kind
	CustomType     *string
	FromSeq, ToSeq *int64 // inclusive
	Order          Order
	Limit          *int
	// Bytes, when it is above 0, ends the scan with the row that brings the encoded
	// entries to this size. Heads are not counted.
	Bytes int
}

// UsageQuery reads the ledger by seq.
type UsageQuery struct {
	FromSeq, ToSeq *int64 // inclusive
	Order          Order
	Limit          *int
}

// Stats are the counters that commits maintain.
type Stats struct {
	Messages int64 // message entries only
	Usage    usage.Usage
}

// CellRange is the cells of a namespace whose key starts with a prefix.
type CellRange struct {
	NS     register.Namespace
	Prefix string
}

// Bounds of a [Snapshot].
const (
	MaxSnapshotCells = 1024
	MaxSnapshotBytes = 1 << 20
)

// Snapshot is what is current at one moment: the cells that were asked for, in the
// order of the ranges and by ascending key in each, and the counters.
type Snapshot struct {
	Generation int64 // of the history; 0 where a backend never rewrites
	Next       int64 // the seq of the next write: whatever is below is in this state
	Stats      Stats
	Cells      []SnapshotCell
}

// SnapshotCell is a cell and where it is.
type SnapshotCell struct {
	register.Address
	register.Cell
}

// SnapshotTooLarge: the ranges hold more than a snapshot takes. Nothing is returned;
// ask for narrower ones.
type SnapshotTooLarge struct{ Range CellRange } // in which the bound was reached

func (e *SnapshotTooLarge) Error() string {
	return fmt.Sprintf("the cells %s/%s… hold more than a snapshot of %d cells or %d bytes", e.Range.NS, e.Range.Prefix, MaxSnapshotCells, MaxSnapshotBytes)
}

// Gathering collects the cells of a snapshot within its bounds.
type Gathering struct {
	Cells []SnapshotCell
	bytes int
}

// Add takes one more cell, whose value has a size, or refuses it.
func (g *Gathering) Add(r CellRange, key string, c register.Cell, size int) error {
	g.bytes += len(key) + size
	if len(g.Cells) == MaxSnapshotCells || g.bytes > MaxSnapshotBytes {
		return &SnapshotTooLarge{r}
	}
	g.Cells = append(g.Cells, SnapshotCell{register.Address{NS: r.NS, Key: key}, c})
	return nil
}

// ErrClosed is returned by reads after Close.
var ErrClosed = errors.New("the session is closed")

// ErrFull is behind every error whose cause is that there is no room: a commit's
// *tx.Faulted, an opening's *OpenFailed, a read's *BackendFault.
var ErrFull = errors.New("there is no room left")

// ErrReadOnly is behind every error whose cause is that the place of the session
// cannot be written.
var ErrReadOnly = errors.New("the place cannot be written")

// CorruptRow: a stored row does not decode, or its digest does not match.
type CorruptRow struct{ Report *corrupt.Report }

func (e *CorruptRow) Error() string { return "a stored row is damaged: " + e.Report.Error() }
func (e *CorruptRow) Unwrap() error { return e.Report }

// UnknownEntry: a branch scan started at an entry that is not there.
type UnknownEntry struct{ ID id.EntryID }

func (e *UnknownEntry) Error() string { return "there is no entry " + e.ID.String() }

// BackendFault: the backend could not answer.
type BackendFault struct {
	Reason string
	Err    error
}

func (e *BackendFault) Error() string { return e.Reason }
func (e *BackendFault) Unwrap() error { return e.Err }

// Holder names the process that holds a session's lease.
type Holder struct {
	Owner   string // unique for each opening
	PID     int
	Host    string
	Started string // identifies the process among reuses of its pid; opaque
	Since   time.Time
}

// LeaseHeld: another process is the session's writer.
type LeaseHeld struct {
	Holder  Holder
	Expires time.Time
}

func (e *LeaseHeld) Error() string {
	return fmt.Sprintf("the session is open in another process (pid %d on %s since %s); nothing was changed; end that process, wait until %s, or free the session with `loom sessions take`",
		e.Holder.PID, e.Holder.Host, e.Holder.Since.Format(time.DateTime), e.Expires.Format(time.TimeOnly))
}

// UnsupportedVersion: the file's format is not one that this build can open, or,
// where Migrates is true, not without being opened for writing first.
type UnsupportedVersion struct {
	Found, Supported int64
	Migrates         bool
}

func (e *UnsupportedVersion) Error() string {
	if e.Found > e.Supported {
		return fmt.Sprintf("the session was written in storage format %d and this build reads up to %d; nothing was changed; use a newer loom", e.Found, e.Supported)
	}
	if e.Migrates {
		return fmt.Sprintf("the session is in storage format %d, which is only read after it was brought to format %d; nothing was changed; go on with the session once (`loom run --session`)", e.Found, e.Supported)
	}
	return fmt.Sprintf("the session is in storage format %d and this build has no way from there to %d; nothing was changed", e.Found, e.Supported)
}

// OpenFailed: the session could not be opened for another reason; Err tells a
// session that does not exist (fs.ErrNotExist: its file is missing or empty) from
// others.
type OpenFailed struct {
	Reason string
	Err    error
}

func (e *OpenFailed) Error() string { return e.Reason }
func (e *OpenFailed) Unwrap() error { return e.Err }
