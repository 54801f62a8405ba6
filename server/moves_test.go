package server

import (
	"slices"
	"testing"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wireclient"
)

func TestConversationsAreForkedMovedAndCompacted(t *testing.T) {
	f := newFakeSession(t, 1)
	f.oneRun("p", "a")
	_, rt := serve(t, hostOf(f))
	c := wireclient.New(rt, "http://loom")
	at := f.entryID()
	forked, err := c.Fork(t.Context(), f.self, wire.Fork{Session: true, Entry: &at})
	if err != nil || forked.Session != f.self || forked.Strand != "main" || forked.Cursor.Seq == 0 {
		t.Error(forked, err)
	}
	if _, err := c.Fork(t.Context(), f.self, wire.Fork{Session: true, Strand: new("side")}); err == nil {
		t.Error("a strand that is not there was forked")
	}
	if got, err := c.Navigate(t.Context(), f.self, wire.Navigate{Entry: &at, Summarize: true}); err != nil || got.Seq != 7 {
		t.Error(got, err)
	}
	if got, err := c.Navigate(t.Context(), f.self, wire.Navigate{}); err != nil || got.Seq != 7 {
		t.Error(got, err)
	}
	if got, err := c.Compact(t.Context(), f.self, wire.Compact{Instructions: new("short")}); err != nil || got.Seq != 8 {
		t.Error(got, err)
	}
	want := []string{
		"fork at " + at.String(), "main goes to " + at.String() + ", summarize true",
		"main goes to " + id.EntryID{}.String() + ", summarize false", "main is compacted: short",
	}
	if !slices.Equal(f.moves, want) {
		t.Errorf("it was asked %q", f.moves)
	}
}
