package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
)

// errMoving is a session that is being opened or closed here right now.
var errMoving = errors.New("the session is being opened or closed; nothing was changed, try again")

// lend has f work on the engine of a session: the one that runs here, or else one that
// runs nothing, for a session that nobody has open. f may be called by a tool of another
// session, so nothing is waited for that might wait for that tool.
func (s *Slot) lend(f func(*engine.Engine) error) (err error) {
	if r := s.resident(); r != nil && r.engine.Lost() == nil {
		return f(r.engine)
	}
	if !s.opening.TryLock() {
		return errMoving
	}
	defer s.opening.Unlock()
	if r := s.resident(); r != nil {
		if r.engine.Lost() == nil {
			return f(r.engine)
		}
		if err := s.evict(); err != nil {
			return err
		}
	}
	cfg := s.node.cfg
	store, err := sqlite.Open(sqlite.Config{
		Path: s.node.home.file(s.id), Owner: owner(), Clock: cfg.Now, Synchronous: cfg.Synchronous, AfterCommit: cfg.AfterCommit,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	e, err := engine.Open(engine.Config{
		Session: session.New(store), Models: cfg.Models, Clock: cfg.Now, Entropy: entropy, After: time.After, Observe: s.tell,
	})
	if err != nil {
		return err
	}
	defer e.Close()
	return f(e)
}

// post delivers letters between the sessions of a node.
type post struct{ n *Node }

var _ engine.Peers = post{}

// Deliver implements engine.Peers. A session that another process has open is told as
// such: only who holds its lease commits to it.
func (p post) Deliver(l agency.Letter) agency.Delivery {
	slot, err := p.n.Slot(l.To.Session)
	if _, unknown := errors.AsType[*ErrUnknownSession](err); unknown {
		return agency.Refused{Why: fmt.Sprintf("there is no session %s any more; nothing was sent", l.To.Session)}
	}
	if err != nil {
		return agency.Refused{Why: fmt.Sprintf("the session %s cannot be looked up (%v); nothing was sent", l.To.Session, err)}
	}
	var got agency.Receipt
	err = slot.lend(func(e *engine.Engine) (err error) {
		got, err = e.Receive(l)
		return err
	})
	if err == nil {
		return agency.Delivered{Receipt: got}
	}
	// Why it failed says nothing of an earlier sending of the same letter, and a failed
	// commit may have come through.
	var kept bool
	looked := slot.Read(func(v *session.View) (err error) {
		got, kept, err = engine.ReceiptOf(v, l.ID)
		return err
	})
	if looked == nil && kept && l.Same(got) == nil {
		return agency.Delivered{Receipt: got}
	}
	return undelivered(err, looked == nil)
}

// undelivered says what a failure means for a letter; absent says that the session holds
// no receipt for it.
func undelivered(err error, absent bool) agency.Delivery {
	if r, ok := errors.AsType[*agency.Refusal](err); ok {
		return agency.Refused{Why: r.Sentence}
	}
	if held, ok := errors.AsType[*storage.LeaseHeld](err); ok {
		return agency.Refused{Why: fmt.Sprintf("another process has that session open (pid %d on %s); nothing was sent, only that one can receive", held.Holder.PID, held.Holder.Host)}
	}
	_, lost := errors.AsType[*tx.LeaseLost](err)
	if absent && (lost || errors.Is(err, errMoving) || errors.Is(err, engine.ErrClosed)) {
		return agency.Refused{Why: "that session is just changing hands; nothing was sent, try again"}
	}
	return agency.Undecided{Why: err.Error() + "; sending it again delivers it once more if it did arrive"}
}

// LinkPeers lets one strand write to another one, of another session, as their owner
// wants it. The grant comes first: without it the rest means nothing.
func (n *Node) LinkPeers(l agency.Link) error {
	if err := l.Check(); err != nil {
		return &agency.Refusal{Sentence: err.Error() + "; nothing was changed"}
	}
	if err := n.side(l, agency.Incoming, func(e *engine.Engine) error { return e.SetLink(agency.Incoming, l) }); err != nil {
		return err
	}
	if err := n.side(l, agency.Outgoing, func(e *engine.Engine) error { return e.SetLink(agency.Outgoing, l) }); err != nil {
		return fmt.Errorf("the grant is in the session %s, and nobody can use it yet, since the session %s could not be told: %w", l.To.Session, l.From.Session, err)
	}
	return nil
}

// Unlinked is what was taken away of a link.
type Unlinked struct{ Outgoing, Grant bool }

// UnlinkPeers takes a link away. One side is enough to end it, so an error about one of
// them, which the other process that has it open causes, leaves the other one undone.
func (n *Node) UnlinkPeers(l agency.Link) (u Unlinked, err error) {
	in := n.side(l, agency.Incoming, func(e *engine.Engine) (err error) { u.Grant, err = e.UnsetLink(agency.Incoming, l); return err })
	out := n.side(l, agency.Outgoing, func(e *engine.Engine) (err error) {
		u.Outgoing, err = e.UnsetLink(agency.Outgoing, l)
		return err
	})
	return u, errors.Join(in, out)
}

func (n *Node) side(l agency.Link, side agency.Side, f func(*engine.Engine) error) error {
	at := l.To.Session
	if side == agency.Outgoing {
		at = l.From.Session
	}
	slot, err := n.Slot(at)
	if err != nil {
		return n.home.refuse(err)
	}
	if err := slot.lend(f); err != nil {
		return n.home.refuse(fmt.Errorf("session %s: %w", at, err))
	}
	return nil
}

// Peers lists the links of a session: whom it may write to, and who may write to it.
func (s *Slot) Peers() (out, in []agency.Link, err error) {
	err = s.Read(func(v *session.View) (err error) {
		if out, err = engine.LinksOf(v, agency.Outgoing); err == nil {
			in, err = engine.LinksOf(v, agency.Incoming)
		}
		return err
	})
	return out, in, s.node.home.refuse(err)
}
