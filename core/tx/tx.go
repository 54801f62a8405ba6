// Package tx is the unit of durability: an ordered list of writes that lands
// whole or not at all, under expectations about cells.
//
// # Purpose
//
// Everything a session remembers gets there by one [Tx]. The four ways in which
// one is refused are the only ones, and each asks for a different answer.
//
// # Key types
//
// [Tx], [Write] (sealed: [InsertEntry], [InsertUsage], [SetRegister],
// [DeleteRegister]), [Expectation], [Result]; the refusals [StaleExpectation],
// [Corruption], [Faulted], [LeaseLost].
//
// # Relationships
//
// Imports core/entry, core/register, core/corrupt, core/jsonv.
//
// # Traffic
//
// Defines the vocabulary of every commit; commits nothing.
//
// # Invariants
//
// A refused Tx changed nothing and consumed no seq. Every write of a committed
// one consumed the next seq, deletions included.
package tx

import (
	"fmt"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
)

// Tx is applied all-or-none, writes in order. An empty list of writes is legal:
// with expectations it is a fence.
type Tx struct {
	Writes   []Write
	Expected []Expectation
}

// Write is one of InsertEntry, InsertUsage, SetRegister, DeleteRegister.
type Write interface{ write() }

// InsertEntry adds a row to the tree. Its parent must exist, possibly through an
// earlier write of the same Tx. Storage stamps seq and timestamp.
type InsertEntry struct{ Entry entry.Entry }

// InsertUsage adds a row to the ledger.
type InsertUsage struct{ Row entry.UsageRow }

// SetRegister replaces a cell.
type SetRegister struct {
	register.Address
	Value jsonv.Value
}

// DeleteRegister removes a cell; removing an absent one does nothing (and
// consumes a seq).
type DeleteRegister struct{ register.Address }

func (InsertEntry) write()    {}
func (InsertUsage) write()    {}
func (SetRegister) write()    {}
func (DeleteRegister) write() {}

// Set is a SetRegister.
func Set(ns register.Namespace, key string, v jsonv.Value) Write {
	return SetRegister{register.Address{NS: ns, Key: key}, v}
}

// Delete is a DeleteRegister.
func Delete(ns register.Namespace, key string) Write {
	return DeleteRegister{register.Address{NS: ns, Key: key}}
}

// Expectation guards a Tx: the cell was last set by the write with that Seq, or
// with Seq 0 does not exist. It is judged against the state before the Tx.
type Expectation struct {
	register.Address
	Seq int64
}

// Expect demands a cell at seq.
func Expect(ns register.Namespace, key string, seq int64) Expectation {
	return Expectation{register.Address{NS: ns, Key: key}, seq}
}

// ExpectAbsent demands that there is no such cell.
func ExpectAbsent(ns register.Namespace, key string) Expectation { return Expect(ns, key, 0) }

// Result says where a committed Tx landed.
type Result struct {
	FirstSeq  int64   // of the first write; of the next one to come when there was none
	Seqs      []int64 // one for each write, in order
	Timestamp int64   // Unix ms, stamped into every entry
}

// Newest is the seq of the last write; 0 when there was none.
func (r Result) Newest() int64 {
	if len(r.Seqs) == 0 {
		return 0
	}
	return r.Seqs[len(r.Seqs)-1]
}

// StaleExpectation: a cell moved since it was read. Reload and plan again.
type StaleExpectation struct{ Failed Expectation }

func (e *StaleExpectation) Error() string {
	if e.Failed.Seq == 0 {
		return fmt.Sprintf("commit refused: %s exists already", e.Failed.Address)
	}
	return fmt.Sprintf("commit refused: %s changed since seq %d", e.Failed.Address, e.Failed.Seq)
}

// Corruption: the Tx or the stored state breaks a rule. Do not retry.
type Corruption struct{ Report *corrupt.Report }

func (e *Corruption) Error() string { return "commit refused: " + e.Report.Error() }
func (e *Corruption) Unwrap() error { return e.Report }

// Faulted: the backend failed, or its handle is closed.
type Faulted struct {
	Reason string // for people
	Err    error  // the cause, when there is one
}

func (e *Faulted) Error() string { return "commit failed: " + e.Reason }
func (e *Faulted) Unwrap() error { return e.Err }

// LeaseLost: this process is no longer the session's writer. No reload and no
// retry gets past it; the session must be opened again.
type LeaseLost struct{ HeldBy *string } // nil when no lease exists at all

func (e *LeaseLost) Error() string { return DescribeLeaseLoss(e.HeldBy) }

// DescribeLeaseLoss is the one wording of a lost lease.
func DescribeLeaseLoss(heldBy *string) string {
	if heldBy == nil {
		return "this process is no longer the writer of the session: its lease is gone; nothing more was written, open the session again"
	}
	return "this process is no longer the writer of the session: " + *heldBy + " holds it now; nothing more was written, open the session again"
}
