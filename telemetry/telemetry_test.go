package telemetry_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/loom-run/loom/core/accounting"
	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector is a server that keeps what it is sent.
type collector struct {
	*httptest.Server
	status int

	mu       sync.Mutex // guards what follows
	requests []received
}

type received struct {
	path   string
	header http.Header
	body   map[string]any
}

func newCollector(t testing.TB, status int) *collector {
	t.Helper()
	c := &collector{status: status}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got := received{path: r.URL.Path, header: r.Header}
		if err := json.Unmarshal(text, &got.body); err != nil {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		c.mu.Lock()
		c.requests = append(c.requests, got)
		c.mu.Unlock()
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(c.Close)
	return c
}

// sent is the bodies of a path.
func (c *collector) sent(path string) (all []map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.requests {
		if r.path == path {
			all = append(all, r.body)
		}
	}
	return all
}

// at walks into JSON: names, and indices of arrays.
func at(t testing.TB, v any, path ...any) any {
	t.Helper()
	for i, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			l, _ := v.([]any)
			if step >= len(l) {
				t.Fatalf("%v: there are %d at %d", path, len(l), i)
			}
			v = l[step]
		}
	}
	return v
}

// attributes reads a list of them.
func attributes(t testing.TB, v any) map[string]any {
	t.Helper()
	all := map[string]any{}
	list, _ := at(t, v, "attributes").([]any)
	for _, a := range list {
		value, _ := at(t, a, "value").(map[string]any)
		for kind, x := range value {
			if kind == "arrayValue" {
				x = at(t, x, "values", 0, "stringValue")
			}
			all[at(t, a, "key").(string)] = x
		}
	}
	return all
}

var (
	session, _ = id.NewGenerator(clock.Fixed(1000), 1).Session()
	op, _      = id.NewGenerator(clock.Fixed(1000), 2).Op()
)

