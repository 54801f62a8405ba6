package tools

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/policy"
)

//go:embed edit.md
var editDescription string

const editName = "edit"

func (k toolkit) edit() Tool {
	return Tool{
		Name: editName, Description: editDescription, Class: policy.Write, Replay: Never, Scheduling: Exclusive,
		Schema: schema(`{"type":"object","properties":{
			"path":{"type":"string","description":"File to change, relative to the workspace or absolute inside it."},
			"old_text":{"type":"string","minLength":1,"description":"Text to replace, exactly as it stands in the file."},
			"new_text":{"type":"string","description":"Text to put in its place."},
			"replace_all":{"type":"boolean","description":"Replace every occurrence. Default false: there must be exactly one."}},
			"required":["path","old_text","new_text"],"additionalProperties":false}`),
		Run: func(_ context.Context, in Invocation) Outcome { return k.runEdit(in.Arguments) },
	}
}

type editArguments struct {
	path, old, new string
	all            bool
}

func editArgumentsOf(v jsonv.Value) (editArguments, *arguments) {
	a := argumentsOf(v, "path", "old_text", "new_text", "replace_all")
	args := editArguments{path: a.str("path"), old: a.str("old_text"), new: a.str("new_text"), all: a.optBool("replace_all", false)}
	switch {
	case args.old == "":
		a.fail("\"old_text\" is empty; use write to create a file or to replace all of one")
	case args.old == args.new:
		a.fail("\"old_text\" and \"new_text\" are equal")
	}
	return args, a
}

func (k toolkit) runEdit(v jsonv.Value) Outcome {
	args, a := editArgumentsOf(v)
	if out, bad := a.err(); bad {
		return out
	}
	at, err := k.room.resolveForWriting(args.path)
	if err != nil {
		return failed(err.Error())
	}
	if _, err := k.room.existing(at); err != nil {
		return failed(err.Error())
	}
	before, was, err := k.room.load(at)
	if err != nil {
		return failed(err.Error())
	}
	after, n, fault := splice(before, args.old, args.new, args.all)
	if fault != "" {
		return failed(fmt.Sprintf("%s %s; nothing was changed", at.shown, fault))
	}
	// Somebody else may have written meanwhile: what they wrote is worth more
	// than this edit, which can be made again.
	now, err := k.room.existing(at)
	if err != nil {
		return failed(err.Error())
	}
	if !unchanged(was, now) {
		return failed(fmt.Sprintf("%s was changed by somebody else just now; nothing was changed by this edit. Read it again", at.shown))
	}
	change := k.changing(at, held(before), after)
	if err := k.room.replace(at, after, now); err != nil {
		return failed(err.Error())
	}
	return said(fmt.Sprintf("replaced %s in %s; it has %s now", count(n, "occurrence"), at.shown, count(len(after), "byte"))).with(append([]jsonv.Member{
		jsonv.F("path", jsonv.Str(at.shown)), jsonv.F("replaced", jsonv.Num(int64(n))), jsonv.F("bytes", jsonv.Num(int64(len(after)))),
	}, change.details()...)...)
}

// unchanged reports whether a file is what it was; nil is no file.
func unchanged(was, now fs.FileInfo) bool {
	return now != nil && now.Size() == was.Size() && now.ModTime().Equal(was.ModTime())
}

// splice replaces old by new in a text file. It returns the new content and how
// many places it changed, or what is wrong.
func splice(content []byte, old, new string, all bool) (after []byte, n int, fault string) {
	if at, bad := firstNonText(content); bad {
		return nil, 0, fmt.Sprintf("is not UTF-8 text: the byte at offset %d is %#02x", at, content[at])
	}
	text := string(content)
	if onlyCRLF(content) {
		old, new = toCRLF(old), toCRLF(new)
	}
	switch n = occurrences(text, old); {
	case n == 0:
		return nil, 0, "does not hold \"old_text\" (0 matches): it must match exactly, with its indentation" + hint(text, old)
	case n > 1 && !all:
		return nil, 0, fmt.Sprintf("holds \"old_text\" %d times: give more of the text around it, or set replace_all", n)
	}
	after = []byte(strings.ReplaceAll(text, old, new))
	return after, strings.Count(text, old), ""
}

// occurrences counts where old begins in text. Overlapping places count: which
// of them was meant would be a guess.
func occurrences(text, old string) (n int) {
	for {
		i := strings.Index(text, old)
		if i < 0 {
			return n
		}
		n++
		text = text[i+1:]
	}
}

// onlyCRLF reports whether the file has line endings and all are CRLF.
func onlyCRLF(p []byte) bool {
	n := bytes.Count(p, []byte("\r\n"))
	return n > 0 && n == bytes.Count(p, []byte("\n"))
}

func toCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// hint tells the usual reasons why a text is not found.
func hint(text, old string) string {
	switch {
	case strings.TrimSpace(old) == "":
		return ""
	case strings.Contains(squeeze(text), squeeze(old)):
		return ". It does occur with other white space"
	}
	return ""
}

// squeeze makes every run of white space one space.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }
