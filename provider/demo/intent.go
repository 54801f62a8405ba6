package demo

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// maxPrompt is how much of a prompt is read for its intent, in bytes: a prompt may carry a whole file behind its question.
const maxPrompt = 4096

// intent is what a prompt asks for: an [overview], a [reading], a [search], a [command] or a [writing].
type intent interface{ intent() }

type (
	overview struct{}
	reading  struct {
		path  string
		guess bool // the prompt names what looks like a file, and does not ask to read it
	}
	search  struct{ pattern string }
	command struct{ line string }
	writing struct{ path, text string }
)

func (overview) intent() {}
func (reading) intent()  {}
func (search) intent()   {}
func (command) intent()  {}
func (writing) intent()  {}

// pattern is a regular expression that is compiled at its first use: every start of
// the program would pay for all of them, and few need one.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

var (
	runForm   = pattern(`(?i)^\s*run:\s*(.+)`)
	writeForm = pattern(`(?i)^\s*write\s+(\S+):[ \t]*\n?`)
	findForm  = pattern(`(?i)\b(?:find|search|grep|locate|where(?:'s| is| are)?|who (?:uses|calls)|which files?)\b(.*)`)
	readForm  = pattern(`(?i)\b(?:read|open|cat)\s+(?:the\s+)?(?:file\s+)?("[^"\n]+"|'[^'\n]+'|\S+)`)
	quotedOne = pattern("`([^`\n]+)`|\"([^\"\n]+)\"|'([^'\n]+)'")
	fileName  = pattern(`^(?:[\w@.-]+/)*(?:[\w@-][\w@.-]*\.[A-Za-z]\w{0,9}|(?i:readme|makefile|license|dockerfile|changelog))$`)
)

// understand reads the intent of a prompt. Only the two plain forms lead to a command or a written file.
func understand(prompt string) intent {
	whole := prompt
	prompt = prompt[:min(len(prompt), maxPrompt)]
	if m := writeForm().FindStringSubmatchIndex(prompt); m != nil {
		return writing{path: unquote(prompt[m[2]:m[3]]), text: whole[m[1]:]}
	}
	// A command that does not end within what is read is not run at all, rather than cut.
	if m := runForm().FindStringSubmatch(prompt); m != nil && len(m[0]) < maxPrompt {
		return command{line: unquote(strings.TrimSpace(m[1]))}
	}
	if m := findForm().FindStringSubmatch(prompt); m != nil {
		if what := subject(m[1]); what != "" {
			return search{pattern: what}
		}
	}
	if m := readForm().FindStringSubmatch(prompt); m != nil {
		if name := bare(m[1]); fileName().MatchString(name) || isQuoted(m[1]) {
			return reading{path: name}
		}
	}
	for word := range strings.FieldsSeq(prompt) {
		if name := bare(word); fileName().MatchString(name) && !abbreviation[strings.ToLower(name)] {
			return reading{path: name, guess: true}
		}
	}
	return overview{}
}

// bare is a word without the quotes and the punctuation around it.
func bare(word string) string {
	return strings.TrimRight(strings.Trim(word, "`\"'(),;:!?"), ".")
}

func isQuoted(word string) bool { return strings.ContainsAny(word[:1], "`\"'") }

func unquote(s string) string {
	if m := quotedOne().FindStringSubmatch(s); m != nil && m[0] == s {
		return m[1] + m[2] + m[3]
	}
	return s
}

// abbreviation is what looks like a file name and is none.
var abbreviation = map[string]bool{"e.g": true, "i.e": true, "a.k.a": true, "u.s": true, "p.s": true, "node.js": true, "next.js": true, "vue.js": true}

// plain are words that name nothing to search for.
var plain = map[string]bool{
	"the": true, "this": true, "that": true, "these": true, "those": true, "and": true, "for": true, "with": true, "from": true, "into": true,
	"all": true, "any": true, "are": true, "was": true, "does": true, "did": true, "has": true, "have": true, "our": true, "your": true, "its": true,
	"here": true, "there": true, "where": true, "what": true, "which": true, "how": true, "who": true, "out": true, "about": true, "please": true, "me": true,
	"file": true, "files": true, "directory": true, "folder": true, "project": true, "repository": true, "repo": true, "code": true, "function": true,
	"defined": true, "used": true, "called": true, "contain": true, "contains": true, "mention": true, "mentions": true, "use": true, "uses": true,
}

// subject is what a question after "find" or "where is" looks for: what is quoted, else the word that looks most like a name.
func subject(rest string) string {
	if m := quotedOne().FindStringSubmatch(rest); m != nil {
		return m[1] + m[2] + m[3]
	}
	best, bestRank := "", 0
	for word := range strings.FieldsSeq(rest) {
		word = strings.TrimSuffix(bare(word), "()")
		if plain[strings.ToLower(word)] || len(word) < 2 {
			continue
		}
		if rank := nameRank(word); rank > bestRank {
			best, bestRank = word, rank
		}
	}
	return best
}

// nameRank is higher the more a word looks like a name in code; among equals the longer word counts.
func nameRank(word string) int {
	rank := len(word)
	if strings.ContainsAny(word, "_./:") || strings.ContainsFunc(word, unicode.IsDigit) {
		rank += 1000
	}
	if strings.ContainsFunc(word[1:], unicode.IsUpper) {
		rank += 1000
	}
	return rank
}
