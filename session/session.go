// Package session is one open session, typed: who it is, what its strands stand
// at, and what the model is shown.
//
// # Purpose
//
// Above the bytes of a store, below the engine: identity, boot seeding of
// strands, decoded registers with the seq they were read at, and the projection
// of a branch.
//
// # Key types
//
// [Session] and its read half [View], [Cell], [Corrupt].
//
// # Relationships
//
// Imports core, machine (the payloads of registers and their codecs),
// session/projection and storage.
//
// # Traffic
//
// Commits outside the engine's writer, all at boot: [Session.Reserve],
// [Session.EnsureID], [Session.Found] and [Session.EnsureStrand], guarded
// by the absence of what they write; and [Session.Move] of a session that was brought
// from elsewhere. Reads registers through one accessor for each namespace.
//
// # Invariants
//
// A register that does not decode is [*Corrupt], never a partial value, and is
// kept apart from a store that failed. Every typed read carries its seq: that is
// the token for the caller's expectation. Identity and [View.PendingEntries] are
// read for what they say: nothing is guarded by their seqs.
package session

import (
	"errors"
	"fmt"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session/projection"
	"github.com/loom-run/loom/storage"
)

// The reserved cells of fact.custom that say what a session is.
const (
	IDKey        = "session/id"
	ParentKey    = "session/parent"
	WorkspaceKey = "session/workspace" // the absolute directory that it works in
)

// MainStrand is the strand that a person talks to.
const MainStrand = "main"

// View is a session for reading, typed. It may look at a session that another
// process writes.
type View struct {
	rows storage.Reader
}

// NewView wraps the read half of a store.
func NewView(rows storage.Reader) *View { return &View{rows} }

// Rows returns the handle for scans.
func (s *View) Rows() storage.Reader { return s.rows }

// Within runs f over one committed state, as [storage.Reader.Within] does.
func (s *View) Within(f func(*View) error) error {
	return s.rows.Within(func(r storage.Reader) error { return f(&View{r}) })
}

// Close closes the handle.
func (s *View) Close() error { return s.rows.Close() }

// Session is one open session. It is safe for concurrent use; exactly one writer
// should commit.
type Session struct {
	View
	store storage.Store
}

// New wraps an open store.
func New(store storage.Store) *Session { return &Session{View{store}, store} }

// Store returns the handle for commits.
func (s *Session) Store() storage.Store { return s.store }

// Corrupt is a register that does not decode.
type Corrupt struct{ Report *corrupt.Report }

func (e *Corrupt) Error() string { return "the session is damaged: " + e.Report.Error() }
func (e *Corrupt) Unwrap() error { return e.Report }

// Cell is a decoded register and the seq it was read at.
type Cell[T any] struct {
	Seq   int64
	Value T
}

// read decodes one register; ok is false when there is none.
func read[T any](s *View, ns register.Namespace, key string, decode func(jsonv.Value) (T, error)) (Cell[T], bool, error) {
	raw, ok, err := s.rows.Register(ns, key)
	if err != nil || !ok {
		return Cell[T]{}, false, err
	}
	v, err := decode(raw.Value)
	if err != nil {
		return Cell[T]{}, false, damaged(ns, key, err)
	}
	return Cell[T]{raw.Seq, v}, true, nil
}

func damaged(ns register.Namespace, key string, err error) error {
	if r, ok := corrupt.As(err); ok {
		return &Corrupt{r.In(string(ns) + "/" + key)}
	}
	return fmt.Errorf("reading %s/%s: %w", ns, key, err)
}

// StrandConfig reads strand.config.
func (s *View) StrandConfig(strand string) (Cell[machine.Configuration], bool, error) {
	return read(s, register.StrandConfig, strand, machine.DecodeConfiguration)
}

// StrandState reads strand.state.
func (s *View) StrandState(strand string) (Cell[machine.StrandState], bool, error) {
	return read(s, register.StrandState, strand, machine.DecodeStrandState)
}

// StrandLeaf reads strand.leaf: no cell, or a cell whose leaf may be absent.
func (s *View) StrandLeaf(strand string) (Cell[id.EntryID], bool, error) {
	return read(s, register.StrandLeaf, strand, register.DecodeLeaf)
}

// LastResult reads strand.last_result.
func (s *View) LastResult(strand string) (Cell[machine.LastResult], bool, error) {
	return read(s, register.StrandLastResult, strand, machine.DecodeLastResult)
}

// OperationResult reads the result of a finished operation.
func (s *View) OperationResult(op id.OpID) (Cell[machine.LastResult], bool, error) {
	return read(s, register.FactCustom, machine.ResultKey(op), machine.DecodeLastResult)
}

