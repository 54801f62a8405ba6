package register_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"pgregory.net/rapid"
)

// The stored names are a format. One that is missing or spelt otherwise here makes files of older builds unreadable.
func TestNamespacesAreTheseTwelve(t *testing.T) {
	want := []string{
		"strand.leaf", "strand.config", "strand.state", "strand.last_result", "op.meta", "op.state", "op.tool_args", "op.preparation",
		"pending.entry", "fact.name", "fact.label", "fact.custom",
	}
	var got []string
	for _, n := range register.Namespaces {
		got = append(got, string(n))
		if back, err := register.Parse(string(n)); err != nil || back != n {
			t.Errorf("%s is read as %q, %v", n, back, err)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, s := range []string{"", "strand", "strand.leaf ", "Strand.leaf", "fact", "fact.", "op.state.x", "strand_leaf", strings.Repeat("x", 1_000_000)} {
		n, err := register.Parse(s)
		if r, ok := corrupt.As(err); !ok || n != "" || len(r.Error()) > 20_000 {
			t.Errorf("%.20q is %q, %.100v", s, n, err)
		}
	}
}

func TestLeavesReadBackAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := coretest.MaybeEntryID().Draw(t, "leaf")
		v, err := jsonv.Parse(register.Leaf(want).Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := register.DecodeLeaf(v); err != nil || got != want {
			t.Fatalf("%s reads as %s, %v", v, got, err)
		}
	})
	if got := register.Leaf(id.EntryID{}).String(); got != "null" {
		t.Errorf("the root is %s", got)
	}
	i, _ := id.ParseEntryID("019b76da-a800-7cc1-beeb-8da1658eec67")
	if got := register.Leaf(i).String(); got != `"019b76da-a800-7cc1-beeb-8da1658eec67"` {
		t.Errorf("a leaf is %s", got)
	}
}

func TestOtherLeavesAreRefused(t *testing.T) {
	for _, text := range []string{`""`, `"main"`, `0`, `false`, `[]`, `{}`, `["019b76da-a800-7cc1-beeb-8da1658eec67"]`, `"019b76da-a800-4cc1-beeb-8da1658eec67"`} {
		v, err := jsonv.ParseString(text)
		if err != nil {
			t.Fatal(err)
		}
		i, err := register.DecodeLeaf(v)
		if _, ok := corrupt.As(err); !ok || !i.IsZero() {
			t.Errorf("%s reads as %s, %v", text, i, err)
		}
	}
}

func TestAnAddressNamesItsCell(t *testing.T) {
	if got := (register.Address{NS: register.OpState, Key: "k/1"}).String(); got != "op.state/k/1" {
		t.Error(got)
	}
}
