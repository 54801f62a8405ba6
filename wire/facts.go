package wire

import (
	"reflect"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/wire/shape"
)

// Fact is one named value of a notice: a text, a count, or whatever its reader
// knows how to read.
type Fact struct {
	Name  string
	Value jsonv.Value
}

// Facts are the facts of a notice, an object on the wire. The catalogue says which
// there are.
type Facts []Fact

// Get returns the value of a fact.
func (f Facts) Get(name string) (jsonv.Value, bool) {
	for _, x := range f {
		if x.Name == name {
			return x.Value, true
		}
	}
	return jsonv.Value{}, false
}

// AbsentShape implements [shape.Custom]: facts are always there, if only as an
// empty object.
func (f Facts) AbsentShape() bool { return false }

// AppendShape implements [shape.Custom].
func (f Facts) AppendShape(w *jsonv.Writer) {
	w.Begin()
	for _, x := range f {
		w.Name(x.Name)
		w.Value(x.Value)
	}
	w.End()
}

// DecodeShape implements [shape.CustomDecoder].
func (f *Facts) DecodeShape(v jsonv.Value, _ bool) error {
	if v.Kind() != jsonv.Object {
		return corrupt.New("wire.Facts", "value", "an object", v.Kind().String())
	}
	for name, x := range v.Fields() {
		*f = append(*f, Fact{Name: name, Value: x})
	}
	return nil
}

// DescribeShape implements [shape.Custom].
func (Facts) DescribeShape() *shape.Desc {
	return &shape.Desc{Kind: shape.KindAny, Go: reflect.TypeFor[Facts](), Name: "Facts"}
}
