package storagetest

import (
	"fmt"
	"strings"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
	"pgregory.net/rapid"
)

// machine drives a store and the model through random commits, legal and not,
// reads of every kind and reopenings.
func machine(r *rapid.T, b *bench) {
	r.Repeat(map[string]func(*rapid.T){
		"commit": func(r *rapid.T) { b.TB = r; _, _ = b.commit(b.drawTx(r)) },
		"commit several": func(r *rapid.T) {
			b.TB = r
			txs := make([]tx.Tx, rapid.IntRange(0, 4).Draw(r, "transactions"))
			for i := range txs {
				txs[i] = b.drawTx(r)
			}
			b.commitAll(txs...)
		},
		"grow": func(r *rapid.T) {
			b.TB = r
			b.must(insert(b.drawEntry(r, b.drawKnown(r))))
		},
		"scan branch": func(r *rapid.T) {
			b.TB = r
			b.scan("branch", storage.BranchQuery{
				Start: b.drawSome(r), Order: drawOrder(r), StopAtKind: drawKind(r, "stop"), StopAtID: b.drawKnown(r),
				Kind: drawKind(r, "kind"), CustomType: drawOpt(r, "custom type", rapid.SampledFrom(customTypes)),
				Cursor: drawOpt(r, "cursor", rapid.Int64Range(-1, 40)), Limit: drawOpt(r, "limit", rapid.IntRange(-1, 8)),
			})
		},
		"scan entries": func(r *rapid.T) {
			b.TB = r
			q := storage.EntryQuery{
				Kind: drawKind(r, "kind"), CustomType: drawOpt(r, "custom type", rapid.SampledFrom(customTypes)),
				FromSeq: drawOpt(r, "from", rapid.Int64Range(-1, 40)), ToSeq: drawOpt(r, "to", rapid.Int64Range(-1, 60)),
				Order: drawOrder(r), Limit: drawOpt(r, "limit", rapid.IntRange(-1, 8)),
			}
			got, err := b.store.ScanEntries(q)
			b.equal("entries", texts(got), texts(b.model.scanEntries(q)), err)
			heads, err := b.store.ScanEntryHeads(q)
			b.equal("heads", headTexts(heads), headTexts(headsOf(got)), err)
		},
		"list registers": func(r *rapid.T) {
			b.TB = r
			ns, prefix := drawNamespace(r), rapid.SampledFrom(keys).Draw(r, "prefix")
			got, err := b.store.Registers(ns, prefix)
			b.equal("registers", cellTexts(ns, got), cellTexts(ns, b.model.list(ns, prefix)), err)
		},
		"reopen": func(r *rapid.T) { b.TB = r; b.reopen() },
		"":       func(r *rapid.T) { b.TB = r; b.same() },
	})
	if err := b.store.Close(); err != nil {
		r.Fatalf("close: %v", err)
	}
}

var (
	customTypes = []string{"note", "mark", ""}
	keys        = []string{"", "a", "a%", "a_", "aa", "ab", "ä", "main"}
)

func drawOrder(r *rapid.T) storage.Order {
	return rapid.SampledFrom([]storage.Order{storage.DefaultOrder, storage.OldestFirst, storage.NewestFirst}).Draw(r, "order")
}

func drawKind(r *rapid.T, what string) entry.Kind {
	return rapid.SampledFrom([]entry.Kind{"", "", "", entry.KindMessage, entry.KindCompaction, entry.KindCustom, entry.KindBranchSummary}).Draw(r, what)
}

func drawNamespace(r *rapid.T) register.Namespace {
	return rapid.SampledFrom([]register.Namespace{register.FactName, register.FactCustom, register.OpState}).Draw(r, "namespace")
}

func drawOpt[T any](r *rapid.T, what string, g *rapid.Generator[T]) *T {
	if rapid.Bool().Draw(r, what+"?") {
		return nil
	}
	return new(g.Draw(r, what))
}

// drawKnown is an entry of the session, or none.
func (b *bench) drawKnown(r *rapid.T) id.EntryID {
	if n := len(b.model.entries); n > 0 {
		if i := rapid.IntRange(-1, n-1).Draw(r, "entry"); i >= 0 {
			return b.model.entries[i].ID
		}
	}
	return id.EntryID{}
}

// drawSome is mostly an entry of the session, sometimes one that never was.
func (b *bench) drawSome(r *rapid.T) id.EntryID {
	if i := b.drawKnown(r); !i.IsZero() {
		return i
	}
	return b.entryID()
}

