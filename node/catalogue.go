package node

import (
	"path/filepath"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/events/projection"
)

func (h Home) catalogue() string { return filepath.Join(h.dir, "projections.db") }

// rememberFrom is how many sessions there must be before lists remember what they said of
// each: with fewer, opening the memory costs what opening the sessions does.
const rememberFrom = 16

// recollection is what lists said of sessions whose files did not change since. A list is as
// right without it, and slower: whatever goes wrong with it is not told.
type recollection struct {
	home    Home
	disk    *projection.Disk // nil: nothing is remembered
	lines   map[id.SessionID]projection.Line
	changed map[id.SessionID]projection.Line
	gone    []id.SessionID
}

func (n *Node) recollect(sessions []id.SessionID) *recollection {
	c := &recollection{home: n.home, changed: map[id.SessionID]projection.Line{}}
	if len(sessions) < rememberFrom {
		return c
	}
	disk, err := projection.OpenDisk(n.home.catalogue())
	if err != nil {
		return c
	}
	c.disk = disk
	if c.lines, err = disk.Listed(); err != nil {
		c.lines = nil
	}
	there := make(map[id.SessionID]bool, len(sessions))
	for _, s := range sessions {
		there[s] = true
	}
	for s := range c.lines {
		if !there[s] {
			c.gone = append(c.gone, s)
		}
	}
	return c
}

// summary is what a list says of a session: what it said before, where nothing can be
// different, and else what look finds. Whether an open operation is driven depends on the
// time and on who is alive, so it is looked at each time.
func (c *recollection) summary(s id.SessionID, look func() Summary) Summary {
	if c.disk == nil {
		return look()
	}
	stamp := c.home.stamp(s) // before it is read: what comes after is another stamp
	if line, ok := c.lines[s]; ok && stamp != "" && line.Stamp == stamp {
		if sum, err := decodeSummary(s, line.Text); err == nil {
			return sum
		}
	}
	sum := look()
	if stamp != "" && sum.Err == nil && sum.Operation.IsZero() && !sum.empty {
		c.changed[s] = projection.Line{Stamp: stamp, Text: encodeSummary(sum)}
	}
	return sum
}

// close keeps what is new.
func (c *recollection) close() {
	if c.disk == nil {
		return
	}
	_ = c.disk.List(c.changed, c.gone) // see recollection
	_ = c.disk.Close()
}

func encodeSummary(s Summary) []byte {
	var w jsonv.Writer
	w.Begin()
	w.Str("cwd", s.Cwd)
	w.Str("model", s.Model)
	w.Str("title", s.Title)
	w.Num("createdAt", s.CreatedAt)
	w.Num("updatedAt", s.UpdatedAt)
	w.End()
	return w.Bytes()
}

func decodeSummary(s id.SessionID, text []byte) (Summary, error) {
	v, err := jsonv.Parse(text)
	if err != nil {
		return Summary{}, err
	}
	r := jsonv.Read(v, "node.decodeSummary")
	return Summary{
		ID: s, Cwd: r.Str("cwd"), Model: r.Str("model"), Title: r.Str("title"), CreatedAt: r.Num("createdAt"), UpdatedAt: r.Num("updatedAt"),
	}, r.Err()
}
