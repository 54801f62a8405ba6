package server

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/wire"
)

// writeTimeout is how long a subscriber may take to accept bytes before its
// connection is given up.
const writeTimeout = 30 * time.Second

// frames is the event stream of a session.
func (s *Server) frames(w http.ResponseWriter, r *http.Request) error {
	h, err := s.session(r)
	if err != nil {
		return err
	}
	from, err := wire.ParseFrom(r.URL.Query().Get("after"))
	if err != nil {
		return badRequest(err)
	}
	m, err := h.minted()
	if err != nil {
		return err
	}
	// Heard from here on: what is committed after this is in the queue, what was
	// before is in the store.
	q, leave := h.subscribe()
	defer leave()
	start, head, err := m.start(from)
	if err != nil {
		return err
	}
	sub := &subscriber{hub: h, minted: m, queue: q, cursor: start, out: w, rc: http.NewResponseController(w)}
	w.Header().Set("Content-Type", wire.EventStream)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Connection", "close") // it keeps the deadlines of a stream
	w.Header().Set(wire.CursorHeader, start.String())
	w.WriteHeader(http.StatusOK)
	// The answer has begun: a failure from here on ends the stream, and the client
	// comes back with its cursor and is told why.
	_ = sub.run(r, head)
	return nil
}

// start resolves a position, and checks one that a client brought.
func (m minted) start(from wire.From) (start wire.Cursor, head int64, err error) {
	head, err = m.source.Head()
	if err != nil {
		return wire.Cursor{}, 0, err
	}
	c, ok := from.Cursor()
	switch {
	case from.IsHead():
		return m.behind(head), head, nil
	case !ok:
		return wire.Cursor{Generation: m.generation}, head, nil
	case c.Generation != m.generation:
		return wire.Cursor{}, 0, Refuse(wire.StaleCursor, "the session was rewritten since that position; read it again from the start")
	case c.Compare(m.behind(head)) > 0:
		return wire.Cursor{}, 0, Refuse(wire.BadRequest, "the position "+c.String()+" is not one of this session")
	}
	return c, head, nil
}

// subscriber writes one event stream.
type subscriber struct {
	hub       *hub
	minted    minted
	queue     *queue
	cursor    wire.Cursor           // behind the newest replay frame that was written
	stated    map[string]stated     // of each strand, the newest run start that was written
	tasks     string                // the key of the newest background that was written
	waiting   map[string]wire.Queue // of each strand, the input that was stated to wait
	gated     []string              // the gates of the newest pending level that was written
	acts      string                // the key of the newest activity that was written
	following bool                  // what is replayed was just committed
	out       http.ResponseWriter
	rc        *http.ResponseController
	buf       []byte
}

// stated is a run start that was written.
type stated struct {
	op    id.OpID
	tools []Tool // that this run is offered
}

// run replays up to head, states the levels, and then follows the queue. It ends
// with the request, or with an error that ends the stream.
func (s *subscriber) run(r *http.Request, head int64) error {
	if err := s.catchUp(head); err != nil {
		return err
	}
	if err := s.flush(); err != nil {
		return err
	}
	beat := time.NewTimer(wire.HeartbeatMs * time.Millisecond)
	defer beat.Stop()
	for {
		select {
		case <-r.Context().Done():
			return nil
		case <-beat.C:
			s.buf = append(s.buf, wire.Heartbeat...)
		case <-s.queue.wake:
			if err := s.drain(); err != nil {
				return err
			}
		}
		if err := s.flush(); err != nil {
			return err
		}
		beat.Reset(wire.HeartbeatMs * time.Millisecond)
	}
}

// catchUp replays up to head and states the levels that belong there. A run that
// started behind head has its level in the queue, behind the end of the run
// before it; so the levels are read until nothing was committed meanwhile.
func (s *subscriber) catchUp(head int64) error {
	for range catchUps {
		if err := s.replay(head); err != nil {
			return err
		}
		s.queue.forget(head)
		levels, err := s.levels()
		if err != nil {
			return err
		}
		now, err := s.minted.source.Head()
		if err != nil {
			return err
		}
		if now == head {
			for _, l := range levels {
				if err := s.level(l); err != nil {
					return err
				}
			}
			return nil
		}
		head = now
	}
	return nil // a session that commits this fast tells its next run itself
}

// catchUps bounds how often a new subscriber reads again.
const catchUps = 20

