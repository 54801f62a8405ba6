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
// Only the frame stream, which changes nothing, is opened again. A mutation without
// an idempotency key is given a random one.
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
	"crypto/rand"
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
		base: base + wire.Prefix(),
	}
}

// Refused is a server's answer that is not a success.
type Refused struct {
	Status  int
	Code    wire.Code          // verbatim
	Message string             // one sentence, not yet escaped
	Issues  []wire.RuleProblem // with a rule that was refused
	Pending *wire.Pending      // what waits, with an answer that was to another call; nil: not said
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

// Probe asks whether the server is there, and which one.
func (c *Client) Probe(ctx context.Context) (wire.Probe, error) {
	return read(ctx, c, "probe", wire.GetProbe, id.SessionID{}, nil)
}

// Capabilities asks what the server can do.
func (c *Client) Capabilities(ctx context.Context) (wire.Capabilities, error) {
	return read(ctx, c, "ask what the server can do", wire.GetCapabilities, id.SessionID{}, nil)
}

// Create makes a session.
func (c *Client) Create(ctx context.Context, q wire.CreateSession) (wire.Created, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "create a session", wire.PostSession, id.SessionID{}, q)
}

// Prompt asks a strand to run.
func (c *Client) Prompt(ctx context.Context, s id.SessionID, q wire.Prompt) (wire.Prompted, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "prompt", wire.PostPrompt, s, q)
}

// Steer puts a text into what a strand works on, before its next request.
func (c *Client) Steer(ctx context.Context, s id.SessionID, q wire.Steer) (wire.Prompted, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "steer", wire.PostSteer, s, q)
}

// FollowUp puts a text into what a strand works on, for when it would end.
func (c *Client) FollowUp(ctx context.Context, s id.SessionID, q wire.FollowUp) (wire.Prompted, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "follow up", wire.PostFollowUp, s, q)
}

// EditQueued replaces the text of an input that waits.
func (c *Client) EditQueued(ctx context.Context, s id.SessionID, q wire.QueueEdit) (wire.QueueReceipt, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "edit the input", wire.PostQueueEdit, s, q)
}

// CancelQueued takes an input out that waits.
func (c *Client) CancelQueued(ctx context.Context, s id.SessionID, q wire.QueueCancel) (wire.QueueReceipt, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "take the input out", wire.PostQueueCancel, s, q)
}

// Configure changes what the next step of a strand uses.
func (c *Client) Configure(ctx context.Context, s id.SessionID, q wire.Configure) (wire.Configured, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "configure", wire.PostConfig, s, q)
}

// SetMode changes the permission mode of a session, from its next call on.
func (c *Client) SetMode(ctx context.Context, s id.SessionID, q wire.SetMode) (wire.Configured, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "set the mode", wire.PostMode, s, q)
}

// SetModel changes the model of a strand.
func (c *Client) SetModel(ctx context.Context, s id.SessionID, q wire.SetModel) (wire.Configured, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "set the model", wire.PostModel, s, q)
}

// Resume asks to finish an interrupted operation.
func (c *Client) Resume(ctx context.Context, s id.SessionID, q wire.Resume) (wire.Resumed, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "resume", wire.PostResume, s, q)
}

// Abort asks to stop a strand's running operation.
func (c *Client) Abort(ctx context.Context, s id.SessionID, q wire.Abort) (wire.AbortReceipt, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "abort", wire.PostAbort, s, q)
}

// Sessions lists the sessions, newest first.
func (c *Client) Sessions(ctx context.Context) (wire.SessionList, error) {
	return read(ctx, c, "list the sessions", wire.GetSessions, id.SessionID{}, nil)
}

// Search looks for text in sessions.
func (c *Client) Search(ctx context.Context, q wire.Search) (wire.SearchPage, error) {
	return ask(ctx, c, "search", wire.PostSearch, id.SessionID{}, q)
}

// Page reads one page of a session's history; limit is at most [wire.MaxPage]
// frames.
func (c *Client) Page(ctx context.Context, s id.SessionID, from wire.From, limit int) (wire.SessionPage, error) {
	return read(ctx, c, "read the session", wire.GetPage, s, url.Values{"after": {from.String()}, "limit": {strconv.Itoa(limit)}})
}

// Background lists what works, worked and rests beside the conversation.
func (c *Client) Background(ctx context.Context, s id.SessionID) (wire.Background, error) {
	return read(ctx, c, "list what works in the background", wire.GetBackground, s, nil)
}

// StopTask ends what works beside the conversation.
func (c *Client) StopTask(ctx context.Context, s id.SessionID, q wire.StopTask) (wire.StopReceipt, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "stop the task", wire.PostStopTask, s, q)
}

