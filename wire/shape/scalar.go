package shape

import (
	"reflect"
	"strconv"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
)

// refuse reports a value that is not what its type is.
func refuse(m mode, expected string, v jsonv.Value) error {
	return corrupt.New(m.boundary, "value", expected, excerpt(v))
}

// excerpt renders the start of a value for a report.
func excerpt(v jsonv.Value) string {
	switch v.Kind() {
	case jsonv.Array, jsonv.Object:
		return v.Kind().String() + " of " + strconv.Itoa(v.Len())
	case jsonv.String:
		s, _ := v.Text()
		return strconv.Quote(corrupt.Clip(s, corrupt.MaxContext))
	default:
		if lit, ok := v.Literal(); ok {
			return corrupt.Clip(lit, corrupt.MaxContext)
		}
		return v.String()
	}
}

// text is a string, or a word when its type has a table.
type text struct {
	typ      reflect.Type
	words    []string
	min, max int
}

func (c *text) append(w *jsonv.Writer, v reflect.Value) { w.String(v.String()) }

func (c *text) absent(v reflect.Value) bool { return v.Len() == 0 }

func (c *text) decode(v jsonv.Value, into reflect.Value, m mode) error {
	s, ok := v.Text()
	if !ok {
		return refuse(m, "a string", v)
	}
	if len(s) < c.min || c.max > 0 && len(s) > c.max {
		return refuse(m, c.size(), v)
	}
	if m.exact && c.words != nil && !c.has(s) {
		return refuse(m, "a word of its table", v)
	}
	into.SetString(s)
	return nil
}

func (c *text) has(s string) bool {
	for _, w := range c.words {
		if w == s {
			return true
		}
	}
	return false
}

func (c *text) size() string {
	if c.max == 0 {
		return "a text that is not empty"
	}
	return strconv.Itoa(c.min) + " to " + strconv.Itoa(c.max) + " bytes"
}

func (c *text) describe() *Desc {
	d := &Desc{Kind: KindText, Go: c.typ, Words: c.words, Min: int64(c.min), Max: int64(c.max)}
	if c.words != nil {
		d.Name = c.typ.Name()
	}
	return d
}

// flag is a boolean.
type flag struct{ typ reflect.Type }

func (c *flag) append(w *jsonv.Writer, v reflect.Value) { w.Bool(v.Bool()) }
func (c *flag) absent(v reflect.Value) bool             { return !v.Bool() }
func (c *flag) describe() *Desc                         { return &Desc{Kind: KindFlag, Go: c.typ} }

func (c *flag) decode(v jsonv.Value, into reflect.Value, m mode) error {
	b, ok := v.Bool()
	if !ok {
		return refuse(m, "a boolean", v)
	}
	into.SetBool(b)
	return nil
}

// count is an integer that is not negative.
type count struct {
	typ reflect.Type
	min int64
}

func (c *count) append(w *jsonv.Writer, v reflect.Value) { w.Int(v.Int()) }
func (c *count) absent(v reflect.Value) bool             { return v.Int() == 0 }

func (c *count) describe() *Desc {
	return &Desc{Kind: KindCount, Go: c.typ, Min: c.min, Max: c.top()}
}

// top is the largest count that its Go type holds on every platform.
func (c *count) top() int64 {
	if c.typ.Kind() == reflect.Int {
		return 1<<31 - 1
	}
	return maxCount
}

func (c *count) decode(v jsonv.Value, into reflect.Value, m mode) error {
	n, ok := v.Int64()
	if !ok || n < c.min || n > c.top() {
		return refuse(m, "an integer from "+strconv.FormatInt(c.min, 10)+" to "+strconv.FormatInt(c.top(), 10), v)
	}
	into.SetInt(n)
	return nil
}

// opaque is any JSON value.
type opaque struct{}

var valueType = reflect.TypeFor[jsonv.Value]()

func (opaque) append(w *jsonv.Writer, v reflect.Value) { w.Value(as[jsonv.Value](v)) }
func (opaque) absent(v reflect.Value) bool             { return as[jsonv.Value](v).IsNull() }
func (opaque) describe() *Desc                         { return &Desc{Kind: KindAny, Go: valueType} }

func (opaque) decode(v jsonv.Value, into reflect.Value, _ mode) error {
	*as[*jsonv.Value](into.Addr()) = v
	return nil
}
