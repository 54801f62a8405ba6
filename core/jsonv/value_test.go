package jsonv_test

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/jsonv"
	"pgregory.net/rapid"
)

func parse(t testing.TB, text string) jsonv.Value {
	t.Helper()
	v, err := jsonv.ParseString(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// both returns a value as it was built and as it was parsed: no method may tell them apart.
func both(t *rapid.T, v jsonv.Value) [2]jsonv.Value {
	parsed, err := jsonv.Parse(v.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	return [2]jsonv.Value{v, parsed}
}

func TestBuiltAndParsedValuesBehaveAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fields := rapid.SliceOfNDistinct(coretest.Text(), 0, 20, rapid.ID[string]).Draw(t, "names")
		var members []jsonv.Member
		for _, name := range fields {
			members = append(members, jsonv.F(name, coretest.Value().Draw(t, "value")))
		}
		for _, v := range both(t, jsonv.Obj(members...)) {
			if v.Len() != len(members) || v.Kind() != jsonv.Object || v.IsNull() {
				t.Fatalf("%d fields of %d", v.Len(), len(members))
			}
			i := 0
			for name, field := range v.Fields() {
				if name != members[i].Name || !field.Equal(members[i].Value) || !v.At(i).Equal(field) {
					t.Fatalf("field %d is %q: %s", i, name, field)
				}
				if got, ok := v.Get(name); !ok || !got.Equal(field) {
					t.Fatalf("Get(%q) = %s, %v", name, got, ok)
				}
				i++
			}
			if i != len(members) {
				t.Fatalf("%d fields were yielded of %d", i, len(members))
			}
			for range v.Elems() {
				t.Fatal("an object has elements")
			}
		}
		var elems []jsonv.Value
		for _, m := range members {
			elems = append(elems, m.Value)
		}
		for _, v := range both(t, jsonv.Arr(elems...)) {
			for i, e := range v.Elems() {
				if !e.Equal(elems[i]) || !v.At(i).Equal(e) {
					t.Fatalf("element %d is %s", i, e)
				}
			}
			for range v.Fields() {
				t.Fatal("an array has fields")
			}
			if _, ok := v.Get(""); ok || v.Len() != len(elems) {
				t.Fatal("an array has a field, or another length")
			}
		}
	})
}

func TestEqualTellsEveryDifference(t *testing.T) {
	distinct := []jsonv.Value{
		{}, jsonv.Boolean(true), jsonv.Boolean(false), jsonv.Num(0), jsonv.Num(1), parse(t, "1.0"), parse(t, "1e0"), parse(t, "-0"), jsonv.Str(""), jsonv.Str("1"),
		jsonv.Str("true"), jsonv.Arr(), jsonv.Obj(), jsonv.Arr(jsonv.Value{}), jsonv.Arr(jsonv.Arr()), jsonv.Obj(jsonv.F("", jsonv.Value{})),
		parse(t, `{"a":1,"b":2}`), parse(t, `{"b":2,"a":1}`), parse(t, `{"a":1,"b":3}`), parse(t, `{"a":1,"c":2}`), parse(t, `[1,2]`),
	}
	for i, a := range distinct {
		for j, b := range distinct {
			if a.Equal(b) != (i == j) {
				t.Errorf("%s equals %s: %v", a, b, a.Equal(b))
			}
		}
	}
}

func TestWithSetsOneFieldAndLeavesTheValueAlone(t *testing.T) {
	for _, c := range []struct{ of, want string }{
		{`{}`, `{"x":9}`},
		{`{"a":1}`, `{"a":1,"x":9}`},
		{`{"x":1,"a":{"x":2}}`, `{"x":9,"a":{"x":2}}`},
		{`[1,2]`, `{"x":9}`}, {`null`, `{"x":9}`}, {`"text"`, `{"x":9}`},
	} {
		v := parse(t, c.of)
		if got := v.With("x", jsonv.Num(9)).String(); got != c.want {
			t.Errorf("%s with x: %s, want %s", c.of, got, c.want)
		}
		if v.String() != c.of {
			t.Errorf("With changed %s to %s", c.of, v)
		}
	}
}

