package jsonv_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
)

// readers calls each method of Reader for field x and returns what it read, formatted.
var readers = map[string]func(*jsonv.Reader) any{
	"Value":   func(r *jsonv.Reader) any { return r.Value("x").String() },
	"Opaque":  func(r *jsonv.Reader) any { return deref(r.Opaque("x")) },
	"Maybe":   func(r *jsonv.Reader) any { return deref(r.Maybe("x")) },
	"Str":     func(r *jsonv.Reader) any { return r.Str("x") },
	"OptStr":  func(r *jsonv.Reader) any { return deref(r.OptStr("x")) },
	"Num":     func(r *jsonv.Reader) any { return r.Num("x") },
	"OptNum":  func(r *jsonv.Reader) any { return deref(r.OptNum("x")) },
	"Flag":    func(r *jsonv.Reader) any { return r.Flag("x") },
	"OptFlag": func(r *jsonv.Reader) any { return r.OptFlag("x") },
	"List":    func(r *jsonv.Reader) any { return r.List("x") },
	"Strs":    func(r *jsonv.Reader) any { return r.Strs("x") },
	"OptStrs": func(r *jsonv.Reader) any { return r.OptStrs("x") },
	"Each":    func(r *jsonv.Reader) any { return jsonv.Each(r, "x", text) },
	"One":     func(r *jsonv.Reader) any { return jsonv.One(r, "x", text) },
	"OptOne":  func(r *jsonv.Reader) any { return deref(jsonv.OptOne(r, "x", text)) },
}

func deref[T any](p *T) any {
	if p == nil {
		return "absent"
	}
	return *p
}

// text is a decoder for the readers that take one.
func text(v jsonv.Value) (string, error) {
	s, ok := v.Text()
	if !ok {
		return "", corrupt.New("test.text", "value", "a text", v.Kind().String())
	}
	return s, nil
}

func TestReadersAcceptTheirKindAndNoOther(t *testing.T) {
	const refuse = "refuse"
	absent := map[string]string{
		"Opaque": "absent", "Maybe": "absent", "OptStr": "absent", "OptNum": "absent", "OptFlag": "false", "OptStrs": "[]", "OptOne": "absent",
	}
	for _, c := range []struct {
		of   string
		want map[string]string // a reader that is not named refuses
	}{
		{`{}`, absent},
		{`{"y":1}`, absent},
		{`{"x":null}`, map[string]string{
			"Value": "null", "Opaque": "null", "Maybe": "absent", "OptStr": "absent", "OptNum": "absent", "OptFlag": "false", "OptStrs": "[]", "OptOne": "absent",
		}},
		{`{"x":"a\n"}`, map[string]string{"Value": `"a\n"`, "Opaque": `"a\n"`, "Maybe": `"a\n"`, "Str": "a\n", "OptStr": "a\n", "One": "a\n", "OptOne": "a\n"}},
		{`{"x":-5}`, map[string]string{"Value": "-5", "Opaque": "-5", "Maybe": "-5", "Num": "-5", "OptNum": "-5"}},
		{`{"x":5.0}`, map[string]string{"Value": "5.0", "Opaque": "5.0", "Maybe": "5.0"}},
		{`{"x":9223372036854775808}`, map[string]string{"Value": "9223372036854775808", "Opaque": "9223372036854775808", "Maybe": "9223372036854775808"}},
		{`{"x":true}`, map[string]string{"Value": "true", "Opaque": "true", "Maybe": "true", "Flag": "true", "OptFlag": "true"}},
		{`{"x":false}`, map[string]string{"Value": "false", "Opaque": "false", "Maybe": "false", "Flag": "false", "OptFlag": "false"}},
		{`{"x":[]}`, map[string]string{"Value": "[]", "Opaque": "[]", "Maybe": "[]", "List": "[]", "Strs": "[]", "OptStrs": "[]", "Each": "[]"}},
		{`{"x":["a","b"]}`, map[string]string{
			"Value": `["a","b"]`, "Opaque": `["a","b"]`, "Maybe": `["a","b"]`, "List": `["a" "b"]`, "Strs": "[a b]", "OptStrs": "[a b]", "Each": "[a b]",
		}},
		{`{"x":["a",1]}`, map[string]string{"Value": `["a",1]`, "Opaque": `["a",1]`, "Maybe": `["a",1]`, "List": `["a" 1]`}},
		{`{"x":{"x":1}}`, map[string]string{"Value": `{"x":1}`, "Opaque": `{"x":1}`, "Maybe": `{"x":1}`}},
	} {
		for name, read := range readers {
			r := jsonv.Read(parse(t, c.of), "test.Read")
			got := fmt.Sprint(read(r))
			if r.Err() != nil {
				got = refuse
			}
			want, ok := c.want[name]
			if !ok {
				want = refuse
			}
			if got != want {
				t.Errorf("%s of %s: %s, want %s (%v)", name, c.of, got, want, r.Err())
			}
		}
	}
}

