package client_test

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/loom-run/loom/client/plane"
)

// dump renders outputs for golden files: what is kept as it is stored, and of what
// passes pointers as what they point to, ids as their text.
func dump(outs []plane.Output) string {
	var b strings.Builder
	for _, o := range outs {
		switch o := o.(type) {
		case plane.Transcript:
			fmt.Fprintf(&b, "  keep %s\n", o.Line().Append(nil))
		case plane.Chrome:
			fmt.Fprintf(&b, "  show %s\n", value(reflect.ValueOf(o.Event())))
		}
	}
	return b.String()
}

func value(v reflect.Value) string {
	if !v.IsValid() {
		return "none"
	}
	if s, ok := v.Interface().(fmt.Stringer); ok && v.Kind() != reflect.Pointer {
		return s.String()
	}
	if c, ok := v.Interface().(plane.Count); ok {
		switch {
		case !c.Known:
			return "unknown"
		case !c.Exact:
			return fmt.Sprintf("at least %d", c.N)
		}
		return fmt.Sprint(c.N)
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return "none"
		}
		return value(v.Elem())
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	case reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = value(v.Index(i))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case reflect.Struct:
		var parts []string
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				parts = append(parts, f.Name+":"+value(v.Field(i)))
			}
		}
		return v.Type().Name() + "{" + strings.Join(parts, " ") + "}"
	default:
		return fmt.Sprint(v.Interface())
	}
}
