package search

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/internal/cases"
)

// textsOf reads whatever has the form of a text in a line of somebody's session: the members called text or content that are strings.
func textsOf(v any, out []string) []string {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range []string{"text", "content"} {
			if s, ok := v[name].(string); ok && strings.TrimSpace(s) != "" {
				out = append(out, s)
			}
		}
		for _, name := range []string{"message", "content", "payload"} { // in this order
			out = textsOf(v[name], out)
		}
	case []any:
		for _, e := range v {
			out = textsOf(e, out)
		}
	}
	return out
}

// recorded are sessions that people held with other agents, a row for each text.
func recorded(t *testing.T) (all []*fake) {
	t.Helper()
	root := filepath.Join(cases.Dir(t), "sessions")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".jsonl" {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // it was only read
		f := newFake()
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() && len(f.rows) < 120 {
			var v any
			if json.Unmarshal(lines.Bytes(), &v) == nil {
				f.says(textsOf(v, nil)...)
			}
		}
		if len(f.rows) > 0 {
			all = append(all, f)
		}
		return lines.Err()
	})
	if err != nil || len(all) < 5 {
		t.Skipf("%d recorded sessions are here, %v", len(all), err)
	}
	return all
}

// TestRecordedSessionsAreSearchedLikeByHand compares the index with a reading of every text, for words, phrases and beginnings that the texts have, in the
// scripts that they have, alone and together.
func TestRecordedSessionsAreSearchedLikeByHand(t *testing.T) {
	all, x := recorded(t), open(t)
	indexed(t, x, all...)
	type text struct {
		session id.SessionID
		entry   id.EntryID
		tokens  []token
	}
	var texts []text
	for _, f := range all {
		for _, r := range f.rows {
			_, _, said := textOf(r.Entry)
			row := text{session: f.self, entry: r.Entry.ID}
			tokens(canonical(bounded(said)), func(tok token) bool { row.tokens = append(row.tokens, tok); return true })
			if len(row.tokens) > 0 {
				texts = append(texts, row)
			}
		}
	}
	r := rand.New(rand.NewPCG(4, 3))
	var others [][2]int // where words are that are not ASCII
	for i, row := range texts {
		for k, tok := range row.tokens {
			if tok.text[0] >= 0x80 {
				others = append(others, [2]int{i, k})
			}
		}
	}
	scripts := map[string]int{}
	for n := range 240 {
		row := r.IntN(len(texts))
		at := r.IntN(len(texts[row].tokens))
		if n%3 == 0 && len(others) > 0 {
			place := others[r.IntN(len(others))]
			row, at = place[0], place[1]
		}
		from := texts[row]
		length := min(1+r.IntN(3), len(from.tokens)-at)
		var words []string
		for _, tok := range from.tokens[at : at+length] {
			words = append(words, tok.text)
		}
		query, terms := `"`+strings.Join(words, " ")+`"`, []term{{phrase: words}}
		switch {
		case n%4 == 1:
			query, terms = words[0], []term{{phrase: words[:1]}}
		case n%4 == 2:
			other := from.tokens[r.IntN(len(from.tokens))].text
			query, terms = query+" "+other, append(terms, term{phrase: []string{other}})
		case n%4 == 3 && len(words[0]) > 2 && words[0][0] < 0x80:
			query, terms = words[0][:2]+"*", []term{{phrase: []string{words[0][:2]}, prefix: true}}
		}
		if strings.HasPrefix(query, "-") || strings.Contains(query[:1], "*") {
			continue
		}
		scripts[script(words[0])]++
		var want []string
		for _, row := range texts {
			if slices.ContainsFunc(terms, func(t term) bool { return !t.among(row.tokens) }) {
				continue
			}
			want = append(want, row.entry.String())
		}
		slices.Sort(want)
		var got []string
		q := Query{Text: query, Newest: true, Limit: MaxHits}
		for {
			page, err := x.Find(q, noon)
			if err != nil {
				t.Fatalf("%q: %v", query, err)
			}
			for _, h := range page.Hits {
				got = append(got, h.Entry.String())
				if len(h.Excerpt.Marks) == 0 && len(terms) == 1 {
					t.Errorf("%q: a hit without a mark: %q", query, h.Excerpt.Text)
				}
			}
			if q.Before = page.Next; q.Before == "" {
				break
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%q: the index finds %d and a reading %d:\n%v\n%v", query, len(got), len(want), got, want)
		}
	}
	t.Logf("%d sessions, %d texts, words of %v", len(all), len(texts), scripts)
}

// among reports whether a term is anywhere among tokens, or is an identifier of several of them.
func (t term) among(all []token) bool {
	for i := range all {
		if t.at(all, i) > 0 || all[i].whole != "" && t.is(all[i].whole) {
			return true
		}
	}
	return false
}

func script(word string) string {
	switch r := []rune(word)[0]; {
	case r < 0x80:
		return "ASCII"
	case alone(r):
		return "scripts without spaces"
	}
	return "other letters"
}

// TestAFullDiskLosesNothing fills the file, and goes on when there is room.
func TestAFullDiskLosesNothing(t *testing.T) {
	x, f := open(t), newFake()
	for i := range 5000 {
		f.says(fmt.Sprintf("apple number %d of many that take their room", i))
	}
	if err := x.c.Once("PRAGMA max_page_count = 40", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Sync(f); err == nil || !strings.Contains(err.Error(), "what was indexed before is kept") {
		t.Fatalf("a full disk is %v", err)
	}
	before := dump(t, x)
	if err := x.c.Once("PRAGMA max_page_count = 100000", nil); err != nil {
		t.Fatal(err)
	}
	indexed(t, x, f)
	if after := dump(t, x); len(after) != 5000 || len(before) >= 5000 {
		t.Errorf("%d before and %d after", len(before), len(after))
	}
}

// What is found in recorded transcripts is what a plain look through all of them finds, which knows
// nothing of tokens.
func TestATableOfQueriesFindsWhatAPlainLookFinds(t *testing.T) {
	sources, x, said := recorded(t), open(t), map[id.EntryID]string{}
	indexed(t, x, sources...)
	for _, f := range sources {
		for _, r := range f.rows {
			_, _, said[r.Entry.ID] = textOf(r.Entry)
		}
	}
	for query, plain := range map[string]string{
		// scripts without spaces: one character, two, a run, beside Latin
		"中":            `中`,
		"中文":           `中文`,
		"変数名":          `変数名`,
		"バナナ":          `バナナ`,
		"合計金額":         `合計金額`,
		"版本需求":         `版本需求`,
		"go版本":         `(?i)go\s*版本`,
		"幫我檢查 1.24":    `(?s)幫我檢查.*1\.24`,
		"русский":      `(?i)русский`,
		"resume naive": `(?s)na[iï]ve.*r[eé]sum[eé]`,
		// identifiers, whole, by their parts, by a beginning, in another spelling
		"getallcachedprojects":     `(?i)get_?all_?cached_?projects`,
		"get_all_cached_projects":  `(?i)get[\W_]*all[\W_]*cached[\W_]*projects`,
		"getAllCachedProjects":     `(?i)get[\W_]*all[\W_]*cached[\W_]*projects`,
		"get_all_cached_proj*":     `(?i)get[\W_]*all[\W_]*cached[\W_]*proj`,
		"all_cached":               `(?i)(^|[\W_])all[\W_]*cached([\W_]|$)`,
		".python-version":          `(?i)python\W*version([\W_]|$)`,
		`"format timestamp range"`: `(?i)format[\W_]*timestamp[\W_]*range`,
	} {
		re := regexp.MustCompile(plain)
		var want, got []string
		for e, text := range said {
			if re.MatchString(text) {
				want = append(want, e.String())
			}
		}
		r, err := x.Find(Query{Text: query, Newest: true, Limit: MaxHits}, noon)
		if err != nil {
			t.Errorf("%q: %v", query, err)
			continue
		}
		for _, h := range r.Hits {
			got = append(got, h.Entry.String())
			if len(h.Excerpt.Marks) == 0 {
				t.Errorf("%q: nothing is marked in %q", query, h.Excerpt.Text)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%q finds %d entries and a plain look %d\nonly one has %s", query, len(got), len(want), apartFrom(got, want, said))
		}
	}
}

func apartFrom(got, want []string, said map[id.EntryID]string) string {
	for e, text := range maps.All(said) {
		if slices.Contains(got, e.String()) != slices.Contains(want, e.String()) {
			return fmt.Sprintf("%.300q", text)
		}
	}
	return ""
}
