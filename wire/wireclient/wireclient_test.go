package wireclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wireclient"
	"github.com/loom-run/loom/wire/wiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var session = wiretest.Session(1)

// transport answers requests from a function.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func answer(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// line is a body that plays pieces and then ends with err, or stays quiet until it
// is closed when err is nil.
type line struct {
	pieces []string
	every  time.Duration
	err    error
	ctx    context.Context
	closed chan struct{}
}

func (l *line) Read(p []byte) (int, error) {
	if len(l.pieces) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		select {
		case <-l.closed:
			return 0, errors.New("read of a closed body")
		case <-l.ctx.Done():
			return 0, l.ctx.Err()
		}
	}
	if l.every > 0 {
		time.Sleep(l.every) // in a bubble only
	}
	n := copy(p, l.pieces[0])
	if l.pieces[0] = l.pieces[0][n:]; l.pieces[0] == "" {
		l.pieces = l.pieces[1:]
	}
	return n, nil
}

func (l *line) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

// history is a server's side: replay frames that it sends from any cursor on, over
// connections that break where cuts says.
type history struct {
	frames []wire.Frame
	cuts   []int // bytes that each connection carries before it breaks; then it stays
	fails  map[int]error
	opens  int
	asked  []string
	every  time.Duration
}

func (h *history) RoundTrip(r *http.Request) (*http.Response, error) {
	n := h.opens
	h.opens++
	h.asked = append(h.asked, r.URL.Query().Get("after"))
	if err := h.fails[n]; err != nil {
		return nil, err
	}
	from, err := wire.ParseFrom(r.URL.Query().Get("after"))
	if err != nil {
		return nil, err
	}
	after, _ := from.Cursor()
	var stream []byte
	for _, f := range h.frames {
		if f.Delivery != wire.Replay || f.Cursor.Compare(after) > 0 {
			stream = append(append(stream, wire.Heartbeat...), wire.AppendEvent(nil, f)...)
		}
	}
	l := &line{ctx: r.Context(), closed: make(chan struct{}), every: h.every}
	if n < len(h.cuts) {
		stream = stream[:min(h.cuts[n], len(stream))]
		l.err = io.EOF
	}
	if len(stream) > 0 {
		l.pieces = []string{string(stream)}
	}
	resp := answer(200, "")
	resp.Header.Set(wire.CursorHeader, after.String())
	resp.Body = l
	return resp, nil
}

func replays(n int) (out []wire.Frame) {
	for i := range n {
		out = append(out, wire.Frame{
			ID: fmt.Sprint(i), Cursor: wire.Cursor{Generation: 1, Seq: int64(i/3 + 1), Ordinal: i % 3}, Delivery: wire.Replay,
			Session: session, Lane: wire.LaneMain, Body: wire.TextEnd{Segment: wire.Segment{Entry: wiretest.Entry(uint64(i))}, Content: "text"},
		})
	}
	return out
}

// collect ranges until n frames came or the stream ended.
func collect(ctx context.Context, s *wireclient.Stream, n int) (ids []string, err error) {
	for f, e := range s.Frames(ctx) {
		if e != nil {
			return ids, e
		}
		if ids = append(ids, f.ID); len(ids) == n {
			return ids, nil
		}
	}
	return ids, nil
}

func TestEachReplayFrameComesOnceWhereverConnectionsBreak(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			n := rapid.IntRange(1, 12).Draw(rt, "frames")
			h := &history{frames: replays(n), cuts: rapid.SliceOfN(rapid.IntRange(1, 1500), 0, 4).Draw(rt, "cuts")}
			s, err := wireclient.New(h, "http://loom").Attach(t.Context(), session, wire.FromStart())
			if err != nil {
				rt.Fatal(err)
			}
			got, err := collect(t.Context(), s, n)
			want := make([]string, n)
			for i := range want {
				want[i] = fmt.Sprint(i)
			}
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				rt.Fatalf("%v %v, over the connections %v", got, err, h.asked)
			}
			if c := s.Cursor(); c != h.frames[n-1].Cursor {
				rt.Fatalf("the stream stands at %v", c)
			}
		})
	})
}

func TestAQuietLinkLivesByHeartbeatsAndDiesWithoutBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		beats := 0
		rt := transport(func(r *http.Request) (*http.Response, error) {
			resp := answer(200, "")
			resp.Header.Set(wire.CursorHeader, "1:0:0")
			l := &line{ctx: r.Context(), closed: make(chan struct{}), every: wire.HeartbeatMs * time.Millisecond}
			if beats++; beats == 1 {
				for range 20 {
					l.pieces = append(l.pieces, wire.Heartbeat)
				}
			} else {
				l.every = 0
				l.pieces = []string{string(wire.AppendEvent(nil, replays(1)[0]))}
			}
			resp.Body = l
			return resp, nil
		})
		s, err := wireclient.New(rt, "http://loom").Attach(t.Context(), session, wire.FromHead())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := collect(t.Context(), s, 1); err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		// Twenty heartbeats keep the link, three without a byte end it.
		if took := time.Since(start); took != 23*wire.HeartbeatMs*time.Millisecond || beats != 2 {
			t.Errorf("%d connections in %v", beats, took)
		}
	})
}

