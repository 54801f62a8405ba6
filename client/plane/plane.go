// Package plane is the vocabulary of what the client runtime puts out: messages
// that are kept and events that pass.
//
// # Purpose
//
// A client that mixes history with decoration loses one or repeats the other
// after a restart. Here each output is on one of two planes, by one criterion:
// what should still be visible after a restart is [Transcript], the rest is
// [Chrome].
//
// # Key types
//
// [Output] is sealed: [Transcript] holds a [Message] under a derived [MessageID],
// [Chrome] holds an [Event] under a [Proof] of its lane. [Watch] is the lane a
// client follows and the only mint of proofs. [Count] and [Tally] are numbers
// that know how well they are known; [Verdict] is what becomes of a streamed
// segment; [Ending] is how a run ended, or that its end was not seen.
//
// # Relationships
//
// Imports wire and core. A leaf of the client runtime: client decides, hosts
// draw.
//
// # Traffic
//
// None.
//
// # Invariants
//
//   - Neither plane's values construct outside this package except through their
//     constructors, and those ask for a proof. A zero value is not [Output.Valid].
//   - A proof comes from a frame of the watched lane. A frame of another session,
//     strand or operation has none, so nothing of it can be drawn.
//   - The same frame gives the same message ids each time. The derivation is not
//     promised, so nobody may read anything out of an id.
package plane

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/wire"
)

// Output is one of [Transcript] and [Chrome].
type Output interface {
	// Valid reports whether the output was made by its constructor.
	Valid() bool
	output()
}

// Watch names the lane that a client follows.
type Watch struct {
	Session id.SessionID
	Strand  string
	// Operation limits the watch to one run; absent follows the strand.
	Operation id.OpID
}

// Proof shows that something belongs to a watched lane. Only [Watch] mints one;
// the zero Proof proves nothing.
type Proof struct {
	session id.SessionID
	strand  string
}

// Valid reports whether p was minted.
func (p Proof) Valid() bool { return !p.session.IsZero() }

// Prove mints the proof of a frame that belongs to the lane. It fails closed: a
// watch without a session follows nothing. Frames of the whole session belong
// to each of its strands, and committed entries to whichever operation is
// watched, since they do not say which one wrote them. A lane that this build does
// not know proves nothing.
func (w Watch) Prove(f wire.Frame) (Proof, bool) {
	switch f.Lane {
	case wire.LaneMain, wire.LaneAgent, wire.LaneSession:
	case wire.LaneWorkflow, wire.LaneBackground:
		return Proof{}, false // no strand's
	default:
		return Proof{}, false // nobody's, as far as this build knows
	}
	switch {
	case w.Session.IsZero() || f.Session != w.Session:
		return Proof{}, false
	case f.Strand != "" && f.Strand != w.Strand:
		return Proof{}, false
	case !w.Operation.IsZero() && !f.Operation.IsZero() && f.Operation != w.Operation:
		return Proof{}, false
	}
	return Proof{session: w.Session, strand: w.Strand}, true
}

// Self mints the proof for what the runtime itself says about the watched lane,
// such as that its stream broke.
func (w Watch) Self() (Proof, bool) {
	if w.Session.IsZero() {
		return Proof{}, false
	}
	return Proof{session: w.Session, strand: w.Strand}, true
}

// MessageID names a transcript message. It has the shape of a UUID.
type MessageID [16]byte

// String returns the lower-case text 8-4-4-4-12.
func (m MessageID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], m[0:4])
	b[8] = '-'
	hex.Encode(b[9:13], m[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], m[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], m[8:10])
	b[23] = '-'
	hex.Encode(b[24:36], m[10:16])
	return string(b[:])
}

// derive makes the id of message n of a frame.
func derive(f wire.Frame, n int) MessageID {
	h := sha256.New()
	for _, part := range [...]string{"loom message", f.Session.String(), f.ID, strconv.Itoa(n)} {
		h.Write([]byte(strconv.Itoa(len(part))))
		h.Write([]byte{':'})
		h.Write([]byte(part))
	}
	var m MessageID
	copy(m[:], h.Sum(nil))
	m[6] = m[6]&0x0f | 0x80 // version 8: a scheme of our own
	m[8] = m[8]&0x3f | 0x80
	return m
}

// Transcript is an output that is kept.
type Transcript struct {
	id      MessageID
	proof   Proof
	message Message
}

// Keep makes transcript message n of a frame.
func Keep(p Proof, f wire.Frame, n int, m Message) Transcript {
	if !p.Valid() {
		return Transcript{}
	}
	return Transcript{id: derive(f, n), proof: p, message: m}
}

// ID returns the derived id.
func (t Transcript) ID() MessageID { return t.id }

// Message returns what is kept.
func (t Transcript) Message() Message { return t.message }

// Valid implements [Output].
func (t Transcript) Valid() bool { return t.proof.Valid() && t.message != nil }

func (Transcript) output() {}

// Chrome is an output that passes.
type Chrome struct {
	proof Proof
	event Event
}

// Show makes a chrome event.
func Show(p Proof, e Event) Chrome {
	if !p.Valid() {
		return Chrome{}
	}
	return Chrome{proof: p, event: e}
}

// Event returns what is shown.
func (c Chrome) Event() Event { return c.event }

// Valid implements [Output].
func (c Chrome) Valid() bool { return c.proof.Valid() && c.event != nil }

func (Chrome) output() {}

// With returns a chrome output of the same lane with another event.
func (c Chrome) With(e Event) Chrome { return Show(c.proof, e) }
