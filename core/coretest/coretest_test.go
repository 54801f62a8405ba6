package coretest_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"pgregory.net/rapid"
)

// A property that is only ever shown half of the values holds for nothing. What must be met is named here; a generator that stops making it fails.
func TestTheGeneratorsReachEveryConstructor(t *testing.T) {
	met := map[string]int{}
	note := func(format string, args ...any) { met[fmt.Sprintf(format, args...)]++ }
	gen := coretest.Entry()
	for seed := range 800 {
		e := gen.Example(seed)
		note("root %v", e.Parent.IsZero())
		switch b := e.Body.(type) {
		case entry.Message:
			noteMessage(note, b.Message)
			note("terminate %v", b.Terminate)
		case entry.Compaction:
			note("compaction with usage %v, empty %v", b.Usage != nil, len(b.RetainedTail) == 0)
		case entry.BranchSummary:
			note("branch from somewhere %v", !b.FromID.IsZero())
		case entry.Custom:
			note("custom absent %v, null %v", b.Data == nil, b.Data != nil && b.Data.IsNull())
		}
	}
	want := []string{
		"root true", "root false", "terminate true", "terminate false", "branch from somewhere true", "branch from somewhere false",
		"compaction with usage true, empty true", "compaction with usage false, empty false",
		"custom absent true, null false", "custom absent false, null true", "custom absent false, null false",
		"text", "image", "thinking", "thinking redacted", "call", "call malformed",
		"origin 0", "origin 1", "origin 2", "origin none", "payload", "names absent", "names empty", "names",
		"stop", "length", "toolUse", "error", "aborted", "deferred",
	}
	for _, w := range want {
		if met[w] == 0 {
			t.Errorf("%q was never generated; met: %v", w, slices.Sorted(maps.Keys(met)))
		}
	}
}

func noteMessage(note func(string, ...any), m message.Message) {
	switch m := m.(type) {
	case *message.User:
		if m.Origin == nil {
			note("origin none")
		} else {
			note("origin %d", m.Origin.Kind())
		}
		for _, b := range m.Content {
			noteBlock(note, b)
		}
	case *message.Assistant:
		note("%s", m.StopReason)
		for _, b := range m.Content {
			noteBlock(note, b)
		}
	case *message.ToolResult:
		switch {
		case m.AddedToolNames == nil:
			note("names absent")
		case len(m.AddedToolNames) == 0:
			note("names empty")
		default:
			note("names")
		}
	case *message.Custom:
		note("payload")
	}
}

func noteBlock(note func(string, ...any), b message.Block) {
	switch b := b.(type) {
	case message.Text:
		note("text")
	case message.Image:
		note("image")
	case message.Thinking:
		note("thinking")
		if b.Redacted {
			note("thinking redacted")
		}
	case message.ToolCall:
		note("call")
		if _, _, malformed := message.AsMalformed(b.Arguments); malformed {
			note("call malformed")
		}
	}
}

func TestTheGeneratorsReachEveryKindOfValue(t *testing.T) {
	kinds, broken := map[jsonv.Kind]int{}, 0
	for seed := range 200 {
		kinds[coretest.Value().Example(seed).Kind()]++
		if !utf8.ValidString(coretest.Text().Example(seed)) {
			t.Fatal("text that is not UTF-8")
		}
		if !utf8.ValidString(coretest.Bytes().Example(seed)) {
			broken++
		}
	}
	if len(kinds) != 7 || broken == 0 {
		t.Errorf("kinds %v, texts that are not UTF-8: %d", kinds, broken)
	}
}

// failures records what a helper reports instead of failing the test that watches it.
type failures struct {
	testing.TB
	n int
}

func (f *failures) Helper()               {}
func (f *failures) Errorf(string, ...any) { f.n++ }

func TestGoldenSeesADifferenceAndWritesOnlyWhenTold(t *testing.T) {
	t.Chdir(t.TempDir())
	coretest.Golden(t, "a/b.txt", []byte("one"), true)
	f := &failures{TB: t}
	coretest.Golden(f, "a/b.txt", []byte("one"), false)
	if f.n != 0 {
		t.Error("the same text failed")
	}
	coretest.Golden(f, "a/b.txt", []byte("two"), false)
	if f.n != 1 {
		t.Error("another text passed")
	}
	if text, err := os.ReadFile("testdata/a/b.txt"); err != nil || string(text) != "one" {
		t.Errorf("the file holds %q, %v", text, err)
	}
}

func TestDiffSeesADifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := coretest.Entry().Draw(t, "entry")
		if d := coretest.Diff(e, e); d != "" {
			t.Fatal(d)
		}
		other := e
		other.Body = entry.Custom{Type: "another", Data: new(jsonv.Str("kind of row"))}
		if coretest.Diff(e, other) == "" {
			t.Fatal("another body is no difference")
		}
	})
}
