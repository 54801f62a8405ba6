package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

// marked makes a closed session whose rows hold words to look for.
func marked(t *testing.T) (path string, ids []id.EntryID) {
	t.Helper()
	cfg, _ := newConfig(t)
	s := mustOpen(t, cfg)
	m := newMinter(1)
	var u id.UsageID
	u, m.ids = m.ids.Usage()
	ids = []id.EntryID{m.entry(), m.entry(), m.entry(), m.entry()}
	if _, err := s.Commit(tx.Tx{Writes: []tx.Write{
		tx.InsertEntry{Entry: said(ids[0], id.EntryID{}, "the word is entryword")},
		tx.InsertEntry{Entry: said(ids[1], ids[0], strings.Repeat("long ", 2000)+"overflowword")},
		tx.InsertEntry{Entry: entry.Entry{ID: ids[2], Parent: ids[1], Body: entry.Custom{Type: "customword"}}},
		tx.InsertEntry{Entry: said(ids[3], ids[2], "tip")},
		tx.InsertUsage{Row: entry.UsageRow{ID: u, Usage: usage.Usage{Input: 5, TotalTokens: 5, Evidence: usage.Reported(usage.API, usage.Complete)}, Details: new(jsonv.Str("usageword"))}},
		tx.Set(register.FactName, "keyword", jsonv.Str("registerword")),
		tx.Set(register.StrandLeaf, "main", register.Leaf(ids[3])),
	}}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	return cfg.Path, ids
}

// readAll reads everything once and returns the first error.
func readAll(path string, ids []id.EntryID) error {
	r, err := OpenReader(path)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, read := range []func() error{
		func() error { _, err := r.ScanBranch(storage.BranchQuery{Start: ids[len(ids)-1]}); return err },
		func() error {
			_, err := r.ScanBranch(storage.BranchQuery{Start: ids[len(ids)-1], Order: storage.OldestFirst})
			return err
		},
		func() error { _, err := r.ScanEntries(storage.EntryQuery{}); return err },
		func() error { _, err := r.Entries(ids...); return err },
		func() error { _, err := r.ScanUsage(storage.UsageQuery{}); return err },
		func() error { _, err := r.Registers(register.FactName, ""); return err },
		func() error { _, err := r.Registers(register.StrandLeaf, ""); return err },
		func() error { _, err := r.Stats(); return err },
	} {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

func TestAFlippedBitIsFoundByReadAndByCheck(t *testing.T) {
	for _, word := range []string{"entryword", "overflowword", "customword", "usageword", "registerword"} {
		t.Run(word, func(t *testing.T) {
			path, ids := marked(t)
			if err := readAll(path, ids); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			at := bytes.LastIndex(content, []byte(word))
			if at < 0 {
				t.Fatal("the word is not in the file")
			}
			content[at] ^= 1 // still a letter, so still valid JSON
			writeFile(t, path, string(content))
			asType[*storage.CorruptRow](t, readAll(path, ids))
			finds(t, path, storage.RowIntact)
		})
	}
}

// finds fails unless a check names exactly these invariants.
func finds(t *testing.T, path string, want ...storage.Invariant) {
	t.Helper()
	findings, err := Check(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []storage.Invariant
	for _, f := range findings {
		if !slices.Contains(got, f.Invariant) {
			got = append(got, f.Invariant)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("check names %q, want %q: %v", got, want, findings)
	}
}

func TestCheckNamesTheBrokenInvariant(t *testing.T) {
	for name, c := range map[string]struct {
		statements []string
		redo       bool // compute the digests anew, as a faulty writer would
		want       []storage.Invariant
	}{
		"nothing":                    {nil, true, nil},
		"a time":                     {[]string{"UPDATE entries SET ts = ts + 1 WHERE seq = 2"}, false, []storage.Invariant{storage.RowIntact}},
		"a time, consistently":       {[]string{"UPDATE entries SET ts = ts + 1 WHERE seq = 2"}, true, []storage.Invariant{storage.RowIntact}},
		"a type":                     {[]string{"UPDATE entries SET type = 'custom' WHERE seq = 2"}, true, []storage.Invariant{storage.RowIntact}},
		"a parent":                   {[]string{"UPDATE entries SET parent_seq = 1 WHERE seq = 3"}, true, []storage.Invariant{storage.RowIntact, storage.PathIndexed}},
		"a parent that is not there": {[]string{"DELETE FROM entries WHERE seq = 2"}, true, []storage.Invariant{storage.ParentEarlier, storage.RowIntact, storage.IDsIndexed, storage.MessageCount}},
		"a seq inside":               {[]string{`UPDATE entries SET payload = CAST(replace(CAST(payload AS TEXT), '"seq":2', '"seq":1') AS BLOB) WHERE seq = 2`}, true, []storage.Invariant{storage.RowIntact}},
		"a payload":                  {[]string{"UPDATE entries SET payload = CAST('{' AS BLOB) WHERE seq = 2"}, true, []storage.Invariant{storage.RowIntact}},
		"a seq":                      {[]string{"UPDATE registers SET seq = 3 WHERE key = 'keyword'"}, true, []storage.Invariant{storage.SeqUnique}},
		"a seq of zero":              {[]string{"UPDATE registers SET seq = 0 WHERE key = 'keyword'"}, true, []storage.Invariant{storage.SeqUnique}},
		"the next seq":               {[]string{"UPDATE session SET next_seq = 6"}, true, []storage.Invariant{storage.SeqBelowNext}},
		"the message count":          {[]string{"UPDATE session SET message_count = 9"}, true, []storage.Invariant{storage.MessageCount}},
		"the sum of usage":           {[]string{"DELETE FROM usage_ledger", "DELETE FROM ids WHERE seq = 5"}, true, []storage.Invariant{storage.UsageSum}},
		"a ledger row":               {[]string{"UPDATE usage_ledger SET payload = CAST('{}' AS BLOB)"}, true, []storage.Invariant{storage.RowIntact}},
		"an id that leads nowhere":   {[]string{"INSERT INTO ids VALUES (x'00', 99)"}, true, []storage.Invariant{storage.IDsIndexed}},
		"an id without index":        {[]string{"DELETE FROM ids WHERE seq = 1"}, true, []storage.Invariant{storage.IDsIndexed}},
		"an id that leads astray":    {[]string{"UPDATE ids SET seq = 2 WHERE seq = 1"}, true, []storage.Invariant{storage.IDsIndexed}},
		"a namespace":                {[]string{"UPDATE registers SET ns = 'fact.other' WHERE key = 'keyword'"}, true, []storage.Invariant{storage.NamespaceKnown}},
		"a register":                 {[]string{"UPDATE registers SET value = CAST('[' AS BLOB) WHERE key = 'keyword'"}, true, []storage.Invariant{storage.RowIntact}},
		"a leaf that is no entry":    {[]string{`UPDATE registers SET value = CAST('"019b76da-a800-7cc1-beeb-8da1658eec67"' AS BLOB) WHERE key = 'main'`}, true, []storage.Invariant{storage.LeafExists}},
		"a leaf that is no id":       {[]string{"UPDATE registers SET value = CAST('7' AS BLOB) WHERE key = 'main'"}, true, []storage.Invariant{storage.LeafExists}},
		"pending and placed":         {[]string{"UPDATE registers SET ns = 'pending.entry', key = @first WHERE key = 'keyword'"}, true, []storage.Invariant{storage.PendingNotPlaced}},
		"pending under no id":        {[]string{"UPDATE registers SET ns = 'pending.entry' WHERE key = 'keyword'"}, true, []storage.Invariant{storage.PendingNotPlaced}},
		"the session row":            {[]string{"UPDATE session SET created_at = 1"}, false, []storage.Invariant{storage.OneSessionRow}},
		"no session row":             {[]string{"DELETE FROM session"}, false, []storage.Invariant{storage.OneSessionRow}},
		"the usage of the session":   {[]string{"UPDATE session SET usage = CAST('[]' AS BLOB)"}, true, []storage.Invariant{storage.RowIntact}},
		"a depth":                    {[]string{"UPDATE entries SET depth = 1 WHERE seq = 3"}, true, []storage.Invariant{storage.PathIndexed}},
		"a jump":                     {[]string{"UPDATE entries SET jump_seq = 1 WHERE seq = 3"}, true, []storage.Invariant{storage.PathIndexed}},
		"a jump of a root":           {[]string{"UPDATE entries SET jump_seq = 1 WHERE seq = 1"}, true, []storage.Invariant{storage.PathIndexed}},
		"the marks of a path":        {[]string{"UPDATE entries SET marks = 0 WHERE seq = 2"}, true, []storage.Invariant{storage.PathIndexed}},
		"the session's id":           {[]string{"UPDATE session SET session_id = x'0102'"}, true, []storage.Invariant{storage.RowIntact}},
	} {
		t.Run(name, func(t *testing.T) {
			path, ids := marked(t)
			for i, text := range c.statements {
				c.statements[i] = strings.ReplaceAll(text, "@first", "'"+ids[0].String()+"'")
			}
			edit(t, path, c.statements...)
			if c.redo {
				redoDigests(t, path)
			}
			finds(t, path, c.want...)
		})
	}
}

// redoDigests computes every digest anew.
func redoDigests(t *testing.T, path string) {
	t.Helper()
	c, err := dial(path, sqlitedb.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer mustCloseConn(t, c)
	update := func(text string, args ...any) {
		if _, err := c.Exec(text, args...); err != nil {
			t.Fatal(err)
		}
	}
	collect := func(text string) (rows []row) {
		if err := c.Each(text, func(r row) (bool, error) { rows = append(rows, slices.Clone(r)); return true, nil }); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	for _, r := range collect("SELECT " + entryColumns + " FROM entries e") {
		cols := read(r, "")
		h := readHead(cols)
		cols.err = nil
		h.payload = readStored(cols).digest()
		update("UPDATE entries SET payload_digest = ?, digest = ? WHERE seq = ?", h.payload, h.digest(), h.seq)
	}
	for _, r := range collect("SELECT " + usageColumns + " FROM usage_ledger") {
		cols := read(r, "")
		seq, rowID, _, payload := cols.num(), cols.blob(), cols.num(), cols.blob()
		update("UPDATE usage_ledger SET digest = ? WHERE seq = ?", usageDigest(seq, rowID, payload), seq)
	}
	for _, r := range collect("SELECT " + registerColumns + " FROM registers") {
		cols := read(r, "")
		ns, key, seq, _ := cols.text(), cols.text(), cols.num(), cols.num()
		value := readStored(cols)
		update("UPDATE registers SET digest = ? WHERE ns = ? AND key = ?", registerDigest(ns, key, seq, value), ns, key)
	}
	for _, r := range collect("SELECT " + sessionColumns + " FROM session s") {
		cols := read(r, "")
		s := readSession(cols)
		update("UPDATE session SET digest = ?", s.digest())
	}
}

func TestCheckAsksForEachCell(t *testing.T) {
	path, _ := marked(t)
	var asked []string
	findings, err := Check(path, func(a register.Address, c register.Cell) error {
		asked = append(asked, a.String())
		if a.NS == register.FactName {
			return fmt.Errorf("no good: %s", c.Value)
		}
		return nil
	})
	if err != nil || fmt.Sprint(asked) != "[fact.name/keyword strand.leaf/main]" {
		t.Fatalf("asked for %v, %v", asked, err)
	}
	if len(findings) != 1 || findings[0].String() != `cell-valid: fact.name/keyword: no good: "registerword"` {
		t.Errorf("%v", findings)
	}
}

func TestACorruptPageIsFound(t *testing.T) {
	path, ids := marked(t)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(content, []byte("entryword")) / 4096 * 4096
	for i := range 64 {
		content[at+i] = 0xEE
	}
	writeFile(t, path, string(content))
	asType[*storage.CorruptRow](t, readAll(path, ids))
	findings, err := Check(path)
	if err != nil || !slices.ContainsFunc(findings, func(f storage.Finding) bool { return f.Invariant == storage.BackendSound }) {
		t.Errorf("%v, %v", findings, err)
	}
}

func TestABrokenPathIsNotARoot(t *testing.T) {
	for name, statement := range map[string]string{
		"a parent that is not there":  "DELETE FROM entries WHERE seq = 2",
		"a parent that is the child":  "UPDATE entries SET parent_seq = 3 WHERE seq = 2",
		"a parent that is itself":     "UPDATE entries SET parent_seq = 2 WHERE seq = 2",
		"an id that leads to another": "UPDATE ids SET seq = 3 WHERE seq = 4",
	} {
		path, ids := marked(t)
		edit(t, path, statement)
		redoDigests(t, path)
		r, err := OpenReader(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, order := range []storage.Order{storage.OldestFirst, storage.NewestFirst} {
			if _, err := r.ScanBranch(storage.BranchQuery{Start: ids[3], Order: order}); err == nil {
				t.Errorf("%s, order %d: the scan succeeded", name, order)
			} else {
				asType[*storage.CorruptRow](t, err)
			}
		}
		if _, err := r.Entries(ids[3]); strings.HasPrefix(name, "an id") {
			asType[*storage.CorruptRow](t, err)
		}
		mustClose(t, r)
	}
}

func TestADamagedSessionRowRefusesCommits(t *testing.T) {
	cfg, _ := newConfig(t)
	s := mustOpen(t, cfg)
	chain(t, s, newMinter(1), id.EntryID{}, 1)
	edit(t, cfg.Path, "UPDATE session SET next_seq = 1")
	_, err := s.Commit(tx.Tx{})
	asType[*tx.Corruption](t, err)
	_, err = s.Stats()
	asType[*storage.CorruptRow](t, err)
}

// TestARegisterThatItsIndexLostIsNoticed damages a key where the index has it. With few registers each is looked for when a session is opened; with many, those that
// decide how it goes on, and a check finds the others.
func TestARegisterThatItsIndexLostIsNoticed(t *testing.T) {
	result := func(n int) string { return fmt.Sprintf("operation-result/%04d", n) }
	for name, c := range map[string]struct {
		results int
		lost    string // the namespace and the key, as they follow each other in a row
		opens   bool
	}{
		"the leaf, of few":   {10, "strand.leafmain", false},
		"a result, of few":   {10, "fact.custom" + result(5), false},
		"the leaf, of many":  {600, "strand.leafmain", false},
		"the last, of many":  {600, "fact.custom" + result(599), false},
		"a middle, of many":  {600, "fact.custom" + result(300), true},
		"an earlier, of few": {10, "fact.custom" + result(0), false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, _ := newConfig(t)
			s := mustOpen(t, cfg)
			writes := []tx.Write{tx.Set(register.StrandLeaf, "main", register.Leaf(id.EntryID{}))}
			for n := range c.results {
				writes = append(writes, tx.Set(register.FactCustom, result(n), jsonv.Num(int64(n))))
			}
			if _, err := s.Commit(tx.Tx{Writes: writes}); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			content, err := os.ReadFile(cfg.Path)
			if err != nil {
				t.Fatal(err)
			}
			at := -1
			for i := range content { // in the index a row ends with the key and the rowid, in the table values follow
				if bytes.HasPrefix(content[i:], []byte(c.lost)) && isIndexPage(content, i) {
					at = i
				}
			}
			if at < 0 {
				t.Fatal("the key is not in the index")
			}
			content[at+len(c.lost)-1] ^= 0x40 // another key, which sorts elsewhere or not
			writeFile(t, cfg.Path, string(content))
			r, err := OpenReader(cfg.Path)
			if err == nil {
				mustClose(t, r)
			}
			if (err == nil) != c.opens {
				t.Errorf("opening it: %v", err)
			}
			if findings, err := Check(cfg.Path); err == nil && len(findings) == 0 {
				t.Error("a check finds nothing")
			}
		})
	}
}

// isIndexPage tells a page of an index by its first byte.
func isIndexPage(content []byte, at int) bool {
	page := at / 4096 * 4096
	return page > 0 && (content[page] == 2 || content[page] == 10)
}
