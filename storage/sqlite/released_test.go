package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/storage"
)

// released is the kept session file of a format, and golden what is in it.
func released(version int64) (file, golden string) {
	return filepath.Join("testdata", fmt.Sprintf("format-%d.db", version)), fmt.Sprintf("format-%d.golden", version)
}

// TestEveryReleasedFormatOpens opens a session of each format that was ever released,
// as it was written then. With -update the file of the current format is made, but
// never made anew: a change that this build can no longer read needs a new version.
func TestEveryReleasedFormatOpens(t *testing.T) {
	file, _ := released(Version)
	if _, err := os.Stat(file); *update && os.IsNotExist(err) {
		keep(t, file)
	}
	for version := int64(1); version <= Version; version++ {
		file, golden := released(version)
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("the session file of format %d is not kept: %v", version, err)
		}
		cfg, _ := newConfig(t)
		writeFile(t, cfg.Path, string(content))
		cfg.Create = false
		s := mustOpen(t, cfg)
		lines := dump(t, s)
		mustClose(t, s)
		sound(t, cfg.Path)
		coretest.Golden(t, golden, []byte(strings.Join(lines, "\n")+"\n"), *update && version == Version)
	}
}

// keep writes a session with a row of every kind, two strands, a fork, and bytes that
// rows share.
func keep(t *testing.T, file string) {
	t.Helper()
	cfg, clock := newConfig(t)
	m := newMinter(5)
	s, ids := shared(t, cfg, m, 8, 4)
	clock.ms += 1000
	chain(t, s, m, ids[2], 3)
	note := entry.Entry{ID: m.entry(), Parent: ids[8], Body: entry.Custom{Type: "note", Data: new(jsonv.Obj(jsonv.F("a", jsonv.Str("ä\u2028"))))}}
	left := entry.Entry{ID: m.entry(), Parent: note.ID, Body: entry.BranchSummary{FromID: ids[7], Summary: "left"}}
	row := entry.UsageRow{EntryID: note.ID, Usage: usage.Usage{Input: 3, TotalTokens: 3, Evidence: usage.Reported(usage.API, usage.Complete)}, Details: new(jsonv.Num(1))}
	row.ID, m.ids = m.ids.Usage()
	mustCommit(t, s, tx.InsertEntry{Entry: note}, tx.InsertEntry{Entry: left}, tx.InsertUsage{Row: row},
		tx.Set(register.StrandLeaf, "side", register.Leaf(left.ID)), tx.Set(register.FactName, "name", jsonv.Str("kept")), tx.Delete(register.FactName, "never"))
	own, next := m.ids.Session()
	if err := s.RecordIdentity(own, id.SessionID{}); err != nil {
		t.Fatal(err)
	}
	m.ids = next
	mustClose(t, s)
	content, err := os.ReadFile(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, string(content))
}

// dump is every row of a session in the order of its seqs, and its counters.
func dump(t *testing.T, s *Store) (lines []string) {
	t.Helper()
	rows, err := s.ScanEntries(storage.EntryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range rows {
		lines = append(lines, string(entry.Encode(e)))
	}
	ledger, err := s.ScanUsage(storage.UsageQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range ledger {
		var w jsonv.Writer
		entry.AppendUsageRow(&w, row)
		lines = append(lines, string(w.Bytes()))
	}
	var all []storage.CellRange
	for _, ns := range register.Namespaces {
		all = append(all, storage.CellRange{NS: ns})
	}
	snap, err := s.Snapshot(all...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range snap.Cells {
		lines = append(lines, fmt.Sprintf("%s at %d: %s", c.Address, c.Seq, c.Value))
	}
	own, parent, err := s.CatalogIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return append(lines, fmt.Sprintf("session %s of %q, generation %d, next %d, %d messages", own, parent, snap.Generation, snap.Next, snap.Stats.Messages))
}
