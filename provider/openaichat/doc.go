// Package openaichat speaks the OpenAI chat-completions dialect, streaming, to OpenAI and to every server that imitates it.
//
// # Purpose
//
// One request becomes one POST to {base}/chat/completions; its event stream becomes deltas and one terminal. The imitators differ from the
// original and from each other in small ways that recorded streams show; each is read by a stated rule here, and nothing is guessed.
//
// # Key types
//
// [Dialect] is what provider/remote speaks through. Inside, two pure parts do the work: the grammar of requests (request.go) and the fold of stream
// chunks (fold.go, calls.go, usage.go).
//
// # Relationships
//
// Imports provider, provider/dialect, provider/remote, provider/sse, core/jsonv, core/message and core/usage. Imported by provider/catalogue.
//
// # Traffic
//
// None of its own; see provider/remote.
//
// # Invariants
//
//   - The bytes of a request up to the end of its messages are a prefix of the request that continues the same conversation.
//   - A fragment of arguments that belongs to no certain call makes the candidates malformed, never truncated.
//   - Usage buckets are disjoint; the last report wins and is counted once.
//   - Invalid UTF-8 and lone surrogates become U+FFFD, one for each maximal run, and are counted in the message's diagnostics.
package openaichat
