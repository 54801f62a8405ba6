package shape

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
)

// maxFields is how many fields an object may have: they are ticked off in a word.
const maxFields = 64

// Checked is a type whose fields say something together. The field that is wrong
// is "" when none is.
type Checked interface {
	Check() (field, expected string)
}

var checkedType = reflect.TypeFor[Checked]()

// object is a struct.
type object struct {
	typ      reflect.Type
	fields   []field
	byName   map[string]int
	required uint64
	checked  bool
}

type field struct {
	name, goName string
	index        []int
	optional     bool
	pointer      bool
	lenient      bool
	nullable     bool // null is a value and not an absence
	codec        codec
}

func (c *object) absent(v reflect.Value) bool { return v.IsZero() }

func (c *object) append(w *jsonv.Writer, v reflect.Value) {
	w.Begin()
	c.appendFields(w, v)
	w.End()
}

func (c *object) appendFields(w *jsonv.Writer, v reflect.Value) {
	for i := range c.fields {
		f := &c.fields[i]
		x := at(v, f.index)
		switch {
		case f.pointer && x.IsNil(), f.optional && !f.pointer && f.codec.absent(x):
			continue
		case f.pointer:
			x = x.Elem()
		}
		w.Name(f.name)
		f.codec.append(w, x)
	}
}

// at is FieldByIndex for the common case of a field of the struct's own.
func at(v reflect.Value, index []int) reflect.Value {
	if len(index) == 1 {
		return v.Field(index[0])
	}
	return v.FieldByIndex(index)
}

func (c *object) decode(v jsonv.Value, into reflect.Value, m mode) error {
	return c.decodeBeside(v, into, m, "")
}

// decodeBeside decodes an object that has one more field, which somebody else
// reads: the tag of a sum.
func (c *object) decodeBeside(v jsonv.Value, into reflect.Value, m mode, beside string) error {
	if v.Kind() != jsonv.Object {
		return refuse(m, "an object", v)
	}
	var seen uint64
	next := 0
	for name, x := range v.Fields() {
		i := next
		if i >= len(c.fields) || c.fields[i].name != name {
			var ok bool
			if i, ok = c.byName[name]; !ok {
				if m.exact && (beside == "" || name != beside) {
					return corrupt.New(m.boundary, name, "no other field than the known ones", excerpt(x))
				}
				continue
			}
		}
		next = i + 1
		ok, err := c.fields[i].decode(x, into, m)
		if err != nil {
			return err
		}
		if ok {
			seen |= 1 << i
		}
	}
	if missing := c.required &^ seen; missing != 0 {
		for i := range c.fields {
			if missing&(1<<i) != 0 {
				return corrupt.New(m.boundary, c.fields[i].name, "a value", "no such field")
			}
		}
	}
	if c.checked {
		if name, expected := as[Checked](into.Addr()).Check(); name != "" {
			return corrupt.New(m.boundary, name, expected, "a value that does not agree with the others")
		}
	}
	return nil
}

// decode reads one field; ok is false when it counts as absent.
func (f *field) decode(x jsonv.Value, into reflect.Value, m mode) (ok bool, err error) {
	if x.IsNull() && f.optional && !f.nullable {
		return false, nil
	}
	place := at(into, f.index)
	if f.pointer {
		p := reflect.New(place.Type().Elem())
		if err := f.codec.decode(x, p.Elem(), m); err != nil {
			if f.lenient && !m.exact {
				return false, nil
			}
			return false, adopt(f.name, err)
		}
		place.Set(p)
		return true, nil
	}
	if err := f.codec.decode(x, place, m); err != nil {
		return false, adopt(f.name, err)
	}
	return true, nil
}

// adopt puts the name of the outer part before what a nested decoder found.
func adopt(name string, err error) error {
	rep, ok := corrupt.As(err)
	if !ok {
		return err
	}
	if rep.Subject == "value" {
		c := *rep
		c.Subject = name
		return &c
	}
	return rep.In(name)
}

func (c *object) describe() *Desc {
	d := &Desc{Kind: KindObject, Go: c.typ, Name: c.typ.Name()}
	for _, f := range c.fields {
		d.Fields = append(d.Fields, Field{Name: f.name, Go: f.goName, Optional: f.optional, Desc: f.codec.describe()})
	}
	return d
}

// firstElements is how many elements a list has room for before any was read.
const firstElements = 16

// list is a slice.
type list struct {
	typ  reflect.Type
	elem codec
}

func (c *list) absent(v reflect.Value) bool { return v.IsNil() }
func (c *list) describe() *Desc             { return &Desc{Kind: KindArray, Go: c.typ, Elem: c.elem.describe()} }

func (c *list) append(w *jsonv.Writer, v reflect.Value) {
	w.BeginArray()
	for i := range v.Len() {
		c.elem.append(w, v.Index(i))
	}
	w.EndArray()
}

func (c *list) decode(v jsonv.Value, into reflect.Value, m mode) error {
	if v.Kind() != jsonv.Array {
		return refuse(m, "an array", v)
	}
	// It grows with what was read: millions of elements of which the first is wrong
	// must not be paid for.
	out := reflect.New(c.typ).Elem()
	out.Set(reflect.MakeSlice(c.typ, 0, min(v.Len(), firstElements)))
	for i, x := range v.Elems() {
		if i == out.Cap() {
			out.Grow(1)
		}
		out.SetLen(i + 1)
		if err := c.elem.decode(x, out.Index(i), m); err != nil {
			return adopt("["+strconv.Itoa(i)+"]", err)
		}
	}
	into.Set(out)
	return nil
}

func badShape(t reflect.Type, format string, args ...any) {
	panic(fmt.Sprintf("shape: %s: %s", t, fmt.Sprintf(format, args...)))
}
