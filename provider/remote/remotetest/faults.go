package remotetest

import (
	"bytes"
	"compress/gzip"
	"context"
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

	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/remote"
)

// fault is what goes wrong, and what is said of it.
type fault struct {
	handler http.HandlerFunc // nil: to makes the client
	to      func(t *testing.T, v Voice) *remote.Client
	limits  remote.Limits

	class  provider.Class
	detail string
	says   []string // besides the route, at least the next step
}

// soon is a limit that passes within a test; nothing is measured by it.
const soon = 50 * time.Millisecond

// faults checks the sentence of everything that a server, a proxy or a network may do wrong.
func (v Voice) faults(t *testing.T) {
	for name, f := range v.table() {
		t.Run("fails/"+name, func(t *testing.T) {
			c := (*remote.Client)(nil)
			if f.handler != nil {
				c = v.serve(t, f.handler, func(c *remote.Config) { c.Limits = f.limits })
			} else {
				c = f.to(t, v)
			}
			m, err := c.Stream(t.Context(), v.request(), func(provider.Delta) {})
			e, ok := errors.AsType[*provider.Error](err)
			if !ok {
				t.Fatalf("settled: %+v, %v", m, err)
			}
			if e.Class != f.class || f.detail != "" && e.Detail != f.detail {
				t.Errorf("%s, %s", e.Class, e.Detail)
			}
			for _, part := range append([]string{route + " at "}, f.says...) {
				if !strings.Contains(e.Message, part) {
					t.Errorf("the sentence lacks %q: %s", part, e.Message)
				}
			}
			if len(f.says) == 0 {
				t.Error("the table names no next step")
			}
			if text := fmt.Sprintf("%+v", e); strings.Contains(text, key[:len(key)/2]) || strings.Contains(text, "hunter2") {
				t.Errorf("a secret is told: %s", text)
			}
			if strings.ContainsAny(e.Message, "\r\n\x1b") || len(e.Message) > 1000 || strings.Contains(e.Message, "<html") {
				t.Errorf("it is no sentence: %q", e.Message)
			}
		})
	}
}

