package sqlite

import (
	"encoding/binary"
	"hash/crc32"
	"sync"
)

// The digest of a row finds accidents: SQLite does not check its pages, and a
// flipped bit inside a text is still valid JSON. The format page has the framing
// and the reasons.

// castagnoli is made when a row is first read or written: it takes a part of the
// time in which loom starts.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// digester computes the digest of one row, which starts with the byte of its
// table. Everything but long values is gathered first: the hardware does not like
// small bites.
type digester struct {
	crc    uint32
	n      int
	gather [192]byte
}

func digestOf(table byte) (d digester) {
	d.gather[0], d.n = table, 1
	return d
}

const (
	tagNull = iota
	tagInt
	tagText
	tagBlob
)

const headSize = 9 // a tag and a number

func (d *digester) flush() {
	d.crc = crc32.Update(d.crc, castagnoli(), d.gather[:d.n])
	d.n = 0
}

// room flushes unless n more bytes can be gathered.
func (d *digester) room(n int) bool {
	if d.n+n > len(d.gather) {
		d.flush()
	}
	return n <= len(d.gather)
}

func (d *digester) null() {
	d.room(1)
	d.gather[d.n] = tagNull
	d.n++
}

func (d *digester) head(tag byte, n uint64) {
	d.room(headSize)
	d.gather[d.n] = tag
	binary.BigEndian.PutUint64(d.gather[d.n+1:], n)
	d.n += headSize
}

func (d *digester) num(n int64) { d.head(tagInt, uint64(n)) }

func (d *digester) text(s string) {
	d.head(tagText, uint64(len(s)))
	if !d.room(len(s)) {
		d.crc = crc32.Update(d.crc, castagnoli(), []byte(s))
		return
	}
	d.n += copy(d.gather[d.n:], s)
}

func (d *digester) blob(b []byte) {
	d.head(tagBlob, uint64(len(b)))
	if !d.room(len(b)) {
		d.crc = crc32.Update(d.crc, castagnoli(), b)
		return
	}
	d.n += copy(d.gather[d.n:], b)
}

// optNum is NULL when n is nil.
func (d *digester) optNum(n *int64) {
	if n == nil {
		d.null()
		return
	}
	d.num(*n)
}

// optBlob is NULL when b is nil.
func (d *digester) optBlob(b []byte) {
	if b == nil {
		d.null()
		return
	}
	d.blob(b)
}

func (d *digester) sum() int64 {
	d.flush()
	return int64(d.crc)
}
