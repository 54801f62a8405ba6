package say

import (
	"fmt"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
)

// Notice is what a notice says, read: one type for each code of the catalogue.
type Notice interface {
	// Code is the code of the catalogue that is read as this type.
	Code() words.NoticeCode
	// Sentence is what a person is told.
	Sentence() string
}

// ReadNotice reads the facts of a notice. ok is false for a code outside the
// catalogue and for facts that are not what their code needs; nothing is made up for
// them. Counts that are no counts read as unknown. The audience is the catalogue's.
func ReadNotice(code words.NoticeCode, facts wire.Facts) (n Notice, audience words.Audience, ok bool) {
	audience = words.AudienceOf(code)
	read, known := readers[code]
	if !known {
		return nil, audience, false
	}
	r := reader{facts: facts, ok: true}
	n = read(&r)
	if !r.ok {
		return nil, audience, false
	}
	return n, audience, true
}

// Told is the sentence of a notice, or its code where there is none to tell.
func Told(code words.NoticeCode, facts wire.Facts) string {
	if n, _, ok := ReadNotice(code, facts); ok {
		return n.Sentence()
	}
	return "the engine told something that this build cannot read: " + quoted(string(code))
}

// reader takes facts by name. What is required and not there makes it not ok.
type reader struct {
	facts wire.Facts
	ok    bool
}

// text is a required, non-empty text.
func (r *reader) text(name string) string {
	s := r.optText(name)
	if s == nil || *s == "" {
		r.ok = false
		return ""
	}
	return *s
}

func (r *reader) optText(name string) *string {
	v, _ := r.facts.Get(name)
	if s, ok := v.Text(); ok {
		return &s
	}
	return nil
}

// count is a number of things; nil when it is not known.
func (r *reader) count(name string) *int64 {
	v, _ := r.facts.Get(name)
	n, ok := v.Int64()
	if !ok || n < 0 {
		return nil
	}
	return &n
}

func (r *reader) need(name string) int64 {
	n := r.count(name)
	if n == nil {
		r.ok = false
		return 0
	}
	return *n
}

// list is a list of non-empty texts; nil when it is none.
func (r *reader) list(name string) []string {
	v, _ := r.facts.Get(name)
	if v.Kind() != jsonv.Array {
		return nil
	}
	var out []string
	for _, x := range v.Elems() {
		s, ok := x.Text()
		if !ok || s == "" {
			return nil
		}
		out = append(out, s)
	}
	return out
}

// amount is a count in a sentence.
func amount(n *int64, one, many string) string {
	switch {
	case n == nil:
		return "an unknown number of " + many
	case *n == 1:
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", *n, many)
}
