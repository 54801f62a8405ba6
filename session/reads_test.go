package session_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
)

// typed is one register that is read through a codec.
type typed struct {
	ns    register.Namespace
	key   string
	value jsonv.Value
	read  func(*session.View) (seq int64, ok bool, err error)
	noSeq bool // written once, so that nothing is guarded by its seq
}

func cell[T any](c session.Cell[T], ok bool, err error) (int64, bool, error) { return c.Seq, ok, err }

func typedReads() map[string]typed {
	g := generator(5)
	op, g := g.Op()
	e, g := g.Entry()
	self, _ := g.Session()
	result := machine.LastResult{Kind: "run", OperationID: op, Outcome: machine.OutcomeCompleted, Completion: machine.ByAssistant}
	return map[string]typed{
		"StrandConfig": {ns: register.StrandConfig, key: "main", value: machine.Configuration{ThinkingLevel: machine.ThinkingOff}.Value(),
			read: func(s *session.View) (int64, bool, error) { return cell(s.StrandConfig("main")) }},
		"StrandState": {ns: register.StrandState, key: "main", value: machine.StrandState{CurrentOperation: op}.Value(),
			read: func(s *session.View) (int64, bool, error) { return cell(s.StrandState("main")) }},
		"StrandLeaf": {ns: register.StrandLeaf, key: "main", value: register.Leaf(e),
			read: func(s *session.View) (int64, bool, error) { return cell(s.StrandLeaf("main")) }},
		"LastResult": {ns: register.StrandLastResult, key: "main", value: result.Value(),
			read: func(s *session.View) (int64, bool, error) { return cell(s.LastResult("main")) }},
		"OperationResult": {ns: register.FactCustom, key: machine.ResultKey(op), value: result.Value(),
			read: func(s *session.View) (int64, bool, error) { return cell(s.OperationResult(op)) }},
		"OpMeta": {ns: register.OpMeta, key: op.String(),
			value: machine.Operation{ID: op, Strand: "main", Intent: machine.RunIntent{PromptEntryIDs: []id.EntryID{e}}}.Value(),
			read:  func(s *session.View) (int64, bool, error) { return cell(s.OpMeta(op)) }},
		"OpState": {ns: register.OpState, key: op.String(), value: runState(machine.Starting{}).Value(),
			read: func(s *session.View) (int64, bool, error) { return cell(s.OpState(op)) }},
		"Preparation": {ns: register.OpPreparation, key: machine.PreparationKey(op, "task"), value: machine.PreparationValue(&machine.BranchPreparation{TotalTokens: 3}),
			read: func(s *session.View) (int64, bool, error) { return cell(s.Preparation(op, "task")) }},
		"PendingPayloads": {ns: register.PendingEntry, key: e.String(),
			value: machine.PendingMessage(&message.User{Content: []message.UserBlock{message.Text{Text: "x"}}}).Value(),
			read: func(s *session.View) (int64, bool, error) {
				m, err := s.PendingPayloads()
				c, ok := m[e]
				return c.Seq, ok, err
			}},
		"PendingEntries": {ns: register.PendingEntry, key: e.String(), noSeq: true,
			value: machine.PendingMessage(&message.User{Content: []message.UserBlock{message.Text{Text: "x"}}}).Value(),
			read: func(s *session.View) (int64, bool, error) {
				m, err := s.PendingEntries(e)
				_, ok := m[e]
				return 0, ok, err
			}},
		"ID": {ns: register.FactCustom, key: session.IDKey, value: jsonv.Str(self.String()), noSeq: true,
			read: func(s *session.View) (int64, bool, error) { _, ok, err := s.ID(); return 0, ok, err }},
		"ParentID": {ns: register.FactCustom, key: session.ParentKey, value: jsonv.Str(self.String()), noSeq: true,
			read: func(s *session.View) (int64, bool, error) { _, ok, err := s.ParentID(); return 0, ok, err }},
		"Workspace": {ns: register.FactCustom, key: session.WorkspaceKey, value: jsonv.Str("/dir"), noSeq: true,
			read: func(s *session.View) (int64, bool, error) { _, ok, err := s.Workspace(); return 0, ok, err }},
	}
}

func runState(phase machine.Phase) machine.State {
	return machine.State{Control: machine.Running{}, Work: &machine.Run{
		Settings: machine.Settings{SteeringMode: machine.DrainAll, FollowUpMode: machine.DrainAll, ToolExecution: machine.Parallel},
		Phase:    phase,
	}}
}

func TestEveryTypedReadCarriesTheSeqOfTheWrite(t *testing.T) {
	for name, c := range typedReads() {
		store := newStore()
		s := session.NewView(store)
		if _, ok, err := c.read(s); ok || err != nil {
			t.Errorf("%s of an empty store: %v, %v", name, ok, err)
		}
		mustCommit(t, store, tx.Delete(register.FactName, "nothing")) // seqs are not all 1
		want := mustCommit(t, store, tx.Set(c.ns, c.key, c.value)).FirstSeq
		seq, ok, err := c.read(s)
		if !ok || err != nil || !c.noSeq && seq != want {
			t.Errorf("%s: seq %d, %v, %v; it was written at %d", name, seq, ok, err, want)
		}
	}
}

