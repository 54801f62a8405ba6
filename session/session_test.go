package session_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/projection"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/memory"
)

func newStore() *memory.Store { return memory.New(func() int64 { return 1_767_225_600_000 }) }

func generator(seed uint64) id.Generator {
	return id.NewGenerator(clock.Fixed(1_767_225_600_000), seed)
}

func mustCommit(t *testing.T, s storage.Store, writes ...tx.Write) tx.Result {
	t.Helper()
	r, err := s.Commit(tx.Tx{Writes: writes})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// faulty is a store that does as a test says before it does its work.
type faulty struct {
	storage.Store
	beforeCommit func() error // nil: nothing
	read         error        // of every register
}

func (f *faulty) Commit(t tx.Tx) (tx.Result, error) {
	if hook := f.beforeCommit; hook != nil {
		f.beforeCommit = nil
		if err := hook(); err != nil {
			return tx.Result{}, err
		}
	}
	return f.Store.Commit(t)
}

func (f *faulty) Register(ns register.Namespace, key string) (register.Cell, bool, error) {
	if f.read != nil {
		return register.Cell{}, false, f.read
	}
	return f.Store.Register(ns, key)
}

func (f *faulty) Registers(ns register.Namespace, prefix string) ([]storage.KeyedCell, error) {
	if f.read != nil {
		return nil, f.read
	}
	return f.Store.Registers(ns, prefix)
}

func TestIdentityIsMintedOnceAndStaysAcrossOpenings(t *testing.T) {
	store := newStore()
	if _, ok, err := session.New(store).ID(); ok || err != nil {
		t.Fatalf("a new store has an id: %v, %v", ok, err)
	}
	first, after, err := session.New(store).EnsureID(generator(1))
	if err != nil || first.IsZero() {
		t.Fatalf("got %v, %v", first, err)
	}
	if next, _ := after.Draw(); next == first0(generator(1)) {
		t.Error("the generator that was used for minting was returned as it was")
	}
	again, unused, err := session.New(store).EnsureID(generator(2))
	if err != nil || again != first {
		t.Errorf("a second opening got %v, %v; the id is %v", again, err, first)
	}
	if first0(unused) != first0(generator(2)) {
		t.Error("an opening that minted nothing used its generator")
	}
	if seen, ok, err := session.NewView(store).ID(); seen != first || !ok || err != nil {
		t.Errorf("a reader sees %v, %v, %v", seen, ok, err)
	}
}

// first0 is the first draw of a generator.
func first0(g id.Generator) uint64 {
	n, _ := g.Draw()
	return n
}

func TestOfTwoMintersOneWinsAndBothLearnWhich(t *testing.T) {
	store := newStore()
	var winner id.SessionID
	loser := &faulty{Store: store, beforeCommit: func() (err error) {
		winner, _, err = session.New(store).EnsureID(generator(1))
		return err
	}}
	got, after, err := session.New(loser).EnsureID(generator(2))
	if err != nil || got != winner || winner.IsZero() {
		t.Errorf("the loser got %v, %v; the winner minted %v", got, err, winner)
	}
	if first0(after) == first0(generator(2)) {
		t.Error("the loser minted too, and its generator must say so")
	}
}

func TestManyMintersAgree(t *testing.T) {
	store := newStore()
	got := make([]id.SessionID, 8)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			s, _, err := session.New(store).EnsureID(generator(uint64(i)))
			if err != nil {
				t.Error(err)
			}
			got[i] = s
		})
	}
	wg.Wait()
	for _, s := range got {
		if s != got[0] || s.IsZero() {
			t.Errorf("minters got %v", got)
			break
		}
	}
}

func TestAnIdThatVanishesAfterALostRaceIsAFaultOfTheStore(t *testing.T) {
	store := newStore()
	loser := &faulty{Store: store, beforeCommit: func() error {
		return &tx.StaleExpectation{Failed: tx.ExpectAbsent(register.FactCustom, session.IDKey)}
	}}
	if _, _, err := session.New(loser).EnsureID(generator(1)); !isFault(err) {
		t.Errorf("got %v", err)
	}
}

func isFault(err error) bool {
	_, fault := errors.AsType[*storage.BackendFault](err)
	_, damaged := errors.AsType[*session.Corrupt](err)
	return fault && !damaged
}

func isCorrupt(err error) bool {
	_, fault := errors.AsType[*storage.BackendFault](err)
	_, damaged := errors.AsType[*session.Corrupt](err)
	return damaged && !fault
}