func (v Voice) table() map[string]fault {
	refusal := func(status int, class provider.Class, says ...string) fault {
		return fault{handler: typed(status, "application/json", `{"error":{"message":"no, `+key+`"}}`), class: class, says: append(says, fmt.Sprintf("(%d)", status))}
	}
	all := map[string]fault{
		"400": refusal(400, provider.InvalidRequest, "check the model's settings"),
		"401": refusal(401, provider.Auth, "check "+keyName),
		"402": refusal(402, provider.Quota, "add credit"),
		"403": refusal(403, provider.Auth, "check "+keyName),
		"404": refusal(404, provider.NotFound, "check the model name and the base URL"),
		"408": refusal(408, provider.Server, "use another model"),
		"413": refusal(413, provider.Overflow, "start a new session or ask for less at once"),
		"429": refusal(429, provider.RateLimit, "use another key or model"),
		"500": refusal(500, provider.Server, "use another model"),
		"502": refusal(502, provider.Server, "use another model"),
		"503": refusal(503, provider.Overloaded, "use another model"),
		"529": refusal(529, provider.Overloaded, "use another model"),

		"401 that repeats the key at the end of an excerpt": {handler: typed(401, "application/json", `{"error":{"message":"`+strings.Repeat("x", 290)+key+`"}}`),
			class: provider.Auth, says: []string{"check " + keyName}},
		"an error that repeats the key": {handler: streamed(0, `{"error":{"message":"`+strings.Repeat("x", 290)+key+`","type":"invalid_request_error","code":"`+key+`"}}`),
			class: provider.InvalidRequest, says: []string{"check the model's settings"}},

		"a wrong base URL": {handler: typed(404, "text/html", "<html><h1>nothing here</h1></html>"), class: provider.NotFound, says: []string{"check the model name and the base URL"}},
		"a web page":       {handler: typed(200, "text/html", "<html>log in</html>"), class: provider.MalformedStream, says: []string{"web page", "check the base URL"}},
		"some text":        {handler: typed(200, "text/plain", "hello"), class: provider.MalformedStream, says: []string{"check the base URL"}},
		"broken JSON":      {handler: typed(200, "application/json", `{"a":`), class: provider.MalformedStream, says: []string{"check the base URL"}},
		"another success":  {handler: typed(204, "application/json", ``), class: provider.MalformedStream, says: []string{"204", "check the base URL"}},
		"a redirect": {handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere.invalid/hunter2", http.StatusTemporaryRedirect)
		}, class: provider.InvalidRequest, says: []string{"(307)", "check the model's settings"}},
		"an error with status 200":        {handler: typed(200, "application/json", `{"error":{"message":"the server is busy","type":"overloaded_error"}}`), class: provider.Overloaded, says: []string{"busy", "use another model"}},
		"an error in the place of events": {handler: streamed(0, v.Fault), class: provider.Overloaded, says: []string{"use another model"}},
		"nothing at all":                  {handler: typed(200, "text/event-stream", ``), class: provider.Disconnect, says: []string{"broke off", "can be repeated"}},
		"an answer that breaks off":       {handler: v.says(Answer{Text: []string{"a"}, Open: true}), class: provider.Disconnect, says: []string{"broke off", "can be repeated"}},

		"a body that is compressed":  {handler: zipped("text/event-stream"), class: provider.MalformedStream, says: []string{"encoding gzip", "check the base URL"}},
		"JSON that is compressed":    {handler: zipped("application/json"), class: provider.MalformedStream, says: []string{"encoding gzip", "check the base URL"}},
		"a line of a gigabyte":       {handler: endless("text/event-stream", "data: "), class: provider.MalformedStream, says: []string{"larger than", "check the base URL"}},
		"a stream without end":       {handler: endless("text/event-stream", ""), class: provider.MalformedStream, says: []string{"larger than", "check the base URL"}},
		"JSON without end":           {handler: endless("application/json", `{"a":"`), class: provider.MalformedStream, says: []string{"larger than", "check the base URL"}},
		"a refusal without end":      {handler: refusing(endless("application/json", `{"a":"`)), class: provider.Server, says: []string{"(500)", "use another model"}},
		"a server that never begins": {handler: silent, limits: remote.Limits{FirstByte: soon}, class: provider.Deadline, detail: provider.LimitFirstByte, says: []string{"did not begin to answer within 50ms", "can be repeated"}},
		"a server that stops": {handler: func(w http.ResponseWriter, r *http.Request) {
			v.says(Answer{Text: []string{"a"}, Open: true})(w, r)
			_ = http.NewResponseController(w).Flush()
			silent(w, r)
		}, limits: remote.Limits{Idle: soon}, class: provider.Deadline, detail: provider.LimitIdle, says: []string{"stopped in the middle of the answer within 50ms", "can be repeated"}},
		"a server that goes on and on": {handler: func(w http.ResponseWriter, r *http.Request) {
			v.says(Answer{Text: []string{"a"}, Open: true})(w, r)
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, ": ping\n\n")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(time.Millisecond):
				}
			}
		}, limits: remote.Limits{Total: 3 * soon}, class: provider.Deadline, detail: provider.LimitTotal, says: []string{"did not finish the answer within 150ms", "can be repeated"}},
	}
	for name, f := range connections {
		all[name] = f
	}
	return all
}

