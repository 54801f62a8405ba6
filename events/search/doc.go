// Package search finds text in the sessions of a state root.
//
// # Purpose
//
// A person looks for what was said weeks ago, in words, in identifiers, in any script; a
// model looks for what it knew before its context was compacted. Titles are not enough.
//
// # Key types
//
// [Index] is one file beside the sessions: [Open], [Index.Sync] with a [Source],
// [Index.Find] with a [Query], [Index.Remove]. [Hit] is an entry that matches, with an
// [Excerpt].
//
// # Relationships
//
// Imports core and storage/sqlitedb, golang.org/x/text for the forms of characters, and
// uax29 for cuts between graphemes. The host reads sessions and hands the rows in.
//
// # Traffic
//
// Reads and writes its own file and no other. Nothing runs by itself: who asks brings the
// index up to date first, so an idle process wakes up for nothing.
//
// # Invariants
//
//   - The index has no authority. It can be deleted and made again, and then finds the same.
//   - Rows of a session and how far it was read are one transaction. Two processes that
//     index side by side index once, and a crash leaves what one more run completes.
//   - A rewrite of a session is seen by its generation: everything of it is read anew, in
//     one transaction with what is taken out.
//   - A query is text. No character of it is an operator of the database; what cannot be
//     looked for is a [*QueryError] that says why.
//   - Text of people, models and tools is indexed, and summaries. Reasoning, arguments of
//     calls, pictures and records of applications are not.
//   - A row that several sessions have, as forks do, is one hit.
package search
