package server

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loom-run/loom/wire"
)

// stuck is a response whose reader takes nothing: a write fails at its deadline.
type stuck struct {
	recorder
	deadline time.Time
	takes    int // writes that are taken first
}

func (s *stuck) SetWriteDeadline(at time.Time) error { s.deadline = at; return nil }

func (s *stuck) Write(p []byte) (int, error) {
	if s.takes--; s.takes >= 0 {
		return s.recorder.Write(p)
	}
	time.Sleep(time.Until(s.deadline)) // in a bubble only
	return 0, errors.New("deadline exceeded")
}

func subscribed(t *testing.T, w http.ResponseWriter) (*subscriber, *fakeSession, func()) {
	t.Helper()
	f := newFakeSession(t, 1)
	h := newHub()
	h.session, h.live.session, h.resident = f.self, f.self, f
	f.observe = h.observe
	q, leave := h.subscribe()
	m, err := h.minted()
	if err != nil {
		t.Fatal(err)
	}
	return &subscriber{hub: h, minted: m, queue: q, cursor: wire.Cursor{Generation: 1}, out: w, rc: http.NewResponseController(w)}, f, leave
}

func TestAQuietStreamBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{}
		sub, f, leave := subscribed(t, rec)
		defer leave()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		r := (&http.Request{}).WithContext(ctx)
		go func() { done <- sub.run(r, 0) }()
		const beat = wire.HeartbeatMs * time.Millisecond
		time.Sleep(3*beat + beat/2)
		synctest.Wait()
		if got := rec.body.String(); got != wire.Heartbeat+wire.Heartbeat+wire.Heartbeat {
			t.Errorf("a stream quiet for three beats and a half sent %q", got)
		}
		rec.body.Reset()
		f.begin("something to say")
		synctest.Wait()
		said := rec.body.Len()
		time.Sleep(beat - time.Millisecond) // the pause starts again with what was said
		synctest.Wait()
		if said == 0 || rec.body.Len() != said {
			t.Errorf("%d bytes were said, and %d a beat later", said, rec.body.Len())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestASubscriberThatTakesNothingIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &stuck{takes: 1}
		sub, f, leave := subscribed(t, w)
		defer leave()
		done := make(chan error, 1)
		go func() { done <- sub.run((&http.Request{}).WithContext(t.Context()), 0) }()
		f.begin("taken")
		synctest.Wait()
		start := time.Now()
		f.begin("not taken")
		if err := <-done; err == nil || time.Since(start) != writeTimeout {
			t.Errorf("given up with %v after %v", err, time.Since(start))
		}
	})
}
