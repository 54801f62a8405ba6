package server

import (
	"sync"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine/agency"
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
	begun   []leveled // runs of strands that the commit in progress begins
	parked  bool      // the main strand waits for a person alone
	asked   bool      // something waited for a person
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
		for _, l := range h.begun {
			h.began(l)
		}
		h.begun = nil
	case engine.GatesChanged:
		h.park(f.Strand, false)
		h.gates(leveled{strand: f.Strand, op: f.Op, asked: true, closed: f.Closed})
	case engine.RunPaused:
		h.park(f.Strand, true)
		h.gates(leveled{})
	case engine.RunStarted:
		h.park(f.Strand, false)
		delete(h.stopped, f.Strand)
		l := leveled{strand: f.Strand, op: f.Op}
		if agency.Spawned(f.Strand) && !f.Resumed {
			h.begun = append(h.begun, l) // of a strand that this commit may make
		} else {
			h.began(l)
		}
		h.input(true)
	case engine.RunFinished:
		h.park(f.Strand, false)
		h.beside(f.Strand, id.OpID{}, "")
		h.input(true)
	case engine.QueueChanged:
		h.input(false)
		if h.asked {
			h.gates(leveled{})
		}
	case engine.JobChanged:
		h.beside("", id.OpID{}, f.Started)
	case engine.StrandStopped:
		h.park(f.Strand, false)
		s := stoppage{op: f.Op, body: stopped(refusal(f.Err))}
		h.stopped[f.Strand] = s
		for q := range h.queues {
			q.level(leveled{strand: f.Strand, op: f.Op, stopped: &s})
		}
		h.beside(f.Strand, id.OpID{}, "")
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

// began tells that a run began. The caller holds mu.
func (h *hub) began(l leveled) {
	for q := range h.queues {
		q.level(l)
	}
	h.beside(l.strand, l.op, "")
}

// park notes whether a strand waits for a person alone. The caller holds mu.
func (h *hub) park(strand string, parked bool) {
	if strand == session.MainStrand {
		h.parked = parked
	}
}

// gates tells that what waits for a person changed. The caller holds mu.
func (h *hub) gates(l leveled) {
	h.asked = true
	l.gates, l.parked = true, h.parked
	for q := range h.queues {
		q.level(l)
	}
}

// beside tells that what works beside the conversation changed: a strand that another
// one started, which began to work on op or came to rest, or a job, which may just
// have been started. The caller holds mu.
func (h *hub) beside(strand string, op id.OpID, started string) {
	if strand != "" && !agency.Spawned(strand) {
		return
	}
	for q := range h.queues {
		q.level(leveled{strand: strand, op: op, beside: true, job: started})
	}
}

// input tells that what waits for the strands changed, or with maybe that some of it
// may have been taken. The caller holds mu.
func (h *hub) input(maybe bool) {
	for q := range h.queues {
		q.level(leveled{input: true, maybe: maybe})
	}
}

// minted is the replay side of the session.
func (h *hub) minted() (minted, error) {
	return mint(h.session, h.resident.Source())
}

// levelFrame is a level of a strand.
func (h *hub) levelFrame(key, strand string, op id.OpID, b wire.Body) wire.Frame {
	return owned(wire.Frame{ID: key, Delivery: wire.Level, Session: h.session, Operation: op, Body: b}, strand)
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
