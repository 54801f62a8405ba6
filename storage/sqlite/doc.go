// Package sqlite keeps each session in one SQLite file.
//
// # Purpose
//
// An acknowledged commit survives a crash of the process, and with FULL a power
// cut; a session that another process writes, that a newer build wrote or that is
// damaged is refused before anything is written. docs/formats/session-file.md is
// the format.
//
// # Key types
//
// [Store] is a session with its writer, opened by [Open]. [Reader] reads without a
// lease, beside a live writer too. [Peek] reads a session's [Summary]. [Check]
// walks a file and names every broken invariant.
//
// # Relationships
//
// Imports storage, core, and storage/sqlitedb, which has the SQLite driver.
// Only this package opens, reads, copies or scans a session file: a stray open
// and close of it, or of the -wal and -shm beside it, by anybody in this process
// can drop the locks that keep other processes away.
//
// # Traffic
//
// Commits are core/tx transactions, one at a time. Opening and closing write the
// lease; nothing is written while nothing is committed.
//
// # Invariants
//
// Every commit checks the lease's owner and fence inside its own transaction.
// Every row that is decoded has its digest verified. Every PRAGMA of a connection
// was read back. Statements of the writer are never cancelled.
package sqlite
