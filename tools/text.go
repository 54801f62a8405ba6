package tools

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/core/jsonv"
)

// Limits of what enters a conversation.
const (
	// TextLimit is the most bytes of output in the text of a result.
	TextLimit = 64 << 10
	// excerptLimit is how much of each end of a longer output the text keeps.
	excerptLimit = 2 << 10
)

// Printable makes text of bytes: each NUL, and each byte that is not part of a
// valid UTF-8 sequence, becomes U+FFFD. It returns how many bytes it replaced.
func Printable(p []byte) (text string, replaced int) {
	if utf8.Valid(p) && bytes.IndexByte(p, 0) < 0 {
		return string(p), 0
	}
	var b strings.Builder
	b.Grow(len(p) + len(p)/8)
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if r == 0 || r == utf8.RuneError && n == 1 {
			b.WriteRune(utf8.RuneError)
			replaced++
		} else {
			b.Write(p[:n])
		}
		p = p[n:]
	}
	return b.String(), replaced
}

func replacedNote(n int) string {
	return fmt.Sprintf("[%s replaced by U+FFFD: NUL or not UTF-8]", count(n, "byte"))
}

// count words a number of things.
func count[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if strings.HasSuffix(thing, "ch") || strings.HasSuffix(thing, "ss") {
		thing += "e"
	} else if rest, ok := strings.CutSuffix(thing, "ry"); ok {
		thing = rest + "rie"
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// clip cuts s to at most n bytes at a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// measure returns how long the text of p is and how many bytes of p it replaces,
// without making it: a binary output of megabytes is only ever shown in part.
func measure(p []byte) (size, replaced int) {
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if r == 0 || r == utf8.RuneError && n == 1 {
			replaced++
			size += utf8.RuneLen(utf8.RuneError)
		} else {
			size += n
		}
		p = p[n:]
	}
	return size, replaced
}

// output is one stream of a result on its way into the text.
type output struct {
	name       string // "stdout"
	capture    jail.Capture
	head, tail []byte // what is shown of the capture's ends
	omitted    int64  // bytes between them
	size       int    // of the text
	replaced   int    // bytes of head and tail that are not text
	redacted   int    // secrets that are no longer in the capture
}

// output makes an output of what was kept of a stream, without the secrets in it:
// what is shown of it and what is kept as a blob have lost them alike.
func (k toolkit) output(name string, c jail.Capture) output {
	c, redacted := k.secrets.Capture(c)
	o := newOutput(name, c)
	o.redacted = redacted
	return o
}

// newOutput makes an output of what was kept of a stream. Where the middle is
// missing, characters that the gap cut in half count as missing too, so that
// valid output stays valid.
func newOutput(name string, c jail.Capture) output {
	o := output{name: name, capture: c, head: c.Head(), tail: c.Tail(), omitted: c.Omitted()}
	if o.omitted > 0 {
		cutHead, cutTail := untilWhole(o.head), whereWhole(o.tail)
		o.omitted += int64(len(o.head)-cutHead) + int64(cutTail)
		o.head, o.tail = o.head[:cutHead], o.tail[cutTail:]
	} else if len(o.tail) > 0 { // nothing is missing, but a character may lie across the two parts
		o.head, o.tail = slices.Concat(o.head, o.tail), nil
	}
	headSize, headReplaced := measure(o.head)
	tailSize, tailReplaced := measure(o.tail)
	o.size, o.replaced = headSize+tailSize, headReplaced+tailReplaced
	if o.omitted > 0 {
		o.size += len(gap(o.omitted))
	}
	return o
}

// text is the whole printable output.
func (o output) text() string {
	head, _ := Printable(o.head)
	if o.omitted == 0 {
		return head
	}
	tail, _ := Printable(o.tail)
	return head + gap(o.omitted) + tail
}

// ends are the first and the last part of a long output.
func (o output) ends() (first, last string) {
	tail := o.tail
	if len(tail) == 0 {
		tail = o.head
	}
	head := o.head[:min(len(o.head), excerptLimit)]
	tail = tail[len(tail)-min(len(tail), excerptLimit):]
	first, _ = Printable(head[:untilWhole(head)])
	last, _ = Printable(tail[whereWhole(tail):])
	return first, last
}

func gap(omitted int64) string {
	return fmt.Sprintf("\n[... %s not kept ...]\n", count(omitted, "byte"))
}

// untilWhole returns the length of p without a character that is cut at its end.
func untilWhole(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if tail := p[len(p)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return len(p)
			}
			return len(p) - n
		}
	}
	return len(p)
}

