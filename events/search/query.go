package search

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/words"
)

// Bounds of a query.
const (
	MaxQuery = 4096 // bytes
	maxTerms = 32
)

// Query is what is looked for. Its filters are all optional, and all must hold.
type Query struct {
	// Text is words, all of which must be in an entry, in any order. "Several words" in
	// quotes are a phrase, word* is a beginning, and -word must not be there. Everything
	// else is text: no character of it is an operator. Without a text the newest entries of
	// Session are found, which must be given then.
	Text string

	Session   id.SessionID     // zero: all
	Role      words.SearchRole // empty: all
	Kind      entry.Kind       // empty: all; message, compaction or branch_summary
	Tool      string           // results of this tool
	Workspace string           // sessions of this directory
	Strand    string           // rows of this strand
	Since     int64            // Unix ms, inclusive; 0: from the beginning
	Until     int64            // Unix ms, exclusive; 0: to the end

	// Newest orders by time, the newest first. Without it the newest [Ranked] matches are
	// ordered by how well they match and how old they are.
	Newest bool
	Limit  int    // hits, at least 1
	Before string // where an earlier page of Newest ended
}

// QueryError says why a query cannot be looked for.
type QueryError struct{ Why string }

func (e *QueryError) Error() string { return e.Why + "; nothing was searched" }

// recent reports whether a query is for the newest entries of a session.
func (q Query) recent() bool { return strings.TrimSpace(q.Text) == "" && !q.Session.IsZero() }

// term is one condition on the text.
type term struct {
	phrase []string // tokens that follow each other
	prefix bool     // the last is a beginning
	not    bool
}

// parse reads the text of a query.
func parse(text string) ([]term, error) {
	if len(text) > MaxQuery {
		return nil, &QueryError{fmt.Sprintf("the query has %d bytes and may have %d", len(text), MaxQuery)}
	}
	var terms []term
	wanted := false
	for _, p := range pieces(canonical(text)) {
		t := term{not: p.not}
		tokens(p.text, func(tok token) bool {
			t.phrase = append(t.phrase, tok.text)
			return len(t.phrase) < MaxQuery
		})
		if len(t.phrase) == 0 {
			continue
		}
		last, _ := utf8.DecodeLastRuneInString(p.text)
		t.prefix = p.star && !alone(last)
		terms = append(terms, t)
		wanted = wanted || !t.not
	}
	switch {
	case len(terms) > maxTerms:
		return nil, &QueryError{fmt.Sprintf("the query has %d words and may have %d", len(terms), maxTerms)}
	case len(terms) == 0:
		return nil, &QueryError{"there is no word, number or sign in the query that could be looked for"}
	case !wanted:
		return nil, &QueryError{"the query only says what must not be there"}
	}
	return terms, nil
}

type piece struct {
	text      string
	not, star bool
}

// pieces splits a query at spaces outside of quotes. A quote that is not closed ends with
// the query.
func pieces(text string) (out []piece) {
	for {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		if text == "" {
			return out
		}
		var p piece
		if rest, ok := strings.CutPrefix(text, "-"); ok && rest != "" && !unicode.IsSpace(rune(rest[0])) && rest[0] != '-' {
			p.not, text = true, rest
		}
		if rest, ok := strings.CutPrefix(text, `"`); ok {
			p.text, text, _ = strings.Cut(rest, `"`)
		} else {
			end := strings.IndexFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == '"' })
			if end < 0 {
				end = len(text)
			}
			p.text, text = text[:end], text[end:]
			p.text, p.star = strings.CutSuffix(p.text, "*")
		}
		out = append(out, p)
	}
}

// match is the query as the full-text table takes it. Tokens hold no quote, so that quoting
// them is enough.
func (q Query) match(terms []term) string {
	var must, not []string
	for _, t := range terms {
		expr := `{body names} : "` + strings.Join(t.phrase, " ") + `"`
		if t.prefix {
			expr += " *"
		}
		if t.not {
			not = append(not, expr)
		} else {
			must = append(must, expr)
		}
	}
	for _, f := range q.facets() {
		must = append(must, `facets : "`+f+`"`)
	}
	expr := "(" + strings.Join(must, " AND ") + ")"
	for _, n := range not {
		expr += " NOT (" + n + ")"
	}
	return expr
}

// facets are tokens of what an entry is, in a column of their own: so a filter costs what
// a word costs.
func (q Query) facets() (out []string) {
	for _, f := range []struct{ kind, value string }{
		{"s", q.Session.String()}, {"r", string(q.Role)}, {"k", string(q.Kind)}, {"t", q.Tool}, {"w", q.Workspace}, {"n", q.Strand},
	} {
		if f.value != "" {
			out = append(out, facet(f.kind, f.value))
		}
	}
	return out
}

func facet(kind, value string) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(value)) // never fails
	return kind + strconv.FormatUint(sum.Sum64(), 16)
}
