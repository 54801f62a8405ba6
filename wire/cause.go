package wire

import (
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
)

// Cause is how a run ended. It is never absent from a run end. The set of
// implementations is closed.
type Cause interface {
	// Word is the tag on the wire.
	Word() string
	value() jsonv.Value
}

// Completed ended with the model's answer.
type Completed struct{}

// Failed ended with an error. Code is the engine's word, verbatim.
type Failed struct{ Code, Message string }

// Aborted was stopped from outside.
type Aborted struct{}

// Blocked was stopped by a rule or a limit.
type Blocked struct{ Detail *BlockedDetail }

// BlockedDetail says by what. Both words are verbatim.
type BlockedDetail struct{ Kind, Cause string }

// Paused waits for a decision and can be resumed. Reason is verbatim.
type Paused struct{ Reason *string }

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

func tag(word words.Cause, fields ...jsonv.Member) jsonv.Value {
	return jsonv.Obj(append([]jsonv.Member{jsonv.F("kind", jsonv.Str(string(word)))}, fields...)...)
}

func (Completed) value() jsonv.Value { return tag(words.CauseCompleted) }
func (Aborted) value() jsonv.Value   { return tag(words.CauseAborted) }

func (c Failed) value() jsonv.Value {
	return tag(words.CauseFailed, jsonv.F("code", jsonv.Str(c.Code)), jsonv.F("message", jsonv.Str(c.Message)))
}

func (c Blocked) value() jsonv.Value {
	if c.Detail == nil {
		return tag(words.CauseBlocked)
	}
	return tag(words.CauseBlocked, jsonv.F("detail", jsonv.Obj(
		jsonv.F("kind", jsonv.Str(c.Detail.Kind)), jsonv.F("cause", jsonv.Str(c.Detail.Cause)))))
}

func (c Paused) value() jsonv.Value {
	if c.Reason == nil {
		return tag(words.CausePaused)
	}
	return tag(words.CausePaused, jsonv.F("reason", jsonv.Str(*c.Reason)))
}

func (c UnknownCause) value() jsonv.Value { return c.Raw }

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
		return UnknownCause{Tag: word, Raw: tag(words.Cause(word))}
	}
}

// decodeCause reads a tagged cause. A malformed detail is absent rather than
// guessed at: it explains the ending and does not change it.
func decodeCause(v jsonv.Value) (Cause, error) {
	r := jsonv.Read(v, "wire.Cause")
	switch word := words.Cause(r.Str("kind")); word {
	case words.CauseCompleted:
		return Completed{}, r.Err()
	case words.CauseFailed:
		c := Failed{Code: r.Str("code"), Message: r.Str("message")}
		return c, r.Err()
	case words.CauseAborted:
		return Aborted{}, r.Err()
	case words.CauseBlocked:
		return Blocked{Detail: blockedDetail(v)}, r.Err()
	case words.CausePaused:
		var c Paused
		if reason, ok := v.Get("reason"); ok {
			if text, ok := reason.Text(); ok {
				c.Reason = &text
			}
		}
		return c, r.Err()
	default:
		return UnknownCause{Tag: string(word), Raw: v}, r.Err()
	}
}

func blockedDetail(v jsonv.Value) *BlockedDetail {
	detail, ok := v.Get("detail")
	if !ok {
		return nil
	}
	r := jsonv.Read(detail, "wire.BlockedDetail")
	d := BlockedDetail{Kind: r.Str("kind"), Cause: r.Str("cause")}
	if r.Err() != nil {
		return nil
	}
	return &d
}
