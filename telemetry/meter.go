package telemetry

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/loom-run/loom/core/id"
)

// Bounds of what is kept and of what is waited for.
const (
	maxSpans   = 4096             // that wait to be sent
	maxPoints  = 1024             // of one metric: a model's name is not ours, and somebody may make up many
	interval   = 5 * time.Second  // between two sendings
	sendLimit  = 10 * time.Second // one request to the collector
	closeLimit = 2 * time.Second  // the last ones, where nobody says otherwise
	maxReply   = 64 << 10         // bytes of an answer that are read so that its connection can be used again
)

// Config is what a meter works with.
type Config struct {
	// Endpoint is the base address of a collector, to which /v1/traces and /v1/metrics are appended.
	Endpoint string
	// Headers are sent with each request.
	Headers map[string]string
	// Resource describes the process beside its service, as name and value.
	Resource map[string]string
	Service  string // its name; empty for loom
	Version  string
	Instance string // distinguishes this process from every other
	// Now is the clock, with its monotonic part.
	Now func() time.Time
	// Proxy chooses the proxy of a request; nil is none.
	Proxy func(*http.Request) (*url.URL, error)
	// Patience is how long Close waits for the last sending; zero means 2 s.
	Patience time.Duration
	// Warn is told once when the collector cannot be reached or refuses; nil: nobody.
	Warn func(string)
}

// Meter is one connection to a collector. It is safe for concurrent use; nil measures nothing.
type Meter struct {
	cfg      Config
	endpoint string
	resource []attribute
	start    time.Time
	client   *http.Client
	ended    chan struct{} // closed when no more is measured
	giveUp   context.CancelFunc
	stopped  chan struct{}

	mu      sync.Mutex // guards what follows
	spans   []span
	dropped int64
	metrics [metricCount]*series
	changed bool
	warned  bool
	closed  bool
}

// New makes a meter and starts to send. The error says what is wrong with the address; without one the meter must be closed.
func New(cfg Config) (*Meter, error) {
	endpoint, err := parseEndpoint(cfg.Endpoint, len(cfg.Headers) > 0)
	if err != nil {
		return nil, err
	}
	ctx, giveUp := context.WithCancel(context.Background())
	m := &Meter{
		cfg: cfg, endpoint: endpoint, resource: resource(cfg), start: cfg.Now(), metrics: newMetrics(),
		ended: make(chan struct{}), giveUp: giveUp, stopped: make(chan struct{}),
		client: &http.Client{
			Transport: &http.Transport{Proxy: cfg.Proxy, ForceAttemptHTTP2: true, MaxIdleConns: 2, TLSHandshakeTimeout: sendLimit},
			Timeout:   sendLimit,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse // headers may hold a token
			},
		},
	}
	go m.run(ctx)
	return m, nil
}

// parseEndpoint checks an address. A header may hold a token, so it does not cross a network in the open.
func parseEndpoint(text string, secret bool) (string, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	switch {
	case err != nil, u.Host == "", u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("the address of the collector is no http or https address; nothing was started, correct the endpoint of [telemetry] or OTEL_EXPORTER_OTLP_ENDPOINT")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return "", fmt.Errorf("the address of the collector has more than a host and a path; nothing was started, use OTEL_EXPORTER_OTLP_HEADERS for a token")
	case secret && u.Scheme == "http" && !loopback(u.Hostname()):
		return "", fmt.Errorf("the address of the collector is http on another machine, and headers are set that may hold a token; nothing was started, use https or leave out OTEL_EXPORTER_OTLP_HEADERS")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// Session is the scope of one session. It is cheap, and the zero Scope of a nil meter.
func (m *Meter) Session(s id.SessionID) Scope {
	if m == nil {
		return Scope{}
	}
	return Scope{meter: m, session: s.String()}
}

// run sends what was measured until the meter is closed.
func (m *Meter) run(ctx context.Context) {
	defer close(m.stopped)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			m.send(ctx)
		case <-m.ended:
			m.send(ctx)
			return
		}
	}
}

// Close sends the rest, for a moment at most: that is also what a sending in progress has left. A second call only waits.
func (m *Meter) Close() error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	first := !m.closed
	m.closed = true
	m.mu.Unlock()
	if first {
		close(m.ended)
	}
	defer time.AfterFunc(cmp.Or(m.cfg.Patience, closeLimit), m.giveUp).Stop()
	<-m.stopped
	m.giveUp()
	m.client.CloseIdleConnections()
	return nil
}

// send takes what waits and sends it. What the collector does not take is lost: it is not kept for another time, which may never come.
func (m *Meter) send(ctx context.Context) {
	m.mu.Lock()
	spans, dropped := m.spans, m.dropped
	m.spans, m.dropped = nil, 0
	var metrics []byte
	if m.changed {
		metrics = metricsDocument(m.resource, m.cfg.Version, m.start, m.cfg.Now(), m.metrics[:])
		m.changed = false
	}
	m.mu.Unlock()
	if dropped > 0 {
		m.warn(fmt.Sprintf("%d spans found no room and were dropped", dropped))
	}
	if len(spans) > 0 {
		m.post(ctx, "/v1/traces", spansDocument(m.resource, m.cfg.Version, spans))
	}
	if metrics != nil {
		m.post(ctx, "/v1/metrics", metrics)
	}
}

func (m *Meter) post(ctx context.Context, path string, body []byte) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.endpoint+path, bytes.NewReader(body))
	if err != nil {
		m.warn("a request to the collector cannot be made")
		return
	}
	for name, value := range m.cfg.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "loom/"+m.cfg.Version)
	res, err := m.client.Do(req)
	if err != nil {
		m.warn(fmt.Sprintf("the collector at %s cannot be reached", req.URL.Host))
		return
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, maxReply) // so that the connection is used again; what it says does not matter
	if res.StatusCode < 200 || res.StatusCode > 299 {
		m.warn(fmt.Sprintf("the collector at %s refuses %s (%d)", req.URL.Host, path, res.StatusCode))
	}
}

// warn tells a person once.
func (m *Meter) warn(what string) {
	m.mu.Lock()
	first := !m.warned
	m.warned = true
	m.mu.Unlock()
	if first && m.cfg.Warn != nil {
		m.cfg.Warn("telemetry: " + what + "; the work goes on, and what was measured is lost (told once)")
	}
}

// keep takes a span that ended, if there is room.
func (m *Meter) keep(s span) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || len(m.spans) >= maxSpans {
		m.dropped++
		return
	}
	m.spans = append(m.spans, s)
}
