package remote_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/openaichat"
	"github.com/loom-run/loom/provider/providertest"
	"github.com/loom-run/loom/provider/remote"
)

const (
	testKey = "sk-test-0123456789"
	clockAt = 1_750_000_000_000
)

var model = provider.Model{Identity: provider.Identity{Provider: "openai", ModelID: "m"}, API: openaichat.API}

func asking(texts ...string) provider.Request {
	req := provider.Request{Model: model, Tools: []provider.Tool{{Name: "read", Schema: jsonv.Obj()}}}
	for _, s := range texts {
		req.Messages = append(req.Messages, &message.User{Content: []message.UserBlock{message.Text{Text: s}}})
	}
	return req
}

// serve starts a server on loopback and a client of it.
func serve(t testing.TB, handler http.HandlerFunc, options ...func(*remote.Config)) *remote.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return client(t, server.URL+"/v1/", options...)
}

func client(t testing.TB, base string, options ...func(*remote.Config)) *remote.Client {
	t.Helper()
	config := remote.Config{
		Dialect: openaichat.New(),
		BaseURL: base, Key: provider.NewSecret(testKey), KeyName: "TEST_KEY", UserAgent: "loom/test",
		Now: func() int64 { return clockAt },
	}
	for _, option := range options {
		option(&config)
	}
	c, err := remote.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// events answers with a stream in pieces of the given size; 0 is whole.
func events(piece int, data ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		body := "data: " + strings.Join(data, "\n\ndata: ") + "\n\n"
		for piece > 0 && len(body) > piece {
			_, _ = io.WriteString(w, body[:piece])
			_ = http.NewResponseController(w).Flush()
			body = body[piece:]
		}
		_, _ = io.WriteString(w, body)
	}
}

func textDelta(s string) string { return `{"choices":[{"index":0,"delta":{"content":"` + s + `"}}]}` }

const (
	callDelta = `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"i","function":{"name":"read","arguments":"{\"path\":"}}]}}]}`
	callEnd   = `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"a\"}"}}]},"finish_reason":"tool_calls"}]}`
	stopped   = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	reported  = `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
	done      = "[DONE]"
)

func TestConformance(t *testing.T) {
	scene := func(handler http.HandlerFunc) providertest.Scene {
		return func(t testing.TB) (provider.Provider, provider.Request) { return serve(t, handler), asking("hi") }
	}
	status := func(code int, body string) providertest.Scene {
		return scene(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		})
	}
	providertest.Run(t, providertest.Subject{
		At: clockAt, API: openaichat.API,
		Settles: map[string]providertest.Scene{
			"text":     scene(events(0, textDelta("a"), textDelta("b"), stopped, reported, done)),
			"thinking": scene(events(0, `{"choices":[{"index":0,"delta":{"reasoning_content":"t"}}]}`, textDelta("b"), stopped, done)),
			"call":     scene(events(0, textDelta("a"), callDelta, callEnd, reported, done)),
			"no mark":  scene(events(0, textDelta("a"), stopped)),
		},
		Cuts: func(t testing.TB, seed int) (provider.Provider, provider.Request) {
			return serve(t, events([]int{0, 1, 2, 7, 50}[seed], textDelta("aé"), callDelta, callEnd, reported, done)), asking("hi")
		},
		Stalls: scene(func(w http.ResponseWriter, r *http.Request) {
			events(0, textDelta("a"))(w, r)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}),
		Fails: map[provider.Class]providertest.Scene{
			provider.Auth:               status(401, `{"error":{"message":"no"}}`),
			provider.NotFound:           status(404, `{"error":{"message":"no"}}`),
			provider.RateLimit:          status(429, `{"error":{"message":"no"}}`),
			provider.Quota:              status(429, `{"error":{"message":"no","code":"insufficient_quota"}}`),
			provider.Server:             status(500, ``),
			provider.Overloaded:         status(503, `<html>`),
			provider.InvalidRequest:     status(400, `{"error":{"message":"no"}}`),
			provider.Overflow:           status(400, `{"error":{"message":"no","code":"context_length_exceeded"}}`),
			provider.Disconnect:         scene(events(0, textDelta("a"))),
			provider.MalformedStream:    scene(events(0, textDelta("a"), "{")),
			provider.Refused:            scene(events(0, textDelta("a"), `{"choices":[{"index":0,"delta":{},"finish_reason":"content_filter"}]}`)),
			provider.UnmappedStopReason: scene(events(0, textDelta("a"), `{"choices":[{"index":0,"delta":{},"finish_reason":"novel"}]}`)),
			provider.Transport:          scene(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
			provider.Unreachable: func(t testing.TB) (provider.Provider, provider.Request) {
				return client(t, "http://"+freeAddress(t)), asking("hi")
			},
		},
	})
}

// freeAddress is a loopback address that nobody listens on.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// fail makes a call that must fail.
func fail(t *testing.T, ctx context.Context, c *remote.Client, req provider.Request, sink func(provider.Delta)) *provider.Error {
	t.Helper()
	if sink == nil {
		sink = func(provider.Delta) {}
	}
	m, err := c.Stream(ctx, req, sink)
	e, ok := errors.AsType[*provider.Error](err)
	if !ok {
		t.Fatalf("settled: %+v, %v", m, err)
	}
	if strings.Contains(fmt.Sprintf("%+v", e), testKey) {
		t.Errorf("the error holds the key: %+v", e)
	}
	return e
}

func TestTheRequestIsOnePostWithTheKeyInOneHeader(t *testing.T) {
	requests := make(chan *http.Request, 2)
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), testKey) {
			t.Error("the body holds the key")
		}
		requests <- r.Clone(context.Background())
		events(0, textDelta("a"), stopped, done)(w, r)
	})
	if _, err := c.Stream(t.Context(), asking("hi"), func(provider.Delta) {}); err != nil {
		t.Fatal(err)
	}
	r := <-requests
	if r.Method != http.MethodPost || r.URL.String() != "/v1/chat/completions" {
		t.Errorf("got %s %s", r.Method, r.URL)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer " + testKey, "Content-Type": "application/json", "Accept": "text/event-stream", "User-Agent": "loom/test", "Accept-Encoding": "",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestTheConnectionIsUsedAgain(t *testing.T) {
	const turns = 40
	peers := make(chan string, turns)
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		peers <- r.RemoteAddr
		events(0, textDelta("a"), stopped, done)(w, r)
		_ = http.NewResponseController(w).Flush() // so that the end of the body comes after the end mark
	})
	for range turns {
		if _, err := c.Stream(t.Context(), asking("hi"), func(provider.Delta) {}); err != nil {
			t.Fatal(err)
		}
	}
	first := <-peers
	for range turns - 1 {
		if next := <-peers; next != first {
			t.Fatalf("two connections: %s and %s", first, next)
		}
	}
}

func TestARefusalIsToldWithoutItsSecrets(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(401)
		_, _ = fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s.\u001b[31m\nNew line","type":"invalid_request_error","code":"%s"}}`, testKey, testKey)
	})
	e := fail(t, t.Context(), c, asking("hi"), nil)
	want := "(401): Incorrect API key provided: [redacted]. [31m New line; check TEST_KEY"
	if !strings.HasSuffix(e.Message, want) {
		t.Errorf("got %q, want it to end with %q", e.Message, want)
	}
	if e.Status != 401 || e.Retryable() {
		t.Errorf("status %d, retryable %t", e.Status, e.Retryable())
	}
}

