package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
	"github.com/loom-run/loom/provider/sse"
)

// maxErrorBody is how much of a refused request's body is read, in bytes.
const maxErrorBody = 64 << 10

// Client is a provider that speaks one dialect to one base URL. It is safe for concurrent use.
type Client struct {
	dialect   Dialect
	peer      dialect.Peer
	base      *url.URL
	key       provider.Secret
	userAgent string
	limits    Limits
	now       func() int64

	transport *http.Transport
	round     http.RoundTripper // the transport, behind whatever stands before it
	dialer    dialer
	reached   atomic.Bool // a connection was made, once
}

var _ provider.Provider = (*Client)(nil)

// New returns a client, or an error that says which part of the configuration cannot work. Nothing is sent.
func New(c Config) (*Client, error) {
	base, err := ParseBase(c.BaseURL)
	if err != nil {
		return nil, err
	}
	peer := dialect.Peer{Name: base.Host, KeyName: c.KeyName, Speaks: c.Dialect.Speaks(), Key: c.Key}
	if c.Route != "" {
		peer.Name = c.Route + " at " + base.Host
	}
	if !c.Key.Present() && !c.Keyless {
		return nil, &provider.Error{Class: provider.MissingKey, Unsent: true, Message: "there is no key for " + peer.Name + missingKeyAdvice(c.KeyName)}
	}
	if strings.ContainsFunc(c.Key.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, &provider.Error{Class: provider.Auth, Message: "the key for " + peer.Name + " has characters that no key has" + missingKeyAdvice(c.KeyName)}
	}
	if c.Now == nil {
		return nil, errors.New("remote.New: Now is not set")
	}
	client := &Client{
		dialect: c.Dialect, peer: peer, base: base, key: c.Key, userAgent: c.UserAgent,
		limits: c.Limits.withDefaults(), now: c.Now,
	}
	client.dialer.init(c.Dial, base.Scheme == "http", client.limits.Connect)
	client.transport = newTransport(c, client.dialer.dial, base, client.limits)
	client.round = authorizing{client.transport, c.Dialect, c.Key}
	if c.Through != nil {
		client.round = c.Through(client.round)
	}
	return client, nil
}

// authorizing adds the key to requests on their way to the connection.
type authorizing struct {
	next    http.RoundTripper
	dialect Dialect
	key     provider.Secret
}

func (a authorizing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	a.dialect.Authorize(r.Header, a.key.Reveal())
	return a.next.RoundTrip(r)
}

func missingKeyAdvice(keyName string) string {
	if keyName == "" {
		return ""
	}
	return "; set " + keyName
}

// ParseBase validates a base URL: http or https, no user, query or fragment, and plain http only to this machine, because the key travels
// with every request. A trailing slash is dropped.
func ParseBase(raw string) (*url.URL, error) {
	refuse := func(why string) (*url.URL, error) {
		return nil, &provider.Error{Class: provider.InvalidRequest, Message: "the base URL cannot be used: " + why}
	}
	base, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil:
		return refuse("it is not a URL") // the parser's text would repeat the URL, which may hold a password
	case base.Scheme != "http" && base.Scheme != "https":
		return refuse("it must start with https:// or, on this machine, http://")
	case base.Hostname() == "":
		return refuse("it names no host")
	case base.User != nil:
		return refuse("it holds a user or a password")
	case base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return refuse("it holds a query or a fragment")
	case base.Scheme == "http" && !isLoopback(base.Hostname()):
		return refuse("plain http would show the key to the network; use https (http is accepted for this machine only)")
	}
	base.Path, base.RawPath = strings.TrimRight(base.Path, "/"), ""
	return base, nil
}

// Close ends idle connections and dials in progress. A call of Stream that is running is not disturbed; a later one starts anew.
func (c *Client) Close() error {
	c.dialer.close()
	c.transport.CloseIdleConnections()
	return nil
}

// Stream sends the request and folds the answer. See [provider.Provider].
func (c *Client) Stream(ctx context.Context, req provider.Request, sink func(provider.Delta)) (*message.Assistant, error) {
	m, failure := c.attempt(ctx, req, sink)
	if failure == nil {
		return m, nil
	}
	failure.Message, failure.Detail = c.key.Scrub(failure.Message), c.key.Scrub(failure.Detail)
	if failure.Partial != nil {
		failure.Partial.ErrorMessage = new(failure.Message)
	}
	return nil, failure
}

