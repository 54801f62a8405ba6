// Package remote makes one attempt at a model over HTTP: it owns the connection, the limits of time, and the reading of whatever comes back.
//
// # Purpose
//
// The dialects are pure. This is the thin shell around them: it sends what a dialect encodes, feeds the bytes of the answer to the dialect's fold, and
// turns everything that can go wrong on the way into one sentence that names the route and the next step.
//
// # Key types
//
// [Dialect] and [Fold] are what a dialect brings. [Client] is the provider; [Config] and [Limits] make it.
//
// # Relationships
//
// Imports provider, provider/dialect, provider/sse, core/jsonv, core/message and net/http. The dialects import this package, and provider/catalogue.
//
// # Traffic
//
// One POST for each call of Stream; no retries, no redirects. Idle connections are kept for the next call and closed by [Client.Close].
//
// # Invariants
//
//   - A key travels in the headers of its dialect, and over plain HTTP to loopback addresses only; that is checked on the connected address too. It is in no
//     error.
//   - Every phase of an attempt has a limit of its own with an error of its own, and the whole has one more.
//   - What is read is bounded: the stream, each line and event of it, an answer that was not streamed, and the body of a refusal.
//   - What may outlive an attempt is the connection pool's alone: an idle connection, or a handshake that no request uses.
package remote
