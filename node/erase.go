package node

import (
	"errors"
	"fmt"

	"github.com/loom-run/loom/admin"
	"github.com/loom-run/loom/core/id"
)

// Erase takes a text out of a session and its forks, or out of everything, and keeps
// a receipt, whose path it returns. A dry run only searches and keeps none. A session
// that runs is left alone, and so is one that another process holds.
func (n *Node) Erase(e admin.Erasure) (r admin.Receipt, kept string, err error) {
	root := n.root()
	if !e.DryRun { // it would be found in what was read from sessions, which is read anew without it
		if err := n.forget(); err != nil {
			return r, "", n.home.refuse(err)
		}
	}
	if r, err = admin.Erase(root, e); err != nil {
		if unknown, ok := errors.AsType[*admin.ErrUnknownSession](err); ok {
			err = &ErrUnknownSession{unknown.ID}
		}
		return r, "", n.home.refuse(err)
	}
	if e.DryRun {
		return r, "", nil
	}
	kept, err = r.Write(root)
	return r, kept, n.home.refuse(errors.Join(err, n.forget())) // somebody may have searched meanwhile
}

// root is the home as administration sees it.
func (n *Node) root() admin.Root {
	return admin.Root{
		Dir: n.home.dir, Owner: owner, Clock: n.cfg.Now, Borrow: n.borrow,
		Sessions: func() ([]admin.Place, error) {
			ids, err := n.home.list()
			places := make([]admin.Place, len(ids))
			for i, s := range ids {
				places[i] = n.home.place(s)
			}
			return places, err
		},
	}
}

func (h Home) place(s id.SessionID) admin.Place {
	return admin.Place{Session: s, File: h.file(s), Outputs: h.blobs(s)}
}

// borrow closes an idle session in this process and keeps everybody here from opening
// it until it is given back.
func (n *Node) borrow(s id.SessionID) (giveBack func(), err error) {
	slot, err := n.Slot(s)
	if _, gone := errors.AsType[*ErrUnknownSession](err); gone {
		return func() {}, nil // there is nothing to open
	}
	if err != nil {
		return nil, err
	}
	slot.opening.Lock()
	if err := slot.vacate(); err != nil {
		slot.opening.Unlock()
		return nil, err
	}
	return slot.opening.Unlock, nil
}

// vacate closes the session if it is open here and idle. The caller holds opening.
func (s *Slot) vacate() error {
	r := s.resident()
	if r == nil {
		return nil
	}
	strands, err := r.session.Strands()
	if err != nil {
		return fmt.Errorf("it is open and cannot be read: %w", err)
	}
	for _, name := range strands {
		state, _, err := r.session.StrandState(name)
		if err != nil {
			return fmt.Errorf("it is open and cannot be read: %w", err)
		}
		if !state.Value.CurrentOperation.IsZero() {
			return errors.New("it is running; wait for its end or abort it, and erase again")
		}
	}
	s.mu.Lock()
	s.res = nil
	s.mu.Unlock()
	return r.close()
}

// RememberRecording lets the state root that the environment names remember where a
// recording of provider traffic is.
func RememberRecording(env func(string) string, now func() int64, path string) error {
	home, err := FindHome(env)
	if err != nil {
		return err
	}
	return admin.RememberRecording(admin.Root{Dir: home.dir, Clock: now}, path)
}
