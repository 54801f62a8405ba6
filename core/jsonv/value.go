// Package jsonv is the strict JSON value of every durable row and wire body.
//
// # Purpose
//
// Decoders disagree about duplicate keys, lone surrogates, big integers and
// depth. A durable text must have one meaning, so this package accepts one
// language and refuses the rest with a [corrupt.Report]: duplicate keys,
// invalid UTF-8, lone surrogates, raw control characters, containers nested
// deeper than [MaxDepth], numbers beyond a double, trailing bytes.
//
// # Key types
//
// [Value] is the parsed tree: field order and number literals are kept, so an
// unchanged value is written back byte for byte (but for insignificant space
// and string escapes). [Reader] reads the fields of one object with a sticky
// first error, which keeps total decoders short. [Writer] appends compact JSON.
//
// # Relationships
//
// Imports core/corrupt only.
//
// # Traffic
//
// None.
//
// # Invariants
//
// A Value made by [Parse] has no duplicate keys, holds valid UTF-8 and nests at
// most MaxDepth containers. A number without fraction and exponent is an Int of
// any size; with either it is a Float and finite.
package jsonv

import (
	"iter"
	"math"
	"math/big"
	"strconv"
)

// MaxDepth is the most containers that may be open at once.
const MaxDepth = 256

// Kind tells the seven kinds of value apart.
type Kind uint8

// The kinds. The zero Value is Null.
const (
	Null Kind = iota
	Bool
	Int
	Float
	String
	Array
	Object
)

var kindNames = [...]string{"null", "boolean", "integer", "number", "string", "array", "object"}

func (k Kind) String() string { return kindNames[k] }

// Value is one JSON value. The zero Value is null. Values are immutable: no
// method changes one, and callers must not keep writing to a slice they built
// one from. A value that was parsed keeps its whole document in memory.
type Value struct {
	_    [0]func() // == would compare places, not values: see Equal
	kind Kind
	text string   // String: the text. Int, Float: the literal. Bool: "true" or "".
	span span     // Array, Object: its members in tree; n is their number
	tree *members // nil where there is none
}

// Member is one field of an object.
type Member struct {
	Name  string
	Value Value
}

// members holds the members of containers. Those of a parsed document stand in
// one array without pointers: a few allocations for a document instead of one
// for each container, and nothing in it for a garbage collector to follow.
type members struct {
	built []Member // of one container that was built by hand; nil for a document

	text    string   // the document
	decoded []string // its strings that were written with escapes
	nodes   []node   // the members of each container stand side by side
}

type node struct {
	kind Kind
	name span // in an array: empty
	text span // String: the text. Int, Float: the literal. Bool: "true" or "". Array, Object: the members in nodes.
}

// span is a piece of a document: n bytes of text from at on; past the end of
// text, the decoded string of that number; of nodes, n from at on.
type span struct{ at, n uint32 }

func piece(text string, decoded []string, s span) string {
	if int(s.at) < len(text) {
		return text[s.at : s.at+s.n]
	}
	return decoded[int(s.at)-len(text)]
}

func (m *members) slice(s span) string { return piece(m.text, m.decoded, s) }

func (m *members) value(n *node) Value {
	if n.kind == Array || n.kind == Object {
		return Value{kind: n.kind, span: n.text, tree: m}
	}
	return Value{kind: n.kind, text: m.slice(n.text)}
}

// name returns the name of member i.
func (v Value) name(i int) string {
	if v.tree.built != nil {
		return v.tree.built[i].Name
	}
	return v.tree.slice(v.tree.nodes[int(v.span.at)+i].name)
}

func build(kind Kind, list []Member) Value {
	if len(list) == 0 {
		return Value{kind: kind}
	}
	return Value{kind: kind, span: span{n: uint32(len(list))}, tree: &members{built: list}}
}

// Str is a string value.
func Str(s string) Value { return Value{kind: String, text: s} }

// Num is an integer value.
func Num(n int64) Value { return Value{kind: Int, text: strconv.FormatInt(n, 10)} }

// BigNum is an integer value of any size.
func BigNum(n *big.Int) Value { return Value{kind: Int, text: n.String()} }

// FloatNum is a floating point value; it is null when f is not finite, since
// JSON has no such number.
func FloatNum(f float64) Value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}
	}
	lit := strconv.FormatFloat(f, 'g', -1, 64)
	if !hasFraction(lit) {
		lit += ".0" // so that it reads back as a Float
	}
	return Value{kind: Float, text: lit}
}

// Boolean is true or false.
func Boolean(b bool) Value {
	if b {
		return Value{kind: Bool, text: "true"}
	}
	return Value{kind: Bool}
}

