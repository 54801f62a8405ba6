package client

import (
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
)

// DropWord says why a frame gave no output.
type DropWord string

// The closed set of reasons.
const (
	// NoArm is a frame of a kind that this build does not know: it is newer.
	NoArm DropWord = "no_arm"
	// ContractViolation is a frame of a known kind whose body breaks the
	// contract: the server is at fault.
	ContractViolation DropWord = "contract_violation"
	// ForeignLane is a frame of a session, strand or operation that is not
	// watched.
	ForeignLane DropWord = "foreign_lane"
	// Repeated is a replay frame at or before the newest one seen.
	Repeated DropWord = "repeated"
)

// Sentence is what a person is told about drops of that kind.
func (w DropWord) Sentence() string {
	switch w {
	case NoArm:
		return "this build does not know frames of that kind; a newer client shows them"
	case ContractViolation:
		return "the server sent a frame that does not match the contract; it was not shown"
	case ForeignLane:
		return "the frame belongs to another run and was not shown here"
	case Repeated:
		return "the frame was sent again and was already shown"
	default:
		return "the frame was not shown"
	}
}

// Drop is one frame that gave no output.
type Drop struct {
	Why     DropWord
	Kind    wire.Kind
	FrameID string
	Detail  string // what was wrong, for a contract violation
}

// Drops counts the dropped frames.
type Drops struct {
	NoArm, ContractViolation, ForeignLane, Repeated int64
}

func (d *Drops) count(w DropWord) {
	switch w {
	case NoArm:
		d.NoArm++
	case ContractViolation:
		d.ContractViolation++
	case ForeignLane:
		d.ForeignLane++
	case Repeated:
		d.Repeated++
	}
}

// audience is whom a notice reaches: by the catalogue, whatever it says about
// itself. One that claims to be for somebody else is for the operator.
func audience(code words.NoticeCode, claimed words.Audience) words.Audience {
	if words.AudienceOf(code) == claimed {
		return claimed
	}
	return words.ForOperator
}
