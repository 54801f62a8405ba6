package search

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/internal/cases"
)

const noon = 1_767_268_800_000 // Unix ms

// fake is a session that grows by hand.
type fake struct {
	self       id.SessionID
	generation int64
	rows       []Row
	workspace  string
	stamp      string
	fail       error
	reads      int
}

var ids = id.NewGenerator(clock.Fixed(noon), 1)

func newFake() *fake {
	var s id.SessionID
	s, ids = ids.Session()
	return &fake{self: s, workspace: "/work"}
}

func (f *fake) Session() id.SessionID      { return f.self }
func (f *fake) Workspace() (string, error) { return f.workspace, nil }
func (f *fake) Stamp() string              { return f.stamp }

func (f *fake) Read(after int64, limit int) (Batch, error) {
	f.reads++
	if f.fail != nil {
		return Batch{}, f.fail
	}
	b := Batch{Generation: f.generation, Last: true}
	for _, r := range f.rows {
		if r.Entry.Seq > after {
			if len(b.Rows) == limit {
				b.Last = false
				break
			}
			b.Rows = append(b.Rows, r)
		}
	}
	return b, nil
}

// add commits a row a second after the one before.
func (f *fake) add(m message.Message) Row { return f.body(entry.Message{Message: m}) }

func (f *fake) body(b entry.Body) Row {
	e := entry.Entry{Seq: int64(len(f.rows)) + 1, Timestamp: noon + int64(len(f.rows))*1000, Body: b}
	e.ID, ids = ids.Entry()
	r := Row{Entry: e, Strand: "main"}
	f.rows = append(f.rows, r)
	return r
}

func (f *fake) says(texts ...string) *fake {
	for _, t := range texts {
		f.add(person(t))
	}
	return f
}

func person(text string) *message.User {
	return &message.User{Content: []message.UserBlock{message.Text{Text: text}}}
}

func open(t testing.TB) *Index {
	t.Helper()
	path := filepath.Join(t.TempDir(), "search.db")
	x, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() }) // a test may have closed it
	return x
}

func indexed(t rapidTB, x *Index, sources ...*fake) (n int) {
	t.Helper()
	for _, s := range sources {
		added, err := x.Sync(s)
		if err != nil {
			t.Fatal(err)
		}
		n += added
	}
	return n
}

type rapidTB interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// found is the texts of the hits, marks and all.
func found(t rapidTB, x *Index, q Query) []string {
	t.Helper()
	q.Limit = max(q.Limit, 50)
	r, err := x.Find(q, noon+3600_000)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, h := range r.Hits {
		out = append(out, marked(h.Excerpt))
	}
	return out
}

func marked(e Excerpt) string {
	var b strings.Builder
	at := 0
	for _, m := range e.Marks {
		b.WriteString(e.Text[at:m.From] + "[" + e.Text[m.From:m.To] + "]")
		at = m.To
	}
	return b.String() + e.Text[at:]
}

