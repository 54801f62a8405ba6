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

// digesters are used again: the checksum has its input escape, and a scan takes two for each row.
var digesters = sync.Pool{New: func() any { return new(digester) }}

func digestOf(table byte) *digester {
	d, _ := digesters.Get().(*digester)
	d.crc, d.gather[0], d.n = 0, table, 1
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

func (d *digester) text(s string) { long(d, tagText, s) }

func (d *digester) blob(b []byte) { long(d, tagBlob, b) }

func long[T string | []byte](d *digester, tag byte, v T) {
	d.head(tag, uint64(len(v)))
	if !d.room(len(v)) {
		d.crc = crc32.Update(d.crc, castagnoli(), []byte(v))
		return
	}
	d.n += copy(d.gather[d.n:], v)
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

// sum is the digest. The digester is given back, and is not touched again.
func (d *digester) sum() int64 {
	d.flush()
	crc := d.crc
	digesters.Put(d)
	return int64(crc)
}
