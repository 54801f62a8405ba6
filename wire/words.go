package wire

// Delivery is the promise that a frame makes. The set is closed.
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

// Kind names what a frame is about. The set is open on the wire: an unknown
// word is kept.
type Kind string

// The kinds of this build.
const (
	KindRunStart       Kind = "run_start"
	KindUserMessage    Kind = "user_message"
	KindTextDelta      Kind = "text_delta"
	KindTextEnd        Kind = "text_end"
	KindReasoningDelta Kind = "reasoning_delta"
	KindReasoningEnd   Kind = "reasoning_end"
	KindToolCall       Kind = "tool_call"
	KindToolProgress   Kind = "tool_progress"
	KindToolResult     Kind = "tool_result"
	KindTurnEnd        Kind = "turn_end"
	KindRetry          Kind = "retry"
	KindRunEnd         Kind = "run_end"
	KindRunStopped     Kind = "run_stopped"
	KindNotice         Kind = "notice"
)
