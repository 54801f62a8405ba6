// Package shape is the one codec of the wire's types: a Go struct whose fields
// carry a tag is a JSON object, and nothing is written by hand for it.
//
// # Purpose
//
// The contract has some hundred types. A pair of functions for each would be a
// place for each to differ; here a type is its fields, and encoding, decoding,
// the JSON Schema and the reference page are made from them.
//
// # Key types
//
// [Append] and [Decode] are the codec, [Exact] the decoder of requests. [Of]
// describes a type as a [Desc], from which schemas, pages and test values are
// made. [Text] and [Sum] teach the codec a scalar and a sealed sum; a [Custom]
// type has a codec of its own.
//
// A field is `wire:"name,option..."`:
//
//	opt       the zero value is left out, and what is absent reads as it.
//	          Pointers are optional without it. Null reads as absent.
//	word      text of 1 to 512 bytes
//	nonempty  text of at least one byte
//	max=N     text of at most N bytes; K and M are 2^10 and 2^20
//	min=N     a count of at least N
//	lenient   a pointer whose malformed value reads as absent, but not in a request:
//	          it explains the rest and does not change it
//
// An embedded struct lends its fields. Integers are counts, 0 to 2^53-1, so that
// they are exact in every client language. A type with a method Check is asked
// what its fields say together.
//
// # Relationships
//
// Imports core/corrupt, core/jsonv and core/words. Knows none of the types.
//
// # Traffic
//
// None.
//
// # Invariants
//
//   - Decoding is total: it returns a whole value or a [*corrupt.Report].
//   - What was decoded encodes to what decodes to the same value.
//   - A field that a reader does not know is passed over by Decode and refused by
//     Exact; a word that its table does not have is kept by Decode and refused by
//     Exact.
//   - A type that cannot be a shape panics when it is first used, which any test of
//     its package does.
package shape
