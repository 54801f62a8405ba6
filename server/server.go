package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/server/memlisten"
	"github.com/loom-run/loom/wire"
)

// Server carries out requests and holds sessions open. It must be made by [New].
type Server struct {
	host Host
	mux  *http.ServeMux
	http *http.Server
	end  context.CancelFunc
	once once

	handled []string // the names of the routes that are carried out

	mu     sync.Mutex // guards what follows
	hubs   map[id.SessionID]*hub
	closed bool
}

// New makes a server over a host.
func New(host Host) *Server {
	life, end := context.WithCancel(context.Background())
	s := &Server{host: host, mux: http.NewServeMux(), end: end, hubs: map[id.SessionID]*hub{}}
	s.routes()
	s.http = &http.Server{
		Handler: s,
		BaseContext: func(l net.Listener) context.Context {
			_, looks := l.(observed)
			return context.WithValue(life, observing{}, looks)
		},
		ReadHeaderTimeout: 10 * time.Second,
	}
	return s
}

// Serve serves a listener until [Server.Close]; then it returns nil. Only a
// listener in memory or a unix socket is served: others can be reached by who is
// not the user, and nobody is asked for a token here.
func (s *Server) Serve(l net.Listener) error {
	switch n := l.Addr().Network(); n {
	case memlisten.Network, "unix":
	default:
		return fmt.Errorf("a server without authentication does not listen on %s %s; use memory or a unix socket", n, l.Addr())
	}
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// observed is a listener of those who look and change nothing; observing is where a
// request says that it is theirs.
type (
	observed  struct{ net.Listener }
	observing struct{}
)

// Observe is [Server.Serve] for those who may look and may not change anything: they are
// replayed what everybody is, and what they ask beyond that is refused.
func (s *Server) Observe(l net.Listener) error { return s.Serve(observed{l}) }

// Close ends the streams, lets the requests that are under way finish within
// grace, and closes the sessions.
func (s *Server) Close(grace time.Duration) error {
	s.mu.Lock()
	s.closed = true
	hubs := s.hubs
	s.hubs = map[id.SessionID]*hub{}
	s.mu.Unlock()
	s.end()
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	for _, h := range hubs {
		<-h.opened
		if h.err == nil {
			err = errors.Join(err, h.resident.Close())
		}
	}
	return err
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// resident returns the hub of a session, opening it if it is not open. Those who
// ask at the same time share one opening; one that failed is tried again by the
// next.
func (s *Server) resident(ctx context.Context, sid id.SessionID) (*hub, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, Refuse(wire.Unavailable, "the server is shutting down; nothing was changed")
	}
	h, ok := s.hubs[sid]
	if !ok {
		h = newHub()
		h.session, h.live.session = sid, sid
		s.hubs[sid] = h
	}
	s.mu.Unlock()
	if !ok {
		// An opening is shared, so it does not end with the request that began it.
		h.resident, h.err = s.host.Open(context.WithoutCancel(ctx), sid, h.observe)
		if h.err != nil {
			s.mu.Lock()
			if s.hubs[sid] == h {
				delete(s.hubs, sid)
			}
			s.mu.Unlock()
		}
		close(h.opened)
	}
	select {
	case <-h.opened:
		return h, h.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// create makes a session and keeps it open.
func (s *Server) create(ctx context.Context, q NewSession) (*hub, error) {
	h := newHub()
	// No fact comes before a prompt, and so none before the id is known here.
	res, err := s.host.Create(ctx, q, h.observe)
	if err != nil {
		return nil, err
	}
	h.resident, h.session = res, res.ID()
	h.live.session = h.session
	close(h.opened)
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.hubs[h.session] = h
	}
	s.mu.Unlock()
	if closed {
		return nil, errors.Join(Refuse(wire.Unavailable, "the server is shutting down; the session was created and is empty"), res.Close())
	}
	return h, nil
}

// reader reads a session: the open one, or one that is opened for this.
func (s *Server) reader(ctx context.Context, sid id.SessionID) (r Reader, done func(), err error) {
	s.mu.Lock()
	h := s.hubs[sid]
	s.mu.Unlock()
	if h != nil {
		select {
		case <-h.opened:
			if h.err == nil {
				return h.resident, func() {}, nil
			}
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
	r, err = s.host.Read(ctx, sid)
	if err != nil {
		return nil, nil, err
	}
	return r, func() { _ = r.Close() }, nil // it was read from; closing has nothing to lose
}