func TestASessionIsFoundedOnceWholeOrNotAtAll(t *testing.T) {
	store := newStore()
	s := session.New(store)
	first, g := generator(1).Session()
	other, _ := g.Session()
	main := machine.Configuration{Model: machine.ModelRef{Provider: "p", ModelID: "m"}, ThinkingLevel: machine.ThinkingOff}
	if err := s.Found(first, "/dir", main); err != nil {
		t.Fatal(err)
	}
	if err := s.Found(other, "/elsewhere", main); !isCorrupt(err) {
		t.Errorf("founded again: %v", err)
	}
	if got, _, err := s.EnsureID(generator(2)); err != nil || got != first {
		t.Errorf("the session is %v, %v; it was founded as %v", got, err, first)
	}
	if got, ok, err := session.NewView(store).Workspace(); got != "/dir" || !ok || err != nil {
		t.Errorf("a reader sees %q, %v, %v", got, ok, err)
	}
	if c, ok, err := s.StrandConfig(session.MainStrand); !ok || err != nil || c.Value.Model.ModelID != "m" {
		t.Errorf("the main strand: %+v, %v, %v", c, ok, err)
	}
	half := newStore()
	if err := session.New(half).EnsureStrand(session.MainStrand, main); err != nil {
		t.Fatal(err)
	}
	if err := session.New(half).Found(first, "/dir", main); !isCorrupt(err) {
		t.Errorf("founded over a strand: %v", err)
	}
	if _, ok, _ := session.NewView(half).ID(); ok {
		t.Error("a refused founding left an id")
	}
	placed := newStore()
	mustCommit(t, placed, tx.Set(register.FactCustom, session.WorkspaceKey, jsonv.Str("/theirs")))
	if err := session.New(placed).Found(first, "/dir", main); !isCorrupt(err) {
		t.Errorf("founded in a directory that another founding chose: %v", err)
	}
}

// catalogue is a store with a row that shows the identity.
type catalogue struct {
	storage.Store
	self, parent id.SessionID
	calls        int
	err          error
}

func (c *catalogue) RecordIdentity(self, parent id.SessionID) error {
	c.calls++
	if c.err == nil {
		c.self, c.parent = self, parent
	}
	return c.err
}

func TestTheCatalogueIsRepairedAtEachOpeningAndItsFailureIsNoFailure(t *testing.T) {
	store := &catalogue{Store: newStore(), err: errors.New("a read-only disk")}
	self, _, err := session.New(store).EnsureID(generator(1))
	if err != nil || store.calls != 1 {
		t.Fatalf("%v after %d calls", err, store.calls)
	}
	parent, _ := generator(9).Session()
	mustCommit(t, store, tx.Set(register.FactCustom, session.ParentKey, jsonv.Str(parent.String())))
	store.err = nil
	if _, _, err := session.New(store).EnsureID(generator(2)); err != nil || store.self != self || store.parent != parent {
		t.Errorf("the row says %v from %v, %v", store.self, store.parent, err)
	}
}

func TestAStrandIsSeededOnceWithAllItsRegisters(t *testing.T) {
	store := newStore()
	s := session.New(store)
	config := machine.Configuration{Model: machine.ModelRef{Provider: "p", ModelID: "m"}, ThinkingLevel: machine.ThinkingLow, ActiveToolNames: []string{"read"}}
	if err := s.EnsureStrand("main", config); err != nil {
		t.Fatal(err)
	}
	other := config
	other.ThinkingLevel = machine.ThinkingMax
	if err := s.EnsureStrand("main", other); err != nil {
		t.Fatal(err)
	}
	got, ok, err := s.StrandConfig("main")
	if diff := coretest.Diff(config, got.Value); !ok || err != nil || diff != "" || got.Seq != 1 {
		t.Errorf("configuration at seq %d, %v, %v: %s", got.Seq, ok, err, diff)
	}
	leaf, ok, err := s.StrandLeaf("main")
	if !ok || err != nil || !leaf.Value.IsZero() || leaf.Seq != 2 {
		t.Errorf("leaf %+v, %v, %v", leaf, ok, err)
	}
	state, ok, err := s.StrandState("main")
	if !ok || err != nil || !state.Value.CurrentOperation.IsZero() || len(state.Value.PendingNextRun) > 0 || state.Seq != 3 {
		t.Errorf("state %+v, %v, %v", state, ok, err)
	}
	if _, ok, err := s.StrandLeaf("other"); ok || err != nil {
		t.Errorf("a strand that was not seeded has a leaf: %v, %v", ok, err)
	}
	if strands, err := s.Strands(); err != nil || len(strands) != 1 || strands[0] != "main" {
		t.Errorf("strands %v, %v", strands, err)
	}
}

