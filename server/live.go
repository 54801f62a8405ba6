package server

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/wire"
)

// live turns facts of the engine into live frames. They are for display: what
// they say is superseded by the commit that follows.
type live struct {
	session id.SessionID

	// The response that is being received and how many bytes of each of its
	// blocks were told. A strand receives one at a time.
	offsets map[string]offsets
}

type offsets struct {
	response id.EntryID
	told     map[block]int64
}

type block struct {
	index     int
	reasoning bool
}

// frame makes the live frame of a fact; ok is false for a fact that has none.
func (l *live) frame(f engine.Fact) (wire.Frame, bool) {
	switch f := f.(type) {
	case engine.TextDelta:
		seg, at, text := l.piece(f.Strand, f.Response, block{index: f.Block}, f.Text)
		return l.of(f.Strand, f.Op, key("text", seg, at), wire.TextDelta{Segment: seg, Offset: at, Text: text}), text != ""
	case engine.ThinkingDelta:
		seg, at, text := l.piece(f.Strand, f.Response, block{index: f.Block, reasoning: true}, f.Text)
		return l.of(f.Strand, f.Op, key("reasoning", seg, at), wire.ReasoningDelta{Segment: seg, Offset: at, Text: text}), text != ""
	case engine.ToolOutput:
		return l.of(f.Strand, f.Op, "output/"+f.CallID+"/"+f.Stream+"/"+strconv.FormatInt(f.TotalBytes, 10), wire.ToolProgress{
			CallID: f.CallID, Stream: f.Stream, Tail: tail(f.Tail), TotalBytes: count(f.TotalBytes),
		}), true
	case engine.RetryScheduled:
		return l.of(f.Strand, f.Op, "retry/"+f.Op.String()+"/"+strconv.FormatInt(f.Until, 10), wire.Retry{
			Attempt: count(f.NextAttempt - 1), UntilMs: count(f.Until), Error: strings.ToValidUTF8(f.Message, "\uFFFD"),
		}), true
	default:
		return wire.Frame{}, false
	}
}

func (l *live) of(strand string, op id.OpID, key string, b wire.Body) wire.Frame {
	if len(key) > wire.MaxWord {
		key = key[:wire.MaxWord]
	}
	return wire.Frame{ID: strings.ToValidUTF8(key, "?"), Delivery: wire.Live, Session: l.session, Strand: strand, Operation: op, Body: b}
}

func key(what string, s wire.Segment, at int64) string {
	return what + "/" + s.Entry.String() + "/" + strconv.Itoa(s.Block) + "/" + strconv.FormatInt(at, 10)
}

// piece places a delta behind the ones before it, so that a client that missed one
// sees the gap.
func (l *live) piece(strand string, response id.EntryID, b block, text string) (wire.Segment, int64, string) {
	o := l.offsets[strand]
	if o.response != response {
		o = offsets{response: response, told: map[block]int64{}}
		if l.offsets == nil {
			l.offsets = map[string]offsets{}
		}
		l.offsets[strand] = o
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	at := o.told[b]
	o.told[b] = at + int64(len(text))
	return wire.Segment{Entry: response, Block: b.index}, at, text
}

// tail keeps the newest bytes that a frame carries, from a character on.
func tail(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= wire.MaxTail {
		return text
	}
	n := len(text) - wire.MaxTail
	for n < len(text) && !utf8.RuneStart(text[n]) {
		n++
	}
	return text[n:]
}
