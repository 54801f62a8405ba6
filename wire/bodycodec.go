package wire

import (
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
)

func (b RunStart) appendFields(w *jsonv.Writer) {
	appendModel(w, "model", b.Model)
	w.Str("mode", string(b.Mode))
	w.Str("cwd", b.Cwd)
	w.Num("tools", int64(b.Tools))
}

func decodeRunStart(r *jsonv.Reader) Body {
	return RunStart{
		Model: jsonv.One(r, "model", decodeModel),
		Mode:  words.PermissionMode(r.Str("mode")),
		Cwd:   r.Str("cwd"),
		Tools: int(count(r, "tools")),
	}
}

func (b UserMessage) appendFields(w *jsonv.Writer) {
	w.Str("entryId", b.Entry.String())
	w.Str("text", b.Text)
	w.Num("bytes", b.Bytes)
	w.Num("images", int64(b.Images))
}

func decodeUserMessage(r *jsonv.Reader) Body {
	b := UserMessage{Entry: entryID(r), Text: r.Str("text"), Bytes: count(r, "bytes"), Images: int(count(r, "images"))}
	if b.Bytes < int64(len(b.Text)) {
		r.Fail("bytes", "at least the length of text", jsonv.Num(b.Bytes))
	}
	return b
}

func (s Segment) appendFields(w *jsonv.Writer) {
	w.Str("entryId", s.Entry.String())
	w.Num("block", int64(s.Block))
}

func segment(r *jsonv.Reader) Segment {
	return Segment{Entry: entryID(r), Block: int(count(r, "block"))}
}

func appendDelta(w *jsonv.Writer, s Segment, offset int64, text string) {
	s.appendFields(w)
	w.Num("offset", offset)
	w.Str("text", text)
}

func (b TextDelta) appendFields(w *jsonv.Writer)      { appendDelta(w, b.Segment, b.Offset, b.Text) }
func (b ReasoningDelta) appendFields(w *jsonv.Writer) { appendDelta(w, b.Segment, b.Offset, b.Text) }

func decodeTextDelta(r *jsonv.Reader) Body {
	return TextDelta{Segment: segment(r), Offset: count(r, "offset"), Text: r.Str("text")}
}

func decodeReasoningDelta(r *jsonv.Reader) Body {
	return ReasoningDelta{Segment: segment(r), Offset: count(r, "offset"), Text: r.Str("text")}
}

func (b TextEnd) appendFields(w *jsonv.Writer) {
	b.Segment.appendFields(w)
	w.Str("content", b.Content)
}

func decodeTextEnd(r *jsonv.Reader) Body {
	return TextEnd{Segment: segment(r), Content: r.Str("content")}
}

func (b ReasoningEnd) appendFields(w *jsonv.Writer) {
	b.Segment.appendFields(w)
	w.Str("content", b.Content)
	if b.Redacted {
		w.Flag("redacted", true)
	}
}

func decodeReasoningEnd(r *jsonv.Reader) Body {
	return ReasoningEnd{Segment: segment(r), Content: r.Str("content"), Redacted: r.OptFlag("redacted")}
}

func (b ToolCall) appendFields(w *jsonv.Writer) {
	b.Segment.appendFields(w)
	w.Str("callId", b.CallID)
	w.Str("name", b.Name)
	w.Name("arguments")
	w.Value(b.Arguments)
}

func decodeToolCall(r *jsonv.Reader) Body {
	return ToolCall{Segment: segment(r), CallID: r.Str("callId"), Name: r.Str("name"), Arguments: r.Value("arguments")}
}

func (b ToolProgress) appendFields(w *jsonv.Writer) {
	w.Str("callId", b.CallID)
	w.Str("stream", b.Stream)
	w.Str("tail", b.Tail)
	w.Num("totalBytes", b.TotalBytes)
}

func decodeToolProgress(r *jsonv.Reader) Body {
	return ToolProgress{CallID: r.Str("callId"), Stream: r.Str("stream"), Tail: r.Str("tail"), TotalBytes: count(r, "totalBytes")}
}

func (b ToolResult) appendFields(w *jsonv.Writer) {
	w.Str("entryId", b.Entry.String())
	w.Str("callId", b.CallID)
	w.Str("name", b.Name)
	w.Name("text")
	w.BeginArray()
	for _, t := range b.Text {
		w.Begin()
		w.Str("text", t.Text)
		w.Num("bytes", t.Bytes)
		w.End()
	}
	w.EndArray()
	w.Num("images", int64(b.Images))
	w.Flag("isError", b.IsError)
	if b.Gate != nil {
		w.Name("gate")
		w.Begin()
		w.Str("disposition", string(b.Gate.Disposition))
		w.OptStr("settlement", (*string)(b.Gate.Settlement))
		w.OptStr("deniedBy", (*string)(b.Gate.DeniedBy))
		w.OptStr("origin", (*string)(b.Gate.Origin))
		w.End()
	}
}

