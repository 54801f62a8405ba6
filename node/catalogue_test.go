package node

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/policy"
)

// A list that remembers says what one says that looks into every file, whatever happened to the files and to the memory in between.
func TestAListThatRemembersSaysTheSame(t *testing.T) {
	n := New(Config{Home: Home{t.TempDir()}, Models: &cast{parts: map[string][]string{"boss": {"text fine", "text more"}}, once: map[string]bool{}}, Now: now, Retry: DefaultRetry()})
	t.Cleanup(func() { _ = n.Close() })
	var slots []*Slot
	for range rememberFrom + 2 {
		s, err := n.Create(t.TempDir(), policy.BypassPermissions, nil)
		if err != nil {
			t.Fatal(err)
		}
		spoken(t, s, "part:boss go")
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		slots = append(slots, s)
	}
	same := func(when string) []Summary {
		t.Helper()
		got, err := n.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, sum := range got {
			slot, err := n.Slot(sum.ID)
			if err != nil {
				t.Fatal(err)
			}
			if looked := fmt.Sprintf("%+v", slot.Summary()); looked != fmt.Sprintf("%+v", sum) {
				t.Errorf("%s: the file says %s, and the list %+v", when, looked, sum)
			}
		}
		return got
	}
	for _, s := range slots { // they were written long enough ago to be known by their looks
		if err := os.Chtimes(n.home.file(s.id), time.Time{}, time.Unix(1_700_000_000, 0)); err != nil {
			t.Fatal(err)
		}
	}
	same("the first time")
	c := n.recollect(idsOf(slots))
	if len(c.lines) != len(slots) {
		t.Fatalf("%d lines are remembered of %d", len(c.lines), len(slots))
	}
	c.close()
	same("remembered")
	spoken(t, slots[3], "and more")
	if err := slots[3].close(); err != nil {
		t.Fatal(err)
	}
	same("after a change")
	if err := os.WriteFile(n.home.file(slots[5].id), []byte("no session"), 0o600); err != nil {
		t.Fatal(err)
	}
	unreadable := 0
	got, err := n.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, sum := range got {
		if sum.Status == Unreadable {
			unreadable++
		}
	}
	if unreadable != 1 || len(got) != len(slots) {
		t.Errorf("%d of %d are unreadable", unreadable, len(got))
	}
	if err := os.Remove(n.home.file(slots[5].id)); err != nil {
		t.Fatal(err)
	}
	if got := same("after one is gone"); len(got) != len(slots)-1 {
		t.Errorf("%d are listed", len(got))
	}
	if err := os.WriteFile(n.home.catalogue(), []byte("nothing that could be read, and longer than a page of a database is at least, which is five hundred bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	same("with a spoilt memory")
	same("with a new one")
}

func idsOf(slots []*Slot) (all []id.SessionID) {
	for _, s := range slots {
		all = append(all, s.id)
	}
	return all
}
