package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wireclient"
)

// follow ranges over a stream until stop says so.
func follow(t *testing.T, s *wireclient.Stream, stop func(wire.Frame) bool) (out []wire.Frame) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for f, err := range s.Frames(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
		if stop(f) {
			return out
		}
	}
	t.Fatalf("the stream ended after %d frames", len(out))
	return nil
}

func ended(f wire.Frame) bool { return f.Kind() == wire.KindRunEnd }

func replayed(frames []wire.Frame) (out []wire.Frame) {
	for _, f := range frames {
		if f.Delivery == wire.Replay {
			out = append(out, f)
		}
	}
	return out
}

func TestARunIsHeardFromPromptToEnd(t *testing.T) {
	f := newFakeSession(t, 1)
	f.oneRun("an older run", "its answer")
	_, rt := serve(t, hostOf(f))
	c := wireclient.New(rt, "http://loom")
	stream, err := c.Attach(t.Context(), f.self, wire.FromHead())
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Prompt(t.Context(), f.self, wire.Prompt{Input: wire.Input{Text: "hello"}, MaxTurns: new(int64(4)), PermissionMode: new(words.ModeAcceptEdits), Model: new("m")})
	if err != nil || got.Status != wire.Admitted || got.Operation.IsZero() {
		t.Fatal(got, err)
	}
	if diff := cmp.Diff([]Prompt{{Strand: "main", Text: "hello", MaxTurns: new(int64(4)), Mode: new("acceptEdits"), Model: new("m")}}, f.prompts); diff != "" {
		t.Error(diff)
	}
	if again, err := c.Prompt(t.Context(), f.self, wire.Prompt{Input: wire.Input{Text: "and"}}); err != nil || again.Status != wire.Queued || again.Operation != got.Operation {
		t.Error(again, err)
	}
	f.say(message.ToolUse, counted, message.Thinking{Thinking: "hm"}, message.Text{Text: "I read."}, message.ToolCall{ID: "c1", Name: "read"})
	f.result("c1", "content")
	f.observe(engine.RetryScheduled{Strand: "main", Op: got.Operation, NextAttempt: 2, Until: 99, Message: "overloaded"})
	f.say(message.Stop, counted, message.Text{Text: "done"})
	f.end(machine.OutcomeCompleted, nil)
	frames := follow(t, stream, ended)
	var kinds []string
	for _, f := range frames {
		kinds = append(kinds, string(f.Kind()))
	}
	want := "last_turn_usage run_start user_message turn_start reasoning_delta text_delta text_delta tool_call_delta reasoning_end text_end " +
		"tool_call tool_disclosure turn_end last_turn_usage " +
		"tool_progress tool_result retry turn_start text_delta text_delta text_end turn_end last_turn_usage run_end"
	if strings.Join(kinds, " ") != want {
		t.Errorf("heard %s", strings.Join(kinds, " "))
	}
	frames = frames[1:] // the level of the older run
	if frames[0].Operation != got.Operation || frames[len(frames)-1].Operation != got.Operation {
		t.Error("the frames are of another run")
	}
	// Who comes later reads the same.
	late, err := c.Attach(t.Context(), f.self, wire.FromCursor(replayed(frames)[0].Cursor))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := events(replayed(follow(t, late, ended))), events(replayed(frames)[1:]); got != want {
		t.Errorf("heard live\n%sread later\n%s", want, got)
	}
}

// fragile is a transport whose connections break after some bytes.
type fragile struct {
	base   http.RoundTripper
	breaks atomic.Int64
	after  int64
}

func (f *fragile) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f.base.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/frames") {
		f.breaks.Add(1)
		resp.Body = &breaking{ReadCloser: resp.Body, left: f.after * f.breaks.Load()}
	}
	return resp, err
}

type breaking struct {
	io.ReadCloser
	left int64
}

