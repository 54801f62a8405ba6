// Package wiretest generates wire values for tests.
//
// # Purpose
//
// Codecs, servers and clients share one notion of "any legal frame".
//
// # Key types
//
// [Frame], [Body] and [Text] are generators for pgregory.net/rapid.
//
// # Relationships
//
// Imports wire, core and rapid. Only tests import it.
//
// # Traffic
//
// None.
//
// # Invariants
//
// A generated frame is legal: its kind has its delivery, and a cursor is there
// exactly on a replay frame.
package wiretest

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
)

// uuid is a valid version 7 text for any number.
func uuid(n uint64) string {
	return fmt.Sprintf("0192%04x-%04x-7%03x-8%03x-%012x", n>>48&0xffff, n>>32&0xffff, n>>20&0xfff, n>>8&0xfff, n*0x9e3779b97f4a7c15>>16)
}

// Entry is an entry id made from a number; equal numbers give equal ids.
func Entry(n uint64) id.EntryID { return must(id.ParseEntryID(uuid(n))) }

// Session is a session id made from a number.
func Session(n uint64) id.SessionID { return must(id.ParseSessionID(uuid(n))) }

// Op is an operation id made from a number.
func Op(n uint64) id.OpID { return must(id.ParseOpID(uuid(n))) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Text is any valid UTF-8, with a liking for what terminals and JSON dislike.
func Text() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringOfN(rapid.SampledFrom([]rune("aé漢😀\n\t\x00\x1b[\u009b\u202e\u2028\"\\<:")), 0, 12, -1),
	)
}

func small() *rapid.Generator[int64]     { return rapid.Int64Range(0, 1<<53-1) }
func number() *rapid.Generator[int]      { return rapid.IntRange(0, 1000) }
func seed() *rapid.Generator[uint64]     { return rapid.Uint64Range(0, 50) }
func optText() *rapid.Generator[*string] { return rapid.Ptr(Text(), true) }

func segment(t *rapid.T) wire.Segment {
	return wire.Segment{Entry: Entry(seed().Draw(t, "entry")), Block: number().Draw(t, "block")}
}

func model(t *rapid.T) wire.ModelRef {
	return wire.ModelRef{Provider: Text().Draw(t, "provider"), ModelID: Text().Draw(t, "model")}
}

// Usage is any usage.
func Usage() *rapid.Generator[wire.Usage] {
	return rapid.Custom(func(t *rapid.T) wire.Usage {
		return wire.Usage{
			Input: small().Draw(t, "input"), Output: small().Draw(t, "output"),
			CacheRead: small().Draw(t, "cacheRead"), CacheWrite: small().Draw(t, "cacheWrite"),
			Measured: rapid.Bool().Draw(t, "measured"), LowerBound: rapid.Bool().Draw(t, "lower"),
			CostMicroUSD: rapid.Ptr(small(), true).Draw(t, "cost"), CostLowerBound: rapid.Bool().Draw(t, "costLower"),
		}
	})
}

// Cause is any cause that this build knows, and unknown ones.
func Cause() *rapid.Generator[wire.Cause] {
	return rapid.Custom(func(t *rapid.T) wire.Cause {
		switch rapid.IntRange(0, 6).Draw(t, "cause") {
		case 0:
			return wire.Completed{}
		case 1:
			return wire.Failed{Code: Text().Draw(t, "code"), Message: Text().Draw(t, "message")}
		case 2:
			return wire.Aborted{}
		case 3:
			return wire.Blocked{}
		case 4:
			return wire.Blocked{Detail: &wire.BlockedDetail{Kind: Text().Draw(t, "kind"), Cause: Text().Draw(t, "cause")}}
		case 5:
			return wire.Paused{Reason: optText().Draw(t, "reason")}
		default:
			return wire.UnknownCause{Tag: "evaporated", Raw: jsonv.Obj(jsonv.F("kind", jsonv.Str("evaporated")), jsonv.F("x", jsonv.Num(1)))}
		}
	})
}

// Body is any body of the kind; for a kind that is not in [wire.Kinds] it is an
// unknown one.
func Body(k wire.Kind) *rapid.Generator[wire.Body] {
	return rapid.Custom(func(t *rapid.T) wire.Body { return body(t, k) })
}

