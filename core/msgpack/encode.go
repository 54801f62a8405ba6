package msgpack

import (
	"encoding/binary"
	"errors"
	"math"
)

// ErrTooLong is a string, binary or container of more than 2^32-1 parts.
var ErrTooLong = errors.New("msgpack: a length does not fit 32 bits")

// The first bytes of the forms that are in use.
const (
	cNil, cFalse, cTrue                    = 0xc0, 0xc2, 0xc3
	cBin8, cBin16, cBin32                  = 0xc4, 0xc5, 0xc6
	cFloat64                               = 0xcb
	cUint8, cUint16, cUint32, cUint64      = 0xcc, 0xcd, 0xce, 0xcf
	cInt8, cInt16, cInt32, cInt64          = 0xd0, 0xd1, 0xd2, 0xd3
	cStr8, cStr16, cStr32                  = 0xd9, 0xda, 0xdb
	cArray16, cArray32                     = 0xdc, 0xdd
	cMap16, cMap32                         = 0xde, 0xdf
	fixMap, fixArray, fixStr, negativeFix  = 0x80, 0x90, 0xa0, 0xe0
	maxFixContainer, maxFixStr, maxFixUint = 15, 31, 127
)

// Append appends the canonical encoding.
func (v Value) Append(dst []byte) ([]byte, error) {
	switch v.kind {
	case Nil:
		return append(dst, cNil), nil
	case Bool:
		return append(dst, cFalse+byte(v.bits)), nil
	case Int:
		return v.appendInt(dst), nil
	case Float:
		return binary.BigEndian.AppendUint64(append(dst, cFloat64), v.bits), nil
	case String:
		dst, err := appendLength(dst, len(v.text), fixStr, maxFixStr, cStr8, cStr16, cStr32)
		return append(dst, v.text...), err
	case Binary:
		dst, err := appendLength(dst, len(v.text), 0, -1, cBin8, cBin16, cBin32)
		return append(dst, v.text...), err
	case Array:
		dst, err := appendLength(dst, len(v.elems), fixArray, maxFixContainer, 0, cArray16, cArray32)
		for i := 0; err == nil && i < len(v.elems); i++ {
			dst, err = v.elems[i].Append(dst)
		}
		return dst, err
	case Map:
		dst, err := appendLength(dst, len(v.pairs), fixMap, maxFixContainer, 0, cMap16, cMap32)
		for i := 0; err == nil && i < len(v.pairs); i++ {
			if dst, err = v.pairs[i].Key.Append(dst); err == nil {
				dst, err = v.pairs[i].Value.Append(dst)
			}
		}
		return dst, err
	}
	return dst, nil
}

func (v Value) appendInt(dst []byte) []byte {
	if v.neg {
		switch n := int64(v.bits); {
		case n >= -32:
			return append(dst, byte(n))
		case n >= math.MinInt8:
			return append(dst, cInt8, byte(n))
		case n >= math.MinInt16:
			return binary.BigEndian.AppendUint16(append(dst, cInt16), uint16(n))
		case n >= math.MinInt32:
			return binary.BigEndian.AppendUint32(append(dst, cInt32), uint32(n))
		}
		return binary.BigEndian.AppendUint64(append(dst, cInt64), v.bits)
	}
	switch n := v.bits; {
	case n <= maxFixUint:
		return append(dst, byte(n))
	case n <= math.MaxUint8:
		return append(dst, cUint8, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, cUint16), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, cUint32), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, cUint64), v.bits)
}

// appendLength writes the smallest head of a string or container. A fix of -1 has
// no short form; an eight of 0 has no form of one byte.
func appendLength(dst []byte, n int, short byte, fix int, eight, sixteen, thirtyTwo byte) ([]byte, error) {
	switch {
	case n <= fix:
		return append(dst, short|byte(n)), nil
	case n <= math.MaxUint8 && eight != 0:
		return append(dst, eight, byte(n)), nil
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, sixteen), uint16(n)), nil
	case uint64(n) <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, thirtyTwo), uint32(n)), nil
	}
	return dst, ErrTooLong
}
