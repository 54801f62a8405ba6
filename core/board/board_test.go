package board_test

import (
	"flag"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/board"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

func boards() *rapid.Generator[board.Board] {
	statuses := []board.Status{board.Pending, board.Active, board.Done, board.Dropped, board.Blocked}
	return rapid.Custom(func(t *rapid.T) board.Board {
		var b board.Board
		for range rapid.IntRange(0, 4).Draw(t, "phases") {
			p := board.Phase{Name: rapid.String().Draw(t, "name"), Tasks: []board.Task{}}
			for range rapid.IntRange(0, 4).Draw(t, "tasks") {
				task := board.Task{Text: rapid.String().Draw(t, "text"), Status: rapid.SampledFrom(statuses).Draw(t, "status")}
				if task.Status == board.Blocked && rapid.Bool().Draw(t, "has reason") {
					task.Reason = new(rapid.String().Draw(t, "reason"))
				}
				p.Tasks = append(p.Tasks, task)
			}
			b.Phases = append(b.Phases, p)
		}
		return b
	})
}

func TestABoardReadsBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := boards().Draw(t, "board")
		got, err := board.Decode(b.Value())
		if err != nil || !got.Value().Equal(b.Value()) {
			t.Fatalf("got %+v, %v", got, err)
		}
		closed, total := b.Count()
		open := 0
		for _, p := range b.Phases {
			for _, task := range p.Tasks {
				if task.Status.Open() {
					open++
				}
			}
		}
		if open+closed != total {
			t.Fatalf("%d open and %d closed of %d", open, closed, total)
		}
		if _, ok := b.Focus(); ok != (len(b.Phases) > 0) {
			t.Fatal("a board with phases has one to show")
		}
	})
}

