package remote_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/remote"
)

// pipes is a listener whose connections live in memory, so that a bubble of fake time holds both ends.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// attempt plays one call against a handler in fake time and tells how long it took.
func attempt(t *testing.T, ctx context.Context, limits remote.Limits, handler http.HandlerFunc) (m *message.Assistant, e *provider.Error, took time.Duration) {
	t.Helper()
	return attemptOf(t, ctx, limits, asking("hi"), func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server learns that its client left only after it has read the request
		handler(w, r)
	})
}

func attemptOf(t *testing.T, ctx context.Context, limits remote.Limits, req provider.Request, handler http.HandlerFunc) (m *message.Assistant, e *provider.Error, took time.Duration) {
	t.Helper()
	listener := newPipes()
	server := &http.Server{Handler: handler}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	defer serving.Wait()
	defer func() { _ = server.Close() }()

	c := client(t, "http://localhost", func(c *remote.Config) { c.Limits, c.Dial = limits, listener.dial })
	defer func() { _ = c.Close() }()
	begun := time.Now()
	m, err := c.Stream(ctx, req, func(provider.Delta) {})
	took = time.Since(begun)
	if err != nil {
		e = err.(*provider.Error)
	}
	return m, e, took
}

// paced sends events with a pause before each, then waits for the client to leave.
func paced(pause time.Duration, data ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, d := range data {
			select {
			case <-time.After(pause):
			case <-r.Context().Done():
				return
			}
			_, _ = io.WriteString(w, "data: "+d+"\n\n")
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}
}

func TestEachLimitEndsTheAttemptWithItsName(t *testing.T) {
	many := make([]string, 400)
	for i := range many {
		many[i] = textDelta("a")
	}
	for _, c := range []struct {
		name    string
		limits  remote.Limits
		handler http.HandlerFunc
		detail  string
		took    time.Duration
		partial string
	}{
		{"no first byte", remote.Limits{FirstByte: 30 * time.Second}, paced(time.Hour, textDelta("a")), provider.LimitFirstByte, 30 * time.Second, ""},
		{"headers are no first byte", remote.Limits{FirstByte: 30 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, provider.LimitFirstByte, 30 * time.Second, ""},
		{"silence inside the answer", remote.Limits{Idle: 20 * time.Second}, paced(15*time.Second, textDelta("a"), textDelta("b")), provider.LimitIdle, 50 * time.Second, "ab"},
		{"an answer that never ends", remote.Limits{Idle: 20 * time.Second}, paced(1100*time.Millisecond, many...), provider.LimitTotal, 300 * time.Second, strings.Repeat("a", 272)},
		{"silence without a limit on it", remote.Limits{}, paced(time.Second, textDelta("a")), provider.LimitTotal, 300 * time.Second, "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, e, took := attempt(t, t.Context(), c.limits, c.handler)
				if e == nil || e.Class != provider.Deadline || e.Detail != c.detail || !e.Retryable() {
					t.Fatalf("got %+v", e)
				}
				if took.Round(time.Second) != c.took {
					t.Errorf("it took %s, want %s", took, c.took)
				}
				got := ""
				if e.Partial != nil {
					got = message.TextOf(e.Partial.Content)
				}
				if got != c.partial {
					t.Errorf("partial %q, want %q", got, c.partial)
				}
			})
		})
	}
}

func TestAConnectionThatIsNotMadeInTimeSaysSo(t *testing.T) {
	for name, dial := range map[string]func(context.Context, string, string) (net.Conn, error){
		"the dial hangs": func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"the handshake hangs": func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			return ours, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := client(t, "https://example.invalid", func(c *remote.Config) { c.Dial = dial })
				begun := time.Now()
				e := fail(t, t.Context(), c, asking("hi"), nil)
				if e.Class != provider.Unreachable || e.Detail != provider.LimitConnect || time.Since(begun) != remote.DefaultConnect {
					t.Errorf("after %s: %+v", time.Since(begun), e)
				}
				_ = c.Close()
			})
		})
	}
}

func TestWhatFollowsACompleteAnswerIsNotAwaitedForLong(t *testing.T) {
	for _, c := range []struct {
		name    string
		data    []string
		atMost  time.Duration
		outputs int64
	}{
		{"no usage and no mark", []string{textDelta("a"), stopped}, 6 * time.Second, 0},
		{"usage and no mark", []string{textDelta("a"), stopped, reported}, 6 * time.Second, 2},
		{"a mark and no end", []string{textDelta("a"), stopped, reported, done}, 300 * time.Millisecond, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, e, took := attempt(t, t.Context(), remote.Limits{}, paced(0, c.data...))
				if e != nil {
					t.Fatal(e)
				}
				if took > c.atMost || m.Usage.Output != c.outputs || m.StopReason != message.Stop {
					t.Errorf("after %s: %+v", took, m)
				}
			})
		})
	}
}

func TestARefusalThatNeverEndsIsTheRefusalThatItIs(t *testing.T) {
	for name, body := range map[string]string{"without a word": "", "with its reason": `{"error":{"message":"on fire"}}`} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, e, took := attempt(t, t.Context(), remote.Limits{}, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(500)
					_, _ = io.WriteString(w, body)
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				})
				if e == nil || e.Class != provider.Server || e.Status != 500 || took > 6*time.Second || strings.Contains(e.Message, "on fire") != (body != "") {
					t.Errorf("after %s: %+v", took, e)
				}
			})
		})
	}
}

func TestAnAnswerThatBeginsBeforeTheRequestIsReadHasItsFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req := asking(strings.Repeat("x", 1<<20))
		m, e, took := attemptOf(t, t.Context(), remote.Limits{FirstByte: 30 * time.Second}, req, func(w http.ResponseWriter, r *http.Request) {
			if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
				t.Error(err)
			}
			events(0, textDelta("a"))(w, r)
			_ = http.NewResponseController(w).Flush()
			<-time.After(10 * time.Second)
			_, _ = io.Copy(io.Discard, r.Body)
			<-time.After(60 * time.Second)
			events(0, stopped, done)(w, r)
		})
		if e != nil || message.TextOf(m.Content) != "a" || took.Round(time.Second) != 70*time.Second {
			t.Errorf("after %s: %v, %v", took, m, e)
		}
	})
}

func TestTheCallersOwnDeadlineIsToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, e, took := attempt(t, ctx, remote.Limits{}, paced(time.Second, textDelta("a")))
		if e == nil || e.Class != provider.Deadline || e.Detail != provider.LimitCaller || took != 10*time.Second || e.Partial == nil {
			t.Errorf("after %s: %+v", took, e)
		}
	})
}

func TestCancellingDuringTheDialReturnsAtOnceAndCloseJoinsTheDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialing, dialed := make(chan struct{}), make(chan struct{})
		c := client(t, "http://localhost", func(c *remote.Config) {
			c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				close(dialing)
				<-ctx.Done()
				close(dialed)
				return nil, ctx.Err()
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-dialing
			cancel()
		}()
		begun := time.Now()
		if e := fail(t, ctx, c, asking("hi"), nil); e.Class != provider.Cancelled || time.Since(begun) != 0 {
			t.Errorf("after %s: %+v", time.Since(begun), e)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		select {
		case <-dialed:
		default:
			t.Error("the dial runs on after Close")
		}
		if time.Since(begun) != 0 {
			t.Errorf("Close waited %s", time.Since(begun))
		}
	})
}
