package sqlite

import (
	"errors"
	"sync"

	"github.com/loom-run/loom/storage"
)

// maxReaders is the most read connections of one handle. A further request
// waits for one to come back.
const maxReaders = 4

// pool keeps the read connections of a handle. They are opened when they are
// needed first. The zero pool with a dial function is ready.
type pool struct {
	dial func() (*conn, error)

	mu     sync.Mutex // guards what follows
	back   sync.Cond  // a connection came back, or the count went down
	free   []*conn
	open   int // free ones and those in use
	closed bool
}

func (p *pool) take() (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.back.L == nil {
		p.back.L = &p.mu
	}
	for !p.closed {
		if n := len(p.free); n > 0 {
			c := p.free[n-1]
			p.free = p.free[:n-1]
			return c, nil
		}
		if p.open < maxReaders {
			return p.add()
		}
		p.back.Wait()
	}
	return nil, storage.ErrClosed
}

// add opens a connection; the lock is not held meanwhile.
func (p *pool) add() (*conn, error) {
	p.open++
	p.mu.Unlock()
	c, err := p.dial()
	p.mu.Lock()
	if err != nil {
		p.open--
		p.back.Broadcast()
		return nil, err
	}
	return c, nil
}

func (p *pool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, c)
	p.back.Broadcast()
}

// close waits for the connections in use and closes all.
func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.back.L == nil {
		p.back.L = &p.mu
	}
	p.closed = true
	p.back.Broadcast()
	for p.open > len(p.free) {
		p.back.Wait()
	}
	var errs []error
	for _, c := range p.free {
		errs = append(errs, c.Close())
	}
	p.free, p.open = nil, 0
	return errors.Join(errs...)
}
