// Package wireclient is the HTTP client of the wire.
//
// # Purpose
//
// Every client speaks to a server in the same way, whether the server is in its
// own process, on a socket or far away: requests with receipts, and frames that
// go on where they stopped when a connection breaks.
//
// # Key types
//
// [Client] has a method for each request. [Stream] is an attached subscription;
// its [Stream.Frames] reconnects with the last cursor. Errors are [*Refused] (the
// server said no, and why), [*Unreached] (no answer came) and [*Garbled] (an
// answer that is not of this contract).
//
// # Relationships
//
// Imports wire and core/id. Given a round tripper; dials nothing on its own.
//
// # Traffic
//
// The routes of version 1. Requests are sent once and never repeated: after a
// lost answer the caller is told that the request may have been carried out.
// Only the frame stream, which changes nothing, is opened again.
//
// # Invariants
//
//   - Replay frames come in order, each once, with no gap, over any number of
//     reconnects. Live frames may be missing.
//   - A stream that got no byte for three heartbeats is taken for dead.
package wireclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/wire"
)

// Client sends requests to one server. It is safe for concurrent use. It must be
// made by [New].
type Client struct {
	http *http.Client
	base string
}

// New makes a client over rt, such as an [http.Transport] that dials in memory.
// base is the server's URL without a path; for a transport that ignores the
// address it can be "http://loom". How long a server may take for its first
// byte is the transport's setting: a stream answers at once and a prompt when it
// is committed.
func New(rt http.RoundTripper, base string) *Client {
	return &Client{
		http: &http.Client{
			Transport: rt,
			// A server of ours never redirects; following one would carry a prompt
			// to somebody else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		base: base + "/v" + strconv.Itoa(wire.Version),
	}
}

// Refused is a server's answer that is not a success.
type Refused struct {
	Status  int
	Code    wire.Code // verbatim
	Message string    // one sentence, not yet escaped
}

func (e *Refused) Error() string { return e.Message }

// Unreached is a request without a whole answer.
type Unreached struct {
	Op  string
	Err error
	// Maybe says that the request may have been carried out: it was sent, and
	// only the answer is missing.
	Maybe bool
}

func (e *Unreached) Error() string {
	if e.Maybe {
		return fmt.Sprintf("%s: the server gave no answer (%v); it may have been done all the same, look at the session before trying again", e.Op, e.Err)
	}
	return fmt.Sprintf("%s: the server was not reached (%v); nothing was changed", e.Op, e.Err)
}

func (e *Unreached) Unwrap() error { return e.Err }

// Garbled is an answer that is not of this contract.
type Garbled struct {
	Op  string
	Err error
}

func (e *Garbled) Error() string {
	return fmt.Sprintf("%s: the server's answer cannot be read (%v); is it another version?", e.Op, e.Err)
}

func (e *Garbled) Unwrap() error { return e.Err }

// Create makes a session.
func (c *Client) Create(ctx context.Context, q wire.CreateSession) (wire.Created, error) {
	return call(ctx, c, "create a session", http.MethodPost, "/sessions", q.Append(nil), wire.DecodeCreated)
}

// Prompt asks a strand to run.
func (c *Client) Prompt(ctx context.Context, s id.SessionID, q wire.Prompt) (wire.Prompted, error) {
	return call(ctx, c, "prompt", http.MethodPost, "/sessions/"+s.String()+"/prompt", q.Append(nil), wire.DecodePrompted)
}

// Resume asks to finish an interrupted operation.
func (c *Client) Resume(ctx context.Context, s id.SessionID, q wire.Resume) (wire.Resumed, error) {
	return call(ctx, c, "resume", http.MethodPost, "/sessions/"+s.String()+"/resume", q.Append(nil), wire.DecodeResumed)
}

// Abort asks to stop a strand's running operation.
func (c *Client) Abort(ctx context.Context, s id.SessionID, q wire.Abort) (wire.AbortReceipt, error) {
	return call(ctx, c, "abort", http.MethodPost, "/sessions/"+s.String()+"/abort", q.Append(nil), wire.DecodeAbortReceipt)
}

// Sessions lists the sessions, newest first.
func (c *Client) Sessions(ctx context.Context) (wire.SessionList, error) {
	return call(ctx, c, "list the sessions", http.MethodGet, "/sessions", nil, wire.DecodeSessionList)
}

// Page reads one page of a session's history; limit is at most [wire.MaxPage]
// frames.
func (c *Client) Page(ctx context.Context, s id.SessionID, from wire.From, limit int) (wire.SessionPage, error) {
	q := url.Values{"after": {from.String()}, "limit": {strconv.Itoa(limit)}}
	return call(ctx, c, "read the session", http.MethodGet, "/sessions/"+s.String()+"?"+q.Encode(), nil, wire.DecodeSessionPage)
}

// Check walks a session and names every broken invariant.
func (c *Client) Check(ctx context.Context, s id.SessionID) (wire.CheckReport, error) {
	return call(ctx, c, "check the session", http.MethodPost, "/sessions/"+s.String()+"/check", []byte("{}"), wire.DecodeCheckReport)
}

// call sends one request and reads its answer whole.
func call[T any](ctx context.Context, c *Client, op, method, path string, body []byte, decode func([]byte) (T, error)) (T, error) {
	var none T
	resp, err := c.send(ctx, op, method, path, body)
	if err != nil {
		return none, err
	}
	defer func() { _ = resp.Body.Close() }() // the answer is read; nothing is learnt from closing
	data, err := readAll(resp.Body)
	if err != nil {
		return none, &Unreached{Op: op, Err: err, Maybe: method != http.MethodGet}
	}
	v, err := decode(data)
	if err != nil {
		return none, &Garbled{Op: op, Err: err}
	}
	return v, nil
}

// send sends one request and returns a successful answer with its body unread.
func (c *Client) send(ctx context.Context, op, method, path string, body []byte) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return nil, &Unreached{Op: op, Err: err}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.GetBody = nil // a request is sent once
	}
	resp, err := c.http.Do(req)
	if err != nil {
		// Whether anything was sent is not known here; a read cannot have changed
		// anything.
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return nil, &Unreached{Op: op, Err: err, Maybe: method != http.MethodGet && !neverSent(err)}
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }() // refused: the body is the error
	data, err := readAll(resp.Body)
	if err != nil {
		return nil, &Unreached{Op: op, Err: err, Maybe: method != http.MethodGet}
	}
	e, err := wire.DecodeErrorBody(data)
	if err != nil {
		return nil, &Garbled{Op: op, Err: fmt.Errorf("status %d: %w", resp.StatusCode, err)}
	}
	return nil, &Refused{Status: resp.StatusCode, Code: e.Code, Message: e.Message}
}

// readAll reads an answer of bounded size.
func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	if err == nil && len(data) > maxAnswer {
		err = errors.New("the answer is longer than an answer can be")
	}
	return data, err
}

// maxAnswer bounds an answer, in bytes: a page of history is the largest.
const maxAnswer = wire.MaxFrame + wire.MaxReceipt
