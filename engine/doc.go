// Package engine executes what machine decides, one session at a time.
//
// # Purpose
//
// Input is accepted or queued by one transaction; a driver for each strand then
// loads registers, asks machine.NextAction, and commits, dispatches an effect,
// waits or finishes. After a crash the same loop reads the same registers, so
// recovery is the first pass after an opening and has no code of its own.
//
// # Key types
//
// [Engine] is one open session; [Config] its ports ([Models], [Toolbox], clock,
// entropy, timers); [Driver] is the loop of one strand, callable pass by pass
// with [Driver.Step]; [Fact] is what an observer is told.
//
// # Relationships
//
// Imports core, machine, session, storage and provider. Tools and the broker
// come in through [Toolbox].
//
// # Traffic
//
// The only committer of an open session after boot. Publishes facts to one
// observer, in order. Facts are for display and for knowing that something
// changed: nobody may act on their content.
//
// # Invariants
//
// An effect starts only after its intent is durable. Its outcome is accepted only
// by the driver that started it; an intent without a live effect is reported to
// the machine as orphaned. What comes from outside, a response or a result, is
// made storable before it meets a commit. A clearance is run or given back. An
// abort is durable before effects are cancelled.
//
// A stale expectation reloads and plans again; a lost lease, a fault of the store
// and a machine fault stop the strand and repair nothing. Closing is to the
// session what a crash would be, and leaves nothing running.
package engine
