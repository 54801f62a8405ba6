// Package gemini speaks the Gemini generateContent dialect, streaming.
//
// # Purpose
//
// One request becomes one POST to {base}/models/{id}:streamGenerateContent; its stream of whole responses becomes deltas and one terminal. Any part of an
// answer may be signed, and is told back with its signature on the same part.
//
// # Key types
//
// [Dialect] is what provider/remote speaks through. Inside, two pure parts do the work: the grammar of requests (request.go) and the fold of
// responses (fold.go, partial.go, usage.go).
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
//   - A signed part is a block of its own: it is not joined with text before or after it.
//   - Calls without ids get one each, and their results are told in the order of the calls.
//   - Arguments that come in pieces are put together by their paths; a piece whose path is not understood makes its call malformed.
//   - Thought tokens are beside those of the answer in a report, and are counted once, as output.
//   - A prompt that was refused fails as refused, not as an answer that broke off.
package gemini
