// Package provider is the one way a model is asked: a neutral request in, deltas while it answers, exactly one terminal.
//
// # Purpose
//
// Every model, remote or embedded, is a [Provider]. What is above it never sees a vendor's JSON, and a dialect never sees a session.
//
// # Key types
//
// [Request] with its [Model] and [Tool] list; the sealed [Delta]; [Provider]; [Error] with its closed [Class] words; [Secret].
//
// # Relationships
//
// Imports core/jsonv, core/message and the standard library's pure packages. The dialects and the embedded models import this package.
// The package catalogue chooses between them. The engine imports this package and is given a Provider.
//
// # Traffic
//
// None of its own. A dialect sends one HTTP request per call of Stream at most: retries belong to the operation machine, which must
// commit an intent before each.
//
// # Invariants
//
//   - One call of Stream has one outcome: a settled message or an [*Error], never both, never neither.
//   - The sink runs on the goroutine that called Stream, and never after Stream returned.
//   - Deltas are for drawing. What counts is the terminal.
//   - When Stream returns, the attempt is over: its body is closed and nothing of it runs on, so a join is the proof of a cancellation.
//   - A settled message never has the stop reason pending; its usage says what is known about it.
//   - No error text holds a key.
package provider