func meter(t testing.TB, c telemetry.Config) *telemetry.Meter {
	t.Helper()
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Patience == 0 {
		c.Patience = time.Minute // a busy machine is not what is tested
	}
	c.Version, c.Instance = "1.2", "instance-1"
	m, err := telemetry.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func answer() *message.Assistant {
	return &message.Assistant{
		Provider: "second", Model: "m2", ResponseID: new("resp-1"), StopReason: message.ToolUse,
		Content: []message.AssistantBlock{message.Text{Text: "secret words"}},
		Usage:   usage.Usage{Input: 10, CacheRead: 200, CacheWrite: 30, Output: 4, Evidence: usage.Reported(usage.API, usage.Complete)},
	}
}

func TestARequestIsASpanAndItsTokensAreMetrics(t *testing.T) {
	c := newCollector(t, 200)
	now := time.Unix(100, 0)
	m := meter(t, telemetry.Config{Endpoint: c.URL + "/", Headers: map[string]string{"Authorization": "Bearer t0ken"}, Resource: map[string]string{"team": "a"}, Now: func() time.Time { return now }})
	r := m.Session(session).Request(op, "openai-responses", "m1")
	now = now.Add(1500 * time.Millisecond)
	r.End(answer(), []accounting.Request{{Provider: "openai-responses", Model: "m1", Class: "server", Usage: usage.Unknown(usage.API)}})
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	traces := c.sent("/v1/traces")
	if len(traces) != 1 {
		t.Fatalf("%d requests", len(traces))
	}
	resource := attributes(t, at(t, traces[0], "resourceSpans", 0, "resource"))
	if resource["service.name"] != "loom" || resource["service.version"] != "1.2" || resource["service.instance.id"] != "instance-1" || resource["team"] != "a" {
		t.Errorf("the resource is %v", resource)
	}
	span := at(t, traces[0], "resourceSpans", 0, "scopeSpans", 0, "spans", 0)
	for name, want := range map[string]any{
		"name": "chat m1", "kind": 3.0, "traceId": strings.ReplaceAll(op.String(), "-", ""),
		"startTimeUnixNano": "100000000000", "endTimeUnixNano": "101500000000",
	} {
		if got := at(t, span, name); got != want {
			t.Errorf("%s is %v, not %v", name, got, want)
		}
	}
	if id, _ := at(t, span, "spanId").(string); len(id) != 16 {
		t.Errorf("the id is %q", id)
	}
	want := map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m1", "gen_ai.response.model": "m2",
		"gen_ai.response.id": "resp-1", "gen_ai.response.finish_reasons": "toolUse", "gen_ai.usage.input_tokens": "240", "gen_ai.usage.output_tokens": "4",
		"gen_ai.usage.cache_read.input_tokens": "200", "gen_ai.usage.cache_creation.input_tokens": "30", "loom.requests.fallen": "1",
		"gen_ai.conversation.id": session.String(),
	}
	got := attributes(t, span)
	for name, v := range want {
		if got[name] != v {
			t.Errorf("%s is %v, not %v", name, got[name], v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there is more: %v", got)
	}

	points := histograms(t, c)
	if p := points["gen_ai.client.operation.duration chat second m2"]; at(t, p, "sum") != 1.5 || at(t, p, "count") != "1" || at(t, p, "bucketCounts", 8) != "1" {
		t.Errorf("the duration is %v", p)
	}
	if p := points["gen_ai.client.token.usage chat second m2 input"]; at(t, p, "sum") != 240.0 {
		t.Errorf("the input is %v", p)
	}
	if p := points["gen_ai.client.token.usage chat second m2 output"]; at(t, p, "sum") != 4.0 || at(t, p, "bucketCounts", 1) != "1" {
		t.Errorf("the output is %v", p)
	}
	if len(points) != 3 {
		t.Errorf("a request that reported nothing has tokens: %v", points)
	}
	for _, r := range c.requests {
		if r.header.Get("Authorization") != "Bearer t0ken" || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("headers %v", r.header)
		}
		if text, _ := json.Marshal(r.body); strings.Contains(string(text), "secret words") {
			t.Error("what was said was sent")
		}
	}
}

// histograms are the points of the last metrics, by name and labels.
func histograms(t testing.TB, c *collector) map[string]any {
	t.Helper()
	all := c.sent("/v1/metrics")
	if len(all) == 0 {
		t.Fatal("there are no metrics")
	}
	found := map[string]any{}
	metrics, _ := at(t, all[len(all)-1], "resourceMetrics", 0, "scopeMetrics", 0, "metrics").([]any)
	for _, m := range metrics {
		points, _ := at(t, m, "histogram", "dataPoints").([]any)
		for _, p := range points {
			name := at(t, m, "name").(string)
			labels := attributes(t, p)
			for _, label := range []string{"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.tool.name", "gen_ai.token.type", "error.type"} {
				if v, ok := labels[label]; ok {
					name += " " + v.(string)
				}
			}
			found[name] = p
		}
	}
	return found
}

func TestToolsAndCommitsAreSpans(t *testing.T) {
	c := newCollector(t, 200)
	m := meter(t, telemetry.Config{Endpoint: c.URL})
	s := m.Session(session)
	s.Tool(op, "bash", "call-1").End(true)
	s.Commit(op).End(3, false)
	s.Commit(id.OpID{}).End(1, false)
	_ = m.Close()
	spans, _ := at(t, c.sent("/v1/traces")[0], "resourceSpans", 0, "scopeSpans", 0, "spans").([]any)
	if len(spans) != 2 {
		t.Fatalf("%d spans: a commit of no operation has none", len(spans))
	}
	tool := attributes(t, spans[0])
	if at(t, spans[0], "name") != "execute_tool bash" || at(t, spans[0], "status", "code") != 2.0 || tool["gen_ai.tool.call.id"] != "call-1" || tool["error.type"] != "tool_error" {
		t.Errorf("the tool is %v", spans[0])
	}
	if at(t, spans[1], "name") != "commit" || attributes(t, spans[1])["loom.commit.writes"] != "3" || at(t, spans[1], "status", "code") != nil {
		t.Errorf("the commit is %v", spans[1])
	}
	points := histograms(t, c)
	if at(t, points["loom.commit.duration"], "count") != "2" || at(t, points["gen_ai.client.operation.duration execute_tool bash tool_error"], "count") != "1" {
		t.Errorf("the metrics are %v", points)
	}
}

func TestAFailureIsAWordOfItsClass(t *testing.T) {
	class := jsonv.Obj(jsonv.F("class", jsonv.Str("rate_limit")))
	for name, c := range map[string]struct {
		m    *message.Assistant
		word any
	}{
		"a class":   {&message.Assistant{StopReason: message.Error, Diagnostics: &class, ErrorMessage: new("secret words")}, "rate_limit"},
		"no class":  {&message.Assistant{StopReason: message.Error}, "_OTHER"},
		"an abort":  {&message.Assistant{StopReason: message.Aborted}, "cancelled"},
		"an answer": {&message.Assistant{StopReason: message.Stop}, nil},
	} {
		col := newCollector(t, 200)
		m := meter(t, telemetry.Config{Endpoint: col.URL})
		m.Session(session).Request(op, "p", "m").End(c.m, nil)
		_ = m.Close()
		span := at(t, col.sent("/v1/traces")[0], "resourceSpans", 0, "scopeSpans", 0, "spans", 0)
		got := attributes(t, span)
		if got["error.type"] != c.word || (at(t, span, "status", "code") == 2.0) != (c.word != nil) || got["gen_ai.usage.input_tokens"] != nil {
			t.Errorf("%s: %v", name, span)
		}
	}
}

func TestValuesOfOneKindAreOnePoint(t *testing.T) {
	c := newCollector(t, 200)
	m := meter(t, telemetry.Config{Endpoint: c.URL})
	for range 5000 { // more than there is room for spans
		m.Session(session).Tool(op, "ls", "c").End(false)
	}
	_ = m.Close()
	if p := histograms(t, c)["gen_ai.client.operation.duration execute_tool ls"]; at(t, p, "count") != "5000" {
		t.Errorf("the point is %v", p)
	}
	spans, _ := at(t, c.sent("/v1/traces")[0], "resourceSpans", 0, "scopeSpans", 0, "spans").([]any)
	if len(spans) != 4096 {
		t.Errorf("%d spans were kept", len(spans))
	}
}

func TestWhatWasMeasuredIsSentNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var paths []string
		m, err := telemetry.New(telemetry.Config{Endpoint: "http://127.0.0.1:1", Now: time.Now, Version: "1", Instance: "i", Warn: func(s string) {
			mu.Lock()
			defer mu.Unlock()
			paths = append(paths, s)
		}})
		if err != nil {
			t.Fatal(err)
		}
		telemetry.Through(m, func(*http.Request) (*http.Response, error) { return nil, errors.New("nobody is there") })
		for range 3 {
			m.Session(session).Tool(op, "ls", "c").End(false)
			time.Sleep(6 * time.Second)
		}
		mu.Lock()
		if len(paths) != 1 || paths[0] != "telemetry: the collector at 127.0.0.1:1 cannot be reached; the work goes on, and what was measured is lost (told once)" {
			t.Errorf("told %q", paths)
		}
		mu.Unlock()
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestClosingLetsASendingInProgressFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken []string // written by the goroutine that sends, read when it is gone
		m := meter(t, telemetry.Config{Endpoint: "http://127.0.0.1:1", Now: time.Now, Warn: func(s string) { t.Errorf("told %q", s) }})
		telemetry.Through(m, func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(500 * time.Millisecond):
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
			taken = append(taken, r.URL.Path)
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})
		m.Session(session).Tool(op, "ls", "c").End(false)
		time.Sleep(5*time.Second + 100*time.Millisecond)
		m.Session(session).Tool(op, "ls", "c").End(false)
		_ = m.Close()
		if want := []string{"/v1/traces", "/v1/metrics", "/v1/traces", "/v1/metrics"}; !slices.Equal(taken, want) {
			t.Errorf("taken: %q", taken)
		}
	})
}

