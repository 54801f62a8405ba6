package anthropic

import (
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
)

// maxWireID is the longest call id that is sent, in bytes; the dialect's own are far shorter.
const maxWireID = 64

// grammar is how the dialect writes a request. Turns of the same side are one message, which stays open until the other side speaks.
var grammar = dialect.Grammar{API: API, MendID: dialect.Mend(maxWireID, dialect.Word), Head: encodeHead, Turn: encodeTurn, Tail: encodeTail}

// The sides of a conversation, which alternate.
const (
	person = "user"
	model  = "assistant"
)

// fallbackOutput is the limit of an answer from a model whose own is not known, in tokens: the dialect demands one.
const fallbackOutput = 8192

func maxOutput(req provider.Request) int64 {
	switch {
	case req.MaxOutput > 0:
		return req.MaxOutput
	case req.Model.MaxOutput > 0:
		return req.Model.MaxOutput
	}
	return fallbackOutput
}

// encodeHead writes the body up to its first message.
func encodeHead(req provider.Request) []byte {
	var w jsonv.Writer
	w.Begin()
	w.Str("model", req.Model.ModelID)
	w.Num("max_tokens", maxOutput(req))
	w.Flag("stream", true)
	if len(req.Tools) > 0 {
		w.Name("tools")
		w.BeginArray()
		tools := dialect.SortedTools(req.Tools)
		for i, tool := range tools {
			w.Begin()
			w.Str("name", tool.Name)
			if tool.Description != "" {
				w.Str("description", tool.Description)
			}
			w.Name("input_schema")
			w.Value(dialect.ToolSchema(tool))
			if i == len(tools)-1 {
				markLong(&w)
			}
			w.End()
		}
		w.EndArray()
	}
	if !dialect.Blank(req.System) {
		w.Name("system")
		w.BeginArray()
		w.Begin()
		w.Str("type", "text")
		w.Str("text", req.System)
		markLong(&w)
		w.End()
		w.EndArray()
	}
	w.Name("messages")
	w.BeginArray()
	return w.Bytes()
}

// encodeTurn writes one turn as blocks of the message of its side. The first message must be a person's.
func encodeTurn(dst []byte, open string, t dialect.Turn) ([]byte, string) {
	side := person
	if _, answer := t.(dialect.AnswerTurn); answer {
		side = model
	}
	start, before := len(dst), open
	if open == "" && side == model {
		dst = append(dst, `{"role":"user","content":[`...)
		w := jsonv.NewWriter(dst)
		encodeText(w, dialect.Beginning)
		dst, open = w.Bytes(), person
	}
	if open == side {
		dst = dialect.Separate(dst)
	} else {
		if open != "" {
			dst = append(dst, "]},"...)
		}
		dst = append(append(append(dst, `{"role":"`...), side...), `","content":[`...)
	}
	begun := len(dst)
	w := jsonv.NewWriter(dst)
	switch t := t.(type) {
	case dialect.UserTurn:
		encodeUser(w, t.Message)
	case dialect.AnswerTurn:
		encodeAnswer(w, t)
	case dialect.ResultsTurn:
		for _, r := range t.Results {
			encodeResult(w, r)
		}
	}
	if dst = w.Bytes(); len(dst) == begun {
		return dst[:start], before // nothing was told, and so is nothing of what was written ahead of it
	}
	return dst, side
}

func encodeText(w *jsonv.Writer, text string) {
	w.Begin()
	w.Str("type", "text")
	w.Str("text", text)
	w.End()
}

func encodeImage(w *jsonv.Writer, image message.Image) {
	if !dialect.Takes(image, "image/png", "image/jpeg", "image/gif", "image/webp") {
		encodeText(w, dialect.LeftOut(image))
		return
	}
	w.Begin()
	w.Str("type", "image")
	w.Name("source")
	w.Begin()
	w.Str("type", "base64")
	w.Str("media_type", image.MimeType)
	w.Str("data", image.Data)
	w.End()
	w.End()
}

