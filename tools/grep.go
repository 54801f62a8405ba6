package tools

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/loom-run/loom/broker"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/policy"
)

//go:embed grep.md
var grepDescription string

// Limits of grep.
const (
	grepResults    = 100
	grepMaxResults = 1000
	grepLine       = 500 // bytes shown of a line
	grepTime       = 60 * time.Second
	patternLimit   = 4096 // bytes
)

func (k toolkit) grep() Tool {
	return Tool{
		Name: "grep", Description: grepDescription, Class: policy.Read, Replay: Safe, Scheduling: Concurrent,
		Schema: schema(`{"type":"object","properties":{
			"pattern":{"type":"string","minLength":1,"description":"Regular expression in RE2 syntax; (?i) at its start ignores case."},
			"path":{"type":"string","description":"Folder or file to search, relative to the workspace or absolute inside it. Default: the workspace."},
			"glob":{"type":"string","description":"Which files to search, for example *.go."},
			"max_results":{"type":"integer","minimum":1,"maximum":1000,"description":"The most lines to return. Default 100."}},
			"required":["pattern"],"additionalProperties":false}`),
		Run: k.runGrep,
	}
}

type grepArguments struct {
	pattern    string
	re         *regexp.Regexp
	path       string
	glob       glob
	maxResults int
}

func grepArgumentsOf(v jsonv.Value) (grepArguments, *arguments) {
	a := argumentsOf(v, "pattern", "path", "glob", "max_results")
	args := grepArguments{
		pattern: a.str("pattern"), path: a.optStr("path", "."),
		maxResults: int(a.optInt("max_results", grepResults, 1, grepMaxResults)),
	}
	var err error
	switch {
	case a.fault != "":
	case args.pattern == "":
		a.fail("\"pattern\" is empty")
	case len(args.pattern) > patternLimit:
		a.fail("\"pattern\" has %d bytes; at most %d are possible", len(args.pattern), patternLimit)
	default:
		if args.re, err = regexp.Compile(args.pattern); err != nil {
			a.fail("\"pattern\" is not a regular expression of RE2: %v", err)
		}
	}
	if text := a.optStr("glob", ""); text != "" {
		if args.glob, err = parseGlob(text); err != nil {
			a.fail("\"glob\": %v", err)
		}
	}
	return args, a
}

func (k toolkit) runGrep(ctx context.Context, in Invocation) Outcome {
	args, a := grepArgumentsOf(in.Arguments)
	if out, bad := a.err(); bad {
		return out
	}
	at, err := k.room.resolve(args.path)
	if err != nil {
		return failed(err.Error())
	}
	ctx, stop := context.WithTimeoutCause(ctx, grepTime, errTooSlow)
	defer stop()
	files, err := k.room.files(ctx, at, args.glob)
	if err != nil {
		return searchFailed(err)
	}
	s := hunt{room: k.room, secrets: k.secrets, re: args.re, want: args.maxResults}
	if err := s.run(ctx, files.list, k.prefilter(in, args.pattern)); err != nil {
		return searchFailed(err)
	}
	return k.found(s, files)
}

var errTooSlow = fmt.Errorf("the search took longer than %d s and was ended; narrow it with path or glob", int(grepTime.Seconds()))

func searchFailed(err error) Outcome {
	if errors.Is(err, context.Canceled) {
		return failed("the search was cancelled")
	}
	return failed(err.Error())
}

// hunt collects matching lines, file by file.
type hunt struct {
	room    *workspace
	secrets broker.Secrets
	re      *regexp.Regexp
	want    int // lines
	lines   []string
	more    bool // there are more than wanted
	mixed   int  // bytes in shown lines that were not text
}

// prefilter returns which of the files may match. It may return too many, never
// too few; ok false means that it cannot tell.
type prefilter func(ctx context.Context, files []string) (may map[string]bool, ok bool)

// Batches for the prefilter: a small one first, since the answer to a frequent
// pattern is complete after a few files; then larger ones, bounded by what fits
// a command line.
const (
	firstBatch = 256
	lastBatch  = 8192
	batchBytes = 512 << 10
)

// run looks at the files in order until more lines than wanted are found.
func (s *hunt) run(ctx context.Context, files []string, may prefilter) error {
	for size := firstBatch; len(files) > 0 && !s.more; size = min(4*size, lastBatch) {
		batch := takeBatch(files, size)
		files = files[len(batch):]
		var hits map[string]bool
		known := false
		if may != nil {
			if hits, known = may(ctx, batch); !known {
				may = nil // whatever kept it from telling will do so again
			}
		}
		for _, f := range batch {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if !known || hits[f] {
				s.look(f)
			}
			if s.more {
				break
			}
		}
	}
	return nil
}

func takeBatch(files []string, size int) []string {
	bytes := 0
	for i, f := range files {
		if bytes += len(f) + 1; i >= size || i > 0 && bytes > batchBytes {
			return files[:i]
		}
	}
	return files
}

// look adds the matching lines of a file. One that is gone, or unreadable, or
// became something else since the walk, has none.
func (s *hunt) look(file string) {
	content, _, err := s.room.load(place{rel: file, shown: file})
	if err != nil || bytes.IndexByte(content, 0) >= 0 {
		return
	}
	if prefix, _ := s.re.LiteralPrefix(); prefix != "" && !bytes.Contains(content, []byte(prefix)) {
		return
	}
	for n := 1; len(content) > 0; n++ {
		line, rest, _ := bytes.Cut(content, []byte("\n"))
		content = rest
		line = bytes.TrimSuffix(line, []byte("\r"))
		if !s.re.Match(line) {
			continue
		}
		if len(s.lines) == s.want {
			s.more = true
			return
		}
		line, _ = s.secrets.Bytes(line) // before it is cut: a part would not be known as one
		whole := len(line)
		if whole > grepLine {
			line = line[:untilWhole(line[:grepLine])]
		}
		text, replaced := Printable(line)
		s.mixed += replaced
		if len(line) < whole {
			text += "…"
		}
		s.lines = append(s.lines, fmt.Sprintf("%s:%d:%s", plainName(file), n, text))
	}
}

func (k toolkit) found(s hunt, files fileList) Outcome {
	var head strings.Builder
	switch {
	case len(s.lines) == 0:
		fmt.Fprintf(&head, "no match in %s", count(len(files.list), "file"))
	case s.more:
		fmt.Fprintf(&head, "the first %s; there are more: narrow the pattern, path or glob, or raise max_results", count(len(s.lines), "matching line"))
	default:
		head.WriteString(count(len(s.lines), "matching line"))
	}
	if files.large > 0 {
		fmt.Fprintf(&head, " [%s over %d MiB not searched]", count(files.large, "file"), fileLimit>>20)
	}
	if files.unread > 0 {
		fmt.Fprintf(&head, " [%s not readable]", count(files.unread, "folder"))
	}
	if s.mixed > 0 {
		head.WriteString(" " + replacedNote(s.mixed))
	}
	body := strings.Join(s.lines, "\n")
	return k.listing(head.String(), body,
		jsonv.F("matches", jsonv.Num(int64(len(s.lines)))), jsonv.F("more", jsonv.Boolean(s.more)), jsonv.F("files", jsonv.Num(int64(len(files.list)))))
}
