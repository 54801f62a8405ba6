package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of what is read of a command. What is beyond them is not read, and rules
// fail closed on it.
const (
	maxCommand  = 64 << 10 // bytes of a command line
	maxOpen     = 256      // brackets that are open at once, quoted ones included
	maxNested   = 8        // command lines inside command lines
	maxCommands = 4096     // commands of one call
)

// command is one simple command: its name and what follows.
type command struct {
	words []part
	sure  bool // false: it may be what runs, or may be an argument
}

// script is what is known of a command line before it runs.
type script struct {
	commands []command // those that stand in it, wherever
	started  []command // those that these would start: sudo, xargs, sh -c
	opaque   bool      // more may run, and what cannot be known
	beyond   string    // what it does beside running commands, for a sentence; empty: nothing
}

// readScript reads a command line. ok is false when it is none that can be read.
func readScript(text string) (s script, ok bool) {
	r := reader{into: &s}
	return s, r.read(text)
}

type reader struct {
	into  *script
	depth int
}

func (r *reader) read(text string) bool {
	if len(text) > maxCommand || strings.ContainsRune(text, 0) || opens(text) > maxOpen {
		return false
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return false
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			r.statement(n)
		case *syntax.FuncDecl:
			r.beside("defines a function")
		case *syntax.CoprocClause:
			r.into.opaque = true // whether its first word is a name or a command depends on what follows
			r.beside("uses more of the shell than commands")
		case *syntax.DeclClause, *syntax.LetClause, *syntax.ArithmCmd, *syntax.TestClause:
			r.beside("uses more of the shell than commands")
		}
		return true
	})
	return true
}

// opens is how many brackets are open at most: the parser descends for each, and some
// hosts have small stacks.
func opens(text string) (most int) {
	open := 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{', '[':
			open++
			most = max(most, open)
		case ')', '}', ']':
			open = max(0, open-1)
		}
	}
	return most
}

// beside notes the first thing that no rule about commands covers.
func (r *reader) beside(what string) {
	if r.into.beyond == "" {
		r.into.beyond = what
	}
}

func (r *reader) statement(s *syntax.Stmt) {
	var typed *syntax.Word // what a command reads that is written out here
	for _, redir := range s.Redirs {
		switch {
		case redir.Hdoc != nil:
			typed = redir.Hdoc
		case redir.Op == syntax.WordHdoc:
			typed = redir.Word
		case writes(redir):
			r.beside("redirects into a file")
		}
	}
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok {
		return
	}
	if len(call.Assigns) > 0 {
		r.beside("sets a variable")
	}
	if len(call.Args) == 0 {
		return
	}
	c := command{sure: true}
	for _, w := range call.Args {
		c.words = append(c.words, partOf(w))
	}
	r.add(&r.into.commands, c)
	r.follow(c, typed)
}

func (r *reader) add(list *[]command, c command) {
	if len(r.into.commands)+len(r.into.started) >= maxCommands {
		r.into.opaque = true
		r.beside("has too many commands")
		return
	}
	*list = append(*list, c)
}

// writes reports whether a redirection may change a file.
func writes(redir *syntax.Redirect) bool {
	target := partOf(redir.Word)
	switch redir.Op {
	case syntax.RdrOut, syntax.AppOut, syntax.RdrInOut, syntax.RdrClob, syntax.AppClob, syntax.RdrAll, syntax.AppAll,
		syntax.RdrAllClob, syntax.AppAllClob:
		return !target.known || target.text != "/dev/null"
	case syntax.DplOut:
		return !target.known || target.text != "-" && strings.Trim(target.text, "0123456789") != ""
	case syntax.RdrIn, syntax.DplIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return false
	}
	return true
}

// starters run what their arguments name.
var starters = map[string]bool{
	"env": true, "command": true, "builtin": true, "exec": true, "nohup": true, "nice": true, "ionice": true, "sudo": true, "doas": true,
	"timeout": true, "xargs": true, "setsid": true, "stdbuf": true, "busybox": true, "time": true, "chroot": true, "unshare": true,
	"watch": true, "parallel": true, "find": true, "strace": true, "su": true, "flock": true, "script": true,
}

var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "ash": true}

// maxSuffixes bounds how far the arguments of a starter are tried as a command.
const maxSuffixes = 64

