package storagetest

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/storage"
)

func cellText(a register.Address, c register.Cell) string {
	return strconv.Quote(a.String()) + " at " + strconv.FormatInt(c.Seq, 10) + ": " + c.Value.String()
}

func atomicity(b *bench) {
	orphan := b.said(b.entryID(), "orphan")
	b.refused("corruption", tx.Tx{Writes: []tx.Write{
		insert(b.said(id.EntryID{}, "valid")), insertUsage(b.spent(3)),
		tx.Set(register.FactName, "a", jsonv.Str("valid")), insert(orphan),
	}})
	b.refused("stale fact.name/a", tx.Tx{
		Writes:   []tx.Write{insert(b.said(id.EntryID{}, "valid"))},
		Expected: []tx.Expectation{tx.Expect(register.FactName, "a", 3)},
	})
	if r := b.must(insert(b.said(id.EntryID{}, "first"))); r.FirstSeq != 1 {
		b.Fatalf("the refused commits consumed seqs: the first good one is at %d", r.FirstSeq)
	}
	b.same()
}

// several commits a batch in which each refusal stands beside what is applied, and
// in which a later transaction stands on an earlier one.
func several(b *bench) {
	first := b.said(id.EntryID{}, "first")
	child := b.said(first.ID, "child of the batch")
	outcomes := b.commitAll(
		tx.Tx{Writes: []tx.Write{insert(first), tx.Set(register.FactName, "a", jsonv.Num(1))}},
		tx.Tx{Writes: []tx.Write{insert(b.said(b.entryID(), "orphan")), tx.Set(register.FactName, "orphan", jsonv.Num(1))}},
		tx.Tx{Writes: []tx.Write{insertUsage(b.spent(3)), insert(child)}, Expected: []tx.Expectation{tx.Expect(register.FactName, "a", 2)}},
		tx.Tx{Writes: []tx.Write{insertUsage(b.spent(5)), insert(first)}},
		tx.Tx{Writes: []tx.Write{tx.Set(register.FactName, "a", jsonv.Num(2))}, Expected: []tx.Expectation{tx.ExpectAbsent(register.FactName, "a")}},
		tx.Tx{Writes: []tx.Write{tx.Set(register.FactName, "a", jsonv.Num(2))}, Expected: []tx.Expectation{tx.Expect(register.FactName, "a", 2)}},
		tx.Tx{Expected: []tx.Expectation{tx.Expect(register.FactName, "a", 5)}},
	)
	var kinds []string
	for _, o := range outcomes {
		kinds = append(kinds, kindOf(o.Err))
	}
	if got := fmt.Sprintf("%q", kinds); got != `["" "corruption" "" "corruption" "stale fact.name/a" "" ""]` {
		b.Fatalf("the batch has the outcomes %s", got)
	}
	b.same()
	if none := b.commitAll(); len(none) != 0 {
		b.Fatalf("an empty batch has outcomes: %v", none)
	}
	b.reopen()
	b.same()
}

func seqs(b *bench) {
	first := b.said(id.EntryID{}, "one")
	r := b.must(insert(first), insertUsage(b.spent(1)), tx.Set(register.FactName, "a", jsonv.Num(1)),
		tx.Delete(register.FactName, "a"), tx.Delete(register.FactName, "never there"))
	if r.FirstSeq != 1 || fmt.Sprint(r.Seqs) != "[1 2 3 4 5]" {
		b.Fatalf("a fresh session's first commit is at %+v", r)
	}
	if r := b.must(); r.FirstSeq != 6 || len(r.Seqs) != 0 {
		b.Fatalf("an empty commit is at %+v, want the next seq and no seqs", r)
	}
	r = b.must(insert(b.said(first.ID, "two")))
	if r.FirstSeq != 6 {
		b.Fatalf("the commit after an empty one is at %d, want 6", r.FirstSeq)
	}
	got, err := b.store.Entries(first.ID)
	if err != nil || got[first.ID].Timestamp == 0 || got[first.ID].Timestamp == r.Timestamp {
		b.Fatalf("an entry is stamped with the time of its own commit: %+v, %v", got[first.ID], err)
	}
	b.same()
}

