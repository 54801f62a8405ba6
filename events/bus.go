package events

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Bus hands events to those who subscribed. Its zero value is ready, and it is safe for use by several goroutines. It starts none.
type Bus struct {
	mu      sync.RWMutex
	groups  map[group]map[*member]struct{} // guarded by mu; no group is empty
	dropped atomic.Uint64
}

type group struct {
	session SessionKey
	topic   Topic
}

// member is the half of a subscription that the bus holds.
type member struct {
	joined map[group]struct{} // guarded by the mutex of the bus

	mu      sync.Mutex // after that of the bus
	queue   chan Published
	closed  bool
	dropped uint64
}

// DefaultQueue is how many events wait for a subscriber.
const DefaultQueue = 64

// Subscription receives the events of the groups it joined.
type Subscription struct {
	bus    *Bus
	member *member
	stop   func() bool
}

// Subscribe makes a subscription that is in no group yet, with room for so many events; below 1 it is [DefaultQueue]. It ends with the context, with Close, or
// when nobody holds it any more.
func (b *Bus) Subscribe(ctx context.Context, room int) *Subscription {
	if room < 1 {
		room = DefaultQueue
	}
	m := &member{joined: map[group]struct{}{}, queue: make(chan Published, room)}
	s := &Subscription{bus: b, member: m}
	s.stop = context.AfterFunc(ctx, func() { b.leave(m) }) // it holds the member only, so that the subscription can be forgotten
	runtime.AddCleanup(s, func(forgotten forgotten) { forgotten.stop(); forgotten.bus.leave(forgotten.member) }, forgotten{b, m, s.stop})
	return s
}

type forgotten struct {
	bus    *Bus
	member *member
	stop   func() bool
}

// SubscribeAll joins every topic of a session.
func (b *Bus) SubscribeAll(ctx context.Context, of SessionKey) *Subscription {
	s := b.Subscribe(ctx, DefaultQueue)
	s.Join(of, allTopics[:]...)
	return s
}

// SubscribeHints joins the topics that say that a session's store changed.
func (b *Bus) SubscribeHints(ctx context.Context, of SessionKey) *Subscription {
	s := b.Subscribe(ctx, DefaultQueue)
	s.Join(of, allTopics[:len(allTopics)-1]...)
	return s
}

// Join adds topics of a session to what is received. Joining twice is joining once; after the end it does nothing.
func (s *Subscription) Join(of SessionKey, topics ...Topic) {
	b, m := s.bus, s.member
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.joined == nil {
		return
	}
	if b.groups == nil {
		b.groups = map[group]map[*member]struct{}{}
	}
	for _, t := range topics {
		g := group{of, t}
		if b.groups[g] == nil {
			b.groups[g] = map[*member]struct{}{}
		}
		b.groups[g][m] = struct{}{}
		m.joined[g] = struct{}{}
	}
}

// Events is where the events arrive. It is closed at the end, after what waits in it.
func (s *Subscription) Events() <-chan Published { return s.member.queue }

// Dropped is how many events gave way to newer ones.
func (s *Subscription) Dropped() uint64 {
	s.member.mu.Lock()
	defer s.member.mu.Unlock()
	return s.member.dropped
}

// Close ends the subscription. A second call does nothing.
func (s *Subscription) Close() {
	s.stop()
	s.bus.leave(s.member)
}

// leave takes a member out of every group and closes its queue.
func (b *Bus) leave(m *member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for g := range m.joined {
		if delete(b.groups[g], m); len(b.groups[g]) == 0 {
			delete(b.groups, g)
		}
	}
	m.joined = nil
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.closed = true
		close(m.queue)
	}
}

// Publish hands an event to whoever joined its topic. It never waits for them.
func (b *Bus) Publish(of SessionKey, e Event) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for m := range b.groups[group{of, e.Topic()}] {
		if m.put(Published{of, e}) {
			b.dropped.Add(1)
		}
	}
}

// put queues an event, and reports whether an older one had to give way. Only put sends, and one at a time, so there is room after one was taken.
func (m *member) put(p Published) (dropped bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	select {
	case m.queue <- p:
		return false
	default:
	}
	select {
	case <-m.queue:
		m.dropped++
		dropped = true
	default: // its reader took one meanwhile
	}
	m.queue <- p
	return dropped
}

// Dropped is how many events gave way to newer ones, of all subscribers there ever were.
func (b *Bus) Dropped() uint64 { return b.dropped.Load() }

// Subscribers counts those who joined a topic of a session. For diagnostics only: it may be another number at once.
func (b *Bus) Subscribers(of SessionKey, t Topic) int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.groups[group{of, t}])
}

// Bridge publishes what mapping makes of the values of a source, until the source is closed or the context ends. It starts one goroutine; wait returns when
// that has ended, with what mapping panicked with, if it did. Such a panic ends the bridge alone.
func Bridge[T any](ctx context.Context, b *Bus, of SessionKey, source <-chan T, mapping func(T) (e Event, ok bool)) (wait func() error) {
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("the bridge of %s ended: its mapping panicked with %v", of, p)
			}
		}()
		for {
			select {
			case <-ctx.Done():
				return
			case v, ok := <-source:
				if !ok {
					return
				}
				if e, ok := mapping(v); ok {
					b.Publish(of, e)
				}
			}
		}
	}()
	return func() error { <-done; return err }
}
