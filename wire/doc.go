// Package wire is the contract between the engine side and every client: the
// frames that tell what happens in a session, and the requests that make it
// happen.
//
// # Purpose
//
// A terminal, a headless run, an editor and a browser see one session through
// the same frames. The wire carries neutral facts only (what was said, called,
// measured, decided); how a fact is drawn or worded is a client's matter.
//
// # Key types
//
// [Frame] is one fact: an envelope and a sealed [Body] per [Kind]. [Delivery]
// says which of three promises a frame makes, [Lane] what kind of work it belongs
// to. [Cursor] is a position in the replayable part of a session, [From] is where
// a subscription starts. [Cause] is how a run ended, [Pending] what waits for a
// person, [Stated] a fact that may be absent, none, unreadable or there. A [Route]
// is one thing that can be asked, with the types of its request and answer;
// [Routes] is all of them. A refusal is an [ErrorBody] with a closed [Code].
// [Capabilities] says what a server has of all this.
//
// # Relationships
//
// Imports core and wire/shape, its codec. Known to server and to clients; nothing
// between them imports it.
//
// # Traffic
//
// JSON bodies over HTTP; frames as Server-Sent Events (see [AppendEvent] and
// [EventReader]). This package does no I/O of its own.
//
// # Invariants
//
//   - A frame has a cursor exactly when its delivery is replay.
//   - The same durable row gives the same frames, with the same ids, each time.
//   - Every decoder is total. A frame of a kind that this build does not know
//     keeps its kind and raw body ([Unknown]); a known kind whose body breaks
//     the contract is kept apart from that ([Broken]), because the first is our
//     age and the second is the other side's fault.
//   - Turn ends always carry usage, and run ends always carry a cause.
//   - Every request that changes something carries an idempotency key.
//   - The contract is larger than any engine. What an engine has none of is said in
//     its capabilities, and asking for it is refused as unsupported.
//   - Absent, unknown and zero are three things: a cost that nobody knows is
//     absent, and a usage that nobody measured says so.
package wire

// Version is the version of this contract; it is part of every path.
const Version = 1
