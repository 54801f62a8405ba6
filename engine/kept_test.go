package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
)

// stored is every row as it is stored, by its id.
func stored(t *testing.T, w *world) map[id.EntryID]string {
	t.Helper()
	rows, err := w.store.ScanEntries(storage.EntryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[id.EntryID]string{}
	for _, e := range rows {
		all[e.ID] = string(entry.Encode(e))
	}
	return all
}

// TestALaterCompactionLeavesAnEarlierOneAsItWas: rows are written once, and whoever goes back to between the two is shown the earlier summary with what it kept.
func TestALaterCompactionLeavesAnEarlierOneAsItWas(t *testing.T) {
	w := newWorld()
	p := boot(t, w, nil, compacting(&bookish{w: w, turns: []turn{say(long("one")), say(long("two")), say(long("three")), say(long("four"))}}))
	compact := func() {
		t.Helper()
		op, err := p.Compact(session.MainStrand, nil)
		if err != nil {
			t.Fatal(err)
		}
		finish(t, p, op)
	}
	finish(t, p, prompt(t, p, text(long("first"))))
	finish(t, p, prompt(t, p, text(long("second"))))
	compact()
	between := finish(t, p, prompt(t, p, text(long("third")))).FinalAssistant
	early, seen := stored(t, w), shown(t, w)

	finish(t, p, prompt(t, p, text(long("fourth"))))
	compact()
	late := stored(t, w)
	for i, row := range early {
		if late[i] != row {
			t.Errorf("a row was changed by what came later:\n%s\n%s", row, late[i])
		}
	}
	made := compactions(t, w)
	if len(made) != 2 || made[0].Summary == made[1].Summary {
		t.Fatalf("%+v", made)
	}
	op, err := p.Navigate(session.MainStrand, machine.NavigationIntent{TargetID: between})
	if err != nil {
		t.Fatal(err)
	}
	finish(t, p, op)
	if diff := cmp.Diff(seen, shown(t, w)); diff != "" {
		t.Errorf("what was shown between the two (-then +now):\n%s", diff)
	}
	rows, err := w.store.ScanEntries(storage.EntryQuery{Kind: entry.KindCompaction})
	if err != nil || len(rows) != 2 {
		t.Errorf("%d compactions, %v", len(rows), err)
	}
	settled(t, w)
}
