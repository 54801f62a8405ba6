package shape

import (
	"fmt"
	"reflect"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
)

var (
	scalars = map[reflect.Type]*scalar{}
	sums    = map[reflect.Type]*sum{}
)

// scalar is a type whose JSON is a text that it reads itself.
type scalar struct {
	typ    reflect.Type
	format string
	print  func(reflect.Value) string
	parse  func(s string, into reflect.Value) error
}

// Text teaches the codec a type whose JSON is a text. The zero value is the one
// that an optional field leaves out. format says what the text looks like.
func Text[T comparable](format string, print func(T) string, parse func(string) (T, error)) {
	mu.Lock()
	defer mu.Unlock()
	t := reflect.TypeFor[T]()
	scalars[t] = &scalar{
		typ: t, format: format,
		print: func(v reflect.Value) string { return print(as[T](v)) },
		parse: func(s string, into reflect.Value) error {
			x, err := parse(s)
			if err == nil {
				*as[*T](into.Addr()) = x // through the pointer: nothing is boxed
			}
			return err
		},
	}
}

func (c *scalar) append(w *jsonv.Writer, v reflect.Value) { w.String(c.print(v)) }
func (c *scalar) absent(v reflect.Value) bool             { return v.IsZero() }

func (c *scalar) describe() *Desc {
	return &Desc{Kind: KindText, Go: c.typ, Name: c.typ.Name(), Format: c.format}
}

func (c *scalar) decode(v jsonv.Value, into reflect.Value, m mode) error {
	s, ok := v.Text()
	if !ok {
		return refuse(m, c.format, v)
	}
	err := c.parse(s, into)
	if _, report := corrupt.As(err); err == nil || report {
		return err
	}
	return refuse(m, c.format, v)
}

// sum is a sealed interface whose members are told apart by a tag.
type sum struct {
	typ     reflect.Type
	tag     string
	members []member
	byType  map[reflect.Type]int
	unknown func(tag string, raw jsonv.Value) reflect.Value
	rawOf   func(reflect.Value) (jsonv.Value, bool)
}

type member struct {
	tag string
	typ reflect.Type
	obj *object
}

// Member is one member of a sum under its tag.
type Member[I any] struct {
	Tag  string
	Zero I
}

// Sum teaches the codec a sealed interface: an object whose field tag says which
// member it is. A tag that is none of theirs is kept whole: unknown makes its
// value, and raw gives it back.
func Sum[I any](tag string, unknown func(tag string, raw jsonv.Value) I, raw func(I) (jsonv.Value, bool), members ...Member[I]) {
	mu.Lock()
	defer mu.Unlock()
	s := &sum{
		typ: reflect.TypeFor[I](), tag: tag, byType: map[reflect.Type]int{},
		unknown: func(t string, v jsonv.Value) reflect.Value { return reflect.ValueOf(unknown(t, v)) },
		rawOf: func(v reflect.Value) (jsonv.Value, bool) {
			return raw(as[I](v))
		},
	}
	for i, m := range members {
		t := reflect.TypeOf(m.Zero)
		s.members = append(s.members, member{tag: m.Tag, typ: t})
		s.byType[t] = i
	}
	sums[s.typ] = s
}

func (c *sum) absent(v reflect.Value) bool { return v.IsNil() }

func (c *sum) append(w *jsonv.Writer, v reflect.Value) {
	if raw, ok := c.rawOf(v); ok {
		w.Value(raw)
		return
	}
	i, ok := c.byType[v.Elem().Type()]
	if !ok {
		panic(fmt.Sprintf("shape: %s is no member of %s", v.Elem().Type(), c.typ))
	}
	w.Begin()
	w.Str(c.tag, c.members[i].tag)
	c.members[i].obj.appendFields(w, v.Elem())
	w.End()
}

func (c *sum) decode(v jsonv.Value, into reflect.Value, m mode) error {
	if v.Kind() != jsonv.Object {
		return refuse(m, "an object", v)
	}
	field, _ := v.Get(c.tag)
	tag, ok := field.Text()
	if !ok || tag == "" || len(tag) > MaxWord {
		return corrupt.New(m.boundary, c.tag, "a word that says which one it is", excerpt(field))
	}
	for i := range c.members {
		if c.members[i].tag != tag {
			continue
		}
		x := reflect.New(c.members[i].typ).Elem()
		if err := c.members[i].obj.decodeBeside(v, x, m, c.tag); err != nil {
			return err
		}
		into.Set(x)
		return nil
	}
	if m.exact {
		return corrupt.New(m.boundary, c.tag, "a word of its table", excerpt(field))
	}
	into.Set(c.unknown(tag, v))
	return nil
}

func (c *sum) describe() *Desc {
	d := &Desc{Kind: KindSum, Go: c.typ, Name: c.typ.Name(), Tag: c.tag}
	for _, m := range c.members {
		d.Variants = append(d.Variants, Variant{Tag: m.tag, Desc: m.obj.describe()})
	}
	return d
}

// Custom is a type with a codec of its own, such as one that keeps what it cannot
// read. Its pointer has DecodeShape.
type Custom interface {
	// AbsentShape reports whether the value is one that is left out.
	AbsentShape() bool
	AppendShape(w *jsonv.Writer)
	DescribeShape() *Desc
}

// CustomDecoder is the other half of [Custom].
type CustomDecoder interface {
	DecodeShape(v jsonv.Value, exact bool) error
}

var (
	customType  = reflect.TypeFor[Custom]()
	decoderType = reflect.TypeFor[CustomDecoder]()
)

type custom struct{ typ reflect.Type }

func (c *custom) append(w *jsonv.Writer, v reflect.Value) { as[Custom](v).AppendShape(w) }
func (c *custom) absent(v reflect.Value) bool             { return as[Custom](v).AbsentShape() }
func (c *custom) describe() *Desc {
	return as[Custom](reflect.Zero(c.typ)).DescribeShape()
}

func (c *custom) decode(v jsonv.Value, into reflect.Value, m mode) error {
	return as[CustomDecoder](into.Addr()).DecodeShape(v, m.exact)
}

// Worded is a string type that names its own words, for sets that are not in
// core/words.
type Worded interface{ Words() []string }

var wordedType = reflect.TypeFor[Worded]()

// wordsOf returns the words of a string type, nil when it is no word.
func wordsOf(t reflect.Type) (list []string) {
	if t.Implements(wordedType) {
		return as[Worded](reflect.Zero(t)).Words()
	}
	for _, s := range words.Tables() {
		if s.Type() == t {
			for w := range s.Rows() {
				list = append(list, w)
			}
		}
	}
	return list
}
