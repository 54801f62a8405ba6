package openairesponses

import (
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
)

// maxWireID is the longest call id that the dialect takes, in bytes.
const maxWireID = 64

// grammar is how the dialect writes a request: a flat list of items, which comes last.
var grammar = dialect.Grammar{API: API, MendID: dialect.Mend(maxWireID, dialect.Printable), Head: encodeHead, Turn: encodeTurn, Tail: encodeTail}

// encodeHead writes the body up to its first item. Nothing is stored at the provider, so reasoning must come back encrypted to be told again.
func encodeHead(req provider.Request) []byte {
	var w jsonv.Writer
	w.Begin()
	w.Str("model", req.Model.ModelID)
	w.Flag("stream", true)
	w.Flag("store", false)
	w.Strs("include", []string{"reasoning.encrypted_content"})
	if !dialect.Blank(req.System) {
		w.Str("instructions", req.System)
	}
	if req.MaxOutput > 0 {
		w.Num("max_output_tokens", req.MaxOutput)
	}
	if effort := effortOf(req.Thinking); effort != "" {
		w.Name("reasoning")
		w.Begin()
		w.Str("effort", effort)
		w.Str("summary", "auto")
		w.End()
	}
	if len(req.Tools) > 0 {
		w.Name("tools")
		w.BeginArray()
		for _, tool := range dialect.SortedTools(req.Tools) {
			w.Begin()
			w.Str("type", "function")
			w.Str("name", tool.Name)
			if tool.Description != "" {
				w.Str("description", tool.Description)
			}
			w.Name("parameters")
			w.Value(dialect.ToolSchema(tool))
			w.Flag("strict", false)
			w.End()
		}
		w.EndArray()
	}
	w.Name("input")
	w.BeginArray()
	return w.Bytes()
}

// effortOf is the dialect's word for a level; every model that reasons knows these three.
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

// encodeTail closes the list, which must not be empty.
func encodeTail(body []byte, _ string, _ dialect.Told) []byte {
	if body[len(body)-1] == '[' {
		w := jsonv.NewWriter(body)
		encodeMessage(w, "user", "input_text", dialect.GoOn, "")
		body = w.Bytes()
	}
	return append(body, "]}"...)
}

// encodeTurn writes one turn as the items that it takes.
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
		for _, r := range t.Results {
			encodeResult(w, r)
		}
	}
	if dst = w.Bytes(); len(dst) == begun {
		return dst[:start], open
	}
	return dst, open
}

// encodeMessage writes a message of one text.
func encodeMessage(w *jsonv.Writer, role, kind, text, phase string) {
	w.Begin()
	w.Str("type", "message")
	w.Str("role", role)
	w.Name("content")
	w.BeginArray()
	w.Begin()
	w.Str("type", kind)
	w.Str("text", text)
	if kind == "output_text" {
		w.Name("annotations")
		w.BeginArray()
		w.EndArray()
	}
	w.End()
	w.EndArray()
	if phase != "" {
		w.Str("phase", phase)
	}
	w.End()
}

func encodeInputs[B message.Block](w *jsonv.Writer, blocks []B) {
	for _, b := range blocks {
		switch b := any(b).(type) {
		case message.Text:
			if !dialect.Blank(b.Text) {
				w.Begin()
				w.Str("type", "input_text")
				w.Str("text", b.Text)
				w.End()
			}
		case message.Image:
			w.Begin()
			w.Str("type", "input_image")
			w.Str("image_url", "data:"+b.MimeType+";base64,"+b.Data)
			w.Str("detail", "auto")
			w.End()
		}
	}
}

// encodeUser writes a person's turn. Text of nothing but space is left out, and a turn with nothing left too.
func encodeUser(w *jsonv.Writer, m *message.User) {
	content := message.Project(m)
	if len(dialect.Texts(content)) == 0 && len(dialect.Images(content)) == 0 {
		return
	}
	w.Begin()
	w.Str("type", "message")
	w.Str("role", "user")
	w.Name("content")
	w.BeginArray()
	encodeInputs(w, content)
	w.EndArray()
	w.End()
}

