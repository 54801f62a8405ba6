// Package openairesponses speaks the OpenAI Responses dialect, streaming.
//
// # Purpose
//
// One request becomes one POST to {base}/responses, which stores nothing at the provider: the conversation is told in full each time, with the
// encrypted reasoning that the model left in it. The stream of items and parts becomes deltas and one terminal.
//
// # Key types
//
// [Dialect] is what provider/remote speaks through. Inside, two pure parts do the work: the grammar of requests (request.go) and the fold of
// events (fold.go, item.go, usage.go).
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
//   - Parts of an item are told apart by its index in the output: proxies change ids from event to event.
//   - The text that the provider declares done counts, and what deltas said before it at most agrees. Arguments that contradict themselves make their
//     call malformed, and calls that the closing list has and the stream had not fail the answer.
//   - Items of a kind that is not known are kept as they are and never run. Content of an unknown kind inside a known item fails the answer rather than
//     getting lost.
//   - A stream that is attached to again repeats nothing: events up to the last sequence number that was seen are skipped.
//   - Reasoning is told back only with its encrypted content, and only ahead of something that follows from it.
package openairesponses
