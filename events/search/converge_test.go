package search

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/storage/sqlitedb"
)

// dump is all that an index holds, without where it came from.
func dump(t rapidTB, x *Index) (all []string) {
	t.Helper()
	if err := x.c.Each("SELECT hex(session), hex(entry), seq, role, tool, strand, text FROM row ORDER BY session, seq", func(r sqlitedb.Row) (bool, error) {
		all = append(all, fmt.Sprint(r))
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
	// Each row is found by its words, and no words lead anywhere else.
	r, _, err := x.c.One("SELECT count(*) FROM words")
	if err != nil || number(r[0]) != int64(len(all)) {
		t.Fatalf("%v rows have words, of %d: %v", r, len(all), err)
	}
	return all
}

// TestRebuiltIsAsIndexedBitByBit: whatever was indexed when, rewritten or removed in between, is what a new index of the same sessions has.
func TestRebuiltIsAsIndexedBitByBit(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		x, err := Open(filepath.Join(dir, fmt.Sprintf("%d.db", n)))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = x.Close() }()
		all := []*fake{newFake(), newFake(), newFake()}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			f := all[rapid.IntRange(0, 2).Draw(t, "session")]
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				f.says(rapid.SliceOfN(rapid.SampledFrom([]string{"apple pie", "服务端", "", "\x00", "fooBar", "a b c"}), 1, 4).Draw(t, "texts")...)
			case 2:
				f.generation++ // a rewrite, which may take out and renumber
				if len(f.rows) > 1 {
					f.rows = f.rows[1:]
					for i := range f.rows {
						f.rows[i].Entry.Seq = int64(i + 1)
					}
				}
			case 3:
				if err := x.Remove(f.self); err != nil {
					t.Fatal(err)
				}
			case 4:
				f.fail = errors.New("unreadable")
				if _, err := x.Sync(f); err == nil {
					t.Fatal("a session that cannot be read was indexed")
				}
				f.fail = nil
			default:
				indexed(t, x, f)
			}
		}
		indexed(t, x, all...)
		y, err := Open(filepath.Join(dir, fmt.Sprintf("%d-anew.db", n)))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = y.Close() }()
		indexed(t, y, all[2], all[0], all[1])
		if diff := cmp.Diff(dump(t, y), dump(t, x)); diff != "" {
			t.Fatalf("-anew +indexed:\n%s", diff)
		}
	})
}

func TestTwoThatIndexSideBySideIndexOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "search.db")
	f := newFake()
	for i := range 2500 {
		f.says(fmt.Sprintf("apple %d", i))
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for range 4 {
		wg.Go(func() {
			x, err := Open(path)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = x.Close() }()
			own := *f // each process reads for itself
			n, err := x.Sync(&own)
			mu.Lock()
			defer mu.Unlock()
			if total += n; err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	x, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = x.Close() }()
	if rows := dump(t, x); total != 2500 || len(rows) != 2500 {
		t.Errorf("%d were indexed and %d are there", total, len(rows))
	}
}

func TestAnIndexThatCannotBeUsedIsMadeAnew(t *testing.T) {
	f := newFake().says("apple")
	for name, spoil := range map[string]func(path string) error{
		"something else": func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("no database "), 999), 0o600) },
		"a short file":   func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
		"another version": func(path string) error {
			c, err := sqlitedb.Open(path, sqlitedb.Options{})
			if err != nil {
				return err
			}
			_, err = c.Exec("PRAGMA user_version = 77")
			return errors.Join(err, c.Close())
		},
		"a torn page": func(path string) error {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			copy(text[100:], bytes.Repeat([]byte{0xFF}, 3000))
			return os.WriteFile(path, text, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "search.db")
			x, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			indexed(t, x, f)
			if err := errors.Join(x.Purge(), x.Close(), spoil(path)); err != nil {
				t.Fatal(err)
			}
			x, err = Open(path)
			if err == nil {
				_, err = x.Find(Query{Text: "apple"}, noon)
				_ = x.Close()
			}
			if _, ok := errors.AsType[*Unusable](err); !ok {
				t.Fatalf("it was opened and read: %v", err)
			}
			if x, err = Remake(path); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = x.Close() }()
			indexed(t, x, f)
			if got := found(t, x, Query{Text: "apple"}); len(got) != 1 {
				t.Errorf("made anew it finds %q", got)
			}
		})
	}
	if _, err := Open(filepath.Join(t.TempDir(), "no", "folder", "search.db")); err == nil {
		t.Error("a path that leads nowhere was opened")
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("a folder was opened")
	}
}