// encodeAnswer writes an answer in the order of its blocks. Items go without their ids: the provider stores none, and looks for those that are named.
func encodeAnswer(w *jsonv.Writer, t dialect.AnswerTurn) {
	last := lastTold(t)
	for i, b := range t.Message.Content {
		switch b := b.(type) {
		case message.Text:
			if !dialect.Blank(b.Text) {
				phase := ""
				if t.Own && b.Signature != nil {
					phase = phaseOf(*b.Signature)
				}
				encodeMessage(w, "assistant", "output_text", b.Text, phase)
			}
		case message.Thinking:
			if t.Own && i < last {
				encodeReasoning(w, b)
			}
		case message.ToolCall:
			if id := t.CallID(i); id != "" {
				w.Begin()
				w.Str("type", "function_call")
				w.Str("call_id", id)
				w.Str("name", dialect.ToolName(b.Name))
				w.Str("arguments", dialect.Arguments(b).String())
				w.End()
			}
		}
	}
}

// lastTold is the index of the last text or call of an answer, -1 for none: the provider refuses reasoning that nothing follows.
func lastTold(t dialect.AnswerTurn) int {
	last := -1
	for i, b := range t.Message.Content {
		switch b := b.(type) {
		case message.Text:
			if !dialect.Blank(b.Text) {
				last = i
			}
		case message.ToolCall:
			if t.CallID(i) != "" {
				last = i
			}
		case message.Thinking:
		}
	}
	return last
}

// phaseOf reads the phase from the signature of a text.
func phaseOf(signature string) string {
	v, err := jsonv.ParseString(signature)
	if err != nil {
		return ""
	}
	return dialect.Text(v, "phase")
}

// encodeReasoning writes the model's own reasoning, which cannot be told without its encrypted content, and what was kept opaque.
func encodeReasoning(w *jsonv.Writer, b message.Thinking) {
	switch {
	case b.Signature == nil:
	case dialect.IsSealed(b):
		if v, ok := dialect.Unseal(API, b); ok && dialect.Text(v, "type") != "" {
			w.Value(without(v, "id"))
		}
	default:
		w.Begin()
		w.Str("type", "reasoning")
		w.Name("summary")
		w.BeginArray()
		if !dialect.Blank(b.Thinking) {
			w.Begin()
			w.Str("type", "summary_text")
			w.Str("text", b.Thinking)
			w.End()
		}
		w.EndArray()
		w.Str("encrypted_content", *b.Signature)
		w.End()
	}
}

// without is an object without a field.
func without(v jsonv.Value, name string) jsonv.Value {
	var fields []jsonv.Member
	for n, field := range v.Fields() {
		if n != name {
			fields = append(fields, jsonv.F(n, field))
		}
	}
	return jsonv.Obj(fields...)
}

// encodeResult writes the output of a call: a text, or typed parts where there are pictures. The dialect has no error flag, so a failed one is wrapped.
func encodeResult(w *jsonv.Writer, r dialect.Result) {
	blocks, isError := r.Blocks()
	text := strings.Join(dialect.Texts(blocks), "\n\n")
	images := dialect.Images(blocks)
	if text == "" && len(images) == 0 {
		text = dialect.NoOutput
	}
	if isError {
		text = jsonv.Obj(jsonv.F("is_error", jsonv.Boolean(true)), jsonv.F("content", jsonv.Str(text))).String()
	}
	w.Begin()
	w.Str("type", "function_call_output")
	w.Str("call_id", r.ID)
	w.Name("output")
	if len(images) == 0 {
		w.String(text)
	} else {
		parts := []message.ResultBlock{message.Text{Text: text}}
		for _, image := range images {
			parts = append(parts, image)
		}
		w.BeginArray()
		encodeInputs(w, parts)
		w.EndArray()
	}
	w.End()
}
