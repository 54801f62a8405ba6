package node

import (
	"errors"
	"testing"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/server"
	"github.com/loom-run/loom/session"
)

// A person goes back to an entry and on from there, and takes a conversation along into
// a session of its own.
func TestAPersonGoesBackInAConversationAndForksIt(t *testing.T) {
	n, ends, _ := pair(t, map[string][]string{"boss": {"text one", "text two", "text three"}})
	s := &served{slot: ends[0], stop: func() {}}
	ask := func(text string) (last id.EntryID) {
		t.Helper()
		r, err := s.slot.Prompt(Opening{}, session.MainStrand, engine.Prompt{Content: []message.UserBlock{message.Text{Text: text}}})
		if err != nil {
			t.Fatal(err)
		}
		result, err := s.slot.resident().engine.Await(t.Context(), session.MainStrand, r.Op)
		if err != nil {
			t.Fatal(err)
		}
		return result.FinalAssistant
	}
	first := ask("part:boss")
	ask("more")
	moved, err := s.Navigate(t.Context(), server.Navigation{Strand: session.MainStrand, Entry: first})
	if err != nil || moved.Op.IsZero() || moved.Seq == 0 {
		t.Fatal(moved, err)
	}
	if _, err := s.slot.resident().engine.Await(t.Context(), session.MainStrand, moved.Op); err != nil {
		t.Fatal(err)
	}
	again := ask("more, differently")
	if err := s.slot.Read(func(v *session.View) error {
		branch, err := v.Branch(again)
		if err == nil && len(branch) != 4 {
			t.Errorf("the branch has %d entries", len(branch))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	made, err := s.Fork(t.Context(), session.MainStrand, first)
	if err != nil {
		t.Fatal(err)
	}
	slot, err := n.Slot(made)
	if err != nil {
		t.Fatal(err)
	}
	if findings, rows, err := slot.Check(); err != nil || len(findings) != 0 || rows == 0 {
		t.Errorf("the fork has %v, %d rows, %v", findings, rows, err)
	}
	coded := func(err error, want server.Code) {
		t.Helper()
		if r, ok := errors.AsType[*server.Refusal](err); !ok || r.Code != want {
			t.Errorf("it is refused with %v", err)
		}
	}
	_, err = s.Navigate(t.Context(), server.Navigation{Strand: session.MainStrand, Entry: again})
	coded(err, server.BadRequest) // it is there already
	_, err = s.Navigate(t.Context(), server.Navigation{Strand: "side", Entry: first})
	coded(err, server.BadRequest)
	_, err = s.Compact(t.Context(), session.MainStrand, nil)
	coded(err, server.Conflict) // everything is recent
	_, err = s.Fork(t.Context(), "side", first)
	coded(err, server.BadRequest)
}
