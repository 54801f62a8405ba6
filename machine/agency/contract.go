package agency

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loom-run/loom/core/jsonv"
)

// Bounds of a contract.
const (
	MaxFields = 32
	maxDepth  = 4 // of arrays in arrays
)

// Contract is the shape that a result is asked for in: a flat object, as a subset of
// JSON Schema. Fields that it does not name are fine.
type Contract struct {
	fields   []field
	required []string
	source   jsonv.Value
}

type field struct {
	name string
	kind fieldKind
}

// fieldKind is the type of a field: a word, and of an array what it holds.
type fieldKind struct {
	word  string // string, integer, number, boolean, object, array or any
	items *fieldKind
}

const kindWords = "string, integer, number, boolean, object, array or any"

// ParseContract reads a contract. What the subset does not know is refused, since
// nobody would check it. The error is a [*Refusal].
func ParseContract(v jsonv.Value) (Contract, error) {
	if err := only(v, "the contract", "type", "description", "properties", "required"); err != nil {
		return Contract{}, err
	}
	if word, _ := textOf(v, "type"); word != "object" {
		return Contract{}, refuse("a contract has the type object")
	}
	c := Contract{source: v}
	properties, ok := v.Get("properties")
	if !ok || properties.Kind() != jsonv.Object || properties.Len() == 0 || properties.Len() > MaxFields {
		return Contract{}, refuse("a contract has properties, 1 to %d of them", MaxFields)
	}
	for name, p := range properties.Fields() {
		k, err := parseKind(p, name, 1)
		if err != nil {
			return Contract{}, err
		}
		c.fields = append(c.fields, field{name, k})
	}
	required, ok := v.Get("required")
	if ok && required.Kind() != jsonv.Array {
		return Contract{}, refuse("required is a list of names of properties")
	}
	if ok {
		for _, e := range required.Elems() {
			name, isText := e.Text()
			if !isText || !slices.ContainsFunc(c.fields, func(f field) bool { return f.name == name }) {
				return Contract{}, refuse("required is a list of names of properties, and %.80s is none", e.String())
			}
			c.required = append(c.required, name)
		}
	}
	return c, nil
}

func parseKind(v jsonv.Value, where string, depth int) (fieldKind, error) {
	if err := only(v, fmt.Sprintf("the property %.80q", where), "type", "description", "items"); err != nil {
		return fieldKind{}, err
	}
	word, stated := textOf(v, "type")
	if _, there := v.Get("type"); !there {
		word, stated = "any", true
	}
	items, nested := v.Get("items")
	if nested && word != "array" {
		return fieldKind{}, refuse("the property %.80q has items and is no array", where)
	}
	switch word {
	case "string", "integer", "number", "boolean", "object", "any":
		return fieldKind{word: word}, nil
	case "array":
		if !nested {
			return fieldKind{word: word}, nil
		}
		if depth > maxDepth {
			return fieldKind{}, refuse("the property %.80q nests arrays deeper than %d", where, maxDepth)
		}
		k, err := parseKind(items, where, depth+1)
		return fieldKind{word, &k}, err
	}
	if !stated {
		word = "something that is no text"
	}
	return fieldKind{}, refuse("the type of the property %.80q is %.80s; it must be %s", where, word, kindWords)
}

// only refuses what is no object, and fields that are not known.
func only(v jsonv.Value, what string, names ...string) error {
	if v.Kind() != jsonv.Object {
		return refuse("%s is no object", what)
	}
	for name := range v.Fields() {
		if !slices.Contains(names, name) {
			return refuse("%s has %.80q, which is not supported; it can have %s", what, name, strings.Join(names, ", "))
		}
	}
	return nil
}

func textOf(v jsonv.Value, name string) (string, bool) {
	f, _ := v.Get(name)
	return f.Text()
}

// Value is the contract as it was given.
func (c Contract) Value() jsonv.Value { return c.source }

// Check says what a result lacks, as what was expected and what was received; nil
// when it fits.
func (c Contract) Check(v jsonv.Value) error {
	if v.Kind() != jsonv.Object {
		return refuse("the result must be an object and is %s", describe(v))
	}
	for _, name := range c.required {
		if _, ok := v.Get(name); !ok {
			return refuse("the result lacks %q, which is required", name)
		}
	}
	for _, f := range c.fields {
		if got, ok := v.Get(f.name); ok {
			if err := f.kind.check(f.name, got); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k fieldKind) check(where string, v jsonv.Value) error {
	fits := false
	switch k.word {
	case "any":
		fits = true
	case "string":
		fits = v.Kind() == jsonv.String
	case "boolean":
		fits = v.Kind() == jsonv.Bool
	case "integer":
		fits = v.Kind() == jsonv.Int
	case "number":
		fits = v.Kind() == jsonv.Int || v.Kind() == jsonv.Float
	case "object":
		fits = v.Kind() == jsonv.Object
	case "array":
		fits = v.Kind() == jsonv.Array
	}
	if !fits {
		return refuse("%q must be %s and is %s", where, k.word, describe(v))
	}
	if k.items != nil {
		for i, e := range v.Elems() {
			if err := k.items.check(fmt.Sprintf("%s[%d]", where, i), e); err != nil {
				return err
			}
		}
	}
	return nil
}

func describe(v jsonv.Value) string { return fmt.Sprintf("%s: %.80s", v.Kind(), v.String()) }

// Standing is how a result meets its contract.
type Standing string

// The standings.
const (
	Given    Standing = "given"
	Absent   Standing = "absent"
	Unusable Standing = "unusable" // it is there and does not fit
)

// Stand judges the result of a child; there is none where ok is false. why is what is
// wrong with one that cannot be used.
func (c Contract) Stand(v jsonv.Value, ok bool) (s Standing, why string) {
	if !ok {
		return Absent, ""
	}
	if err := c.Check(v); err != nil {
		return Unusable, err.Error()
	}
	return Given, ""
}
