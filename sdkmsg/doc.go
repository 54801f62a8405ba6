// Package sdkmsg is the vocabulary of transcript messages that programs and screens
// for coding agents already speak: one JSON object a line.
//
// # Purpose
//
// What should still be visible after a restart is kept in these messages, so that a
// transcript of ours can be read by whoever reads that vocabulary, and one of theirs
// by us. No name of it is on the wire: the wire is neutral, and the client runtime is
// the one place where its facts become messages.
//
// # Key types
//
// [Line] is one line: a [Message] with its id and session. The messages are
// [Assistant], [User], [Result] and the system ones ([Init], [CompactBoundary],
// [Informational], [PermissionDenied], [TaskNotification]); a [Block] is a part of
// what was said. [Unknown] and [UnknownBlock] keep what this build does not know,
// whole.
//
// What the vocabulary has no place for stands under one key of its own, loom, in a
// type for each message: no key of ours can meet one that the vocabulary gets later,
// and none is ever inside a block that goes back to a model.
//
// # Relationships
//
// Imports the JSON value, the closed words and the codec. Knows neither the wire nor
// the client runtime; both planes of it are made above.
//
// # Traffic
//
// None.
//
// # Invariants
//
//   - What is encoded decodes to the same line.
//   - Decoding is lenient about what is missing and strict about what is there: a
//     known message with a field of a wrong type is a corruption report, a message of
//     an unknown type is kept.
//   - What is absent, null and zero are three things: [Text] and pointers hold them
//     apart. A cost that nobody knows is absent and never 0.
package sdkmsg
