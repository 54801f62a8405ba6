package sqlite

import (
	"encoding/binary"
	"hash/crc64"
)

// The digest of a row finds accidents: SQLite does not check its pages, and a
// flipped bit inside a text is still valid JSON. The format page has the framing.

var crcTable = crc64.MakeTable(crc64.ECMA)

// digester computes the digest of one row. It is made with the table's byte.
type digester struct{ crc uint64 }

func digestOf(table byte) (d digester) {
	d.raw(table)
	return d
}

const (
	tagNull = iota
	tagInt
	tagText
	tagBlob
)

func (d *digester) null() { d.raw(tagNull) }

func (d *digester) head(tag byte, n uint64) {
	var b [9]byte
	b[0] = tag
	binary.BigEndian.PutUint64(b[1:], n)
	d.crc = crc64.Update(d.crc, crcTable, b[:])
}

func (d *digester) num(n int64) { d.head(tagInt, uint64(n)) }

func (d *digester) text(s string) {
	d.head(tagText, uint64(len(s)))
	d.crc = crc64.Update(d.crc, crcTable, []byte(s))
}

func (d *digester) blob(b []byte) {
	d.head(tagBlob, uint64(len(b)))
	d.crc = crc64.Update(d.crc, crcTable, b)
}

// optBlob is NULL when b is nil.
func (d *digester) optBlob(b []byte) {
	if b == nil {
		d.null()
		return
	}
	d.blob(b)
}

// raw takes one byte without framing.
func (d *digester) raw(b byte) { d.crc = crc64.Update(d.crc, crcTable, []byte{b}) }

func (d *digester) sum() int64 { return int64(d.crc) }
