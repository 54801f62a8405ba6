package wire

import (
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire/shape"
)

// Cause is how a run ended. It is never absent from a run end. The set of
// implementations is closed.
type Cause interface {
	// Word is the tag on the wire.
	Word() string
	cause()
}

// Completed ended with the model's answer.
type Completed struct{}

// Failed ended with an error.
type Failed struct {
	Code    string `wire:"code"` // the engine's word, verbatim
	Message string `wire:"message"`
}

// Aborted was stopped by a committed abort.
type Aborted struct {
	By *words.CancelCause `wire:"by,lenient"` // absent when not recorded
}

// Blocked was kept from going on. A detail that cannot be read is absent.
type Blocked struct {
	Detail *BlockedDetail `wire:"detail,lenient"`
}

// BlockedDetail says by what. Both words are verbatim: the kind says in which table
// its cause stands, and a cause of a known kind may be a newer word.
type BlockedDetail struct {
	Kind  words.BlockedKind `wire:"kind,word"`
	Cause string            `wire:"cause,word"`
}

// Paused waits for a decision and can be resumed.
type Paused struct {
	Reason *words.PauseReason `wire:"reason,lenient"`
}

// UnknownCause is a tag that this build does not know. It is never read as a
// known one.
type UnknownCause struct {
	Tag string
	Raw jsonv.Value
}

// Word is the tag on the wire.
func (Completed) Word() string      { return string(words.CauseCompleted) }
func (Failed) Word() string         { return string(words.CauseFailed) }
func (Aborted) Word() string        { return string(words.CauseAborted) }
func (Blocked) Word() string        { return string(words.CauseBlocked) }
func (Paused) Word() string         { return string(words.CausePaused) }
func (c UnknownCause) Word() string { return c.Tag }

func (Completed) cause()    {}
func (Failed) cause()       {}
func (Aborted) cause()      {}
func (Blocked) cause()      {}
func (Paused) cause()       {}
func (UnknownCause) cause() {}

// causes are the members under their tags.
var causes = []Cause{Completed{}, Failed{}, Blocked{}, Paused{}, Aborted{}}

func init() {
	var members []shape.Member[Cause]
	for _, c := range causes {
		members = append(members, shape.Member[Cause]{Tag: c.Word(), Zero: c})
	}
	shape.Sum("kind",
		func(tag string, raw jsonv.Value) Cause { return UnknownCause{Tag: tag, Raw: raw} },
		func(c Cause) (jsonv.Value, bool) { u, ok := c.(UnknownCause); return u.Raw, ok },
		members...)
}

// CauseOf is the ending that an engine's word names. A word of a newer engine
// stays itself; code and message belong to a failure.
func CauseOf(word, code, message string) Cause {
	switch words.Cause(word) {
	case words.CauseCompleted:
		return Completed{}
	case words.CauseFailed:
		return Failed{Code: code, Message: message}
	case words.CauseAborted:
		return Aborted{}
	case words.CauseBlocked:
		return Blocked{}
	case words.CausePaused:
		return Paused{}
	default:
		return UnknownCause{Tag: word, Raw: jsonv.Obj(jsonv.F("kind", jsonv.Str(word)))}
	}
}