// OpMeta reads op.meta.
func (s *View) OpMeta(op id.OpID) (Cell[machine.Operation], bool, error) {
	return read(s, register.OpMeta, op.String(), machine.DecodeOperation)
}

// OpState reads op.state.
func (s *View) OpState(op id.OpID) (Cell[machine.State], bool, error) {
	return read(s, register.OpState, op.String(), machine.DecodeState)
}

// ToolArguments reads the cleared arguments of a call: any JSON.
func (s *View) ToolArguments(op id.OpID, step string, sourceIndex int) (Cell[jsonv.Value], bool, error) {
	c, ok, err := s.rows.Register(register.OpToolArgs, machine.ToolArgsKey(op, step, sourceIndex))
	return Cell[jsonv.Value]{c.Seq, c.Value}, ok, err
}

// Preparation reads the frozen input of a summary: that of the task which the
// operation's state names. A key is exact where the first one with the
// operation's prefix could be another task's.
func (s *View) Preparation(op id.OpID, task string) (Cell[machine.Preparation], bool, error) {
	return read(s, register.OpPreparation, machine.PreparationKey(op, task), machine.DecodePreparation)
}

// PendingPayloads reads the whole namespace of queued and staged entries. One
// that does not decode, or whose key is no entry's id, fails the whole read.
func (s *View) PendingPayloads() (map[id.EntryID]Cell[machine.PendingEntry], error) {
	cells, err := s.rows.Registers(register.PendingEntry, "")
	if err != nil {
		return nil, err
	}
	out := make(map[id.EntryID]Cell[machine.PendingEntry], len(cells))
	for _, c := range cells {
		i, err := id.ParseEntryID(c.Key)
		if err != nil {
			return nil, damaged(register.PendingEntry, c.Key, err)
		}
		p, err := machine.DecodePendingEntry(c.Value)
		if err != nil {
			return nil, damaged(register.PendingEntry, c.Key, err)
		}
		out[i] = Cell[machine.PendingEntry]{c.Seq, p}
	}
	return out, nil
}

// PendingEntry reads one queued or staged entry.
func (s *View) PendingEntry(i id.EntryID) (Cell[machine.PendingEntry], bool, error) {
	return read(s, register.PendingEntry, i.String(), machine.DecodePendingEntry)
}

// PendingEntries reads queued and staged entries by id; missing ones are absent.
func (s *View) PendingEntries(ids ...id.EntryID) (map[id.EntryID]machine.PendingEntry, error) {
	out := make(map[id.EntryID]machine.PendingEntry, len(ids))
	for _, i := range ids {
		c, ok, err := s.PendingEntry(i)
		if err != nil {
			return nil, err
		}
		if ok {
			out[i] = c.Value
		}
	}
	return out, nil
}

// RegisterKeys lists the keys of a namespace that start with prefix.
func (s *View) RegisterKeys(ns register.Namespace, prefix string) ([]string, error) {
	cells, err := s.rows.Registers(ns, prefix)
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(cells))
	for i, c := range cells {
		keys[i] = c.Key
	}
	return keys, nil
}

// Strands lists the strands that were seeded.
func (s *View) Strands() ([]string, error) { return s.RegisterKeys(register.StrandConfig, "") }

// ID reads the session's identity.
func (s *View) ID() (id.SessionID, bool, error) { return s.identity(IDKey) }

// ParentID reads the session that this one was forked from.
func (s *View) ParentID() (id.SessionID, bool, error) { return s.identity(ParentKey) }

func (s *View) identity(key string) (id.SessionID, bool, error) {
	c, ok, err := read(s, register.FactCustom, key, func(v jsonv.Value) (id.SessionID, error) {
		text, isText := v.Text()
		if !isText {
			return id.SessionID{}, corrupt.New("session.identity", "id", "the text of a session id", v.Kind().String())
		}
		return id.ParseSessionID(text)
	})
	return c.Value, ok, err
}

// Workspace reads the directory that the session works in.
func (s *View) Workspace() (string, bool, error) {
	c, ok, err := read(s, register.FactCustom, WorkspaceKey, func(v jsonv.Value) (string, error) {
		text, isText := v.Text()
		if !isText {
			return "", corrupt.New("session.Workspace", "workspace", "the text of a directory", v.Kind().String())
		}
		return text, nil
	})
	return c.Value, ok, err
}

// catalog is the part of a store that shows a session's identity without a
// decode of its registers. The registers are the truth; the row is repaired at
// each opening, and a failure to write it is ignored.
type catalog interface {
	RecordIdentity(self, parent id.SessionID) error
}

