// Package route makes one provider of a chain of models: when one cannot answer now, the next is asked.
//
// # Purpose
//
// A role names models, best first. A request goes to the first; where it fails for a reason of the moment and nothing of its answer has been shown, it goes
// to the next, within the same attempt. What each request consumed is priced by the card of the model that consumed it.
//
// # Key types
//
// [Chain] is the provider, made of [Link] values.
//
// # Relationships
//
// Imports provider, provider/price, core/message and core/jsonv. Imported by provider/catalogue.
//
// # Traffic
//
// One request for each link that is asked. No waiting and no second request to a model: that is the operation machine's, with an intent before each attempt.
//
// # Invariants
//
//   - The first link is asked first, always; nothing is remembered of its health.
//   - A missing key ends the walk: whoever forgot one wants to know it, and not pay somebody else.
//   - What was shown of an answer is never followed by another answer's beginning: a request that showed something is the last of its attempt.
//   - A request that failed is told with what it consumed before the next is made.
//   - An answer is signed by the model that gave it, and carries in its diagnostics whom it stands in for.
package route
