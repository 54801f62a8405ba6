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
	found := false
	err := n.windows(r, func(window []byte, last bool) (int, error) {
		if n.holds(view{text: window}, Levels+1) {
			found = true
			return 0, io.EOF
		}
		return max(0, len(window)-n.reach()), nil
	})
	return found, err
}

// Copy writes what r yields without the needle, and returns how often it was
// there.
func (e Eraser) Copy(w io.Writer, r io.Reader) (times int, err error) {
	err = e.needle.windows(r, func(window []byte, last bool) (int, error) {
		end := len(window)
		if !last {
			end = quiet(window, len(window)-e.needle.reach())
		}
		text := string(window)
		var within []span
		for _, s := range e.needle.find(text) {
			if s.from >= end {
				break
			}
			within = append(within, s)
			end = max(end, s.to)
		}
		times += len(within)
		_, err := io.WriteString(w, replace(text[:end], within, e.with))
		return end, err
	})
	return times, err
}

// quiet moves a cut back to where no escape is cut, if such a place is near.
func quiet(window []byte, cut int) int {
	const near, escape = 4096, 12 // bytes; the second is the longest escape
	for at := cut; at > max(0, cut-near); at-- {
		if !bytes.ContainsAny(window[max(0, at-escape):at], `\%`) {
			return at
		}
	}
	return max(cut, 0)
}

// windows shows a stream to f piece by piece. f says how much of its window is
// dealt with; the rest comes again with what follows. io.EOF of f ends it.
func (n Needle) windows(r io.Reader, f func(window []byte, last bool) (done int, err error)) error {
	size := max(smallestWindow, 2*n.reach())
	window := make([]byte, 0, size)
	for {
		k, err := io.ReadFull(r, window[len(window):size])
		window = window[:len(window)+k]
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		done, err := f(window, last)
		if errors.Is(err, io.EOF) || err == nil && last {
			return nil
		}
		if err != nil {
			return err
		}
		window = window[:copy(window, window[done:])]
	}
}