// EnsureID returns the session's id, minting it if this is the first opening. A
// concurrent opening that minted first wins.
func (s *Session) EnsureID(ids id.Generator) (id.SessionID, id.Generator, error) {
	self, ok, err := s.ID()
	if err != nil {
		return id.SessionID{}, ids, err
	}
	if !ok {
		self, ids = ids.Session()
		if self, err = s.claim(self); err != nil {
			return id.SessionID{}, ids, err
		}
	}
	if c, ok := s.store.(catalog); ok {
		parent, _, err := s.ParentID()
		if err != nil {
			return id.SessionID{}, ids, err
		}
		_ = c.RecordIdentity(self, parent) // repaired at the next opening
	}
	return self, ids, nil
}

// Found makes a session in one commit: the id that its place on disk is named
// after, the directory that it works in, and its main strand. So a session is
// there whole or not at all. One that has an id is *Corrupt, and unchanged.
func (s *Session) Found(self id.SessionID, workspace string, main machine.Configuration) error {
	t := machine.SeedStrand(MainStrand, id.EntryID{}, main)
	t.Writes = append(t.Writes,
		tx.Set(register.FactCustom, IDKey, jsonv.Str(self.String())),
		tx.Set(register.FactCustom, WorkspaceKey, jsonv.Str(workspace)))
	t.Expected = append(t.Expected,
		tx.ExpectAbsent(register.FactCustom, IDKey), tx.ExpectAbsent(register.FactCustom, WorkspaceKey))
	_, err := s.store.Commit(t)
	if stale, ok := errors.AsType[*tx.StaleExpectation](err); ok {
		return &Corrupt{corrupt.New("session.Found", stale.Failed.String(), "a session that was never made", "one that has it")}
	}
	return flatten(err)
}

// Move lets the session work in another directory.
func (s *Session) Move(workspace string) error {
	_, err := s.store.Commit(tx.Tx{Writes: []tx.Write{tx.Set(register.FactCustom, WorkspaceKey, jsonv.Str(workspace))}})
	return flatten(err)
}

// claim writes the session's id unless there is one, and returns the one that is
// there.
func (s *Session) claim(self id.SessionID) (id.SessionID, error) {
	_, err := s.store.Commit(tx.Tx{
		Writes:   []tx.Write{tx.Set(register.FactCustom, IDKey, jsonv.Str(self.String()))},
		Expected: []tx.Expectation{tx.ExpectAbsent(register.FactCustom, IDKey)},
	})
	if _, lost := errors.AsType[*tx.StaleExpectation](err); !lost {
		return self, flatten(err)
	}
	self, ok, err := s.ID()
	if err == nil && !ok {
		err = &storage.BackendFault{Reason: "the session's id was written by another opening and is gone again"}
	}
	return self, err
}

// EnsureStrand seeds a strand's registers unless it has a configuration.
func (s *Session) EnsureStrand(name string, c machine.Configuration) error {
	if _, ok, err := s.store.Register(register.StrandConfig, name); ok || err != nil {
		return err
	}
	_, err := s.store.Commit(machine.SeedStrand(name, id.EntryID{}, c))
	if _, seeded := errors.AsType[*tx.StaleExpectation](err); seeded {
		return nil // somebody else did
	}
	return flatten(err)
}

// flatten maps a commit refusal to the errors of a read: this layer owns no
// writer that could act on the difference.
func flatten(err error) error {
	if e, ok := errors.AsType[*tx.Corruption](err); ok {
		return &Corrupt{e.Report}
	}
	if e, ok := errors.AsType[*tx.Faulted](err); ok {
		return &storage.BackendFault{Reason: e.Reason, Err: e}
	}
	if e, ok := errors.AsType[*tx.LeaseLost](err); ok {
		return &storage.BackendFault{Reason: e.Error(), Err: e}
	}
	return err
}

// Branch reads the path from a leaf, newest first, up to and including the
// newest compaction. No leaf, no entries.
func (s *View) Branch(leaf id.EntryID) ([]entry.Entry, error) {
	if leaf.IsZero() {
		return nil, nil
	}
	return s.rows.ScanBranch(storage.BranchQuery{
		Start: leaf, Order: storage.NewestFirst, StopAtKind: entry.KindCompaction,
	})
}

// Project returns the model's context at a leaf. Without a leaf it is empty and
// the policy's transform is not asked.
func (s *View) Project(leaf id.EntryID, p projection.Policy) ([]message.Message, error) {
	if leaf.IsZero() {
		return nil, nil
	}
	branch, err := s.Branch(leaf)
	if err != nil {
		return nil, err
	}
	return projection.Project(branch, p), nil
}
