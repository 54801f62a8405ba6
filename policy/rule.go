package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/loom-run/loom/core/words"
	"mvdan.cc/sh/v3/syntax"
)

// Subject is what the pattern of a rule about a tool speaks of. The zero Subject is
// nothing: a rule names the tool alone.
type Subject uint8

// The subjects.
const (
	NoSubject Subject = iota
	Commands          // the commands of its command line
	Paths             // the path that it works on
)

// Base is where the paths of patterns start. Both are absolute and clean; an empty
// Home is none.
type Base struct{ Workspace, Home string }

// Rule is a rule that can be applied. It is made by [Compile] alone.
type Rule struct {
	text     string
	tool     string
	behavior words.RuleBehavior
	place    words.RuleDestination
	subject  Subject // NoSubject: every call of the tool
	steps    []step
}

// Text is the rule as it was written.
func (r Rule) Text() string { return r.text }

// Behavior is what it does with a call that it matches.
func (r Rule) Behavior() words.RuleBehavior { return r.behavior }

// Place is where it is kept.
func (r Rule) Place() words.RuleDestination { return r.place }

// Tool is the tool that it speaks of.
func (r Rule) Tool() string { return r.tool }

// Issue is why a rule was not taken.
type Issue struct {
	Code     words.RuleIssue
	Rule     string // as it was written, cut
	Sentence string // what is wrong and what would be right
}

func (e *Issue) Error() string { return e.Sentence }

// Bounds of a rule.
const (
	maxRule  = 4096 // bytes
	maxSteps = 64   // words or components of a pattern
)

// Compile reads a rule: TOOL, or TOOL(PATTERN). subject says what the patterns of a
// tool speak of; ok is false for a tool that does not exist.
//
// A pattern of commands is the words of one command. A star that stands alone is any
// number of words, one inside a word any text: `git log *`, `npm run test:*`. A
// pattern of paths is relative to the workspace, absolute, or begins with ~/; a star
// stands for a part of a name, two for any number of folders: `src/**`, `/etc/**`.
func Compile(text string, b words.RuleBehavior, place words.RuleDestination, at Base, subject func(tool string) (s Subject, ok bool)) (Rule, *Issue) {
	text = strings.TrimSpace(text)
	issue := func(code words.RuleIssue, sentence string) (Rule, *Issue) {
		shown := strings.ToValidUTF8(text, "\uFFFD")
		if len(shown) > maxReason {
			shown = strings.ToValidUTF8(shown[:maxReason], "") + "..."
		}
		return Rule{}, &Issue{Code: code, Rule: shown, Sentence: sentence}
	}
	if _, ok := words.RuleBehaviors.Parse(string(b)); !ok {
		return issue(words.RuleUnknownBehavior, "A rule allows, denies or asks; this one does something else.")
	}
	if _, ok := words.RuleDestinations.Parse(string(place)); !ok {
		return issue(words.RuleUnknownPlace, "There is no such place for rules.")
	}
	if text == "" {
		return issue(words.RuleEmpty, "The rule is empty; write TOOL or TOOL(PATTERN).")
	}
	tool, pattern, has := strings.Cut(text, "(")
	tool = strings.TrimSpace(tool)
	switch {
	case has && !strings.HasSuffix(pattern, ")"):
		return issue(words.RuleUnbalanced, "The pattern must end with a parenthesis, and nothing may follow it.")
	case !has && strings.Contains(tool, ")"):
		return issue(words.RuleUnbalanced, "A parenthesis closes that was not opened; write TOOL or TOOL(PATTERN).")
	}
	s, known := subject(tool)
	if !known {
		return issue(words.RuleUnknownTool, "There is no tool of that name.")
	}
	r := Rule{text: text, tool: tool, behavior: b, place: place}
	if !has {
		return r, nil
	}
	if pattern = strings.TrimSpace(strings.TrimSuffix(pattern, ")")); pattern == "" {
		return issue(words.RuleEmptyPattern, "The pattern is empty; leave the parentheses out to speak of every call of the tool.")
	}
	if len(text) > maxRule || strings.ContainsFunc(pattern, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' }) {
		return issue(words.RuleBadPattern, "The pattern is too long or holds characters that are no text.")
	}
	r.subject = s
	switch s {
	case Commands:
		steps, ok := commandSteps(pattern)
		if !ok {
			return issue(words.RuleBadCommand, "The pattern is no single plain command; write its words, with a star for what may stand there.")
		}
		r.steps = steps
	case Paths:
		var code words.RuleIssue
		if r.steps, code = pathSteps(pattern, at); code == words.RuleBadBase {
			return issue(code, "The pattern starts at a folder that is not known here; write an absolute path.")
		} else if code != "" {
			return issue(code, "Two stars must be a whole part of the path, and `..` leads out of it.")
		}
	case NoSubject:
		return issue(words.RuleNoPattern, "Rules about this tool take no pattern; leave the parentheses out.")
	}
	if len(r.steps) > maxSteps {
		return issue(words.RuleBadPattern, "The pattern has too many parts.")
	}
	return r, nil
}

