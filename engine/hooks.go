package engine

import (
	"slices"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/machine"
)

// runStart and runEnd ask a hook. One that crashes, and what cannot be stored, is
// as if it had said nothing: a run must not depend on it.

func (d *Driver) runStart(op machine.Operation) (o machine.RunStarting) {
	defer func() {
		if recover() != nil {
			o = machine.RunStarting{}
		}
	}()
	return machine.RunStarting{Entries: slices.DeleteFunc(slices.Clone(d.e.cfg.Hooks.RunStart(op)), unstorable)}
}

func (d *Driver) runEnd(op machine.Operation, k machine.RunEndKey) (o machine.RunEnding) {
	defer func() {
		if recover() != nil {
			o = machine.RunEnding{}
		}
	}()
	if e := d.e.cfg.Hooks.RunEnd(op, k.FinalAssistant); e != nil && !unstorable(*e) {
		o.FollowUp = e
	}
	return o
}

func unstorable(e machine.PendingEntry) bool {
	switch b := e.Body.(type) {
	case entry.Message:
		_, err := storable(b.Message)
		return err != nil
	case entry.Custom:
		return b.Data != nil && b.Data.Depth() > maxDepth
	default: // only these two can be queued
		return true
	}
}
