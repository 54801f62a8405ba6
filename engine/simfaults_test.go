package engine_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/storage"
)

// The faults that are armed and wait for their moment; the others happen when they are injected.
var armedFaults = []string{"crash at a commit", "stale expectation", "read fault", "stolen lease", "failed commit"}

// simStore injects the faults that a sim arms, each once.
type simStore struct {
	storage.Store
	s      *sim
	armed  string
	dead   bool // the process that has this handle is gone, or must go
	stolen bool // another process has the session
	hurt   bool // a read failed
	middle func()
}

func (f *simStore) fire(fault string) bool {
	if f.armed != fault {
		return false
	}
	f.armed = ""
	f.s.saw(fault)
	return true
}

func (f *simStore) CommitAll(txs ...tx.Tx) []storage.Outcome { return storage.OneByOne(f.Commit, txs) }

func (f *simStore) Commit(t tx.Tx) (tx.Result, error) {
	switch {
	case f.stolen:
		return tx.Result{}, &tx.LeaseLost{HeldBy: new("another process")}
	case f.dead:
		return tx.Result{}, &tx.Faulted{Reason: "the process is dead"}
	case len(t.Expected) > 0 && f.fire("stale expectation"):
		return tx.Result{}, &tx.StaleExpectation{Failed: t.Expected[0]}
	case f.fire("stolen lease"):
		f.dead, f.stolen = true, true
		return tx.Result{}, &tx.LeaseLost{HeldBy: new("another process")}
	case f.fire("failed commit"):
		f.dead = true
		return tx.Result{}, &tx.Faulted{Reason: "the disk is full"}
	}
	r, err := f.Store.Commit(t)
	if err != nil {
		return r, err
	}
	f.s.commits++
	if err := f.s.rec.observe(t); err != nil {
		f.s.fail("invariant/boundary", "what was committed does not read: %v", err)
	}
	crash := f.fire("crash at a commit")
	if crash || f.s.commits%4 == f.s.phase { // a whole check is dear, and another seed looks at the others
		f.s.check()
	}
	if crash {
		f.dead = true
		return tx.Result{}, &tx.Faulted{Reason: "the process died"}
	}
	return r, nil
}

// check looks at the whole session.
func (s *sim) check() {
	found, err := check.Session(s.w.store)
	if err != nil {
		s.fail("invariant/boundary", "%v", err)
	}
	for _, v := range found {
		if v.Invariant == check.CallsAnswered {
			s.fail("tree/calls-answered", "%v", v)
		}
		s.fail("invariant/boundary", "%v", v)
	}
}

func (f *simStore) read() error {
	if !f.fire("read fault") {
		return nil
	}
	f.hurt = true
	return &storage.BackendFault{Reason: "the disk did not answer"}
}

// Within lets others act between what a pass reads and what it commits.
func (f *simStore) Within(g func(storage.Reader) error) error {
	err := f.Store.Within(func(r storage.Reader) error { return g(simReader{r, f}) })
	if middle := f.middle; middle != nil {
		f.middle = nil
		middle()
	}
	return err
}

func (f *simStore) reader() simReader { return simReader{f.Store, f} }

func (f *simStore) Register(ns register.Namespace, key string) (register.Cell, bool, error) {
	return f.reader().Register(ns, key)
}

func (f *simStore) Entries(ids ...id.EntryID) (map[id.EntryID]entry.Entry, error) {
	return f.reader().Entries(ids...)
}

func (f *simStore) ScanBranch(q storage.BranchQuery) ([]entry.Entry, error) {
	return f.reader().ScanBranch(q)
}

func (f *simStore) Registers(ns register.Namespace, prefix string) ([]storage.KeyedCell, error) {
	return f.reader().Registers(ns, prefix)
}

// simReader reads through a simStore: one state of it, or whatever is current.
type simReader struct {
	storage.Reader
	f *simStore
}

func (r simReader) Register(ns register.Namespace, key string) (register.Cell, bool, error) {
	if err := r.f.read(); err != nil {
		return register.Cell{}, false, err
	}
	return r.Reader.Register(ns, key)
}

func (r simReader) Entries(ids ...id.EntryID) (map[id.EntryID]entry.Entry, error) {
	if err := r.f.read(); err != nil {
		return nil, err
	}
	return r.Reader.Entries(ids...)
}

func (r simReader) ScanBranch(q storage.BranchQuery) ([]entry.Entry, error) {
	if q.Kind == "" { // notes that cannot be read are another thing, which the script decides
		if err := r.f.read(); err != nil {
			return nil, err
		}
	}
	return r.Reader.ScanBranch(q)
}

func (r simReader) Registers(ns register.Namespace, prefix string) ([]storage.KeyedCell, error) {
	if ns == register.FactCustom && r.f.s.script.notes == unreadable && len(prefix) > 6 && prefix[:6] == "agent/" {
		return nil, &storage.BackendFault{Reason: "the notes cannot be read"}
	}
	return r.Reader.Registers(ns, prefix)
}

// inject decides whether a fault happens now.
func (l *life) inject(fault string) bool {
	s := l.s
	if s.faults == 0 || l.store.dead || s.schedule.choose(20, fault) != 1 {
		return false
	}
	s.faults--
	s.saw(fault)
	return true
}

// struck is what may become of a request by no fault of its own.
func (l *life) struck(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return nil
	case l.inject("crash during an effect"):
		l.store.dead = true
	case l.inject("the provider dies"):
		return &provider.Error{Class: provider.Disconnect, Message: "the connection broke", Partial: &message.Assistant{
			Content: []message.AssistantBlock{message.Text{Text: "half of"}}, Usage: usage.Unknown(usage.API),
		}}
	case l.inject("the provider times out"):
		return &provider.Error{Class: provider.Deadline, Message: "no answer in time"}
	}
	return nil
}

// arm makes the store ready for a fault.
func (l *life) arm() {
	s := l.s
	if s.faults == 0 || l.store.armed != "" || s.schedule.choose(12, "arm") != 1 {
		return
	}
	s.faults--
	l.store.armed = armedFaults[s.schedule.choose(len(armedFaults), "fault")]
	s.armedAt = s.commits
}

// haunt lets an effect of a process that lost its lease go on. Nothing of it may reach the session.
func (s *sim) haunt(n int) {
	z := s.zombies[n]
	s.zombies = append(s.zombies[:n:n], s.zombies[n+1:]...)
	s.saw("effect of a process without its lease")
	before := s.commits
	z.run()
	if _, err := z.driver.Step(func(func()) {}); err == nil && s.commits != before {
		s.fail("replay/never-once", "a process without its lease went on")
	}
	if !slices.ContainsFunc(s.zombies, func(other simEffect) bool { return other.of == z.of }) {
		z.of.e.Close()
		z.of.box.settled(s.t)
	}
}

// broken is what a playing found wrong.
type broken struct{ check, detail string }

func (b *broken) Error() string { return b.check + ": " + b.detail }

func (s *sim) fail(check, format string, args ...any) {
	if s.broken == nil {
		s.broken = &broken{check, fmt.Sprintf(format, args...)}
	}
}

type simEffect struct {
	of        *life
	run       func()
	driver    *engine.Driver
	exclusive bool
}
