package wire

import "github.com/loom-run/loom/core/jsonv"

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

const (
	causeCompleted = "completed"
	causeFailed    = "failed"
	causeAborted   = "aborted"
	causeBlocked   = "blocked"
	causePaused    = "paused"
)

// Word is the tag on the wire.
func (Completed) Word() string      { return causeCompleted }
func (Failed) Word() string         { return causeFailed }
func (Aborted) Word() string        { return causeAborted }
func (Blocked) Word() string        { return causeBlocked }
func (Paused) Word() string         { return causePaused }
func (c UnknownCause) Word() string { return c.Tag }

func tag(word string, fields ...jsonv.Member) jsonv.Value {
	return jsonv.Obj(append([]jsonv.Member{jsonv.F("kind", jsonv.Str(word))}, fields...)...)
}

func (Completed) value() jsonv.Value { return tag(causeCompleted) }
func (Aborted) value() jsonv.Value   { return tag(causeAborted) }

func (c Failed) value() jsonv.Value {
	return tag(causeFailed, jsonv.F("code", jsonv.Str(c.Code)), jsonv.F("message", jsonv.Str(c.Message)))
}

func (c Blocked) value() jsonv.Value {
	if c.Detail == nil {
		return tag(causeBlocked)
	}
	return tag(causeBlocked, jsonv.F("detail", jsonv.Obj(
		jsonv.F("kind", jsonv.Str(c.Detail.Kind)), jsonv.F("cause", jsonv.Str(c.Detail.Cause)))))
}

func (c Paused) value() jsonv.Value {
	if c.Reason == nil {
		return tag(causePaused)
	}
	return tag(causePaused, jsonv.F("reason", jsonv.Str(*c.Reason)))
}

func (c UnknownCause) value() jsonv.Value { return c.Raw }

// decodeCause reads a tagged cause. A malformed detail is absent rather than
// guessed at: it explains the ending and does not change it.
func decodeCause(v jsonv.Value) (Cause, error) {
	r := jsonv.Read(v, "wire.Cause")
	switch word := r.Str("kind"); word {
	case causeCompleted:
		return Completed{}, r.Err()
	case causeFailed:
		c := Failed{Code: r.Str("code"), Message: r.Str("message")}
		return c, r.Err()
	case causeAborted:
		return Aborted{}, r.Err()
	case causeBlocked:
		return Blocked{Detail: blockedDetail(v)}, r.Err()
	case causePaused:
		var c Paused
		if reason, ok := v.Get("reason"); ok {
			if text, ok := reason.Text(); ok {
				c.Reason = &text
			}
		}
		return c, r.Err()
	default:
		return UnknownCause{Tag: word, Raw: v}, r.Err()
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
