package server

import (
	"net/http"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/wire"
)

// Moved is an operation that was accepted, which does something to a conversation
// besides going on with it.
type Moved struct {
	Op  id.OpID
	Seq int64 // a seq at which it is accepted
}

// Navigation moves a strand to an entry; an absent one is the root.
type Navigation struct {
	Strand       string
	Entry        id.EntryID
	Summarize    bool // what is left is summed up first
	Instructions *string
}

func (s *Server) postNavigate(r *http.Request, q wire.Navigate) (none wire.Navigated, err error) {
	h, err := s.session(r)
	if err != nil {
		return none, err
	}
	to := Navigation{Strand: strandOf(q.Strand), Summarize: q.Summarize, Instructions: q.Instructions}
	if q.Entry != nil {
		to.Entry = *q.Entry
	}
	got, err := h.resident.Navigate(r.Context(), to)
	return wire.Navigated{Operation: got.Op, Seq: got.Seq}, err
}

func (s *Server) postCompact(r *http.Request, q wire.Compact) (none wire.Navigated, err error) {
	h, err := s.session(r)
	if err != nil {
		return none, err
	}
	got, err := h.resident.Compact(r.Context(), strandOf(q.Strand), q.Instructions)
	return wire.Navigated{Operation: got.Op, Seq: got.Seq}, err
}

// postFork makes a session. A strand that a person forks inside a session has no lane of
// its own: a row does not say whose it is, and only what another strand started is
// recorded with where it begins.
func (s *Server) postFork(r *http.Request, q wire.Fork) (none wire.Forked, err error) {
	if err := unsupported(option{"fork inside a session", !q.Session}, option{"name", q.Name != nil}); err != nil {
		return none, err
	}
	h, err := s.session(r)
	if err != nil {
		return none, err
	}
	var at id.EntryID
	if q.Entry != nil {
		at = *q.Entry
	}
	made, err := h.resident.Fork(r.Context(), strandOf(q.Strand), at)
	if err != nil {
		return none, err
	}
	reader, done, err := s.reader(r.Context(), made)
	if err != nil {
		return none, err
	}
	defer done()
	m, err := mint(made, reader.Source())
	if err != nil {
		return none, err
	}
	cursor, err := m.head()
	return wire.Forked{Session: made, Strand: session.MainStrand, Cursor: cursor}, err
}
