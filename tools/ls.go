package tools

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/policy"
)

//go:embed ls.md
var lsDescription string

// Limits of ls.
const (
	lsEntries    = 500
	lsMaxEntries = 5000
)

func (k toolkit) ls() Tool {
	return Tool{
		Name: "ls", Description: lsDescription, Class: policy.Read, Replay: Safe, Scheduling: Concurrent,
		Schema: schema(`{"type":"object","properties":{
			"path":{"type":"string","description":"Folder to list, relative to the workspace or absolute inside it. Default: the workspace."},
			"limit":{"type":"integer","minimum":1,"maximum":5000,"description":"The most entries to list. Default 500."}},
			"additionalProperties":false}`),
		Run: func(_ context.Context, in Invocation) Outcome { return k.runLs(in.Arguments) },
	}
}

type lsArguments struct {
	path  string
	limit int64
}

func lsArgumentsOf(v jsonv.Value) (lsArguments, *arguments) {
	a := argumentsOf(v, "path", "limit")
	return lsArguments{path: a.optStr("path", "."), limit: a.optInt("limit", lsEntries, 1, lsMaxEntries)}, a
}

func (k toolkit) runLs(v jsonv.Value) Outcome {
	args, a := lsArgumentsOf(v)
	if out, bad := a.err(); bad {
		return out
	}
	at, err := k.room.resolve(args.path)
	if err != nil {
		return failed(err.Error())
	}
	entries, err := k.room.list(at)
	if err != nil {
		return failed(err.Error())
	}
	shown := entries[:min(len(entries), int(args.limit))]
	var b strings.Builder
	for _, e := range shown {
		b.WriteString(k.room.line(at, e) + "\n")
	}
	head := fmt.Sprintf("%s: %s", plainName(at.shown), count(len(entries), "entry"))
	if len(shown) < len(entries) {
		head += fmt.Sprintf(", the first %d are listed", len(shown))
	}
	return k.listing(head, b.String(), jsonv.F("path", jsonv.Str(at.shown)), jsonv.F("entries", jsonv.Num(int64(len(entries)))))
}

// listing is an outcome of a line and a text that may be too long.
func (k toolkit) listing(head, body string, details ...jsonv.Member) Outcome {
	if len(head)+len(body) <= TextLimit-1<<10 {
		return said(strings.TrimSuffix(head+"\n"+body, "\n")).with(details...)
	}
	text, refs := k.render(k.output("listing", jail.NewCapture([]byte(body))))
	return said(head + "\n" + text).with(append(details, blobDetails(refs)...)...)
}

// list reads a folder, sorted by name.
func (w *workspace) list(at place) ([]fs.DirEntry, error) {
	dir, err := w.root.OpenFile(filepath.FromSlash(at.rel), openNonblock, 0)
	if err != nil {
		return nil, w.failure(at.shown, err)
	}
	defer func() { _ = dir.Close() }()
	if info, err := dir.Stat(); err == nil && !info.IsDir() {
		return nil, refusePath("%q is a file, not a folder; use read", at.shown)
	}
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, w.failure(at.shown, err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// line is one line of a listing.
func (w *workspace) line(dir place, e fs.DirEntry) string {
	name := plainName(e.Name())
	switch {
	case e.IsDir():
		return name + "/"
	case e.Type()&fs.ModeSymlink != 0:
		target, err := w.root.Readlink(filepath.FromSlash(path.Join(dir.rel, e.Name())))
		if err != nil {
			return name + " -> ?"
		}
		return name + " -> " + plainName(target)
	case e.Type().IsRegular():
		info, err := e.Info()
		if err != nil {
			return name // gone meanwhile
		}
		return name + " " + strconv.FormatInt(info.Size(), 10)
	}
	return name + " (special)"
}

// plainName shows a file name on one line: one that holds anything unprintable
// is quoted.
func plainName(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) }) < 0 {
		return s
	}
	return strconv.Quote(s)
}
