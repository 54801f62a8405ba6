package broker

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/core/jsonv"
)

// Bounds of what is redacted, in bytes.
const (
	// MinSecret is the shortest value that counts as a secret: a shorter one would
	// blot out words that only happen to be equal.
	MinSecret = 8
	// minPart is the shortest part of a secret that is redacted where output was
	// cut and the rest is not there.
	minPart = 4
)

// Secrets are values that must not leave a tool. Each occurrence of one is
// replaced by a marker that names it, `[redacted NAME]`. Only the value as it is
// gets found, not an encoding of it. The zero Secrets redact nothing. See also
// [Secrets.Shaped].
//
// It holds its values behind a closure, as fmt prints fields without asking.
type Secrets struct {
	list   func() []secret
	shaped bool
}

// Shaped redacts beside the values what has the form of a known kind of secret: keys
// and tokens with a prefix of their issuer, and private keys. The marker names the
// kind.
func (s Secrets) Shaped() Secrets {
	s.shaped = true
	return s
}

func (s Secrets) values() []secret {
	if s.list == nil {
		return nil
	}
	return s.list()
}

type secret struct{ value, marker []byte }

// SecretsOf takes the values of the named variables from an environment of
// name=value. Space around a value is not part of it. Values shorter than
// [MinSecret] are left out.
func SecretsOf(environ []string, names ...string) Secrets {
	list := listed(slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !slices.Contains(names, name)
	}))
	if list == nil {
		return Secrets{}
	}
	return Secrets{list: func() []secret { return list }}
}

// SecretsFrom takes the values of name=value that known returns whenever something
// is redacted: some are got only when they are first needed.
func SecretsFrom(known func() []string) Secrets {
	return Secrets{list: func() []secret { return listed(known()) }}
}

func listed(entries []string) (list []secret) {
	for _, entry := range entries {
		name, value, _ := strings.Cut(entry, "=")
		if value = strings.TrimSpace(value); len(value) >= MinSecret {
			list = append(list, secret{[]byte(value), []byte("[redacted " + name + "]")})
		}
	}
	// The longest first: one value may be part of another.
	slices.SortStableFunc(list, func(a, b secret) int { return cmp.Compare(len(b.value), len(a.value)) })
	return list
}

// None reports whether there is nothing to redact.
func (s Secrets) None() bool { return !s.shaped && len(s.values()) == 0 }

// Format prints no value, whatever the verb.
func (s Secrets) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[redacted]")) }

// Bytes replaces the secrets in p and returns how many it found. p is not
// changed; without a find it is what is returned.
func (s Secrets) Bytes(p []byte) (clean []byte, found int) {
	if s.None() {
		return p, 0
	}
	return s.within(p, false, false)
}

// Text is [Secrets.Bytes] for a text.
func (s Secrets) Text(text string) (clean string, found int) {
	if s.None() || !s.in(text) {
		return text, 0
	}
	p, found := s.within([]byte(text), false, false)
	if found == 0 {
		return text, 0
	}
	return string(p), found
}

// in reports whether there may be a secret in a text.
func (s Secrets) in(text string) bool {
	return s.shaped || slices.ContainsFunc(s.values(), func(one secret) bool { return strings.Contains(text, string(one.value)) })
}

// within replaces the secrets in p, and where p was cut at its start or its end
// also the part of one that is left there.
func (s Secrets) within(p []byte, cutStart, cutEnd bool) (clean []byte, found int) {
	list := s.values()
	clean, found = replaceAll(list, p) // whole ones first: a value may begin as it ends
	if s.shaped {
		n := 0
		clean, n = replaceShapes(clean, cutEnd)
		found += n
	}
	if cutStart {
		if n, marker := longest(list, func(v []byte) int { return overlap(v, clean) }); n > 0 {
			clean, found = slices.Concat(marker, clean[n:]), found+1
		}
	}
	if cutEnd {
		if n, marker := longest(list, func(v []byte) int { return overlap(clean, v) }); n > 0 {
			clean, found = slices.Concat(clean[:len(clean)-n], marker), found+1
		}
	}
	return clean, found
}

// longest finds the secret of which the most is left, in bytes, and its marker.
func longest(list []secret, left func(value []byte) int) (n int, marker []byte) {
	for _, one := range list {
		if m := left(one.value); m > n {
			n, marker = m, one.marker
		}
	}
	return n, marker
}

// overlap returns the length of the longest end of a with which b begins, 0 for
// one shorter than minPart.
func overlap(a, b []byte) int {
	for n := min(len(a), len(b)); n >= minPart; n-- {
		if bytes.HasPrefix(b, a[len(a)-n:]) {
			return n
		}
	}
	return 0
}

// replaceAll replaces in one pass, so that no marker is searched. At the same
// place the longest wins.
func replaceAll(list []secret, p []byte) (clean []byte, found int) {
	if len(list) == 0 {
		return p, 0
	}
	next := make([]int, len(list)) // where each occurs from here on; len(p) for nowhere
	for i := range list {
		next[i] = indexFrom(p, list[i].value, 0)
	}
	from := 0
	for {
		first := 0
		for i := range next {
			if next[i] < from {
				next[i] = indexFrom(p, list[i].value, from)
			}
			if next[i] < next[first] {
				first = i
			}
		}
		at := next[first]
		if at == len(p) {
			break
		}
		clean = append(append(clean, p[from:at]...), list[first].marker...)
		from = at + len(list[first].value)
		found++
	}
	if found == 0 {
		return p, 0
	}
	return append(clean, p[from:]...), found
}

func indexFrom(p, value []byte, from int) int {
	if i := bytes.Index(p[from:], value); i >= 0 {
		return from + i
	}
	return len(p)
}

// Capture replaces the secrets in what was kept of a stream: also one that lies
// across head and tail, and what is left of one beside bytes that were not kept.
func (s Secrets) Capture(c jail.Capture) (clean jail.Capture, found int) {
	if s.None() {
		return c, 0
	}
	head, tail := c.Head(), c.Tail()
	if c.Omitted() == 0 {
		if len(tail) > 0 {
			head = slices.Concat(head, tail)
		}
		if head, found = s.within(head, false, false); found == 0 {
			return c, 0
		}
		return c.Shown(head, nil), found
	}
	head, inHead := s.within(head, false, true)
	tail, inTail := s.within(tail, true, false)
	if inHead+inTail == 0 {
		return c, 0
	}
	return c.Shown(head, tail), inHead + inTail
}

// Window replaces the secrets in the live end of a stream, which is cut on both
// sides: the beginning of one whose rest may still come, and the end of one whose
// beginning is not shown any more.
func (s Secrets) Window(w jail.Window) jail.Window {
	if s.None() {
		return w
	}
	p, found := s.within([]byte(w.Text), true, true)
	if found > 0 {
		w.Text = jail.LiveText(p)
	}
	return w
}

// Value replaces the secrets in the texts and names of a JSON value.
func (s Secrets) Value(v jsonv.Value) (clean jsonv.Value, found int) {
	if s.None() {
		return v, 0
	}
	switch v.Kind() {
	case jsonv.String:
		text, _ := v.Text()
		if text, found = s.Text(text); found > 0 {
			return jsonv.Str(text), found
		}
	case jsonv.Array:
		var elems []jsonv.Value
		for _, e := range v.Elems() {
			e, n := s.Value(e)
			elems, found = append(elems, e), found+n
		}
		if found > 0 {
			return jsonv.Arr(elems...), found
		}
	case jsonv.Object:
		var fields []jsonv.Member
		for name, field := range v.Fields() {
			name, n := s.Text(name)
			field, m := s.Value(field)
			fields, found = append(fields, jsonv.F(name, field)), found+n+m
		}
		if found > 0 {
			return jsonv.Obj(fields...), found
		}
	case jsonv.Null, jsonv.Bool, jsonv.Int, jsonv.Float:
	}
	return v, 0
}
