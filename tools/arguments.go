package tools

import (
	"fmt"
	"strings"

	"github.com/loom-run/loom/core/jsonv"
)

// arguments reads the fields of a call. The first fault is kept; the rest of the
// reads then return defaults, so that a tool reads all its fields in a row and
// looks once.
type arguments struct {
	v     jsonv.Value
	fault string
}

// argumentsOf starts reading. Fields other than the named ones are a fault: a
// misspelt option must not be ignored.
func argumentsOf(v jsonv.Value, names ...string) *arguments {
	a := &arguments{v: v}
	if v.Kind() != jsonv.Object {
		a.fault = "an object is expected, not " + withArticle(v.Kind())
		return a
	}
	for name := range v.Fields() {
		known := false
		for _, n := range names {
			known = known || n == name
		}
		if !known {
			a.fail("there is no argument %q; the arguments are %s", clip(name, 80), strings.Join(names, ", "))
		}
	}
	return a
}

func (a *arguments) fail(format string, args ...any) {
	if a.fault == "" {
		a.fault = fmt.Sprintf(format, args...)
	}
}

// err is the fault as an outcome.
func (a *arguments) err() (Outcome, bool) {
	if a.fault == "" {
		return Outcome{}, false
	}
	return failed("invalid arguments: " + a.fault), true
}

// get returns a field that is there and not null: several models send null for
// what they leave out.
func (a *arguments) get(name string) (jsonv.Value, bool) {
	v, ok := a.v.Get(name)
	return v, ok && !v.IsNull()
}

func (a *arguments) str(name string) string {
	v, ok := a.get(name)
	if !ok {
		a.fail("%q is missing; a string is expected", name)
		return ""
	}
	return a.text(name, v)
}

func (a *arguments) optStr(name, absent string) string {
	v, ok := a.get(name)
	if !ok {
		return absent
	}
	return a.text(name, v)
}

func (a *arguments) text(name string, v jsonv.Value) string {
	s, ok := v.Text()
	if !ok {
		a.fail("%q is %s; a string is expected", name, withArticle(v.Kind()))
	}
	return s
}

func (a *arguments) optInt(name string, absent, least, most int64) int64 {
	v, ok := a.get(name)
	if !ok {
		return absent
	}
	n, ok := v.Int64()
	switch {
	case !ok && v.Kind() != jsonv.Int:
		a.fail("%q is %s; an integer is expected", name, withArticle(v.Kind()))
	case !ok || n < least || n > most:
		a.fail("%q is %s; it must be from %d to %d", name, clip(v.String(), 40), least, most)
	default:
		return n
	}
	return absent
}

func (a *arguments) optBool(name string, absent bool) bool {
	v, ok := a.get(name)
	if !ok {
		return absent
	}
	b, ok := v.Bool()
	if !ok {
		a.fail("%q is %s; true or false is expected", name, withArticle(v.Kind()))
	}
	return b
}

func withArticle(k jsonv.Kind) string {
	switch k {
	case jsonv.Null:
		return "null"
	case jsonv.Int, jsonv.Array, jsonv.Object:
		return "an " + k.String()
	case jsonv.Bool, jsonv.Float, jsonv.String:
		return "a " + k.String()
	}
	return k.String()
}

// schema reads the literal schema of a built-in tool; the tests read them all.
func schema(text string) jsonv.Value {
	v, err := jsonv.ParseString(text)
	if err != nil {
		panic(err)
	}
	return v
}

// optStrs is nil for a list that is left out.
func (a *arguments) optStrs(name string) []string {
	v, ok := a.get(name)
	if !ok {
		return nil
	}
	if v.Kind() != jsonv.Array {
		a.fail("%q is %s; a list of strings is expected", name, withArticle(v.Kind()))
		return nil
	}
	list := []string{}
	for _, e := range v.Elems() {
		list = append(list, a.text(name, e))
	}
	return list
}
