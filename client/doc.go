// Package client is the client-side runtime that every human surface shares: it
// turns the frames of a session into what is kept and what is shown.
//
// # Purpose
//
// What happens on the wire has one reading, here, so that a headless run, a
// terminal and a browser cannot disagree about what was said, what it cost and
// how it ended. Hosts are left with drawing.
//
// # Key types
//
// [State] and [State.Step] are the pure core: one frame in, outputs of the two
// planes (package client/plane) out, by a table of arms. What a frame means is
// asked of package client/project. [State.Export] and [State.Import] carry a state
// over a restart, and [Rebuild] makes one from a stored transcript. [Run] is the one
// driver: it pulls frames, merges live text, and holds the timers and races, through
// [Ports]. [Drop] records a frame that had no place.
//
// # Relationships
//
// Imports client/plane, client/project, sdkmsg, wire and core. Knows no transport and
// no host.
//
// # Traffic
//
// Sends nothing but the abort that its port carries out.
//
// # Invariants
//
//   - Step reads no clock and starts nothing. The same frames give the same
//     outputs, however the stream was cut by reconnects.
//   - A run ends visibly exactly once: with the cause that was committed, or as
//     lost when none was seen. No output follows.
//   - A frame without an arm, and a frame that breaks the contract, are dropped
//     under different words, and counted.
//   - The pieces of a segment's live text, put together, are a prefix of what
//     the segment's deltas said. A gap stops them.
//   - What was told is not told again after a restart, and the memory does not grow
//     with the frames.
//   - A port that is not given is an ability that is off.
package client
