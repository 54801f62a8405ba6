// Package memlisten is a network listener inside one process.
//
// # Purpose
//
// A verb that finds no daemon serves itself: the same handler and the same bytes
// as over a socket, without a socket that somebody else could reach.
package memlisten

import (
	"context"
	"net"
	"sync"
)

// Network is the name that addresses of a [Listener] have.
const Network = "memory"

// Listener is a [net.Listener] whose connections come from [Listener.Dial]. It
// must be made by [New].
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// New listens.
func New() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects. It waits until the connection is accepted, the listener is
// closed ([net.ErrClosed]) or ctx ends.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: Network, Addr: addr{}, Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// DialContext has the shape that an http.Transport wants; the address does not
// matter.
func (l *Listener) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	return l.Dial(ctx)
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: Network, Addr: addr{}, Err: net.ErrClosed}
	}
}

// Close implements [net.Listener]. Accepted connections stay open.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return Network }
func (addr) String() string  { return "loom" }
