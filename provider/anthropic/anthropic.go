package anthropic

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
	"github.com/loom-run/loom/provider/remote"
)

// API is the name of the dialect, as stored in the api field of an assistant message.
const API = "anthropic-messages"

// version is the dialect's own, which each request names.
const version = "2023-06-01"

// Dialect speaks Anthropic Messages. It remembers what it encoded, so one value serves one route.
type Dialect struct{ sent dialect.History }

var _ remote.Dialect = (*Dialect)(nil)

// New returns a dialect that has sent nothing yet.
func New() *Dialect { return &Dialect{} }

// API implements remote.Dialect.
func (*Dialect) API() string { return API }

// Speaks implements remote.Dialect.
func (*Dialect) Speaks() string { return "Anthropic Messages" }

// URL implements remote.Dialect. A base that names the version already is taken as it is.
func (*Dialect) URL(base *url.URL, _ provider.Model) *url.URL {
	if strings.HasSuffix(base.Path, "/v1") {
		return base.JoinPath("messages")
	}
	return base.JoinPath("v1", "messages")
}

// Authorize implements remote.Dialect.
func (*Dialect) Authorize(h http.Header, key string) {
	h.Set("Anthropic-Version", version)
	if key != "" {
		h.Set("X-Api-Key", key)
	}
}

// Encode implements remote.Dialect.
func (d *Dialect) Encode(req provider.Request) []byte { return d.sent.Encode(&grammar, req) }

// Fold implements remote.Dialect.
func (*Dialect) Fold(p dialect.Peer, req provider.Request, sink func(provider.Delta)) remote.Fold {
	return newFold(p, req, sink)
}