func TestARegisterThatDoesNotDecodeIsCorruptAndNamesItself(t *testing.T) {
	for name, c := range typedReads() {
		for _, bad := range []jsonv.Value{jsonv.Boolean(true), jsonv.Obj(), jsonv.Str("no id"), jsonv.Num(1)} {
			if name == "Workspace" && bad.Kind() == jsonv.String {
				continue // any text is a directory
			}
			store := newStore()
			mustCommit(t, store, tx.Set(c.ns, c.key, bad))
			_, ok, err := c.read(session.NewView(store))
			e, corrupt := errors.AsType[*session.Corrupt](err)
			if !corrupt || ok {
				t.Errorf("%s of %s: %v, %v", name, bad.Kind(), ok, err)
				continue
			}
			if where := string(c.ns) + "/" + c.key; len(e.Report.Subject) < len(where) || e.Report.Subject[:len(where)] != where {
				t.Errorf("%s: the report is about %q, not %s", name, e.Report.Subject, where)
			}
		}
	}
}

func TestAStoreThatFailsIsNotADamagedSession(t *testing.T) {
	for name, c := range typedReads() {
		store := newStore()
		mustCommit(t, store, tx.Set(c.ns, c.key, c.value))
		fault := &storage.BackendFault{Reason: "the disk is gone"}
		if _, ok, err := c.read(session.NewView(&faulty{Store: store, read: fault})); ok || !errors.Is(err, fault) || !isFault(err) {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := c.read(session.NewView(store)); ok || !errors.Is(err, storage.ErrClosed) {
			t.Errorf("%s after close: %v, %v", name, ok, err)
		}
	}
}

func TestOneBadPendingEntryFailsTheWholeRead(t *testing.T) {
	store := newStore()
	g := generator(1)
	good, g := g.Entry()
	bad, g := g.Entry()
	absent, _ := g.Entry()
	payload := machine.PendingMessage(&message.User{Content: []message.UserBlock{message.Text{Text: "x"}}})
	mustCommit(t, store, tx.Set(register.PendingEntry, good.String(), payload.Value()), tx.Set(register.PendingEntry, bad.String(), jsonv.Num(1)))
	s := session.NewView(store)
	if got, err := s.PendingEntries(good, absent); err != nil || !slices.Equal(slices.Collect(maps.Keys(got)), []id.EntryID{good}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := s.PendingEntries(good, bad); !isCorrupt(err) || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := s.PendingPayloads(); !isCorrupt(err) || got != nil {
		t.Errorf("the whole namespace: %v, %v", got, err)
	}
}

func TestAPendingKeyThatIsNoIdIsCorrupt(t *testing.T) {
	store := newStore()
	payload := machine.PendingMessage(&message.User{Content: []message.UserBlock{message.Text{Text: "x"}}})
	mustCommit(t, store, tx.Set(register.PendingEntry, "no id", payload.Value()))
	if got, err := session.NewView(store).PendingPayloads(); !isCorrupt(err) || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestThePreparationIsThatOfTheNamedTask(t *testing.T) {
	store := newStore()
	op, _ := generator(1).Op()
	mustCommit(t, store,
		tx.Set(register.OpPreparation, machine.PreparationKey(op, "a"), machine.PreparationValue(&machine.BranchPreparation{TotalTokens: 1})),
		tx.Set(register.OpPreparation, machine.PreparationKey(op, "b"), machine.PreparationValue(&machine.CompactionPreparation{TokensBefore: 2})))
	s := session.NewView(store)
	if c, ok, err := s.Preparation(op, "b"); err != nil || !ok {
		t.Errorf("task b: %v, %v", ok, err)
	} else if p, is := c.Value.(*machine.CompactionPreparation); !is || p.TokensBefore != 2 {
		t.Errorf("task b is %#v", c.Value)
	}
	if _, ok, err := s.Preparation(op, "c"); ok || err != nil {
		t.Errorf("a task without a preparation: %v, %v", ok, err)
	}
}

func TestToolArgumentsAreAnyValueUnderTheExactKey(t *testing.T) {
	store := newStore()
	op, _ := generator(1).Op()
	mustCommit(t, store, tx.Set(register.FactName, "before", jsonv.Num(1)), tx.Set(register.OpToolArgs, machine.ToolArgsKey(op, "step", 10), jsonv.Obj(jsonv.F("a", jsonv.Num(1)))))
	s := session.NewView(store)
	if c, ok, err := s.ToolArguments(op, "step", 10); !ok || err != nil || c.Value.String() != `{"a":1}` || c.Seq != 2 {
		t.Errorf("got %+v, %v, %v", c, ok, err)
	}
	if _, ok, err := s.ToolArguments(op, "step", 1); ok || err != nil {
		t.Errorf("a prefix of the key was taken for it: %v, %v", ok, err)
	}
}

func TestKeysAreListedByTheirPrefixInOrder(t *testing.T) {
	store := newStore()
	for _, k := range []string{"b", "a%1", "a_1", "ab", "a"} {
		mustCommit(t, store, tx.Set(register.FactName, k, jsonv.Num(1)), tx.Set(register.FactLabel, k+"x", jsonv.Num(1)))
	}
	s := session.NewView(store)
	for prefix, want := range map[string][]string{"": {"a", "a%1", "a_1", "ab", "b"}, "a%": {"a%1"}, "a_": {"a_1"}, "c": {}} {
		if got, err := s.RegisterKeys(register.FactName, prefix); err != nil || !slices.Equal(got, want) {
			t.Errorf("prefix %q: %v, %v", prefix, got, err)
		}
	}
}
