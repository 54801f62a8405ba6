// Package words holds the closed sets of words that the engine side and the
// client side share.
//
// # Purpose
//
// How a call was denied, why a run ended or what state a background task is in is
// said in one word on both sides of the wire, and later read in another process
// by another build. Each set is owned here, once: who mints a word and who reads
// it use the same table, so neither can have one that the other lacks. There are
// no sentences here; how a word is told to a person is a client's matter.
//
// # Key types
//
// Each set has a string type of its own, a constant for each word, and a [Table]
// in the order in which words are listed. [Table.Parse] reads one. [Tables] is
// all of them, for those who print or check them. [Family] and [AudienceOf] are
// the two facts that hang on a word.
//
// # Relationships
//
// A leaf: imports nothing of this module.
//
// # Traffic
//
// None.
//
// # Invariants
//
//   - In a table no word is empty and none stands twice.
//   - A word that is not in its table stays itself: types are strings, and a
//     reader keeps what it does not know verbatim. It is never folded into a
//     neighbour, and never counts as the most harmless one.
//   - A row names the packages that mint its word. A test of the house compares
//     them with the code in both directions, so a word that nothing mints says so.
//     The reference of the wire lists all of this and is rewritten by `make docs`.
package words