func (b *breaking) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, syscall.ECONNRESET
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func TestBrokenConnectionsLoseNoCommit(t *testing.T) {
	f := newFakeSession(t, 1)
	_, rt := serve(t, hostOf(f))
	broken := &fragile{base: rt, after: 700}
	stream, err := wireclient.New(broken, "http://loom").Attach(t.Context(), f.self, wire.FromStart())
	if err != nil {
		t.Fatal(err)
	}
	const runs = 12
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range runs {
			f.oneRun(fmt.Sprint("prompt ", i), fmt.Sprint("answer ", i))
		}
	})
	ends := 0
	frames := follow(t, stream, func(f wire.Frame) bool {
		if ended(f) {
			ends++
		}
		return ends == runs
	})
	wg.Wait()
	if got, want := events(replayed(frames)), events(all(t, f, wire.Cursor{})); got != want {
		t.Errorf("over %d connections came\n%sand not\n%s", broken.breaks.Load(), got, want)
	}
	if broken.breaks.Load() < 3 {
		t.Errorf("only %d connections: nothing was tested", broken.breaks.Load())
	}
}

func TestLevelsAreRestatedOnAttach(t *testing.T) {
	f := newFakeSession(t, 1)
	f.oneRun("older", "answer")
	op, _ := f.begin("running")
	_, rt := serve(t, hostOf(f))
	c := wireclient.New(rt, "http://loom")
	attach := func(from wire.From) *wireclient.Stream {
		s, err := c.Attach(t.Context(), f.self, from)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	isStart := func(f wire.Frame) bool { return f.Kind() == wire.KindRunStart }
	frames := follow(t, attach(wire.FromStart()), isStart)
	last := frames[len(frames)-1]
	if b := last.Body.(wire.RunStart); last.Operation != op || b.Roster.State() != wire.StatedFact || b.Cwd != "/repo" || b.Model.ModelID != "m" {
		t.Errorf("%+v", last)
	}
	if frames[len(frames)-2].Kind() != wire.KindLastTurnUsage || frames[len(frames)-3].Kind() != wire.KindUserMessage {
		t.Errorf("the level stands behind %s and %s", frames[len(frames)-3].Kind(), frames[len(frames)-2].Kind())
	}
	// The process cannot go on: those who are there and those who come are told.
	stream := attach(wire.FromHead())
	f.observe(engine.StrandStopped{Strand: "main", Op: op, Err: &tx.LeaseLost{}})
	for _, s := range []*wireclient.Stream{stream, attach(wire.FromHead())} {
		frames := follow(t, s, func(f wire.Frame) bool { return f.Kind() == wire.KindRunStopped })
		last := frames[len(frames)-1]
		if b := last.Body.(wire.RunStopped); b.Code != wire.SessionHeld || b.Message == "" || last.Operation != op {
			t.Errorf("%+v", last)
		}
	}
}

func TestASlowSubscriberLosesOnlyLiveFrames(t *testing.T) {
	f := newFakeSession(t, 1)
	h := newHub()
	h.session, h.live.session, h.resident = f.self, f.self, f
	f.observe = h.observe
	q, leave := h.subscribe()
	defer leave()
	f.begin("p")
	e := f.entryID()
	for i := range 5000 { // nobody takes: most are dropped
		f.observe(engine.TextDelta{Strand: "main", Op: f.current, Response: e, Text: fmt.Sprint(i)})
	}
	f.say(message.Stop, counted, message.Text{Text: "the answer"})
	f.end(machine.OutcomeCompleted, nil)
	m, err := h.minted()
	if err != nil {
		t.Fatal(err)
	}
	rec := &recorder{}
	sub := &subscriber{hub: h, minted: m, queue: q, cursor: wire.Cursor{Generation: 1}, out: rec, rc: http.NewResponseController(rec)}
	if err := sub.drain(); err != nil {
		t.Fatal(err)
	}
	if err := sub.flush(); err != nil {
		t.Fatal(err)
	}
	var frames []wire.Frame
	r := wire.NewEventReader(&rec.body)
	for {
		frame, err := r.Next()
		if err != nil {
			break
		}
		frames = append(frames, frame)
	}
	if got, want := events(replayed(frames)), events(all(t, f, wire.Cursor{})); got != want {
		t.Errorf("came\n%sand not\n%s", got, want)
	}
	notice, ok := frames[0].Body.(wire.Notice)
	if !ok || notice.Code != words.NoticeLiveDropped || notice.Facts[0].Value.String() != fmt.Sprint(5000+4-maxWaiting) {
		t.Errorf("the loss is told as %+v", frames[0].Body)
	}
}

// recorder is a response that keeps what was written.
type recorder struct{ body bytes.Buffer }

func (r *recorder) Header() http.Header              { return http.Header{} }
func (r *recorder) WriteHeader(int)                  {}
func (r *recorder) Write(p []byte) (int, error)      { return r.body.Write(p) }
func (r *recorder) Flush()                           {}
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }

func TestPagesPutTogetherAreTheHistory(t *testing.T) {
	f := newFakeSession(t, 1)
	for i := range 5 {
		f.oneRun(fmt.Sprint("prompt ", i), "answer")
	}
	host := hostOf(f)
	_, rt := serve(t, host)
	c := wireclient.New(rt, "http://loom")
	want := events(all(t, f, wire.Cursor{}))
	for _, limit := range []int{1, 4, 7, 1000} {
		var got []wire.Frame
		from := wire.FromStart()
		for {
			page, err := c.Page(t.Context(), f.self, from, limit)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, page.Frames...)
			if len(page.Frames) > limit || page.Info.Session != f.self || *page.Info.Cwd != "/repo" {
				t.Fatalf("%d frames of %+v", len(page.Frames), page.Info)
			}
			if !page.More {
				break
			}
			from = wire.FromCursor(page.Next)
		}
		if events(got) != want {
			t.Errorf("pages of %d are another history", limit)
		}
	}
	if host.opens != 0 {
		t.Error("reading opened the session for running")
	}
	if page, err := c.Page(t.Context(), f.self, wire.FromHead(), 5); err != nil || len(page.Frames) != 0 || page.More {
		t.Error(page, err)
	}
}

func TestRequestsAreCarriedOut(t *testing.T) {
	f := newFakeSession(t, 1)
	host := hostOf(f)
	_, rt := serve(t, host)
	c := wireclient.New(rt, "http://loom")
	ctx := t.Context()
	made, err := c.Create(ctx, wire.CreateSession{Cwd: "/repo", PermissionMode: words.ModeDefault})
	if err != nil || made.Session == f.self || made.Cursor != (wire.Cursor{Generation: 1, Seq: 1}) {
		t.Fatal(made, err)
	}
	// The cursor of a new session is where its first run is heard from.
	stream, err := c.Attach(ctx, made.Session, wire.FromCursor(made.Cursor))
	if err != nil {
		t.Fatal(err)
	}
	host.sessions[made.Session].oneRun("first", "answer")
	if n := len(replayed(follow(t, stream, ended))); n != len(all(t, host.sessions[made.Session], wire.Cursor{})) {
		t.Errorf("%d frames of the first run", n)
	}
	if got, err := c.Resume(ctx, f.self, wire.Resume{}); err != nil || !got.Operation.IsZero() {
		t.Error("there was nothing to resume:", got, err)
	}
	if got, err := c.Abort(ctx, f.self, wire.Abort{}); err != nil || got.Status != wire.NothingRunning {
		t.Error("there was nothing to abort:", got, err)
	}
	op, _ := f.begin("p")
	if list, err := c.Sessions(ctx); err != nil || len(list.Sessions) != 2 {
		t.Error(list, err)
	} else {
		for _, s := range list.Sessions {
			if want := map[bool]words.SessionStatus{true: words.SessionRunning, false: words.SessionIdle}[s.Session == f.self]; s.Status != want {
				t.Errorf("%v is %s", s.Session, s.Status)
			}
		}
	}
	if got, err := c.Resume(ctx, f.self, wire.Resume{}); err != nil || got.Operation != op {
		t.Error(got, err)
	}
	if got, err := c.Abort(ctx, f.self, wire.Abort{}); err != nil || got.Status != wire.Aborting {
		t.Error(got, err)
	}
	if got, err := c.Check(ctx, f.self); err != nil || got.Rows != 7 || len(got.Findings) != 1 || got.Findings[0].Code != "orphan" {
		t.Error(got, err)
	}
}

