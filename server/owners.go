package server

import (
	"slices"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/wire"
)

// Child is a strand that another one started.
type Child struct {
	Strand  string
	Lineage agency.Lineage
	Leaf    id.EntryID
	Op      id.OpID     // what it works on; absent when it rests
	Run     *agency.Run // of that; nil when nobody asked for it
	Began   int64       // of that, Unix ms; 0 when it is not known
	// Last is how its newest run ended; empty when none did, or it did not say.
	Last machine.Outcome
}

// owners tells whose a row is. A row does not say so itself: the rows of a child are
// those between its brief and its leaf, and all others are the main strand's. The
// zero owners knows of no child and looks for some when it is refreshed.
type owners struct {
	children map[string]Child
	of       map[id.EntryID]string
}

// refresh learns the rows that came since.
func (o *owners) refresh(src Source) error {
	children, err := src.Children()
	if err != nil || len(children) == 0 {
		return err
	}
	if o.children == nil {
		o.children, o.of = map[string]Child{}, map[id.EntryID]string{}
	}
	for _, c := range children {
		was, known := o.children[c.Strand]
		if known && was.Leaf == c.Leaf {
			o.children[c.Strand] = c
			continue
		}
		mine := func(e id.EntryID) bool { return o.of[e] == c.Strand }
		rows, err := src.Path(c.Leaf, c.Lineage.Brief, mine)
		if err != nil {
			return err
		}
		for _, e := range rows {
			o.of[e] = c.Strand
		}
		o.children[c.Strand] = c
	}
	return nil
}

// StrandsOf tells of each row of a strand that another one started whose it is. All others
// are the main strand's.
func StrandsOf(src Source) (map[id.EntryID]string, error) {
	var o owners
	err := o.refresh(src)
	if o.of == nil {
		o.of = map[id.EntryID]string{}
	}
	return o.of, err
}

// main keeps the rows of the main strand.
func (o *owners) main(rows []entry.Entry) []entry.Entry {
	return slices.DeleteFunc(slices.Clone(rows), func(e entry.Entry) bool { return o.of[e.ID] != "" })
}

// owned makes a frame that of the strand whose it is.
func owned(f wire.Frame, strand string) wire.Frame {
	f.Strand, f.Lane = strand, laneOf(strand)
	if f.Lane == wire.LaneAgent {
		f.Task = strand
	}
	return f
}
