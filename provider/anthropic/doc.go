// Package anthropic speaks the Anthropic Messages dialect, streaming.
//
// # Purpose
//
// One request becomes one POST to {base}/v1/messages; its named events become deltas and one terminal. Reasoning keeps its signature, what the provider
// ran itself stays opaque and in its place, and prompt caching is asked for where it pays.
//
// # Key types
//
// [Dialect] is what provider/remote speaks through. Inside, two pure parts do the work: the grammar of requests (request.go, cache.go) and the fold of
// events (fold.go, usage.go).
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
//   - The bytes of a request up to the end of its last block are a prefix of the request that continues the same conversation, but for cache marks, which the
//     provider does not count as content.
//   - At most four cache marks, those with the long lifetime first, none on a block of reasoning.
//   - A thinking block is told only with a signature that is the model's own. Where an open batch of calls lacks one, thinking is not asked for, since the
//     provider would refuse the request.
//   - Usage is what was reported last, field by field; nothing is added up. Before the final report it counts as partial.
package anthropic
