package wireclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/wire"
)

// Bounds of a reconnect.
const (
	// attempts is how often in a row a stream is opened without a byte of it.
	attempts = 6
	// firstWait doubles with each attempt.
	firstWait = 100 * time.Millisecond
	// quiet is how long a stream may send nothing.
	quiet = 3 * wire.HeartbeatMs * time.Millisecond
)

// neverSent reports whether an error shows that a request did not leave.
func neverSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// Stream is a subscription to the frames of a session.
type Stream struct {
	client   *Client
	session  id.SessionID
	position wire.Position // behind the newest replay frame, or where the stream began
	first    *http.Response
	life     context.Context // ends with the stream; carries no other control
	end      context.CancelFunc
	used     atomic.Bool
}

// Attach opens a subscription. When it returns, the server holds every frame from
// the asked position on: a prompt sent now is heard. ctx bounds the opening only:
// a stream outlives an interrupt, so that the end of an aborted run is heard. The
// caller must use [Stream.Frames] or [Stream.Close].
func (c *Client) Attach(ctx context.Context, s id.SessionID, from wire.From) (*Stream, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	st := &Stream{client: c, session: s, life: life, end: end}
	stop := context.AfterFunc(ctx, end)
	resp, err := st.open(from)
	if !stop() && err == nil {
		_ = resp.Body.Close() // ctx ended at the same moment
		err = &Unreached{Op: "frames", Err: context.Cause(ctx)}
	}
	if err != nil {
		end()
		return nil, err
	}
	st.first = resp
	return st, nil
}

// Cursor returns the newest position: where a later Attach goes on. It must not
// be called while Frames is being ranged over.
func (s *Stream) Cursor() wire.Cursor { return s.position.Cursor() }

// Close ends the subscription, and a range over its frames.
func (s *Stream) Close() {
	s.end()
	if s.used.CompareAndSwap(false, true) {
		_ = s.first.Body.Close() // the connection goes; there is nothing to learn
	}
}

// Frames yields the frames until ctx ends, the stream is closed, or it cannot go
// on: then the last pair has the error. It can be used once, and when the range
// is over, everything is released.
func (s *Stream) Frames(ctx context.Context) iter.Seq2[wire.Frame, error] {
	return func(yield func(wire.Frame, error) bool) {
		if !s.used.CompareAndSwap(false, true) {
			yield(wire.Frame{}, errors.New("wireclient: the frames of a stream can be used once"))
			return
		}
		defer s.end()
		defer context.AfterFunc(ctx, s.end)()
		s.pull(yield)
	}
}

// pull reads the first connection, and opens another one whenever it breaks.
func (s *Stream) pull(yield func(wire.Frame, error) bool) {
	resp, failures := s.first, 0
	for {
		var err error
		if resp == nil {
			resp, err = s.reopen(failures) //nolint:bodyclose // read closes it
		}
		if err == nil {
			var more, got bool
			more, got, err = s.read(resp, yield)
			resp = nil
			if !more {
				return
			}
			if got {
				failures = 0
			}
		}
		if s.life.Err() != nil {
			return
		}
		failures++
		if lasting(err) || failures > attempts {
			yield(wire.Frame{}, wrapped(err))
			return
		}
	}
}

// lasting reports whether an error would come again at the next attempt.
func lasting(err error) bool {
	if refused, ok := errors.AsType[*Refused](err); ok {
		return refused.Code != wire.Unavailable
	}
	if _, ok := errors.AsType[*Garbled](err); ok {
		return true
	}
	if _, ok := corrupt.As(err); ok {
		return true
	}
	return errors.Is(err, net.ErrClosed) // the listener inside this process is gone
}

// wrapped gives the errors of reading a stream their type.
func wrapped(err error) error {
	_, ok1 := errors.AsType[*Refused](err)
	_, ok2 := errors.AsType[*Unreached](err)
	_, ok3 := errors.AsType[*Garbled](err)
	if ok1 || ok2 || ok3 {
		return err
	}
	if _, ok := corrupt.As(err); ok {
		return &Garbled{Op: "frames", Err: err}
	}
	return &Unreached{Op: "frames", Err: err}
}

// reopen waits and opens the stream at the newest cursor. The first attempt does
// not wait.
func (s *Stream) reopen(failures int) (*http.Response, error) {
	if failures > 1 {
		t := time.NewTimer(firstWait << (failures - 2))
		defer t.Stop()
		select {
		case <-t.C:
		case <-s.life.Done():
			return nil, context.Cause(s.life)
		}
	}
	return s.open(wire.FromCursor(s.position.Cursor()))
}

// open asks for the stream and takes over the position it begins at.
func (s *Stream) open(from wire.From) (*http.Response, error) {
	q := url.Values{"after": {from.String()}}
	resp, err := s.client.send(s.life, "frames", wire.GetFrames.Method, wire.GetFrames.PathOf(s.session)+"?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	c, err := wire.ParseCursor(resp.Header.Get(wire.CursorHeader))
	if asked, ok := from.Cursor(); err == nil && ok && asked != c {
		err = fmt.Errorf("asked for the frames behind %v and got those behind %v", asked, c)
	}
	if err != nil {
		_ = resp.Body.Close() // frames of an unknown position are of no use
		return nil, &Garbled{Op: "frames", Err: err}
	}
	s.position = wire.At(c)
	return resp, nil
}

// read yields the frames of one connection. more is false when the range is over;
// got says that a byte came.
func (s *Stream) read(resp *http.Response, yield func(wire.Frame, error) bool) (more, got bool, err error) {
	// A link that sends nothing for too long is dead: closing it fails the read.
	dead := time.AfterFunc(quiet, func() { _ = resp.Body.Close() })
	defer dead.Stop()
	defer func() { _ = resp.Body.Close() }() // ends the connection, and with it the server's side
	body := &pulse{r: resp.Body, dead: dead}
	events := wire.NewEventReader(body)
	for {
		f, err := events.Next()
		if err != nil {
			return true, body.beat, err
		}
		switch s.position.Take(f) {
		case wire.Seen:
			continue
		case wire.Elsewhere:
			return true, body.beat, corrupt.New("wireclient.Stream", "cursor", "a frame of the generation that the stream began in", f.Cursor.String())
		case wire.Passing, wire.Next:
		}
		if !yield(f, nil) {
			return false, body.beat, nil
		}
	}
}

// pulse puts off the death of a link with each byte.
type pulse struct {
	r    io.Reader
	dead *time.Timer
	beat bool
}

func (p *pulse) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if n > 0 {
		p.beat = true
		p.dead.Reset(quiet)
	}
	return n, err
}
