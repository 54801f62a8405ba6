package sqlite

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

var (
	_ storage.Walker = (*Store)(nil)
	_ storage.Walker = (*Reader)(nil)
)

// Check walks an existing session without a lease and names every broken
// invariant. The error says why the file could not be looked at at all.
func Check(path string, cells ...storage.CellCheck) ([]storage.Finding, error) {
	// A damaged session row is a finding, not a refusal.
	first, err := look(path, func(c *conn) (bool, error) {
		_, exists, err := header(c, current.reads)
		return exists, err
	})
	if err != nil {
		return nil, err
	}
	r := newReader(path, first)
	findings := storage.Check(r, cells...)
	return findings, r.Close()
}

// Walk shows every row of the session to v in one read transaction: see
// [storage.Walker].
func (r *reads) Walk(v storage.Visitor) error {
	return r.view(func(c *conn) error {
		for _, part := range []func(*conn, storage.Visitor) error{
			walkPages, walkSchema, walkSession, walkEntries, walkUsage, walkIDs, walkRegisters,
		} {
			if err := part(c, v); err != nil {
				return err
			}
		}
		return nil
	})
}

// maxPageFindings bounds SQLite's own list.
const maxPageFindings = 100

// walkPages asks SQLite about its pages and indexes.
func walkPages(c *conn, v storage.Visitor) error {
	return c.Each(fmt.Sprintf("PRAGMA integrity_check(%d)", maxPageFindings), func(r row) (bool, error) {
		if says := fmt.Sprint(r[0]); says != "ok" {
			v.Damage(damage(storage.BackendSound, "", "database pages", says))
		}
		return true, nil
	})
}

// walkSchema compares the tables with those of the format. A trigger, a view or an
// index is from somebody else, and a trigger would act when rows are written. Another
// table lies there and does nothing.
func walkSchema(c *conn, v storage.Visitor) error {
	missing := make(map[string]bool, len(schema))
	for _, text := range schema {
		missing[text] = true
	}
	err := c.Each("SELECT type, name, sql FROM sqlite_schema", func(r row) (bool, error) {
		cols := read(r, "schema")
		kind, name, text := cols.text(), cols.text(), cols.optText()
		switch {
		case cols.err != nil:
			v.Damage(damage(storage.BackendSound, "", "schema", cols.err.Error()))
		case text == nil && strings.HasPrefix(name, "sqlite_autoindex_"): // of a primary key
		case text != nil && missing[*text]:
			delete(missing, *text)
		case kind == "table":
		default:
			v.Damage(damage(storage.BackendSound, "", "schema", fmt.Sprintf("the %s %s is not one of the format", kind, name)))
		}
		return true, nil
	})
	for range missing {
		v.Damage(damage(storage.BackendSound, "", "schema", "a table is missing, or is another one"))
	}
	return err
}

func damage(i storage.Invariant, t storage.Table, subject, detail string) storage.Damage {
	return storage.Damage{Finding: storage.Finding{Invariant: i, Subject: subject, Detail: detail}, Table: t}
}

// damagedRow turns the error of a decoder into damage.
func damagedRow(t storage.Table, subject string, err error) storage.Damage {
	detail := err.Error()
	if r, ok := corrupt.As(err); ok {
		subject, detail = r.Subject, "expected "+r.Expected+", saw "+r.Context
	}
	return damage(storage.RowIntact, t, subject, detail)
}

func walkSession(c *conn, v storage.Visitor) error {
	session, lease, err := readState(c)
	if err != nil {
		d := damagedRow(storage.SessionTable, "session", err)
		d.Invariant = storage.OneSessionRow
		v.Damage(d)
		return nil
	}
	stats, err := session.stats()
	if err == nil {
		_, _, err = session.identity()
	}
	if err != nil {
		v.Damage(damagedRow(storage.SessionTable, "session", err))
		return nil
	}
	if lease != nil && lease.fence != session.fence {
		v.Damage(damage(storage.OneSessionRow, storage.SessionTable, "writer lease",
			fmt.Sprintf("fence %d, but the last one given is %d", lease.fence, session.fence)))
	}
	v.Session(stats, session.nextSeq)
	return nil
}

