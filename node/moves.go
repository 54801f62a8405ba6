package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/server"
	"github.com/loom-run/loom/session"
)

// Fork implements server.Resident.
func (s *served) Fork(_ context.Context, strand string, at id.EntryID) (id.SessionID, error) {
	if err := s.slot.hasStrand(strand); err != nil {
		return id.SessionID{}, err
	}
	made, err := s.slot.node.Fork(s.slot.id, Forking{At: at, Strand: strand})
	return made.Session, err
}

// Navigate implements server.Resident.
func (s *served) Navigate(_ context.Context, to server.Navigation) (server.Moved, error) {
	return s.slot.move(to.Strand, func(e *engine.Engine) (id.OpID, error) {
		return e.Navigate(to.Strand, machine.NavigationIntent{TargetID: to.Entry, Summarize: to.Summarize, CustomInstructions: to.Instructions})
	})
}

// Compact implements server.Resident.
func (s *served) Compact(_ context.Context, strand string, instructions *string) (server.Moved, error) {
	return s.slot.move(strand, func(e *engine.Engine) (id.OpID, error) { return e.Compact(strand, instructions) })
}

func (s *Slot) hasStrand(name string) error {
	there := false
	err := s.Read(func(v *session.View) (err error) {
		_, there, err = v.StrandState(name)
		return err
	})
	if err == nil && !there {
		err = server.Refuse(server.BadRequest, fmt.Sprintf("there is no strand %.80q in the session; nothing was changed", name))
	}
	return s.node.home.refuse(err)
}

// move starts an operation of a strand, opening the session if it must.
func (s *Slot) move(strand string, start func(*engine.Engine) (id.OpID, error)) (m server.Moved, err error) {
	if err := s.hasStrand(strand); err != nil {
		return m, err
	}
	r, err := s.open(Opening{})
	if err != nil {
		return m, s.node.home.refuse(err)
	}
	if m.Op, err = start(r.engine); err != nil {
		return server.Moved{}, s.node.home.refuse(unmoved(err))
	}
	meta, open, err := r.session.OpMeta(m.Op)
	if err != nil {
		return m, s.node.home.refuse(err)
	}
	if m.Seq = meta.Seq; !open { // it is over already, and its result says where
		result, _, err := r.session.OperationResult(m.Op)
		m.Seq = result.Seq
		return m, s.node.home.refuse(err)
	}
	return m, nil
}

// unmoved gives the rejections of operations their codes.
func unmoved(err error) error {
	code := server.Code("")
	switch {
	case errors.Is(err, machine.ErrStrandBusy), errors.Is(err, machine.ErrNothingToCompact):
		code = server.Conflict
	case errors.Is(err, machine.ErrUnknownTarget), errors.Is(err, machine.ErrInvalidNavigation):
		code = server.BadRequest
	default:
		return err
	}
	return &server.Refusal{Code: code, Message: err.Error() + "; nothing was changed", Err: err}
}
