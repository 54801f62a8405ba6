package engine_test

import (
	"context"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/storage"
)

// simStore injects the faults that a sim arms, each once.
type simStore struct {
	storage.Store
	s     *sim
	armed string
	dead  bool // the process that has this handle is gone, or must go
	ends  map[string]int
}

func (f *simStore) fire(fault string) bool {
	if f.armed != fault {
		return false
	}
	f.armed = ""
	f.s.seen[fault]++
	return true
}

func (f *simStore) CommitAll(txs ...tx.Tx) []storage.Outcome { return storage.OneByOne(f.Commit, txs) }

func (f *simStore) Commit(t tx.Tx) (tx.Result, error) {
	switch {
	case f.dead:
		return tx.Result{}, &tx.Faulted{Reason: "the process is dead"}
	case len(t.Expected) > 0 && f.fire("stale expectation"):
		return tx.Result{}, &tx.StaleExpectation{Failed: t.Expected[0]}
	case f.fire("lost lease"):
		f.dead = true
		return tx.Result{}, &tx.LeaseLost{HeldBy: new("another process")}
	case f.fire("failed commit"):
		f.dead = true
		return tx.Result{}, &tx.Faulted{Reason: "the disk is full"}
	}
	r, err := f.Store.Commit(t)
	if err != nil {
		return r, err
	}
	for _, w := range t.Writes {
		if set, ok := w.(tx.SetRegister); ok && set.NS == register.StrandLastResult {
			op, _ := set.Value.Get("operationId")
			f.ends[op.String()]++
		}
	}
	found, err := check.Session(f.s.w.store)
	if err != nil || len(found) > 0 {
		f.s.t.Fatalf("invariant/boundary: %v %v", found, err)
	}
	if f.fire("crash at a commit") {
		f.dead = true
		return tx.Result{}, &tx.Faulted{Reason: "the process died"}
	}
	return r, nil
}

func (f *simStore) Register(ns register.Namespace, key string) (register.Cell, bool, error) {
	if f.fire("read fault") {
		return register.Cell{}, false, &storage.BackendFault{Reason: "the disk did not answer"}
	}
	return f.Store.Register(ns, key)
}

// simTools tells the sim which of its calls run alone.
type simTools struct {
	*toolbox
	s *sim
}

func (b *simTools) Clear(c engine.Call) engine.Verdict {
	v := b.toolbox.Clear(c)
	if granted := grantedOf(v); granted != nil {
		return engine.Granted{Clearance: &simCall{granted, b.s}}
	}
	return v
}

type simCall struct {
	*clearance
	s *sim
}

func (c *simCall) Exclusive() bool {
	c.s.exclusive = c.clearance.Exclusive()
	return c.s.exclusive
}

func (c *simCall) Run(ctx context.Context, progress func(engine.Output)) (*message.ToolResult, bool) {
	if c.s.w.ran[c.call.ID] > 0 {
		c.s.seen["replayed call"]++
	}
	if c.call.Name == "abort" && ctx.Err() == nil {
		c.s.abort("a batch")
	}
	return c.clearance.Run(ctx, progress)
}
