package engine

import (
	"context"
	"sync"
)

// turnstile lets concurrent calls run together and exclusive ones alone, both in
// the order in which their tickets were taken.
type turnstile struct {
	mu      sync.Mutex
	queue   []*ticket
	running int
	alone   bool
}

type ticket struct {
	exclusive bool
	open      chan struct{}
}

// take reserves a place; the order of the takes is the order of the runs.
func (t *turnstile) take(exclusive bool) *ticket {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := &ticket{exclusive, make(chan struct{})}
	t.queue = append(t.queue, k)
	t.admit()
	return k
}

// enter waits until the ticket may run. On ctx's end the place is given up.
func (t *turnstile) enter(ctx context.Context, k *ticket) error {
	select {
	case <-k.open:
		return nil
	default:
	}
	select {
	case <-k.open:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, q := range t.queue {
		if q == k {
			t.queue = append(t.queue[:i], t.queue[i+1:]...)
			t.admit()
			return ctx.Err()
		}
	}
	return nil // it was admitted in between
}

// leave ends a run that entered.
func (t *turnstile) leave(k *ticket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	if k.exclusive {
		t.alone = false
	}
	t.admit()
}

// admit opens tickets at the head of the queue. Callers hold mu.
func (t *turnstile) admit() {
	for len(t.queue) > 0 {
		k := t.queue[0]
		if t.alone || k.exclusive && t.running > 0 {
			return
		}
		t.queue = t.queue[1:]
		t.running++
		t.alone = k.exclusive
		close(k.open)
	}
}