// drain writes what waits, in order.
func (s *subscriber) drain() error {
	items, dropped := s.queue.take()
	if dropped > 0 {
		s.write(s.droppedNotice(dropped))
	}
	for _, it := range items {
		switch {
		case it.event != nil:
			s.buf = append(s.buf, it.event...)
		case it.level != nil:
			if err := s.level(*it.level); err != nil {
				return err
			}
		default:
			if err := s.follow(it.commit); err != nil {
				return err
			}
		}
		if len(s.buf) >= flushBytes {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flushBytes is how much is gathered before it is written.
const flushBytes = 64 << 10

// follow writes the frames of rows that were just committed, and what is known
// beside them.
func (s *subscriber) follow(to int64) error {
	s.following = true
	defer func() { s.following = false }()
	return s.replay(to)
}

// beside writes what a frame entails that was just committed: what a call is, and
// what the newest response consumed.
func (s *subscriber) beside(f wire.Frame) error {
	if !s.following {
		return nil
	}
	switch b := f.Body.(type) {
	case wire.ToolCall:
		if run, ok := s.stated[f.Strand]; ok {
			s.write(passing(f.Session, f.Strand, run.op, "disclosure/"+f.ID, disclose(run.tools, b)))
		}
	case wire.TurnEnd:
		return s.level(leveled{strand: f.Strand, usage: new(turnUsage(b))})
	default: // the rest stands for itself
	}
	return nil
}

// replay writes the frames of rows up to a seq.
func (s *subscriber) replay(to int64) error {
	if to < s.cursor.Seq {
		return nil
	}
	for f, err := range s.minted.frames(s.cursor, to) {
		if err != nil {
			return err
		}
		s.write(f)
		s.cursor = f.Cursor
		if err := s.beside(f); err != nil {
			return err
		}
		if len(s.buf) >= flushBytes {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// levels reads the current levels of the session.
func (s *subscriber) levels() ([]leveled, error) {
	op, running, stopped, err := s.hub.current()
	if err != nil {
		return nil, err
	}
	if err := s.minted.whose.refresh(s.minted.source); err != nil {
		return nil, err
	}
	var out []leveled
	// A gauge is left out where a row behind it cannot be read: who runs or reads the
	// session is told of that, and a subscription at its head needs none of it.
	if newest, err := s.minted.source.Newest(newestRows); err == nil {
		if u, ok := lastTurn(s.minted.whose.main(newest)); ok {
			out = append(out, leveled{strand: session.MainStrand, usage: &u})
		}
	}
	if running {
		out = append(out, leveled{strand: session.MainStrand, op: op})
	}
	if stopped != nil {
		out = append(out, leveled{strand: session.MainStrand, op: stopped.op, stopped: stopped})
	}
	for _, c := range s.minted.whose.children {
		if !c.Op.IsZero() {
			out = append(out, leveled{strand: c.Strand, op: c.Op})
		}
	}
	s.hub.mu.Lock()
	parked := s.hub.parked
	s.hub.mu.Unlock()
	return append(out, leveled{beside: true}, leveled{input: true}, leveled{gates: true, parked: parked}), nil
}

// level states one level, unless it is the one stated last.
func (s *subscriber) level(l leveled) error {
	if l.stopped != nil {
		s.write(s.hub.runStopped(l.strand, *l.stopped))
		return nil
	}
	if l.usage != nil {
		s.write(s.hub.levelFrame("usage/"+l.usage.Entry.String(), l.strand, id.OpID{}, *l.usage))
		return nil
	}
	if l.gates {
		return s.gates(l)
	}
	if l.beside {
		return s.besides(l)
	}
	if l.input {
		if l.maybe && len(s.waiting) == 0 {
			return nil
		}
		return s.inputs()
	}
	if l.op == s.stated[l.strand].op {
		return nil
	}
	with, err := s.hub.resident.Level(l.strand)
	if err != nil {
		return err
	}
	if s.stated == nil {
		s.stated = map[string]stated{}
	}
	s.stated[l.strand] = stated{l.op, with.Tools}
	s.write(s.hub.levelFrame("run/"+l.op.String(), l.strand, l.op, manifest(with)))
	return nil
}

// besides states what works beside the conversation, and tells of what just began.
func (s *subscriber) besides(l leveled) error {
	src := s.minted.source
	now, err := working(src)
	if err != nil {
		return err
	}
	if l.job != "" || !l.op.IsZero() {
		children, jobs, err := besides(src)
		if err != nil {
			return err
		}
		for _, c := range children {
			if c.Op == l.op && !l.op.IsZero() {
				s.write(taskStarted(s.hub.session, c))
			}
		}
		for _, j := range jobs {
			if j.Job.ID == l.job {
				s.write(jobStarted(s.hub.session, j.Job))
			}
		}
	}
	key := backgroundKey(now)
	if key == s.tasks || s.tasks == "" && len(now.Tasks) == 0 {
		return nil
	}
	s.tasks = key
	s.write(s.hub.levelFrame(key, "", id.OpID{}, now))
	return nil
}

func (s *subscriber) droppedNotice(n int64) wire.Frame {
	return wire.Frame{
		ID: "dropped/" + s.cursor.String() + "/" + strconv.FormatInt(n, 10), Delivery: wire.Live, Session: s.hub.session, Lane: wire.LaneSession,
		Body: wire.Notice{
			Code: words.NoticeLiveDropped, Audience: words.ForOperator,
			Facts: wire.Facts{{Name: "count", Value: jsonv.Num(n)}},
		},
	}
}

func (s *subscriber) write(f wire.Frame) { s.buf = wire.AppendEvent(s.buf, f) }

// flush writes what was gathered.
func (s *subscriber) flush() error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if len(s.buf) > 0 {
		if _, err := s.out.Write(s.buf); err != nil {
			return err
		}
	}
	s.buf = s.buf[:0]
	if cap(s.buf) > 1<<20 {
		s.buf = nil
	}
	return s.rc.Flush()
}
