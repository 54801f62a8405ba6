package remote

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"
)

// dialer opens connections and can end the dials in progress: the transport detaches a dial from the request that wanted it.
type dialer struct {
	open    func(ctx context.Context, network, address string) (net.Conn, error)
	connect time.Duration

	mu    sync.Mutex // guards dials
	dials *dials
}

// dials are the dials that one close ends together.
type dials struct {
	ended   context.Context
	end     context.CancelFunc
	running sync.WaitGroup
}

func newDials() *dials {
	d := &dials{}
	d.ended, d.end = context.WithCancel(context.Background())
	return d
}

func (d *dialer) init(open func(context.Context, string, string) (net.Conn, error), loopbackOnly bool, connect time.Duration) {
	d.open, d.connect, d.dials = open, connect, newDials()
	if open != nil {
		return
	}
	network := &net.Dialer{KeepAlive: 15 * time.Second}
	if loopbackOnly {
		// The name was checked already; this checks what it resolved to.
		network.Control = func(_, address string, _ syscall.RawConn) error {
			if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().Unmap().IsLoopback() {
				return errors.New("plain http is for this machine only, and the host is another one")
			}
			return nil
		}
	}
	d.open = network.DialContext
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d.mu.Lock()
	dials := d.dials
	dials.running.Add(1)
	d.mu.Unlock()
	defer dials.running.Done()

	ctx, cancel := context.WithTimeout(ctx, d.connect)
	defer cancel()
	defer context.AfterFunc(dials.ended, cancel)()
	return d.open(ctx, network, address)
}

// close ends the dials in progress and waits for them. Later dials are not affected.
func (d *dialer) close() {
	d.mu.Lock()
	old := d.dials
	d.dials = newDials()
	d.mu.Unlock()
	old.end()
	old.running.Wait()
}

// newTransport is the connection pool of one base URL. Compression is off because a compressed stream arrives in lumps. Pings find a dead HTTP/2
// peer the way keep-alive finds a dead TCP peer.
func newTransport(c Config, dial func(context.Context, string, string) (net.Conn, error), base *url.URL, limits Limits) *http.Transport {
	t := &http.Transport{
		DialContext:            dial,
		TLSHandshakeTimeout:    limits.Connect,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
	}
	if c.TLS != nil {
		t.TLSClientConfig = c.TLS.Clone()
	}
	if !isLoopback(base.Hostname()) {
		t.Proxy = c.Proxy
	}
	return t
}

// isLoopback reports whether a host of a URL is this machine by its name.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
