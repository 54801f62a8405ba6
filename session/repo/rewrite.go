package repo

import (
	"fmt"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/memory"
	"github.com/loom-run/loom/storage/sqlite"
)

// EntryRewrite is asked about each entry. It returns the entry as it is to be, and
// whether that differs; the id, the parent and the kind must stay. Its error ends
// the rewrite.
type EntryRewrite func(e entry.Entry) (rewritten entry.Entry, changed bool, err error)

// ValueRewrite is asked about the value of each register, and about the details of
// each ledger row that has some: then the address is the zero one.
type ValueRewrite func(at register.Address, v jsonv.Value) (rewritten jsonv.Value, changed bool, err error)

// Errors of a rewrite, besides [SourceRead] and [CopyFailed]. The source is
// unchanged.
type (
	// EntryFailed: the transform refused an entry, or returned another one.
	EntryFailed struct {
		ID  id.EntryID
		Err error
	}
	// ValueFailed: the transform refused a value.
	ValueFailed struct {
		At  string
		Err error
	}
)

func (e *EntryFailed) Error() string {
	return fmt.Sprintf("the entry %s cannot be rewritten, nothing was changed: %v", e.ID, e.Err)
}
func (e *EntryFailed) Unwrap() error { return e.Err }

func (e *ValueFailed) Error() string {
	return fmt.Sprintf("%s cannot be rewritten, nothing was changed: %v", e.At, e.Err)
}
func (e *ValueFailed) Unwrap() error { return e.Err }

// Apply rewrites one entry and refuses one that moved: another id, parent or kind,
// or one that does not read back. The seq and the time stay in any case.
func (f EntryRewrite) Apply(e entry.Entry) (entry.Entry, bool, error) {
	out, changed, err := f(e)
	if err != nil {
		return entry.Entry{}, false, &EntryFailed{e.ID, err}
	}
	if !changed {
		return e, false, nil
	}
	out.Seq, out.Timestamp = e.Seq, e.Timestamp
	if out.ID != e.ID || out.Parent != e.Parent || out.Body == nil || out.Body.Kind() != e.Body.Kind() {
		return entry.Entry{}, false, &EntryFailed{e.ID, corrupt.New("repo.Rewrite", "entry", "the same id, parent and kind", "another of them")}
	}
	if out, err = entry.Parse(entry.Encode(out)); err != nil {
		return entry.Entry{}, false, &EntryFailed{e.ID, err}
	}
	return out, true, nil
}

// Apply rewrites one value.
func (f ValueRewrite) Apply(at register.Address, v jsonv.Value) (jsonv.Value, bool, error) {
	out, changed, err := f(at, v)
	if err != nil {
		where := "the details of a ledger row"
		if at != (register.Address{}) {
			where = "a register of " + string(at.NS)
		}
		return jsonv.Value{}, false, &ValueFailed{where, err}
	}
	if !changed {
		return v, false, nil
	}
	return out, true, nil
}

// RewriteMemory builds a session anew in memory: every entry and every value through
// its transform, the ledger and the keys as they are. Seqs are given anew. The
// source is untouched; the new handle is what tells readers of the old one that
// there is another history.
func RewriteMemory(src storage.Reader, now func() int64, entries EntryRewrite, values ValueRewrite) (*memory.Store, error) {
	t, err := rebuilt(src, entries, values)
	if err != nil {
		return nil, err
	}
	to := memory.New(now)
	if _, err := to.Commit(t); err != nil {
		return nil, &CopyFailed{err}
	}
	return to, nil
}

// RewriteSQLite rewrites a session file in place: see [sqlite.RewriteInto], which
// takes the rest of r. The transforms are checked as those of [RewriteMemory] are.
func RewriteSQLite(r sqlite.Rewrite, entries EntryRewrite, values ValueRewrite) (sqlite.Rewritten, error) {
	r.Entry, r.Value = entries.Apply, values.Apply
	return sqlite.RewriteInto(r)
}

// rebuilt is a whole session as one transaction.
func rebuilt(src storage.Reader, entries EntryRewrite, values ValueRewrite) (tx.Tx, error) {
	var t tx.Tx
	rows, err := src.ScanEntries(storage.EntryQuery{})
	if err != nil {
		return tx.Tx{}, &SourceRead{err}
	}
	for _, e := range rows {
		if e, _, err = entries.Apply(e); err != nil {
			return tx.Tx{}, err
		}
		t.Writes = append(t.Writes, tx.InsertEntry{Entry: e})
	}
	ledger, err := src.ScanUsage(storage.UsageQuery{})
	if err != nil {
		return tx.Tx{}, &SourceRead{err}
	}
	for _, row := range ledger {
		if row.Details != nil {
			v, _, err := values.Apply(register.Address{}, *row.Details)
			if err != nil {
				return tx.Tx{}, err
			}
			row.Details = &v
		}
		t.Writes = append(t.Writes, tx.InsertUsage{Row: row})
	}
	for _, ns := range register.Namespaces {
		cells, err := src.Registers(ns, "")
		if err != nil {
			return tx.Tx{}, &SourceRead{err}
		}
		for _, c := range cells {
			v, _, err := values.Apply(register.Address{NS: ns, Key: c.Key}, c.Value)
			if err != nil {
				return tx.Tx{}, err
			}
			t.Writes = append(t.Writes, tx.Set(ns, c.Key, v))
		}
	}
	return t, nil
}
