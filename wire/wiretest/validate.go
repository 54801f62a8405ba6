package wiretest

import (
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/loom-run/loom/core/jsonv"
)

// Validate reads a value against a JSON Schema, as far as the schemas of the wire go:
// root is the document that references point into. It returns what is wrong.
func Validate(root, schema, v jsonv.Value) []string {
	return check{root}.value(schema, v, "$")
}

type check struct{ root jsonv.Value }

func (c check) value(schema, v jsonv.Value, at string) (faults []string) {
	if allowed, ok := schema.Bool(); ok {
		if !allowed {
			return []string{at + ": nothing is allowed here"}
		}
		return nil
	}
	for rule, arg := range schema.Fields() {
		faults = append(faults, c.rule(rule, arg, schema, v, at)...)
	}
	return faults
}

func (c check) rule(rule string, arg, schema, v jsonv.Value, at string) []string {
	bad := func(format string, args ...any) []string { return []string{at + ": " + fmt.Sprintf(format, args...)} }
	switch rule {
	case "$ref":
		name, _ := arg.Text()
		defs, _ := c.root.Get("$defs")
		def, ok := defs.Get(name[len("#/$defs/"):])
		if !ok {
			return bad("no definition %s", name)
		}
		return c.value(def, v, at)
	case "type":
		want, _ := arg.Text()
		if kind := typeOf(v); kind != want {
			return bad("it is a %s and no %s", kind, want)
		}
	case "const":
		if !v.Equal(arg) {
			return bad("it is not %s", arg)
		}
	case "enum":
		if !among(arg, v) {
			return bad("%s is none of %s", v, arg)
		}
	case "not":
		if len(c.value(arg, v, at)) == 0 {
			return bad("it is what it must not be")
		}
	case "anyOf":
		return c.anyOf(arg, v, at)
	case "allOf":
		var faults []string
		for _, s := range arg.Elems() {
			faults = append(faults, c.value(s, v, at)...)
		}
		return faults
	case "if":
		if then, ok := schema.Get("then"); ok && len(c.value(arg, v, at)) == 0 {
			return c.value(then, v, at)
		}
	default:
		return c.contents(rule, arg, schema, v, at)
	}
	return nil
}

func (c check) anyOf(list, v jsonv.Value, at string) []string {
	var faults []string
	for _, s := range list.Elems() {
		these := c.value(s, v, at)
		if len(these) == 0 {
			return nil
		}
		faults = append(faults, these...)
	}
	return append([]string{at + ": none of several"}, faults...)
}

// contents are the rules about parts and sizes.
func (c check) contents(rule string, arg, schema, v jsonv.Value, at string) (faults []string) {
	bad := func(format string, args ...any) []string { return []string{at + ": " + fmt.Sprintf(format, args...)} }
	limit, _ := arg.Int64()
	text, isText := v.Text()
	number, isNumber := v.Int64()
	switch rule {
	case "properties":
		for name, s := range arg.Fields() {
			if x, ok := v.Get(name); ok {
				faults = append(faults, c.value(s, x, at+"."+name)...)
			}
		}
	case "required":
		for _, name := range arg.Elems() {
			n, _ := name.Text()
			if _, ok := v.Get(n); !ok && v.Kind() == jsonv.Object {
				faults = append(faults, bad("no field %s", n)...)
			}
		}
	case "additionalProperties":
		properties, _ := schema.Get("properties")
		for name := range v.Fields() {
			if _, ok := properties.Get(name); !ok {
				faults = append(faults, bad("the field %s is not known", name)...)
			}
		}
	case "items":
		for i, x := range v.Elems() {
			faults = append(faults, c.value(arg, x, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case "pattern":
		pattern, _ := arg.Text()
		if isText && !regexp.MustCompile(pattern).MatchString(text) {
			return bad("%q does not match", text)
		}
	case "minLength":
		if isText && int64(utf8.RuneCountInString(text)) < limit {
			return bad("it is shorter than %d", limit)
		}
	case "maxLength":
		if isText && int64(utf8.RuneCountInString(text)) > limit {
			return bad("it is longer than %d", limit)
		}
	case "minimum":
		if isNumber && number < limit {
			return bad("it is less than %d", limit)
		}
	case "maximum":
		if isNumber && number > limit {
			return bad("it is more than %d", limit)
		}
	case "$schema", "title", "description", "examples", "$defs", "then":
	default:
		return bad("the schema has the rule %q, which is not read here", rule)
	}
	return faults
}

func typeOf(v jsonv.Value) string {
	switch v.Kind() {
	case jsonv.Null:
		return "null"
	case jsonv.Bool:
		return "boolean"
	case jsonv.Int:
		return "integer"
	case jsonv.Float:
		return "number"
	case jsonv.String:
		return "string"
	case jsonv.Array:
		return "array"
	case jsonv.Object:
		return "object"
	}
	return "nothing"
}

func among(list, v jsonv.Value) bool {
	for _, x := range list.Elems() {
		if x.Equal(v) {
			return true
		}
	}
	return false
}