func TestRefusalsHaveTheirCodes(t *testing.T) {
	f := newFakeSession(t, 1)
	f.oneRun("p", "a")
	_, rt := serve(t, hostOf(f))
	client := &http.Client{Transport: rt}
	path := "/v1/sessions/" + f.self.String()
	none := "/v1/sessions/" + newFakeSession(t, 9).self.String()
	for name, c := range map[string]struct {
		method, path, body string
		want               wire.Code
	}{
		"no such path":        {"GET", "/v1/nothing", "", wire.NoRoute},
		"another version":     {"GET", "/v2/sessions", "", wire.NoRoute},
		"another method":      {"DELETE", path, "", wire.NoRoute},
		"no session":          {"GET", none, "", wire.UnknownSession},
		"no session's frames": {"GET", none + "/frames", "", wire.UnknownSession},
		"not an id":           {"GET", "/v1/sessions/seven", "", wire.BadRequest},
		"no key":              {"POST", path + "/prompt", `{"text":"x"}`, wire.BadRequest},
		"a request to come":   {"POST", path + "/archive", `{"key":"k"}`, wire.Unsupported},
		"a strand to come":    {"POST", path + "/fork", `{"key":"k"}`, wire.Unsupported},
		"a name to come":      {"POST", path + "/rename", `{"key":"k","name":"n"}`, wire.Unsupported},
		"an option to come":   {"POST", path + "/prompt", `{"key":"k","text":"x","images":[{"mediaType":"image/png","data":"AA=="}]}`, wire.Unsupported},
		"a wish for privacy":  {"POST", "/v1/sessions", `{"key":"k","cwd":"/repo","permissionMode":"default","memoryCapture":"off"}`, wire.Unsupported},
		"a misspelt query":    {"GET", path + "?aftr=start", "", wire.BadRequest},
		"a query twice":       {"GET", path + "?after=start&after=head", "", wire.BadRequest},
		"a query of others":   {"POST", path + "/abort?limit=1", `{"key":"k"}`, wire.BadRequest},
		"a query of frames":   {"GET", path + "/frames?limit=1", "", wire.BadRequest},
		"a query to come":     {"GET", "/v1/sessions?archived=true", "", wire.Unsupported},
		"a misspelt option":   {"POST", path + "/prompt", `{"key":"k","text":"x","maxTurn":1}`, wire.BadRequest},
		"not JSON":            {"POST", path + "/prompt", `hello`, wire.BadRequest},
		"no body":             {"POST", path + "/check", ``, wire.BadRequest},
		"a body too large":    {"POST", path + "/abort", `{"strand":"` + strings.Repeat("x", wire.MaxBody) + `"}`, wire.TooLarge},
		"a prompt too large":  {"POST", path + "/prompt", `{"text":"` + strings.Repeat("x", wire.MaxPromptBody) + `"}`, wire.TooLarge},
		"no directory":        {"POST", "/v1/sessions", `{"key":"k","cwd":"/gone","permissionMode":"default"}`, wire.BadCwd},
		"a bad limit":         {"GET", path + "?limit=0", "", wire.BadRequest},
		"a bad cursor":        {"GET", path + "?after=x", "", wire.BadRequest},
		"a void cursor":       {"GET", path + "/frames?after=0:1:1", "", wire.StaleCursor},
		"a cursor of others":  {"GET", path + "/frames?after=1:9999:1", "", wire.BadRequest},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, "http://loom"+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var body bytes.Buffer
		_, err = body.ReadFrom(resp.Body)
		_ = resp.Body.Close()
		e, derr := wire.DecodeAnswer[wire.ErrorBody](body.Bytes())
		if err != nil || derr != nil || e.Code != c.want || resp.StatusCode != c.want.Status() || e.Message == "" {
			t.Errorf("%s: %d %s %v %v", name, resp.StatusCode, body.Bytes(), err, derr)
		}
	}
}

