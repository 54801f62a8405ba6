// Package repo is what is done to whole sessions: forks, and the precise rewrite.
//
// # Purpose
//
// A session that runs only grows. Two things reach over that: a fork makes a new
// session out of an old one, and a rewrite makes an old one anew without something
// that must not be in it.
//
// # Key types
//
// [Fork] with [ForkScope] and [ForkDestination]; [EntryRewrite] and [ValueRewrite],
// the transforms of a rewrite, and [RewriteMemory] and [RewriteSQLite] that apply
// them. [EraseText] and [EraseValue] are the transforms that rewrites exist for.
//
// # Relationships
//
// Imports core, machine for the state of a fresh strand, session, storage and both
// backends.
//
// # Traffic
//
// One transaction for each new session. Nothing is ever committed to a source.
//
// # Invariants
//
// A fork copies nothing that runs and nothing that was spent: no operation, no
// queue, no result, no ledger. It is born with an id of its own and the id of its
// source, in the transaction that copies the rest. A rewrite keeps every id, every
// parent, every kind and every key. What a transform returns reads back as a row of
// its kind, or the rewrite fails and changes nothing.
//
// Both read a source that nobody commits to; that is the caller's to see to. Where
// somebody does all the same, a fork still has every entry that its strands stand
// at: cells are read before entries, and entries are never changed.
package repo

import (
	"errors"
	"fmt"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/memory"
	"github.com/loom-run/loom/storage/sqlite"
)

// ForkScope is Branch or Tree.
type ForkScope interface{ forkScope() }

// Branch is the path from the root to one entry. The fork has one strand, main, with
// the configuration that Strand has in the source, if it has one there.
type Branch struct {
	Strand string
	At     id.EntryID
}

// Tree is every entry, with all strands where they stand.
type Tree struct{}

func (Branch) forkScope() {}
func (Tree) forkScope()   {}

// ForkDestination makes the store that a fork goes into.
type ForkDestination struct {
	open func(self id.SessionID) (storage.Store, error)
}

// Into is a store that open makes for a session of that id.
func Into(open func(self id.SessionID) (storage.Store, error)) ForkDestination {
	return ForkDestination{open}
}

// IntoMemory is a session in memory. now gives Unix ms.
func IntoMemory(now func() int64) ForkDestination {
	return Into(func(id.SessionID) (storage.Store, error) { return memory.New(now), nil })
}

// IntoSQLite is a session file: at says where and as whom a session of that id is
// opened.
func IntoSQLite(at func(self id.SessionID) sqlite.Config) ForkDestination {
	return Into(func(self id.SessionID) (storage.Store, error) { return sqlite.Open(at(self)) })
}

// Errors of a fork. In each case the source is unchanged and the destination holds
// nothing of it.
type (
	// SourceRead: the source could not be read, or changed under the read.
	SourceRead struct{ Err error }
	// PointUnknown: the source has no such entry.
	PointUnknown struct{ ID id.EntryID }
	// DestinationOpen: the destination could not be made.
	DestinationOpen struct{ Err error }
	// DestinationRead: the destination could not be looked at.
	DestinationRead struct{ Err error }
	// DestinationNotEmpty: the destination holds entries already.
	DestinationNotEmpty struct{}
	// CopyFailed: the transaction was refused. Err is one of the refusals of core/tx;
	// a *tx.StaleExpectation says that the destination is a session already.
	CopyFailed struct{ Err error }
)

func (e *SourceRead) Error() string {
	return "the session could not be read, nothing was made: " + e.Err.Error()
}
func (e *SourceRead) Unwrap() error { return e.Err }

func (e *PointUnknown) Error() string {
	return fmt.Sprintf("the session has no entry %s, nothing was made", e.ID)
}

func (e *DestinationOpen) Error() string {
	return "the new session could not be made: " + e.Err.Error()
}
func (e *DestinationOpen) Unwrap() error { return e.Err }

func (e *DestinationRead) Error() string {
	return "the new session could not be looked at, nothing was copied: " + e.Err.Error()
}
func (e *DestinationRead) Unwrap() error { return e.Err }

func (e *DestinationNotEmpty) Error() string {
	return "the destination holds a session already, nothing was copied"
}

func (e *CopyFailed) Error() string {
	return "the session could not be copied, nothing of it was kept: " + e.Err.Error()
}
func (e *CopyFailed) Unwrap() error { return e.Err }

// Plan is one fork.
type Plan struct {
	Source *session.View
	Scope  ForkScope
	To     ForkDestination
	// Carry, when given, is told the entries once the destination is open and before
	// they are committed to it: the moment to bring along what they refer to. Its
	// error fails the fork as *CopyFailed.
	Carry func(self id.SessionID, copied []entry.Entry) error
}

// Fork copies a source into a fresh destination, in one transaction, and returns
// the new session, open and idle, with its id.
func Fork(p Plan, ids id.Generator) (*session.Session, id.SessionID, id.Generator, error) {
	before, err := generation(p.Source)
	if err != nil {
		return nil, id.SessionID{}, ids, &SourceRead{err}
	}
	c, err := read(p.Source, p.Scope)
	if err != nil {
		return nil, id.SessionID{}, ids, err
	}
	self, ids := ids.Session()
	store, err := p.To.open(self)
	if err != nil {
		return nil, id.SessionID{}, ids, &DestinationOpen{err}
	}
	forked := session.New(store)
	if err := c.into(forked, self, func() error {
		if p.Carry != nil {
			if err := p.Carry(self, c.entries); err != nil {
				return &CopyFailed{err}
			}
		}
		// Whoever rewrites the source later than this finds the destination, which is
		// open, and deals with it.
		return unchanged(p.Source, before)
	}); err != nil {
		_ = forked.Close() // the error is told, and nothing in it is worth keeping
		return nil, id.SessionID{}, ids, err
	}
	// The catalogue is a projection that each opening repairs.
	_, ids, _ = forked.EnsureID(ids)
	return forked, self, ids, nil
}

