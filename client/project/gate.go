package project

import (
	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
)

// Bucket says in whose name a question about a call was answered.
type Bucket uint8

// The buckets.
const (
	NobodyAsked     Bucket = iota // there was no question
	PersonAllowed                 // a person said yes
	PersonRefused                 // a person said no
	PolicySaidNo                  // the deployment's policy, in the person's place
	ModeSaid                      // the permission mode, in the person's place
	NobodyAnswered                // a window closed, or nobody was there
	StoppedMeantime               // the run was stopped while the question was open
	NewSettlement                 // a word of a newer build: none of the others
)

// BucketOf reads a gate. It is total over the words.
func BucketOf(g wire.Gate) Bucket {
	if g.Settlement == nil {
		return NobodyAsked
	}
	switch *g.Settlement {
	case words.ApprovedOnce, words.ApprovedSession, words.ApprovedAlways, words.ApprovedEdited:
		return PersonAllowed
	case words.Rejected, words.RejectedStop:
		return PersonRefused
	case words.PolicyRefused:
		return PolicySaidNo
	case words.ModeAnswered:
		return ModeSaid
	case words.SettledNobody, words.SettledApprovalWindow, words.SettledDenialLimit, words.SettledPark:
		return NobodyAnswered
	case words.SettledAborted:
		return StoppedMeantime
	}
	return NewSettlement
}

// Denied reports whether a call did not run because of its gate. A disposition of a
// newer build says nothing.
func Denied(g *wire.Gate) bool { return g != nil && deniedAs(g.Disposition) }

// DeniedLine is [Denied] of the result of a call in a transcript.
func DeniedLine(u sdkmsg.User) bool {
	return u.Loom != nil && u.Loom.Gate != nil && deniedAs(u.Loom.Gate.Disposition)
}

func deniedAs(d words.Disposition) bool { return d == words.GateDenied }

// DenialSentence says why a call was denied: who denied it, and how a question about
// it was answered when there was one.
func DenialSentence(g wire.Gate) string {
	out := ""
	if g.DeniedBy != nil {
		out = say.DeniedBy(*g.DeniedBy)
	}
	if g.Settlement != nil {
		if out != "" {
			out += "; "
		}
		out += say.Settled(*g.Settlement)
	}
	if out == "" {
		return "it was denied, and by whom is not recorded"
	}
	return out
}

// AskedAbout is a call that waits for a person, in a line: as the engine says it, else
// the tool. It is untrusted text.
func AskedAbout(r wire.ApprovalRequest) string {
	if r.Title != nil && *r.Title != "" {
		return *r.Title
	}
	return r.Tool
}

// WhyAsked says why a person is asked about a call, and why each time where no rule
// can retire the question.
func WhyAsked(r wire.ApprovalRequest) string {
	if r.Mandated && r.Mandate != nil {
		return say.Mandated(*r.Mandate)
	}
	if sentence, ok := say.Undecided(r.AutoModeUnavailable); ok {
		return sentence
	}
	if r.Origin != nil {
		return say.AskedBy(*r.Origin)
	}
	return ""
}

// GateOf finds the gate of a call in a run's records.
func GateOf(records []wire.GateRecord, callID string) (wire.Gate, bool) {
	for _, r := range records {
		if r.CallID == callID {
			return r.Gate, true
		}
	}
	return wire.Gate{}, false
}