func writeOrder(b *bench) {
	parent := b.said(id.EntryID{}, "parent")
	child := b.said(parent.ID, "child")
	b.must(insert(parent), insert(child))
	early := b.said(id.EntryID{}, "early")
	late := b.said(early.ID, "late")
	b.refused("corruption", tx.Tx{Writes: []tx.Write{insert(late), insert(early)}})

	r := b.must(tx.Set(register.FactName, "twice", jsonv.Num(1)), tx.Set(register.FactName, "twice", jsonv.Num(2)),
		tx.Set(register.FactName, "gone", jsonv.Num(1)), tx.Delete(register.FactName, "gone"),
		tx.Delete(register.FactName, "back"), tx.Set(register.FactName, "back", jsonv.Num(1)))
	cell, ok, err := b.store.Register(register.FactName, "twice")
	if err != nil || !ok || cell.Seq != r.Seqs[1] || cell.Value.String() != "2" {
		b.Fatalf("the later set wins: %+v, %v, %v", cell, ok, err)
	}
	if _, ok, _ := b.store.Register(register.FactName, "gone"); ok {
		b.Fatalf("set then delete leaves a cell")
	}
	if _, ok, _ := b.store.Register(register.FactName, "back"); !ok {
		b.Fatalf("delete then set leaves none")
	}
	b.same()
}

func duplicateIDs(b *bench) {
	e := b.said(id.EntryID{}, "original")
	row := b.spent(1)
	b.must(insert(e), insertUsage(row))

	again := b.said(id.EntryID{}, "again")
	again.ID = e.ID
	b.refused("corruption", tx.Tx{Writes: []tx.Write{insert(again)}})
	other := b.spent(2)
	other.ID = row.ID
	b.refused("corruption", tx.Tx{Writes: []tx.Write{insertUsage(other)}})

	var err error
	if other.ID, err = id.ParseUsageID(e.ID.String()); err != nil {
		b.Fatalf("%v", err)
	}
	b.refused("corruption", tx.Tx{Writes: []tx.Write{insertUsage(other)}})
	if again.ID, err = id.ParseEntryID(row.ID.String()); err != nil {
		b.Fatalf("%v", err)
	}
	b.refused("corruption", tx.Tx{Writes: []tx.Write{insert(again)}})
	twin := b.said(id.EntryID{}, "twin")
	b.refused("corruption", tx.Tx{Writes: []tx.Write{insert(twin), insert(twin)}})
	b.must(insert(twin)) // what a refused commit named is not used up
}

func parents(b *bench) {
	row := b.spent(1)
	b.must(insertUsage(row))
	ledgerID, err := id.ParseEntryID(row.ID.String())
	if err != nil {
		b.Fatalf("%v", err)
	}
	b.refused("corruption", tx.Tx{Writes: []tx.Write{insert(b.said(ledgerID, "child of a ledger row"))}})
	self := b.said(id.EntryID{}, "own parent")
	self.Parent = self.ID
	b.refused("corruption", tx.Tx{Writes: []tx.Write{insert(self)}})
	root := b.said(id.EntryID{}, "root")
	b.must(insert(root))
	b.must(insert(b.said(root.ID, "child")), insert(b.said(root.ID, "sibling")), insert(b.said(id.EntryID{}, "second root")))
	dangling := b.spent(1)
	dangling.EntryID = b.entryID()
	b.must(insertUsage(dangling)) // what a ledger row paid for is not checked
	b.same()
}

