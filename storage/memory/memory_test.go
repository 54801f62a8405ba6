package memory_test

import (
	"testing"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/memory"
	"github.com/loom-run/loom/storage/storagetest"
	"pgregory.net/rapid"
)

// opener opens one session again and again.
type opener struct {
	now   func() int64
	store *memory.Store
}

func (o *opener) Open(rapid.TB) storage.Store {
	if o.store == nil {
		o.store = memory.New(o.now)
	} else {
		o.store = o.store.Reopen()
	}
	return o.store
}

func TestConformance(t *testing.T) {
	storagetest.Run(t, func(_ *testing.T, now func() int64) storagetest.Opener { return &opener{now: now} })
}

// filled is a store with rows of every kind.
func filled(t *testing.T) *memory.Store {
	t.Helper()
	s := memory.New(func() int64 { return 1 })
	ids := id.NewGenerator(clock.Fixed(1), 1)
	first, ids := ids.Entry()
	second, ids := ids.Entry()
	row, _ := ids.Usage()
	for _, w := range [][]tx.Write{
		{tx.InsertEntry{Entry: entry.Entry{ID: first, Body: entry.Message{Message: &message.User{}}}}},
		{tx.Set(register.StrandLeaf, "main", register.Leaf(first)), tx.Set(register.FactName, "gone", jsonv.Num(1))},
		{tx.Delete(register.FactName, "gone"), tx.Set(register.FactName, "a", jsonv.Num(1))},
		{tx.InsertEntry{Entry: entry.Entry{ID: second, Parent: first, Body: entry.Compaction{Summary: "s"}}}},
		{tx.InsertUsage{Row: entry.UsageRow{ID: row, EntryID: second, Usage: usage.Unknown(usage.API)}}},
	} {
		if _, err := s.Commit(tx.Tx{Writes: w}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestASoundStoreHasNoFindings(t *testing.T) {
	for _, f := range storage.Check(filled(t)) {
		t.Error(f)
	}
}

// visitor counts what it is shown.
type visitor struct {
	store     *memory.Store
	entries   []int64
	usage     []int64
	registers []string
	next      int64
}

func (v *visitor) Session(_ storage.Stats, next int64) { v.next = next }
func (v *visitor) Entry(e entry.Entry)                 { v.entries = append(v.entries, e.Seq) }
func (v *visitor) Usage(r entry.UsageRow)              { v.usage = append(v.usage, r.Seq) }
func (v *visitor) Damage(storage.Damage)               {}
func (v *visitor) Register(ns, key string, _ register.Cell) {
	v.registers = append(v.registers, ns+"/"+key)
	_, _ = v.store.Commit(tx.Tx{Writes: []tx.Write{tx.Set(register.FactName, "b", jsonv.Num(1))}})
}

func TestAWalkShowsOneStateAndHoldsNobodyUp(t *testing.T) {
	s := filled(t)
	v := &visitor{store: s}
	if err := s.Walk(v); err != nil {
		t.Fatal(err)
	}
	if len(v.entries) != 2 || v.entries[0] != 1 || v.entries[1] != 6 || len(v.usage) != 1 || v.usage[0] != 7 || v.next != 8 {
		t.Errorf("it showed entries %v, ledger rows %v, the next seq %d", v.entries, v.usage, v.next)
	}
	if len(v.registers) != 2 || v.registers[0] != "fact.name/a" || v.registers[1] != "strand.leaf/main" {
		t.Errorf("it showed the registers %v", v.registers)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Walk(v); err != storage.ErrClosed {
		t.Errorf("after close: %v", err)
	}
}

func TestReopeningClosesTheHandleAndKeepsTheSession(t *testing.T) {
	s := filled(t)
	again := s.Reopen()
	if _, err := s.Stats(); err != storage.ErrClosed {
		t.Errorf("the old handle: %v", err)
	}
	if st, err := again.Stats(); err != nil || st.Messages != 1 {
		t.Errorf("the new one: %+v, %v", st, err)
	}
}