func TestAStreamThatCannotGoOnSaysWhy(t *testing.T) {
	refusal := func(code wire.Code) *http.Response {
		return answer(code.Status(), string(wire.Encode(wire.ErrorBody{Code: code, Message: "no"})))
	}
	down := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for name, c := range map[string]struct {
		second func() (*http.Response, error)
		opens  int
		took   time.Duration
		want   func(error) bool
	}{
		"the server is gone": {
			func() (*http.Response, error) { return nil, down }, 7, 3100 * time.Millisecond,
			func(err error) bool { e, ok := errors.AsType[*wireclient.Unreached](err); return ok && !e.Maybe },
		},
		"the server has no time": {
			func() (*http.Response, error) { return refusal(wire.Unavailable), nil }, 7, 3100 * time.Millisecond,
			func(err error) bool {
				e, ok := errors.AsType[*wireclient.Refused](err)
				return ok && e.Code == wire.Unavailable
			},
		},
		"the cursor is void": {
			func() (*http.Response, error) { return refusal(wire.StaleCursor), nil }, 2, 0,
			func(err error) bool {
				e, ok := errors.AsType[*wireclient.Refused](err)
				return ok && e.Code == wire.StaleCursor
			},
		},
		"the listener is closed": {
			func() (*http.Response, error) {
				return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
			}, 2, 0,
			func(err error) bool { _, ok := errors.AsType[*wireclient.Unreached](err); return ok },
		},
		"no position": {
			func() (*http.Response, error) { return answer(200, ""), nil }, 2, 0,
			func(err error) bool { _, ok := errors.AsType[*wireclient.Garbled](err); return ok },
		},
		"frames of no contract": {
			func() (*http.Response, error) {
				resp := answer(200, "data: hello\n\n")
				resp.Header.Set(wire.CursorHeader, "1:1:0")
				return resp, nil
			}, 2, 0,
			func(err error) bool { _, ok := errors.AsType[*wireclient.Garbled](err); return ok },
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			opens := 0
			h := &history{frames: replays(1), cuts: []int{10_000}}
			rt := transport(func(r *http.Request) (*http.Response, error) {
				if opens++; opens == 1 {
					return h.RoundTrip(r)
				}
				return c.second()
			})
			s, err := wireclient.New(rt, "http://loom").Attach(t.Context(), session, wire.FromStart())
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			got, err := collect(t.Context(), s, 0)
			if len(got) != 1 || !c.want(err) || opens != c.opens || time.Since(start) != c.took {
				t.Errorf("%s: %v %v after %d connections in %v", name, got, err, opens, time.Since(start))
			}
		})
	}
}

