package jsonv_test

import (
	"testing"

	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/jsonv"
	"pgregory.net/rapid"
)

// pieces writes v with the writer's own calls, not with Value.Append.
func pieces(w *jsonv.Writer, v jsonv.Value) {
	switch v.Kind() {
	case jsonv.Null:
		w.Null()
	case jsonv.Bool:
		b, _ := v.Bool()
		w.Bool(b)
	case jsonv.Int, jsonv.Float:
		if n, ok := v.Int64(); ok && v.Equal(jsonv.Num(n)) {
			w.Int(n)
		} else {
			lit, _ := v.Literal()
			w.Literal(lit)
		}
	case jsonv.String:
		s, _ := v.Text()
		w.String(s)
	case jsonv.Array:
		w.BeginArray()
		for _, e := range v.Elems() {
			pieces(w, e)
		}
		w.EndArray()
	case jsonv.Object:
		w.Begin()
		for name, f := range v.Fields() {
			w.Name(name)
			pieces(w, f)
		}
		w.End()
	}
}

func TestTheWriterPlacesEveryComma(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := coretest.Value().Draw(t, "value")
		prefix := rapid.SampledFrom([]string{"", "data: ", "x", `"`, "{", "[1]"}).Draw(t, "prefix")
		w := jsonv.NewWriter([]byte(prefix))
		pieces(w, v)
		if got, want := string(w.Bytes()), prefix+v.String(); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		if !w.Tree().Equal(v) {
			t.Fatalf("the tree of %s is %s", v, w.Tree())
		}
	})
}

func TestFieldsAreWrittenWhenPresent(t *testing.T) {
	var w jsonv.Writer
	w.Begin()
	w.Str("s", "x")
	w.OptStr("no", nil)
	w.OptStr("os", new(""))
	w.Num("n", -1)
	w.OptNum("no", nil)
	w.OptNum("on", new(int64(0)))
	w.Flag("f", false)
	w.Opaque("no", nil)
	w.Opaque("null", new(jsonv.Value{}))
	w.Strs("none", nil)
	w.Strs("some", []string{"a", ""})
	w.Name("v")
	w.Value(jsonv.Arr(jsonv.Num(1)))
	w.End()
	const want = `{"s":"x","os":"","n":-1,"on":0,"f":false,"null":null,"none":[],"some":["a",""],"v":[1]}`
	if got := string(w.Bytes()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestTheTreeOfAWriterHasNoDepthLimit(t *testing.T) {
	var w jsonv.Writer
	const depth = 2 * jsonv.MaxDepth
	for range depth {
		w.BeginArray()
	}
	for range depth {
		w.EndArray()
	}
	if got := w.Tree().Depth(); got != depth {
		t.Errorf("depth %d, want %d", got, depth)
	}
}

func TestATreeOfBrokenTextPanics(t *testing.T) {
	for name, write := range map[string]func(*jsonv.Writer){
		"nothing": func(*jsonv.Writer) {}, "open": (*jsonv.Writer).Begin, "two values": func(w *jsonv.Writer) { w.Null(); w.Null() },
		"a literal": func(w *jsonv.Writer) { w.Literal("1.") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			var w jsonv.Writer
			write(&w)
			w.Tree()
		}()
	}
}