// commandSteps reads the words of a pattern as a shell does, but for the star.
func commandSteps(pattern string) ([]step, bool) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(pattern), "")
	if err != nil || len(file.Stmts) != 1 {
		return nil, false
	}
	s := file.Stmts[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Assigns) > 0 || len(s.Redirs) > 0 || s.Negated || s.Background || s.Coprocess || s.Disown || len(file.Last) > 0 || len(s.Comments) > 0 {
		return nil, false
	}
	var steps []step
	for _, w := range call.Args {
		if w.Lit() == "*" {
			steps = append(steps, step{many: true})
			continue
		}
		var parts []string
		text := ""
		for i, p := range w.Parts {
			lit, bare := p.(*syntax.Lit)
			if !bare {
				inner := partOf(&syntax.Word{Parts: []syntax.WordPart{p}})
				if !inner.known {
					return nil, false
				}
				text += inner.text
				continue
			}
			for n, piece := range strings.Split(lit.Value, "*") {
				if n > 0 {
					parts, text = append(parts, text), ""
				}
				clean, ok := unquoted(piece, i == 0 && n == 0)
				if !ok {
					return nil, false
				}
				text += clean
			}
		}
		steps = append(steps, step{one: glob{append(parts, text)}})
	}
	return steps, true
}

func pathSteps(pattern string, at Base) ([]step, words.RuleIssue) {
	from := at.Workspace
	if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
		from, pattern = at.Home, rest
	} else if strings.HasPrefix(pattern, "/") {
		from = "/"
	}
	if !path.IsAbs(from) {
		return nil, words.RuleBadBase
	}
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	var steps []step
	for _, p := range componentsOf(from) {
		steps = append(steps, step{one: glob{[]string{p.text}}})
	}
	for name := range strings.SplitSeq(pattern, "/") {
		switch {
		case name == "" || name == ".":
		case name == "**":
			steps = append(steps, step{many: true})
		case name == ".." || strings.Contains(name, "**"):
			return nil, words.RuleBadPattern
		default:
			steps = append(steps, step{one: globOf(name)})
		}
	}
	return steps, ""
}

// componentsOf splits an absolute clean path.
func componentsOf(p string) []part {
	var parts []part
	for name := range strings.SplitSeq(p, "/") {
		if name != "" {
			parts = append(parts, part{name, true})
		}
	}
	return parts
}

// ExactRule writes the rule that matches a call as this one and no other: the one
// that a person is offered. ok is false when there is none.
func ExactRule(a Action) (text string, ok bool) {
	switch a.Subject {
	case Commands:
		s, readable := readScript(a.Command)
		if !readable || s.beyond != "" || len(s.commands) != 1 {
			return "", false
		}
		var quotedWords []string
		for _, w := range s.commands[0].words {
			q, err := syntax.Quote(w.text, syntax.LangBash)
			if !w.known || err != nil {
				return "", false
			}
			quotedWords = append(quotedWords, q)
		}
		return a.Tool + "(" + strings.Join(quotedWords, " ") + ")", true
	case Paths:
		if len(a.Paths) != 1 || strings.Contains(a.Paths[0], "*") {
			return "", false
		}
		return a.Tool + "(" + a.Paths[0] + ")", true
	case NoSubject:
	}
	return a.Tool, true
}

// Rules are the rules of a session. Their order says nothing: see [Judge]. The zero
// Rules are none.
type Rules struct{ list []Rule }

// RulesOf makes a set of rules.
func RulesOf(list ...Rule) Rules { return Rules{slices.Clone(list)} }

// All returns them in the order of their strength: deny, ask, allow.
func (s Rules) All() []Rule {
	var all []Rule
	for _, b := range []words.RuleBehavior{words.RuleDeny, words.RuleAsk, words.RuleAllow} {
		for _, r := range s.list {
			if r.behavior == b {
				all = append(all, r)
			}
		}
	}
	return all
}

// With returns the rules and one more; one that is there already is not doubled.
func (s Rules) With(r Rule) Rules {
	return Rules{append(slices.Clone(s.Without(r).list), r)}
}

// Without returns the rules without those of this text, behavior and place.
func (s Rules) Without(r Rule) Rules {
	return Rules{slices.DeleteFunc(slices.Clone(s.list), r.same)}
}

// Holds reports whether the rule is one of them.
func (s Rules) Holds(r Rule) bool { return slices.ContainsFunc(s.list, r.same) }

func (r Rule) same(o Rule) bool {
	return r.text == o.text && r.behavior == o.behavior && r.place == o.place
}
