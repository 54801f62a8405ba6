package jsonv

import (
	"strconv"

	"github.com/loom-run/loom/core/corrupt"
)

// Reader reads the fields of one object. The first field that is missing or has
// the wrong kind sets the error; every later call returns a zero value. So a
// decoder reads all its fields in a row and looks at [Reader.Err] once.
type Reader struct {
	v        Value
	next     int // the field after the one found last: decoders ask in the order of encoders
	boundary string
	err      error
}

// get is [Value.Get] that looks first where the next field should be.
func (r *Reader) get(name string) (Value, bool) {
	i := r.next
	if r.v.kind != Object || i >= r.v.Len() || r.v.name(i) != name {
		i = r.v.find(name)
	}
	if i < 0 {
		return Value{}, false
	}
	r.next = i + 1
	return r.v.At(i), true
}

// Read starts reading v, which must be an object. boundary names the decoder in
// reports.
func Read(v Value, boundary string) *Reader {
	r := &Reader{v: v, boundary: boundary} // on the caller's stack, as long as this function is inlined
	if v.kind != Object {
		r.Fail("value", "an object", v)
	}
	return r
}

// Err returns the first failure, a [*corrupt.Report], or nil.
func (r *Reader) Err() error { return r.err }

// Fail records a failure about field unless there is one already.
func (r *Reader) Fail(field, expected string, seen Value) {
	if r.err == nil {
		r.err = corrupt.New(r.boundary, field, expected, excerpt(seen))
	}
}

// Adopt records err, the failure of a nested decoder, about field.
func (r *Reader) Adopt(field string, err error) {
	if r.err != nil || err == nil {
		return
	}
	if rep, ok := corrupt.As(err); ok {
		r.err = rep.In(field)
		return
	}
	r.err = corrupt.New(r.boundary, field, "a readable value", err.Error())
}

// excerptLimit bounds how much of a value is rendered for a report.
const excerptLimit = 1024

func excerpt(v Value) string {
	if v.kind == Array || v.kind == Object {
		return v.kind.String() + " of " + strconv.Itoa(v.Len())
	}
	if len(v.text) > excerptLimit {
		v.text = cutRunes(v.text, excerptLimit/4)
	}
	return v.String()
}

// field returns a field that must be there.
func (r *Reader) field(name, expected string) (Value, bool) {
	if r.err != nil {
		return Value{}, false
	}
	v, ok := r.get(name)
	if !ok {
		r.err = corrupt.New(r.boundary, name, expected, "no such field")
	}
	return v, ok
}

// optional returns a typed field that may be absent or null.
func (r *Reader) optional(name string) (Value, bool) {
	if r.err != nil {
		return Value{}, false
	}
	v, ok := r.get(name)
	return v, ok && v.kind != Null
}

// Value returns a required field of any kind, null included.
func (r *Reader) Value(name string) Value {
	v, _ := r.field(name, "a value")
	return v
}

// Opaque returns an optional field of any kind. Absent is nil; an explicit null
// is a present null.
func (r *Reader) Opaque(name string) *Value {
	if r.err != nil {
		return nil
	}
	if v, ok := r.get(name); ok {
		return &v
	}
	return nil
}

// Maybe returns an optional typed field: absent and null are both nil.
func (r *Reader) Maybe(name string) *Value {
	if v, ok := r.optional(name); ok {
		return &v
	}
	return nil
}

// Str returns a required string.
func (r *Reader) Str(name string) string {
	v, ok := r.field(name, "a string")
	if ok && v.kind != String {
		r.Fail(name, "a string", v)
	}
	if v.kind != String {
		return ""
	}
	return v.text
}

// OptStr returns an optional string.
func (r *Reader) OptStr(name string) *string {
	v, ok := r.optional(name)
	if !ok {
		return nil
	}
	if v.kind != String {
		r.Fail(name, "a string", v)
		return nil
	}
	return new(v.text)
}