func TestAStreamEndsWhereItIsToldTo(t *testing.T) {
	attach := func(t *testing.T, ctx context.Context) *wireclient.Stream {
		s, err := wireclient.New(&history{frames: replays(2)}, "http://loom").Attach(ctx, session, wire.FromStart())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	synctest.Test(t, func(t *testing.T) { // by the reader's context
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if got, err := collect(ctx, attach(t, t.Context()), 0); len(got) != 2 || err != nil {
			t.Error(got, err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // by Close from elsewhere
		s := attach(t, t.Context())
		time.AfterFunc(time.Second, s.Close)
		if got, err := collect(t.Context(), s, 0); len(got) != 2 || err != nil {
			t.Error(got, err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // unused
		s := attach(t, t.Context())
		s.Close()
		if got, err := collect(t.Context(), s, 0); len(got) != 0 || err == nil {
			t.Error("the frames of a closed stream:", got, err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // not by the context of the opening
		ctx, cancel := context.WithCancel(t.Context())
		s := attach(t, ctx)
		cancel()
		if got, err := collect(t.Context(), s, 2); len(got) != 2 || err != nil {
			t.Error(got, err)
		}
	})
}

func TestRequestsCarryTheirBodiesAndAnswersTheirs(t *testing.T) {
	var seen []string
	answers := map[string]string{
		"POST /v1/sessions": string(wire.Encode(wire.Created{Session: session, Cursor: wire.Cursor{Generation: 1}})),
		"POST /v1/sessions/" + session.String() + "/prompt": string(wire.Encode(wire.Prompted{Status: wire.Queued, Seq: 3})),
		"POST /v1/sessions/" + session.String() + "/resume": string(wire.Encode(wire.Resumed{Operation: wiretest.Op(1)})),
		"POST /v1/sessions/" + session.String() + "/abort":  string(wire.Encode(wire.AbortReceipt{Status: wire.Aborting})),
		"GET /v1/sessions": string(wire.Encode(wire.SessionList{})),
		"GET /v1/sessions/" + session.String() + "?after=start&limit=7": string(wire.Encode(wire.SessionPage{Info: wire.SessionInfo{Session: session, Status: "idle"}, Next: wire.Cursor{Seq: 1}})),
		"POST /v1/sessions/" + session.String() + "/check":              string(wire.Encode(wire.CheckReport{Rows: 9})),
	}
	c := wireclient.New(transport(func(r *http.Request) (*http.Response, error) {
		body := ""
		if r.Body != nil {
			b, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			body = string(b)
		}
		key := r.Method + " " + r.URL.RequestURI()
		seen = append(seen, key+" "+body)
		text, ok := answers[key]
		if !ok {
			return answer(404, string(wire.Encode(wire.ErrorBody{Code: wire.NoRoute, Message: key}))), nil
		}
		return answer(200, text), nil
	}), "http://loom")
	ctx := t.Context()
	if v, err := c.Create(ctx, wire.CreateSession{Mutation: wire.Mutation{Key: "k1"}, Cwd: "/w", PermissionMode: words.ModeDefault}); err != nil || v.Session != session {
		t.Error(v, err)
	}
	if v, err := c.Prompt(ctx, session, wire.Prompt{Input: wire.Input{Mutation: wire.Mutation{Key: "k2"}, Text: "hi"}}); err != nil || v.Status != wire.Queued || v.Seq != 3 {
		t.Error(v, err)
	}
	if v, err := c.Resume(ctx, session, wire.Resume{Mutation: wire.Mutation{Key: "k3"}}); err != nil || v.Operation != wiretest.Op(1) {
		t.Error(v, err)
	}
	if v, err := c.Abort(ctx, session, wire.Abort{Mutation: wire.Mutation{Key: "k4"}, Strand: new("main")}); err != nil || v.Status != wire.Aborting {
		t.Error(v, err)
	}
	if v, err := c.Sessions(ctx); err != nil || len(v.Sessions) != 0 {
		t.Error(v, err)
	}
	if v, err := c.Page(ctx, session, wire.FromStart(), 7); err != nil || v.Next.Seq != 1 {
		t.Error(v, err)
	}
	if v, err := c.Check(ctx, session); err != nil || v.Rows != 9 {
		t.Error(v, err)
	}
	want := []string{
		`POST /v1/sessions {"key":"k1","cwd":"/w","permissionMode":"default"}`,
		`POST /v1/sessions/` + session.String() + `/prompt {"key":"k2","text":"hi"}`,
		`POST /v1/sessions/` + session.String() + `/resume {"key":"k3"}`,
		`POST /v1/sessions/` + session.String() + `/abort {"key":"k4","strand":"main"}`,
		`GET /v1/sessions `,
		`GET /v1/sessions/` + session.String() + `?after=start&limit=7 `,
		`POST /v1/sessions/` + session.String() + `/check {}`,
	}
	if strings.Join(seen, "\n") != strings.Join(want, "\n") {
		t.Errorf("sent\n%s", strings.Join(seen, "\n"))
	}
}

func TestAMutationWithoutAKeyIsGivenOneOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	c := wireclient.New(transport(func(r *http.Request) (*http.Response, error) {
		data, _ := io.ReadAll(r.Body)
		q, err := wire.DecodeRequest[wire.Abort](data)
		if err != nil || len(q.Key) < 20 || seen[q.Key] {
			t.Errorf("the key is %q, %v", q.Key, err)
		}
		seen[q.Key] = true
		return answer(202, string(wire.Encode(wire.AbortReceipt{Status: wire.NothingRunning}))), nil
	}), "http://loom")
	for range 3 {
		if _, err := c.Abort(t.Context(), session, wire.Abort{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestErrorsSayWhatMayHaveHappened(t *testing.T) {
	for name, c := range map[string]struct {
		rt   transport
		want string
	}{
		"refused": {func(*http.Request) (*http.Response, error) {
			return answer(423, `{"code":"session_held","message":"held by process 7"}`), nil
		}, "held by process 7"},
		"not sent": {func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Net: "memory", Err: errors.New("nobody listens")}
		}, "nothing was changed"},
		"no answer": {func(*http.Request) (*http.Response, error) { return nil, errors.New("reset") }, "may have been done"},
		"half an answer": {func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: &line{err: io.ErrUnexpectedEOF, closed: make(chan struct{})}}, nil
		}, "may have been done"},
		"another server": {func(*http.Request) (*http.Response, error) { return answer(200, "<html>"), nil }, "cannot be read"},
		"a proxy's page": {func(*http.Request) (*http.Response, error) { return answer(502, "<html>"), nil }, "status 502"},
		"a redirect": {func(*http.Request) (*http.Response, error) {
			r := answer(307, "")
			r.Header.Set("Location", "http://elsewhere/")
			return r, nil
		}, "status 307"},
	} {
		tries := 0
		client := wireclient.New(transport(func(r *http.Request) (*http.Response, error) { tries++; return c.rt(r) }), "http://loom")
		_, err := client.Prompt(t.Context(), session, wire.Prompt{Input: wire.Input{Text: "x"}})
		if err == nil || !strings.Contains(err.Error(), c.want) || tries != 1 {
			t.Errorf("%s: %v after %d tries", name, err, tries)
		}
	}
}
