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

// PermissionMode is how a run treats what its model wants to do. The words are
// shared with requests; which of them an engine offers is the engine's answer.
type PermissionMode string

// The closed set of modes.
const (
	ModeDefault           PermissionMode = "default"
	ModeAcceptEdits       PermissionMode = "acceptEdits"
	ModeBypassPermissions PermissionMode = "bypassPermissions"
	ModePlan              PermissionMode = "plan"
	ModeDontAsk           PermissionMode = "dontAsk"
	ModeAuto              PermissionMode = "auto"
)

// PermissionModes is the closed set in the order it is shown.
var PermissionModes = [...]PermissionMode{
	ModeDefault, ModeAcceptEdits, ModeBypassPermissions, ModePlan, ModeDontAsk, ModeAuto,
}

// ParsePermissionMode reads a mode word.
func ParsePermissionMode(s string) (PermissionMode, bool) {
	for _, m := range PermissionModes {
		if string(m) == s {
			return m, true
		}
	}
	return "", false
}

// Audience says whom a notice is for.
type Audience string

const (
	// ForUser marks a fact that the person at the session can act on.
	ForUser Audience = "user"
	// ForOperator marks a fact for who runs the engine. It is also how an
	// unknown audience reads: noise is not pushed at a person.
	ForOperator Audience = "operator"
)

// NoticeLiveDropped is the notice that live frames were dropped because the
// subscriber read too slowly. Nothing durable is missing. Facts: count.
const NoticeLiveDropped = "live_frames_dropped"

// The disposition words of a gate that this build reads; others pass verbatim.
const (
	GateAllowed = "allowed"
	GateDenied  = "denied"
)