func TestTheFirstFailureStaysAndTheRestIsZero(t *testing.T) {
	zero := map[string]string{
		"Value": "null", "Opaque": "absent", "Maybe": "absent", "Str": "", "OptStr": "absent", "Num": "0", "OptNum": "absent", "Flag": "false", "OptFlag": "false",
		"List": "[]", "Strs": "[]", "OptStrs": "[]", "Each": "[]", "One": "", "OptOne": "absent",
	}
	for _, x := range []string{`"s"`, `1`, `true`, `["s"]`} {
		r := jsonv.Read(parse(t, `{"x":`+x+`}`), "test.Read")
		r.Str("first")
		first := r.Err()
		for name, read := range readers {
			if got := fmt.Sprint(read(r)); got != zero[name] {
				t.Errorf("%s of %s after a failure: %s", name, x, got)
			}
		}
		r.Fail("other", "something else", jsonv.Value{})
		r.Adopt("other", errors.New("something else"))
		r.Exact()
		want := &corrupt.Report{Boundary: "test.Read", Subject: "first", Expected: "a string", Context: "no such field"}
		if d := cmp.Diff(want, r.Err()); d != "" || r.Err() != first {
			t.Error(d)
		}
	}
}

func TestFailuresNameTheirPlace(t *testing.T) {
	for name, c := range map[string]struct {
		of   string
		read func(*jsonv.Reader)
		want corrupt.Report
	}{
		"not an object": {`[1,2]`, func(*jsonv.Reader) {}, corrupt.Report{Boundary: "b", Subject: "value", Expected: "an object", Context: "array of 2"}},
		"a container":   {`{"x":{"a":1}}`, func(r *jsonv.Reader) { r.Num("x") }, corrupt.Report{Boundary: "b", Subject: "x", Expected: "an integer of 64 bits", Context: "object of 1"}},
		"an element":    {`{"x":["a",{}]}`, func(r *jsonv.Reader) { r.Strs("x") }, corrupt.Report{Boundary: "b", Subject: "x[1]", Expected: "a string", Context: "object of 0"}},
		"a nested report": {`{"x":["a",1]}`, func(r *jsonv.Reader) { jsonv.Each(r, "x", text) },
			corrupt.Report{Boundary: "test.text", Subject: "x[1].value", Expected: "a text", Context: "integer"}},
		"another error":    {`{"x":1}`, func(r *jsonv.Reader) { r.Adopt("x", errors.New("disk")) }, corrupt.Report{Boundary: "b", Subject: "x", Expected: "a readable value", Context: "disk"}},
		"an unknown field": {`{"a":1,"x":2}`, func(r *jsonv.Reader) { r.Exact("a") }, corrupt.Report{Boundary: "b", Subject: "x", Expected: "no other field than the known ones", Context: "2"}},
	} {
		r := jsonv.Read(parse(t, c.of), "b")
		c.read(r)
		if d := cmp.Diff(error(&c.want), r.Err()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	r := jsonv.Read(parse(t, `{"a":1,"x":2}`), "b")
	if r.Exact("x", "a", "unused"); r.Err() != nil {
		t.Error(r.Err())
	}
}

func TestReportsOfHostileFieldsAreSmall(t *testing.T) {
	long := strings.Repeat("\x1b[2J", 1_000_000)
	for _, v := range []jsonv.Value{jsonv.Str(long), jsonv.Str(coretest.Zalgo(100_000)), parse(t, strings.Repeat("9", 1_000_000)), jsonv.Arr(jsonv.Str(long)), jsonv.Obj(jsonv.F(long, jsonv.Value{}))} {
		r := jsonv.Read(jsonv.Obj(jsonv.F("x", v)), "b")
		r.Flag("x")
		if n := len(r.Err().Error()); n > 20_000 {
			t.Errorf("%v: %d bytes", v.Kind(), n)
		}
	}
	r := jsonv.Read(jsonv.Obj(jsonv.F(long, jsonv.Num(1))), "b")
	if r.Exact(); len(r.Err().Error()) > 20_000 {
		t.Errorf("a long name: %d bytes", len(r.Err().Error()))
	}
}

func TestFieldsAreFoundInAnyOrder(t *testing.T) {
	v := parse(t, `{"a":1,"b":2,"c":3,"d":4}`)
	for _, order := range []string{"abcd", "dcba", "bdac", "aabbccdd", "dadada"} {
		r := jsonv.Read(v, "b")
		for _, name := range strings.Split(order, "") {
			if got := r.Num(name); got != int64(name[0]-'a'+1) {
				t.Errorf("%s in %s is %d", name, order, got)
			}
			r.OptNum("absent")
		}
		if r.Err() != nil {
			t.Error(r.Err())
		}
	}
}
