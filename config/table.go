package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// table reads the keys of one table. The first failure stays, and every later reading yields a zero value.
type table struct {
	name   string
	fields map[string]any
	known  []string
	fault  *fault
}

// fault is the first failure of a file.
type fault struct{ err *Error }

func (t *table) fail(format string, args ...any) {
	if t.fault.err == nil {
		t.fault.err = &Error{Table: t.name, Message: fmt.Sprintf(format, args...)}
	}
}

func (t *table) failed() bool { return t.fault.err != nil }

// take returns a value and marks its key as known.
func (t *table) take(key string) (any, bool) {
	t.known = append(t.known, key)
	v, ok := t.fields[key]
	return v, ok && !t.failed()
}

// done refuses keys that nobody asked for.
func (t *table) done() {
	for _, key := range slices.Sorted(maps.Keys(t.fields)) {
		if !slices.Contains(t.known, key) {
			t.fail("there is no key %s here; %s", quote(key), list("there is", "there are", t.known))
		}
	}
}

// quote repeats a key that looks like one of ours. What does not may be anything that was pasted.
func quote(key string) string {
	const longest = 24
	if len(key) <= longest && validName(key) {
		return `"` + key + `"`
	}
	return fmt.Sprintf("of %d characters", len(key))
}

func list(one, many string, names []string) string {
	if len(names) == 1 {
		return one + " " + names[0]
	}
	return many + " " + strings.Join(names, ", ")
}

// sub returns a table below this one.
func (t *table) sub(key string) (*table, bool) {
	v, ok := t.take(key)
	if !ok {
		return nil, false
	}
	return t.inner(key, v)
}

func (t *table) inner(key string, v any) (*table, bool) {
	name := key
	if t.name != "" {
		name = t.name + "." + key
	}
	fields, ok := v.(map[string]any)
	if !ok {
		t.fail("%s must be a table", quote(key))
		return nil, false
	}
	return &table{name: name, fields: fields, fault: t.fault}, true
}

// each reads the tables of a table of tables, by name.
func each[T any](t *table, key string, read func(*table, string) T) map[string]T {
	outer, ok := t.sub(key)
	if !ok {
		return nil
	}
	out := map[string]T{}
	for _, name := range slices.Sorted(maps.Keys(outer.fields)) {
		if !validName(name) {
			outer.fail("a name %s is none: a name has 1 to 64 letters, digits, dots, dashes and underscores", quote(name))
			return nil
		}
		if inner, ok := outer.inner(name, outer.fields[name]); ok {
			out[name] = read(inner, name)
			inner.done()
		}
	}
	return out
}

func validName(name string) bool {
	return len(name) >= 1 && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_')
	})
}

// text is a string that must not be empty.
func (t *table) text(key string) (string, bool) {
	v, ok := t.take(key)
	if !ok {
		return "", false
	}
	s, isText := v.(string)
	if !isText || strings.TrimSpace(s) == "" {
		t.fail("%s must be a text that is not empty", key)
		return "", false
	}
	return s, true
}

func (t *table) required(key, what string) string {
	s, ok := t.text(key)
	if !ok {
		t.fail("%s is missing: %s", key, what)
	}
	return s
}

// word is one of some words.
func word[W ~string](t *table, key string, words []W) (W, bool) {
	v, ok := t.take(key)
	if !ok {
		return "", false
	}
	s, _ := v.(string)
	if !slices.Contains(words, W(s)) {
		names := make([]string, len(words))
		for i, w := range words {
			names[i] = `"` + string(w) + `"`
		}
		t.fail("%s must be one of %s", key, strings.Join(names, ", "))
		return "", false
	}
	return W(s), true
}

// number is a whole number from 1.
func (t *table) number(key, unit string, most int64) *int64 {
	v, ok := t.take(key)
	if !ok {
		return nil
	}
	n, isNumber := v.(int64)
	if !isNumber || n < 1 || n > most {
		t.fail("%s must be a whole number of %s from 1 to %d", key, unit, most)
		return nil
	}
	return &n
}

func (t *table) flag(key string) *bool {
	v, ok := t.take(key)
	if !ok {
		return nil
	}
	b, isBool := v.(bool)
	if !isBool {
		t.fail("%s must be true or false", key)
		return nil
	}
	return &b
}

// texts is a list of texts that is not empty.
func (t *table) texts(key string) []string {
	v, ok := t.take(key)
	if !ok {
		return nil
	}
	values, isList := v.([]any)
	out := make([]string, 0, len(values))
	for _, e := range values {
		s, isText := e.(string)
		if !isText || s == "" {
			isList = false
			break
		}
		out = append(out, s)
	}
	if !isList || len(out) == 0 {
		t.fail("%s must be a list of texts that is not empty", key)
		return nil
	}
	return out
}
