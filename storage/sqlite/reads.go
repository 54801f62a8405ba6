package sqlite

import (
	"fmt"
	"math"
	"strings"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// reads is the read half of a handle. Each request is one read transaction on
// one of the read connections, or a part of the one that is open.
type reads struct {
	readers pool
	open    *conn // in a transaction that whoever made this ends; nil: none
}

// query runs f on a read connection; f runs a single statement, which is a read
// transaction by itself.
func (r *reads) query(f func(c *conn) error) error {
	if r.open != nil {
		return readFault(f(r.open))
	}
	c, err := r.readers.take()
	if err != nil {
		return readFault(err)
	}
	defer r.readers.put(c)
	err = f(c)
	if moved := c.unmoved(); moved != nil {
		err = moved // whatever was read, or could not be
	}
	return readFault(err)
}

// view is query for several statements that must see one state.
func (r *reads) view(f func(c *conn) error) error {
	if r.open != nil {
		return readFault(f(r.open))
	}
	return r.query(func(c *conn) error { return c.Within("BEGIN", func() error { return f(c) }) })
}

// Within runs f over one committed state, which is that of a read transaction.
func (r *reads) Within(f func(storage.Reader) error) error {
	var own error
	err := r.view(func(c *conn) error {
		own = f(transaction{&reads{open: c}})
		return nil
	})
	if err != nil {
		return err
	}
	return own
}

// transaction is the Reader of an open transaction.
type transaction struct{ *reads }

// Close does nothing: the connection goes back when the transaction ends.
func (transaction) Close() error { return nil }

// Entries returns the rows found; a missing id is simply absent.
func (r *reads) Entries(ids ...id.EntryID) (map[id.EntryID]entry.Entry, error) {
	found := make(map[id.EntryID]entry.Entry, len(ids))
	err := r.view(func(c *conn) error {
		for _, want := range ids {
			err := c.Each("SELECT "+entryColumns+" FROM ids i CROSS JOIN entries e ON e.seq = i.seq WHERE i.id = ?", func(row row) (bool, error) {
				e, err := c.entry(row)
				if err == nil && e.ID != want {
					err = wrongRow(want, e.ID)
				}
				found[want] = e
				return true, err
			}, sqlitedb.UUID(want))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// wrongRow reports an id that leads to another row than its own.
func wrongRow(want, got id.EntryID) error {
	return &storage.CorruptRow{Report: corrupt.New("sqlite.Entries", "id "+want.String(), "a row of that id", got.String())}
}

// Register returns a cell, or ok false.
func (r *reads) Register(ns register.Namespace, key string) (cell register.Cell, ok bool, err error) {
	err = r.query(func(c *conn) error {
		return c.Each("SELECT "+registerColumns+" FROM registers WHERE ns = ? AND key = ?", func(row row) (_ bool, err error) {
			ok = true
			_, _, cell, err = c.decodeRegister(row)
			return false, err
		}, string(ns), key)
	})
	if err != nil {
		return register.Cell{}, false, err
	}
	return cell, ok, nil
}

// Registers lists the cells whose key starts with prefix, by ascending key.
func (r *reads) Registers(ns register.Namespace, prefix string) (list []storage.KeyedCell, err error) {
	err = r.query(func(c *conn) error {
		return c.eachRegister(storage.CellRange{NS: ns, Prefix: prefix}, func(row row) error {
			_, key, cell, err := c.decodeRegister(row)
			list = append(list, storage.KeyedCell{Key: key, Cell: cell})
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// eachRegister shows the rows of a range of keys, which is one range of the index.
func (c *conn) eachRegister(of storage.CellRange, visit func(row) error) error {
	text, args := "SELECT "+registerColumns+" FROM registers WHERE ns = ? AND key >= ?", []any{string(of.NS), of.Prefix}
	if end, bounded := successor(of.Prefix); bounded {
		text += " AND key < ?"
		args = append(args, end)
	}
	return c.Each(text+" ORDER BY key", func(r row) (bool, error) {
		err := visit(r)
		return err == nil, err
	}, args...)
}

// Snapshot reads counters and cells in one read transaction.
func (r *reads) Snapshot(of ...storage.CellRange) (snap storage.Snapshot, err error) {
	err = r.view(func(c *conn) error {
		session, _, err := readState(c)
		if err != nil {
			return err
		}
		snap.Generation, snap.Next = session.generation, session.nextSeq
		if snap.Stats, err = session.stats(); err != nil {
			return err
		}
		var g storage.Gathering
		for _, want := range of {
			err := c.eachRegister(want, func(row row) error {
				_, key, cell, err := c.decodeRegister(row)
				if err != nil {
					return err
				}
				value, _ := row[len(row)-1].([]byte)
				return g.Add(want, key, cell, len(value))
			})
			if err != nil {
				return err
			}
		}
		snap.Cells = g.Cells
		return nil
	})
	if err != nil {
		return storage.Snapshot{}, err
	}
	return snap, nil
}

// successor is the least text above every text that starts with prefix; there is
// none when prefix has only bytes 0xFF.
func successor(prefix string) (string, bool) {
	b := []byte(prefix)
	for len(b) > 0 && b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	if len(b) == 0 {
		return "", false
	}
	b[len(b)-1]++
	return string(b), true
}

// ScanEntries reads entries by seq.
func (r *reads) ScanEntries(q storage.EntryQuery) (list []entry.Entry, err error) {
	text, args := entryScan(entryColumns, q)
	size := 0
	err = r.query(func(c *conn) error {
		return c.Each(text, func(row row) (bool, error) {
			e, n, err := c.sized(row)
			list = append(list, e)
			size += n
			return q.Bytes <= 0 || size < q.Bytes, err
		}, args...)
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// ScanEntryHeads is ScanEntries without the payloads.
func (r *reads) ScanEntryHeads(q storage.EntryQuery) (list []storage.Head, err error) {
	text, args := entryScan(headColumns+", (SELECT p.id FROM entries p WHERE p.seq = e.parent_seq)", q)
	err = r.query(func(c *conn) error {
		return c.Each(text, func(row row) (bool, error) {
			h, err := verifiedHead(row)
			if err != nil {
				return false, err
			}
			cols := read(row[headWidth:], "parent")
			parent := cols.optBlob()
			if err := cols.damaged(); err != nil {
				return false, err
			}
			shown, err := h.shown(parent)
			list = append(list, shown)
			return true, err
		}, args...)
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// shown is a head as readers see it. parent is the id of the row that the head's
// link leads to.
func (h *head) shown(parent []byte) (storage.Head, error) {
	own, err := id.ParseEntryID(sqlitedb.UUIDText([]byte(h.id)))
	var above id.EntryID
	if err == nil && h.parent != nil {
		above, err = id.ParseEntryID(sqlitedb.UUIDText(parent))
	}
	if report, ok := corrupt.As(err); ok {
		err = &storage.CorruptRow{Report: report.In(fmt.Sprintf("head at seq %d", h.seq))}
	}
	return storage.Head{ID: own, Parent: above, Seq: h.seq}, err
}

// entryScan builds one of eight statements for each set of columns.
func entryScan(columns string, q storage.EntryQuery) (string, []any) {
	var b strings.Builder
	b.WriteString("SELECT " + columns + " FROM entries e WHERE e.seq BETWEEN ? AND ?")
	args := []any{orElse(q.FromSeq, math.MinInt64), orElse(q.ToSeq, math.MaxInt64)}
	if q.Kind != "" {
		b.WriteString(" AND e.type = ?")
		args = append(args, string(q.Kind))
	}
	if q.CustomType != nil {
		b.WriteString(" AND e.custom_type = ?")
		args = append(args, *q.CustomType)
	}
	b.WriteString(" ORDER BY e.seq" + direction(q.Order) + " LIMIT ?")
	return b.String(), append(args, limit(q.Limit))
}

// ScanUsage reads the ledger by seq.
func (r *reads) ScanUsage(q storage.UsageQuery) (list []entry.UsageRow, err error) {
	text := "SELECT " + usageColumns + " FROM usage_ledger WHERE seq BETWEEN ? AND ? ORDER BY seq" + direction(q.Order) + " LIMIT ?"
	err = r.query(func(c *conn) error {
		return c.Each(text, func(row row) (bool, error) {
			u, err := decodeUsage(row)
			list = append(list, u)
			return true, err
		}, orElse(q.FromSeq, math.MinInt64), orElse(q.ToSeq, math.MaxInt64), limit(q.Limit))
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func direction(o storage.Order) string {
	if o == storage.NewestFirst {
		return " DESC"
	}
	return ""
}

func orElse(n *int64, otherwise int64) int64 {
	if n == nil {
		return otherwise
	}
	return *n
}

// limit is the LIMIT of a statement: SQLite takes a negative one for none.
func limit(n *int) int64 {
	if n == nil {
		return -1
	}
	return int64(max(*n, 0))
}

// session reads the session row.
func (r *reads) session() (row sessionRow, err error) {
	err = r.query(func(c *conn) error {
		row, _, err = readState(c)
		return err
	})
	return row, err
}

// Stats returns the counters that commits maintain.
func (r *reads) Stats() (storage.Stats, error) {
	row, err := r.session()
	if err != nil {
		return storage.Stats{}, err
	}
	return row.stats()
}

// Generation counts the rewrites of history: a cursor from an earlier one is
// void.
func (r *reads) Generation() (int64, error) {
	row, err := r.session()
	return row.generation, err
}

// CatalogIdentity returns the ids recorded by [Store.RecordIdentity]; absent ones
// are zero.
func (r *reads) CatalogIdentity() (own, parent id.SessionID, err error) {
	row, err := r.session()
	if err != nil {
		return own, parent, err
	}
	return row.identity()
}
