package tools

import (
	"bytes"
	"slices"
)

// lineCounter counts the lines of what is written to it; a last line without an end is
// one.
type lineCounter struct {
	ends int
	open bool
}

func (c *lineCounter) Write(p []byte) (int, error) {
	c.ends += bytes.Count(p, []byte("\n"))
	if len(p) > 0 {
		c.open = p[len(p)-1] != '\n'
	}
	return len(p), nil
}

func (c *lineCounter) count() int {
	if c.open {
		return c.ends + 1
	}
	return c.ends
}

func countLines(p []byte) int {
	var c lineCounter
	_, _ = c.Write(p) // never fails
	return c.count()
}

// lineDelta is how many lines one text has beyond another, and lacks of it.
type lineDelta struct{ inserted, deleted int }

// maxCompared bounds the pairs of lines that are compared for a delta. What differs more
// counts as replaced whole.
const maxCompared = 4 << 20

// deltaOf counts what makes one content of the other. It is the smallest count as long
// as that is found in bounded time.
func deltaOf(from, to holding) lineDelta {
	if from.size > fileLimit || to.size > fileLimit {
		return lineDelta{to.lines, from.lines}
	}
	a, b := linesOf(from.bytes), linesOf(to.bytes)
	for len(a) > 0 && len(b) > 0 && bytes.Equal(a[0], b[0]) {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && bytes.Equal(a[len(a)-1], b[len(b)-1]) {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	same := 0
	if len(a)*len(b) <= maxCompared {
		same = common(a, b)
	}
	return lineDelta{len(b) - same, len(a) - same}
}

func linesOf(p []byte) [][]byte { return slices.Collect(bytes.Lines(p)) }

// common is the length of the longest common subsequence.
func common(a, b [][]byte) int {
	row := make([]int, len(b)+1) // of what was seen of a against each beginning of b
	for _, line := range a {
		diagonal := 0
		for j, other := range b {
			above := row[j+1]
			if bytes.Equal(line, other) {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	return row[len(b)]
}