// TestWhatWasPurgedIsNowhereInTheFile looks for the bytes.
func TestWhatWasPurgedIsNowhereInTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "search.db")
	x, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	keep, gone := newFake().says("apple pie"), newFake()
	for i := range 300 {
		gone.says(fmt.Sprintf("hunter2secret%d and apple %s", i, strings.Repeat("filler ", i)))
	}
	indexed(t, x, keep, gone)
	if err := errors.Join(x.Remove(gone.self), x.Purge()); err != nil {
		t.Fatal(err)
	}
	holds := func() bool {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			text, err := os.ReadFile(path + suffix)
			if err == nil && (bytes.Contains(text, []byte("hunter2")) || bytes.Contains(text, []byte("filler"))) {
				return true
			}
		}
		return false
	}
	if holds() {
		t.Error("it is there while the index is open")
	}
	if got := found(t, x, Query{Text: "apple"}); len(got) != 1 {
		t.Errorf("what was kept: %q", got)
	}
	if err := x.Close(); err != nil || holds() {
		t.Errorf("it is there: %v", err)
	}
}

// TestTheTablesAreThoseThatAreWrittenDown: who changes one raises the version.
func TestTheTablesAreThoseThatAreWrittenDown(t *testing.T) {
	x := open(t)
	var all []string
	if err := x.c.Each("SELECT sql FROM sqlite_schema WHERE sql NOT LIKE '%words\\_%' ESCAPE '\\' ORDER BY rowid", func(r sqlitedb.Row) (bool, error) {
		if s, ok := r[0].(string); ok && !strings.HasPrefix(s, "CREATE TABLE 'words_") {
			all = append(all, s)
		}
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(schema, all); diff != "" {
		t.Errorf("-written +there:\n%s", diff)
	}
	if version, _, err := x.c.One("PRAGMA user_version"); err != nil || version[0] != int64(schemaVersion) || schemaVersion != 2 {
		t.Errorf("the version of the file is %v and that of the code %d, %v", version, schemaVersion, err)
	}
}

func FuzzFind(f *testing.F) {
	for _, s := range []string{"fox", `"quick brown" -dog fox*`, "NEAR(a b)", "a\x00b", "服务端", "\xff\xfe", `""""`, "{body}: x", "C++ #42", "ß*"} {
		f.Add(s)
	}
	x, err := Open(filepath.Join(f.TempDir(), "search.db"))
	if err != nil {
		f.Fatal(err)
	}
	if _, err := x.Sync(newFake().says("the quick brown fox", "服务端 C++", "Straße")); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := x.Find(Query{Text: text, Limit: 5}, noon)
		if err != nil && !isQueryError(err) {
			t.Fatalf("%q: %v", text, err)
		}
		for _, h := range r.Hits {
			marked(h.Excerpt)
		}
	})
}

// TestTokensStandWhereTheyCameFrom: spans are in order, within the text, and between characters.
func TestTokensStandWhereTheyCameFrom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := canonical(rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z0-9_ .+#ß服Ä\x{0301}-]{0,40}`)).Draw(t, "text"))
		at := 0
		tokens(text, func(tok token) bool {
			if tok.from < at || tok.to <= tok.from || tok.to > len(text) || tok.text == "" || len(tok.text) > maxToken || strings.ContainsAny(tok.text, " \"\x00") || tok.begin > tok.from {
				t.Fatalf("%+v of %q", tok, text)
			}
			at = tok.to
			return true
		})
		e := excerpt(text, []term{{phrase: []string{"a"}}})
		marked(e)
	})
}