// generation is how often a source was rewritten.
func generation(v *session.View) (int64, error) {
	now, err := v.Rows().Snapshot()
	return now.Generation, err
}

// errRewritten is a source that was rewritten while it was read: what was erased
// from it may be in the copy.
var errRewritten = errors.New("it was rewritten meanwhile, try again")

func unchanged(v *session.View, before int64) error {
	after, err := generation(v)
	if err == nil && after != before {
		err = errRewritten
	}
	if err != nil {
		return &SourceRead{err}
	}
	return nil
}

// content is what a fork copies. cells are those of the destination but for its
// identity.
type content struct {
	entries []entry.Entry
	cells   []tx.Write
	parent  id.SessionID // of the source itself; may be absent
}

func (c *content) set(ns register.Namespace, key string, v jsonv.Value) {
	c.cells = append(c.cells, tx.Set(ns, key, v))
}

func read(v *session.View, scope ForkScope) (content, error) {
	var c content
	var err error
	if c.parent, _, err = v.ID(); err != nil {
		return content{}, &SourceRead{err}
	}
	switch s := scope.(type) {
	case Branch:
		err = c.branch(v, s)
	case Tree:
		err = c.tree(v)
	default:
		panic(fmt.Sprintf("a fork of an unknown scope, %T", s))
	}
	return c, err
}

func (c *content) branch(v *session.View, s Branch) error {
	config, configured, err := v.Rows().Register(register.StrandConfig, s.Strand)
	if err != nil {
		return &SourceRead{err}
	}
	labels, err := v.Rows().Registers(register.FactLabel, "")
	if err != nil {
		return &SourceRead{err}
	}
	c.entries, err = v.Rows().ScanBranch(storage.BranchQuery{Start: s.At, Order: storage.OldestFirst})
	if _, unknown := errors.AsType[*storage.UnknownEntry](err); unknown {
		return &PointUnknown{s.At}
	}
	if err != nil {
		return &SourceRead{err}
	}
	if configured {
		c.set(register.StrandConfig, session.MainStrand, config.Value)
	}
	c.set(register.StrandLeaf, session.MainStrand, register.Leaf(s.At))
	c.set(register.StrandState, session.MainStrand, machine.StrandState{}.Value())
	copied := make(map[string]bool, len(c.entries))
	for _, e := range c.entries {
		copied[e.ID.String()] = true
	}
	for _, l := range labels {
		if copied[l.Key] {
			c.set(register.FactLabel, l.Key, l.Value)
		}
	}
	return c.facts(v, register.FactName)
}

func (c *content) tree(v *session.View) error {
	strands := make(map[string]bool)
	for _, ns := range []register.Namespace{register.StrandConfig, register.StrandLeaf} {
		cells, err := v.Rows().Registers(ns, "")
		if err != nil {
			return &SourceRead{err}
		}
		for _, cell := range cells {
			c.set(ns, cell.Key, cell.Value)
			if !strands[cell.Key] {
				strands[cell.Key] = true
				c.set(register.StrandState, cell.Key, machine.StrandState{}.Value())
			}
		}
	}
	if err := c.facts(v, register.FactName, register.FactLabel); err != nil {
		return err
	}
	var err error
	if c.entries, err = v.Rows().ScanEntries(storage.EntryQuery{}); err != nil {
		return &SourceRead{err}
	}
	return nil
}

// facts copies namespaces whole, and the directory that the session works in: it is
// the one fact.custom without which a fork could not run.
func (c *content) facts(v *session.View, namespaces ...register.Namespace) error {
	for _, ns := range namespaces {
		cells, err := v.Rows().Registers(ns, "")
		if err != nil {
			return &SourceRead{err}
		}
		for _, cell := range cells {
			c.set(ns, cell.Key, cell.Value)
		}
	}
	workspace, ok, err := v.Workspace()
	if err != nil {
		return &SourceRead{err}
	}
	if ok {
		c.set(register.FactCustom, session.WorkspaceKey, jsonv.Str(workspace))
	}
	return nil
}

// into commits everything to an empty destination, if ready, which is asked last,
// has nothing against it.
func (c *content) into(to *session.Session, self id.SessionID, ready func() error) error {
	there, err := to.Store().ScanEntries(storage.EntryQuery{Limit: new(1)})
	if err != nil {
		return &DestinationRead{err}
	}
	if len(there) > 0 {
		return &DestinationNotEmpty{}
	}
	if err := ready(); err != nil {
		return err
	}
	t := tx.Tx{
		Writes:   make([]tx.Write, 0, len(c.entries)+len(c.cells)+2),
		Expected: []tx.Expectation{tx.ExpectAbsent(register.FactCustom, session.IDKey)},
	}
	for _, e := range c.entries {
		t.Writes = append(t.Writes, tx.InsertEntry{Entry: e})
	}
	t.Writes = append(t.Writes, c.cells...)
	t.Writes = append(t.Writes, tx.Set(register.FactCustom, session.IDKey, jsonv.Str(self.String())))
	if !c.parent.IsZero() {
		t.Writes = append(t.Writes, tx.Set(register.FactCustom, session.ParentKey, jsonv.Str(c.parent.String())))
	}
	if _, err := to.Store().Commit(t); err != nil {
		return &CopyFailed{err}
	}
	return nil
}
