package openaichat

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/loom-run/loom/provider"
)

// Config is what a [Client] is given. BaseURL, Key and Now are required.
type Config struct {
	// BaseURL is the root that "chat/completions" is appended to; see [ParseBase].
	BaseURL string
	// Key goes into the Authorization header of every request.
	Key provider.Secret
	// KeyName is what the key is configured by, for error sentences; it may be empty.
	KeyName string
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
	// tailWait is for the usage report and the end mark after the finish reason.
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
