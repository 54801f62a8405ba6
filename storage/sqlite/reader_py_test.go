package sqlite

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
)

// TestThePageIsEnoughToReadASession runs a reader that was written from the format
// page, and knows nothing of this package, on a session with forks, a compaction and
// shared bytes.
func TestThePageIsEnoughToReadASession(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to run the second reader of the format with")
	}
	script := filepath.FromSlash("../../docs/formats/read_session.py")
	cfg, _ := newConfig(t)
	m := newMinter(1)
	s, ids := shared(t, cfg, m, 12, 6)
	chain(t, s, m, ids[3], 5) // another branch, which moves the leaf of main
	leaf := said(m.entry(), ids[len(ids)-1], "after the compaction, \u00e4\u2028\"quoted\"\n")
	mustCommit(t, s, tx.InsertEntry{Entry: leaf}, tx.Set(register.StrandLeaf, "side", register.Leaf(leaf.ID)), tx.Set(register.StrandLeaf, "new", register.Leaf(id.EntryID{})))
	branches := map[string][]string{"new": nil}
	for _, strand := range []string{"main", "side"} {
		cell, _, err := s.Register(register.StrandLeaf, strand)
		if err != nil {
			t.Fatal(err)
		}
		at, err := register.DecodeLeaf(cell.Value)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := s.ScanBranch(storage.BranchQuery{Start: at, Order: storage.OldestFirst})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range rows {
			branches[strand] = append(branches[strand], string(entry.Encode(e)))
		}
	}
	mustClose(t, s)
	for strand, want := range branches {
		out, err := exec.Command(python, script, cfg.Path, strand).Output()
		if err != nil {
			t.Fatalf("%s: %v", strand, err)
		}
		if got := strings.TrimSuffix(string(out), "\n"); got != strings.Join(want, "\n") {
			t.Errorf("%s is read as\n%s\nwant\n%s", strand, got, strings.Join(want, "\n"))
		}
	}
	edit(t, cfg.Path, "UPDATE entries SET marks = marks + 1 WHERE seq = 3")
	if out, err := exec.Command(python, script, cfg.Path).CombinedOutput(); err == nil || !strings.Contains(string(out), "the entry at seq 3 is damaged") {
		t.Errorf("a damaged row: %v, %s", err, out)
	}
}