func TestARefusalsBodyIsBoundedAndMarkupIsNotRepeated(t *testing.T) {
	for _, c := range []struct {
		name, mediaType, body string
		holds, lacks          string
	}{
		{"plain text", "text/plain; charset=utf-8", "upstream is gone", "upstream is gone", ""},
		{"markup", "text/html", "<html><title>Bad Gateway</title>", "(502)", "html"},
		{"an endless text", "text/plain", strings.Repeat("word ", 1<<20), "word word", strings.Repeat("word ", 400)},
		{"a list of errors", "application/json", `[{"error":{"message":"inside"}}]`, "inside", ""},
		{"a JSON string", "application/json", `"inside"`, "inside", ""},
		{"JSON that says nothing", "application/json", `{"a":1}`, "(502)", "{"},
		{"nothing", "", "", "(502)", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.mediaType)
				w.WriteHeader(502)
				_, _ = io.WriteString(w, c.body)
			})
			e := fail(t, t.Context(), client, asking("hi"), nil)
			if e.Class != provider.Server || !strings.Contains(e.Message, c.holds) || c.lacks != "" && strings.Contains(e.Message, c.lacks) || len(e.Message) > 2000 {
				t.Errorf("%s: %q", e.Class, e.Message)
			}
		})
	}
}

func TestTheHintHowLongToWaitIsRead(t *testing.T) {
	date := time.UnixMilli(clockAt).Add(90 * time.Second).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		name, value string
		want        *int64
	}{
		{"Retry-After", "3", new(int64(3000))},
		{"Retry-After", "0.25", new(int64(250))},
		{"Retry-After", "-3", new(int64(0))},
		{"Retry-After", date, new(int64(90_000))},
		{"Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT", new(int64(0))},
		{"Retry-After", "999999999999999999999", new((24 * time.Hour).Milliseconds())},
		{"Retry-After", "NaN", nil},
		{"Retry-After", "soon", nil},
		{"Retry-After-Ms", "1500", new(int64(1500))},
		{"X-Other", "1", nil},
	} {
		t.Run(c.name+" "+c.value, func(t *testing.T) {
			client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(c.name, c.value)
				w.WriteHeader(429)
			})
			e := fail(t, t.Context(), client, asking("hi"), nil)
			if (e.RetryAfterMs == nil) != (c.want == nil) || c.want != nil && *e.RetryAfterMs != *c.want {
				t.Errorf("got %v, want %v", e.RetryAfterMs, c.want)
			}
		})
	}
}