// Pending fetches what waits for a person: the rows that answers are bound to.
func (c *Client) Pending(ctx context.Context, s id.SessionID) (wire.PendingRows, error) {
	return read(ctx, c, "list what waits", wire.GetPending, s, nil)
}

// Decide answers an approval. A refusal is never tried again by itself.
func (c *Client) Decide(ctx context.Context, s id.SessionID, q wire.Decide) (wire.Decided, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "decide", wire.PostDecide, s, q)
}

// Answer answers a question.
func (c *Client) Answer(ctx context.Context, s id.SessionID, q wire.Answer) (wire.Decided, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "answer", wire.PostAnswer, s, q)
}

// DecidePlan answers a plan.
func (c *Client) DecidePlan(ctx context.Context, s id.SessionID, q wire.DecidePlan) (wire.Decided, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "decide about the plan", wire.PostPlan, s, q)
}

// Grants lists what is allowed for the session, the newest first.
func (c *Client) Grants(ctx context.Context, s id.SessionID) (wire.GrantList, error) {
	return read(ctx, c, "list the allowances", wire.GetGrants, s, nil)
}

// ForgetGrant takes an allowance back.
func (c *Client) ForgetGrant(ctx context.Context, s id.SessionID, q wire.ForgetGrant) (wire.Forgotten, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "take the allowance back", wire.PostForget, s, q)
}

// Rules lists the permission rules that hold for a session, strongest first.
func (c *Client) Rules(ctx context.Context, s id.SessionID) (wire.RuleList, error) {
	return read(ctx, c, "list the rules", wire.GetRules, s, nil)
}

// WriteRule writes a permission rule.
func (c *Client) WriteRule(ctx context.Context, s id.SessionID, q wire.WriteRule) (wire.RuleReceipt, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "write the rule", wire.PostRuleWrite, s, q)
}

// RemoveRule removes a permission rule.
func (c *Client) RemoveRule(ctx context.Context, s id.SessionID, q wire.RemoveRule) (wire.RuleReceipt, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "remove the rule", wire.PostRuleRemove, s, q)
}

// Fork makes a session of a conversation, up to an entry of it.
func (c *Client) Fork(ctx context.Context, s id.SessionID, q wire.Fork) (wire.Forked, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "fork", wire.PostFork, s, q)
}

// Navigate moves a strand to an entry; what comes next is said from there.
func (c *Client) Navigate(ctx context.Context, s id.SessionID, q wire.Navigate) (wire.Navigated, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "navigate", wire.PostNavigate, s, q)
}

// Compact sums up what is old in a conversation.
func (c *Client) Compact(ctx context.Context, s id.SessionID, q wire.Compact) (wire.Navigated, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "compact", wire.PostCompact, s, q)
}

// Rewind takes files back to what they were before a message of the person, or says
// what that would do.
func (c *Client) Rewind(ctx context.Context, s id.SessionID, q wire.Rewind) (wire.Rewound, error) {
	q.Key = keyed(q.Key)
	return ask(ctx, c, "rewind", wire.PostRewind, s, q)
}

// Check walks a session and names every broken invariant.
func (c *Client) Check(ctx context.Context, s id.SessionID) (wire.CheckReport, error) {
	return ask(ctx, c, "check the session", wire.PostCheck, s, wire.CheckSession{})
}

// keyed gives a mutation that has no idempotency key one of its own.
func keyed(key string) string {
	if key == "" {
		key = rand.Text()
	}
	return key
}

// ask sends a request of a route.
func ask[Q, R any](ctx context.Context, c *Client, op string, route wire.Route[Q, R], s id.SessionID, q Q) (R, error) {
	return call[R](ctx, c, op, route.Method, route.PathOf(s), wire.Encode(q))
}

// read asks for something that has no request body.
func read[R any](ctx context.Context, c *Client, op string, route wire.Route[struct{}, R], s id.SessionID, query url.Values) (R, error) {
	path := route.PathOf(s)
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return call[R](ctx, c, op, route.Method, path, nil)
}

// call sends one request and reads its answer whole.
func call[T any](ctx context.Context, c *Client, op, method, path string, body []byte) (T, error) {
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
	v, err := wire.DecodeAnswer[T](data)
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
	e, err := wire.DecodeAnswer[wire.ErrorBody](data)
	if err != nil {
		return nil, &Garbled{Op: op, Err: fmt.Errorf("status %d (%s): %w", resp.StatusCode, wire.CoarseOf(resp.StatusCode), err)}
	}
	refused := &Refused{Status: resp.StatusCode, Code: e.Code, Message: e.Message, Issues: e.Issues}
	if row, ok := e.Pending.Get(); ok {
		refused.Pending = &row.Frame
	}
	return nil, refused
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
