// Package agency decides what agents may do with each other. It does nothing itself.
//
// # Purpose
//
// An agent may start another one, wait for it, talk to it and leave notes. Who may
// do what to whom, under which name, for how long and with which tools follows
// from durable records that the host writes, never from what a model says of
// itself. An agent of one session may write to one of another where their owner
// granted it. This package has those records and the decisions over them.
//
// # Key types
//
// [Caller] is where a call stands; [Lineage], [Run] and [Sent] are the records, with
// their keys; [Limits] bounds what may be started; [Contract] is the shape that a
// result was asked for in; [Link], [Letter] and [Receipt] are what goes between
// sessions, and [Delivery] what is known of it; [Refusal] is a no that a model can read.
//
// # Relationships
//
// Imports core and machine. The engine carries out what is planned here, tools word
// it for models.
//
// # Traffic
//
// Plans transactions; commits none. The records are cells of fact.custom under
// lineage/, child-run/, result-schema/, sent/ and peer/, which no tool writes, and notes
// under agent/{strand}/.
//
// # Invariants
//
// The name of a child is a function of the call that asked for it, so a call that is
// made again finds the child of the first time. A strand without a lineage is
// nobody's child and nobody's descendant. What one transaction does is there
// wholly: a child exists with its lineage, contract, budget and brief, and a message
// is queued together with the mark that says so. A letter is delivered once, by its id,
// and only under a grant that stands at that commit; its author is the strand that the
// host knows it from.
package agency
