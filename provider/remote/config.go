package remote

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
	"github.com/loom-run/loom/provider/sse"
)

// Dialect is how the servers of one kind are spoken to. Its methods are safe for concurrent calls.
type Dialect interface {
	// API is the dialect's name in stored messages, Speaks what people call it.
	API() string
	Speaks() string
	// URL is where requests for a model go, below a base URL.
	URL(base *url.URL, model provider.Model) *url.URL
	// Authorize puts the key into the headers that carry it; key is empty for a server that needs none.
	Authorize(h http.Header, key string)
	// Encode writes the body of a request.
	Encode(req provider.Request) []byte
	// Fold starts the reading of one answer.
	Fold(p dialect.Peer, req provider.Request, sink func(provider.Delta)) Fold
}

// Phase says how far an answer is.
type Phase uint8

// The phases, in their order.
const (
	Speaking  Phase = iota // more of it must come
	Finishing              // it is complete, and what may follow is a report
	Ended                  // nothing more of it comes
	Failed                 // it cannot become an answer any more
)

// Fold reads one answer. It is used by one goroutine.
type Fold interface {
	// Event folds one event in. Events after the end are ignored.
	Event(sse.Event)
	// Whole folds an answer that was not streamed.
	Whole(v jsonv.Value, replaced int)
	Phase() Phase
	// Heard reports whether any event was one of the dialect.
	Heard() bool
	// Settle is the terminal. broke is why reading stopped before the end, nil at the end; at is the time in Unix milliseconds.
	Settle(broke *provider.Error, at int64) (*message.Assistant, *provider.Error)
}

// Config is what a [Client] is given. BaseURL, Dialect and Now are required, and Key unless Keyless.
type Config struct {
	Dialect Dialect
	// BaseURL is the root that the dialect's path is appended to; see [ParseBase].
	BaseURL string
	// Route is the name of the configured route, for error sentences; it may be empty.
	Route string
	// Key goes into the headers of every request.
	Key provider.Secret
	// KeyName is what the key is configured by, for error sentences; it may be empty.
	KeyName string
	// Keyless says that the server needs no key.
	Keyless bool
	// UserAgent names the program to the server; empty leaves it to net/http.
	UserAgent string
	// Now is the clock of the settled messages, in Unix milliseconds.
	Now func() int64
	// Limits bounds how long an attempt may take.
	Limits Limits

	// Proxy chooses the proxy of a request; nil is none. It is not asked for a base URL on this machine.
	Proxy func(*http.Request) (*url.URL, error)
	// TLS adds to the connection's security settings, such as the roots of a private authority; nil uses the system's.
	TLS *tls.Config
	// Dial opens connections; nil dials the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Through stands between the client and its connections, to record what passes or to answer instead; nil is nothing. It never sees the key: that is set
	// behind it.
	Through func(http.RoundTripper) http.RoundTripper
}

// Limits bounds the phases of an attempt.
type Limits struct {
	// Connect bounds the dial and the TLS handshake, each; zero means [DefaultConnect].
	Connect time.Duration
	// FirstByte bounds the time from the sent request to the first byte of the answer; zero means no bound but Total. Models may think for
	// minutes before they say a word, and a dead peer is found by the connection's own keep-alive.
	FirstByte time.Duration
	// Idle bounds the silence inside an answer; zero means no bound but Total.
	Idle time.Duration
	// Total bounds the whole attempt, however active it is; zero means [DefaultTotal].
	Total time.Duration
}

// The default limits.
const (
	DefaultConnect = 10 * time.Second
	DefaultTotal   = 300 * time.Second
)

// What follows a complete answer has its own short limits, which end the reading and fail nothing.
const (
	// tailWait is for the usage report and the end mark after the finish reason, and for the body of a refusal.
	tailWait = 5 * time.Second
	// drainWait is for the end of the body after the end mark, so that the connection can be used again.
	drainWait = 250 * time.Millisecond
)

func (l Limits) withDefaults() Limits {
	if l.Connect <= 0 {
		l.Connect = DefaultConnect
	}
	if l.Total <= 0 {
		l.Total = DefaultTotal
	}
	return l
}
