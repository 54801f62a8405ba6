// Package storagetest is the definition of a correct storage backend: a suite
// that each one runs.
//
// # Purpose
//
// A backend is correct when [Run] passes. The suite states the contract of
// package storage group by group, then drives a store and a model of it through
// the same random commits and reads and compares them.
//
// # Key types
//
// [Opener] is what a backend gives to [Run].
//
// # Relationships
//
// Imports storage, core and testing libraries. Imported by tests of backends.
//
// # Traffic
//
// Commits to the stores it is given.
//
// # Invariants
//
// After every successful commit of the suite the counters of the store equal
// sums of the model, and every refused commit left the next seq as it was.
package storagetest

import (
	"testing"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/storage"
	"pgregory.net/rapid"
)

// Opener opens one session.
type Opener interface {
	// Open opens the session, the first time a new one. It is called again only
	// after the store that it returned was closed, and then returns the same
	// session.
	Open(t rapid.TB) storage.Store
}

// Run runs the suite. fresh returns an opener of a session that does not exist
// yet; its store stamps commits with now.
func Run(t *testing.T, fresh func(t *testing.T, now func() int64) Opener) {
	for _, group := range []struct {
		name string
		run  func(*bench)
	}{
		{"a refused commit leaves nothing", atomicity},
		{"every write consumes the next seq", seqs},
		{"writes apply in order", writeOrder},
		{"an id is never used twice", duplicateIDs},
		{"a parent exists at commit", parents},
		{"what cannot be read back is not written", unreadableRows},
		{"usage that lies spoils no counter", absurdUsage},
		{"keys are bytes", registerKeys},
		{"expectations are compare-and-set", expectations},
		{"several commits are as many single ones", several},
		{"a queued entry is pending, placed or neither", placement},
		{"a branch scan cuts in the order of the contract", branchPipeline},
		{"pages of a branch are the whole branch", branchPages},
		{"every path is exact after every commit", branchGrowth},
		{"a long branch is read by its newest page", longBranch},
		{"entries are scanned by seq", entryScans},
		{"the ledger is scanned by seq", usageScans},
		{"a row reads back as it was committed", roundTrip},
		{"a compaction keeps its tail", tails},
		{"a page has a size", pageBytes},
		{"a snapshot is one state", snapshots},
		{"reads within are of one state", oneState},
		{"a closed handle says so", closing},
		{"a session outlives its handle", reopening},
	} {
		t.Run(group.name, func(t *testing.T) { group.run(newBench(t, t, fresh)) })
	}
	t.Run("the store is its model", func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) { machine(r, newBench(t, r, fresh)) })
	})
}

// bench is one store beside the model of it.
type bench struct {
	rapid.TB
	opener Opener
	store  storage.Store
	model  *model
	ids    id.Generator
	now    int64
}

// newBench opens a fresh session. owner keeps what the session needs, such as its
// folder; t is told what fails.
func newBench(owner *testing.T, t rapid.TB, fresh func(t *testing.T, now func() int64) Opener) *bench {
	b := &bench{TB: t, model: newModel(), ids: id.NewGenerator(clock.Stepping(1_767_225_600_000, 7), 42), now: 1_767_225_600_000}
	b.opener = fresh(owner, func() int64 { b.now++; return b.now })
	b.store = b.opener.Open(t)
	owner.Cleanup(func() { _ = b.store.Close() })
	return b
}

// reopen closes the session and opens it again.
func (b *bench) reopen() {
	b.Helper()
	if err := b.store.Close(); err != nil {
		b.Fatalf("close: %v", err)
	}
	b.store = b.opener.Open(b.TB)
}

// commit commits to both and compares outcome, counters and the seq to come.
func (b *bench) commit(t tx.Tx) (tx.Result, error) {
	b.Helper()
	got, err := b.store.Commit(t)
	want, refusal := b.model.commit(t, b.now)
	if kindOf(err) != kindOf(refusal) {
		b.Fatalf("commit of %d writes: %v, want %v", len(t.Writes), err, refusal)
	}
	if err == nil && !sameResult(got, want) {
		b.Fatalf("commit landed at %+v, want %+v", got, want)
	}
	b.sameStats()
	return got, err
}

// commitAll commits several at once and compares with as many single commits to
// the model.
func (b *bench) commitAll(txs ...tx.Tx) []storage.Outcome {
	b.Helper()
	outcomes := b.store.CommitAll(txs...)
	if len(outcomes) != len(txs) {
		b.Fatalf("%d transactions have %d outcomes", len(txs), len(outcomes))
	}
	for i, o := range outcomes {
		want, refusal := b.model.commit(txs[i], o.Result.Timestamp)
		if kindOf(o.Err) != kindOf(refusal) {
			b.Fatalf("transaction %d of %d: %v, want %v", i, len(txs), o.Err, refusal)
		}
		if o.Err == nil && !sameResult(o.Result, want) {
			b.Fatalf("transaction %d of %d landed at %+v, want %+v", i, len(txs), o.Result, want)
		}
	}
	b.sameStats()
	return outcomes
}

