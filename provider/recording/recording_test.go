package recording_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/anthropic"
	"github.com/loom-run/loom/provider/dialect/dialecttest"
	"github.com/loom-run/loom/provider/gemini"
	"github.com/loom-run/loom/provider/openaichat"
	"github.com/loom-run/loom/provider/openairesponses"
	"github.com/loom-run/loom/provider/recording"
	"github.com/loom-run/loom/provider/remote"
)

const (
	key = "sk-test-never-recorded"
	at  = 1_750_000_000_000
)

func now() int64 { return at }

// answers is a server that gives one answer after the other.
type answers struct {
	list []func(http.ResponseWriter)
	n    int
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	a.list[a.n](w)
	a.n++
}

// stream gives a body in pieces of a size.
func stream(size int, body []byte) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		for len(body) > 0 {
			n := min(size, len(body))
			_, _ = w.Write(body[:n])
			_ = http.NewResponseController(w).Flush()
			body = body[n:]
		}
	}
}

func refuse(status int, text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "3")
		w.Header().Set("X-Internal", "not kept")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

func broken(body []byte) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		stream(10, body)(w)
		panic(http.ErrAbortHandler)
	}
}

func asking(texts ...string) provider.Request {
	req := provider.Request{Model: provider.Model{Identity: provider.Identity{Provider: "route", ModelID: "m"}, MaxOutput: 100}}
	for _, s := range texts {
		req.Messages = append(req.Messages, &message.User{Content: []message.UserBlock{message.Text{Text: s}}})
	}
	return req
}

// outcome is what a call came to, as text.
func outcome(p provider.Provider, req provider.Request) string {
	var deltas []provider.Delta
	m, err := p.Stream(context.Background(), req, func(d provider.Delta) { deltas = append(deltas, d) })
	if err == nil {
		return fmt.Sprintf("%v %s", deltas, dialecttest.Stored(m))
	}
	e, _ := errors.AsType[*provider.Error](err)
	hint := int64(-1)
	if e.RetryAfterMs != nil {
		hint = *e.RetryAfterMs
	}
	partial := ""
	if e.Partial != nil {
		e.Partial.ErrorMessage = nil // it names the host
		partial = dialecttest.Stored(e.Partial)
	}
	return fmt.Sprintf("%v %s %d %d %s", deltas, e.Class, e.Status, hint, partial)
}