func (b *bench) drawEntry(r *rapid.T, parent id.EntryID) entry.Entry {
	switch rapid.SampledFrom([]entry.Kind{entry.KindMessage, entry.KindMessage, entry.KindMessage, entry.KindCompaction, entry.KindCustom, entry.KindBranchSummary}).Draw(r, "body") {
	case entry.KindCompaction:
		e := b.compacted(parent, rapid.String().Draw(r, "summary"))
		e.Body = b.keeping(e.Body, b.drawTail(r))
		return e
	case entry.KindCustom:
		return b.custom(parent, rapid.SampledFrom(customTypes).Draw(r, "custom type"), drawOpt(r, "data", rapid.Map(rapid.String(), jsonv.Str)))
	case entry.KindBranchSummary:
		return entry.Entry{ID: b.entryID(), Parent: parent, Body: entry.BranchSummary{Summary: rapid.String().Draw(r, "summary")}}
	case entry.KindMessage:
	}
	return b.said(parent, rapid.String().Draw(r, "text")+strings.Repeat("much ", rapid.SampledFrom([]int{0, 0, 300}).Draw(r, "length")))
}

// drawTail is messages of the session, in any order and number, and some that it
// does not have. Long ones are there because a backend may store those once.
func (b *bench) drawTail(r *rapid.T) (tail []message.Message) {
	var known []message.Message
	for _, e := range b.model.entries {
		switch body := e.Body.(type) {
		case entry.Message:
			known = append(known, body.Message)
		case entry.Compaction:
			known = append(known, body.RetainedTail...)
		case entry.BranchSummary, entry.Custom:
		}
	}
	for i := range rapid.IntRange(0, 4).Draw(r, "tail") {
		if len(known) > 0 && rapid.Bool().Draw(r, fmt.Sprint("known ", i)) {
			tail = append(tail, rapid.SampledFrom(known).Draw(r, fmt.Sprint("kept ", i)))
		} else {
			tail = append(tail, userSaid(rapid.String().Draw(r, "new")+strings.Repeat("long ", rapid.SampledFrom([]int{0, 60, 500}).Draw(r, "length"))))
		}
	}
	return tail
}

func (b *bench) drawTx(r *rapid.T) tx.Tx {
	var t tx.Tx
	for i := range rapid.IntRange(0, 5).Draw(r, "writes") {
		switch rapid.IntRange(0, 9).Draw(r, fmt.Sprint("write ", i)) {
		case 0, 1, 2:
			t.Writes = append(t.Writes, insert(b.drawEntry(r, b.drawParent(r, t))))
		case 3, 4:
			row := b.spent(rapid.Int64Range(-5, 1<<40).Draw(r, "tokens"))
			row.Adjustment = row.Usage.Input < 0
			t.Writes = append(t.Writes, insertUsage(row))
		case 5, 6, 7:
			t.Writes = append(t.Writes, tx.Set(drawNamespace(r), rapid.SampledFrom(keys).Draw(r, "key"), jsonv.Str(rapid.String().Draw(r, "value"))))
		case 8:
			t.Writes = append(t.Writes, tx.Delete(drawNamespace(r), rapid.SampledFrom(keys).Draw(r, "key")))
		case 9: // an id that is mostly used already
			e := b.drawEntry(r, id.EntryID{})
			e.ID = b.drawSome(r)
			t.Writes = append(t.Writes, insert(e))
		}
	}
	for range rapid.IntRange(0, 2).Draw(r, "expectations") {
		a := register.Address{NS: drawNamespace(r), Key: rapid.SampledFrom(keys).Draw(r, "key")}
		seq := b.model.registers[a].Seq
		if rapid.IntRange(0, 4).Draw(r, "wrong?") == 0 {
			seq++
		}
		t.Expected = append(t.Expected, tx.Expectation{Address: a, Seq: seq})
	}
	return t
}

// drawParent is an entry of the session or of the transaction, none, or one that
// never was.
func (b *bench) drawParent(r *rapid.T, t tx.Tx) id.EntryID {
	if n := len(t.Writes); n > 0 && rapid.Bool().Draw(r, "within?") {
		if w, ok := t.Writes[n-1].(tx.InsertEntry); ok {
			return w.Entry.ID
		}
	}
	if rapid.IntRange(0, 9).Draw(r, "orphan?") == 0 {
		return b.entryID()
	}
	return b.drawKnown(r)
}
