package sqlite

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
	driversqlite "modernc.org/sqlite"
)

const formatPage = "../../docs/formats/session-file.md"

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(formatPage))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	comments = regexp.MustCompile(`--[^\n]*`)
	spaces   = regexp.MustCompile(`\s+`)
)

func plain(sql string) string {
	return strings.TrimSpace(spaces.ReplaceAllString(comments.ReplaceAllString(sql, ""), " "))
}

func TestTheTablesAreThoseOfTheFormatPage(t *testing.T) {
	_, rest, _ := strings.Cut(page(t), "```sql\n")
	block, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the page has no tables")
	}
	if got, want := plain(strings.Join(schema, ";\n")+";"), plain(block); got != want {
		t.Errorf("the page says\n%s\nand the code\n%s", want, got)
	}
}

func TestTheDigestIsThatOfTheFormatPage(t *testing.T) {
	if check := crc32.Checksum([]byte("123456789"), castagnoli()); check != 0xE3069283 {
		t.Errorf("the check value is %08x", check)
	}
	vector := fmt.Sprintf("`0x%08X`", registerDigest("fact.name", "a", 7, stored{text: []byte(`"b"`)}))
	if !strings.Contains(page(t), vector) {
		t.Errorf("the page does not have the vector %s", vector)
	}
}

// TestTheDigestDoesNotDependOnHowItIsFed compares rows of every length around the
// size that is gathered with the framing written out.
func TestTheDigestDoesNotDependOnHowItIsFed(t *testing.T) {
	framed := func(tag byte, v string) []byte {
		return append(binary.BigEndian.AppendUint64([]byte{tag}, uint64(len(v))), v...)
	}
	for n := range 400 {
		key, value := strings.Repeat("k", n), strings.Repeat("v", 400-n)
		plain := append([]byte{'r'}, framed(2, "fact.name")...)
		plain = append(plain, framed(2, key)...)
		plain = binary.BigEndian.AppendUint64(append(plain, 1), uint64(n))
		plain = append(plain, 0) // no shares
		plain = append(plain, framed(3, value)...)
		if got, want := registerDigest("fact.name", key, int64(n), stored{text: []byte(value)}), int64(crc32.Checksum(plain, castagnoli())); got != want {
			t.Fatalf("key of %d: %08x, want %08x", n, got, want)
		}
	}
}

func TestDigestsTellColumnsApart(t *testing.T) {
	seen := map[int64]string{}
	for _, ns := range []string{"", "a", "ab", "\x00"} {
		for _, key := range []string{"", "b", "bc", "\x00"} {
			for _, value := range []string{"", "c", "bc"} {
				sum := registerDigest(ns, key, 1, stored{text: []byte(value)})
				text := fmt.Sprintf("%q %q %q", ns, key, value)
				if other, ok := seen[sum]; ok {
					t.Errorf("%s and %s have one digest", text, other)
				}
				seen[sum] = text
			}
		}
	}
	h := head{seq: 1, kind: entry.KindCustom}
	absent := h.digest()
	h.customType = new("")
	if h.digest() == absent {
		t.Error("NULL and the empty text have one digest")
	}
	if (stored{text: []byte("a")}).digest() == (stored{shares: []byte("a")}).digest() {
		t.Error("a payload and its shares have one digest")
	}
}

