package openairesponses

import (
	"net/http"
	"net/url"

	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
	"github.com/loom-run/loom/provider/remote"
)

// API is the name of the dialect, as stored in the api field of an assistant message.
const API = "openai-responses"

// Dialect speaks Responses. It remembers what it encoded, so one value serves one route.
type Dialect struct{ sent dialect.History }

var _ remote.Dialect = (*Dialect)(nil)

// New returns a dialect that has sent nothing yet.
func New() *Dialect { return &Dialect{} }

// API implements remote.Dialect.
func (*Dialect) API() string { return API }

// Speaks implements remote.Dialect.
func (*Dialect) Speaks() string { return "Responses" }

// URL implements remote.Dialect.
func (*Dialect) URL(base *url.URL, _ provider.Model) *url.URL { return base.JoinPath("responses") }

// Authorize implements remote.Dialect.
func (*Dialect) Authorize(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

// Encode implements remote.Dialect.
func (d *Dialect) Encode(req provider.Request) []byte { return d.sent.Encode(&grammar, req) }

// Fold implements remote.Dialect.
func (*Dialect) Fold(p dialect.Peer, req provider.Request, sink func(provider.Delta)) remote.Fold {
	return newFold(p, req, sink)
}