// whereWhole returns where p starts without the rest of a character.
func whereWhole(p []byte) int {
	for n := range min(utf8.UTFMax-1, len(p)) {
		if utf8.RuneStart(p[n]) {
			return n
		}
	}
	return min(utf8.UTFMax-1, len(p))
}

// raw reads the bytes as they are kept: both ends and the note between them.
func (o output) raw() io.Reader {
	if o.capture.Omitted() == 0 {
		return io.MultiReader(bytes.NewReader(o.capture.Head()), bytes.NewReader(o.capture.Tail()))
	}
	return io.MultiReader(bytes.NewReader(o.capture.Head()), strings.NewReader(gap(o.capture.Omitted())), bytes.NewReader(o.capture.Tail()))
}

// fitting decides which outputs are spilled so that what stays fits the limit:
// the longest first, since that spares the others.
func fitting(sizes []int, limit int) (spill []bool) {
	spill = make([]bool, len(sizes))
	total := 0
	for _, n := range sizes {
		total += n
	}
	for total > limit {
		longest := -1
		for i, n := range sizes {
			if !spill[i] && (longest < 0 || n > sizes[longest]) {
				longest = i
			}
		}
		if longest < 0 {
			break
		}
		spill[longest] = true
		total -= sizes[longest]
	}
	return spill
}

// render makes the text of outputs, each under its name, and keeps as blobs what
// does not fit and what is not text. The references are details.
func (k toolkit) render(outputs ...output) (text string, refs []jsonv.Value) {
	sizes := make([]int, len(outputs))
	for i, o := range outputs {
		sizes[i] = o.size
	}
	spill := fitting(sizes, TextLimit)
	var b strings.Builder
	for i, o := range outputs {
		if o.size == 0 {
			continue
		}
		kept, ref := "", blob.Ref{}
		if spill[i] || o.replaced > 0 || o.capture.Omitted() > 0 {
			var ok bool
			if ref, kept, ok = k.keep(o); ok {
				refs = append(refs, ref.Value().With("stream", jsonv.Str(o.name)))
			}
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		o.write(&b, spill[i], kept)
	}
	return b.String(), refs
}

// keep stores the bytes of an output and words where they are.
func (k toolkit) keep(o output) (ref blob.Ref, note string, ok bool) {
	if k.blobs == nil {
		return blob.Ref{}, "not kept: this session keeps no blobs", false
	}
	ref, err := k.blobs.Put(o.raw())
	if err != nil {
		return blob.Ref{}, "not kept: " + err.Error(), false
	}
	return ref, fmt.Sprintf("kept as blob %s (%s)", ref.SHA256, count(ref.Size, "byte")), true
}

func (o output) write(b *strings.Builder, spilled bool, kept string) {
	fmt.Fprintf(b, "%s:", o.name)
	if o.replaced > 0 {
		b.WriteString(" " + replacedNote(o.replaced))
	}
	if o.redacted > 0 {
		b.WriteString(" [" + count(o.redacted, "secret value") + " redacted]")
	}
	if kept != "" {
		fmt.Fprintf(b, " [%s in all, %s]", count(o.capture.Total(), "byte"), kept)
	}
	if !spilled {
		b.WriteString("\n" + strings.TrimSuffix(o.text(), "\n"))
		return
	}
	first, last := o.ends()
	fmt.Fprintf(b, "\nit begins with:\n%s\nit ends with:\n%s", first, strings.TrimSuffix(last, "\n"))
}

// blobDetails is the reserved field of details for these references.
func blobDetails(refs []jsonv.Value) []jsonv.Member {
	if len(refs) == 0 {
		return nil
	}
	return []jsonv.Member{jsonv.F(blob.DetailsKey, jsonv.Arr(refs...))}
}