func TestErrorsOfTheEngineSideHaveTheirCodes(t *testing.T) {
	report := corrupt.New("b", "s", "e", "c")
	for _, c := range []struct {
		err  error
		want wire.Code
	}{
		{Refuse(UnknownModel, "m"), wire.UnknownModel},
		{&storage.LeaseHeld{}, wire.SessionHeld},
		{&tx.LeaseLost{}, wire.SessionHeld},
		{&storage.UnsupportedVersion{Found: 2, Supported: 1}, wire.NewerFormat},
		{&storage.UnsupportedVersion{Found: 0, Supported: 1}, wire.StoreUnreadable},
		{&storage.OpenFailed{Reason: "r", Err: fs.ErrNotExist}, wire.UnknownSession},
		{&storage.OpenFailed{Reason: "r", Err: fs.ErrPermission}, wire.StoreUnreadable},
		{&storage.OpenFailed{Reason: "r", Err: syscall.ENOSPC}, wire.StoreFull},
		{&storage.CorruptRow{Report: report}, wire.StoreUnreadable},
		{&session.Corrupt{Report: report}, wire.StoreUnreadable},
		{&tx.Corruption{Report: report}, wire.StoreUnreadable},
		{&tx.Faulted{Reason: "r", Err: syscall.ENOSPC}, wire.StoreFull},
		{&tx.Faulted{Reason: "r"}, wire.StoreUnreadable},
		{engine.ErrClosed, wire.Unavailable},
		{errors.New("surprise"), wire.Internal},
	} {
		if got := refusal(fmt.Errorf("prompt: %w", c.err)); got.Code != c.want || got.Message == "" {
			t.Errorf("%T %v is %+v", c.err, c.err, got)
		}
	}
}

func TestAPanicIsAnAnswer(t *testing.T) {
	rec := &panicRecorder{}
	answering(func(http.ResponseWriter, *http.Request) error { panic("a defect") })(rec, &http.Request{})
	if e, err := wire.DecodeAnswer[wire.ErrorBody](rec.body.Bytes()); err != nil || e.Code != wire.Internal || rec.status != 500 {
		t.Error(e, err, rec.status)
	}
}

type panicRecorder struct {
	recorder
	status int
}

func (r *panicRecorder) WriteHeader(status int) { r.status = status }

func TestOpeningsAreSharedAndTriedAgain(t *testing.T) {
	f := newFakeSession(t, 1)
	host := hostOf(f)
	host.slow = make(chan struct{})
	host.fail = &storage.LeaseHeld{Holder: storage.Holder{PID: 7}}
	s, rt := serve(t, host)
	c := wireclient.New(rt, "http://loom")
	attach := func() error {
		stream, err := c.Attach(t.Context(), f.self, wire.FromHead())
		if err == nil {
			stream.Close()
		}
		return err
	}
	errs := make(chan error, 8)
	for range 8 {
		go func() { errs <- attach() }()
	}
	host.slow <- struct{}{} // one opening answers those who wait for it
	close(host.slow)        // and the others do not wait
	for range 8 {
		if err, ok := errors.AsType[*wireclient.Refused](<-errs); !ok || err.Code != wire.SessionHeld || !strings.Contains(err.Message, "7") {
			t.Errorf("%v", err)
		}
	}
	host.mu.Lock()
	host.fail, host.opens = nil, 0
	host.mu.Unlock()
	for range 3 {
		if err := attach(); err != nil {
			t.Error(err)
		}
	}
	if host.opens != 1 || len(s.hubs) != 1 {
		t.Errorf("%d openings of one session", host.opens)
	}
}

func TestClosingEndsStreamsAndSessions(t *testing.T) {
	f := newFakeSession(t, 1)
	s, rt := serve(t, hostOf(f))
	c := wireclient.New(rt, "http://loom")
	stream, err := c.Attach(t.Context(), f.self, wire.FromHead())
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	go func() {
		if err := s.Close(5 * time.Second); err != nil {
			t.Error(err)
		}
	}()
	var last error
	for _, err := range stream.Frames(t.Context()) {
		last = err
	}
	if last == nil || time.Since(start) > 4*time.Second {
		t.Errorf("the stream ended with %v after %v", last, time.Since(start))
	}
	if _, err := c.Prompt(t.Context(), f.self, wire.Prompt{Input: wire.Input{Text: "x"}}); err == nil {
		t.Error("a closed server took a prompt")
	}
}

func TestOnlyPrivateListenersAreServed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip("no loopback:", err)
	}
	defer func() { _ = l.Close() }()
	s := New(hostOf())
	if err := s.Serve(l); err == nil || !strings.Contains(err.Error(), "without authentication") {
		t.Errorf("served %v: %v", l.Addr(), err)
	}
	if err := s.Close(time.Second); err != nil {
		t.Error(err)
	}
}
