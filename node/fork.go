package node

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/server"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/repo"
	"github.com/loom-run/loom/storage/sqlite"
)

// Forking says what of a session a fork takes along.
type Forking struct {
	// At is the entry that the fork of a branch ends at; absent for the end of its
	// strand. Tree takes every entry and every strand instead.
	At     id.EntryID
	Strand string // whose end that is, and whose model the fork has; empty for the main one
	Tree   bool
}

// Forked is what a fork made.
type Forked struct {
	Session id.SessionID
	Entries int
	Missing int // outputs that entries refer to and that the source has no more
}

// Fork makes a new session out of another one, which is not touched and may be
// running. The fork is idle and has the outputs that its entries refer to.
func (n *Node) Fork(source id.SessionID, f Forking) (Forked, error) {
	slot, err := n.Slot(source)
	if err != nil {
		return Forked{}, n.home.refuse(err)
	}
	var made Forked
	err = slot.Read(func(v *session.View) error {
		made, err = n.fork(source, v, f)
		return err
	})
	return made, n.home.refuse(err)
}

func (n *Node) fork(source id.SessionID, v *session.View, f Forking) (made Forked, err error) {
	var scope repo.ForkScope = repo.Tree{}
	if !f.Tree {
		if f.At.IsZero() {
			if f.At, err = end(v, f.Strand); err != nil {
				return Forked{}, err
			}
		}
		scope = repo.Branch{Strand: cmp.Or(f.Strand, session.MainStrand), At: f.At}
	}
	outputs := blob.Open(n.home.blobs(source))
	forked, self, _, err := repo.Fork(repo.Plan{
		Source: v, Scope: scope,
		To: repo.IntoSQLite(func(self id.SessionID) sqlite.Config {
			made.Session = self
			return sqlite.Config{
				Path: n.home.file(self), Owner: owner(), Clock: n.cfg.Now, Create: true,
				Synchronous: n.cfg.Synchronous, AfterCommit: n.cfg.AfterCommit,
			}
		}),
		Carry: func(self id.SessionID, copied []entry.Entry) error {
			made.Entries = len(copied)
			made.Missing, err = carry(blob.Open(n.home.blobs(self)), outputs, copied)
			return err
		},
	}, id.NewGenerator(clock.Real(n.cfg.Now), entropy()))
	if err != nil {
		return Forked{}, errors.Join(forkRefusal(err), n.home.unmake(made.Session))
	}
	made.Session = self
	return made, forked.Close()
}

// end is the entry that the main strand stands at.
func end(v *session.View, strand string) (id.EntryID, error) {
	leaf, _, err := v.StrandLeaf(cmp.Or(strand, session.MainStrand))
	if err == nil && leaf.Value.IsZero() {
		err = server.Refuse(server.BadRequest, "the session has no message yet, so there is nothing to fork; nothing was made")
	}
	return leaf.Value, err
}

func forkRefusal(err error) error {
	if unknown, ok := errors.AsType[*repo.PointUnknown](err); ok {
		return &server.Refusal{Code: server.BadRequest, Message: unknown.Error() + "; `loom sessions show --json` prints the ids", Err: err}
	}
	return err
}

// unmake removes what is left of a session that was not made. Nobody else knows its
// id.
func (h Home) unmake(s id.SessionID) error {
	if s.IsZero() {
		return nil
	}
	var errs []error
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(h.file(s) + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, os.RemoveAll(h.blobs(s)))...)
}

// carry brings the outputs along that entries refer to.
func carry(to, from *blob.Store, entries []entry.Entry) (missing int, err error) {
	for _, ref := range outputsOf(entries) {
		err := to.Adopt(ref, from)
		if errors.Is(err, blob.ErrNotFound) {
			missing++
			continue
		}
		if err != nil {
			return missing, fmt.Errorf("an output of a tool cannot be copied: %w", err)
		}
	}
	return missing, nil
}

// outputsOf lists the blobs that results refer to, each once. A list of them that
// cannot be read refers to none: a check tells of it.
func outputsOf(entries []entry.Entry) (refs []blob.Ref) {
	seen := make(map[string]bool)
	add := func(m message.Message) {
		r, ok := m.(*message.ToolResult)
		if !ok {
			return
		}
		found, err := blob.InDetails(r.Details)
		if err != nil {
			return
		}
		for _, ref := range found {
			if !seen[ref.SHA256] {
				seen[ref.SHA256] = true
				refs = append(refs, ref)
			}
		}
	}
	for _, e := range entries {
		switch b := e.Body.(type) {
		case entry.Message:
			add(b.Message)
		case entry.Compaction:
			for _, m := range b.RetainedTail {
				add(m)
			}
		case entry.BranchSummary, entry.Custom: // they hold no results
		}
	}
	return refs
}
