package tools

import (
	"path"
	"regexp"
	"strings"
)

// ignoreRule is one line of a .gitignore.
type ignoreRule struct {
	re      *regexp.Regexp // over the path below the folder of the file
	dir     string         // that folder, relative to the workspace
	name    bool           // matched against the name alone
	folders bool           // only for folders
	include bool           // takes back what an earlier rule ignored
}

// parseIgnore reads a .gitignore in dir. Lines that mean nothing are left out,
// as git does.
func parseIgnore(dir, content string) (rules []ignoreRule) {
	for line := range strings.Lines(content) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if rule, ok := parseIgnoreLine(dir, line); ok {
			rules = append(rules, rule)
		}
	}
	return rules
}

func parseIgnoreLine(dir, line string) (ignoreRule, bool) {
	rule := ignoreRule{dir: dir}
	line = trimBlanks(line)
	if line == "" || line[0] == '#' {
		return rule, false
	}
	line, rule.include = strings.CutPrefix(line, "!")
	line, rule.folders = strings.CutSuffix(line, "/")
	rule.name = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return rule, false
	}
	pattern, err := globPattern(line, false)
	if err != nil {
		return rule, false
	}
	rule.re, err = regexp.Compile(`\A(?s:` + pattern + `)\z`)
	return rule, err == nil
}

// trimBlanks removes blanks at the end, unless the last is escaped.
func trimBlanks(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}

// ignored reports whether the last rule that matches rel ignores it.
func ignored(rules []ignoreRule, rel string, folder bool) bool {
	for i := len(rules) - 1; i >= 0; i-- {
		if r := rules[i]; r.matches(rel, folder) {
			return !r.include
		}
	}
	return false
}

func (r ignoreRule) matches(rel string, folder bool) bool {
	if r.folders && !folder {
		return false
	}
	if r.name {
		return r.re.MatchString(path.Base(rel))
	}
	if r.dir != "." {
		rel = strings.TrimPrefix(rel, r.dir+"/")
	}
	return r.re.MatchString(rel)
}