func decodeToolResult(r *jsonv.Reader) Body {
	return ToolResult{
		Entry: entryID(r), CallID: r.Str("callId"), Name: r.Str("name"),
		Text: jsonv.Each(r, "text", decodeTextBlock), Images: int(count(r, "images")), IsError: r.Flag("isError"),
		Gate: jsonv.OptOne(r, "gate", decodeGate),
	}
}

func decodeTextBlock(v jsonv.Value) (TextBlock, error) {
	r := jsonv.Read(v, "wire.TextBlock")
	b := TextBlock{Text: r.Str("text"), Bytes: count(r, "bytes")}
	if b.Bytes < int64(len(b.Text)) {
		r.Fail("bytes", "at least the length of text", jsonv.Num(b.Bytes))
	}
	return b, r.Err()
}

func decodeGate(v jsonv.Value) (Gate, error) {
	r := jsonv.Read(v, "wire.Gate")
	g := Gate{
		Disposition: words.Disposition(r.Str("disposition")), Settlement: (*words.Settlement)(r.OptStr("settlement")),
		DeniedBy: (*words.DeniedBy)(r.OptStr("deniedBy")), Origin: (*words.AskOrigin)(r.OptStr("origin")),
	}
	return g, r.Err()
}

func (b TurnEnd) appendFields(w *jsonv.Writer) {
	w.Str("entryId", b.Entry.String())
	b.Usage.append(w)
	w.Str("stopReason", b.StopReason)
	appendModel(w, "model", b.Model)
	w.OptStr("errorMessage", b.ErrorMessage)
}

func decodeTurnEnd(r *jsonv.Reader) Body {
	return TurnEnd{
		Entry: entryID(r), Usage: jsonv.One(r, "usage", decodeUsage), StopReason: r.Str("stopReason"),
		Model: jsonv.One(r, "model", decodeModel), ErrorMessage: r.OptStr("errorMessage"),
	}
}

func (b Retry) appendFields(w *jsonv.Writer) {
	w.Num("attempt", b.Attempt)
	w.Num("untilMs", b.UntilMs)
	w.Str("error", b.Error)
}

func decodeRetry(r *jsonv.Reader) Body {
	return Retry{Attempt: count(r, "attempt"), UntilMs: count(r, "untilMs"), Error: r.Str("error")}
}

func (b RunEnd) appendFields(w *jsonv.Writer) {
	w.Name("cause")
	w.Value(b.Cause.value())
	b.Usage.append(w)
}

func decodeRunEnd(r *jsonv.Reader) Body {
	return RunEnd{Cause: jsonv.One(r, "cause", decodeCause), Usage: jsonv.One(r, "usage", decodeUsage)}
}

func (b RunStopped) appendFields(w *jsonv.Writer) {
	w.Str("code", string(b.Code))
	w.Str("message", b.Message)
}

func decodeRunStopped(r *jsonv.Reader) Body {
	return RunStopped{Code: Code(r.Str("code")), Message: r.Str("message")}
}

func (b Notice) appendFields(w *jsonv.Writer) {
	w.Str("code", string(b.Code))
	w.Str("audience", string(b.Audience))
	w.Name("facts")
	w.Begin()
	for _, f := range b.Facts {
		w.Str(f.Name, f.Text)
	}
	w.End()
}

func decodeNotice(r *jsonv.Reader) Body {
	b := Notice{Code: words.NoticeCode(r.Str("code")), Audience: words.ForOperator}
	if words.Audience(r.Str("audience")) == words.ForUser {
		b.Audience = words.ForUser
	}
	facts := r.Value("facts")
	if facts.Kind() != jsonv.Object {
		r.Fail("facts", "an object of texts", facts)
	}
	for name, v := range facts.Fields() {
		text, ok := v.Text()
		if !ok {
			r.Fail("facts", "texts", v)
		}
		b.Facts = append(b.Facts, Fact{Name: name, Text: text})
	}
	return b
}

func appendModel(w *jsonv.Writer, name string, m ModelRef) {
	w.Name(name)
	w.Begin()
	w.Str("provider", m.Provider)
	w.Str("modelId", m.ModelID)
	w.End()
}

func decodeModel(v jsonv.Value) (ModelRef, error) {
	r := jsonv.Read(v, "wire.ModelRef")
	m := ModelRef{Provider: r.Str("provider"), ModelID: r.Str("modelId")}
	return m, r.Err()
}

func entryID(r *jsonv.Reader) id.EntryID {
	s := r.Str("entryId")
	if r.Err() != nil {
		return id.EntryID{}
	}
	e, err := id.ParseEntryID(s)
	r.Adopt("entryId", err)
	return e
}

// maxCount keeps counts exact in every client language.
const maxCount = 1<<53 - 1

// count reads a required number that is not negative.
func count(r *jsonv.Reader, name string) int64 {
	n := r.Num(name)
	if n < 0 || n > maxCount {
		r.Fail(name, "0 to 2^53-1", jsonv.Num(n))
		return 0
	}
	return n
}
