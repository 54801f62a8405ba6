// Package plane is the vocabulary of what the client runtime puts out: messages
// that are kept and events that pass.
//
// # Purpose
//
// A client that mixes history with decoration loses one or repeats the other
// after a restart. Here each output is on one of two planes, by one criterion:
// what should still be visible after a restart is [Transcript], the rest is
// [Chrome]. Messages of the transcript are those of package sdkmsg.
//
// # Key types
//
// [Output] is sealed: [Transcript] holds a message under a derived [MessageID],
// [Chrome] holds an [Event]; both under a [Proof] of their lane. [Watch] is what a
// client follows, and the only mint of proofs. [Count] and [Tally] are numbers
// that know how well they are known; [Verdict] is what becomes of a streamed
// segment; [Ending] is how a run ended, or that its end was not seen.
//
// # Relationships
//
// Imports wire, sdkmsg and core. A leaf of the client runtime: client decides,
// hosts draw.
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
	"github.com/loom-run/loom/sdkmsg"
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
	lane    wire.Lane
	task    string
}

// Valid reports whether p was minted.
func (p Proof) Valid() bool { return !p.session.IsZero() }

// Lane is the lane that is proven.
func (p Proof) Lane() wire.Lane { return p.lane }

// Task is the task that is proven; empty for the conversation and for the session as
// a whole.
func (p Proof) Task() string { return p.task }

// Prove mints the proof of a frame that belongs to what is watched. It fails closed:
// a watch without a session follows nothing, a lane that this build does not know
// proves nothing, and neither does a frame that does not say whose it is: one of a
// conversation needs its strand, one of a task its task, and what the frame is
// about has to be at home on its lane. Frames of the whole session belong to each
// of its strands, and committed entries to whichever operation is watched, since
// they do not say which one wrote them.
func (w Watch) Prove(f wire.Frame) (Proof, bool) {
	if w.Session.IsZero() || f.Session != w.Session {
		return Proof{}, false
	}
	if f.Strand != "" && f.Strand != w.Strand {
		return Proof{}, false
	}
	if !w.Operation.IsZero() && !f.Operation.IsZero() && f.Operation != w.Operation {
		return Proof{}, false
	}
	owned := false
	switch f.Lane {
	case wire.LaneMain, wire.LaneAgent:
		owned = f.Strand != "" || f.Task != "" && homeOf(f.Kind()) == besideIt
	case wire.LaneWorkflow, wire.LaneBackground:
		owned = f.Task != "" && homeOf(f.Kind()) != inConversation
	case wire.LaneSession:
		owned = homeOf(f.Kind()) != inConversation
	}
	if !owned {
		return Proof{}, false
	}
	return Proof{session: w.Session, strand: w.Strand, lane: f.Lane, task: f.Task}, true
}

// home says where a kind is at home.
type home uint8

const (
	inConversation home = iota // what is said and done on a strand
	besideIt                   // tasks, on lanes of their own as well
	aboutSession               // levels and facts of the session, on each lane
)

// homes are the kinds that are not of a conversation. A kind that this build does
// not know is taken for one: it may be drawn on no other lane.
var homes = map[wire.Kind]home{
	wire.KindTaskStarted: besideIt, wire.KindTaskProgress: besideIt, wire.KindTaskNotification: besideIt, wire.KindWorkflowProgress: besideIt,

	wire.KindBackground: aboutSession, wire.KindPending: aboutSession, wire.KindActivity: aboutSession, wire.KindPresence: aboutSession,
	wire.KindNotice: aboutSession, wire.KindHookNotice: aboutSession, wire.KindDiagnostics: aboutSession, wire.KindWorkspaceChanged: aboutSession,
	wire.KindApprovalRequest: aboutSession, wire.KindApprovalSettled: aboutSession, wire.KindQuestionRequest: aboutSession,
	wire.KindQuestionSettled: aboutSession, wire.KindPlanRequest: aboutSession, wire.KindPlanSettled: aboutSession,
	wire.KindRunStopped: aboutSession,
}

func homeOf(k wire.Kind) home { return homes[k] }

// Self mints the proof for what the runtime itself says about the watched lane,
// such as that its stream broke.
func (w Watch) Self() (Proof, bool) {
	if w.Session.IsZero() {
		return Proof{}, false
	}
	return Proof{session: w.Session, strand: w.Strand, lane: wire.LaneMain}, true
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

// IDOf is the id of message n of a frame.
func IDOf(f wire.Frame, n int) MessageID { return derive(f, n) }

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
	message sdkmsg.Message
}

// Keep makes transcript message n of a frame.
func Keep(p Proof, f wire.Frame, n int, m sdkmsg.Message) Transcript {
	if !p.Valid() {
		return Transcript{}
	}
	return Transcript{id: derive(f, n), proof: p, message: m}
}

// ID returns the derived id.
func (t Transcript) ID() MessageID { return t.id }

// Proof returns the proof of its lane.
func (t Transcript) Proof() Proof { return t.proof }

// Message returns what is kept. Its texts are as the wire has them: a host passes
// them through client/say before a screen.
func (t Transcript) Message() sdkmsg.Message { return t.message }

// Line returns the message as a transcript stores it.
func (t Transcript) Line() sdkmsg.Line {
	return sdkmsg.Line{UUID: t.id.String(), SessionID: t.proof.session.String(), Message: t.message}
}

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

// Proof returns the proof of its lane.
func (c Chrome) Proof() Proof { return c.proof }

// Event returns what is shown.
func (c Chrome) Event() Event { return c.event }

// Valid implements [Output].
func (c Chrome) Valid() bool { return c.proof.Valid() && c.event != nil }

func (Chrome) output() {}

// With returns a chrome output of the same lane with another event.
func (c Chrome) With(e Event) Chrome { return Show(c.proof, e) }

// ParseMessageID reads the text of [MessageID.String]; ok is false for any other.
func ParseMessageID(s string) (m MessageID, ok bool) {
	if len(s) != 36 {
		return MessageID{}, false
	}
	raw, err := hex.DecodeString(s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36])
	if err != nil {
		return MessageID{}, false
	}
	copy(m[:], raw)
	return m, m.String() == s
}