func unreadableRows(b *bench) {
	deep := jsonv.Num(1)
	for range jsonv.MaxDepth + 1 {
		deep = jsonv.Arr(deep)
	}
	doubled := jsonv.Obj(jsonv.F("a", jsonv.Num(1)), jsonv.F("a", jsonv.Num(2)))
	pending := &message.Assistant{API: "x", Provider: "x", Model: "x", StopReason: message.Pending}
	for name, w := range map[string]tx.Write{
		"an entry that nests too deep":    insert(b.custom(id.EntryID{}, "deep", &deep)),
		"a register with a doubled field": tx.Set(register.FactName, "a", doubled),
		"a response that has not settled": insert(entry.Entry{ID: b.entryID(), Body: entry.Message{Message: pending}}),
		"a message of nobody":             insert(entry.Entry{ID: b.entryID(), Body: entry.Message{}}),
		"an author who is nobody":         insert(entry.Entry{ID: b.entryID(), Body: entry.Message{Message: &message.User{Origin: &message.Origin{}}}}),
		"a local ledger row with a count": insertUsage(entry.UsageRow{ID: b.usageID(), Usage: usage.Usage{Input: 1}}),
		"a ledger row without an id":      insertUsage(entry.UsageRow{}),
		"an entry without a body":         insert(entry.Entry{ID: b.entryID()}),
		"an entry without an id":          insert(entry.Entry{Body: entry.Custom{Type: "x"}}),
		"an unknown namespace":            tx.Set("fact.unknown", "a", jsonv.Num(1)),
	} {
		_, err := b.store.Commit(tx.Tx{Writes: []tx.Write{w}})
		if _, ok := errors.AsType[*tx.Corruption](err); !ok {
			b.Errorf("%s: %v, want a corruption", name, err)
		}
	}
	b.same()
}

// absurdUsage bills what no request can cost. Whatever a provider claims, the
// counters stay readable and the session goes on.
func absurdUsage(b *bench) {
	greatest, ok := usage.ParseAmount(jsonv.BigNum(new(big.Int).Sub(new(big.Int).Exp(big.NewInt(10), big.NewInt(100), nil), big.NewInt(1))))
	if !ok {
		b.Fatalf("10^100-1 dollars are no amount")
	}
	for range 3 {
		row := b.spent(1)
		row.Usage.Input, row.Usage.TotalTokens, row.Usage.Reasoning = math.MaxInt64, math.MaxInt64, new(int64(math.MaxInt64))
		row.Usage.Cost.Input, row.Usage.Cost.Total = greatest, greatest
		b.must(insertUsage(row))
	}
	b.must(insertUsage(b.spent(1)), insert(b.said(id.EntryID{}, "it goes on")))
	b.reopen()
	b.sameStats()
	b.must(insertUsage(b.spent(1)))
	b.same()
}

func registerKeys(b *bench) {
	keys := []string{"", "a", "a%", "a%b", "a_", "a_b", "ab", "aab", "aB", "%", "_", "a\\", "a'", "ä", "a\x00b", "a\U0010FFFF", "b", "ba"}
	for i, key := range keys {
		b.must(tx.Set(register.FactCustom, key, jsonv.Num(int64(i))))
		b.must(tx.Set(register.FactName, key, jsonv.Num(int64(-i))))
	}
	for _, prefix := range append(keys, "a%c", "zz", "\U0010FFFF", "a\xff", "\xff\xff") {
		got, err := b.store.Registers(register.FactCustom, prefix)
		b.equal("prefix "+strconv.Quote(prefix), cellTexts(register.FactCustom, got), cellTexts(register.FactCustom, b.model.list(register.FactCustom, prefix)), err)
	}
	for _, key := range append(keys, "A", "none") {
		cell, ok, err := b.store.Register(register.FactCustom, key)
		want, wok := b.model.registers[register.Address{NS: register.FactCustom, Key: key}]
		if err != nil || ok != wok || cellText(register.Address{}, cell) != cellText(register.Address{}, want) {
			b.Fatalf("key %q: %+v, %v, %v", key, cell, ok, err)
		}
	}
	if got, err := b.store.Registers(register.FactLabel, ""); err != nil || len(got) != 0 {
		b.Fatalf("an empty namespace lists %d cells, %v", len(got), err)
	}
}