// follow finds what a command would start.
func (r *reader) follow(c command, typed *syntax.Word) {
	if !c.words[0].known {
		r.into.opaque = true
		return
	}
	args := c.words[1:]
	switch name := base(c.words[0].text); {
	case name == "eval" || name == "trap":
		if name == "trap" && len(args) > 1 {
			args = args[:1]
		}
		text, ok := joined(args)
		r.nested(text, ok)
	case shells[name]:
		r.shell(args, typed)
	case starters[name]:
		first := true
		for i, w := range args {
			if i == maxSuffixes {
				r.into.opaque = true
				break
			}
			if w.known && (strings.HasPrefix(w.text, "-") || strings.Contains(w.text, "=")) {
				continue
			}
			started := command{words: args[i:], sure: c.sure && first}
			first = false
			r.add(&r.into.started, started)
			if started.sure || w.known && (shells[base(w.text)] || w.text == "eval") {
				r.follow(started, typed)
			}
		}
	}
}

// shell reads what a shell is given to run. After an option with a c each word may be
// the command line: which of them it is depends on the options between.
func (r *reader) shell(args []part, typed *syntax.Word) {
	asText, file, skip := false, false, false
	for _, a := range args {
		switch {
		case !a.known:
			r.into.opaque = true
			return
		case len(a.text) > 1 && (a.text[0] == '-' || a.text[0] == '+'):
			short := !strings.HasPrefix(a.text, "--")
			asText = asText || short && strings.Contains(a.text, "c")
			skip = short && strings.ContainsAny(a.text, "oO") || a.text == "--rcfile" || a.text == "--init-file"
			if short && strings.Contains(a.text, "s") {
				r.into.opaque = true // it reads its input
			}
		case asText:
			r.nested(a.text, true)
			return
		case skip:
			skip = false
		default:
			file = true
		}
	}
	switch {
	case file: // a program like any other
	case typed == nil:
		r.into.opaque = true // it reads what another command writes
	default:
		script := partOf(typed)
		r.nested(script.text, script.known)
	}
}

// nested reads a command line inside a command line.
func (r *reader) nested(text string, known bool) {
	inner := script{}
	if !known || r.depth == maxNested || !(&reader{into: &inner, depth: r.depth + 1}).read(text) {
		r.into.opaque = true
		return
	}
	for _, c := range append(inner.commands, inner.started...) {
		r.add(&r.into.started, c)
	}
	r.into.opaque = r.into.opaque || inner.opaque
}

func joined(args []part) (string, bool) {
	texts := make([]string, len(args))
	for i, a := range args {
		if !a.known {
			return "", false
		}
		texts[i] = a.text
	}
	return strings.Join(texts, " "), true
}

func base(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// partOf is a word as the shell would pass it on, as far as that is known.
func partOf(w *syntax.Word) part {
	if w == nil {
		return part{}
	}
	var text strings.Builder
	for i, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			lit, ok := unquoted(p.Value, i == 0)
			if !ok {
				return part{}
			}
			text.WriteString(lit)
		case *syntax.SglQuoted:
			if p.Dollar && strings.Contains(p.Value, `\`) {
				return part{}
			}
			text.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok || p.Dollar {
					return part{}
				}
				text.WriteString(quoted(lit.Value))
			}
		default:
			return part{}
		}
	}
	return part{text.String(), true}
}

// unquoted reads the bare part of a word; ok is false when the shell would make
// something else of it.
func unquoted(value string, first bool) (string, bool) {
	if first && strings.HasPrefix(value, "~") {
		return "", false
	}
	var text strings.Builder
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '*', '?', '[', '{':
			return "", false
		case '\\':
			if i++; i == len(value) {
				return "", false
			}
			if value[i] == '\n' {
				continue
			}
		}
		text.WriteByte(value[i])
	}
	return text.String(), true
}

// quoted reads a text between double quotes, where a backslash is one unless it
// stands before what it keeps from being special.
func quoted(value string) string {
	var text strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] == '\\' && i+1 < len(value) && strings.IndexByte("$`\"\\\n", value[i+1]) >= 0 {
			if i++; value[i] == '\n' {
				continue
			}
		}
		text.WriteByte(value[i])
	}
	return text.String()
}