func TestAnswersThatAreNoStream(t *testing.T) {
	typed := func(mediaType string, status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", mediaType)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	t.Run("a whole answer is read", func(t *testing.T) {
		c := serve(t, typed("application/json", 200, `{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`))
		m, err := c.Stream(t.Context(), asking("hi"), func(provider.Delta) {})
		if err != nil || message.TextOf(m.Content) != "a" || m.Usage.Output != 2 {
			t.Errorf("got %+v, %v", m, err)
		}
	})
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		class   provider.Class
		holds   string
	}{
		{"an error with status 200", typed("application/json", 200, `{"error":{"message":"Context length exceeded"}}`), provider.Overflow, "context length exceeded"},
		{"broken JSON", typed("application/json", 200, `{"choices":`), provider.MalformedStream, "not JSON"},
		{"a web page", typed("text/html", 200, "<html>"), provider.MalformedStream, "web page"},
		{"some text", typed("text/plain", 200, "hello"), provider.MalformedStream, "no event stream"},
		{"nothing", typed("text/event-stream", 200, ""), provider.Disconnect, "broke off"},
		{"another success", typed("text/event-stream", 204, ""), provider.MalformedStream, "204"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusTemporaryRedirect)
		}, provider.InvalidRequest, "(307)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := fail(t, t.Context(), serve(t, c.handler), asking("hi"), nil)
			if e.Class != c.class || !strings.Contains(e.Message, c.holds) {
				t.Errorf("got %s: %s", e.Class, e.Message)
			}
		})
	}
}

func TestAnAnswerLargerThanItsBoundIsGivenUp(t *testing.T) {
	for name, mediaType := range map[string]string{"streamed": "text/event-stream", "whole": "application/json"} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", mediaType)
				if name == "streamed" {
					_, _ = io.WriteString(w, "data: "+textDelta("a")+"\n\n")
				}
				for block := []byte(strings.Repeat(": ping\n", 10_000)); ; {
					if _, err := w.Write(block); err != nil {
						return
					}
				}
			})
			e := fail(t, t.Context(), c, asking("hi"), nil)
			if e.Class != provider.MalformedStream || !strings.Contains(e.Message, "larger than the limit") {
				t.Errorf("got %s: %s", e.Class, e.Message)
			}
			if name == "streamed" && (e.Partial == nil || message.TextOf(e.Partial.Content) != "a") {
				t.Errorf("what arrived is lost: %+v", e.Partial)
			}
		})
	}
}

func TestABrokenConnectionKeepsWhatArrived(t *testing.T) {
	cut := func(data ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			events(0, data...)(w, r)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler) // resets the connection inside the body
		}
	}
	t.Run("in the middle", func(t *testing.T) {
		e := fail(t, t.Context(), serve(t, cut(textDelta("a"), callDelta)), asking("hi"), nil)
		if e.Class != provider.Disconnect || !e.Retryable() || e.Partial == nil {
			t.Fatalf("got %s: %s", e.Class, e.Message)
		}
		if calls, _ := e.Partial.ToolCalls(); message.TextOf(e.Partial.Content) != "a" || len(calls) != 0 {
			t.Errorf("partial %+v", e.Partial.Content)
		}
	})
	t.Run("after the finish reason it is settled", func(t *testing.T) {
		m, err := serve(t, cut(textDelta("a"), stopped)).Stream(t.Context(), asking("hi"), func(provider.Delta) {})
		if err != nil {
			t.Fatal(err)
		}
		if _, reported := m.Usage.Evidence.Tokens(); reported || m.StopReason != message.Stop {
			t.Errorf("got %+v", m)
		}
	})
	t.Run("before the answer", func(t *testing.T) {
		e := fail(t, t.Context(), serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), asking("hi"), nil)
		if e.Class != provider.Transport || e.Partial != nil {
			t.Errorf("got %s: %s", e.Class, e.Message)
		}
	})
}

func TestAnAddressThatNeverAnsweredIsNotTriedAgain(t *testing.T) {
	server := httptest.NewServer(events(0, textDelta("a"), stopped, done))
	c := client(t, server.URL)
	if _, err := c.Stream(t.Context(), asking("hi"), func(provider.Delta) {}); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if e := fail(t, t.Context(), c, asking("hi"), nil); e.Class != provider.Transport || !e.Retryable() {
		t.Errorf("a server that went away: %s: %s", e.Class, e.Message)
	}
	if e := fail(t, t.Context(), client(t, server.URL), asking("hi"), nil); e.Class != provider.Unreachable || e.Retryable() {
		t.Errorf("a server that never was: %s: %s", e.Class, e.Message)
	}
}