// walkEntries compares each entry's parent_seq with the parent that its payload
// names, and its place in the path index with the one that the parents give it,
// besides what decoding verifies.
func walkEntries(c *conn, v storage.Visitor) error {
	index := make(map[int64]*head)
	const text = "SELECT " + entryColumns + ", p.id FROM entries e LEFT JOIN entries p ON p.seq = e.parent_seq ORDER BY e.seq"
	return c.Each(text, func(r row) (bool, error) {
		h, e, _, err := c.decodeEntry(r[:len(r)-1])
		if err != nil {
			d := damagedRow(storage.EntryTable, "entry", err)
			d.Seq = h.seq
			d.ID, _ = id.ParseEntryID(sqlitedb.UUIDText([]byte(h.id)))
			v.Damage(d)
			return true, nil
		}
		if parent, _ := r[len(r)-1].([]byte); (h.parent == nil) != e.Parent.IsZero() || string(parent) != string(sqlitedb.UUID(e.Parent)) {
			v.Damage(damage(storage.RowIntact, "", "entry "+e.ID.String(),
				fmt.Sprintf("its parent is %s, but parent_seq leads to %s", orNone(e.Parent.String()), orNone(sqlitedb.UUIDText(parent)))))
		}
		if d := misplaced(index, h); d != "" {
			v.Damage(damage(storage.PathIndexed, "", "entry "+e.ID.String(), d))
		}
		v.Entry(e)
		return true, nil
	})
}

// misplaced computes the place of a head anew from those above it and says how the
// stored one differs. What stands under a damaged row is not judged.
func misplaced(index map[int64]*head, h *head) string {
	own := &head{seq: h.seq, kind: h.kind, customType: h.customType}
	index[h.seq] = own
	var parent, jump *head
	if h.parent != nil {
		if parent = index[*h.parent]; parent == nil {
			delete(index, h.seq)
			return ""
		}
		if jump = parent; parent.jump != nil {
			jump = index[*parent.jump]
		}
	}
	own.link(parent, jump)
	own.customType = nil // what is kept of a million rows is small
	if own.depth == h.depth && own.marks == h.marks && equal(own.jump, h.jump) {
		return ""
	}
	return fmt.Sprintf("its place is depth %d, jump %s, marks %x; the parents give depth %d, jump %s, marks %x",
		h.depth, seqText(h.jump), int64(h.marks), own.depth, seqText(own.jump), int64(own.marks))
}

func equal(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

func seqText(n *int64) string {
	if n == nil {
		return "none"
	}
	return strconv.FormatInt(*n, 10)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func walkUsage(c *conn, v storage.Visitor) error {
	return c.Each("SELECT "+usageColumns+" FROM usage_ledger ORDER BY seq", func(r row) (bool, error) {
		u, err := decodeUsage(r)
		if err != nil {
			d := damagedRow(storage.UsageTable, "usage", err)
			d.Seq, _ = r[0].(int64)
			v.Damage(d)
			return true, nil
		}
		v.Usage(u)
		return true, nil
	})
}

// walkIDs compares the index of ids with the rows, in both directions.
func walkIDs(c *conn, v storage.Visitor) error {
	const lost, dangling = "the index of ids does not lead to it", "the index of ids has it, but there is no such row"
	for _, q := range []struct{ text, detail string }{
		{"SELECT r.seq, r.id FROM entries r LEFT JOIN ids i ON i.id = r.id WHERE i.seq IS NOT r.seq", lost},
		{"SELECT r.seq, r.id FROM usage_ledger r LEFT JOIN ids i ON i.id = r.id WHERE i.seq IS NOT r.seq", lost},
		{"SELECT i.seq, i.id FROM ids i LEFT JOIN entries e ON e.seq = i.seq LEFT JOIN usage_ledger u ON u.seq = i.seq WHERE e.id IS NOT i.id AND u.id IS NOT i.id", dangling},
	} {
		err := c.Each(q.text, func(r row) (bool, error) {
			rowID, _ := r[1].([]byte)
			v.Damage(damage(storage.IDsIndexed, "", "id "+sqlitedb.UUIDText(rowID), fmt.Sprintf("%s at seq %v", q.detail, r[0])))
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func walkRegisters(c *conn, v storage.Visitor) error {
	return c.Each("SELECT "+registerColumns+" FROM registers ORDER BY ns, key", func(r row) (bool, error) {
		ns, key, cell, err := c.decodeRegister(r)
		if err != nil {
			d := damagedRow(storage.RegisterTable, "register", err)
			d.Seq = cell.Seq
			v.Damage(d)
			return true, nil
		}
		v.Register(ns, key, cell)
		return true, nil
	})
}
