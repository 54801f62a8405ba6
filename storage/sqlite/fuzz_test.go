package sqlite

import (
	"testing"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// FuzzRow gives the decoders of rows what a damaged file may hold. They return a
// whole value or *storage.CorruptRow; with a digest that is right they get as far
// as the payload.
func FuzzRow(f *testing.F) {
	i := newMinter(1).entry()
	e := said(i, id.EntryID{}, "hello")
	e.Seq, e.Timestamp = 4, 5
	f.Add(byte(0), true, int64(4), int64(0), int64(5), "message", "", sqlitedb.UUID(i), entry.Encode(e))
	f.Add(byte(1), true, int64(4), int64(3), int64(5), "x", "y", []byte("short"), []byte(`{"id":"x"}`))
	f.Add(byte(2), true, int64(1), int64(0), int64(5), "fact.name", "k", []byte(nil), []byte(`"v"`))
	f.Add(byte(3), false, int64(1), int64(0), int64(5), "", "", []byte{1}, []byte(`{}`))
	f.Fuzz(func(t *testing.T, table byte, right bool, seq, other, ts int64, a, b string, blob, payload []byte) {
		digest := func(sum int64) any {
			if !right {
				sum ^= 1
			}
			return sum
		}
		var err error
		switch table % 5 {
		case 0:
			kept := stored{text: payload}
			h := head{seq: seq, id: string(blob), parent: &other, depth: other, marks: 1, kind: entry.Kind(a), customType: &b, ts: ts, payload: kept.digest()}
			var got entry.Entry
			got, err = new(conn).entry(row{seq, blob, other, other, nil, int64(1), a, b, ts, kept.digest(), digest(h.digest()), nil, payload})
			if err == nil && (got.Seq != seq || got.Body == nil) {
				t.Errorf("%+v", got)
			}
		case 1:
			_, err = decodeUsage(row{seq, blob, digest(usageDigest(seq, blob, payload)), payload})
		case 2:
			_, _, _, err = new(conn).decodeRegister(row{a, b, seq, digest(registerDigest(a, b, seq, stored{text: payload})), nil, payload})
		case 3:
			s := sessionRow{createdAt: ts, sessionID: blob, generation: other, fence: seq, nextSeq: seq, messages: other, usage: payload}
			cols := read(row{ts, nullable(blob), nil, other, seq, seq, other, payload, digest(s.digest())}, "")
			s = readSession(cols)
			if err = cols.damaged(); err == nil {
				_, err = s.stats()
			}
			if err == nil {
				_, _, err = s.identity()
			}
		case 4: // columns of the wrong type and number
			_, err = new(conn).entry(row{a, seq, nil, payload, ts})
			if err == nil {
				t.Error("a row without sense was read")
			}
		}
		if err == nil && !right {
			t.Error("a wrong digest was accepted")
		}
		if err != nil {
			asType[*storage.CorruptRow](t, err)
		}
	})
}
