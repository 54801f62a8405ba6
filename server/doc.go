// Package server is the engine side's end of the wire: it opens sessions for
// clients, carries out their requests, and turns what was committed into frames.
//
// # Purpose
//
// A client sees a session as frames with positions. The server makes them from
// rows, never from what an event claims, so that a client that was away reads the
// same as one that was there.
//
// # Key types
//
// [Server] is the handler and the sessions it holds open. [Host] opens sessions
// and is what the composition root implements, with [Resident] for a session that
// can run and [Reader] for one that is only read. [Source] is the replayable part
// of a session; [FromSession] makes one. [Refusal] is a no with its code.
//
// # Relationships
//
// Imports engine for its facts, session, storage and core for rows, and wire. The
// only package above the engine that knows the wire.
//
// # Traffic
//
// The routes of the contract, in memory or on a socket that only the user can open:
// those that its capabilities name. Others of the contract are refused as
// unsupported. Commits nothing.
//
// # Invariants
//
//   - Replay frames are a pure function of the rows, so every subscriber, at any
//     time, from any cursor, gets the same ones.
//   - A slow subscriber loses live frames, counted and told, and nothing else:
//     that something was committed is a flag with a position, not an event.
//   - The observer of the engine never waits for a subscriber.
//   - A request with an idempotency key is carried out once, for as long as this
//     process lives and the key is among the newest.
//   - An answer of a person is bound to the call and the input that were shown; the
//     first one counts, and an observer's is refused.
//   - The position that a stream begins at is in its header before any frame.
package server