func TestACollectorThatRefusesIsToldOnce(t *testing.T) {
	c := newCollector(t, 401)
	var told []string
	m := meter(t, telemetry.Config{Endpoint: c.URL, Headers: map[string]string{"x-token": "t0ken"}, Warn: func(s string) { told = append(told, s) }})
	m.Session(session).Tool(op, "ls", "c").End(false)
	_ = m.Close()
	if len(told) != 1 || !strings.Contains(told[0], "refuses /v1/traces (401)") || strings.Contains(told[0], "t0ken") {
		t.Errorf("told %q", told)
	}
}

// TestACollectorThatNeverAnswersHoldsNobodyUp is about one that accepts and is silent.
func TestACollectorThatNeverAnswersHoldsNobodyUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m := meter(t, telemetry.Config{Endpoint: "http://" + l.Addr().String(), Patience: 100 * time.Millisecond})
	m.Session(session).Tool(op, "ls", "c").End(false)
	began := time.Now()
	_ = m.Close()
	if d := time.Since(began); d > 8*time.Second {
		t.Errorf("closing took %s", d)
	}
	m.Session(session).Tool(op, "ls", "c").End(false) // nobody takes it any more
}

func TestAddressesOfCollectors(t *testing.T) {
	token := map[string]string{"authorization": "t0ken"}
	for endpoint, c := range map[string]struct {
		headers map[string]string
		fits    bool
	}{
		"http://localhost:4318":         {token, true},
		"http://127.0.0.1:4318/base/":   {token, true},
		"http://[::1]:4318":             {token, true},
		"https://collector.example":     {token, true},
		"http://collector.example":      {nil, true},
		"http://collector.example:4318": {token, false},
		"localhost:4318":                {nil, false},
		"ftp://localhost":               {nil, false},
		"":                              {nil, false},
		"http://u:t0ken@localhost":      {nil, false},
		"http://localhost/?k=t0ken":     {nil, false},
		"http://localhost/\x7f":         {nil, false},
	} {
		m, err := telemetry.New(telemetry.Config{Endpoint: endpoint, Headers: c.headers, Now: time.Now})
		if (err == nil) != c.fits {
			t.Errorf("%s: %v", endpoint, err)
		}
		if err != nil && (strings.Contains(err.Error(), "t0ken") || !strings.Contains(err.Error(), "nothing was started")) {
			t.Errorf("%s: %v", endpoint, err)
		}
		_ = m.Close()
	}
}

