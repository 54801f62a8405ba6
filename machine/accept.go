package machine

import (
	"errors"
	"fmt"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
)

// Rejections of an acceptance. Nothing was written.
var (
	ErrStrandBusy        = errors.New("the strand is working on another operation")
	ErrInvalidMessage    = errors.New("there is nothing to run: no prompt was given and none is queued")
	ErrNothingToCompact  = errors.New("there is nothing to compact: the whole conversation is recent enough to be kept")
	ErrUnknownTarget     = errors.New("there is no such entry to go to")
	ErrInvalidNavigation = errors.New("this is no way to go")
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
	Prompts  []message.Message // of a run
	Settings Settings          // of a run
}

// open completes the acceptance of an operation: its registers, the strand that
// works on it, and what must not have moved since it was planned.
func (in AcceptInputs) open(op Operation, st State, after StrandState, writes []tx.Write) tx.Tx {
	key := op.ID.String()
	after.CurrentOperation = op.ID
	return tx.Tx{
		Writes: append(writes,
			tx.Set(register.OpMeta, key, op.Value()),
			tx.Set(register.OpState, key, st.Value()),
			tx.Set(register.StrandState, in.Strand, after.Value())),
		Expected: []tx.Expectation{
			tx.Expect(register.StrandState, in.Strand, in.StateSeq),
			tx.Expect(register.StrandLeaf, in.Strand, in.LeafSeq),
			tx.ExpectAbsent(register.OpMeta, key),
			tx.ExpectAbsent(register.OpState, key),
		},
	}
}

// structural is an operation that makes a summary before it does anything else.
// What is queued for the strand's next run goes on waiting.
func (in AcceptInputs) structural(intent Intent, prep Preparation, work func(Structural) Work) (Operation, State, tx.Tx) {
	op, ids := Operation{Strand: in.Strand, SourceLeaf: in.Leaf, StartedAt: in.Now, Intent: intent}, in.IDs
	op.ID, ids = ids.Op()
	var s Structural
	var writes []tx.Write
	if prep != nil {
		task, _ := ids.Entry()
		s.TaskID = task.String()
		writes = append(writes, tx.Set(register.OpPreparation, PreparationKey(op.ID, s.TaskID), PreparationValue(prep)))
	}
	st := State{Control: Running{}, Work: work(s)}
	return op, st, in.open(op, st, in.State, writes)
}

// AcceptCompaction plans the one transaction that opens a compaction of a strand.
// prep is nil when there is nothing that could be summarised.
func AcceptCompaction(in AcceptInputs, prep *CompactionPreparation, instructions *string) (Operation, State, tx.Tx, error) {
	if !in.State.CurrentOperation.IsZero() {
		return Operation{}, State{}, tx.Tx{}, ErrStrandBusy
	}
	if prep == nil {
		return Operation{}, State{}, tx.Tx{}, ErrNothingToCompact
	}
	op, st, t := in.structural(CompactionIntent{instructions}, prep, func(s Structural) Work {
		return &Compaction{CustomInstructions: instructions, Structural: s}
	})
	return op, st, t, nil
}

// AcceptNavigation plans the one transaction that opens a move of a strand's leaf.
// known says that the target is an entry of the session; prep is the branch that is
// left, where it is to be summarised.
func AcceptNavigation(in AcceptInputs, to NavigationIntent, known bool, prep *BranchPreparation) (Operation, State, tx.Tx, error) {
	var err error
	switch {
	case !in.State.CurrentOperation.IsZero():
		err = ErrStrandBusy
	case to.TargetID == in.Leaf:
		err = fmt.Errorf("%w: the strand is there already", ErrInvalidNavigation)
	case to.TargetID.IsZero() && to.Label != nil:
		err = fmt.Errorf("%w: the root is no entry and has no label", ErrInvalidNavigation)
	case to.TargetID.IsZero() && to.Summarize:
		err = fmt.Errorf("%w: at the root there is no entry to put a summary below", ErrInvalidNavigation)
	case in.Leaf.IsZero() && to.Summarize:
		err = fmt.Errorf("%w: an empty strand has nothing to summarise", ErrInvalidNavigation)
	case !to.TargetID.IsZero() && !known:
		err = ErrUnknownTarget
	case to.Summarize && prep == nil:
		err = fmt.Errorf("%w: nothing is left behind that could be summarised", ErrInvalidNavigation)
	}
	if err != nil {
		return Operation{}, State{}, tx.Tx{}, err
	}
	work := Navigation{TargetID: to.TargetID, Label: to.Label}
	var frozen Preparation
	if to.Summarize {
		frozen, work.CustomInstructions = prep, to.CustomInstructions
	}
	op, st, t := in.structural(to, frozen, func(s Structural) Work {
		if to.Summarize {
			work.Structural = &s
		}
		return &work
	})
	return op, st, t, nil
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
	writes = append(writes, tx.Set(register.StrandLeaf, in.Strand, register.Leaf(leaf)))
	return op, st, in.open(op, st, StrandState{}, writes), nil
}
