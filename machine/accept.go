package machine

import (
	"errors"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
)

// Rejections of an acceptance. Nothing was written.
var (
	ErrStrandBusy     = errors.New("the strand is working on another operation")
	ErrInvalidMessage = errors.New("there is nothing to run: no prompt was given and none is queued")
)

// AcceptInputs is what an acceptance has loaded.
type AcceptInputs struct {
	Now      int64
	IDs      id.Generator
	Strand   string
	State    StrandState
	StateSeq int64
	Leaf     id.EntryID
	LeafSeq  int64 // 0: there is no leaf register
	Pending  map[id.EntryID]PendingEntry
	Prompts  []message.Message
	Settings Settings
}

// AcceptRun plans the one transaction that turns prompts into an operation:
// first what was queued for the next run, then the prompts. Of the limits that
// both ask for the lesser holds.
func AcceptRun(in AcceptInputs) (Operation, State, tx.Tx, error) {
	if !in.State.CurrentOperation.IsZero() {
		return Operation{}, State{}, tx.Tx{}, ErrStrandBusy
	}
	if len(in.Prompts)+len(in.State.PendingNextRun) == 0 {
		return Operation{}, State{}, tx.Tx{}, ErrInvalidMessage
	}
	ids := in.IDs
	op := Operation{Strand: in.Strand, SourceLeaf: in.Leaf, StartedAt: in.Now}
	op.ID, ids = ids.Op()
	leaf := in.Leaf
	var writes []tx.Write
	var prompts []id.EntryID
	place := func(i id.EntryID, body entry.Body) {
		writes = append(writes, tx.InsertEntry{Entry: entry.Entry{ID: i, Parent: leaf, Body: body}})
		leaf = i
		prompts = append(prompts, i)
	}
	for _, i := range in.State.PendingNextRun {
		pending, ok := in.Pending[i]
		if !ok {
			return Operation{}, State{}, tx.Tx{}, corrupt.New("machine.AcceptRun", "pending.entry/"+i.String(), "the queued entry", "nothing")
		}
		place(i, pending.Body)
		writes = append(writes, tx.Delete(register.PendingEntry, i.String()))
	}
	for _, m := range in.Prompts {
		var i id.EntryID
		i, ids = ids.Entry()
		place(i, entry.Message{Message: m})
	}
	op.Intent = RunIntent{PromptEntryIDs: prompts}
	settings := in.Settings
	settings.MaxTurns = in.State.Start.and(&Start{settings.MaxTurns}).MaxTurns
	st := State{Control: Running{}, Work: &Run{Settings: settings, Phase: Starting{}}}
	key := op.ID.String()
	writes = append(writes,
		tx.Set(register.StrandLeaf, in.Strand, register.Leaf(leaf)),
		tx.Set(register.OpMeta, key, op.Value()),
		tx.Set(register.OpState, key, st.Value()),
		tx.Set(register.StrandState, in.Strand, StrandState{CurrentOperation: op.ID}.Value()))
	return op, st, tx.Tx{Writes: writes, Expected: []tx.Expectation{
		tx.Expect(register.StrandState, in.Strand, in.StateSeq),
		tx.Expect(register.StrandLeaf, in.Strand, in.LeafSeq),
		tx.ExpectAbsent(register.OpMeta, key),
		tx.ExpectAbsent(register.OpState, key),
	}}, nil
}
