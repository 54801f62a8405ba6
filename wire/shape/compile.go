package shape

import (
	"reflect"
	"strconv"
	"strings"
)

// compile makes the codec of a type. The caller holds mu.
func compile(t reflect.Type) codec {
	if c, ok := known(t); ok {
		return c
	}
	c := build(t)
	compiled.Store(t, c)
	return c
}

func build(t reflect.Type) codec {
	if c, ok := scalars[t]; ok {
		return c
	}
	if t == valueType {
		return opaque{}
	}
	if t.Implements(customType) {
		if !reflect.PointerTo(t).Implements(decoderType) {
			badShape(t, "it writes itself and does not read itself")
		}
		return &custom{t}
	}
	switch t.Kind() {
	case reflect.String:
		return &text{typ: t, words: wordsOf(t)}
	case reflect.Bool:
		return &flag{t}
	case reflect.Int, reflect.Int64:
		return &count{typ: t}
	case reflect.Slice:
		return &list{t, compile(t.Elem())}
	case reflect.Struct:
		return buildObject(t)
	case reflect.Interface:
		return buildSum(t)
	default:
		badShape(t, "no JSON for a %s", t.Kind())
		return nil
	}
}

func buildSum(t reflect.Type) codec {
	s, ok := sums[t]
	if !ok {
		badShape(t, "it is no registered sum")
	}
	for i := range s.members {
		obj, ok := compile(s.members[i].typ).(*object)
		if !ok {
			badShape(s.members[i].typ, "a member of %s is no object", t)
		}
		s.members[i].obj = obj
		if _, clash := obj.byName[s.tag]; clash {
			badShape(s.members[i].typ, "its field %s is the tag of %s", s.tag, t)
		}
	}
	return s
}

func buildObject(t reflect.Type) *object {
	c := &object{typ: t, byName: map[string]int{}, checked: reflect.PointerTo(t).Implements(checkedType)}
	c.take(t, nil)
	if len(c.fields) > maxFields {
		badShape(t, "%d fields, more than %d", len(c.fields), maxFields)
	}
	for i, f := range c.fields {
		if _, twice := c.byName[f.name]; twice {
			badShape(t, "two fields are called %s", f.name)
		}
		c.byName[f.name] = i
		if !f.optional {
			c.required |= 1 << i
		}
	}
	return c
}

// take adds the fields of a struct, and those of what it embeds.
func (c *object) take(t reflect.Type, path []int) {
	for i := range t.NumField() {
		sf := t.Field(i)
		index := append(append([]int(nil), path...), i)
		tag, tagged := sf.Tag.Lookup("wire")
		switch {
		case sf.Anonymous && !tagged && sf.Type.Kind() == reflect.Struct:
			c.take(sf.Type, index)
		case !tagged || !sf.IsExported():
			badShape(c.typ, "the field %s has no name on the wire", sf.Name)
		default:
			c.fields = append(c.fields, buildField(c.typ, sf, tag, index))
		}
	}
}

func buildField(owner reflect.Type, sf reflect.StructField, tag string, index []int) field {
	parts := strings.Split(tag, ",")
	f := field{name: parts[0], goName: sf.Name, index: index}
	if f.name == "" {
		badShape(owner, "the field %s has an empty name", sf.Name)
	}
	t := sf.Type
	if t.Kind() == reflect.Pointer {
		f.pointer, f.optional = true, true
		t = t.Elem()
	}
	f.codec = compile(t)
	if c, ok := f.codec.(*custom); ok {
		f.optional, f.nullable = c.absent(reflect.Zero(t)), true
	}
	for _, option := range parts[1:] {
		f.option(owner, option)
	}
	return f
}

func (f *field) option(owner reflect.Type, option string) {
	name, arg, _ := strings.Cut(option, "=")
	switch name {
	case "opt":
		f.optional = true
	case "lenient":
		if !f.pointer {
			badShape(owner, "the field %s is lenient and no pointer", f.goName)
		}
		f.lenient = true
	case "word", "nonempty", "max":
		c, ok := f.codec.(*text)
		if !ok {
			badShape(owner, "the field %s is no text", f.goName)
		}
		bounded := *c
		switch name {
		case "word":
			bounded.min, bounded.max = 1, MaxWord
		case "nonempty":
			bounded.min = 1
		case "max":
			bounded.max = bytes(owner, arg)
		}
		f.codec = &bounded
	case "min":
		c, ok := f.codec.(*count)
		if !ok {
			badShape(owner, "the field %s is no count", f.goName)
		}
		f.codec = &count{typ: c.typ, min: int64(bytes(owner, arg))}
	default:
		badShape(owner, "the field %s has the unknown option %q", f.goName, option)
	}
}

// bytes reads a bound.
func bytes(owner reflect.Type, arg string) int {
	unit := 1
	switch {
	case strings.HasSuffix(arg, "K"):
		unit = 1 << 10
	case strings.HasSuffix(arg, "M"):
		unit = 1 << 20
	}
	n, err := strconv.Atoi(strings.TrimRight(arg, "KM"))
	if err != nil || n < 1 {
		badShape(owner, "the bound %q is no number", arg)
	}
	return n * unit
}
