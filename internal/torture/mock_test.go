//go:build linux

package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/loom-run/loom/internal/cases"
)

// mock is a model server of somebody else's, run as a process, behind a tap.
type mock struct {
	*tap
	bodies, log string
}

// mockBinary builds the server that lies beside the recorded cases.
var mockBinary = sync.OnceValues(func() (string, error) { return build(mockSource, "mock-llm") })

// mockSource is its folder; set before mockBinary is called.
var mockSource string

// startMock starts the server, or skips the test where its source is absent.
func startMock(t *testing.T, args ...string) *mock {
	t.Helper()
	mockSource = filepath.Join(filepath.Dir(cases.Dir(t)), "mock-llm")
	if _, err := os.Stat(filepath.Join(mockSource, "go.mod")); err != nil {
		t.Skipf("no scripted model server: there is no mock-llm beside the cases (%v)", err)
	}
	binary, err := mockBinary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	m := &mock{bodies: filepath.Join(dir, "bodies"), log: filepath.Join(dir, "log")}
	if err := os.Mkdir(m.bodies, 0o700); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	cmd := exec.Command(binary, append([]string{"-addr", address, "-bodies", m.bodies, "-log", m.log}, args...)...)
	cmd.Stderr = io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if err := eventually(t.Context(), func() (bool, error) {
		r, err := http.Get("http://" + address + "/healthz")
		if err != nil {
			return false, nil //nolint:nilerr // it is not up yet
		}
		return true, r.Body.Close()
	}); err != nil {
		t.Fatal(err)
	}
	m.tap = newTap(t, address)
	return m
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// requests returns the bodies that the server kept, in the order of their arrival.
func (m *mock) requests(t *testing.T) [][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(m.bodies, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for _, f := range files { // sorted, and their names are numbers of one width
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, text)
	}
	return out
}

// logged is one line of the server's log.
type logged struct {
	N                              int64
	Method, Path, Stage, Call      string
	Bytes, Messages, Tools, Status int
	Model, UA                      string
}

func (m *mock) logged(t *testing.T) []logged {
	t.Helper()
	text, err := os.ReadFile(m.log)
	if err != nil {
		t.Fatal(err)
	}
	var out []logged
	for line := range bytes.Lines(text) {
		var l logged
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

// tap passes requests on to a server and counts the events of the answers, so that a test knows how far an answer has come.
type tap struct {
	url string

	mu      sync.Mutex // guards what follows
	events  int
	changed chan struct{} // closed and replaced at each event
}

func newTap(t *testing.T, address string) *tap {
	p := &tap{changed: make(chan struct{})}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	proxy.FlushInterval = -1
	proxy.ErrorLog = log.New(io.Discard, "", 0) // a client that was killed is no news
	proxy.ModifyResponse = func(r *http.Response) error {
		r.Body = &counted{r.Body, p}
		return nil
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The whole request first: an answer that overtakes the end of its request makes the proxy's own server close the body under the proxy.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = proxy.ErrorLog
	s.Start()
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// passed waits until that many events of all answers have gone by.
func (p *tap) passed(ctx context.Context, events int) error {
	for {
		p.mu.Lock()
		n, changed := p.events, p.changed
		p.mu.Unlock()
		if n >= events {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d events: %w", n, events, ctx.Err())
		}
	}
}

type counted struct {
	io.ReadCloser
	tap *tap
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	if events := strings.Count(string(b[:n]), "data: "); events > 0 {
		c.tap.mu.Lock()
		defer c.tap.mu.Unlock()
		c.tap.events += events
		close(c.tap.changed)
		c.tap.changed = make(chan struct{})
	}
	return n, err
}