func expectations(b *bench) {
	address := func(key string) register.Address { return register.Address{NS: register.OpState, Key: key} }
	set := func(key string) tx.Write { return tx.Set(register.OpState, key, jsonv.Str(key)) }
	r, err := b.commit(tx.Tx{Writes: []tx.Write{set("a"), set("b")}, Expected: []tx.Expectation{tx.ExpectAbsent(register.OpState, "a")}})
	if err != nil {
		b.Fatalf("an absent cell that is expected absent: %v", err)
	}
	a, other := r.Seqs[0], r.Seqs[1]

	for name, c := range map[string]struct {
		expected []tx.Expectation
		failed   string // key of the expectation that fails
	}{
		"present though expected absent": {[]tx.Expectation{{Address: address("a")}}, "a"},
		"absent though expected":         {[]tx.Expectation{{Address: address("c"), Seq: a}}, "c"},
		"older than expected":            {[]tx.Expectation{{Address: address("a"), Seq: a + 1}}, "a"},
		"newer than expected":            {[]tx.Expectation{{Address: address("b"), Seq: other - 1}}, "b"},
		"the second of three":            {[]tx.Expectation{{Address: address("a"), Seq: a}, {Address: address("b"), Seq: 99}, {Address: address("c"), Seq: 98}}, "b"},
		"the first of two that fail":     {[]tx.Expectation{{Address: address("c"), Seq: 99}, {Address: address("b"), Seq: 98}}, "c"},
		"another namespace":              {[]tx.Expectation{tx.Expect(register.OpMeta, "a", a)}, "a"},
	} {
		_, err := b.commit(tx.Tx{Writes: []tx.Write{set("a")}, Expected: c.expected})
		stale, ok := errors.AsType[*tx.StaleExpectation](err)
		if !ok || stale.Failed.Key != c.failed {
			b.Errorf("%s: %v, want a stale expectation of %s", name, err, c.failed)
		}
	}

	// Judged against the state before the transaction, whatever it writes.
	if _, err := b.commit(tx.Tx{Writes: []tx.Write{set("d"), tx.Delete(register.OpState, "a")},
		Expected: []tx.Expectation{{Address: address("a"), Seq: a}, {Address: address("d")}, {Address: address("b"), Seq: other}}}); err != nil {
		b.Fatalf("expectations that hold: %v", err)
	}
	// A deleted cell equals one that never was, and a new one has a new seq.
	b.refused("stale op.state/a", tx.Tx{Expected: []tx.Expectation{{Address: address("a"), Seq: a}}})
	if r, err := b.commit(tx.Tx{Writes: []tx.Write{set("a")}, Expected: []tx.Expectation{{Address: address("a")}}}); err != nil || r.Seqs[0] == a {
		b.Fatalf("a recreated cell: %+v, %v", r, err)
	}
	// Without writes it is a fence.
	if _, err := b.commit(tx.Tx{Expected: []tx.Expectation{{Address: address("b"), Seq: other}}}); err != nil {
		b.Fatalf("a fence that holds: %v", err)
	}
	b.refused("stale op.state/b", tx.Tx{Expected: []tx.Expectation{{Address: address("b"), Seq: 1000}}})
}

func placement(b *bench) {
	queued := b.said(id.EntryID{}, "queued")
	key := queued.ID.String()
	admit := tx.Tx{
		Writes:   []tx.Write{tx.Set(register.PendingEntry, key, jsonv.Obj(jsonv.F("type", jsonv.Str("message"))))},
		Expected: []tx.Expectation{tx.ExpectAbsent(register.PendingEntry, key)},
	}
	r, err := b.commit(admit)
	if err != nil {
		b.Fatalf("admission: %v", err)
	}
	b.refused("stale pending.entry/"+key, admit)
	place := tx.Tx{
		Writes:   []tx.Write{insert(queued), tx.Delete(register.PendingEntry, key), tx.Set(register.StrandLeaf, "main", register.Leaf(queued.ID))},
		Expected: []tx.Expectation{tx.Expect(register.PendingEntry, key, r.Seqs[0])},
	}
	if _, err := b.commit(place); err != nil {
		b.Fatalf("placement: %v", err)
	}
	b.refused("stale pending.entry/"+key, place)
	_, pending, err := b.store.Register(register.PendingEntry, key)
	entries, eerr := b.store.Entries(queued.ID)
	if err != nil || eerr != nil || pending || len(entries) != 1 {
		b.Fatalf("after placement: pending %v, %d entries, %v, %v", pending, len(entries), err, eerr)
	}
	b.same()
}

