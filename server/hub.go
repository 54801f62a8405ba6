package server

import (
	"sync"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/wire"
)

// hub is one resident session and its subscribers.
type hub struct {
	session  id.SessionID
	resident Resident
	opened   chan struct{} // closed when resident or err is set
	err      error

	mu      sync.Mutex // guards what follows
	live    live
	queues  map[*queue]struct{}
	stopped map[string]stoppage
}

// stoppage is why a strand cannot go on in this process.
type stoppage struct {
	op   id.OpID
	body wire.RunStopped
}

func newHub() *hub {
	return &hub{opened: make(chan struct{}), queues: map[*queue]struct{}{}, stopped: map[string]stoppage{}}
}

// subscribe adds a queue that hears everything from now on.
func (h *hub) subscribe() (q *queue, leave func()) {
	q = newQueue()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queues[q] = struct{}{}
	return q, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.queues, q)
	}
}

// observe hears the engine. It decides nothing from what a fact claims: a commit
// makes subscribers read, and the rest is display.
func (h *hub) observe(f engine.Fact) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch f := f.(type) {
	case engine.Committed:
		for q := range h.queues {
			q.commit(f.LastSeq)
		}
	case engine.RunStarted:
		delete(h.stopped, f.Strand)
		for q := range h.queues {
			q.level(leveled{strand: f.Strand, op: f.Op})
		}
	case engine.StrandStopped:
		s := stoppage{op: f.Op, body: stopped(refusal(f.Err))}
		h.stopped[f.Strand] = s
		for q := range h.queues {
			q.level(leveled{strand: f.Strand, op: f.Op, stopped: &s})
		}
	default:
		for _, frame := range h.live.frames(f) {
			if len(h.queues) == 0 {
				break
			}
			event := wire.AppendEvent(nil, frame)
			for q := range h.queues {
				q.pass(event)
			}
		}
	}
}

// minted is the replay side of the session.
func (h *hub) minted() (minted, error) {
	source := h.resident.Source()
	generation, err := source.Generation()
	return minted{session: h.session, generation: generation, source: source}, err
}

// levelFrame is a level of a strand.
func (h *hub) levelFrame(key, strand string, op id.OpID, b wire.Body) wire.Frame {
	return wire.Frame{ID: key, Delivery: wire.Level, Session: h.session, Lane: laneOf(strand), Strand: strand, Operation: op, Body: b}
}

func (h *hub) runStopped(strand string, s stoppage) wire.Frame {
	return h.levelFrame("stopped/"+s.op.String(), strand, s.op, s.body)
}

// current is the level of the main strand: the run that is on, and whether it
// cannot go on.
func (h *hub) current() (op id.OpID, ok bool, stopped *stoppage, err error) {
	op, ok, err = h.resident.Current(session.MainStrand)
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, is := h.stopped[session.MainStrand]; is {
		stopped = &s
	}
	return op, ok, stopped, err
}
