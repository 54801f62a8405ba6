package tools

import (
	"bytes"
	"context"
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/loom-run/loom/broker/jail"
)

// ripgrep is much faster than package regexp, and not everywhere. So that the
// answers do not depend on it, the walk of this package chooses the files and
// this package finds the lines; ripgrep only says which files are worth opening.

// prefilter returns the filter that ripgrep is, or nil without it.
func (k toolkit) prefilter(in Invocation, pattern string) prefilter {
	program, ok := k.broker.Program("rg")
	if !ok {
		return nil
	}
	translated, ok := rustPattern(pattern)
	if !ok {
		return nil
	}
	quiet := in
	quiet.Observe = func(jail.Progress) {}
	return func(ctx context.Context, files []string) (map[string]bool, bool) {
		exit, err := quiet.Exec(ctx, jail.Command{Path: program, Args: ripgrepArgs(translated, files), Dir: k.room.real})
		// 1 is "no match". Anything above is a failure, maybe of one file only;
		// the files are then looked at one by one.
		if err != nil || exit.Code > 1 || exit.Truncated() || exit.Cancelled {
			return nil, false
		}
		may := map[string]bool{}
		for name := range bytes.SplitSeq(append(bytes.Clone(exit.Stdout.Head()), exit.Stdout.Tail()...), []byte{0}) {
			may[strings.TrimPrefix(string(name), "./")] = true
		}
		return may, true
	}
}

// ripgrepArgs asks which files hold a match. --text: a file must not be given up
// because of a NUL byte, which is judged later. --crlf is not used: with it
// ripgrep finds no carriage return anywhere.
func ripgrepArgs(translated string, files []string) []string {
	args := []string{"rg", "--no-config", "--no-messages", "--color=never", "--no-ignore", "--hidden", "--text", "--encoding=none",
		"--files-with-matches", "--null", "--regexp=" + translated, "--"}
	for _, f := range files {
		args = append(args, "./"+f) // a name may begin with a dash
	}
	return args
}

// rustPattern translates a pattern of package regexp into one for ripgrep that
// matches at least the same lines. The two languages agree on most things and
// differ on a few that matter here: what is a word, where a text ends, and what
// matches a byte that is not UTF-8. So the parsed form is written out again with
// nothing left to interpretation.
func rustPattern(pattern string) (string, bool) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", false
	}
	var b strings.Builder
	if !writeRust(&b, re, edges{true, true}) {
		return "", false
	}
	return b.String(), true
}

// edges says whether a part of a pattern can only begin or end a match. An
// anchor elsewhere is a curiosity that is not translated.
type edges struct{ first, last bool }

// strayByte matches what package regexp reads as U+FFFD.
const strayByte = `(?-u:[\x80-\xFF])`

func writeRust(b *strings.Builder, re *syntax.Regexp, at edges) bool {
	switch re.Op {
	case syntax.OpNoMatch:
		return false // rare; not worth a form of its own
	case syntax.OpEmptyMatch:
		b.WriteString(`(?:)`)
	case syntax.OpLiteral:
		return writeLiteral(b, re)
	case syntax.OpCharClass:
		writeClass(b, re.Rune)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteString(`(?:[^\n]|` + strayByte + `)`) // lines hold no newline
	case syntax.OpBeginLine, syntax.OpBeginText:
		b.WriteString(`(?m:^)`)
		return at.first
	case syntax.OpEndLine, syntax.OpEndText:
		b.WriteString(`(?:\r?(?m:$))`) // the end of a line is before its CRLF too
		return at.last
	case syntax.OpWordBoundary:
		b.WriteString(`(?-u:\b)`)
	case syntax.OpNoWordBoundary:
		b.WriteString(`(?-u:\B)`)
	case syntax.OpCapture:
		return writeRust(b, re.Sub[0], at)
	case syntax.OpStar:
		return writeRepeated(b, re, "*")
	case syntax.OpPlus:
		return writeRepeated(b, re, "+")
	case syntax.OpQuest:
		return writeRepeated(b, re, "?")
	case syntax.OpRepeat:
		times := fmt.Sprintf("{%d,%d}", re.Min, re.Max)
		if re.Max < 0 {
			times = fmt.Sprintf("{%d,}", re.Min)
		}
		return writeRepeated(b, re, times)
	case syntax.OpConcat:
		return writeGroup(b, re.Sub, "", func(i int) edges { return edges{at.first && i == 0, at.last && i == len(re.Sub)-1} })
	case syntax.OpAlternate:
		return writeGroup(b, re.Sub, "|", func(int) edges { return at })
	default:
		return false
	}
	return true
}

func writeGroup(b *strings.Builder, subs []*syntax.Regexp, between string, at func(i int) edges) bool {
	b.WriteString(`(?:`)
	for i, sub := range subs {
		if i > 0 {
			b.WriteString(between)
		}
		if !writeRust(b, sub, at(i)) {
			return false
		}
	}
	b.WriteByte(')')
	return true
}

func writeRepeated(b *strings.Builder, re *syntax.Regexp, times string) bool {
	ok := writeGroup(b, re.Sub, "", func(int) edges { return edges{} })
	b.WriteString(times)
	return ok
}

// writeLiteral writes case folding as sets, by the tables of package unicode:
// those of another language may be of another version.
func writeLiteral(b *strings.Builder, re *syntax.Regexp) bool {
	for _, r := range re.Rune {
		if r == '\n' {
			return false // no line holds one
		}
		if re.Flags&syntax.FoldCase == 0 && r != utf8.RuneError {
			fmt.Fprintf(b, `\x{%X}`, r)
			continue
		}
		set := []rune{r, r}
		if re.Flags&syntax.FoldCase != 0 {
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				set = append(set, f, f)
			}
		}
		writeClass(b, set)
	}
	return true
}

func writeClass(b *strings.Builder, ranges []rune) {
	stray := false
	b.WriteString(`(?:[`)
	for i := 0; i+1 < len(ranges); i += 2 {
		lo, hi := ranges[i], ranges[i+1]
		stray = stray || lo <= utf8.RuneError && utf8.RuneError <= hi
		// Surrogates are no characters there.
		if lo < 0xD800 && hi > 0xDFFF {
			fmt.Fprintf(b, `\x{%X}-\x{D7FF}`, lo)
			lo = 0xE000
		}
		fmt.Fprintf(b, `\x{%X}-\x{%X}`, lo, hi)
	}
	b.WriteByte(']')
	if stray {
		b.WriteString("|" + strayByte)
	}
	b.WriteByte(')')
}