func TestTheKeyNeverTravelsOverPlainHTTPToAnotherMachine(t *testing.T) {
	for base, usable := range map[string]bool{
		"https://api.example.com/v1":       true,
		"https://api.example.com/v1/":      true,
		"http://127.0.0.1:8080/v1":         true,
		"http://localhost:1234":            true,
		"http://[::1]:1234":                true,
		" https://api.example.com/v1 ":     true,
		"http://api.example.com/v1":        false,
		"http://192.168.1.5:8080":          false,
		"http://localhost.example.com":     false,
		"http://127.0.0.1.example.com":     false,
		"https://user:hunter2@example.com": false,
		"https://example.com/v1?key=abc":   false,
		"https://example.com/v1#fragment":  false,
		"ftp://example.com":                false,
		"example.com/v1":                   false,
		"https://":                         false,
		"":                                 false,
		"https://exa mple.com/hunter2%zz":  false,
	} {
		_, err := remote.ParseBase(base)
		if (err == nil) != usable {
			t.Errorf("ParseBase(%q) = %v", base, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error repeats the URL: %v", err)
		}
	}
}

func TestANameOfThisMachineThatLeadsElsewhereIsRefused(t *testing.T) {
	// The address of a documentation network stands for a resolver that was tricked; the check comes before any packet.
	c := client(t, "http://localhost:9", func(config *remote.Config) {
		config.Limits.Connect = time.Minute
	})
	if err := remote.CheckLoopback(c, "192.0.2.1:80"); err == nil || !strings.Contains(err.Error(), "this machine only") {
		t.Errorf("got %v", err)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	good := remote.Config{Dialect: openaichat.New(), BaseURL: "https://example.com", Key: provider.NewSecret(testKey), KeyName: "TEST_KEY", Now: func() int64 { return 0 }}
	for name, c := range map[string]struct {
		change func(*remote.Config)
		holds  string
	}{
		"no key":           {func(c *remote.Config) { c.Key = provider.Secret{} }, "set TEST_KEY"},
		"a key of no kind": {func(c *remote.Config) { c.Key = provider.NewSecret("a\nb") }, "characters that no key has"},
		"a bad base":       {func(c *remote.Config) { c.BaseURL = "x" }, "base URL"},
		"no clock":         {func(c *remote.Config) { c.Now = nil }, "Now"},
	} {
		config := good
		c.change(&config)
		if _, err := remote.New(config); err == nil || !strings.Contains(err.Error(), c.holds) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestSecureConnectionsAreVerified(t *testing.T) {
	server := httptest.NewUnstartedServer(events(0, textDelta("a"), stopped, done))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains about the client that does not trust it
	server.StartTLS()
	t.Cleanup(server.Close)
	trusting := client(t, server.URL, func(c *remote.Config) {
		c.TLS = &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	})
	if _, err := trusting.Stream(t.Context(), asking("hi"), func(provider.Delta) {}); err != nil {
		t.Errorf("a trusted server: %v", err)
	}
	if e := fail(t, t.Context(), client(t, server.URL), asking("hi"), nil); e.Class != provider.Unreachable {
		t.Errorf("an untrusted server: %s: %s", e.Class, e.Message)
	}
}

func TestHTTP2IsSpokenWhereTheServerDoes(t *testing.T) {
	versions := make(chan int, 2)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		versions <- r.ProtoMajor
		events(0, textDelta("a"))(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	c := client(t, server.URL, func(c *remote.Config) {
		c.TLS = &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	})
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		e := fail(t, ctx, c, asking("hi"), func(provider.Delta) { cancel() })
		if v := <-versions; v != 2 || e.Class != provider.Cancelled || e.Partial == nil {
			t.Errorf("HTTP/%d, %s: %s", v, e.Class, e.Message)
		}
	}
}

func TestNoProxyIsAskedForThisMachine(t *testing.T) {
	asked := func(*http.Request) (*url.URL, error) { return nil, errors.New("a proxy was asked for") }
	c := serve(t, events(0, textDelta("a"), stopped, done), func(c *remote.Config) { c.Proxy = asked })
	if _, err := c.Stream(t.Context(), asking("hi"), func(provider.Delta) {}); err != nil {
		t.Error(err)
	}
	remote := client(t, "https://example.invalid", func(c *remote.Config) { c.Proxy = asked })
	if e := fail(t, t.Context(), remote, asking("hi"), nil); !strings.Contains(e.Message, "a proxy was asked for") {
		t.Errorf("got %s", e.Message)
	}
}
