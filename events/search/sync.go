package search

import (
	"fmt"
	"strings"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// Source is one session, as its host reads it.
type Source interface {
	Session() id.SessionID
	// Read returns rows after a seq, the oldest first: at most limit, and fewer only when
	// there are no more or they are large. All of a batch is of one state of the session.
	Read(after int64, limit int) (Batch, error)
	// Workspace is the directory that the session works in; empty where it has none.
	Workspace() (string, error)
	// Stamp says what the session's file looked like before it was read, so that one that
	// did not change need not be opened again. Empty: nobody looked.
	Stamp() string
}

// Batch is a part of a session.
type Batch struct {
	Generation int64 // of the session's rewrites
	Rows       []Row
	Last       bool // there are no more behind it
}

// Row is an entry and the strand that it is of.
type Row struct {
	Entry  entry.Entry
	Strand string
}

// SourceError is a session that could not be read. The index is as it was before the rows
// that could not.
type SourceError struct {
	Session id.SessionID
	Err     error
}

func (e *SourceError) Error() string {
	return fmt.Sprintf("the session %s could not be read for the search index: %v", e.Session, e.Err)
}

func (e *SourceError) Unwrap() error { return e.Err }

// batchRows is how many rows one transaction takes.
const batchRows = 1000

// MaxText is how much of an entry's text is indexed and kept for excerpts, in bytes. A row
// of a session may be larger.
const MaxText = 256 << 10

// Sync reads what came since the session was read last; n is how many entries can be found
// that could not be before.
func (x *Index) Sync(src Source) (n int, err error) {
	for {
		added, last, err := x.step(src)
		n += added
		if err != nil || last {
			return n, err
		}
	}
}

// step is one transaction. The cursor is read inside it, so that of two processes the second
// finds the work done.
func (x *Index) step(src Source) (added int, last bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	session := sqlitedb.UUID(src.Session())
	err = x.c.Within("BEGIN IMMEDIATE", func() error {
		known, generation, high, stamp, err := x.cursor(session)
		if err != nil {
			return err
		}
		b, err := src.Read(high, batchRows)
		if err == nil && known && b.Generation != generation { // the session was rewritten: its seqs mean other rows now
			if err := x.clear(session); err != nil {
				return err
			}
			high = 0
			b, err = src.Read(0, batchRows)
		}
		if err != nil {
			return &SourceError{src.Session(), err}
		}
		if last = b.Last; last && len(b.Rows) == 0 && known && b.Generation == generation && stamp == src.Stamp() {
			return nil
		}
		workspace, err := src.Workspace()
		if err != nil {
			return &SourceError{src.Session(), err}
		}
		for _, r := range b.Rows {
			high = r.Entry.Seq
			ok, err := x.insert(src.Session(), session, r, workspace)
			if err != nil {
				return err
			}
			if ok {
				added++
			}
		}
		read := ""
		if last {
			read = src.Stamp()
		}
		_, err = x.c.Exec(`INSERT INTO source VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (session) DO UPDATE SET generation = excluded.generation, high = excluded.high, stamp = excluded.stamp, workspace = excluded.workspace`,
			session, b.Generation, high, read, workspace)
		return err
	})
	if err != nil {
		return 0, false, x.fault(err)
	}
	return added, last, nil
}

func (x *Index) cursor(session []byte) (known bool, generation, high int64, stamp string, err error) {
	r, known, err := x.c.One("SELECT generation, high, stamp FROM source WHERE session = ?", session)
	if err != nil || !known {
		return false, 0, 0, "", err
	}
	return true, number(r[0]), number(r[1]), text(r[2]), nil
}

// A row's number is its time and a counter, so that newer rows have larger ones whatever
// was indexed first: then "the newest" needs no sorting, and a span of time is a range.
const counterBits = 20

func (x *Index) insert(s id.SessionID, session []byte, r Row, workspace string) (bool, error) {
	role, tool, said := textOf(r.Entry)
	if said == "" {
		return false, nil
	}
	said = canonical(bounded(said))
	body, names := document(said)
	if body == "" {
		return false, nil
	}
	first := max(r.Entry.Timestamp, 0) << counterBits
	taken, _, err := x.c.One("SELECT max(id) FROM row WHERE id >= ? AND id < ?", first, first+1<<counterBits)
	if err != nil {
		return false, err
	}
	rowid := first
	if n, ok := taken[0].(int64); ok {
		rowid = n + 1
	}
	if _, err := x.c.Exec("INSERT INTO row VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		rowid, session, sqlitedb.UUID(r.Entry.ID), r.Entry.Seq, string(role), tool, r.Strand, said); err != nil {
		return false, err
	}
	facets := strings.Join(Query{Session: s, Role: role, Kind: r.Entry.Body.Kind(), Tool: tool, Workspace: workspace, Strand: r.Strand}.facets(), " ")
	_, err = x.c.Exec("INSERT INTO words (rowid, body, names, facets) VALUES (?, ?, ?, ?)", rowid, body, names, facets)
	return err == nil, err
}

// textOf is what of an entry is indexed, and whose it is.
func textOf(e entry.Entry) (role words.SearchRole, tool, text string) {
	switch b := e.Body.(type) {
	case entry.Message:
		switch m := b.Message.(type) {
		case *message.User:
			return words.SearchPerson, "", lines(m.Content)
		case *message.Assistant:
			return words.SearchModel, "", lines(m.Content)
		case *message.ToolResult:
			return words.SearchTool, m.ToolName, lines(m.Content)
		case *message.Custom: // an application's own
		}
	case entry.Compaction:
		return words.SearchSummary, "", b.Summary
	case entry.BranchSummary:
		return words.SearchSummary, "", b.Summary
	}
	return "", "", ""
}

// lines joins the texts of a message, each on lines of its own.
func lines[B message.Block](blocks []B) string {
	var all []string
	for _, b := range blocks {
		if t, ok := any(b).(message.Text); ok && t.Text != "" {
			all = append(all, t.Text)
		}
	}
	return strings.Join(all, "\n")
}

// bounded keeps the beginning and the end of a long text: results of commands say at their
// end what came of them.
func bounded(s string) string {
	if len(s) <= MaxText {
		return s
	}
	return s[:MaxText/2] + "\n" + s[len(s)-MaxText/2:]
}
