package sqlite

import (
	"fmt"
	"strconv"
	"unsafe"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// columns reads a row from left to right with a sticky first error, like
// jsonv.Reader: the tables are STRICT, but a damaged file may say otherwise.
type columns struct {
	row  row
	at   int
	what string // the kind of row
	// Which one, as soon as that is known; put into words only for a report.
	seq     int64
	id      string // the 16 bytes, of an entry or ledger row
	ns, key string // of a register
	err     *corrupt.Report
}

func read(r row, what string) *columns { return &columns{row: r, what: what} }

func (c *columns) subject() string {
	switch {
	case c.id != "":
		return c.what + " " + sqlitedb.UUIDText([]byte(c.id)) + " at seq " + strconv.FormatInt(c.seq, 10)
	case c.ns != "":
		return c.what + " " + c.ns + "/" + c.key
	}
	return c.what
}

func (c *columns) next(expected string) (any, bool) {
	i := c.at
	c.at++
	if i >= len(c.row) {
		c.fail(expected, nil)
		return nil, false
	}
	return c.row[i], c.err == nil
}

func (c *columns) fail(expected string, seen any) {
	if c.err == nil {
		c.err = corrupt.New("sqlite.row", c.subject()+" column "+strconv.Itoa(c.at-1), expected, fmt.Sprintf("%T", seen))
	}
}

func column[T any](c *columns, expected string) T {
	var zero T
	v, ok := c.next(expected)
	if !ok {
		return zero
	}
	t, ok := v.(T)
	if !ok {
		c.fail(expected, v)
	}
	return t
}

func (c *columns) num() int64   { return column[int64](c, "an integer") }
func (c *columns) text() string { return column[string](c, "a text") }
func (c *columns) blob() []byte { return column[[]byte](c, "a blob") }

// optNum, optText and optBlob are nil for NULL.
func (c *columns) optNum() *int64 {
	if c.null() {
		return nil
	}
	return new(c.num())
}

func (c *columns) optText() *string {
	if c.null() {
		return nil
	}
	return new(c.text())
}

func (c *columns) optBlob() []byte {
	if c.null() {
		return nil
	}
	return c.blob()
}

// null skips a NULL.
func (c *columns) null() bool {
	if c.at < len(c.row) && c.row[c.at] == nil {
		c.at++
		return true
	}
	return false
}

// verify compares a stored digest with the one of the columns.
func (c *columns) verify(stored, computed int64) {
	if c.err == nil && stored != computed {
		c.err = corrupt.New("sqlite.row", c.subject(), fmt.Sprintf("digest %08x", stored),
			fmt.Sprintf("columns of digest %08x", computed))
	}
}

func (c *columns) adopt(err error) {
	if c.err != nil || err == nil {
		return
	}
	if r, ok := corrupt.As(err); ok {
		c.err = r.In(c.subject())
		return
	}
	c.err = corrupt.New("sqlite.row", c.subject(), "a readable row", err.Error())
}

// damaged is the read error of what was collected, or nil.
func (c *columns) damaged() error {
	if c.err == nil {
		return nil
	}
	return &storage.CorruptRow{Report: c.err}
}

// parse reads a payload without copying it: blobs of a row are its own.
func parse(payload []byte) (jsonv.Value, error) {
	return jsonv.ParseString(unsafe.String(unsafe.SliceData(payload), len(payload)))
}

// head is an entry without what it says: its columns before the payload.
type head struct {
	seq        int64
	id         string // the 16 bytes
	parent     *int64 // seq
	depth      int64
	jump       *int64 // seq
	marks      marks
	kind       entry.Kind
	customType *string
	ts         int64
	payload    int64 // digest of shares and payload
}

const (
	headColumns  = "e.seq, e.id, e.parent_seq, e.depth, e.jump_seq, e.marks, e.type, e.custom_type, e.ts, e.payload_digest, e.digest"
	entryColumns = headColumns + ", e.shares, e.payload"
	headWidth    = 11
)

// readHead reads headColumns. A head has a digest of its own, so that a scan trusts
// no link and no kind without having read the payload.
func readHead(c *columns) *head {
	h := &head{
		seq: c.num(), id: string(c.blob()), parent: c.optNum(), depth: c.num(), jump: c.optNum(), marks: marks(c.num()),
		kind: entry.Kind(c.text()), customType: c.optText(), ts: c.num(), payload: c.num(),
	}
	c.seq, c.id = h.seq, h.id
	c.verify(c.num(), h.digest())
	return h
}

// verifiedHead reads a row that begins with headColumns.
func verifiedHead(r row) (*head, error) {
	c := read(r, "entry")
	h := readHead(c)
	return h, c.damaged()
}

func (h *head) digest() int64 {
	d := digestOf('e')
	d.num(h.seq)
	long(d, tagBlob, h.id)
	d.optNum(h.parent)
	d.num(h.depth)
	d.optNum(h.jump)
	d.num(int64(h.marks))
	d.text(string(h.kind))
	if h.customType == nil {
		d.null()
	} else {
		d.text(*h.customType)
	}
	d.num(h.ts)
	d.num(h.payload)
	return d.sum()
}

// entry reads a row of entryColumns.
func (c *conn) entry(r row) (entry.Entry, error) {
	e, _, err := c.sized(r)
	return e, err
}

// sized reads a row of entryColumns and tells the bytes of its whole payload.
func (c *conn) sized(r row) (entry.Entry, int, error) {
	_, e, n, err := c.decodeEntry(r)
	return e, n, err
}

func (c *conn) decodeEntry(r row) (*head, entry.Entry, int, error) {
	cols := read(r, "entry")
	h := readHead(cols)
	e, size, err := c.decodeRest(h, cols)
	return h, e, size, err
}

// decodeRest reads the columns that follow a head, and tells the bytes of the whole payload.
func (c *conn) decodeRest(h *head, rest *columns) (entry.Entry, int, error) {
	u, err := c.payload(h, rest)
	if err != nil {
		return entry.Entry{}, 0, err
	}
	e, err := u.decode()
	return e, len(u.text), err
}

// undecoded is a row whose columns are verified.
type undecoded struct {
	h    *head
	cols *columns
	text []byte // the whole payload
}

// payload reads the columns that follow a head, and what the payload shares with rows before it.
func (c *conn) payload(h *head, rest *columns) (undecoded, error) {
	stored, err := payloadOf(h, rest)
	if err != nil {
		return undecoded{}, err
	}
	text, err := stored.whole(c, h.seq)
	rest.adopt(err)
	return undecoded{h, rest, text}, rest.damaged()
}

func (u undecoded) decode() (e entry.Entry, _ error) {
	h, cols := u.h, u.cols
	v, err := parse(u.text)
	cols.adopt(err)
	if cols.err == nil {
		e, err = entry.Decode(v)
		cols.adopt(err)
	}
	if cols.err == nil && (e.Seq != h.seq || string(sqlitedb.UUID(e.ID)) != h.id || e.Timestamp != h.ts || e.Body.Kind() != h.kind) {
		cols.err = corrupt.New("sqlite.row", cols.subject(), "a payload that agrees with its columns",
			fmt.Sprintf("%s at seq %d of kind %s", e.ID, e.Seq, e.Body.Kind()))
	}
	return e, cols.damaged()
}

const usageColumns = "seq, id, digest, payload"

// decodeUsage reads a row of usageColumns.
func decodeUsage(r row) (entry.UsageRow, error) {
	c := read(r, "usage")
	seq, rowID, digest, payload := c.num(), c.blob(), c.num(), c.blob()
	c.seq, c.id = seq, string(rowID)
	c.verify(digest, usageDigest(seq, rowID, payload))
	if c.err != nil {
		return entry.UsageRow{}, c.damaged()
	}
	v, err := parse(payload)
	c.adopt(err)
	var u entry.UsageRow
	if c.err == nil {
		u, err = entry.DecodeUsageRow(v)
		c.adopt(err)
	}
	if c.err == nil && (u.Seq != seq || string(sqlitedb.UUID(u.ID)) != string(rowID)) {
		c.err = corrupt.New("sqlite.row", c.subject(), "a payload that agrees with its columns", fmt.Sprintf("%s at seq %d", u.ID, u.Seq))
	}
	return u, c.damaged()
}

func usageDigest(seq int64, rowID, payload []byte) int64 {
	d := digestOf('u')
	d.num(seq)
	d.blob(rowID)
	d.blob(payload)
	return d.sum()
}

const registerColumns = "ns, key, seq, digest, shares, value"

// decodeRegister reads a row of registerColumns.
func (c *conn) decodeRegister(r row) (ns, key string, cell register.Cell, err error) {
	cols := read(r, "register")
	ns, key = cols.text(), cols.text()
	cols.ns, cols.key = ns, key
	seq, digest := cols.num(), cols.num()
	stored := readStored(cols)
	cols.verify(digest, registerDigest(ns, key, seq, stored))
	cell.Seq = seq
	if cols.err == nil {
		text, err := stored.whole(c, seq)
		if err == nil {
			cell.Value, err = parse(text)
		}
		cols.adopt(err)
	}
	return ns, key, cell, cols.damaged()
}

func registerDigest(ns, key string, seq int64, value stored) int64 {
	d := digestOf('r')
	d.text(ns)
	d.text(key)
	d.num(seq)
	d.optBlob(value.shares)
	d.blob(value.text)
	return d.sum()
}

// sessionRow is the one row of the session table. Its usage stays a text until a
// commit adds to it.
type sessionRow struct {
	createdAt         int64
	sessionID, parent []byte // nil when absent
	generation, fence int64
	nextSeq, messages int64
	usage             []byte
}

const sessionColumns = "s.created_at, s.session_id, s.parent_session_id, s.generation, s.fence, s.next_seq, s.message_count, s.usage, s.digest"

func readSession(c *columns) sessionRow {
	c.what = "session row"
	s := sessionRow{
		createdAt: c.num(), sessionID: c.optBlob(), parent: c.optBlob(), generation: c.num(), fence: c.num(),
		nextSeq: c.num(), messages: c.num(), usage: c.blob(),
	}
	c.verify(c.num(), s.digest())
	return s
}

func (s *sessionRow) digest() int64 {
	d := digestOf('s')
	d.num(s.createdAt)
	d.optBlob(s.sessionID)
	d.optBlob(s.parent)
	d.num(s.generation)
	d.num(s.fence)
	d.num(s.nextSeq)
	d.num(s.messages)
	d.blob(s.usage)
	return d.sum()
}

// identity decodes the ids of a session row; absent ones are zero.
func (s *sessionRow) identity() (own, parent id.SessionID, err error) {
	decode := func(b []byte) (i id.SessionID) {
		if b != nil && err == nil {
			i, err = id.ParseSessionID(sqlitedb.UUIDText(b))
		}
		return i
	}
	own, parent = decode(s.sessionID), decode(s.parent)
	if r, ok := corrupt.As(err); ok {
		err = &storage.CorruptRow{Report: r.In("session row")}
	}
	return own, parent, err
}

// stats decodes the counters of a session row.
func (s *sessionRow) stats() (storage.Stats, error) {
	v, err := parse(s.usage)
	if err == nil {
		var u usage.Usage
		if u, err = usage.Decode(v); err == nil {
			return storage.Stats{Messages: s.messages, Usage: u}, nil
		}
	}
	c := read(nil, "session row")
	c.adopt(err)
	return storage.Stats{}, c.damaged()
}

// insert writes a fresh row, update replaces all but the creation time.
func (s *sessionRow) insert(c *conn) error {
	_, err := c.Exec("INSERT INTO session VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)", s.createdAt, nullable(s.sessionID), nullable(s.parent),
		s.generation, s.fence, s.nextSeq, s.messages, s.usage, s.digest())
	return err
}

func (s *sessionRow) update(c *conn) error {
	_, err := c.Exec("UPDATE session SET session_id = ?, parent_session_id = ?, generation = ?, fence = ?, next_seq = ?, message_count = ?, usage = ?, digest = ?",
		nullable(s.sessionID), nullable(s.parent), s.generation, s.fence, s.nextSeq, s.messages, s.usage, s.digest())
	return err
}

// nullable binds a missing blob as NULL.
func nullable(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}
