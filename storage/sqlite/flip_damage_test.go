package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/storage"
)

// answers is what every kind of read says of a session: its rows, one a line, or an
// error.
type answers map[string]reading

type reading struct {
	rows []string
	err  error
}

// ask reads a session in every way there is.
func ask(path string, ids []id.EntryID) (answers, error) {
	r, err := OpenReader(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	a := answers{}
	entries := func(what string, list []entry.Entry, err error) {
		rows := make([]string, len(list))
		for i, e := range list {
			rows[i] = string(entry.Encode(e))
		}
		a[what] = reading{rows, err}
	}
	one := func(what string, v any, err error) { a[what] = reading{[]string{fmt.Sprint(v)}, err} }
	tip := ids[len(ids)-1]
	for what, q := range map[string]storage.BranchQuery{
		"the branch": {Start: tip}, "the branch from its root": {Start: tip, Order: storage.OldestFirst},
		"the newest entry": {Start: tip, Limit: new(1)}, "the custom entries": {Start: tip, Kind: entry.KindCustom},
	} {
		list, err := r.ScanBranch(q)
		entries(what, list, err)
	}
	list, err := r.ScanEntries(storage.EntryQuery{})
	entries("all entries", list, err)
	heads, err := r.ScanEntryHeads(storage.EntryQuery{})
	a["all heads"] = reading{texts(heads), err}
	for i, want := range ids {
		found, err := r.Entries(want)
		list := make([]entry.Entry, 0, 1)
		for _, e := range found {
			list = append(list, e)
		}
		entries(fmt.Sprint("entry ", i), list, err)
	}
	usage, err := r.ScanUsage(storage.UsageQuery{})
	rows := make([]string, len(usage))
	for i, u := range usage {
		var w jsonv.Writer
		entry.AppendUsageRow(&w, u)
		rows[i] = string(w.Bytes())
	}
	a["the ledger"] = reading{rows, err}
	for _, ns := range register.Namespaces {
		cells, err := r.Registers(ns, "")
		a["cells of "+string(ns)] = reading{texts(cells), err}
	}
	leaf, err := leafOf(r)
	one("the leaf", leaf, err)
	stats, err := r.Stats()
	one("the counters", stats, err)
	generation, err := r.Generation()
	one("the generation", generation, err)
	own, parent, err := r.CatalogIdentity()
	one("the identity", fmt.Sprint(own, parent), err)
	return a, nil
}

func texts[T any](list []T) []string {
	rows := make([]string, len(list))
	for i, v := range list {
		rows[i] = fmt.Sprint(v)
	}
	return rows
}

// verdictOf compares what was read with what was written.
type verdictOf struct {
	refused  bool     // the file was not opened
	reported bool     // a read told of damage
	missing  []string // reads that left out rows without a word
	wrong    []string // reads that gave something else
}

func compare(want, got answers, err error) (v verdictOf) {
	if err != nil {
		return verdictOf{refused: true}
	}
	for what, w := range want {
		g := got[what]
		switch {
		case g.err != nil:
			v.reported = true
		case slices.Equal(g.rows, w.rows):
		case within(g.rows, w.rows):
			v.missing = append(v.missing, what)
		default:
			v.wrong = append(v.wrong, what)
		}
	}
	slices.Sort(v.missing)
	return v
}

// within reports whether rows are some of all, in order.
func within(rows, all []string) bool {
	for _, one := range all {
		if len(rows) > 0 && rows[0] == one {
			rows = rows[1:]
		}
	}
	return len(rows) == 0
}

// TestTortureAFlippedBitIsNeverAnotherRow flips bits all over a small session. Opening
// or reading reports damage, or what is read is what was written. What a page says of
// itself has no digest: where that is hit, rows may be missing, and a check says so. A
// register is never missing without a word, since the session would begin anew.
func TestTortureAFlippedBitIsNeverAnotherRow(t *testing.T) {
	path, ids := marked(t)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := ask(path, ids)
	for what, a := range want {
		err = errors.Join(err, a.err)
		if a.err == nil && len(a.rows) == 0 && !strings.HasPrefix(what, "cells of") {
			t.Errorf("%s are none: this shows nothing of them", what)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	every := 16
	if rounds(t) > 1 {
		every = 1
	}
	var mu sync.Mutex
	count := map[string]int{}
	var wg sync.WaitGroup
	work := make(chan flip)
	for range 2 {
		place := filepath.Join(t.TempDir(), "session.db")
		wg.Go(func() {
			for f := range work {
				class := f.judge(t, place, content, want, ids)
				mu.Lock()
				count[class]++
				mu.Unlock()
			}
		})
	}
	for _, f := range flips(content, every) {
		work <- f
	}
	close(work)
	wg.Wait()
	t.Logf("%v", count)
	if count[harmless] == 0 || count[reportedFlip] == 0 || count[notOpened] == 0 {
		t.Error("a class is missing: this shows less than it should")
	}
}

// The classes of a flip.
const (
	harmless     = "harmless"
	reportedFlip = "told by a read"
	notOpened    = "not opened"
	hidden       = "told by a check"
)

// flip changes bytes of a page.
type flip struct {
	at   []int
	mask byte
	free bool // nothing is stored there
}

// flips lists one flip for each byte that says what a page is, for each of every
// bytes that hold something, and for the unused bytes of each page together.
func flips(content []byte, every int) (list []flip) {
	random := rand.New(rand.NewPCG(3, 4))
	add := func(free bool, at ...int) { list = append(list, flip{at, 1 << random.IntN(8), free}) }
	for page := 0; page < len(content); page += 4096 {
		head := page
		if page == 0 {
			head = 100
			for at := range head {
				add(false, at)
			}
		}
		structure, from := layout(content[head : page+4096])
		end := min(head+structure, page+4096)
		for at := head; at < end; at++ {
			add(false, at)
		}
		if from = page + max(from, end-page); from > end {
			var unused []int
			for at := end; at < from; at++ {
				unused = append(unused, at)
			}
			add(true, unused...)
		}
		for at := from + random.IntN(every); at < page+4096; at += every {
			add(false, at)
		}
	}
	return list
}

// layout is how long what a page of a b-tree says of itself is, and where in the page
// its cells begin; for other pages, nothing and 0.
func layout(page []byte) (structure, cells int) {
	switch page[0] {
	case 2, 5:
		structure = 12
	case 10, 13:
		structure = 8
	default:
		return 0, 0
	}
	structure += 2 * int(binary.BigEndian.Uint16(page[3:]))
	if cells = int(binary.BigEndian.Uint16(page[5:])); cells == 0 {
		cells = 1 << 16
	}
	return structure, cells
}

func (f flip) judge(t *testing.T, path string, content []byte, want answers, ids []id.EntryID) (class string) {
	t.Helper()
	where := fmt.Sprintf("page %d, byte %d, mask %02x", f.at[0]/4096+1, f.at[0]%4096, f.mask)
	damaged := slices.Clone(content)
	for _, at := range f.at {
		damaged[at] ^= f.mask
	}
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Error(err)
	}
	got, err := ask(path, ids)
	v := compare(want, got, err)
	if len(v.wrong) > 0 {
		t.Errorf("%s: other rows than were written: %v", where, v.wrong)
	}
	if f.free && (v.refused || v.reported || len(v.missing) > 0) {
		t.Errorf("%s, where nothing is stored: %+v, %v", where, v, err)
	}
	switch {
	case v.refused:
		return notOpened
	case len(v.missing) == 0 && v.reported:
		return reportedFlip
	case len(v.missing) == 0:
		return harmless
	}
	if slices.ContainsFunc(v.missing, func(what string) bool { return strings.HasPrefix(what, "cells of") || what == "the leaf" }) {
		t.Errorf("%s: missing without a word: %v", where, v.missing)
	}
	if findings, err := Check(path); err == nil && len(findings) == 0 {
		t.Errorf("%s: %v leave out rows, and a check finds nothing", where, v.missing)
	}
	return hidden
}
