// Package automation decides when a strand is told something that nobody says to it
// now: because of what it said itself, or because it is time.
//
// # Purpose
//
// A rule tells a strand its text when the strand says one of the rule's triggers. A
// schedule tells a strand its text at times. What was told is durable with the
// telling, so that a crash, a clock that jumps, or a second process repeats nothing.
//
// # Key types
//
// [Rule] and [Schedule]; [Timing] is when, one of [Every], [Cron] and [At]; [Settings]
// is what a session has of them; [Recorded] is a schedule with the seq of its record.
//
// # Relationships
//
// Imports core, machine, and machine/agency for who is whose and for refusals. The
// engine asks and commits; tools word it for models; config reads the person's part.
//
// # Traffic
//
// Plans transactions over fact.custom rule/fired/ and schedule/, and over the queues of
// the strand that is told; commits none.
//
// # Invariants
//
// The text and the mark that it was told are one transaction, guarded by what was read
// of the mark. A rule is told once to a strand. A schedule tells of an occurrence once,
// never of one before the last that it told of, and of several that were missed it
// tells the latest alone. While what it told last is not read, it tells nothing more.
// Every schedule ends, by number and by time.
package automation
