package recording

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/anthropic"
	"github.com/loom-run/loom/provider/dialect"
	"github.com/loom-run/loom/provider/gemini"
	"github.com/loom-run/loom/provider/openaichat"
	"github.com/loom-run/loom/provider/openairesponses"
	"github.com/loom-run/loom/provider/remote"
)

// API is the name of the dialect of a model that answers from a recording.
const API = "replay"

// Player answers from a recording. It is safe for concurrent use; what answers what depends on the order of the calls only where a request was not recorded.
type Player struct {
	name string
	now  func() int64

	mu   sync.Mutex // guards what follows
	tape []*exchange
	asks int
}

var _ provider.Provider = (*Player)(nil)

// NewPlayer reads a recording; name is what error sentences call it, and now the clock of settled messages.
func NewPlayer(name, text string, now func() int64) (*Player, error) {
	exchanges, err := read(text)
	if err != nil {
		return nil, &provider.Error{Class: provider.InvalidRequest, Unsent: true, Message: fmt.Sprintf("the recording %s cannot be played: %v; make a new one with --record", name, err)}
	}
	p := &Player{name: name, now: now}
	for i := range exchanges {
		if dialectOf(exchanges[i].model.API) == nil {
			return nil, &provider.Error{
				Class: provider.InvalidRequest, Unsent: true,
				Message: fmt.Sprintf("the recording %s cannot be played: exchange %d is in a dialect that is not known here", name, i+1),
			}
		}
		p.tape = append(p.tape, &exchanges[i])
	}
	return p, nil
}

func dialectOf(api string) remote.Dialect {
	switch api {
	case anthropic.API:
		return anthropic.New()
	case openaichat.API:
		return openaichat.New()
	case openairesponses.API:
		return openairesponses.New()
	case gemini.API:
		return gemini.New()
	}
	return nil
}

// Stream answers with the exchange that tells the same conversation, else with the next one. The request is told to the model that was recorded, in its own
// dialect, and its answer is folded as if it came from the server.
func (p *Player) Stream(ctx context.Context, req provider.Request, sink func(provider.Delta)) (*message.Assistant, error) {
	if ctx.Err() != nil {
		return nil, &provider.Error{Class: provider.Cancelled, Unsent: true, Message: "the request was cancelled; what arrived is kept"}
	}
	next, n := p.next()
	if next == nil {
		return nil, &provider.Error{
			Class: provider.InvalidRequest, Unsent: true,
			Message: fmt.Sprintf("the recording %s has no answer to request %d; record the run again", p.name, n),
		}
	}
	needle := &needle{player: p}
	client, err := remote.New(remote.Config{
		Dialect: dialectOf(next.model.API), BaseURL: "http://localhost", Route: "replay of " + next.model.String(), Keyless: true, Now: p.now,
		Through: func(http.RoundTripper) http.RoundTripper { return needle },
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }() // it has no connection
	req.Model = next.model
	m, err := client.Stream(ctx, req, sink)
	if err == nil && needle.departed {
		base := jsonv.Obj()
		if m.Diagnostics != nil {
			base = *m.Diagnostics
		}
		m.Diagnostics = new(base.With("replay_departed", jsonv.Boolean(true)))
	}
	return m, err
}

// next is the first exchange that was not used, and the number of the request.
func (p *Player) next() (*exchange, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asks++
	if len(p.tape) == 0 {
		return nil, p.asks
	}
	return p.tape[0], p.asks
}

// take uses the exchange for a request up. exact is false for one that told something else.
func (p *Player) take(body jsonv.Value) (x *exchange, exact bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := -1
	asked := told(body)
	for i, x := range p.tape {
		if told(x.request).Equal(asked) {
			at = i
			break
		}
	}
	if exact = at >= 0; !exact {
		at = 0
	}
	if len(p.tape) == 0 {
		return nil, false
	}
	x = p.tape[at]
	p.tape = append(p.tape[:at:at], p.tape[at+1:]...)
	return x, exact
}

// needle answers one request from the tape.
type needle struct {
	player   *Player
	departed bool
}

func (n *needle) RoundTrip(req *http.Request) (*http.Response, error) {
	x, exact := n.player.take(requestOf(req))
	if x == nil {
		return nil, errors.New("the recording is over")
	}
	n.departed = !exact
	if x.failed != "" || x.status < 100 {
		return nil, errors.New(dialect.First(x.failed, "the recording has no response"))
	}
	resp := &http.Response{StatusCode: x.status, Header: http.Header{}, Request: req, Body: &played{exchange: x}}
	for i, h := range keptHeaders {
		if x.headers[i] != "" {
			resp.Header.Set(h.header, x.headers[i])
		}
	}
	return resp, nil
}

// played gives a body in the pieces in which it came.
type played struct {
	exchange *exchange
	at       int
	piece    int
}

func (p *played) Read(dst []byte) (int, error) {
	x := p.exchange
	for p.piece < len(x.cuts) && x.cuts[p.piece] <= p.at {
		p.piece++
	}
	end := len(x.body)
	if p.piece < len(x.cuts) {
		end = x.cuts[p.piece]
	}
	n := copy(dst, x.body[p.at:end])
	p.at += n
	switch {
	case n > 0 || len(dst) == 0:
		return n, nil
	case x.broke:
		return 0, io.ErrUnexpectedEOF
	}
	return 0, io.EOF
}

func (p *played) Close() error { return nil }