func roundTrip(b *bench) {
	null := jsonv.Value{}
	data := jsonv.Obj(jsonv.F("b", jsonv.Num(1)), jsonv.F("a", jsonv.Arr(jsonv.Boolean(true), jsonv.Str("\"\\\u2028<>&\x00"))))
	root := b.said(id.EntryID{}, "line one\nline two\u2028three \U0001F9F5")
	big := b.said(root.ID, strings.Repeat("0123456789abcdef", 40_000))
	reply := entry.Entry{ID: b.entryID(), Parent: big.ID, Body: entry.Message{Message: &message.Assistant{
		Content: []message.AssistantBlock{message.Text{Text: "hm"}, message.ToolCall{ID: "c1", Name: "ls", Arguments: jsonv.Obj()}},
		API:     "a", Provider: "p", Model: "m", StopReason: message.ToolUse, Usage: b.spent(4).Usage, Timestamp: 9,
	}}}
	result := entry.Entry{ID: b.entryID(), Parent: reply.ID, Body: entry.Message{Terminate: true, Message: &message.ToolResult{
		ToolCallID: "c1", ToolName: "ls", Content: []message.ResultBlock{message.Text{Text: "x"}}, Details: &null, IsError: true,
	}}}
	b.must(insert(root), insert(big), insert(reply), insert(result))
	b.must(insert(b.custom(result.ID, "t", nil)), insert(b.custom(result.ID, "t", &null)), insert(b.custom(result.ID, "t", &data)),
		insert(entry.Entry{ID: b.entryID(), Body: entry.Compaction{Summary: "s", RetainedTail: []message.Message{&message.Custom{Schema: "q"}}, TokensBefore: 1, Usage: &root0}}),
		insert(entry.Entry{ID: b.entryID(), Body: entry.BranchSummary{FromID: root.ID, Summary: "s", FromHook: true}}))
	row := b.spent(7)
	row.Details, row.Adjustment, row.EntryID = &data, true, root.ID
	b.must(insertUsage(row), tx.Set(register.FactCustom, "big", jsonv.Str(strings.Repeat("x", 300_000))), tx.Set(register.FactCustom, "null", null))
	b.same()
	b.reopen()
	b.same()
	got, err := b.store.Entries(big.ID, b.entryID(), root.ID, root.ID)
	if err != nil || len(got) != 2 || got[big.ID].ID != big.ID {
		b.Fatalf("lookup of one present, one missing and one doubled id: %d rows, %v", len(got), err)
	}
}