// encodeUser writes a person's turn. Text of nothing but space is left out: the provider refuses it.
func encodeUser(w *jsonv.Writer, m *message.User) {
	for _, b := range message.Project(m) {
		switch b := b.(type) {
		case message.Text:
			if !dialect.Blank(b.Text) {
				encodeText(w, b.Text)
			}
		case message.Image:
			encodeImage(w, b)
		}
	}
}

// encodeAnswer writes an answer in the order of its blocks. One that says nothing and asks for nothing is left out.
func encodeAnswer(w *jsonv.Writer, t dialect.AnswerTurn) {
	if len(t.Calls) == 0 && len(dialect.Texts(t.Message.Content)) == 0 {
		return
	}
	for i, b := range t.Message.Content {
		switch b := b.(type) {
		case message.Text:
			if !dialect.Blank(b.Text) {
				encodeText(w, b.Text)
			}
		case message.Thinking:
			if t.Own {
				encodeThinking(w, b, t.Message.Content)
			}
		case message.ToolCall:
			if id := t.CallID(i); id != "" {
				w.Begin()
				w.Str("type", "tool_use")
				w.Str("id", id)
				w.Str("name", dialect.ToolName(b.Name))
				w.Name("input")
				w.Value(dialect.Arguments(b))
				w.End()
			}
		}
	}
}

// encodeThinking writes the model's own reasoning, which must be signed, and what was kept opaque.
func encodeThinking(w *jsonv.Writer, b message.Thinking, content []message.AssistantBlock) {
	switch {
	case b.Signature == nil:
	case dialect.IsSealed(b):
		if v, ok := dialect.Unseal(API, b); ok && answered(v, content) {
			w.Value(v)
		}
	case b.Redacted:
		w.Begin()
		w.Str("type", "redacted_thinking")
		w.Str("data", *b.Signature)
		w.End()
	default:
		w.Begin()
		w.Str("type", "thinking")
		w.Str("thinking", b.Thinking)
		w.Str("signature", *b.Signature)
		w.End()
	}
}

// answered reports whether an opaque block may be told: a use of a tool that the provider runs only together with its result.
func answered(v jsonv.Value, content []message.AssistantBlock) bool {
	use := dialect.Text(v, "type") == "server_tool_use" || dialect.Text(v, "type") == "mcp_tool_use"
	id, of := dialect.Text(v, "id"), dialect.Text(v, "tool_use_id")
	if !use && of == "" {
		return true
	}
	for _, b := range content {
		t, ok := b.(message.Thinking)
		if !ok {
			continue
		}
		if other, ok := dialect.Unseal(API, t); ok && (use && dialect.Text(other, "tool_use_id") == id || !use && dialect.Text(other, "id") == of) {
			return true
		}
	}
	return false
}

func encodeResult(w *jsonv.Writer, r dialect.Result) {
	blocks, isError := r.Blocks()
	w.Begin()
	w.Str("type", "tool_result")
	w.Str("tool_use_id", r.ID)
	w.Name("content")
	w.BeginArray()
	told := false
	for _, b := range blocks {
		switch b := b.(type) {
		case message.Text:
			if !dialect.Blank(b.Text) {
				encodeText(w, b.Text)
				told = true
			}
		case message.Image:
			encodeImage(w, b)
			told = true
		}
	}
	if !told {
		encodeText(w, dialect.NoOutput)
	}
	w.EndArray()
	if isError {
		w.Flag("is_error", true)
	}
	w.End()
}

// encodeTail closes the last message, which must be a person's, places the cache marks, and asks for reasoning.
func encodeTail(body []byte, open string, told dialect.Told) []byte {
	body = markTurns(body, told)
	switch open {
	case "":
		body = append(body, `{"role":"user","content":[`...)
		fallthrough
	case model:
		if open == model {
			body = append(body, `]},{"role":"user","content":[`...)
		}
		w := jsonv.NewWriter(body)
		encodeText(w, dialect.GoOn)
		body = w.Bytes()
	}
	return encodeReasoning(append(body, "]}]"...), told)
}
