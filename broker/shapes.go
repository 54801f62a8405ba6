package broker

import (
	"bytes"
	"slices"
	"strings"
)

// shape is the form of a kind of secret that its issuer made to be recognised: a
// prefix that stands for nothing else, and then so many characters of a set.
//
// There are no shapes without such a prefix. Digests, ids, and the test data of most
// projects look like any long random text.
type shape struct {
	name   string
	prefix string
	least  int    // characters behind the prefix
	more   string // characters beside letters and digits
}

var shapes = []shape{
	{"anthropic key", "sk-ant-", 32, "-_"},
	{"openai key", "sk-proj-", 32, "-_"},
	{"openai key", "sk-svcacct-", 32, "-_"},
	{"openrouter key", "sk-or-v1-", 32, ""},
	{"github token", "ghp_", 36, ""},
	{"github token", "gho_", 36, ""},
	{"github token", "ghu_", 36, ""},
	{"github token", "ghs_", 36, ""},
	{"github token", "ghr_", 36, ""},
	{"github token", "github_pat_", 60, "_"},
	{"gitlab token", "glpat-", 20, "-_"},
	{"slack token", "xoxb-", 24, "-"},
	{"slack token", "xoxp-", 24, "-"},
	{"google key", "AIza", 35, "-_"},
	{"aws key id", "AKIA", 16, ""},
	{"aws key id", "ASIA", 16, ""},
	{"stripe key", "sk_live_", 24, ""},
	{"stripe key", "rk_live_", 24, ""},
	{"npm token", "npm_", 36, ""},
	{"pypi token", "pypi-AgEIcHlwaS5vcmc", 50, "-_"},
	{"hugging face token", "hf_", 34, ""},
	{"age key", "AGE-SECRET-KEY-1", 58, ""},
}

// leastVariety is how many different characters a secret has: an example in a
// document, such as one of x alone, has fewer.
const leastVariety = 8

// The frame of a private key in text.
var (
	keyBegin = []byte("-----BEGIN ")
	keyKind  = []byte("PRIVATE KEY-----")
	keyEnd   = []byte("-----END ")
)

// Bounds of a private key in text, in bytes.
const (
	longestKind = 32 // what stands before PRIVATE KEY
	longestKey  = 32 << 10
)

// span is a found secret.
type span struct {
	from, to int
	name     string
}

// replaceShapes replaces what has one of the shapes. Where p was cut at its end, what
// is left of one counts from minPart characters on.
func replaceShapes(p []byte, cutEnd bool) (clean []byte, found int) {
	spans := tokens(p, cutEnd)
	if spans = privateKeys(p, spans); len(spans) == 0 {
		return p, 0
	}
	slices.SortStableFunc(spans, func(a, b span) int { return a.from - b.from })
	from := 0
	for _, s := range spans {
		if s.from < from {
			continue // inside another
		}
		clean = append(append(clean, p[from:s.from]...), "[redacted "+s.name+"]"...)
		from = s.to
		found++
	}
	return append(clean, p[from:]...), found
}

// tokens finds what has a shape, in one pass.
func tokens(p []byte, cutEnd bool) (spans []span) {
	for at := 0; at+1 < len(p); at++ {
		if !pairs[p[at]][p[at+1]] {
			continue
		}
		for _, s := range byFirst[p[at]] {
			if to, ok := s.end(p, at, cutEnd); ok {
				spans = append(spans, span{at, to, s.name})
				at = to - 1
				break
			}
		}
	}
	return spans
}

// byFirst are the shapes by the first byte of their prefix.
var byFirst = func() (table [256][]shape) {
	for _, s := range shapes {
		table[s.prefix[0]] = append(table[s.prefix[0]], s)
	}
	return table
}()

// pairs are the two bytes that a prefix begins with.
var pairs = func() (table [256][256]bool) {
	for _, s := range shapes {
		table[s.prefix[0]][s.prefix[1]] = true
	}
	return table
}()

// end is where the one ends that begins at a place, if one does.
func (s shape) end(p []byte, from int, cutEnd bool) (to int, ok bool) {
	if !bytes.HasPrefix(p[from:], []byte(s.prefix)) || inWord(p[:from]) {
		return 0, false
	}
	body := from + len(s.prefix)
	for to = body; to < len(p) && s.has(p[to]); {
		to++
	}
	if cutEnd && to == len(p) {
		return to, to-body >= minPart
	}
	return to, to-body >= s.least && varied(p[body:to])
}

// inWord reports whether a word that goes on stands before. The letter of an escape,
// as in \n, is none.
func inWord(before []byte) bool {
	n := len(before)
	return n > 0 && (before[n-1] == '_' || (shape{}).has(before[n-1])) && (n == 1 || before[n-2] != '\\')
}

func (s shape) has(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(s.more, c) >= 0
}

func varied(p []byte) bool {
	var seen [256]bool
	n := 0
	for _, c := range p {
		if !seen[c] {
			seen[c] = true
			n++
		}
	}
	return n >= leastVariety
}

// privateKeys finds private keys in PEM, whole or cut off; also where line ends are
// escaped, as in JSON.
func privateKeys(p []byte, spans []span) []span {
	for at := 0; ; {
		i := bytes.Index(p[at:], keyBegin)
		if i < 0 {
			return spans
		}
		from := at + i
		at = from + len(keyBegin)
		kind := bytes.Index(p[at:min(len(p), at+longestKind+len(keyKind))], keyKind)
		if kind < 0 {
			continue
		}
		body := at + kind + len(keyKind)
		to := body
		for to < min(len(p), body+longestKey) && (bytes.IndexByte([]byte("+/=\\ \r\n:,-"), p[to]) >= 0 && !bytes.HasPrefix(p[to:], keyEnd) || (shape{}).has(p[to])) {
			to++
		}
		if bytes.HasPrefix(p[to:], keyEnd) {
			if end := bytes.Index(p[to:min(len(p), to+len(keyEnd)+longestKind+len(keyKind))], keyKind); end >= 0 {
				to += end + len(keyKind)
			}
		}
		if to-body >= 2*minPart {
			spans = append(spans, span{from, to, "private key"})
		}
		at = to
	}
}