// tails commits compactions that keep messages of the session: once, again, in
// another order, changed, out of an earlier tail, and as a part of another text.
// The logical row is whole whatever a backend stores of it.
func tails(b *bench) {
	long := func(n int) string { return fmt.Sprint("message ", n, strings.Repeat(" word", 400)) }
	var at id.EntryID
	var said []message.Message
	for n := range 6 {
		e := b.said(at, long(n))
		b.must(insert(e))
		at, said = e.ID, append(said, userSaid(long(n)))
	}
	answer := entry.Message{Terminate: true, Message: &message.ToolResult{
		ToolCallID: "c1", ToolName: "ls", Content: []message.ResultBlock{message.Text{Text: long(7)}}, Details: new(jsonv.Str(long(0))),
	}}
	result := entry.Entry{ID: b.entryID(), Parent: at, Body: answer}
	b.must(insert(result))
	stranger := userSaid("never an entry" + long(9))
	quoting := userSaid(string(jsonv.Str(long(1)).Append(nil)) + `","message":{"role":"user"`)
	for i, tail := range [][]message.Message{
		said[3:], said[4:], {said[5], said[3], said[5]}, {stranger, said[5]}, {said[5], stranger, quoting},
		{quoting, userSaid("short")}, {answer.Message, said[0]}, nil,
	} {
		e := b.compacted(result.ID, fmt.Sprint("summary ", i))
		if i > 3 {
			e.Parent = at // a chain of compactions as well as siblings
		}
		e.Body, at = b.keeping(e.Body, tail), e.ID
		b.must(insert(e), tx.Set(register.OpPreparation, fmt.Sprint("task ", i), jsonv.Obj(
			jsonv.F("kind", jsonv.Str("compaction")), jsonv.F("retainedTail", messagesValue(tail)), jsonv.F("messages", messagesValue(said)))))
	}
	b.must(tx.Set(register.OpPreparation, "task 1", jsonv.Str(long(1))), tx.Delete(register.OpPreparation, "task 2"),
		tx.Set(register.FactCustom, "alike", jsonv.Obj(jsonv.F("retainedTail", messagesValue(said)))))
	b.same()
	b.reopen()
	b.same()
	for _, e := range b.model.entries {
		b.scan("a path with tails", storage.BranchQuery{Start: e.ID})
	}
}

func messagesValue(list []message.Message) jsonv.Value {
	values := make([]jsonv.Value, len(list))
	for i, m := range list {
		var w jsonv.Writer
		message.Append(&w, m)
		v, err := jsonv.Parse(w.Bytes())
		if err != nil {
			panic(err) // a message that a constructor made
		}
		values[i] = v
	}
	return jsonv.Arr(values...)
}

func closing(b *bench) {
	e := b.said(id.EntryID{}, "kept")
	b.must(insert(e))
	if err := b.store.Close(); err != nil {
		b.Fatalf("close: %v", err)
	}
	if err := b.store.Close(); err != nil {
		b.Fatalf("second close: %v", err)
	}
	if _, err := b.store.Commit(tx.Tx{Writes: []tx.Write{insert(b.said(id.EntryID{}, "late"))}}); kindOf(err) != "faulted" {
		b.Errorf("commit after close: %v, want faulted", err)
	}
	for name, read := range map[string]func() error{
		"Entries":     func() error { _, err := b.store.Entries(e.ID); return err },
		"Register":    func() error { _, _, err := b.store.Register(register.FactName, "a"); return err },
		"Registers":   func() error { _, err := b.store.Registers(register.FactName, ""); return err },
		"ScanBranch":  func() error { _, err := b.store.ScanBranch(storage.BranchQuery{Start: e.ID}); return err },
		"ScanEntries": func() error { _, err := b.store.ScanEntries(storage.EntryQuery{}); return err },
		"ScanUsage":   func() error { _, err := b.store.ScanUsage(storage.UsageQuery{}); return err },
		"Stats":       func() error { _, err := b.store.Stats(); return err },
		"Within":      func() error { return b.store.Within(func(storage.Reader) error { return nil }) },
	} {
		if err := read(); !errors.Is(err, storage.ErrClosed) {
			b.Errorf("%s after close: %v, want ErrClosed", name, err)
		}
	}
}

func reopening(b *bench) {
	root := b.said(id.EntryID{}, "root")
	b.must(insert(root), insertUsage(b.spent(2)), tx.Set(register.StrandLeaf, "main", register.Leaf(root.ID)), tx.Delete(register.FactName, "x"))
	b.reopen()
	b.same()
	if r := b.must(insert(b.said(root.ID, "next"))); r.FirstSeq != 5 {
		b.Fatalf("after reopening the next seq is %d, want 5: seqs of deletions are used up too", r.FirstSeq)
	}
}
