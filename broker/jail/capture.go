package jail

import (
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// What is kept of a stream: its first HeadLimit and its last TailLimit bytes,
// so at most 4 MiB for both streams of a command.
const (
	HeadLimit = 1 << 20
	TailLimit = 1 << 20
	// WindowLimit is the most bytes of text in a [Window].
	WindowLimit = 4 << 10
)

// Capture is what was kept of one output stream.
type Capture struct {
	head, tail []byte
	total      int64
	omitted    int64
}

// Total is the exact number of bytes that the command wrote, whatever is shown
// in their place.
func (c Capture) Total() int64 { return c.total }

// Head returns the first bytes. Callers must not change them.
func (c Capture) Head() []byte { return c.head }

// Tail returns the last bytes, those of the head excluded. Callers must not
// change them.
func (c Capture) Tail() []byte { return c.tail }

// Omitted is the number of bytes between head and tail that were not kept.
func (c Capture) Omitted() int64 { return c.omitted }

// Shown is the capture of the same stream with other bytes for its two ends:
// something in them must not be shown. It takes over both.
func (c Capture) Shown(head, tail []byte) Capture {
	c.head, c.tail = head, tail
	return c
}

// NewCapture is the capture of a stream that consists of p, for callers that
// have one without a command. It takes over p.
func NewCapture(p []byte) Capture {
	return Capture{head: p[:min(len(p), HeadLimit):min(len(p), HeadLimit)], tail: p[min(len(p), HeadLimit):], total: int64(len(p))}
}

// Progress is what a running command has written so far.
type Progress struct {
	Stdout, Stderr Window
}

// Window is the live end of a stream. A later window replaces an earlier one.
type Window struct {
	Text  string // at most [WindowLimit] bytes of valid UTF-8
	Total int64  // bytes written so far
}

// recorder keeps the two ends of a stream while it passes by. The pump of the
// stream writes, the observer reads.
type recorder struct {
	mu    sync.Mutex
	head  []byte
	ring  []byte // grows to the tail limit, then is overwritten in a circle
	next  int    // where the next byte goes once the ring is full
	total int64

	headLimit, tailLimit int
}

func newRecorder() *recorder { return &recorder{headLimit: HeadLimit, tailLimit: TailLimit} }

func (r *recorder) write(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total += int64(len(p))
	if room := r.headLimit - len(r.head); room > 0 {
		n := min(room, len(p))
		r.head = extend(r.head, p[:n], r.headLimit)
		p = p[n:]
	}
	if len(p) > r.tailLimit {
		p = p[len(p)-r.tailLimit:]
	}
	if room := r.tailLimit - len(r.ring); room > 0 {
		n := min(room, len(p))
		r.ring = extend(r.ring, p[:n], r.tailLimit)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(r.ring[r.next:], p)
		p = p[n:]
		r.next = (r.next + n) % r.tailLimit
	}
}

// extend appends p. What outgrows a small size gets its whole limit at once:
// growing step by step would leave as much garbage as is kept.
func extend(kept, p []byte, limit int) []byte {
	const small = 64 << 10
	if len(kept)+len(p) > small && cap(kept) < limit {
		kept = slices.Grow(kept, limit-len(kept))
	}
	return append(kept, p...)
}

// finish hands over what was kept. The recorder must not be used afterwards.
func (r *recorder) finish() Capture {
	r.mu.Lock()
	defer r.mu.Unlock()
	tail := r.ring
	if r.next != 0 {
		tail = append(append(make([]byte, 0, len(r.ring)), r.ring[r.next:]...), r.ring[:r.next]...)
	}
	return Capture{head: r.head, tail: tail, total: r.total, omitted: r.total - int64(len(r.head)) - int64(len(tail))}
}

// window returns the live end of the stream.
func (r *recorder) window() Window {
	r.mu.Lock()
	defer r.mu.Unlock()
	buf := make([]byte, 0, WindowLimit)
	if short := WindowLimit - len(r.ring); short > 0 {
		buf = append(buf, r.head[max(0, len(r.head)-short):]...)
		buf = append(buf, r.ring...)
	} else {
		older := r.ring[r.next:]
		newer := r.ring[:r.next]
		if short := WindowLimit - len(newer); short > 0 {
			buf = append(buf, older[max(0, len(older)-short):]...)
			buf = append(buf, newer...)
		} else {
			buf = append(buf, newer[len(newer)-WindowLimit:]...)
		}
	}
	return Window{Text: liveText(buf, r.total > int64(len(buf))), Total: r.total}
}

// liveText makes the end of a stream showable: an incomplete character at the
// end is held back, since its rest may still come; one that the cut at the start
// has halved is left out; every other byte that is not UTF-8 becomes U+FFFD. The
// result has at most WindowLimit bytes.
func liveText(p []byte, cut bool) string {
	p = p[:len(p)-incompleteEnd(p)]
	if cut {
		for n := 0; n < utf8.UTFMax-1 && len(p) > 0 && !utf8.RuneStart(p[0]); n++ {
			p = p[1:]
		}
	}
	return LiveText(p)
}

// LiveText makes the text of a [Window] of bytes: their end, when there are too
// many.
func LiveText(p []byte) string {
	text := strings.ToValidUTF8(string(p), "\uFFFD")
	if over := len(text) - WindowLimit; over > 0 {
		for !utf8.RuneStart(text[over]) {
			over++
		}
		text = text[over:]
	}
	return text
}

// incompleteEnd returns how many bytes at the end of p begin a character whose
// rest is missing.
func incompleteEnd(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if tail := p[len(p)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return n
			}
			return 0
		}
	}
	return 0
}
