package tools

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"image"
	_ "image/gif"
	_ "image/jpeg"
	_ "image/png"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/policy"
)

//go:embed read.md
var readDescription string

// Limits of read.
const (
	readLines  = 2000
	imageLimit = 3 << 20 // encoded it must stay below what providers take
	imageEdge  = 8000    // pixels, likewise
)

func (k toolkit) read() Tool {
	return Tool{
		Name: "read", Description: readDescription, Class: policy.Read, Replay: Safe, Scheduling: Concurrent,
		Schema: schema(`{"type":"object","properties":{
			"path":{"type":"string","description":"File to read, relative to the workspace or absolute inside it."},
			"offset":{"type":"integer","minimum":1,"description":"First line to return, counted from 1. Default 1."},
			"limit":{"type":"integer","minimum":1,"description":"Number of lines to return. Default 2000."}},
			"required":["path"],"additionalProperties":false}`),
		Run: func(_ context.Context, in Invocation) Outcome { return k.runRead(in.Arguments) },
	}
}

type readArguments struct {
	path          string
	offset, limit int64
}

const maxLine = 1 << 40

func readArgumentsOf(v jsonv.Value) (readArguments, *arguments) {
	a := argumentsOf(v, "path", "offset", "limit")
	return readArguments{path: a.str("path"), offset: a.optInt("offset", 1, 1, maxLine), limit: a.optInt("limit", readLines, 1, maxLine)}, a
}

func (k toolkit) runRead(v jsonv.Value) Outcome {
	args, a := readArgumentsOf(v)
	if out, bad := a.err(); bad {
		return out
	}
	at, err := k.room.resolve(args.path)
	if err != nil {
		return failed(err.Error())
	}
	content, _, err := k.room.load(at)
	if err != nil {
		return failed(err.Error())
	}
	if kind, ok := imageKind(content); ok {
		return showImage(at.shown, kind, content)
	}
	if n, bad := firstNonText(content); bad {
		return failed(fmt.Sprintf("%q is not UTF-8 text: the byte at offset %d is %#02x. It has %s", at.shown, n, content[n], count(len(content), "byte")))
	}
	content, _ = k.secrets.Bytes(content) // before it is cut: a part would not be known as one
	return showLines(at.shown, content, args.offset, args.limit)
}

// firstNonText finds the first byte that is NUL or not UTF-8.
func firstNonText(p []byte) (offset int, found bool) {
	if n := bytes.IndexByte(p, 0); n >= 0 && utf8.Valid(p[:n]) {
		return n, true
	}
	if utf8.Valid(p) {
		return 0, false
	}
	for n := 0; n < len(p); {
		r, size := utf8.DecodeRune(p[n:])
		if r == utf8.RuneError && size == 1 {
			return n, true
		}
		n += size
	}
	return 0, false
}

// lineCount counts lines: a newline at the very end does not begin another one.
func lineCount(p []byte) int64 {
	n := int64(bytes.Count(p, []byte("\n")))
	if len(p) > 0 && p[len(p)-1] != '\n' {
		n++
	}
	return n
}

func showLines(shown string, content []byte, offset, limit int64) Outcome {
	total := lineCount(content)
	if total == 0 {
		return said(fmt.Sprintf("%s is empty", shown))
	}
	if offset > total {
		return failed(fmt.Sprintf("offset %d is past the end: %s has %s", offset, shown, count(total, "line")))
	}
	w := cutWindow(content, offset, limit)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: lines %d to %d of %d", shown, offset, w.last, total)
	if bytes.Contains(content, []byte("\r\n")) {
		b.WriteString(" (with CRLF line endings)")
	}
	b.WriteByte('\n')
	b.WriteString(w.text)
	if w.cut > 0 {
		fmt.Fprintf(&b, "[line %d has %d bytes, the first %d are shown]\n", w.last, w.whole, w.cut)
	}
	if w.last < total {
		fmt.Fprintf(&b, "[%s left; next offset %d]\n", count(total-w.last, "line"), w.last+1)
	}
	return said(strings.TrimSuffix(b.String(), "\n")).with(
		jsonv.F("path", jsonv.Str(shown)), jsonv.F("first_line", jsonv.Num(offset)), jsonv.F("last_line", jsonv.Num(w.last)), jsonv.F("total_lines", jsonv.Num(total)))
}

// window is a range of lines, rendered.
type window struct {
	text  string
	last  int64 // the number of its last line
	whole int   // when its only line was cut: its whole length
	cut   int   // and what is shown of it; 0 for not cut
}

// cutWindow renders lines from offset on until limit lines or TextLimit bytes
// are reached. A single line beyond that is cut: something is always shown.
func cutWindow(content []byte, offset, limit int64) window {
	const room = TextLimit - 1<<10 // for what stands around the window
	for range offset - 1 {
		content = content[bytes.IndexByte(content, '\n')+1:]
	}
	w := window{last: offset - 1}
	var b strings.Builder
	for w.last-offset+1 < limit && len(content) > 0 {
		line, rest, _ := bytes.Cut(content, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		number := strconv.FormatInt(w.last+1, 10)
		if b.Len()+len(number)+len(line)+2 > room {
			if b.Len() > 0 {
				break
			}
			w.whole, w.cut = len(line), untilWhole(line[:room-len(number)-2])
			line = line[:w.cut]
		}
		b.WriteString(number + "\t")
		b.Write(line)
		b.WriteByte('\n')
		w.last++
		content = rest
		if w.cut > 0 {
			break
		}
	}
	w.text = b.String()
	return w
}

// imageKind knows images by how they begin, not by their names.
func imageKind(p []byte) (mime string, ok bool) {
	switch {
	case bytes.HasPrefix(p, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png", true
	case bytes.HasPrefix(p, []byte("\xff\xd8\xff")):
		return "image/jpeg", true
	case bytes.HasPrefix(p, []byte("GIF87a")), bytes.HasPrefix(p, []byte("GIF89a")):
		return "image/gif", true
	case len(p) >= 12 && string(p[:4]) == "RIFF" && string(p[8:12]) == "WEBP":
		return "image/webp", true
	}
	return "", false
}

// showImage returns an image with a caption. A result stays in the conversation
// and is sent with every later request, so an image that providers refuse must
// not get in.
func showImage(shown, mime string, content []byte) Outcome {
	if len(content) > imageLimit {
		return failed(fmt.Sprintf("%q is an image (%s) of %d bytes; images of at most %d can be shown", shown, mime, len(content), imageLimit))
	}
	caption := fmt.Sprintf("%s: %s, %s", shown, mime, count(len(content), "byte"))
	if mime != "image/webp" {
		c, _, err := image.DecodeConfig(bytes.NewReader(content))
		if err != nil {
			return failed(fmt.Sprintf("%q begins like an image (%s) but cannot be decoded: %v", shown, mime, err))
		}
		if c.Width > imageEdge || c.Height > imageEdge {
			return failed(fmt.Sprintf("%q is an image of %d x %d pixels; at most %d on each side can be shown", shown, c.Width, c.Height, imageEdge))
		}
		caption += fmt.Sprintf(", %d x %d pixels", c.Width, c.Height)
	}
	return Outcome{Content: []message.ResultBlock{
		message.Text{Text: caption},
		message.Image{Data: base64.StdEncoding.EncodeToString(content), MimeType: mime},
	}}
}