// record makes some calls through a recorder, and returns the recording and what the calls came to.
func record(t *testing.T, d remote.Dialect, requests []provider.Request, list ...func(http.ResponseWriter)) (tape string, outcomes []string) {
	t.Helper()
	server := httptest.NewServer(&answers{list: list})
	t.Cleanup(server.Close)
	var out bytes.Buffer
	recorder := recording.NewRecorder(&out)
	secret := provider.NewSecret(key)
	model := requests[0].Model
	model.API = d.API()
	c, err := remote.New(remote.Config{Dialect: d, BaseURL: server.URL, Key: secret, Now: now, Through: recorder.Through(model, secret.Scrub)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for _, req := range requests {
		outcomes = append(outcomes, outcome(c, req))
	}
	if err := recorder.Err(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), key) {
		t.Errorf("the key is in the recording:\n%s", out.String())
	}
	return out.String(), outcomes
}

func player(t *testing.T, tape string) *recording.Player {
	t.Helper()
	p, err := recording.NewPlayer("FILE", tape, now)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// streams is one answer of each dialect.
var streams = map[string]struct {
	open func() remote.Dialect
	body []byte
}{
	"anthropic": {func() remote.Dialect { return anthropic.New() }, dialecttest.Stream(`{"type":"message_start","message":{"id":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"aé"}}`, `{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`, `{"type":"message_stop"}`)},
	"chat":      {func() remote.Dialect { return openaichat.New() }, dialecttest.Stream(`{"choices":[{"index":0,"delta":{"content":"aé"}}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "[DONE]")},
	"responses": {func() remote.Dialect { return openairesponses.New() }, dialecttest.Stream(`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"aé"}`, `{"type":"response.completed","response":{"status":"completed"}}`)},
	"gemini":    {func() remote.Dialect { return gemini.New() }, dialecttest.Stream(`{"candidates":[{"content":{"parts":[{"text":"aé"}]},"finishReason":"STOP"}]}`)},
}

func TestAReplayIsTheRecordedRun(t *testing.T) {
	for name, s := range streams {
		t.Run(name, func(t *testing.T) {
			requests := []provider.Request{asking("a"), asking("a"), asking("a", "b"), asking("a", "b"), asking("a", "b", "c")}
			tape, want := record(t, s.open(), requests,
				refuse(429, `{"error":{"message":"slow down `+key+`"}}`), stream(3, s.body), broken(s.body[:len(s.body)-40]), stream(7, append(s.body, "\xff"...)), refuse(401, `{"error":{"message":"bad key `+key+`"}}`))
			for round := range 2 {
				p := player(t, tape)
				for i, req := range requests {
					if got := outcome(p, req); got != want[i] {
						t.Errorf("round %d, request %d:\n got %s\nwant %s", round, i, got, want[i])
					}
				}
			}
		})
	}
}

func TestARequestIsAnsweredByItsOwnExchange(t *testing.T) {
	s := streams["chat"]
	other := dialecttest.Stream(`{"choices":[{"index":0,"delta":{"content":"other"},"finish_reason":"stop"}]}`, "[DONE]")
	tape, want := record(t, s.open(), []provider.Request{asking("one"), asking("two")}, stream(99, s.body), stream(99, other))
	p := player(t, tape)
	if got := outcome(p, asking("two")); got != want[1] {
		t.Errorf("out of order: %s", got)
	}
	req := asking("three")
	m, err := p.Stream(t.Context(), req, func(provider.Delta) {})
	if err != nil || message.TextOf(m.Content) != "aé" {
		t.Fatalf("%v, %v", m, err)
	}
	if d, _ := m.Diagnostics.Get("replay_departed"); d.String() != "true" {
		t.Errorf("a departure is not told: %s", m.Diagnostics)
	}
	_, err = p.Stream(t.Context(), req, func(provider.Delta) {})
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || e.Class != provider.InvalidRequest || !e.Unsent || !strings.Contains(e.Message, "FILE has no answer to request 3") {
		t.Errorf("at the end: %v", err)
	}
}

func TestAnAddressThatNobodyAnsweredAtIsRecordedToo(t *testing.T) {
	var out bytes.Buffer
	recorder := recording.NewRecorder(&out)
	c, err := remote.New(remote.Config{
		Dialect: openaichat.New(), BaseURL: "http://127.0.0.1:1", Keyless: true, Now: now,
		Through: recorder.Through(provider.Model{API: openaichat.API}, func(s string) string { return s }),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, _ = c.Stream(t.Context(), asking("a"), func(provider.Delta) {})
	_, err = player(t, out.String()).Stream(t.Context(), asking("a"), func(provider.Delta) {})
	if e, ok := errors.AsType[*provider.Error](err); !ok || e.Class != provider.Unreachable {
		t.Errorf("%v", err)
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestARecordingThatCannotBeWrittenFailsNothingElse(t *testing.T) {
	s := streams["chat"]
	server := httptest.NewServer(&answers{list: []func(http.ResponseWriter){stream(99, s.body)}})
	defer server.Close()
	recorder := recording.NewRecorder(full{})
	c, err := remote.New(remote.Config{
		Dialect: openaichat.New(), BaseURL: server.URL, Keyless: true, Now: now,
		Through: recorder.Through(provider.Model{API: openaichat.API}, func(s string) string { return s }),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Stream(t.Context(), asking("a"), func(provider.Delta) {}); err != nil || recorder.Err() == nil {
		t.Errorf("%v, %v", err, recorder.Err())
	}
}

func TestWhatIsNoRecordingIsRefused(t *testing.T) {
	const head = `{"loom_recording":1}` + "\n"
	for name, c := range map[string]struct{ text, want string }{
		"nothing":             {"", "it is no recording"},
		"another file":        {"hello\n", "it is no recording"},
		"a later version":     {`{"loom_recording":9}` + "\n", "version 9"},
		"a line that is none": {head + "{\n", "line 2"},
		"a cut line":          {head + "\n" + `{"provider":"a"}` + "\n", "line 3"},
		"cuts beyond the body": {head + `{"provider":"a","model":"m","api":"openai-completions","context_window":0,"max_output_tokens":0,"request":{},"status":200,"body":"ab","cuts":[1,5]}`,
			"cuts"},
		"an unknown dialect": {head + `{"provider":"a","model":"m","api":"novel","context_window":0,"max_output_tokens":0,"request":{},"status":200,"body":""}`, "dialect"},
	} {
		_, err := recording.NewPlayer("FILE", c.text, now)
		e, ok := errors.AsType[*provider.Error](err)
		if !ok || !strings.Contains(e.Message, c.want) || !strings.Contains(e.Message, "FILE") || strings.Contains(e.Message, "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := recording.NewPlayer("FILE", head, now); err != nil {
		t.Errorf("an empty recording: %v", err)
	}
}

func FuzzPlayer(f *testing.F) {
	f.Add(`{"loom_recording":1}` + "\n" + `{"provider":"a","model":"m","api":"openai-completions","context_window":0,"max_output_tokens":0,"request":{"messages":[]},"status":200,"content_type":"text/event-stream","body":"data: [DONE]\n\n","cuts":[3,14]}`)
	f.Add(`{"loom_recording":1}` + "\n" + `{"provider":"a","model":"m","api":"gemini-generate-content","context_window":0,"max_output_tokens":0,"request":null,"status":0,"body":"","failed":"x"}`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<14 {
			t.Skip("larger than worth it")
		}
		p, err := recording.NewPlayer("FILE", text, now)
		if err != nil {
			return
		}
		for range 3 {
			m, err := p.Stream(t.Context(), asking("a"), func(provider.Delta) {})
			if (m == nil) == (err == nil) {
				t.Fatalf("%v and %v", m, err)
			}
		}
	})
}