func TestNobodyMeasuresForNothing(t *testing.T) {
	var m *telemetry.Meter
	s := m.Session(session)
	got := answer()
	work := func() {
		s.Request(op, "p", "m").End(got, nil)
		s.Tool(op, "bash", "c").End(false)
		s.Commit(op).End(1, false)
	}
	if n := testing.AllocsPerRun(100, work); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func TestManyMeasureAtOnce(t *testing.T) {
	c := newCollector(t, 200)
	m := meter(t, telemetry.Config{Endpoint: c.URL})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				m.Session(session).Request(op, "p", "m").End(answer(), nil)
				m.Session(session).Commit(op).End(1, false)
			}
		})
	}
	wg.Wait()
	_ = m.Close()
	if p := histograms(t, c)["loom.commit.duration"]; at(t, p, "count") != "800" {
		t.Errorf("the point is %v", p)
	}
	total := 0
	for _, body := range c.sent("/v1/traces") {
		spans, _ := at(t, body, "resourceSpans", 0, "scopeSpans", 0, "spans").([]any)
		total += len(spans)
	}
	if total != 1600 {
		t.Errorf("%d spans", total)
	}
}

func BenchmarkNobodyMeasures(b *testing.B) {
	var s telemetry.Scope
	got := answer()
	b.ReportAllocs()
	for b.Loop() {
		s.Request(op, "p", "m").End(got, nil)
		s.Tool(op, "bash", "c").End(false)
		s.Commit(op).End(1, false)
	}
}

func BenchmarkSomebodyMeasures(b *testing.B) {
	c := newCollector(b, 200)
	s := meter(b, telemetry.Config{Endpoint: c.URL}).Session(session)
	got := answer()
	b.ReportAllocs()
	for b.Loop() {
		s.Request(op, "p", "m").End(got, nil)
	}
}

var _ = slices.Sort[[]string]
