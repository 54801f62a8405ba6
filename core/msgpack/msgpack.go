// Package msgpack is the framing codec of the effect plane: a canonical subset of
// MessagePack.
//
// # Purpose
//
// The harness and its helpers exchange frames whose bytes are compared and signed,
// so equal values have equal bytes, and a frame has one meaning or none.
//
// # Key types
//
// [Value] with its kinds; [Value.Append] encodes; [Decode] reads one value in one of
// two named modes, [Lenient] and [Strict]. [FromJSON] and [ToJSON] convert to the
// value of core/jsonv.
//
// # Relationships
//
// Imports core/corrupt and core/jsonv.
//
// # Traffic
//
// None.
//
// # Invariants
//
// Encoding is canonical: the smallest form that fits; non-negative integers in
// unsigned forms, negative ones in signed forms. Decoding is total and holds memory
// in proportion to the input, whatever lengths the input claims; a key that is a
// container is written once for each map around it. Refused in both modes: other types (float32, extensions, the reserved byte), NaN and infinities,
// invalid UTF-8, duplicate map keys, containers nested deeper than [MaxDepth],
// truncation, trailing bytes. Strict also refuses forms that are not the smallest.
package msgpack

import (
	"math"
	"unicode/utf8"
)

// MaxDepth is the most containers that may be open at once.
const MaxDepth = 256

// Kind tells the eight kinds of value apart.
type Kind uint8

// The kinds. The zero Value is Nil.
const (
	Nil Kind = iota
	Bool
	Int
	Float
	String
	Binary
	Array
	Map
)

var kindNames = [...]string{"nil", "boolean", "integer", "float", "string", "binary", "array", "map"}

func (k Kind) String() string { return kindNames[k] }

// Value is one MessagePack value. Values are immutable.
type Value struct {
	kind  Kind
	neg   bool    // Int: bits holds a negative number in two's complement
	bits  uint64  // Bool: 0 or 1; Int; Float: IEEE 754
	text  string  // String or Binary
	pairs []Pair  // Map, in order
	elems []Value // Array
}

// Pair is one entry of a map. Keys may be of any kind.
type Pair struct{ Key, Value Value }

// Boolean is true or false.
func Boolean(b bool) Value {
	if b {
		return Value{kind: Bool, bits: 1}
	}
	return Value{kind: Bool}
}

// Signed is an integer.
func Signed(n int64) Value { return Value{kind: Int, neg: n < 0, bits: uint64(n)} }

// Unsigned is an integer that may be beyond 2^63.
func Unsigned(n uint64) Value { return Value{kind: Int, bits: n} }

// Double is a floating point number; ok is false for NaN and infinities, which
// have no encoding here.
func Double(f float64) (v Value, ok bool) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}, false
	}
	return Value{kind: Float, bits: math.Float64bits(f)}, true
}

// Str is a string; ok is false for bytes that are not UTF-8.
func Str(s string) (v Value, ok bool) {
	if !utf8.ValidString(s) {
		return Value{}, false
	}
	return Value{kind: String, text: s}, true
}

// Bin is binary data.
func Bin(p []byte) Value { return Value{kind: Binary, text: string(p)} }

// Arr is an array.
func Arr(elems ...Value) Value { return Value{kind: Array, elems: elems} }

// Dict is a map in the given order. Callers must not repeat a key: such a value is
// written, but does not decode again.
func Dict(pairs ...Pair) Value { return Value{kind: Map, pairs: pairs} }

// Kind returns the kind of v.
func (v Value) Kind() Kind { return v.kind }

// Bool returns a boolean.
func (v Value) Bool() (b, ok bool) { return v.bits == 1, v.kind == Bool }

// Int64 returns an integer that fits.
func (v Value) Int64() (int64, bool) {
	return int64(v.bits), v.kind == Int && (v.neg || v.bits <= math.MaxInt64)
}

// Uint64 returns a non-negative integer.
func (v Value) Uint64() (uint64, bool) { return v.bits, v.kind == Int && !v.neg }

// Float64 returns a floating point number; integers are not converted.
func (v Value) Float64() (float64, bool) { return math.Float64frombits(v.bits), v.kind == Float }

// Text returns a string.
func (v Value) Text() (string, bool) { return v.text, v.kind == String }

// Bytes returns a copy of binary data.
func (v Value) Bytes() ([]byte, bool) { return []byte(v.text), v.kind == Binary }

// Elems returns the elements of an array. Callers must not change them.
func (v Value) Elems() []Value { return v.elems }

// Pairs returns the entries of a map in order. Callers must not change them.
func (v Value) Pairs() []Pair { return v.pairs }

// Get returns the value under a string key.
func (v Value) Get(key string) (Value, bool) {
	for _, p := range v.pairs {
		if p.Key.kind == String && p.Key.text == key {
			return p.Value, true
		}
	}
	return Value{}, false
}

// Equal reports whether both values have the same encoding.
func (v Value) Equal(o Value) bool {
	if v.kind != o.kind || v.neg != o.neg || v.bits != o.bits || v.text != o.text ||
		len(v.elems) != len(o.elems) || len(v.pairs) != len(o.pairs) {
		return false
	}
	for i := range v.elems {
		if !v.elems[i].Equal(o.elems[i]) {
			return false
		}
	}
	for i := range v.pairs {
		if !v.pairs[i].Key.Equal(o.pairs[i].Key) || !v.pairs[i].Value.Equal(o.pairs[i].Value) {
			return false
		}
	}
	return true
}