func body(t *rapid.T, k wire.Kind) wire.Body {
	text := func(name string) string { return Text().Draw(t, name) }
	switch k {
	case wire.KindRunStart:
		return wire.RunStart{Model: model(t), Mode: words.PermissionMode(text("mode")), Cwd: text("cwd"), Tools: number().Draw(t, "tools")}
	case wire.KindUserMessage:
		s := text("text")
		return wire.UserMessage{Entry: Entry(seed().Draw(t, "entry")), Text: s, Bytes: int64(len(s)) + int64(number().Draw(t, "more")), Images: number().Draw(t, "images")}
	case wire.KindTextDelta:
		return wire.TextDelta{Segment: segment(t), Offset: small().Draw(t, "offset"), Text: text("text")}
	case wire.KindTextEnd:
		return wire.TextEnd{Segment: segment(t), Content: text("content")}
	case wire.KindReasoningDelta:
		return wire.ReasoningDelta{Segment: segment(t), Offset: small().Draw(t, "offset"), Text: text("text")}
	case wire.KindReasoningEnd:
		return wire.ReasoningEnd{Segment: segment(t), Content: text("content"), Redacted: rapid.Bool().Draw(t, "redacted")}
	case wire.KindToolCall:
		return wire.ToolCall{Segment: segment(t), CallID: text("call"), Name: text("name"), Arguments: jsonv.Obj(jsonv.F("path", jsonv.Str(text("path"))))}
	case wire.KindToolProgress:
		return wire.ToolProgress{CallID: text("call"), Stream: text("stream"), Tail: text("tail"), TotalBytes: small().Draw(t, "total")}
	case wire.KindToolResult:
		r := wire.ToolResult{Entry: Entry(seed().Draw(t, "entry")), CallID: text("call"), Name: text("name"), Images: number().Draw(t, "images"), IsError: rapid.Bool().Draw(t, "isError")}
		for _, s := range rapid.SliceOfN(Text(), 0, 3).Draw(t, "texts") {
			r.Text = append(r.Text, wire.TextBlock{Text: s, Bytes: int64(len(s))})
		}
		if rapid.Bool().Draw(t, "gated") {
			r.Gate = &wire.Gate{Disposition: words.Disposition(text("disposition")), Settlement: (*words.Settlement)(optText().Draw(t, "settlement")),
				DeniedBy: (*words.DeniedBy)(optText().Draw(t, "deniedBy")), Origin: (*words.AskOrigin)(optText().Draw(t, "origin"))}
		}
		return r
	case wire.KindTurnEnd:
		return wire.TurnEnd{Entry: Entry(seed().Draw(t, "entry")), Usage: Usage().Draw(t, "usage"), StopReason: text("stop"), Model: model(t), ErrorMessage: optText().Draw(t, "error")}
	case wire.KindRetry:
		return wire.Retry{Attempt: small().Draw(t, "attempt"), UntilMs: small().Draw(t, "until"), Error: text("error")}
	case wire.KindRunEnd:
		return wire.RunEnd{Cause: Cause().Draw(t, "cause"), Usage: Usage().Draw(t, "usage")}
	case wire.KindRunStopped:
		return wire.RunStopped{Code: wire.Code(text("code")), Message: text("message")}
	case wire.KindNotice:
		n := wire.Notice{Code: words.NoticeCode(text("code")), Audience: rapid.SampledFrom([]words.Audience{words.ForUser, words.ForOperator}).Draw(t, "audience")}
		for _, name := range rapid.SliceOfNDistinct(Text(), 0, 3, rapid.ID).Draw(t, "facts") {
			n.Facts = append(n.Facts, wire.Fact{Name: name, Text: text("fact")})
		}
		return n
	default:
		return wire.Unknown{Word: k, Raw: jsonv.Arr(jsonv.Str(text("raw")), jsonv.Value{})}
	}
}

// Frame is any legal frame, of a known kind or not.
func Frame() *rapid.Generator[wire.Frame] {
	return rapid.Custom(func(t *rapid.T) wire.Frame {
		k := rapid.SampledFrom(append(wire.Kinds(), "hologram")).Draw(t, "kind")
		f := wire.Frame{
			ID:      rapid.StringN(1, 20, -1).Draw(t, "id"),
			Session: Session(seed().Draw(t, "session")),
			Body:    body(t, k),
		}
		f.Delivery = rapid.SampledFrom([]wire.Delivery{wire.Replay, wire.Level, wire.Live}).
			Filter(func(d wire.Delivery) bool { return k == "hologram" || k.Delivers(d) }).Draw(t, "delivery")
		if f.Delivery == wire.Replay {
			f.Cursor = wire.Cursor{
				Generation: small().Draw(t, "generation"), Seq: rapid.Int64Range(1, 1<<60).Draw(t, "seq"),
				Ordinal: number().Draw(t, "ordinal"),
			}
		}
		if rapid.Bool().Draw(t, "stranded") {
			f.Strand = rapid.StringN(1, 20, -1).Draw(t, "strand")
		}
		if rapid.Bool().Draw(t, "operated") {
			f.Operation = Op(seed().Draw(t, "operation"))
		}
		return f
	})
}
