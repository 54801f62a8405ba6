package project

import (
	"slices"

	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
)

// Tools is what is known of the tools of a run. The zero Tools knows nothing.
type Tools struct {
	roster wire.Stated[wire.Roster]
	hands  wire.Stated[wire.Hands]
}

// Start takes the manifest of a run. What it does not say is not known any more.
func (t *Tools) Start(b wire.RunStart) { t.roster, t.hands = b.Roster, b.Hands }

// Change takes a roster that changed. It is the new state whatever its digest says: a
// refusal would leave a stale one for good. Only the summary can be unusable, when it
// is about another roster than the one that was held, or when the digest is not that
// of the rows.
func (t *Tools) Change(b wire.RosterChange) plane.RosterChanged {
	held, known := t.roster.Get()
	t.roster = wire.FactOf(b.Roster)
	out := plane.RosterChanged{Roster: b.Roster}
	if s := b.Summary; s != nil && known && s.BaseDigest == held.Digest && b.Roster.DigestAgrees() {
		out.Usable, out.Added, out.Removed = true, s.Added, s.Removed
	}
	return out
}

// Roster returns what is held, with how it was stated.
func (t Tools) Roster() wire.Stated[wire.Roster] { return t.roster }

// Face is how a tool is shown; ok is false for a tool that the roster does not have.
// It is never guessed from a name. What a row does not state is absent.
func (t Tools) Face(name string) (face wire.ToolFace, ok bool) {
	roster, _ := t.roster.Get()
	for _, row := range roster.Tools {
		if row.Name == name {
			if row.Face != nil {
				face = *row.Face
			}
			return face, true
		}
	}
	return wire.ToolFace{}, false
}

// HandsReading says whether a run was given tools for files and commands at all.
type HandsReading uint8

// The readings. Only the first two are facts; each of the others has its own reason.
const (
	HandsGiven      HandsReading = iota
	HandsNotGiven                // a readable statement names none
	HandsUnstated                // neither the manifest nor a roster says it: an older engine
	HandsUnreadable              // something was said that cannot be read
	HandsNoMounts                // a roster is there, and does not say what mounted its tools
)

// Hands reads the manifest: its own statement first, and else the mounts of the
// roster.
func (t Tools) Hands() HandsReading {
	if h, ok := t.hands.Get(); ok {
		if len(h.Tools) > 0 {
			return HandsGiven
		}
		return HandsNotGiven
	}
	switch {
	case t.hands.State() == wire.StatedNone:
		return HandsNotGiven
	case t.hands.State() == wire.Unreadable:
		return HandsUnreadable
	}
	roster, ok := t.roster.Get()
	switch {
	case t.roster.State() == wire.Unreadable:
		return HandsUnreadable
	case t.roster.State() == wire.StatedNone:
		return HandsNotGiven
	case !ok:
		return HandsUnstated
	}
	if slices.ContainsFunc(roster.Tools, func(r wire.ToolRow) bool { return !words.MountConditions.Has(r.Mount) }) {
		return HandsNoMounts
	}
	if slices.ContainsFunc(roster.Tools, func(r wire.ToolRow) bool { return r.Mount == words.MountedHands }) {
		return HandsGiven
	}
	return HandsNotGiven
}

// Sentence is what a person is told. None of those for what is not known says that
// there were no tools. A value that is none of these reads as not stated.
func (h HandsReading) Sentence() string {
	switch h {
	case HandsGiven:
		return "the run was given tools for files and commands"
	case HandsNotGiven:
		return "the run was given no tools for files and commands"
	case HandsUnreadable:
		return "what the engine said of the run's tools cannot be read"
	case HandsNoMounts:
		return "the engine lists tools and does not say which of them are for files and commands"
	case HandsUnstated:
	}
	return "the engine did not say which tools the run was given"
}

// MCPOf finds an external tool server in a manifest; ok is false for one that is not
// there, and for a manifest that does not say.
func MCPOf(servers wire.Stated[[]wire.MCPServer], name string) (wire.MCPServer, bool) {
	list, _ := servers.Get()
	for _, s := range list {
		if s.Name == name {
			return s, true
		}
	}
	return wire.MCPServer{}, false
}

// MCPStatus is a delivery in the vocabulary of the first line. A word of a newer
// build stays itself and is never connected.
func MCPStatus(d words.MCPDelivery) string {
	switch d {
	case words.MCPDelivered:
		return "connected"
	case words.MCPConnecting:
		return "pending"
	case words.MCPUnauthorized:
		return "needs-auth"
	case words.MCPFailed, words.MCPRefused:
		return "failed"
	case words.MCPDisabled:
		return "disabled"
	}
	return string(d)
}
