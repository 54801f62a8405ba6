package engine

import (
	"errors"
	"fmt"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/machine/summary"
	"github.com/loom-run/loom/session"
)

// Compact starts a compaction of an idle strand: what is older than the recent
// part of its conversation is replaced by a summary. It returns once that is
// durable; the end is awaited like that of a run. A busy strand is
// machine.ErrStrandBusy, and where everything is recent it is
// machine.ErrNothingToCompact.
func (e *Engine) Compact(strand string, instructions *string) (id.OpID, error) {
	return e.start(strand, func(in machine.AcceptInputs) (machine.Operation, machine.State, tx.Tx, error) {
		prep, err := e.prepare(in)
		if err != nil {
			return machine.Operation{}, machine.State{}, tx.Tx{}, err
		}
		return machine.AcceptCompaction(in, prep, instructions)
	})
}

// prepare cuts the context of a strand as a compaction would.
func (e *Engine) prepare(in machine.AcceptInputs) (*machine.CompactionPreparation, error) {
	config, ok, err := e.cfg.Session.StrandConfig(in.Strand)
	if err != nil || !ok || in.Leaf.IsZero() {
		return nil, err
	}
	branch, err := e.cfg.Session.Branch(in.Leaf)
	if err != nil {
		return nil, err
	}
	d := e.Driver(in.Strand)
	m, _, err := d.resolve(config.Value.Model)
	if err != nil {
		m.ContextWindow = 0
	}
	settings := e.cfg.Settings.Compaction
	if settings.ReserveTokens <= 0 || settings.KeepRecentTokens <= 0 {
		settings.ReserveTokens, settings.KeepRecentTokens = machine.DefaultReserveTokens, machine.DefaultKeepRecentTokens
	}
	c := summary.Of(branch, e.cfg.Policy)
	c.Fixed = d.fixed(config.Value.ActiveToolNames)
	return c.Prepare(m.ContextWindow, settings), nil
}

// Navigate moves the leaf of an idle strand to an entry, or to the root. With
// Summarize a summary of the branch that is left is put below the target first. It
// returns once that is durable, as [Engine.Compact] does; the rejections are
// machine's.
func (e *Engine) Navigate(strand string, to machine.NavigationIntent) (id.OpID, error) {
	return e.start(strand, func(in machine.AcceptInputs) (machine.Operation, machine.State, tx.Tx, error) {
		found, err := e.cfg.Session.Rows().Entries(to.TargetID)
		if err != nil {
			return machine.Operation{}, machine.State{}, tx.Tx{}, err
		}
		_, known := found[to.TargetID]
		var prep *machine.BranchPreparation
		if to.Summarize && known && !in.Leaf.IsZero() && in.State.CurrentOperation.IsZero() {
			if prep, err = e.left(in.Leaf, to.TargetID); err != nil {
				return machine.Operation{}, machine.State{}, tx.Tx{}, err
			}
		}
		return machine.AcceptNavigation(in, to, known, prep)
	})
}

// start accepts an operation of an idle strand and wakes its driver.
func (e *Engine) start(strand string, accept func(machine.AcceptInputs) (machine.Operation, machine.State, tx.Tx, error)) (id.OpID, error) {
	if err := e.usable(strand); err != nil {
		return id.OpID{}, err
	}
	for range admissionTries {
		state, ok, err := e.cfg.Session.StrandState(strand)
		if err != nil {
			return id.OpID{}, err
		}
		if !ok {
			return id.OpID{}, noStrand(strand)
		}
		in, err := e.acceptance(strand, state)
		if err != nil {
			return id.OpID{}, err
		}
		op, _, t, err := accept(in)
		if err != nil {
			return id.OpID{}, err
		}
		_, err = e.writer.commit(t, started(op, false), nil)
		if _, stale := errors.AsType[*tx.StaleExpectation](err); stale {
			continue
		}
		if err == nil {
			e.Driver(strand).Ring()
		}
		return op.ID, err
	}
	return id.OpID{}, fmt.Errorf("the strand %s changed faster than this could be accepted; it was not taken, try again", strand)
}

// acceptance is what every acceptance reads.
func (e *Engine) acceptance(strand string, state session.Cell[machine.StrandState]) (machine.AcceptInputs, error) {
	leaf, _, err := e.cfg.Session.StrandLeaf(strand)
	return machine.AcceptInputs{
		Now: e.cfg.Clock(), IDs: e.generator(), Strand: strand,
		State: state.Value, StateSeq: state.Seq, Leaf: leaf.Value, LeafSeq: leaf.Seq,
	}, err
}
