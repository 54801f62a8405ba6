package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
)

// The details of the classes [provider.Transport] and [provider.Unreachable], beside [provider.LimitConnect]: what stood between.
const (
	DetailName    = "dns"     // the host's name has no address
	DetailRefused = "refused" // nobody listens there
	DetailTLS     = "tls"     // no secure connection came about
	DetailProxy   = "proxy"   // the proxy did not let it through
)

// ended is the error for a context that ended by its owner's will.
func (c *Client) ended(ctx context.Context) *provider.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &provider.Error{Class: provider.Deadline, Detail: provider.LimitCaller, Message: "the time for this request is over; what arrived is kept"}
	}
	return &provider.Error{Class: provider.Cancelled, Message: "the request was cancelled; what arrived is kept"}
}

// unreached is the error for a request that got no response.
func (c *Client) unreached(ctx context.Context, watch *watch, err error) *provider.Error {
	if ctx.Err() != nil {
		return c.broken(ctx, watch)
	}
	e := &provider.Error{Class: provider.Unreachable, Unsent: !watch.isConnected()}
	if c.reached.Load() {
		e.Class = provider.Transport
	}
	name := c.peer.Name
	if what, advice, ok := behindProxy(err); ok {
		e.Detail = DetailProxy
		e.Message = fmt.Sprintf("%s could not be reached, because the proxy %s; %s", name, what, advice)
		return e
	}
	if timedOut(err) && !watch.isConnected() {
		e.Detail = provider.LimitConnect
		e.Message = fmt.Sprintf("no connection to %s within %s; check the network and the base URL", name, c.limits.Connect)
		return e
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		e.Detail = DetailName
		e.Message = fmt.Sprintf("the name of %s cannot be resolved (%s); check the base URL and the network", name, dialect.Excerpt(dns.Err))
		return e
	}
	if what, advice := insecure(err); what != "" {
		e.Detail = DetailTLS
		e.Message = fmt.Sprintf("there is no secure connection to %s: %s; %s", name, what, advice)
		return e
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		e.Detail = DetailRefused
		e.Message = fmt.Sprintf("%s could not be reached: nobody listens there; start the server or check the base URL", name)
		return e
	}
	if watch.isConnected() {
		return c.unanswered(err)
	}
	e.Message = fmt.Sprintf("%s could not be reached (%s); check the network and the base URL", name, c.peer.Excerpt(err.Error()))
	return e
}

// unanswered is the error for a request that went out over a connection that then broke, or that brought something else than HTTP.
func (c *Client) unanswered(err error) *provider.Error {
	const broken = "net/http: HTTP/1.x transport connection broken: "
	_, network := errors.AsType[*net.OpError](err)
	if what, spoke := strings.CutPrefix(err.Error(), broken); spoke && !network && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return c.peer.Malformed("it does not speak HTTP (" + c.peer.Excerpt(what) + ")")
	}
	return &provider.Error{
		Class:   provider.Transport,
		Message: fmt.Sprintf("%s ended the connection without an answer (%s); the request can be repeated", c.peer.Name, c.peer.Excerpt(strings.TrimPrefix(err.Error(), broken))),
	}
}

func timedOut(err error) bool {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}

// behindProxy says what a proxy did, where the failure is its own. Its address is not repeated: it may hold a password.
func behindProxy(err error) (what, advice string, ok bool) {
	const check = "check HTTPS_PROXY and NO_PROXY"
	if op, isOp := errors.AsType[*net.OpError](err); isOp && op.Op == "proxyconnect" {
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return "does not listen", check, true
		case timedOut(err):
			return "did not answer", check, true
		}
		return "failed (" + dialect.Excerpt(op.Err.Error()) + ")", check, true
	}
	// The transport gives the proxy's status line as a bare error.
	switch text := err.Error(); {
	case strings.HasPrefix(text, http.StatusText(http.StatusProxyAuthRequired)):
		return "wants a user and a password", "put them into HTTPS_PROXY", true
	case strings.HasPrefix(text, http.StatusText(http.StatusForbidden)), strings.HasPrefix(text, http.StatusText(http.StatusBadGateway)),
		strings.HasPrefix(text, http.StatusText(http.StatusServiceUnavailable)), strings.HasPrefix(text, http.StatusText(http.StatusGatewayTimeout)),
		strings.HasPrefix(text, http.StatusText(http.StatusMethodNotAllowed)), strings.HasPrefix(text, http.StatusText(http.StatusNotFound)):
		return "answered " + dialect.Excerpt(text), check, true
	}
	return "", "", false
}

// insecure says why there is no secure connection; empty where that is not what failed.
func insecure(err error) (what, advice string) {
	const authority = "check the base URL, or name the certificate of your authority in SSL_CERT_FILE"
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its certificate is signed by an authority that is not known here", authority
	}
	if host, ok := errors.AsType[x509.HostnameError](err); ok {
		return "its certificate is for another name than " + dialect.Excerpt(host.Host), "check the base URL"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "its certificate has expired or is not valid yet", "check the clock of this machine, or ask who runs the server"
	}
	if verification, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return dialect.Excerpt(verification.Err.Error()), authority
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return "it speaks plain http there", "check the port, or write http:// for a server on this machine"
	}
	if alert, ok := errors.AsType[tls.AlertError](err); ok {
		return dialect.Excerpt(alert.Error()), "check the base URL"
	}
	return "", ""
}

// broken is the error for an attempt that a limit, the caller or the network ended.
func (c *Client) broken(ctx context.Context, watch *watch) *provider.Error {
	if ctx.Err() == nil {
		return c.peer.Disconnected()
	}
	passed, ok := errors.AsType[*limitPassed](context.Cause(ctx))
	if !ok {
		return c.ended(ctx)
	}
	var what string
	switch passed.limit {
	case provider.LimitFirstByte:
		what = "did not begin to answer"
	case provider.LimitIdle:
		what = "stopped in the middle of the answer"
	case provider.LimitTotal:
		if what = "did not finish the answer"; watch.isWaiting() {
			what = "did not begin to answer"
		}
	default: // the limits of what follows a complete answer fail nothing
		return c.peer.Disconnected()
	}
	return &provider.Error{
		Class: provider.Deadline, Detail: passed.limit,
		Message: fmt.Sprintf("%s %s within %s; what arrived is kept and the request can be repeated", c.peer.Name, what, passed.after),
	}
}

// awaitedEnough reports whether what ended the context is the limit on what follows.
func awaitedEnough(ctx context.Context) bool {
	passed, ok := errors.AsType[*limitPassed](context.Cause(ctx))
	return ok && passed.limit == limitTail
}

// outsized is the error for an answer that passes a bound of the parser.
func (c *Client) outsized(err error) *provider.Error {
	return &provider.Error{
		Class:   provider.MalformedStream,
		Message: fmt.Sprintf("the answer from %s was given up (%v); what arrived is kept, check the base URL", c.peer.Name, err),
	}
}

// retryAfter reads the hint how long to wait, in milliseconds: the retry-after-ms header, or Retry-After in seconds or as a date.
func retryAfter(h http.Header, nowMs int64) *int64 {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms == ms {
		return new(dialect.BoundedWait(ms))
	}
	hint := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(hint, 64); err == nil && s == s {
		return new(dialect.BoundedWait(s * 1000))
	}
	if at, err := http.ParseTime(hint); err == nil {
		return new(dialect.BoundedWait(float64(at.UnixMilli() - nowMs)))
	}
	return nil
}
