package gemini

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
	"github.com/loom-run/loom/provider/remote"
)

// API is the name of the dialect, as stored in the api field of an assistant message.
const API = "gemini-generate-content"

// Dialect speaks generateContent. It remembers what it encoded, so one value serves one route.
type Dialect struct{ sent dialect.History }

var _ remote.Dialect = (*Dialect)(nil)

// New returns a dialect that has sent nothing yet.
func New() *Dialect { return &Dialect{} }

// API implements remote.Dialect.
func (*Dialect) API() string { return API }

// Speaks implements remote.Dialect.
func (*Dialect) Speaks() string { return "Gemini" }

// URL implements remote.Dialect. An id that names its collection is taken as it is.
func (*Dialect) URL(base *url.URL, model provider.Model) *url.URL {
	id := model.ModelID
	if !strings.Contains(id, "/") {
		id = "models/" + id
	}
	u := *base
	u.Path += "/" + id + ":streamGenerateContent"
	u.RawQuery = "alt=sse"
	return &u
}

// Authorize implements remote.Dialect.
func (*Dialect) Authorize(h http.Header, key string) {
	if key != "" {
		h.Set("X-Goog-Api-Key", key)
	}
}

// Encode implements remote.Dialect.
func (d *Dialect) Encode(req provider.Request) []byte { return d.sent.Encode(&grammar, req) }

// Fold implements remote.Dialect.
func (*Dialect) Fold(p dialect.Peer, req provider.Request, sink func(provider.Delta)) remote.Fold {
	return newFold(p, req, sink)
}
