package tools

import (
	"fmt"
	"regexp"
	"strings"
)

// glob selects files by their names. The zero glob selects all.
type glob struct {
	re      *regexp.Regexp
	path    bool // matched against the path, not the name alone
	exclude bool
}

// parseGlob reads a glob: * and ? match within a name, ** as a whole part any
// folders, [..] a set, {a,b} alternatives, \ takes the next character as it is.
func parseGlob(text string) (glob, error) {
	var g glob
	body, negated := strings.CutPrefix(text, "!")
	g.exclude = negated
	g.path = strings.Contains(body, "/")
	body = strings.TrimPrefix(body, "/")
	if body == "" {
		return glob{}, fmt.Errorf("%q selects nothing", clip(text, 80))
	}
	pattern, err := globPattern(body, true)
	if err != nil {
		return glob{}, err
	}
	g.re, err = regexp.Compile(`\A(?s:` + pattern + `)\z`)
	if err != nil {
		return glob{}, fmt.Errorf("%q is not a glob", clip(text, 80))
	}
	return g, nil
}

// selects judges a slash-separated path below the searched folder.
func (g glob) selects(rel string) bool {
	if g.re == nil {
		return true
	}
	subject := rel
	if !g.path {
		subject = rel[strings.LastIndexByte(rel, '/')+1:]
	}
	return g.re.MatchString(subject) != g.exclude
}

// globPattern translates a glob into a regular expression without anchors.
// Braces are alternatives only where the language has them: .gitignore has not.
func globPattern(text string, braces bool) (string, error) {
	var b strings.Builder
	depth := 0
	for i := 0; i < len(text); {
		rest := text[i:]
		switch c := text[i]; {
		case strings.HasPrefix(rest, "**/") && (i == 0 || text[i-1] == '/'):
			b.WriteString(`(?:[^/]+/)*`)
			i += 3
		case rest == "**" && (i == 0 || text[i-1] == '/'):
			b.WriteString(`.+`)
			i += 2
		case c == '*':
			b.WriteString(`[^/]*`)
			for i < len(text) && text[i] == '*' {
				i++
			}
		case c == '?':
			b.WriteString(`[^/]`)
			i++
		case c == '[':
			set, n, ok := globSet(rest)
			if !ok {
				return "", fmt.Errorf("%q has a [ without its ]", clip(text, 80))
			}
			b.WriteString(set)
			i += n
		case c == '\\' && i+1 < len(text):
			r := firstRune(text[i+1:])
			b.WriteString(regexp.QuoteMeta(r))
			i += 1 + len(r)
		case braces && c == '{':
			depth++
			b.WriteString(`(?:`)
			i++
		case braces && c == '}' && depth > 0:
			depth--
			b.WriteByte(')')
			i++
		case braces && c == ',' && depth > 0:
			b.WriteByte('|')
			i++
		default:
			r := firstRune(rest)
			b.WriteString(regexp.QuoteMeta(r))
			i += len(r)
		}
	}
	if depth > 0 {
		return "", fmt.Errorf("%q has a { without its }", clip(text, 80))
	}
	return b.String(), nil
}

func firstRune(s string) string {
	for i := range s {
		if i > 0 {
			return s[:i]
		}
	}
	return s
}

// globSet translates the set at the start of text and returns its length. A ]
// right after the opening belongs to the set; an excluding set never matches a
// slash.
func globSet(text string) (pattern string, n int, ok bool) {
	var b strings.Builder
	i := 1
	not := i < len(text) && (text[i] == '!' || text[i] == '^')
	if not {
		i++
	}
	for first := true; i < len(text); first = false {
		switch c := text[i]; {
		case c == ']' && !first:
			if not {
				return `[^/` + b.String() + `]`, i + 1, true
			}
			return `[` + b.String() + `]`, i + 1, true
		case namedClass(text[i:]) > 0:
			n := namedClass(text[i:])
			b.WriteString(text[i : i+n])
			i += n
		case c == '\\' && i+1 < len(text):
			r := firstRune(text[i+1:])
			b.WriteString(quoteInSet(r))
			i += 1 + len(r)
		case c == '-' && !first && i+1 < len(text) && text[i+1] != ']':
			b.WriteByte('-')
			i++
		default:
			r := firstRune(text[i:])
			b.WriteString(quoteInSet(r))
			i += len(r)
		}
	}
	return "", 0, false
}

// namedClass returns the length of a class like [:alpha:] at the start of text.
func namedClass(text string) int {
	if !strings.HasPrefix(text, "[:") {
		return 0
	}
	name, _, ok := strings.Cut(text[2:], ":]")
	if !ok || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") != "" {
		return 0
	}
	return len(name) + 4
}

func quoteInSet(r string) string {
	if strings.Contains(`\]^-[&~`, r) {
		return `\` + r
	}
	return r
}