func TestEveryConnectionHasItsPragmas(t *testing.T) {
	cfg, _ := newConfig(t)
	cfg.Synchronous = Full
	s := mustOpen(t, cfg)
	chain(t, s, newMinter(1), id.EntryID{}, 1)
	common := map[string]string{
		"busy_timeout": "5000", "foreign_keys": "1", "synchronous": "2", "temp_store": "2", "trusted_schema": "0", "cell_size_check": "1",
		"journal_mode": "wal", "wal_autocheckpoint": "1000", "journal_size_limit": "-1", "page_size": "4096",
		"application_id": "1282371437", "user_version": "1", "encoding": "UTF-8",
	}
	check := func(name string, c *conn, more map[string]string) {
		for _, list := range []map[string]string{common, more} {
			for pragma, want := range list {
				var got string
				if err := c.Once("PRAGMA "+pragma, func(r row) { got = fmt.Sprint(r[0]) }); err != nil || got != want {
					t.Errorf("%s: %s is %q, %v, want %q", name, pragma, got, err, want)
				}
			}
		}
	}
	check("writer", s.w, map[string]string{"cache_size": "-2048", "query_only": "0"})
	if err := s.query(func(c *conn) error {
		check("reader", c, map[string]string{"cache_size": "-4096", "query_only": "1"})
		_, err := c.Exec("DELETE FROM entries")
		if sqlitedb.Classify(err) != sqlitedb.FaultReadOnly {
			t.Errorf("a reader deleted: %v", err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := s.w.Pragmas([][2]string{{"cache_size", "nonsense"}}); err == nil || !strings.Contains(err.Error(), `is "0" and not "nonsense"`) {
		t.Errorf("a PRAGMA that was not taken: %v", err)
	}
	if !driversqlite.FdatasyncEnabled() || !driversqlite.OFDLockingEnabled() {
		t.Errorf("fdatasync %v, open-file-description locks %v", driversqlite.FdatasyncEnabled(), driversqlite.OFDLockingEnabled())
	}
}

// plan is SQLite's plan for a statement, one step for each line.
func plan(t *testing.T, c *conn, text string, args ...any) string {
	t.Helper()
	var steps []string
	if err := c.Each("EXPLAIN QUERY PLAN "+text, func(r row) (bool, error) {
		steps = append(steps, fmt.Sprint(r[3]))
		return true, nil
	}, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return strings.Join(steps, "\n")
}

func TestScansFollowKeys(t *testing.T) {
	cfg, _ := newConfig(t)
	s := mustOpen(t, cfg)
	type query struct {
		text  string
		args  []any
		wants string // a step
	}
	statements := map[string]query{
		"walk":   {rowsTo, []any{int64(1)}, "SEARCH e USING INTEGER PRIMARY KEY (rowid<?)"},
		"start":  {startOf, []any{[]byte{1}}, "SEARCH i USING PRIMARY KEY (id=?)\nSEARCH e USING INTEGER PRIMARY KEY (rowid=?)"},
		"head":   {headAt, []any{int64(1)}, "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)"},
		"row":    {rowAt, []any{int64(1)}, "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)"},
		"source": {sourceAt, []any{int64(1)}, "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)"},
	}
	for _, order := range []storage.Order{storage.OldestFirst, storage.NewestFirst} {
		for _, q := range []storage.EntryQuery{
			{}, {Limit: new(50)}, {FromSeq: new(int64(3)), Kind: entry.KindMessage}, {CustomType: new("x"), ToSeq: new(int64(9))},
		} {
			q.Order = order
			text, args := entryScan(entryColumns, q)
			statements[fmt.Sprintf("page %+v", q)] = query{text, args, "SEARCH e USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"}
		}
	}
	if err := s.query(func(c *conn) error {
		for name, q := range statements {
			p := plan(t, c, q.text, q.args...)
			if !strings.Contains(p, q.wants) || strings.Contains(p, "TEMP B-TREE") || strings.Contains(p, "SCAN e") || strings.Contains(p, "SCAN i") {
				t.Errorf("%s:\n%s", name, p)
			}
		}
		for text, wants := range map[string]string{
			"SELECT " + registerColumns + " FROM registers WHERE ns = ? AND key >= ? AND key < ? ORDER BY key":  "SEARCH registers USING INDEX sqlite_autoindex_registers_1 (ns=? AND key>? AND key<?)",
			"SELECT " + usageColumns + " FROM usage_ledger WHERE seq BETWEEN ? AND ? ORDER BY seq DESC LIMIT ?": "SEARCH usage_ledger USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
			"SELECT " + entryColumns + " FROM ids i CROSS JOIN entries e ON e.seq = i.seq WHERE i.id = ?":       "SEARCH i USING PRIMARY KEY (id=?)\nSEARCH e USING INTEGER PRIMARY KEY (rowid=?)",
		} {
			args := make([]any, strings.Count(text, "?"))
			if p := plan(t, c, text, args...); p != wants {
				t.Errorf("%s:\n%s", text, p)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestSuccessorBoundsExactlyThePrefix(t *testing.T) {
	for prefix, want := range map[string]string{"a": "b", "a\xff": "b", "az": "a{", "\x00": "\x01", "a\xfe": "a\xff"} {
		if got, ok := successor(prefix); !ok || got != want {
			t.Errorf("%q: %q, %v", prefix, got, ok)
		}
	}
	for _, prefix := range []string{"", "\xff", "\xff\xff"} {
		if got, ok := successor(prefix); ok {
			t.Errorf("%q: %q", prefix, got)
		}
	}
}
