package wire

// Delivery is the class of a frame: the promise that it makes. The set is closed.
type Delivery string

const (
	// Replay frames come from committed rows. They have a cursor, and a client
	// that comes back with it gets exactly the frames behind it.
	Replay Delivery = "replay"
	// Level frames carry a whole current value, restated on attach. A newer one
	// replaces an older one.
	Level Delivery = "level"
	// Live frames are deltas and windows. They may be dropped, are never
	// replayed, and the commit that follows supersedes them.
	Live Delivery = "live"
)

// ParseDelivery reads a delivery word.
func ParseDelivery(s string) (Delivery, bool) {
	switch d := Delivery(s); d {
	case Replay, Level, Live:
		return d, true
	}
	return "", false
}

// Words returns the closed set.
func (Delivery) Words() []string { return []string{string(Replay), string(Level), string(Live)} }

// Lane says what kind of work a frame belongs to; which piece of it is the owner's
// matter: the strand, operation and task of the frame. An unknown word is kept, and
// proves nothing.
type Lane string

// The lanes.
const (
	LaneMain       Lane = "main"       // the strand that a person talks to
	LaneAgent      Lane = "agent"      // another strand of the session
	LaneWorkflow   Lane = "workflow"   // a run of a workflow
	LaneBackground Lane = "background" // a command in the background
	LaneSession    Lane = "session"    // the session as a whole
)

var lanes = [...]Lane{LaneMain, LaneAgent, LaneWorkflow, LaneBackground, LaneSession}

// Words returns the closed set.
func (Lane) Words() []string {
	out := make([]string, len(lanes))
	for i, l := range lanes {
		out[i] = string(l)
	}
	return out
}

// Known reports whether the lane is in the closed set.
func (l Lane) Known() bool {
	for _, k := range lanes {
		if k == l {
			return true
		}
	}
	return false
}