func TestWordsIdentifiersAndScriptsAreFound(t *testing.T) {
	x := open(t)
	indexed(t, x, newFake().says(
		"修改youer服务端的计划", "明天下午三点开项目评审会议讨论排期", "記憶断裂の問題を調べて", "한국어 검색 테스트입니다",
		"naïve café Straße ΣΊΣΥΦΟΣ", "snake_case camelCase kebab-case v1.2.3 foo.Bar() C++ #42 HTTPServer",
		`100% done_now \path\to`, "the quick brown fox", "ภาษาไทยไม่มีช่องว่าง", "plain c and case and snake",
	))
	for query, want := range map[string][]string{
		"youer": {"修改[youer]服务端的计划"}, "服务端": {"修改youer[服务端]的计划"}, "youer 服务端 修改": {"[修改][youer][服务端]的计划"},
		"项目评审": {"明天下午三点开[项目评审]会议讨论排期"}, "断裂": {"記憶[断裂]の問題を調べて"}, "검색": {"한국어 [검색] 테스트입니다"}, "ไทย": {"ภาษา[ไทย]ไม่มีช่องว่าง"},
		"cafe": {"naïve [café] Straße ΣΊΣΥΦΟΣ"}, "strasse": {"naïve café [Straße] ΣΊΣΥΦΟΣ"}, "σίσυφος": {"naïve café Straße [ΣΊΣΥΦΟΣ]"}, "NAIVE": {"[naïve] café Straße ΣΊΣΥΦΟΣ"},
		"camelCase": {"snake_case [camelCase] kebab-case v1.2.3 foo.Bar() C++ #42 HTTPServer"}, "camelcase": {"snake_case [camelCase] kebab-case v1.2.3 foo.Bar() C++ #42 HTTPServer"},
		"httpserver": {"snake_case camelCase kebab-case v1.2.3 foo.Bar() C++ #42 [HTTPServer]"}, "server": {"snake_case camelCase kebab-case v1.2.3 foo.Bar() C++ #42 HTTP[Server]"},
		"foo.Bar()": {"snake_case camelCase kebab-case v1.2.3 [foo.Bar]() C++ #42 HTTPServer"}, "C++": {"snake_case camelCase kebab-case v1.2.3 foo.Bar() [C++] #42 HTTPServer"},
		"#42": {"snake_case camelCase kebab-case v1.2.3 foo.Bar() C++ [#42] HTTPServer"}, "v1.2.3": {"snake_case camelCase kebab-case [v1.2.3] foo.Bar() C++ #42 HTTPServer"},
		"100%": {`[100%] done_now \path\to`}, "done_now": {`100% [done_now] \path\to`}, `\path`: {`100% done_now \[path]\to`},
		`"quick brown"`: {"the [quick brown] fox"}, `"brown quick"`: nil, "brown quick": {"the [quick] [brown] fox"}, "qui*": {"the [quick] brown fox"}, "ui*": nil,
		"fox AND": nil, "fox -quick": nil, "case -camel": {"plain c and [case] and snake"}, "'; drop table x; --": nil, `fox"`: {"the quick brown [fox]"}, `"fox`: {"the quick brown [fox]"},
		"NEAR(fox brown)": nil, "body:fox": nil, "fox OR zebra": nil, "^fox": {"the quick brown [fox]"}, "fox\x00": {"the quick brown [fox]"}, "+fox": nil,
	} {
		if diff := cmp.Diff(want, found(t, x, Query{Text: query})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
	for _, query := range []string{"", " ", "*", `""`, "-", "-fox", "...", strings.Repeat("word ", 900), strings.Repeat("x", MaxQuery+1)} {
		if _, err := x.Find(Query{Text: query}, noon); !isQueryError(err) {
			t.Errorf("%.20q was looked for: %v", query, err)
		}
	}
}

func isQueryError(err error) bool {
	_, ok := errors.AsType[*QueryError](err)
	return ok
}

// TestTheReportOfASearchThatFindsNothing has somebody else's texts and queries.
func TestTheReportOfASearchThatFindsNothing(t *testing.T) {
	dir := filepath.Join(cases.Dir(t), "bugs", "43.input")
	corpus, err := os.ReadFile(filepath.Join(dir, "corpus.jsonl"))
	if err != nil {
		t.Skip("the report is not here: " + err.Error())
	}
	f, x := newFake(), open(t)
	var all []string
	for line := range strings.Lines(string(corpus)) {
		var row struct{ Text string }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		f.says(row.Text)
		all = append(all, row.Text)
	}
	indexed(t, x, f)
	text, err := os.ReadFile(filepath.Join(dir, "queries.json"))
	if err != nil {
		t.Fatal(err)
	}
	var queries []struct {
		Q    string
		Hits any
	}
	if err := json.Unmarshal(text, &queries); err != nil {
		t.Fatal(err)
	}
	for _, q := range queries {
		r, err := x.Find(Query{Text: q.Q, Limit: 20}, noon)
		want, listed := q.Hits.([]any)
		if !listed {
			if err != nil && !isQueryError(err) {
				t.Errorf("%q: %v", q.Q, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", q.Q, err)
			continue
		}
		var got []any
		for _, h := range r.Hits {
			got = append(got, float64(slices.Index(all, h.Excerpt.Text)))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q found %v, want %v", q.Q, got, want)
		}
	}
}

func TestWhatIsIndexedAndWhatIsNot(t *testing.T) {
	f, x := newFake(), open(t)
	f.add(&message.Assistant{StopReason: message.ToolUse, Content: []message.AssistantBlock{
		message.Thinking{Thinking: "secretthought"}, message.Text{Text: "saidaloud"}, message.ToolCall{ID: "c", Name: "read", Arguments: jsonv.Obj(jsonv.F("path", jsonv.Str("argumentpath")))},
	}})
	f.add(&message.ToolResult{ToolCallID: "c", ToolName: "read", Content: []message.ResultBlock{message.Text{Text: "one"}, message.Image{Data: "aW1hZ2U="}, message.Text{Text: "two"}}})
	f.body(entry.Compaction{Summary: "shortened", RetainedTail: []message.Message{person("keptaside")}})
	f.body(entry.BranchSummary{Summary: "leftbehind"})
	f.body(entry.Custom{Type: "app", Data: new(jsonv.Str("recordofapp"))})
	f.add(&message.Custom{Schema: "s", Payload: jsonv.Str("customtold")})
	indexed(t, x, f)
	for word, role := range map[string]words.SearchRole{"saidaloud": words.SearchModel, "two": words.SearchTool, "shortened": words.SearchSummary, "leftbehind": words.SearchSummary} {
		if got := found(t, x, Query{Text: word, Role: role}); len(got) != 1 {
			t.Errorf("%s as %s: %q", word, role, got)
		}
	}
	if got := found(t, x, Query{Text: "shortened", Kind: entry.KindCompaction}); len(got) != 1 {
		t.Errorf("a compaction: %q", got)
	}
	if got := found(t, x, Query{Text: "shortened", Kind: entry.KindMessage}); got != nil {
		t.Errorf("a compaction as a message: %q", got)
	}
	for _, word := range []string{"secretthought", "argumentpath", "keptaside", "recordofapp", "customtold", "aW1hZ2U"} {
		if got := found(t, x, Query{Text: word}); got != nil {
			t.Errorf("%s: %q", word, got)
		}
	}
	if n := indexed(t, x, f); n != 0 {
		t.Errorf("%d rows were read again", n)
	}
}

func TestFiltersAllHold(t *testing.T) {
	a, b, x := newFake(), newFake(), open(t)
	b.workspace = "/other"
	a.says("apple one")
	a.add(&message.ToolResult{ToolCallID: "c", ToolName: "grep", Content: []message.ResultBlock{message.Text{Text: "apple two"}}})
	b.says("apple three")
	r := b.add(person("apple four"))
	b.rows[len(b.rows)-1].Strand = "sub:main/x"
	indexed(t, x, a, b)
	for _, c := range []struct {
		q    Query
		want []string
	}{
		{Query{Session: a.self}, []string{"[apple] two", "[apple] one"}}, {Query{Role: words.SearchTool}, []string{"[apple] two"}}, {Query{Tool: "grep"}, []string{"[apple] two"}},
		{Query{Workspace: "/other"}, []string{"[apple] four", "[apple] three"}}, {Query{Strand: "sub:main/x"}, []string{"[apple] four"}},
		{Query{Since: noon + 1000}, []string{"[apple] four", "[apple] two"}}, {Query{Until: noon + 1000, Session: b.self}, []string{"[apple] three"}},
		{Query{Session: a.self, Role: words.SearchPerson, Tool: "grep"}, nil}, {Query{Tool: "gre"}, nil}, {Query{Since: noon + 5000}, nil}, {Query{Until: 1}, nil},
	} {
		c.q.Text, c.q.Newest = "apple", true
		if diff := cmp.Diff(c.want, found(t, x, c.q)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.q, diff)
		}
	}
	if got := found(t, x, Query{Session: a.self}); !slices.Equal(got, []string{"apple two", "apple one"}) {
		t.Errorf("the newest of a session: %q", got)
	}
	if got := found(t, x, Query{Session: a.self, Role: words.SearchPerson}); !slices.Equal(got, []string{"apple one"}) {
		t.Errorf("the newest of a person in a session: %q", got)
	}
	if _, err := x.Find(Query{Workspace: "/other"}, noon); !isQueryError(err) {
		t.Errorf("the newest of everywhere: %v", err)
	}
	hits, err := x.Find(Query{Text: "four", Limit: 1}, noon)
	if err != nil || hits.Hits[0].Entry != r.Entry.ID || hits.Hits[0].Session != b.self || hits.Hits[0].At != noon+1000 || hits.Hits[0].Seq != 2 {
		t.Errorf("%+v, %v", hits, err)
	}
}

func TestARowThatForksShareIsOneHit(t *testing.T) {
	a, x := newFake(), open(t)
	a.says("apple one", "apple two")
	b := newFake()
	b.rows = append(b.rows, a.rows...)
	b.says("apple three")
	indexed(t, x, a, b)
	for _, newest := range []bool{true, false} {
		r, err := x.Find(Query{Text: "apple", Newest: newest, Limit: 10}, noon)
		if err != nil || len(r.Hits) != 3 {
			t.Fatalf("%d hits, %v", len(r.Hits), err)
		}
		for _, h := range r.Hits {
			if want := map[bool]int{true: 0, false: 1}[strings.Contains(h.Excerpt.Text, "three")]; h.Copies != want {
				t.Errorf("%s has %d copies", h.Excerpt.Text, h.Copies)
			}
		}
	}
	if err := x.Remove(a.self); err != nil {
		t.Fatal(err)
	}
	if got := found(t, x, Query{Text: "apple"}); len(got) != 3 {
		t.Errorf("with the original gone: %q", got)
	}
}

func TestPagesOfTheNewestAreAllOfThem(t *testing.T) {
	f, x := newFake(), open(t)
	for i := range 57 {
		f.says(fmt.Sprintf("apple %d", i))
	}
	fork := newFake() // whose rows are on no page of their own
	fork.rows = append(fork.rows, f.rows...)
	indexed(t, x, f, fork)
	var all []string
	q := Query{Text: "apple", Newest: true, Limit: 7}
	for {
		r, err := x.Find(q, noon)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range r.Hits {
			all = append(all, h.Excerpt.Text)
		}
		if q.Before = r.Next; q.Before == "" {
			break
		}
	}
	if len(all) != 57 || all[0] != "apple 56" || all[56] != "apple 0" {
		t.Errorf("%d: %q", len(all), all)
	}
	if _, err := x.Find(Query{Text: "apple", Newest: true, Before: "x"}, noon); !isQueryError(err) {
		t.Errorf("a page of nowhere: %v", err)
	}
}

func TestWhatIsNewerAndFitsBetterComesFirst(t *testing.T) {
	f, x := newFake(), open(t)
	f.says("apple", "a long text in which an apple is one word of many others that have nothing to do with it", "pear")
	f.rows[0].Entry.Timestamp = noon - 400*24*3600*1000
	indexed(t, x, f)
	if got := found(t, x, Query{Text: "apple"}); len(got) != 2 {
		t.Fatalf("%q", got)
	}
	f.says("apple apple apple")
	indexed(t, x, f)
	if got := found(t, x, Query{Text: "apple"}); !strings.HasPrefix(got[0], "[apple] [apple]") {
		t.Errorf("%q", got)
	}
	// A clock that went back makes nothing of the future.
	if r, err := x.Find(Query{Text: "apple", Limit: 9}, 0); err != nil || len(r.Hits) != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}
