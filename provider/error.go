package provider

import (
	"context"
	"slices"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
)

// Class says what kind of failure ended an attempt.
type Class string

// The closed set of classes.
const (
	// Transport: the provider was not reached this time, or the connection broke before it answered.
	Transport Class = "transport"
	// Disconnect: the answer ended before the provider said that it was complete.
	Disconnect Class = "disconnect"
	// RateLimit: too many requests for now.
	RateLimit Class = "rate_limit"
	// Overloaded: the provider has no capacity for now.
	Overloaded Class = "overloaded"
	// Server: the provider failed on its own side.
	Server Class = "server"
	// Deadline: a time limit of the attempt passed; Detail names it.
	Deadline Class = "deadline"

	// Unreachable: there is no connection to the address, and this process never had one. That is a wrong address, or a server that is
	// not on, more likely than a bad moment; Detail names a passed limit.
	Unreachable Class = "unreachable"
	// Overflow: the request does not fit the model's context window.
	Overflow Class = "overflow"
	// Quota: the account has no credit left, so waiting does not help.
	Quota Class = "quota"
	// Auth: the key was refused.
	Auth Class = "auth"
	// NotFound: no such model, or no such path at the base URL.
	NotFound Class = "not_found"
	// InvalidRequest: the provider refused the request as it stands.
	InvalidRequest Class = "invalid_request"
	// Refused: the provider withheld the answer by its content rules.
	Refused Class = "refused"
	// MalformedStream: the provider's bytes are not what its dialect promises, or pass a bound.
	MalformedStream Class = "malformed_stream"
	// UnmappedStopReason: the provider ended the answer for a reason that this dialect does not know; Detail holds it.
	UnmappedStopReason Class = "unmapped_stop_reason"
	// MissingKey: the key was not configured, so nothing was sent.
	MissingKey Class = "missing_key"
	// Cancelled: the caller ended the attempt.
	Cancelled Class = "cancelled"
)

var classes = []Class{
	Transport, Disconnect, RateLimit, Overloaded, Server, Deadline,
	Unreachable, Overflow, Quota, Auth, NotFound, InvalidRequest, Refused, MalformedStream, UnmappedStopReason, MissingKey, Cancelled,
}

// Classes returns every class.
func Classes() []Class { return slices.Clone(classes) }

// Known reports whether c is one of the classes.
func (c Class) Known() bool { return slices.Contains(classes, c) }

// Retryable reports whether the same request may succeed later. It follows from the class alone: a new attempt is worth its cost when the
// failure was about the moment and not about the request.
func (c Class) Retryable() bool {
	switch c {
	case Transport, Disconnect, RateLimit, Overloaded, Server, Deadline:
		return true
	case Unreachable, Overflow, Quota, Auth, NotFound, InvalidRequest, Refused, MalformedStream, UnmappedStopReason, MissingKey, Cancelled:
	}
	return false
}

// The details of class [Deadline] and of a connection that took too long: which limit passed.
const (
	LimitConnect   = "connect"    // class Transport or Unreachable: no connection in time
	LimitFirstByte = "first_byte" // connected, no answer in time
	LimitIdle      = "idle"       // the answer stalled
	LimitTotal     = "total"      // the whole attempt took too long
	LimitCaller    = "caller"     // the deadline of the context that Stream was given
)

// Error is a failed attempt.
type Error struct {
	Class Class
	// Status is the HTTP status, or the status that an error inside a stream states; 0 when there was none.
	Status int
	// Detail refines the class in the words of the field that it comes from: the passed limit, the provider's error code, the raw stop reason.
	Detail string
	// Message is one sentence for people. It holds no key and at most a bounded excerpt of what the provider said.
	Message string
	// RetryAfterMs is the provider's hint how long to wait; nil when it gave none.
	RetryAfterMs *int64
	// Unsent says that no part of the request left this machine, so that nothing can have been billed.
	Unsent bool
	// Partial is what was received, with the usage that was reported: stop reason aborted for class Cancelled, otherwise error.
	// Incomplete tool calls are not in it. Nil when nothing was received.
	Partial *message.Assistant
	// Asked is the model of the request where that is not certain to be the request's own: a chain walks from one to the next. The zero Model says nothing.
	Asked Model
}

func (e *Error) Error() string { return e.Message }

// Retryable reports whether the same request may succeed later.
func (e *Error) Retryable() bool { return e.Class.Retryable() }

// Spent is what the failed request consumed, as far as that is known.
func (e *Error) Spent() usage.Usage {
	switch {
	case e.Partial != nil:
		return e.Partial.Usage
	case e.Unsent, e.Class == MissingKey, e.Class == Unreachable:
		return usage.Zero()
	}
	return usage.Unknown(usage.API)
}

// Is lets errors.Is match the context's own errors.
func (e *Error) Is(target error) bool {
	switch target {
	case context.Canceled:
		return e.Class == Cancelled
	case context.DeadlineExceeded:
		return e.Class == Deadline
	}
	return false
}
