// Package project holds the readings of the client runtime: what the facts of the
// wire mean, each decided once.
//
// # Purpose
//
// How a segment ends, how a run ended, who refused a call, what was consumed, which
// tools there are: every surface has to know, and two readings drift. Each is one
// pure function or a small value here, over the frames and over a stored transcript
// alike.
//
// # Key types
//
// [Decide] and [Ledger] settle streamed text. [TerminalOf] reads an ending,
// [BucketOf] a gate, [Measure] usage. [Tools] holds the roster, [FirstLine] keeps a
// run's first line back until its tools are known. [CardOf] makes a card of a call
// and its result, [Hunks] a difference of two texts. [Registered] and [AgentReport]
// read what works in the background, [ReadRoots] which directories may be read.
// [Conversation] folds a transcript into what a person sees.
//
// # Relationships
//
// Imports wire, sdkmsg, client/plane and client/say. Package client and hosts ask it.
//
// # Traffic
//
// None.
//
// # Invariants
//
//   - Readers are total: whatever is sent, they answer, and never with a neighbour's
//     word. Absent, unreadable, none and zero stay apart.
//   - What a tool says to programs beats what it says in prose, and prose is never
//     read for a fact that the structure has.
//   - Nothing here changes a block that goes back to a model.
package project