func (b *bench) sameStats() {
	b.Helper()
	stats, err := b.store.Stats()
	if err != nil {
		b.Fatalf("stats: %v", err)
	}
	if w := b.model.stats(); stats.Messages != w.Messages || usageText(stats.Usage) != usageText(w.Usage) {
		b.Fatalf("stats are %d messages and %s, want %d and %s", stats.Messages, usageText(stats.Usage), w.Messages, usageText(w.Usage))
	}
}

// must is commit for what has to succeed.
func (b *bench) must(writes ...tx.Write) tx.Result {
	b.Helper()
	r, err := b.commit(tx.Tx{Writes: writes})
	if err != nil {
		b.Fatalf("commit: %v", err)
	}
	return r
}

// refused commits what has to be refused as kind, and checks that nothing of it
// stayed: the model, which forgot it, still equals the store.
func (b *bench) refused(kind string, t tx.Tx) {
	b.Helper()
	_, err := b.commit(t)
	if kindOf(err) != kind {
		b.Fatalf("commit: %v, want %s", err, kind)
	}
	b.same()
}

// same compares everything that the store holds with the model.
func (b *bench) same() {
	b.Helper()
	entries, err := b.store.ScanEntries(storage.EntryQuery{})
	b.equal("entries", texts(entries), texts(b.model.entries), err)
	rows, err := b.store.ScanUsage(storage.UsageQuery{})
	b.equal("ledger", rowTexts(rows), rowTexts(b.model.ledger), err)
	cells, err := b.allRegisters()
	b.equal("registers", cells, b.model.allRegisters(), err)
}

func (b *bench) equal(what string, got, want []string, err error) {
	b.Helper()
	if err != nil {
		b.Fatalf("%s: %v", what, err)
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			b.Fatalf("%s: %d rows, want %d; missing %s", what, len(got), len(want), want[i])
		case i >= len(want):
			b.Fatalf("%s: %d rows, want %d; one too many is %s", what, len(got), len(want), got[i])
		case got[i] != want[i]:
			b.Fatalf("%s: row %d is\n%s, want\n%s", what, i, got[i], want[i])
		}
	}
}

// kindOf names the refusal in err.
func kindOf(err error) string {
	switch e := err.(type) { //nolint:errorlint // the contract is the type itself
	case nil:
		return ""
	case *tx.StaleExpectation:
		return "stale " + e.Failed.String()
	case *tx.Corruption:
		return "corruption"
	case *tx.Faulted:
		return "faulted"
	case *tx.LeaseLost:
		return "lease lost"
	}
	return "another error: " + err.Error()
}

func sameResult(a, b tx.Result) bool {
	if a.FirstSeq != b.FirstSeq || a.Timestamp != b.Timestamp || len(a.Seqs) != len(b.Seqs) {
		return false
	}
	for i := range a.Seqs {
		if a.Seqs[i] != b.Seqs[i] {
			return false
		}
	}
	return true
}

func texts(list []entry.Entry) []string {
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = string(entry.Encode(e))
	}
	return out
}

func rowTexts(list []entry.UsageRow) []string {
	out := make([]string, len(list))
	for i, row := range list {
		var w jsonv.Writer
		entry.AppendUsageRow(&w, row)
		out[i] = string(w.Bytes())
	}
	return out
}

func usageText(u usage.Usage) string {
	var w jsonv.Writer
	usage.Append(&w, u)
	return string(w.Bytes())
}

// Constructors of rows.

func (b *bench) entryID() id.EntryID {
	i, next := b.ids.Entry()
	b.ids = next
	return i
}

func (b *bench) usageID() id.UsageID {
	i, next := b.ids.Usage()
	b.ids = next
	return i
}

// said is a message entry with a fresh id.
func (b *bench) said(parent id.EntryID, text string) entry.Entry {
	return entry.Entry{ID: b.entryID(), Parent: parent, Body: entry.Message{Message: userSaid(text)}}
}

func (b *bench) compacted(parent id.EntryID, summary string) entry.Entry {
	return entry.Entry{ID: b.entryID(), Parent: parent, Body: entry.Compaction{Summary: summary, TokensBefore: 9}}
}

// userSaid is a message of a person.
func userSaid(text string) message.Message {
	return &message.User{Content: []message.UserBlock{message.Text{Text: text}}, Timestamp: 5}
}

// keeping is a compaction with a tail.
func (b *bench) keeping(body entry.Body, tail []message.Message) entry.Body {
	b.Helper()
	c, ok := body.(entry.Compaction)
	if !ok {
		b.Fatalf("%T is no compaction", body)
	}
	c.RetainedTail = tail
	return c
}

func (b *bench) custom(parent id.EntryID, kind string, data *jsonv.Value) entry.Entry {
	return entry.Entry{ID: b.entryID(), Parent: parent, Body: entry.Custom{Type: kind, Data: data}}
}

func (b *bench) spent(input int64) entry.UsageRow {
	return entry.UsageRow{ID: b.usageID(), Usage: usage.Usage{
		Input: input, TotalTokens: input, Cost: usage.Cost{Input: usage.Micros(3 * input), Total: usage.Micros(3 * input)},
		Evidence: usage.Reported(usage.API, usage.Complete).WithPrice(usage.APIRates),
	}}
}

func insert(e entry.Entry) tx.Write           { return tx.InsertEntry{Entry: e} }
func insertUsage(row entry.UsageRow) tx.Write { return tx.InsertUsage{Row: row} }
