package node

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loom-run/loom/admin"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/needle"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/events/search"
	"github.com/loom-run/loom/server"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/wire"
)

// spoken has a session answer a prompt.
func spoken(t *testing.T, s *Slot, text string) {
	t.Helper()
	r, err := s.Prompt(Opening{}, session.MainStrand, engine.Prompt{Content: []message.UserBlock{message.Text{Text: text}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.resident().engine.Await(t.Context(), session.MainStrand, r.Op); err != nil {
		t.Fatal(err)
	}
}

func excerpts(r search.Result) (all []string) {
	for _, h := range r.Hits {
		all = append(all, h.Excerpt.Text)
	}
	return all
}

// A person finds what was said in any session as it is now, whether it is open or not, over the wire too; a model finds what was said in its own directory.
func TestWhatWasSaidIsFoundAsSoonAsItIsCommitted(t *testing.T) {
	n, ends, _ := pair(t, map[string][]string{"boss": {"call history_search {\"query\":\"pineapple\"}", "text a pineapple grows", "text fine"}, "clerk": {"text a pineapple is eaten"}})
	find := func(q search.Query) search.Result {
		t.Helper()
		r, now, err := n.Search(q, nil)
		if err != nil || len(now.Unreadable) > 0 {
			t.Fatalf("%+v, %v", now, err)
		}
		return r
	}
	spoken(t, ends[1], "part:clerk go")
	if got := excerpts(find(search.Query{Text: "pineapple"})); !slices.Equal(got, []string{"a pineapple is eaten"}) {
		t.Fatalf("%q", got)
	}
	spoken(t, ends[0], "part:boss go")
	r := find(search.Query{Text: "pineapple", Limit: 10, Newest: true})
	// The model's own search found nothing: the other session is of another directory.
	if got := excerpts(r); !slices.Equal(got, []string{"a pineapple grows", "a pineapple is eaten"}) {
		t.Fatalf("%q", got)
	}
	if got := find(search.Query{Text: "nothing was found", Role: words.SearchTool, Tool: "history_search"}); len(got.Hits) != 1 {
		t.Errorf("the model was told %q", excerpts(got))
	}
	if got := excerpts(find(search.Query{Text: "pineapple", Session: ends[0].id})); len(got) != 1 {
		t.Errorf("in one session: %q", got)
	}

	// The hit can be jumped to, and a fork shows no row twice.
	made, err := n.Fork(ends[0].id, Forking{})
	if err != nil {
		t.Fatal(err)
	}
	r = find(search.Query{Text: "grows", Limit: 10})
	if len(r.Hits) != 1 || r.Hits[0].Copies != 1 {
		t.Errorf("with a fork: %+v", r.Hits)
	}
	for _, s := range []*Slot{ends[0]} {
		src := (&served{slot: s, stop: func() {}}).Source()
		if there, err := src.Has(r.Hits[0].Entry); err != nil || !there {
			t.Errorf("the hit leads nowhere: %v", err)
		}
	}
	c := serving(t, n)
	page, err := c.Search(t.Context(), wire.Search{Query: "pineapple", Limit: new(int64(1))})
	if err != nil || len(page.Hits) != 1 || page.Next == nil || page.Hits[0].Role != words.SearchModel || len(page.Hits[0].Marks) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	page, err = c.Search(t.Context(), wire.Search{Query: "pineapple", Before: page.Next})
	if err != nil || len(page.Hits) != 1 || page.Next != nil || page.Hits[0].Excerpt != "a pineapple is eaten" {
		t.Errorf("the next page: %+v, %v", page, err)
	}
	refusedWith(t, wire.BadRequest, func() error { _, err := c.Search(t.Context(), wire.Search{Query: "***"}); return err })

	// A session whose file is gone is found no more.
	if err := os.Remove(n.home.file(made.Session)); err != nil {
		t.Fatal(err)
	}
	if r = find(search.Query{Text: "grows"}); len(r.Hits) != 1 || r.Hits[0].Copies != 0 {
		t.Errorf("without the fork: %+v", r.Hits)
	}
}

func TestAnIndexIsMadeAnewAndAnErasureLeavesNone(t *testing.T) {
	n, ends, _ := pair(t, map[string][]string{"boss": {"text my password is hunter2secret", "text and more"}})
	spoken(t, ends[0], "part:boss go")
	if err := ends[0].close(); err != nil {
		t.Fatal(err)
	}
	if r, _, err := n.Search(search.Query{Text: "hunter2secret"}, nil); err != nil || len(r.Hits) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := n.closeSearch(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(n.home.searchIndex(), []byte(strings.Repeat("no index ", 999)), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, now, err := n.Search(search.Query{Text: "hunter2secret"}, nil); err != nil || len(r.Hits) != 1 || now.Entries == 0 {
		t.Fatalf("after damage: %+v, %+v, %v", r, now, err)
	}
	told := 0
	if now, err := n.RebuildSearch(func(int, int) { told++ }); err != nil || now.Entries == 0 || told == 0 {
		t.Errorf("made anew: %+v, %v", now, err)
	}
	if h, err := n.SearchHealth(); err != nil || h.Entries == 0 || h.Sessions != 2 || h.Unusable != nil {
		t.Errorf("%+v, %v", h, err)
	}
	if err := n.closeSearch(); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(n.home.searchIndex()) // of before the erasure
	if err != nil {
		t.Fatal(err)
	}
	text, err := needle.New("hunter2secret")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.Erase(admin.Erasure{Needle: text, Session: ends[0].id}); err != nil {
		t.Fatal(err)
	}
	if stale, err := n.SearchHealth(); err != nil || stale.There {
		t.Errorf("an index is there: %+v, %v", stale, err)
	}
	left, err := filepath.Glob(filepath.Join(n.home.dir, "search.db*"))
	if err != nil || len(left) > 0 {
		t.Errorf("an index is left: %v, %v", left, err)
	}
	if err := os.WriteFile(n.home.searchIndex(), old, 0o600); err != nil { // somebody's backup: the generation of the session tells that it is of another one
		t.Fatal(err)
	}
	if r, _, err := n.Search(search.Query{Text: "hunter2secret"}, nil); err != nil || len(r.Hits) != 0 {
		t.Errorf("what was erased is found: %+v, %v", r, err)
	}
	if r, _, err := n.Search(search.Query{Text: "password"}, nil); err != nil || len(r.Hits) != 1 {
		t.Errorf("the rest is not: %+v, %v", r, err)
	}
}

// A session that is being opened or closed is left out and named: a tool must not wait for who waits for it.
func TestASearchWaitsForNobody(t *testing.T) {
	n, ends, _ := pair(t, map[string][]string{"boss": {"text pineapple"}})
	spoken(t, ends[0], "part:boss go")
	ends[0].opening.Lock()
	_, now, err := n.Search(search.Query{Text: "pineapple"}, nil)
	ends[0].opening.Unlock()
	if err != nil || !slices.Contains(now.Unreadable, ends[0].id) {
		t.Errorf("%+v, %v", now, err)
	}
	if r, now, err := n.Search(search.Query{Text: "pineapple"}, nil); err != nil || len(r.Hits) != 1 || len(now.Unreadable) > 0 {
		t.Errorf("afterwards: %+v, %+v, %v", r, now, err)
	}
	var _ server.Host = host{n}
}
