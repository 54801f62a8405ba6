package server

import (
	"sync"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/wire"
)

// Bounds of what waits for one subscriber.
const (
	maxWaiting      = 512
	maxWaitingBytes = 1 << 20
)

// item is one thing that a subscriber has to be told: a live frame, or that
// something was committed, or that a level changed.
type item struct {
	event  []byte // a live frame, encoded
	commit int64  // read up to this seq
	level  *leveled
}

// leveled is a level that changed: a run started, a strand stopped, or a response
// was counted.
type leveled struct {
	strand  string
	op      id.OpID
	stopped *stoppage
	usage   *wire.LastTurnUsage

	// What works beside the conversation changed; op and job are what just began, and
	// may be absent.
	beside bool
	job    string

	// Input that waits changed, or may have: with maybe only where some was stated.
	input, maybe bool

	// What waits for a person changed, or whether the main strand waits for that alone:
	// parked. A change that was just made says so, and what it closed.
	gates, asked, parked bool
	closed               []machine.ClosedGate
}

// queue is what waits for one subscriber. The one who fills it never waits: live
// frames beyond the bound are dropped and counted; that something was committed
// is one item with the newest seq, so it cannot be lost and cannot pile up.
type queue struct {
	mu      sync.Mutex
	items   []item
	bytes   int
	live    int
	dropped int64
	wake    chan struct{} // holds one token while there is something to take
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) ring() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// pass offers a live frame.
func (q *queue) pass(event []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.live >= maxWaiting || q.bytes+len(event) > maxWaitingBytes {
		q.dropped++
		return
	}
	q.items = append(q.items, item{event: event})
	q.live++
	q.bytes += len(event)
	q.ring()
}

// commit tells that rows up to seq are committed.
func (q *queue) commit(seq int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.items); n > 0 && q.items[n-1].commit > 0 {
		q.items[n-1].commit = max(q.items[n-1].commit, seq)
	} else {
		q.items = append(q.items, item{commit: seq})
	}
	q.ring()
}

// level tells that a level changed.
func (q *queue) level(l leveled) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, item{level: &l})
	q.ring()
}

// take empties the queue.
func (q *queue) take() (items []item, dropped int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items, dropped = q.items, q.dropped
	q.items, q.bytes, q.live, q.dropped = nil, 0, 0, 0
	return items, dropped
}

// forget drops what waits ahead of a commit that was read already: live frames of
// rows that are committed, and levels that are stated anew.
func (q *queue) forget(seq int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := len(q.items) - 1; i >= 0; i-- {
		if c := q.items[i].commit; c > 0 && c <= seq {
			q.items = append([]item(nil), q.items[i+1:]...)
			break
		}
	}
	q.bytes, q.live = 0, 0
	for _, it := range q.items {
		if it.event != nil {
			q.live++
			q.bytes += len(it.event)
		}
	}
}
