package openaichat

import "github.com/loom-run/loom/provider/dialect"

// fragment is one element of a delta's tool_calls. Servers leave out any of its fields.
type fragment struct {
	index *int64
	id    string
	name  string
	args  string
}

// calls attributes fragments to tool calls.
//
// The rules, in order: a known index; a known id; a new index or id opens a call; a name alone completes a call that has none, continues an open
// call of that name, or opens one; bare arguments continue the newest call. Bare arguments that could belong to several open calls belong to none:
// all of them are put in doubt. An index that is used again with another id and a name is a new call: some servers number every call 0.
type calls struct {
	answer  *dialect.Answer
	list    []*dialect.Block
	byIndex map[int64]*dialect.Block
}

// place finds or opens the call of a fragment; nil means that it cannot be attributed.
func (c *calls) place(f fragment) *dialect.Block {
	switch {
	case f.index != nil:
		return c.placeIndexed(f)
	case f.id != "":
		if known := c.withID(f.id); known != nil {
			return known
		}
		if last := c.last(); last != nil && last.ID() == "" && f.name == "" {
			return last
		}
		return c.open()
	case f.name != "":
		last := c.last()
		if last != nil && (last.Name() == "" || last.Name() == f.name && !last.Closed()) {
			return last
		}
		return c.open()
	}
	last := c.last()
	if last == nil {
		return c.open()
	}
	for _, other := range c.list {
		if other != last && !other.Closed() {
			return nil
		}
	}
	return last
}

func (c *calls) placeIndexed(f fragment) *dialect.Block {
	known := c.byIndex[*f.index]
	reused := known != nil && f.id != "" && known.ID() != "" && f.id != known.ID() && f.name != ""
	if known != nil && !reused {
		return known
	}
	if known = c.withID(f.id); known == nil || f.name != "" && known.Closed() {
		known = c.open() // whose id may be that of a call that is complete: some models number their calls badly
	}
	if c.byIndex == nil {
		c.byIndex = map[int64]*dialect.Block{}
	}
	c.byIndex[*f.index] = known
	return known
}

func (c *calls) withID(id string) *dialect.Block {
	if id == "" {
		return nil
	}
	for _, known := range c.list {
		if known.ID() == id {
			return known
		}
	}
	return nil
}

func (c *calls) last() *dialect.Block {
	if len(c.list) == 0 {
		return nil
	}
	return c.list[len(c.list)-1]
}

func (c *calls) open() *dialect.Block {
	started := c.answer.OpenCall()
	c.list = append(c.list, started)
	return started
}

// doubtOpen refuses every call that the fragment might have belonged to.
func (c *calls) doubtOpen() {
	for _, open := range c.list {
		if !open.Closed() || open == c.last() {
			open.Doubt("a part of the arguments came without saying which call it belongs to")
		}
	}
}