func (c *Client) attempt(ctx context.Context, req provider.Request, sink func(provider.Delta)) (*message.Assistant, *provider.Error) {
	if ctx.Err() != nil {
		e := c.ended(ctx)
		e.Unsent = true
		return nil, e
	}
	body := c.dialect.Encode(req)

	ctx, watch := newWatch(ctx, c.limits)
	defer watch.stop()
	target := c.dialect.URL(c.base, req.Model).String()
	post, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, watch.trace()), http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, c.unreached(ctx, watch, err)
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Accept", "text/event-stream")
	if c.userAgent != "" {
		post.Header.Set("User-Agent", c.userAgent)
	}
	// A transport, not a client around it: a redirect is not followed, for it would carry the conversation elsewhere.
	resp, err := c.round.RoundTrip(post)
	if watch.isConnected() {
		c.reached.Store(true)
	}
	if err != nil {
		return nil, c.unreached(ctx, watch, err)
	}
	defer func() { _ = resp.Body.Close() }() // nothing is lost by a failing close of what was read

	if resp.StatusCode != http.StatusOK {
		return nil, c.refused(ctx, watch, resp, req)
	}
	f := c.dialect.Fold(c.peer, req, sink)
	broke := c.read(ctx, watch, resp, f)
	return f.Settle(broke, c.now())
}

// read feeds the body to the fold until the answer is over. The result says why it stopped early; nil at the end of the answer.
func (c *Client) read(ctx context.Context, watch *watch, resp *http.Response, f Fold) *provider.Error {
	if how := encoded(resp.Header); how != "" {
		return c.peer.Malformed("it sent an answer in the encoding " + c.peer.Excerpt(how) + ", which was not asked for")
	}
	switch mediaType(resp.Header) {
	case "application/json":
		return c.readWhole(ctx, watch, resp.Body, f)
	case "text/html":
		return c.peer.Malformed("it answered with a web page")
	}
	parser := sse.New(sse.Limits{})
	chunk := make([]byte, 32<<10)
	var events []sse.Event
	for {
		n, err := resp.Body.Read(chunk)
		if n > 0 {
			watch.progress()
		}
		var over error
		events, over = parser.Feed(chunk[:n], events[:0])
		for _, e := range events {
			if ctx.Err() != nil {
				return c.broken(ctx, watch)
			}
			f.Event(e)
		}
		switch phase := f.Phase(); {
		case phase == Ended:
			watch.draining()
			drain(resp.Body, chunk)
			return nil
		case phase == Failed:
			return nil
		case over != nil:
			return c.outsized(over)
		case errors.Is(err, io.EOF):
			if !f.Heard() && parser.Consumed() > 0 {
				return c.peer.Malformed("it answered with something that is no event stream")
			}
			return nil
		case err != nil:
			return c.broken(ctx, watch)
		case phase == Finishing:
			watch.finishing()
		}
	}
}

// encoded is the encoding of a body that was compressed unasked; empty for none.
func encoded(h http.Header) string {
	how := strings.TrimSpace(h.Get("Content-Encoding"))
	if strings.EqualFold(how, "identity") {
		return ""
	}
	return how
}

// readWhole reads an answer that was not streamed.
func (c *Client) readWhole(ctx context.Context, watch *watch, body io.Reader, f Fold) *provider.Error {
	raw, err := io.ReadAll(io.LimitReader(body, sse.DefaultBody+1))
	switch {
	case err != nil:
		return c.broken(ctx, watch)
	case len(raw) > sse.DefaultBody:
		return c.outsized(&sse.LimitError{Bound: sse.BoundBody, Max: sse.DefaultBody})
	}
	v, replaced, err := dialect.ParseJSON(raw)
	if err != nil {
		return c.peer.Malformed("it answered with a text that is not JSON")
	}
	f.Whole(v, replaced)
	return nil
}

// drain reads what is left of a body whose answer is over, so that the next call finds its connection free: the transport would read it too, but
// some time later. It gives up soon: the watch ends the reading when the end does not come at once.
func drain(body io.Reader, chunk []byte) {
	for read := 0; read < maxErrorBody; {
		n, err := body.Read(chunk)
		if err != nil {
			return
		}
		read += n
	}
}

// refused reads the body of a response that is not 200, as far as it comes: the status says the most of it.
func (c *Client) refused(ctx context.Context, watch *watch, resp *http.Response, req provider.Request) *provider.Error {
	watch.refused()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil && ctx.Err() != nil && !awaitedEnough(ctx) {
		return c.broken(ctx, watch)
	}
	if resp.StatusCode < 300 {
		return c.peer.Malformed(fmt.Sprintf("it answered with the status %d", resp.StatusCode))
	}
	stated := dialect.Stated{}
	if encoded(resp.Header) == "" {
		stated = dialect.RefusedBody(body, mediaType(resp.Header))
	}
	e := c.peer.Refused(req.Model.ModelID, resp.StatusCode, stated)
	if hint := retryAfter(resp.Header, c.now()); hint != nil {
		e.RetryAfterMs = hint
	}
	return e
}

func mediaType(h http.Header) string {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}
