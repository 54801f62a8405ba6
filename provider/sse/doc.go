// Package sse parses a Server-Sent Events byte stream, incrementally and without any I/O.
//
// # Purpose
//
// Model providers answer with an event stream. This package turns its bytes into events by the rules of the
// WHATWG event-stream format, so that a dialect above it only ever sees whole events. It is a parser and nothing else:
// it opens nothing, waits for nothing and reconnects nowhere.
//
// # Key types
//
// [Parser] takes chunks and appends [Event] values. [Limits] bounds what it keeps; [LimitError] says which bound
// was passed.
//
// # Relationships
//
// Imports the standard library's pure packages only. Every streaming dialect under provider uses it.
//
// # Traffic
//
// None.
//
// # Invariants
//
//   - The events are a function of the bytes: any cut into chunks, down to single bytes, gives the same events, and the same
//     error after them.
//   - Memory is bounded by Limits.Line + Limits.Event, whatever the peer sends.
//   - An error is final: later chunks give no event and the same error.
//   - An event that the stream does not end with a blank line is never given out.
//   - Bytes are passed on as they came; valid UTF-8 is not required here.
package sse
