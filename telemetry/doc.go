// Package telemetry measures requests to models, tools and commits, and sends what it measured to an OpenTelemetry collector.
//
// # Purpose
//
// Spans and metrics by the semantic conventions of generative AI, over OTLP in JSON, where somebody configured a collector. Where nobody did, a measurement
// costs a comparison with nil.
//
// # Key types
//
// [Meter] is one connection to a collector, made by [New]; nil measures nothing. [Meter.Session] is the [Scope] that a room is given, of which the zero value
// measures nothing either. A Scope begins a [Request], a [Tool] or a [Commit], and each is ended once.
//
// # Relationships
//
// Imports core/id, core/message, core/accounting and core/jsonv. Imported by the engine, which measures, and by node, which builds.
//
// # Traffic
//
// Requests to the collector, in the background: every few seconds, and at the end for a moment.
//
// # Invariants
//
//   - Nothing of what is said passes: no prompt, no answer, no argument, no output, no path, no error text. There are names, numbers and words of closed sets.
//   - Whoever measures never waits and never fails. What finds no room is dropped and counted; a collector that fails is told once.
//   - What is not known is absent: a count of tokens that nobody reported is no zero.
package telemetry