func TestOfTwoSeedersOneWinsAndTheOtherIsContent(t *testing.T) {
	store := newStore()
	mine := machine.Configuration{ThinkingLevel: machine.ThinkingLow}
	theirs := machine.Configuration{ThinkingLevel: machine.ThinkingHigh}
	loser := &faulty{Store: store, beforeCommit: func() error { return session.New(store).EnsureStrand("main", theirs) }}
	if err := session.New(loser).EnsureStrand("main", mine); err != nil {
		t.Fatal(err)
	}
	got, _, err := session.NewView(store).StrandConfig("main")
	if err != nil || got.Value.ThinkingLevel != machine.ThinkingHigh || got.Seq != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A strand is seeded whole or not at all: with any of its registers there, somebody else was at it.
func TestSeedingExpectsTheAbsenceOfEveryRegisterOfTheStrand(t *testing.T) {
	for _, ns := range []register.Namespace{register.StrandLeaf, register.StrandState} {
		store := newStore()
		mustCommit(t, store, tx.Set(ns, "main", jsonv.Str("theirs")))
		if err := session.New(store).EnsureStrand("main", machine.Configuration{}); err != nil {
			t.Errorf("%s was there: %v", ns, err)
		}
		if _, ok, err := store.Register(register.StrandConfig, "main"); ok || err != nil {
			t.Errorf("%s was there, and the rest was seeded: %v, %v", ns, ok, err)
		}
		if c, _, err := store.Register(ns, "main"); err != nil || c.Seq != 1 || c.Value.String() != `"theirs"` {
			t.Errorf("%s is %s at %d, %v", ns, c.Value, c.Seq, err)
		}
	}
}

func TestBootRefusalsKeepDamageAndFaultApart(t *testing.T) {
	holder := "somebody"
	damage := &tx.Corruption{Report: corrupt.New("test", "subject", "something", "nothing")}
	for name, c := range map[string]struct {
		refusal error
		right   func(error) bool
	}{
		"corruption": {damage, isCorrupt},
		"fault":      {&tx.Faulted{Reason: "the disk is full"}, isFault},
		"lease":      {&tx.LeaseLost{HeldBy: &holder}, isFault},
	} {
		for what, call := range map[string]func(*session.Session) error{
			"EnsureID": func(s *session.Session) error { _, _, err := s.EnsureID(generator(1)); return err },
			"Found": func(s *session.Session) error {
				self, _ := generator(1).Session()
				return s.Found(self, "/dir", machine.Configuration{})
			},
			"EnsureStrand": func(s *session.Session) error { return s.EnsureStrand("main", machine.Configuration{}) },
		} {
			store := &faulty{Store: newStore(), beforeCommit: func() error { return c.refusal }}
			err := call(session.New(store))
			if !c.right(err) || !errors.Is(err, c.refusal) && !errors.Is(err, errors.Unwrap(c.refusal)) {
				t.Errorf("%s refused by %s: %v", what, name, err)
			}
			if name == "lease" && err.Error() != tx.DescribeLeaseLoss(&holder) {
				t.Errorf("%s words the loss of a lease as %q", what, err)
			}
		}
	}
}

func TestABranchIsReadUpToTheNewestCompactionAndProjected(t *testing.T) {
	store := newStore()
	g := generator(1)
	var leaf id.EntryID
	add := func(body entry.Body) id.EntryID {
		e := entry.Entry{Parent: leaf, Body: body}
		e.ID, g = g.Entry()
		mustCommit(t, store, tx.InsertEntry{Entry: e})
		leaf = e.ID
		return leaf
	}
	say := func(text string) entry.Body {
		return entry.Message{Message: &message.User{Content: []message.UserBlock{message.Text{Text: text}}}}
	}
	root := add(say("old"))
	add(entry.Compaction{Summary: "sum"})
	add(say("new"))
	s := session.NewView(store)
	branch, err := s.Branch(leaf)
	if err != nil || len(branch) != 2 || branch[0].ID != leaf || branch[1].Body.Kind() != entry.KindCompaction {
		t.Errorf("branch of %d entries, %v", len(branch), err)
	}
	asked := 0
	policy := projection.Policy{}.WithTransform(func(l []message.Message) []message.Message { asked++; return l })
	if got, err := s.Project(leaf, policy); err != nil || len(got) != 2 || asked != 1 {
		t.Errorf("context of %d messages, %v, transform asked %d times", len(got), err, asked)
	}
	if got, err := s.Project(root, policy); err != nil || len(got) != 1 {
		t.Errorf("context at the root: %d messages, %v", len(got), err)
	}
	asked = 0
	if got, err := s.Branch(id.EntryID{}); err != nil || len(got) != 0 {
		t.Errorf("without a leaf: a branch of %d entries, %v", len(got), err)
	}
	if got, err := s.Project(id.EntryID{}, policy); err != nil || len(got) != 0 || asked != 0 {
		t.Errorf("without a leaf: %d messages, %v, transform asked %d times", len(got), err, asked)
	}
	unknown, _ := g.Entry()
	if _, err := s.Project(unknown, policy); err == nil {
		t.Error("a leaf that does not exist was projected")
	} else if e, ok := errors.AsType[*storage.UnknownEntry](err); !ok || e.ID != unknown {
		t.Errorf("got %v", err)
	}
}

func TestDamageIsSaidInOneSentence(t *testing.T) {
	err := &session.Corrupt{Report: corrupt.New("test", "op.state/x", "a state", "7")}
	if got := err.Error(); got != "the session is damaged: corrupt: test: op.state/x: expected a state, saw 7" {
		t.Error(got)
	}
}

func TestClosingTheViewClosesTheStore(t *testing.T) {
	s := session.New(newStore())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rows().Stats(); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("reading: %v", err)
	}
	if _, err := s.Store().Commit(tx.Tx{}); err == nil {
		t.Error("a commit to a closed store")
	}
	if _, err := s.RegisterKeys(register.FactName, ""); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("listing: %v", err)
	}
}