func TestDecodeIsTotalAndDoesNotJudgeBounds(t *testing.T) {
	for _, text := range []string{
		`[]`, `{}`, `{"phases":{}}`, `{"phases":[{"name":1,"tasks":[]}]}`, `{"phases":[{"name":"a"}]}`,
		`{"phases":[{"name":"a","tasks":[{"text":"x","status":"later"}]}]}`,
		`{"phases":[{"name":"a","tasks":[{"text":"x","status":"blocked","reason":1}]}]}`,
	} {
		v, err := jsonv.ParseString(text)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := board.Decode(v); err == nil {
			t.Errorf("%s was read as %+v", text, b)
		} else if _, ok := corrupt.As(err); !ok {
			t.Errorf("%s: %v is no report", text, err)
		}
	}
	v, err := jsonv.ParseString(`{"phases":[{"name":"a","tasks":[{"text":"x","status":"done","reason":"old"},{"text":"y","status":"blocked","reason":null}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := board.Decode(v); err != nil || b.Phases[0].Tasks[0].Reason != nil || b.Phases[0].Tasks[1].Reason != nil {
		t.Errorf("only a blocked task has a reason, and not always: %+v, %v", b, err)
	}
	huge := board.Board{Phases: []board.Phase{{Name: strings.Repeat("x", 10_000)}}}
	if _, err := board.Decode(huge.Value()); err != nil {
		t.Errorf("a stored board was judged again: %v", err)
	}
}

func TestValidateNamesTheRule(t *testing.T) {
	task := func(text string) board.Task { return board.Task{Text: text, Status: board.Pending} }
	phase := func(name string, tasks ...board.Task) board.Phase { return board.Phase{Name: name, Tasks: tasks} }
	many := func(n int) (p []board.Phase) {
		for i := range n {
			p = append(p, phase(strings.Repeat("p", i+1)))
		}
		return p
	}
	tasks := func(n int) (list []board.Task) {
		for i := range n {
			list = append(list, task(strings.Repeat("t", i+1)))
		}
		return list
	}
	for _, c := range []struct {
		phases []board.Phase
		want   string // "" for a valid board
	}{
		{many(board.MaxPhases), ""},
		{many(board.MaxPhases + 1), "at most 12 phases"},
		{[]board.Phase{phase("a", tasks(board.MaxTasks)...)}, ""},
		{[]board.Phase{phase("a", tasks(board.MaxTasks+1)...)}, "at most 48 tasks"},
		{[]board.Phase{phase(" ")}, "name of a phase is blank"},
		{[]board.Phase{phase(strings.Repeat("a", board.MaxPhaseName+1))}, "at most 48 bytes"},
		{[]board.Phase{phase("a"), phase("a")}, `two phases are named "a"`},
		{[]board.Phase{phase("a", task("x")), phase("b", task("x"))}, `two tasks read "x"`},
		{[]board.Phase{phase("a", task("\t"))}, "text of a task is blank"},
		{[]board.Phase{phase("a", task(strings.Repeat("x", board.MaxTaskText)))}, ""},
		{[]board.Phase{phase("a", task(strings.Repeat("x", board.MaxTaskText+1)))}, "at most 160 bytes"},
		{[]board.Phase{phase("a", board.Task{Text: "x", Status: board.Blocked, Reason: new(strings.Repeat("x", board.MaxReason+1))})}, "at most 200 bytes"},
		{[]board.Phase{phase("a", board.Task{Text: "x", Status: board.Blocked, Reason: new(strings.Repeat("x", board.MaxReason))})}, ""},
		{[]board.Phase{phase("a", board.Task{Text: "x", Status: board.Blocked, Reason: new("\n")})}, "reason of a blocked task is blank"},
		{[]board.Phase{phase("a", board.Task{Text: "x", Status: "later"})}, `not "later"`},
		{[]board.Phase{phase("a", board.Task{Text: "x"})}, `not ""`},
		{[]board.Phase{phase("a\xff")}, "name of a phase is not UTF-8"},
		{[]board.Phase{phase("a", task(strings.Repeat("\xff", 8)))}, "text of a task is not UTF-8"},
	} {
		err := board.Board{Phases: c.phases}.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
		if err == nil {
			if got, err := board.Decode(board.Board{Phases: c.phases}.Value()); err != nil || len(got.Phases) != len(c.phases) {
				t.Errorf("a board that was validated reads back as %+v, %v", got, err)
			}
		}
	}
}

func TestTheCellOfABoardIsThatOfItsStrand(t *testing.T) {
	if got := board.TodoKey("sub:main/x"); got != "agent/sub:main/x/todo" {
		t.Errorf("the key is %q", got)
	}
}

func TestFocusIsTheActiveThenTheOpenThenTheLastPhase(t *testing.T) {
	at := func(s board.Status) board.Phase {
		return board.Phase{Name: string(s), Tasks: []board.Task{{Text: string(s), Status: s}}}
	}
	for _, c := range []struct {
		phases []board.Phase
		want   string
	}{
		{[]board.Phase{at(board.Pending), at(board.Active)}, "active"},
		{[]board.Phase{at(board.Done), at(board.Blocked), at(board.Pending)}, "blocked"},
		{[]board.Phase{at(board.Done), at(board.Dropped)}, "dropped"},
	} {
		if p, ok := (board.Board{Phases: c.phases}).Focus(); !ok || p.Name != c.want {
			t.Errorf("focus %q, want %q", p.Name, c.want)
		}
	}
}

func TestAGlanceReadsBackAndItsKeyNamesTheStrand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := board.Glance{
			Operation: coretest.OpID().Draw(t, "op"), Title: rapid.String().Draw(t, "title"), Summary: rapid.String().Draw(t, "summary"),
			At: rapid.Int64().Draw(t, "at"), Tokens: rapid.Int64().Draw(t, "tokens"),
		}
		if got, err := board.DecodeGlance(g.Value()); err != nil || got != g {
			t.Fatalf("got %+v, %v", got, err)
		}
	})
	if s, ok := board.GlanceStrand(board.GlanceKey("sub:main/x")); !ok || s != "sub:main/x" {
		t.Errorf("strand %q, %v", s, ok)
	}
	for _, key := range []string{"client/glance/", "x/client/glance/main", "client/other/main", ""} {
		if s, ok := board.GlanceStrand(key); ok {
			t.Errorf("%q names strand %q", key, s)
		}
	}
	if _, err := board.DecodeGlance(jsonv.Obj(jsonv.F("operation", jsonv.Str("x")))); err == nil {
		t.Error("half a glance was read")
	}
}

func TestClipIsOneBoundedLineCutBetweenGraphemes(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"  a \n\t b\r\nc ", 64, "a b c"},
		{"abcdef", 6, "abcdef"},
		{"abcdef", 5, "ab…"},
		{"abcdef", 2, "ab"},
		{"ab cdef", 6, "ab…"}, // no space before the ellipsis
		{"e\u0301e\u0301e\u0301", 6, "e\u0301…"},
		{"👩‍👩‍👧 family", 10, "…"}, // the first grapheme alone is longer
		{"x", 0, ""},
	} {
		if got := board.Clip(c.text, c.limit); got != c.want {
			t.Errorf("%q at %d: got %q, want %q", c.text, c.limit, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text, limit := rapid.String().Draw(t, "text"), rapid.IntRange(0, 100).Draw(t, "limit")
		got := board.Clip(text, limit)
		if len(got) > limit || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\t") {
			t.Fatalf("%q at %d: %q", text, limit, got)
		}
	})
}

// The file is the format: cells that earlier builds wrote are read with it, and clients read it too.
func TestGolden(t *testing.T) {
	b := board.Board{Phases: []board.Phase{
		{Name: "plan", Tasks: []board.Task{{Text: "read", Status: board.Done}, {Text: "ask \"why\"", Status: board.Dropped}}},
		{Name: "build", Tasks: []board.Task{
			{Text: "write", Status: board.Active}, {Text: "test", Status: board.Pending},
			{Text: "ship", Status: board.Blocked, Reason: new("no key")}, {Text: "tell", Status: board.Blocked},
		}},
		{Name: "rest"},
	}}
	operation, err := id.ParseOpID("01970000-0000-7000-8000-000000000001")
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for _, v := range []jsonv.Value{
		board.Board{}.Value(), b.Value(),
		board.Glance{Operation: operation, Title: "Fix the parser", Summary: "reading the tests", At: 1767225600000, Tokens: 41200}.Value(),
		board.Glance{Operation: operation}.Value(),
	} {
		lines.WriteString(v.String() + "\n")
	}
	coretest.Golden(t, "cells.jsonl", []byte(lines.String()), *update)
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"phases":[{"name":"a","tasks":[{"text":"x","status":"blocked","reason":"y"}]}]}`)
	f.Add(`{"operation":"01970000-0000-7000-8000-000000000001","title":"t","summary":"","at":1,"tokens":2}`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := jsonv.ParseString(text)
		if err != nil {
			return
		}
		if b, err := board.Decode(v); err == nil {
			if again, err := board.Decode(b.Value()); err != nil || !again.Value().Equal(b.Value()) {
				t.Fatalf("%s reads back as %+v, %v", text, again, err)
			}
		}
		if g, err := board.DecodeGlance(v); err == nil {
			if again, err := board.DecodeGlance(g.Value()); err != nil || again != g {
				t.Fatalf("%s reads back as %+v, %v", text, again, err)
			}
		}
	})
}
