package storage

import (
	"errors"
	"slices"
	"testing"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/usage"
)

// walk is a Walker written out.
type walk func(v Visitor) error

func (w walk) Walk(v Visitor) error { return w(v) }

func TestCheckFindsExactlyWhatIsBroken(t *testing.T) {
	g := id.NewGenerator(clock.Fixed(1), 1)
	var ids [4]id.EntryID
	for i := range ids {
		ids[i], g = g.Entry()
	}
	ledgerID, _ := g.Usage()
	twin, err := id.ParseUsageID(ids[0].String())
	if err != nil {
		t.Fatal(err)
	}
	said := func(i, parent id.EntryID, seq int64) entry.Entry {
		return entry.Entry{ID: i, Parent: parent, Seq: seq, Body: entry.Message{Message: &message.User{}}}
	}
	spent := usage.Usage{Input: 3, TotalTokens: 3, Evidence: usage.Reported(usage.API, usage.Complete)}
	leaf := func(i id.EntryID, seq int64) func(Visitor) {
		return func(v Visitor) { v.Register("strand.leaf", "main", register.Cell{Seq: seq, Value: register.Leaf(i)}) }
	}
	sound := []func(Visitor){
		func(v Visitor) { v.Session(Stats{Messages: 2, Usage: spent}, 9) },
		func(v Visitor) { v.Entry(said(ids[0], id.EntryID{}, 1)) },
		func(v Visitor) { v.Entry(said(ids[1], ids[0], 2)) },
		func(v Visitor) { v.Usage(entry.UsageRow{ID: ledgerID, Seq: 3, Usage: spent}) },
		leaf(ids[1], 4),
		func(v Visitor) { v.Register("strand.leaf", "empty", register.Cell{Seq: 5}) },
		func(v Visitor) { v.Register("pending.entry", ids[3].String(), register.Cell{Seq: 6}) },
	}
	replaced := func(i int, step func(Visitor)) []func(Visitor) {
		steps := slices.Clone(sound)
		steps[i] = step
		return steps
	}
	for name, c := range map[string]struct {
		steps []func(Visitor)
		want  []Invariant
	}{
		"nothing":                {sound, nil},
		"a parent that is later": {replaced(1, func(v Visitor) { v.Entry(said(ids[0], ids[1], 1)) }), []Invariant{ParentEarlier}},
		"a parent that is a ledger row": {append(slices.Clone(sound), func(v Visitor) {
			same, _ := id.ParseEntryID(ledgerID.String())
			v.Entry(entry.Entry{ID: ids[2], Parent: same, Seq: 7, Body: entry.Custom{Type: "x"}})
		}), []Invariant{ParentEarlier}},
		"an id of two entries":     {replaced(2, func(v Visitor) { v.Entry(said(ids[0], id.EntryID{}, 2)) }), []Invariant{IDUnique, LeafExists}},
		"an id of entry and usage": {replaced(3, func(v Visitor) { v.Usage(entry.UsageRow{ID: twin, Seq: 3, Usage: spent}) }), []Invariant{IDUnique}},
		"a seq of two rows":        {replaced(4, leaf(ids[1], 2)), []Invariant{SeqUnique}},
		"a seq below one":          {replaced(4, leaf(ids[1], -1)), []Invariant{SeqUnique}},
		"a seq to come":            {replaced(4, leaf(ids[1], 9)), []Invariant{SeqBelowNext}},
		"a count too high":         {replaced(0, func(v Visitor) { v.Session(Stats{Messages: 3, Usage: spent}, 9) }), []Invariant{MessageCount}},
		"a sum too low":            {replaced(0, func(v Visitor) { v.Session(Stats{Messages: 2}, 9) }), []Invariant{UsageSum}},
		"a leaf into nothing":      {replaced(4, leaf(ids[2], 4)), []Invariant{LeafExists}},
		"a leaf that is a number": {replaced(4, func(v Visitor) {
			v.Register("strand.leaf", "main", register.Cell{Seq: 4, Value: jsonv.Num(1)})
		}), []Invariant{LeafExists}},
		"a pending entry that is there": {replaced(6, func(v Visitor) {
			v.Register("pending.entry", ids[1].String(), register.Cell{Seq: 6})
		}), []Invariant{PendingNotPlaced}},
		"an unknown namespace": {replaced(6, func(v Visitor) { v.Register("x", "y", register.Cell{Seq: 6}) }), []Invariant{NamespaceKnown}},
		"a damaged entry, whose children still stand": {replaced(1, func(v Visitor) {
			v.Damage(Damage{Finding: Finding{RowIntact, "entry", "bad"}, Table: EntryTable, ID: ids[0], Seq: 1})
		}), []Invariant{RowIntact}},
		"a damaged row at a seq that another has": {replaced(3, func(v Visitor) {
			v.Damage(Damage{Finding: Finding{RowIntact, "usage", "bad"}, Table: UsageTable, Seq: 2})
		}), []Invariant{RowIntact, SeqUnique}},
		"no session row": {replaced(0, func(v Visitor) {
			v.Damage(Damage{Finding: Finding{OneSessionRow, "session", "none"}, Table: SessionTable})
		}), []Invariant{OneSessionRow}},
	} {
		findings := Check(walk(func(v Visitor) error {
			for _, step := range c.steps {
				step(v)
			}
			return nil
		}))
		var got []Invariant
		for _, f := range findings {
			got = append(got, f.Invariant)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, findings, c.want)
		}
	}
}

func TestAWalkThatEndsEarlyIsAFinding(t *testing.T) {
	findings := Check(walk(func(v Visitor) error {
		v.Session(Stats{Messages: 5}, 9)
		return errors.New("the disk is gone")
	}))
	if len(findings) != 1 || findings[0].String() != "backend-sound: walk: the walk over all rows ended early: the disk is gone" {
		t.Errorf("%v", findings)
	}
}
