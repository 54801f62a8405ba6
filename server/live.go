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
	index int
	what  string // text, reasoning or arguments
}

// frames makes the live frames of a fact, in order; most facts have one or none.
func (l *live) frames(f engine.Fact) []wire.Frame {
	switch f := f.(type) {
	case engine.TextDelta:
		return l.delta(f.Strand, f.Op, f.Response, block{f.Block, "text"}, f.Text, func(seg wire.Segment, at int64, text string) wire.Body {
			return wire.TextDelta{Segment: seg, Offset: at, Text: text}
		})
	case engine.ThinkingDelta:
		return l.delta(f.Strand, f.Op, f.Response, block{f.Block, "reasoning"}, f.Text, func(seg wire.Segment, at int64, text string) wire.Body {
			return wire.ReasoningDelta{Segment: seg, Offset: at, Text: text}
		})
	case engine.ToolCallDelta:
		return l.delta(f.Strand, f.Op, f.Response, block{f.Block, "arguments"}, f.Fragment, func(seg wire.Segment, at int64, text string) wire.Body {
			return wire.ToolCallDelta{
				Segment: seg, CallID: strings.ToValidUTF8(f.CallID, "\uFFFD"), Name: strings.ToValidUTF8(f.Name, "\uFFFD"), Offset: at, Fragment: text,
			}
		})
	case engine.ToolOutput:
		return one(l.of(f.Strand, f.Op, "output/"+f.CallID+"/"+f.Stream+"/"+strconv.FormatInt(f.TotalBytes, 10), wire.ToolProgress{
			CallID: f.CallID, Stream: f.Stream, Tail: tail(f.Tail), TotalBytes: count(f.TotalBytes),
		}))
	case engine.RetryScheduled:
		return one(l.of(f.Strand, f.Op, "retry/"+f.Op.String()+"/"+strconv.FormatInt(f.Until, 10), wire.Retry{
			Attempt: count(f.NextAttempt - 1), UntilMs: count(f.Until), Error: strings.ToValidUTF8(f.Message, "\uFFFD"),
		}))
	default:
		return nil
	}
}

func one(f wire.Frame) []wire.Frame { return []wire.Frame{f} }

// delta makes the frames of a piece of a response. The first piece of a response
// says that it is on its way.
func (l *live) delta(strand string, op id.OpID, response id.EntryID, b block, text string, body func(wire.Segment, int64, string) wire.Body) (out []wire.Frame) {
	if l.offsets[strand].response != response {
		out = one(l.of(strand, op, "turn/"+response.String(), wire.TurnStart{Entry: response}))
	}
	seg, at, text := l.piece(strand, response, b, text)
	if text != "" || b.what == "arguments" && at == 0 {
		out = append(out, l.of(strand, op, key(b.what, seg, at), body(seg, at, text)))
	}
	return out
}

func (l *live) of(strand string, op id.OpID, key string, b wire.Body) wire.Frame {
	return passing(l.session, strand, op, key, b)
}

// passing is a live frame.
func passing(s id.SessionID, strand string, op id.OpID, key string, b wire.Body) wire.Frame {
	if len(key) > wire.MaxWord {
		key = key[:wire.MaxWord]
	}
	return owned(wire.Frame{ID: strings.ToValidUTF8(key, "?"), Delivery: wire.Live, Session: s, Operation: op, Body: b}, strand)
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
