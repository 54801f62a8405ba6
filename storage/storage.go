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
// [UsageQuery], the [Outcome] of a commit among several, the read errors [CorruptRow], [UnknownEntry], [BackendFault],
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

// UnsupportedVersion: the file's format is not one that this build can open.
type UnsupportedVersion struct{ Found, Supported int64 }

func (e *UnsupportedVersion) Error() string {
	if e.Found > e.Supported {
		return fmt.Sprintf("the session was written in storage format %d and this build reads up to %d; nothing was changed; use a newer loom", e.Found, e.Supported)
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
