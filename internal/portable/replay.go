package portable

import (
	"fmt"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/session/projection"
)

// forest is what the recorded entries are together.
type forest struct {
	rows  []entry.Entry
	place map[id.EntryID]int
}

func (f *forest) take(kind string, v jsonv.Value) {
	if kind != "entry" {
		return
	}
	e, err := entry.Decode(v)
	if err != nil {
		return
	}
	if f.place == nil {
		f.place = map[id.EntryID]int{}
	}
	if _, taken := f.place[e.ID]; taken {
		return
	}
	f.place[e.ID] = len(f.rows)
	f.rows = append(f.rows, e)
}

// replay walks from every entry to its newest compaction or its root, and
// projects what it saw.
func (f *forest) replay() []Line {
	policy := projection.Policy{}.With("note", func(c projection.CustomView) message.Message {
		return &message.Custom{Schema: c.Type, Payload: jsonv.Str(c.ID.String())}
	}).WithTransform(func(list []message.Message) []message.Message {
		return append(list, &message.Custom{Schema: "last", Payload: jsonv.Num(int64(len(list)))})
	})
	out := make([]Line, 0, len(f.rows))
	for _, leaf := range f.rows {
		w := &jsonv.Writer{}
		w.BeginArray()
		for _, m := range projection.Project(f.branch(leaf), policy) {
			message.Append(w, m)
		}
		w.EndArray()
		out = append(out, Line{fmt.Sprintf("context at %s", leaf.ID), string(w.Bytes())})
	}
	return out
}

// branch is the path from a leaf, newest first, up to and including the newest
// compaction.
func (f *forest) branch(e entry.Entry) (path []entry.Entry) {
	for len(path) <= len(f.rows) { // a cycle ends too
		path = append(path, e)
		i, ok := f.place[e.Parent]
		if !ok || e.Body.Kind() == entry.KindCompaction {
			break
		}
		e = f.rows[i]
	}
	return path
}
