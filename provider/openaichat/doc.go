// Package openaichat speaks the OpenAI chat-completions dialect, streaming, to OpenAI and to every server that imitates it.
//
// # Purpose
//
// One request becomes one POST to {base}/chat/completions; its event stream becomes deltas and one terminal. The imitators differ from the
// original and from each other in small ways that recorded streams show; each is read by a stated rule here, and nothing is guessed.
//
// # Key types
//
// [Client] is the provider; [Config] and [Limits] make it. Inside, three pure parts do the work: the encoder (request.go), the fold of
// stream chunks (fold.go, calls.go, usage.go) and the reading of refusals (failure.go). The shell that owns the connection is client.go.
//
// # Relationships
//
// Imports provider, provider/sse, core/jsonv, core/message, core/usage, core/corrupt and net/http. Imported by provider/catalogue.
//
// # Traffic
//
// One POST for each call of Stream; no retries, no redirects. Idle connections are kept for the next call and closed by [Client.Close].
//
// # Invariants
//
//   - A key travels in one header, and over plain HTTP to loopback addresses only; that is checked on the connected address too.
//   - The bytes of a request up to the end of its messages are a prefix of the request that continues the same conversation.
//   - A tool call is settled only from an answer that the provider declared complete; its arguments are one JSON object or the marker of
//     message.MalformedArguments. A fragment that belongs to no certain call makes the candidates malformed, never truncated.
//   - Usage buckets are disjoint; the last report wins and is counted once.
//   - Invalid UTF-8 and lone surrogates become U+FFFD, one for each maximal run, and are counted in the message's diagnostics.
//   - What may outlive an attempt is the connection pool's alone: an idle connection, or a handshake that no request uses.
package openaichat