// Arr is an array.
func Arr(elems ...Value) Value {
	list := make([]Member, len(elems))
	for i, e := range elems {
		list[i].Value = e
	}
	return build(Array, list)
}

// Obj is an object with its fields in the given order. Callers must not repeat
// a name: such a value is written, but does not parse again.
func Obj(fields ...Member) Value { return build(Object, fields) }

// F is a field, for use with [Obj].
func F(name string, v Value) Member { return Member{Name: name, Value: v} }

// Kind returns the kind of v.
func (v Value) Kind() Kind { return v.kind }

// IsNull reports whether v is null.
func (v Value) IsNull() bool { return v.kind == Null }

// Text returns the text of a string.
func (v Value) Text() (string, bool) { return v.text, v.kind == String }

// Bool returns the truth value of a boolean.
func (v Value) Bool() (value, ok bool) { return v.text != "", v.kind == Bool }

// Literal returns the text of a number as it was written.
func (v Value) Literal() (string, bool) { return v.text, v.kind == Int || v.kind == Float }

// Int64 returns an integer that fits 64 bits.
func (v Value) Int64() (int64, bool) {
	if v.kind != Int {
		return 0, false
	}
	if len(v.text) > len("-9223372036854775808") {
		return 0, false // an error of strconv would copy the literal
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	return n, err == nil
}

// BigInt returns an integer of any size. Converting takes more than linear time:
// bound what comes from outside.
func (v Value) BigInt() (*big.Int, bool) {
	if v.kind != Int {
		return nil, false
	}
	return new(big.Int).SetString(v.text, 10)
}

// Float64 returns any number as a double; integers are rounded.
func (v Value) Float64() (float64, bool) {
	if v.kind != Int && v.kind != Float {
		return 0, false
	}
	f, err := strconv.ParseFloat(v.text, 64)
	return f, err == nil
}

// Len returns the number of elements or fields, 0 for a scalar.
func (v Value) Len() int { return int(v.span.n) }

// At returns element or field value i, which must be less than Len.
func (v Value) At(i int) Value {
	if i < 0 || i >= v.Len() {
		panic("jsonv: element " + strconv.Itoa(i) + " of " + strconv.Itoa(v.Len()))
	}
	if v.tree.built != nil {
		return v.tree.built[i].Value
	}
	return v.tree.value(&v.tree.nodes[int(v.span.at)+i])
}

// Elems yields the elements of an array and nothing for other kinds.
func (v Value) Elems() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		if v.kind != Array {
			return
		}
		for i := range v.Len() {
			if !yield(i, v.At(i)) {
				return
			}
		}
	}
}

// Fields yields the fields of an object in order and nothing for other kinds.
func (v Value) Fields() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.kind != Object {
			return
		}
		for i := range v.Len() {
			if !yield(v.name(i), v.At(i)) {
				return
			}
		}
	}
}

// Get returns the first field of that name.
func (v Value) Get(name string) (Value, bool) {
	if i := v.find(name); i >= 0 {
		return v.At(i), true
	}
	return Value{}, false
}

// find returns the index of the first field of that name, -1 if there is none.
func (v Value) find(name string) int {
	if v.kind == Object {
		for i := range v.Len() {
			if v.name(i) == name {
				return i
			}
		}
	}
	return -1
}

// With returns v with the field set: replaced in place, or appended. What is not
// an object counts as the empty one.
func (v Value) With(name string, field Value) Value {
	list := make([]Member, 0, v.Len()+1)
	for n, old := range v.Fields() {
		list = append(list, F(n, old))
	}
	if i := v.find(name); i >= 0 {
		list[i].Value = field
	} else {
		list = append(list, F(name, field))
	}
	return Obj(list...)
}

// Depth returns how many containers are open at the deepest place: 0 for a scalar.
func (v Value) Depth() int {
	if v.kind != Array && v.kind != Object {
		return 0
	}
	deepest := 0
	for i := range v.Len() {
		deepest = max(deepest, v.At(i).Depth())
	}
	return deepest + 1
}

// Equal reports whether both values have the same kinds, texts, literals and
// order.
func (v Value) Equal(o Value) bool {
	if v.kind != o.kind || v.text != o.text || v.Len() != o.Len() {
		return false
	}
	for i := range v.Len() {
		if v.kind == Object && v.name(i) != o.name(i) || !v.At(i).Equal(o.At(i)) {
			return false
		}
	}
	return true
}

// String returns the compact JSON text.
func (v Value) String() string { return string(v.Append(nil)) }

func hasFraction(lit string) bool {
	for i := range len(lit) {
		if c := lit[i]; c == '.' || c == 'e' || c == 'E' {
			return true
		}
	}
	return false
}
