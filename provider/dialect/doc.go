// Package dialect is what the dialects of model providers have in common, as pure functions: how a stored conversation is told, how an answer is
// assembled, and how a refusal is worded.
//
// # Purpose
//
// The dialects differ in their JSON and agree in everything that protects a conversation: which results follow which calls, whose signatures are
// valid, when an answer counts as complete, what a broken one leaves. Those rules stand here once, and each dialect only reads and writes its own shapes.
//
// # Key types
//
// [Answer] and its [Block] assemble an answer. [Arrange] makes [Turn] values of a conversation, which a [Grammar] writes and a [History] remembers.
// [Peer] words failures; [Stated] is an error in a provider's words.
//
// # Relationships
//
// Imports provider and the core packages that it reads and yields. The dialects and provider/remote import this package.
//
// # Traffic
//
// None.
//
// # Invariants
//
//   - The same events give the same deltas and the same message. A block has its place in the content from its first delta on, and keeps it.
//   - A call is settled only from an answer that the provider declared complete. Its arguments are one JSON object or the marker of
//     message.MalformedArguments; a call that the limit of length cut is the latter, whatever its text.
//   - Every call that is told has exactly one result, directly after it, under an id that no other call of the request has.
//   - A signature is told only to the model that made it, in the dialect that it was made in.
//   - The turns of a request are a prefix of those of the request that continues the conversation.
package dialect
