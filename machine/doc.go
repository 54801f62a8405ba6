// Package machine decides what a session does next. It does nothing itself.
//
// # Purpose
//
// Whatever happened (a crash, an abort, a lost race), the next step of an
// operation is a pure function of durable state: [NextAction] takes what the
// registers say and one observation, and answers with one [Action]. So the same
// code drives a fresh run, a resumed one and a simulation.
//
// # Key types
//
// [Operation] and [State] are the whole program counter of one operation and are
// stored as two registers. [Configuration], [StrandState], [LastResult],
// [PendingEntry], [Preparation] are the payloads of the other registers.
// [Inputs] is what a pass has loaded; [Observation] what an effect reported;
// [Action] what to do. [AcceptRun], [Admit], [Withdraw] and [RequestAbort] plan
// the commits that come from outside.
//
// # Relationships
//
// Imports core only.
//
// # Traffic
//
// Plans transactions over op.*, strand.*, pending.entry and the tree; commits
// none. Every transaction expects op.state at the seq that was read.
//
// # Invariants
//
// Total: every state and observation has an answer, a [Fault] where they do not
// fit. An effect is dispatched only by a transaction that makes its intent
// durable, under ids reserved in it; its outcome lands with the next state in
// one transaction. There is no finished state: the terminal transaction deletes
// the operation's registers.
package machine