// Num returns a required integer of 64 bits.
func (r *Reader) Num(name string) int64 {
	v, ok := r.field(name, "an integer")
	if !ok {
		return 0
	}
	n, ok := v.Int64()
	if !ok {
		r.Fail(name, "an integer of 64 bits", v)
	}
	return n
}

// OptNum returns an optional integer.
func (r *Reader) OptNum(name string) *int64 {
	v, ok := r.optional(name)
	if !ok {
		return nil
	}
	n, ok := v.Int64()
	if !ok {
		r.Fail(name, "an integer of 64 bits", v)
		return nil
	}
	return &n
}

// Flag returns a required boolean.
func (r *Reader) Flag(name string) bool {
	v, ok := r.field(name, "a boolean")
	if !ok {
		return false
	}
	return r.flag(name, v)
}

// OptFlag returns an optional boolean, false when absent.
func (r *Reader) OptFlag(name string) bool {
	v, ok := r.optional(name)
	return ok && r.flag(name, v)
}

func (r *Reader) flag(name string, v Value) bool {
	b, ok := v.Bool()
	if !ok {
		r.Fail(name, "a boolean", v)
	}
	return b && ok
}

// array returns a required array. Where there is none it is null, which has no
// elements.
func (r *Reader) array(name string) Value {
	v, ok := r.field(name, "an array")
	if ok && v.kind != Array {
		r.Fail(name, "an array", v)
		return Value{}
	}
	return v
}

// List returns the elements of a required array.
func (r *Reader) List(name string) []Value {
	return Each(r, name, func(v Value) (Value, error) { return v, nil })
}

// Strs returns a required array of strings.
func (r *Reader) Strs(name string) []string {
	v := r.array(name)
	if r.err != nil {
		return nil
	}
	out := make([]string, 0, v.Len())
	for i, e := range v.Elems() {
		if e.kind != String {
			r.Fail(name+"["+strconv.Itoa(i)+"]", "a string", e)
			return nil
		}
		out = append(out, e.text)
	}
	return out
}

// OptStrs is [Reader.Strs] for a field that may be absent or null: then nil.
func (r *Reader) OptStrs(name string) []string {
	if _, ok := r.optional(name); !ok {
		return nil
	}
	return r.Strs(name)
}

// Exact refuses fields other than the named ones. Objects that guard money and
// evidence use it: an unknown field there may change the meaning of the rest.
func (r *Reader) Exact(names ...string) {
	if r.err != nil {
		return
	}
	for name, v := range r.v.Fields() {
		known := false
		for _, n := range names {
			known = known || n == name
		}
		if !known {
			r.Fail(name, "no other field than the known ones", v)
			return
		}
	}
}

// Each decodes every element of a required array with one decoder.
func Each[T any](r *Reader, name string, decode func(Value) (T, error)) []T {
	v := r.array(name)
	if r.err != nil {
		return nil
	}
	out := make([]T, 0, v.Len())
	for i := range v.Len() {
		x, err := decode(v.At(i))
		if err != nil {
			r.Adopt(name+"["+strconv.Itoa(i)+"]", err)
			return nil
		}
		out = append(out, x)
	}
	return out
}

// One decodes a required field with a nested decoder.
func One[T any](r *Reader, name string, decode func(Value) (T, error)) T {
	var zero T
	v, ok := r.field(name, "a value")
	if !ok {
		return zero
	}
	x, err := decode(v)
	if err != nil {
		r.Adopt(name, err)
		return zero
	}
	return x
}

// OptOne decodes an optional field (absent or null is nil) with a nested decoder.
func OptOne[T any](r *Reader, name string, decode func(Value) (T, error)) *T {
	v, ok := r.optional(name)
	if !ok {
		return nil
	}
	x, err := decode(v)
	if err != nil {
		r.Adopt(name, err)
		return nil
	}
	return &x
}
