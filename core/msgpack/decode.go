package msgpack

import (
	"encoding/hex"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/loom-run/loom/core/corrupt"
)

// Mode says which encodings of a value are accepted.
type Mode uint8

// The modes. Lenient takes every valid form; Strict takes the smallest only, so
// that a value has one encoding.
const (
	Lenient Mode = iota
	Strict
)

// Decode reads exactly one value. The error is a [*corrupt.Report] whose subject is
// the byte offset.
func Decode(data []byte, mode Mode) (Value, error) {
	d := decoder{data: data, strict: mode == Strict}
	v, err := d.value(0)
	if err != nil {
		return Value{}, err
	}
	if d.at != len(data) {
		return Value{}, d.fail(d.at, "the end of the value")
	}
	return v, nil
}

type decoder struct {
	data   []byte
	at     int
	strict bool
}

func (d *decoder) fail(at int, expected string) *corrupt.Report {
	at = min(at, len(d.data))
	seen := "the end of input"
	if at < len(d.data) {
		seen = hex.EncodeToString(d.data[at:min(at+16, len(d.data))])
	}
	return corrupt.New("msgpack.Decode", "byte "+strconv.Itoa(at), expected, seen)
}

// take returns the next n bytes. It judges the claim before anything is allocated.
func (d *decoder) take(n uint64) ([]byte, *corrupt.Report) {
	if n > uint64(len(d.data)-d.at) {
		return nil, d.fail(d.at, strconv.FormatUint(n, 10)+" more bytes")
	}
	p := d.data[d.at : d.at+int(n)]
	d.at += int(n)
	return p, nil
}

// number reads a big-endian number of size bytes.
func (d *decoder) number(size uint64) (uint64, *corrupt.Report) {
	p, rep := d.take(size)
	if rep != nil {
		return 0, rep
	}
	var n uint64
	for _, b := range p {
		n = n<<8 | uint64(b)
	}
	return n, nil
}

func (d *decoder) value(depth int) (Value, error) {
	at := d.at
	head, rep := d.take(1)
	if rep != nil {
		return Value{}, rep
	}
	c := head[0]
	switch {
	case c <= maxFixUint:
		return Unsigned(uint64(c)), nil
	case c >= negativeFix:
		return Signed(int64(int8(c))), nil
	case c >= fixStr && c < cNil:
		return d.text(at, uint64(c&maxFixStr), String)
	case c >= fixArray && c < fixStr:
		return d.array(at, uint64(c&maxFixContainer), depth)
	case c >= fixMap && c < fixArray:
		return d.dict(at, uint64(c&maxFixContainer), depth)
	}
	switch c {
	case cNil:
		return Value{}, nil
	case cFalse, cTrue:
		return Boolean(c == cTrue), nil
	case cFloat64:
		return d.float(at)
	case cUint8, cUint16, cUint32, cUint64, cInt8, cInt16, cInt32, cInt64:
		return d.integer(at, c)
	case cStr8, cStr16, cStr32, cBin8, cBin16, cBin32, cArray16, cArray32, cMap16, cMap32:
		return d.long(at, c, depth)
	}
	return Value{}, d.fail(at, "a type of the subset")
}

func (d *decoder) float(at int) (Value, error) {
	bits, rep := d.number(8)
	if rep != nil {
		return Value{}, rep
	}
	v, ok := Double(math.Float64frombits(bits))
	if !ok {
		return Value{}, d.fail(at, "a finite number")
	}
	return v, nil
}

func (d *decoder) integer(at int, c byte) (Value, error) {
	var v Value
	if c >= cInt8 {
		size := uint64(1) << (c - cInt8)
		n, rep := d.number(size)
		if rep != nil {
			return Value{}, rep
		}
		shift := 64 - 8*size
		v = Signed(int64(n<<shift) >> shift)
	} else {
		n, rep := d.number(uint64(1) << (c - cUint8))
		if rep != nil {
			return Value{}, rep
		}
		v = Unsigned(n)
	}
	if d.strict && len(v.appendInt(nil)) != d.at-at || d.strict && c >= cInt8 && !v.neg {
		return Value{}, d.fail(at, "the smallest form of the integer")
	}
	return v, nil
}

// long reads a head with a length of its own.
func (d *decoder) long(at int, c byte, depth int) (Value, error) {
	var size, floor uint64 // bytes of the length; the smallest length that needs this form
	kind := String
	switch c {
	case cStr8:
		size, floor = 1, maxFixStr+1
	case cStr16:
		size, floor = 2, math.MaxUint8+1
	case cStr32:
		size, floor = 4, math.MaxUint16+1
	case cBin8:
		size, floor, kind = 1, 0, Binary
	case cBin16:
		size, floor, kind = 2, math.MaxUint8+1, Binary
	case cBin32:
		size, floor, kind = 4, math.MaxUint16+1, Binary
	case cArray16, cMap16:
		size, floor, kind = 2, maxFixContainer+1, Array
	case cArray32, cMap32:
		size, floor, kind = 4, math.MaxUint16+1, Array
	}
	n, rep := d.number(size)
	if rep != nil {
		return Value{}, rep
	}
	if d.strict && n < floor {
		return Value{}, d.fail(at, "the smallest form of the length")
	}
	switch {
	case c == cMap16 || c == cMap32:
		return d.dict(at, n, depth)
	case kind == Array:
		return d.array(at, n, depth)
	}
	return d.text(at, n, kind)
}

func (d *decoder) text(at int, n uint64, kind Kind) (Value, error) {
	p, rep := d.take(n)
	if rep != nil {
		return Value{}, rep
	}
	if kind == String && !utf8.Valid(p) {
		return Value{}, d.fail(at, "valid UTF-8")
	}
	return Value{kind: kind, text: string(p)}, nil
}

// open judges a container before it is read: each element takes at least a byte,
// so a claim beyond the rest of the input cannot be true.
func (d *decoder) open(at int, n uint64, depth int) *corrupt.Report {
	if depth >= MaxDepth {
		return d.fail(at, "at most "+strconv.Itoa(MaxDepth)+" nested containers")
	}
	if n > uint64(len(d.data)-d.at) {
		return d.fail(at, "a length that the input can hold")
	}
	return nil
}

func (d *decoder) array(at int, n uint64, depth int) (Value, error) {
	if rep := d.open(at, n, depth); rep != nil {
		return Value{}, rep
	}
	v := Value{kind: Array}
	for range n {
		e, err := d.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		v.elems = append(v.elems, e)
	}
	return v, nil
}

func (d *decoder) dict(at int, n uint64, depth int) (Value, error) {
	if rep := d.open(at, 2*n, depth); rep != nil {
		return Value{}, rep
	}
	v := Value{kind: Map}
	seen := make(map[string]struct{}, min(n, 64))
	for range n {
		keyAt := d.at
		key, err := d.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		canonical, err := key.Append(nil) // keys are equal when their canonical bytes are
		if err != nil {
			return Value{}, d.fail(keyAt, "a key that can be written again")
		}
		if _, twice := seen[string(canonical)]; twice {
			return Value{}, d.fail(keyAt, "each key once")
		}
		seen[string(canonical)] = struct{}{}
		e, err := d.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		v.pairs = append(v.pairs, Pair{key, e})
	}
	return v, nil
}
