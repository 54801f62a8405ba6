package node

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/server"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage/sqlite"
)

const epoch = 1_767_225_600_000

func now() int64 { return epoch }

// home is a state root with one session, in which commit was made.
func home(t *testing.T, commit tx.Tx) (*Node, id.SessionID) {
	t.Helper()
	n := New(Config{Home: Home{t.TempDir()}, Now: now})
	if err := n.home.create(); err != nil {
		t.Fatal(err)
	}
	s, _ := id.NewGenerator(clock.Fixed(epoch), 1).Session()
	store := writer(t, n.home.file(s))
	if _, err := store.Commit(commit); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return n, s
}

// writer opens a session file as another handle would.
func writer(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(sqlite.Config{Path: path, Owner: owner(), Clock: now, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func listed(t *testing.T, n *Node) []Summary {
	t.Helper()
	all, err := n.List()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func set(ns register.Namespace, key string, v jsonv.Value) tx.Tx {
	return tx.Tx{Writes: []tx.Write{tx.Set(ns, key, v)}}
}

func TestOnlyASessionWithoutARowIsHidden(t *testing.T) {
	for name, c := range map[string]struct {
		commit tx.Tx
		shown  int
	}{
		"no row":      {tx.Tx{}, 0},
		"a workspace": {set(register.FactCustom, session.WorkspaceKey, jsonv.Str("/w")), 1},
		"a name":      {set(register.FactName, "k", jsonv.Str("v")), 1},
		"an id":       {set(register.FactCustom, session.IDKey, jsonv.Str("019b76da-a800-7cc1-beeb-8da1658eec67")), 1},
	} {
		n, _ := home(t, c.commit)
		if got := listed(t, n); len(got) != c.shown {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestACutSessionIsListedAsUnreadable(t *testing.T) {
	n, s := home(t, set(register.FactName, "k", jsonv.Str("v")))
	path := n.home.file(s)
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, st.Size()-1); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, n); len(got) != 1 || got[0].Status != Unreadable || got[0].Err == nil {
		t.Errorf("%+v", got)
	}
}

func TestAnOpenOperationIsHeldWhileAnotherHoldsTheLease(t *testing.T) {
	var op id.OpID
	op, _ = id.NewGenerator(clock.Fixed(epoch), 2).Op()
	n, s := home(t, set(register.StrandState, session.MainStrand, machine.StrandState{CurrentOperation: op}.Value()))
	status := func() server.Info {
		t.Helper()
		all, err := n.Host().List(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		return all[0]
	}
	if got := status(); got.Status != server.Interrupted || got.Note != nil {
		t.Errorf("nobody drives it: %+v", got)
	}
	other := writer(t, n.home.file(s))
	if got := status(); got.Status != server.HeldByOther || got.Note == nil || !strings.Contains(*got.Note, fmt.Sprintf("pid %d on ", os.Getpid())) {
		t.Errorf("another handle drives it: %+v", got)
	}
	if _, err := other.Commit(set(register.StrandState, session.MainStrand, machine.StrandState{}.Value())); err != nil {
		t.Fatal(err)
	}
	if got := status(); got.Status != server.Idle {
		t.Errorf("nothing runs, though the lease is held: %+v", got)
	}
}
