package openaichat

import (
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
)

// maxWireID is the longest call id that the dialect takes, in bytes. A call that passes it would make every later request of its conversation fail, so
// what is stored stays as it is and what is sent is mended, in the call and in its result alike.
const maxWireID = 40

var wireID = dialect.Mend(maxWireID, dialect.Printable)

// grammar is how the dialect writes a request. The messages come last, so that the next request of the same conversation starts with the same bytes.
var grammar = dialect.Grammar{API: API, MendID: wireID, Head: encodeHead, Turn: encodeTurn, Tail: encodeTail}

// encodeHead writes the body up to its first message: what is the same in every request of a conversation.
func encodeHead(req provider.Request) []byte {
	var w jsonv.Writer
	w.Begin()
	w.Str("model", req.Model.ModelID)
	w.Flag("stream", true)
	w.Name("stream_options")
	w.Begin()
	w.Flag("include_usage", true)
	w.End()
	if req.MaxOutput > 0 {
		w.Num("max_completion_tokens", req.MaxOutput)
	}
	if effort := effortOf(req.Thinking); effort != "" {
		w.Str("reasoning_effort", effort)
	}
	encodeTools(&w, req.Tools)
	w.Name("messages")
	w.BeginArray()
	if req.System != "" {
		w.Begin()
		w.Str("role", "system")
		w.Str("content", req.System)
		w.End()
	}
	return w.Bytes()
}

// effortOf is the dialect's word for a level; every server that knows the field knows these three.
func effortOf(t provider.Thinking) string {
	switch t {
	case provider.ThinkMinimal, provider.ThinkLow:
		return "low"
	case provider.ThinkMedium:
		return "medium"
	case provider.ThinkHigh, provider.ThinkXHigh, provider.ThinkMax:
		return "high"
	case provider.ThinkOff:
	}
	return ""
}

// encodeTools writes the tools. An empty list is left out: it is refused.
func encodeTools(w *jsonv.Writer, tools []provider.Tool) {
	if len(tools) == 0 {
		return
	}
	w.Name("tools")
	w.BeginArray()
	for _, tool := range dialect.SortedTools(tools) {
		w.Begin()
		w.Str("type", "function")
		w.Name("function")
		w.Begin()
		w.Str("name", tool.Name)
		if tool.Description != "" {
			w.Str("description", tool.Description)
		}
		w.Name("parameters")
		w.Value(dialect.ToolSchema(tool))
		w.End()
		w.End()
	}
	w.EndArray()
}

func encodeTail(body []byte, _ string, _ dialect.Told) []byte { return append(body, "]}"...) }

// encodeTurn writes one turn as the messages that it takes.
func encodeTurn(dst []byte, open string, t dialect.Turn) ([]byte, string) {
	start := len(dst)
	dst = dialect.Separate(dst)
	begun := len(dst)
	w := jsonv.NewWriter(dst)
	switch t := t.(type) {
	case dialect.UserTurn:
		encodeUser(w, t.Message)
	case dialect.AnswerTurn:
		encodeAnswer(w, t)
	case dialect.ResultsTurn:
		encodeResults(w, t.Results)
	}
	if dst = w.Bytes(); len(dst) == begun {
		return dst[:start], open // nothing was written, so the comma is none either
	}
	return dst, open
}

// encodeUser writes a person's turn: one string when it is text alone, which every server takes, otherwise typed parts. Text of nothing but space
// is left out, and a turn with nothing left too: providers refuse empty text.
func encodeUser(w *jsonv.Writer, m *message.User) {
	content := message.Project(m)
	texts, images := dialect.Texts(content), dialect.Images(content)
	if len(texts) == 0 && len(images) == 0 {
		return
	}
	w.Begin()
	w.Str("role", "user")
	if len(images) == 0 {
		w.Str("content", strings.Join(texts, "\n\n"))
		w.End()
		return
	}
	w.Name("content")
	w.BeginArray()
	for _, b := range content {
		switch b := b.(type) {
		case message.Text:
			if !dialect.Blank(b.Text) {
				encodeTextPart(w, b.Text)
			}
		case message.Image:
			encodeImagePart(w, b)
		}
	}
	w.EndArray()
	w.End()
}

// encodeAnswer writes an answer: its text and its calls. Reasoning is not replayed. An answer with neither is left out.
func encodeAnswer(w *jsonv.Writer, t dialect.AnswerTurn) {
	texts := dialect.Texts(t.Message.Content)
	if len(texts) == 0 && len(t.Calls) == 0 {
		return
	}
	w.Begin()
	w.Str("role", "assistant")
	w.Name("content")
	if len(texts) > 0 {
		w.String(strings.Join(texts, "\n\n"))
	} else {
		w.Null()
	}
	if len(t.Calls) > 0 {
		w.Name("tool_calls")
		w.BeginArray()
		for i, b := range t.Message.Content {
			if c, ok := b.(message.ToolCall); ok && t.CallID(i) != "" {
				encodeCall(w, t.CallID(i), c)
			}
		}
		w.EndArray()
	}
	w.End()
}

func encodeCall(w *jsonv.Writer, id string, c message.ToolCall) {
	w.Begin()
	w.Str("id", id)
	w.Str("type", "function")
	w.Name("function")
	w.Begin()
	w.Str("name", dialect.ToolName(c.Name))
	w.Str("arguments", dialect.Arguments(c).String())
	w.End()
	w.End()
}

// encodeResults writes the results of a batch. The dialect has no error flag, so a failed one says so in its text, and no pictures, so they follow as a
// user turn after the whole batch: it must not stand between two results.
func encodeResults(w *jsonv.Writer, results []dialect.Result) {
	pictured := false
	for _, r := range results {
		blocks, isError := r.Blocks()
		images := dialect.Images(blocks)
		content := strings.Join(dialect.Texts(blocks), "\n\n")
		switch {
		case content == "" && len(images) > 0:
			content = "(the output is the picture that follows)"
		case content == "":
			content = dialect.NoOutput
		}
		if isError {
			content = "[tool error]\n" + content
		}
		w.Begin()
		w.Str("role", "tool")
		w.Str("tool_call_id", r.ID)
		w.Str("content", content)
		w.End()
		pictured = pictured || len(images) > 0
	}
	if pictured {
		encodePictures(w, results)
	}
}

func encodePictures(w *jsonv.Writer, results []dialect.Result) {
	w.Begin()
	w.Str("role", "user")
	w.Name("content")
	w.BeginArray()
	for _, r := range results {
		blocks, _ := r.Blocks()
		for i, image := range dialect.Images(blocks) {
			if i == 0 {
				encodeTextPart(w, dialect.PicturesOf(r))
			}
			encodeImagePart(w, image)
		}
	}
	w.EndArray()
	w.End()
}

func encodeTextPart(w *jsonv.Writer, text string) {
	w.Begin()
	w.Str("type", "text")
	w.Str("text", text)
	w.End()
}

func encodeImagePart(w *jsonv.Writer, image message.Image) {
	w.Begin()
	w.Str("type", "image_url")
	w.Name("image_url")
	w.Begin()
	w.Str("url", "data:"+image.MimeType+";base64,"+image.Data)
	w.End()
	w.End()
}
