package needle

import (
	"bytes"
	"errors"
	"io"
)

// smallestWindow is how much of a stream is looked at together, in bytes, unless
// the needle asks for more.
const smallestWindow = 256 << 10

// reach is the longest spelling of a needle that is found across the edge of two
// windows: the dearest layers make twelve bytes of one.
func (n Needle) reach() int { return 12*n.size() + 64 }

// InBytes reports whether a stream holds the needle. It looks through one layer
// more than [Needle.In] does, since a file of ours holds its texts as JSON.
func (n Needle) InBytes(r io.Reader) (bool, error) {
	for w := n.open(r); ; {
		if err := w.fill(); err != nil {
			return false, err
		}
		if n.holds(view{text: w.text}, Levels+1) {
			return true, nil
		}
		if w.last {
			return false, nil
		}
		w.drop(len(w.text) - n.reach())
	}
}

// Copy writes what r yields without the needle, and returns how often it was
// there.
func (e Eraser) Copy(w io.Writer, r io.Reader) (times int, err error) {
	from := &erasing{eraser: e, from: e.needle.open(r)}
	_, err = io.Copy(w, from)
	return from.times, err
}

// Reader yields what r yields without the needle. It holds one window of it.
func (e Eraser) Reader(r io.Reader) io.Reader {
	return &erasing{eraser: e, from: e.needle.open(r)}
}

type erasing struct {
	eraser Eraser
	from   *window
	out    []byte
	times  int
}

func (e *erasing) Read(p []byte) (int, error) {
	for len(e.out) == 0 {
		if e.from.last {
			return 0, io.EOF
		}
		if err := e.step(); err != nil {
			return 0, err
		}
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	return n, nil
}

// step erases from what can be told of the next window.
func (e *erasing) step() error {
	if err := e.from.fill(); err != nil {
		return err
	}
	text := string(e.from.text)
	end := len(text)
	if !e.from.last {
		end = quiet(e.from.text, len(text)-e.eraser.needle.reach())
	}
	var within []span
	for _, s := range e.eraser.needle.find(text) {
		if s.from >= end {
			break
		}
		within = append(within, s)
		end = max(end, s.to)
	}
	e.times += len(within)
	e.out = []byte(replace(text[:end], within, e.eraser.with))
	e.from.drop(end)
	return nil
}

// quiet moves a cut back to where no escape is cut, if such a place is near.
func quiet(text []byte, cut int) int {
	const near, escape = 4096, 12 // bytes; the second is the longest escape
	for at := cut; at > max(0, cut-near); at-- {
		if !bytes.ContainsAny(text[max(0, at-escape):at], `\%`) {
			return at
		}
	}
	return max(cut, 0)
}

// window is the part of a stream that is looked at.
type window struct {
	from io.Reader
	text []byte
	last bool // the stream ends here
}

func (n Needle) open(r io.Reader) *window {
	return &window{from: r, text: make([]byte, 0, max(smallestWindow, 2*n.reach()))}
}

// fill reads until the window is full or the stream ends.
func (w *window) fill() error {
	k, err := io.ReadFull(w.from, w.text[len(w.text):cap(w.text)])
	w.text = w.text[:len(w.text)+k]
	w.last = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if w.last {
		return nil
	}
	return err
}

// drop leaves out what was dealt with; the rest comes again with what follows.
func (w *window) drop(n int) { w.text = w.text[:copy(w.text, w.text[n:])] }
