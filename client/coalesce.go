package client

import (
	"strings"

	"github.com/loom-run/loom/client/plane"
)

// maxHeld bounds the text that waits for its cadence, in bytes: a cadence that never
// comes must not hold a whole answer back, nor grow the memory.
const maxHeld = 64 << 10

// Coalescer merges pieces of live text that follow each other. When they are let
// go is the caller's cadence; how they merge is decided here. The zero Coalescer
// is empty.
type Coalescer struct {
	held  plane.LiveText
	proof plane.Chrome // the first held output, which proves the lane
	text  strings.Builder
	parts int
}

// Holds reports whether text waits to be let go.
func (c *Coalescer) Holds() bool { return c.parts > 0 }

// Add takes one output and returns what must go now: nothing when it was merged,
// unless too much is held, and all that was held ahead of it when it is something
// else. So the order of outputs does not change.
func (c *Coalescer) Add(o plane.Output) []plane.Output {
	if ch, ok := o.(plane.Chrome); ok {
		if t, ok := ch.Event().(plane.LiveText); ok {
			var out []plane.Output
			if c.parts > 0 && (t.Segment != c.held.Segment || t.Reasoning != c.held.Reasoning) {
				out = c.Flush()
			}
			if c.hold(ch, t); c.text.Len() >= maxHeld {
				out = append(out, c.Flush()...)
			}
			return out
		}
	}
	return append(c.Flush(), o)
}

func (c *Coalescer) hold(ch plane.Chrome, t plane.LiveText) {
	if c.parts == 0 {
		c.held, c.proof = t, ch
	}
	c.parts++
	if c.parts == 2 {
		c.text.WriteString(c.held.Text)
	}
	if c.parts > 1 {
		c.text.WriteString(t.Text)
	}
}

// Flush lets go what is held.
func (c *Coalescer) Flush() []plane.Output {
	switch c.parts {
	case 0:
		return nil
	case 1:
		c.parts = 0
		return []plane.Output{c.proof}
	}
	merged := c.held
	merged.Text = c.text.String()
	c.text.Reset()
	c.parts = 0
	return []plane.Output{c.proof.With(merged)}
}