func TestNumbersConvertOrSayThatTheyDoNot(t *testing.T) {
	for _, c := range []struct {
		text  string
		n     int64
		isInt bool
		f     float64
		isNum bool
	}{
		{"0", 0, true, 0, true}, {"-0", 0, true, math.Copysign(0, -1), true},
		{"9223372036854775807", math.MaxInt64, true, math.MaxInt64, true},
		{"-9223372036854775808", math.MinInt64, true, math.MinInt64, true},
		{"9223372036854775808", 0, false, 1 << 63, true}, {"-9223372036854775809", 0, false, -1 << 63, true},
		{"1.0", 0, false, 1, true}, {"1e3", 0, false, 1000, true}, {"5e-324", 0, false, 5e-324, true}, {"1e-999", 0, false, 0, true},
		{strings.Repeat("9", 400), 0, false, 0, false}, // an integer of any size is not a double
		{`"1"`, 0, false, 0, false}, {"null", 0, false, 0, false}, {"[1]", 0, false, 0, false}, {"true", 0, false, 0, false},
	} {
		v := parse(t, c.text)
		if n, ok := v.Int64(); ok != c.isInt || ok && n != c.n {
			t.Errorf("%.30s: Int64 = %d, %v", c.text, n, ok)
		}
		if f, ok := v.Float64(); ok != c.isNum || ok && (f != c.f || math.Signbit(f) != math.Signbit(c.f)) {
			t.Errorf("%.30s: Float64 = %v, %v", c.text, f, ok)
		}
	}
}

func TestFloatsReadBackAsTheSameFloat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "float")
		v, err := jsonv.Parse(jsonv.FloatNum(f).Append(nil))
		if got, ok := v.Float64(); err != nil || !ok || v.Kind() != jsonv.Float || math.Float64bits(got) != math.Float64bits(f) {
			t.Fatalf("%v is written as %s and reads as %v (%v), %v", f, jsonv.FloatNum(f), got, v.Kind(), err)
		}
	})
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if !jsonv.FloatNum(f).IsNull() {
			t.Errorf("%v is %s", f, jsonv.FloatNum(f))
		}
	}
}

func TestDepthCountsOpenContainers(t *testing.T) {
	for text, want := range map[string]int{`1`: 0, `"[["`: 0, `[]`: 1, `{}`: 1, `[1,[2],{"a":[]},[]]`: 3, `{"a":[[[]]],"b":[]}`: 4} {
		if got := parse(t, text).Depth(); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

func TestConstructorsMakeTheirKind(t *testing.T) {
	big20, _ := new(big.Int).SetString("-12345678901234567890", 10)
	for _, c := range []struct {
		v    jsonv.Value
		kind jsonv.Kind
		text string
	}{
		{jsonv.Value{}, jsonv.Null, "null"}, {jsonv.Boolean(true), jsonv.Bool, "true"}, {jsonv.Boolean(false), jsonv.Bool, "false"},
		{jsonv.Num(-7), jsonv.Int, "-7"}, {jsonv.BigNum(big20), jsonv.Int, "-12345678901234567890"}, {jsonv.FloatNum(2), jsonv.Float, "2.0"},
		{jsonv.Str("a\"b"), jsonv.String, `"a\"b"`}, {jsonv.Arr(), jsonv.Array, "[]"}, {jsonv.Arr(jsonv.Num(1), jsonv.Value{}), jsonv.Array, "[1,null]"},
		{jsonv.Obj(), jsonv.Object, "{}"}, {jsonv.Obj(jsonv.F("b", jsonv.Num(1)), jsonv.F("a", jsonv.Arr())), jsonv.Object, `{"b":1,"a":[]}`},
	} {
		if c.v.Kind() != c.kind || c.v.String() != c.text || c.v.IsNull() != (c.kind == jsonv.Null) {
			t.Errorf("%s is %v, want %s as %v", c.v, c.v.Kind(), c.text, c.kind)
		}
		text, isText := c.v.Text()
		if isText != (c.kind == jsonv.String) || isText && text != "a\"b" {
			t.Errorf("%s: text %q, %v", c.v, text, isText)
		}
		if b, ok := c.v.Bool(); ok != (c.kind == jsonv.Bool) || ok && b != (c.text == "true") {
			t.Errorf("%s: truth %v, %v", c.v, b, ok)
		}
	}
}

func TestTheFirstOfRepeatedNamesWinsInBuiltObjects(t *testing.T) {
	v := jsonv.Obj(jsonv.F("a", jsonv.Num(1)), jsonv.F("a", jsonv.Num(2)))
	if got, _ := v.Get("a"); got.String() != "1" {
		t.Errorf("Get = %s", got)
	}
	if _, err := jsonv.Parse(v.Append(nil)); err == nil {
		t.Error("a text with a repeated name was read back")
	}
}

func TestAtPanicsPastTheEnd(t *testing.T) {
	v := parse(t, `[[1,2],[3]]`)
	for _, i := range []int{-1, 2, 3} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("element %d of %s", i, v.At(0))
				}
			}()
			v.At(0).At(i)
		}()
	}
}