// connections is what goes wrong before a request arrives.
var connections = map[string]fault{
	"nobody listens": {to: func(t *testing.T, v Voice) *remote.Client { return v.client(t, "http://"+nobody(t)) },
		class: provider.Unreachable, detail: remote.DetailRefused, says: []string{"nobody listens there", "start the server or check the base URL"}},
	"a name that leads nowhere": {to: func(t *testing.T, v Voice) *remote.Client {
		return v.client(t, "https://nowhere.invalid", func(c *remote.Config) {
			c.Dial = func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}}
			}
		})
	}, class: provider.Unreachable, detail: remote.DetailName, says: []string{"cannot be resolved (no such host)", "check the base URL and the network"}},
	"a server that accepts and is silent": {to: func(t *testing.T, v Voice) *remote.Client {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return v.client(t, "https://"+l.Addr().String(), func(c *remote.Config) { c.Limits.Connect = soon })
	}, class: provider.Unreachable, detail: provider.LimitConnect, says: []string{"no connection", "within 50ms", "check the network and the base URL"}},
	"a certificate of nobody known": {to: func(t *testing.T, v Voice) *remote.Client {
		s := httptest.NewUnstartedServer(http.HandlerFunc(silent))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		return v.client(t, s.URL)
	}, class: provider.Unreachable, detail: remote.DetailTLS, says: []string{"signed by an authority that is not known here", "SSL_CERT_FILE"}},
	"plain http where https was asked": {to: func(t *testing.T, v Voice) *remote.Client {
		s := httptest.NewServer(http.HandlerFunc(silent))
		t.Cleanup(s.Close)
		return v.client(t, strings.Replace(s.URL, "http:", "https:", 1))
	}, class: provider.Unreachable, detail: remote.DetailTLS, says: []string{"speaks plain http", "check the port"}},
	"a proxy that does not listen": {to: func(t *testing.T, v Voice) *remote.Client {
		return v.client(t, "https://models.invalid", through(nobody(t)))
	},
		class: provider.Unreachable, detail: remote.DetailProxy, says: []string{"does not listen", "check HTTPS_PROXY and NO_PROXY"}},
	"a proxy that wants a password": {to: func(t *testing.T, v Voice) *remote.Client {
		return v.client(t, "https://models.invalid", through(proxy(t, http.StatusProxyAuthRequired)))
	}, class: provider.Unreachable, detail: remote.DetailProxy, says: []string{"wants a user and a password", "put them into HTTPS_PROXY"}},
	"a proxy that refuses": {to: func(t *testing.T, v Voice) *remote.Client {
		return v.client(t, "https://models.invalid", through(proxy(t, http.StatusForbidden)))
	}, class: provider.Unreachable, detail: remote.DetailProxy, says: []string{"Forbidden", "check HTTPS_PROXY and NO_PROXY"}},
}

// through asks a proxy, whose address holds a password.
func through(address string) func(*remote.Config) {
	return func(c *remote.Config) {
		c.Proxy = func(*http.Request) (*url.URL, error) {
			return &url.URL{Scheme: "http", Host: address, User: url.UserPassword("user", "hunter2")}, nil
		}
	}
}

// proxy is a proxy that lets nothing through.
func proxy(t *testing.T, status int) string {
	t.Helper()
	s := httptest.NewServer(typed(status, "text/html", "<html>the proxy says no</html>"))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// silent says nothing until the client is gone.
func silent(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // only then is the end of the connection seen
	<-r.Context().Done()
}

func zipped(mediaType string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var body bytes.Buffer
		z := gzip.NewWriter(&body)
		_, _ = io.WriteString(z, "data: {}\n\n")
		_ = z.Close()
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(body.Bytes())
	}
}

// endless begins like this and then goes on, for a gigabyte: as one line, or as lines of comments where it begins with nothing.
func endless(mediaType, begin string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		block := strings.Repeat("x", 64<<10)
		if begin == "" {
			block = strings.Repeat(": ping\n\n", 8<<10)
		}
		w.Header().Set("Content-Type", mediaType)
		_, _ = io.WriteString(w, begin)
		for range 16 << 10 {
			if _, err := io.WriteString(w, block); err != nil {
				return
			}
		}
	}
}

// refusing is the same with another status.
func refusing(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		h(w, r)
	}
}
