package route

import (
	"context"
	"errors"
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/price"
)

// Link is one model of a chain.
type Link struct {
	Model provider.Model
	// Open returns the provider, which the link does not own; the error says why there is none. It is called for each request, and only then is a key
	// looked for.
	Open func() (provider.Provider, error)
	// Price is nil for a model whose prices are not known.
	Price *price.Card
	// Unthinking says that the model cannot be asked to reason.
	Unthinking bool
	// Vision says whether the model can be shown pictures; nil is not known, and then it is shown them.
	Vision *bool
	// MaxImages is the most pictures of one request; 0 means [DefaultMaxImages].
	MaxImages int
}

// Chain asks its links in order. It is safe for concurrent use.
type Chain struct {
	links  []Link
	vision *Chain
	shown  pictures
}

var _ provider.Provider = (*Chain)(nil)

// New makes a chain of at least one link. vision serves requests with pictures where the first link cannot be shown any; it may be nil.
func New(links []Link, vision *Chain) *Chain { return &Chain{links: links, vision: vision} }

// Stream implements [provider.Provider].
func (c *Chain) Stream(ctx context.Context, req provider.Request, sink func(provider.Delta)) (*message.Assistant, error) {
	if c.vision != nil && c.links[0].blind() && pictured(req.Messages) {
		return c.vision.Stream(ctx, req, sink)
	}
	w := walk{ctx: ctx, req: req, sink: sink}
	for i, link := range c.links {
		m, asked, e := c.ask(&w, link)
		if e == nil {
			m.Diagnostics = w.diagnostics(m.Diagnostics)
			return m, nil
		}
		if !asked && len(w.fallen) > 0 {
			return nil, w.failed(w.fallen[len(w.fallen)-1].Error) // the last real error counts, and its request is the last
		}
		if i == len(c.links)-1 || !worthWalking(e) || w.drawn || ctx.Err() != nil {
			return nil, w.failed(e)
		}
		w.fall(provider.Fallen{Model: link.Model.Identity, Error: e})
	}
	return nil, errors.New("route: a chain without links")
}

// walk is one attempt on its way through a chain.
type walk struct {
	ctx    context.Context
	req    provider.Request
	sink   func(provider.Delta)
	drawn  bool // something of an answer was shown
	fallen []provider.Fallen
	owed   *provider.Fallen // told once the next request is certain
}

// ask makes one request; asked is false for a link that could not even be asked.
func (c *Chain) ask(w *walk, link Link) (m *message.Assistant, asked bool, e *provider.Error) {
	req := w.req
	req.Model = link.Model
	if link.Unthinking {
		req.Thinking = provider.ThinkOff
	}
	if req.Messages, e = c.shown.fit(req.Messages, link); e != nil {
		return nil, false, e
	}
	p, err := link.Open()
	if err != nil {
		return nil, false, asError(err)
	}
	w.tell()
	m, err = p.Stream(w.ctx, req, func(d provider.Delta) {
		w.drawn = true
		w.sink(d)
	})
	if err != nil {
		e := asError(err)
		e.Asked = link.Model
		if e.Partial != nil {
			e.Partial.Usage = link.Price.Price(e.Partial.Usage)
		}
		return nil, true, e
	}
	m.Usage = link.Price.Price(m.Usage)
	return m, true, nil
}

func asError(err error) *provider.Error {
	if e, ok := errors.AsType[*provider.Error](err); ok {
		return e
	}
	return &provider.Error{Class: provider.InvalidRequest, Message: err.Error()}
}

// worthWalking reports whether another model may answer what this one did not. An address that was never reached is of the moment too: what is wrong with
// it is not wrong with the next.
func worthWalking(e *provider.Error) bool { return e.Retryable() || e.Class == provider.Unreachable }

// fall notes a request that the next link follows.
func (w *walk) fall(f provider.Fallen) {
	w.fallen = append(w.fallen, f)
	w.owed = &w.fallen[len(w.fallen)-1]
}

// tell tells of the request that fell last, now that another one follows it.
func (w *walk) tell() {
	if w.owed != nil && w.req.Fell != nil {
		w.req.Fell(*w.owed)
	}
	w.owed = nil
}

// failed is the error of the whole walk: e, with the names of those that were asked before.
func (w *walk) failed(e *provider.Error) *provider.Error {
	var names []string
	for _, f := range w.fallen {
		if f.Error != e {
			names = append(names, f.Model.String()+" ("+string(f.Error.Class)+")")
		}
	}
	if names == nil {
		return e
	}
	e.Message += "; asked before it: " + strings.Join(names, ", ")
	if e.Partial != nil {
		e.Partial.ErrorMessage = new(e.Message)
	}
	return e
}

// diagnostics adds to those of an answer whom it stands in for.
func (w *walk) diagnostics(own *jsonv.Value) *jsonv.Value {
	if len(w.fallen) == 0 {
		return own
	}
	var list []jsonv.Value
	for _, f := range w.fallen {
		list = append(list, jsonv.Obj(
			jsonv.F("provider", jsonv.Str(f.Model.Provider)), jsonv.F("model", jsonv.Str(f.Model.ModelID)),
			jsonv.F("class", jsonv.Str(string(f.Error.Class))), jsonv.F("message", jsonv.Str(f.Error.Message))))
	}
	base := jsonv.Obj()
	if own != nil {
		base = *own
	}
	return new(base.With("fell_back_from", jsonv.Arr(list...)))
}
