package recording

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/provider"
)

// maxBody is how much of a response is kept, in bytes; clients give up earlier.
const maxBody = 32 << 20

// Recorder writes exchanges. It is safe for concurrent use.
type Recorder struct {
	mu  sync.Mutex // guards what follows, and w
	w   io.Writer
	err error
}

// NewRecorder starts a recording. What it writes goes to w, one write for each line.
func NewRecorder(w io.Writer) *Recorder {
	r := &Recorder{w: w}
	r.write([]byte(header + "\n"))
	return r
}

// Err is the first failure to write; nothing is written after it.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *Recorder) write(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		_, r.err = r.w.Write(line)
	}
}

// Through records what a client of a model sends and gets. scrub replaces the key in what a server says.
func (r *Recorder) Through(model provider.Model, scrub func(string) string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return tap{r, next, model, scrub} }
}

// tap is one client's way through the recorder.
type tap struct {
	recorder *Recorder
	next     http.RoundTripper
	model    provider.Model
	scrub    func(string) string
}

func (t tap) RoundTrip(req *http.Request) (*http.Response, error) {
	x := &exchange{model: t.model, request: requestOf(req)}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		x.failed = t.scrub(err.Error())
		t.recorder.write(x.append(nil))
		return nil, err
	}
	x.status = resp.StatusCode
	for i, h := range keptHeaders {
		x.headers[i] = t.scrub(resp.Header.Get(h.header))
	}
	resp.Body = &tapped{ReadCloser: resp.Body, tap: t, exchange: x}
	return resp, nil
}

// requestOf is the body of a request, null where it cannot be read again.
func requestOf(req *http.Request) jsonv.Value {
	if req.GetBody == nil {
		return jsonv.Value{}
	}
	body, err := req.GetBody()
	if err != nil {
		return jsonv.Value{}
	}
	defer func() { _ = body.Close() }()
	raw, err := io.ReadAll(body)
	if err != nil {
		return jsonv.Value{}
	}
	v, err := jsonv.Parse(raw)
	if err != nil {
		return jsonv.Value{}
	}
	return v
}

// tapped keeps the body that is read through it, and writes the exchange when it is closed.
type tapped struct {
	io.ReadCloser
	tap      tap
	exchange *exchange
	once     sync.Once
}

func (t *tapped) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	x := t.exchange
	if n > 0 && len(x.body)+n <= maxBody {
		x.body = append(x.body, p[:n]...)
		x.cuts = append(x.cuts, len(x.body))
	}
	x.broke = x.broke || err != nil && !errors.Is(err, io.EOF)
	return n, err
}

func (t *tapped) Close() error {
	t.once.Do(func() {
		x := t.exchange
		if clean := t.tap.scrub(string(x.body)); clean != string(x.body) {
			x.body, x.cuts = []byte(clean), nil
		}
		t.tap.recorder.write(x.append(nil))
	})
	return t.ReadCloser.Close()
}
