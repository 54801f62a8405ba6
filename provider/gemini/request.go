package gemini

import (
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
)

// maxWireID is the longest call id that is sent, in bytes.
const maxWireID = 64

// grammar is how the dialect writes a request. Turns of the same kind are one content, which stays open until another kind comes.
var grammar = dialect.Grammar{API: API, MendID: dialect.Mend(maxWireID, dialect.Word), Head: encodeHead, Turn: encodeTurn, Tail: encodeTail}

// The kinds of contents. Results are told by the person, apart from what the person says: the provider counts the parts of that content.
const (
	person  = "user"
	model   = "model"
	results = "results"
)

// encodeHead writes the body up to its first content.
func encodeHead(req provider.Request) []byte {
	var w jsonv.Writer
	w.Begin()
	if !dialect.Blank(req.System) {
		w.Name("systemInstruction")
		w.Begin()
		w.Name("parts")
		w.BeginArray()
		encodeText(&w, req.System)
		w.EndArray()
		w.End()
	}
	if len(req.Tools) > 0 {
		w.Name("tools")
		w.BeginArray()
		w.Begin()
		w.Name("functionDeclarations")
		w.BeginArray()
		for _, tool := range dialect.SortedTools(req.Tools) {
			w.Begin()
			w.Str("name", tool.Name)
			if tool.Description != "" {
				w.Str("description", tool.Description)
			}
			w.Name("parametersJsonSchema")
			w.Value(dialect.ToolSchema(tool))
			w.End()
		}
		w.EndArray()
		w.End()
		w.EndArray()
	}
	encodeConfig(&w, req)
	w.Name("contents")
	w.BeginArray()
	return w.Bytes()
}

// encodeConfig writes the limits. Models up to 2.5 count the tokens of reasoning, later ones know levels of it.
func encodeConfig(w *jsonv.Writer, req provider.Request) {
	budget, level := thinkingOf(req.Thinking, req.Model.ModelID)
	if req.MaxOutput <= 0 && budget == 0 && level == "" {
		return
	}
	w.Name("generationConfig")
	w.Begin()
	if req.MaxOutput > 0 {
		w.Num("maxOutputTokens", req.MaxOutput)
	}
	if budget > 0 || level != "" {
		w.Name("thinkingConfig")
		w.Begin()
		w.Flag("includeThoughts", true)
		if level != "" {
			w.Str("thinkingLevel", level)
		} else {
			w.Num("thinkingBudget", budget)
		}
		w.End()
	}
	w.End()
}

// counted reports whether a model is of a generation that counts the tokens of reasoning, and knows no signatures that must be there.
func counted(modelID string) bool {
	return strings.Contains(modelID, "gemini-2") || strings.Contains(modelID, "gemini-1")
}

func thinkingOf(t provider.Thinking, modelID string) (budget int64, level string) {
	levels := map[provider.Thinking]struct {
		budget int64
		level  string
	}{
		provider.ThinkMinimal: {1024, "low"}, provider.ThinkLow: {2048, "low"}, provider.ThinkMedium: {8192, "medium"},
		provider.ThinkHigh: {16384, "high"}, provider.ThinkXHigh: {24576, "high"}, provider.ThinkMax: {24576, "high"},
	}
	asked := levels[t]
	if counted(modelID) {
		return asked.budget, ""
	}
	return 0, asked.level
}

// encodeTurn writes one turn as parts of the content of its kind. The first content must be a person's.
func encodeTurn(dst []byte, open string, t dialect.Turn) ([]byte, string) {
	kind := person
	switch t.(type) {
	case dialect.AnswerTurn:
		kind = model
	case dialect.ResultsTurn:
		kind = results
	case dialect.UserTurn:
	}
	start, before := len(dst), open
	if open == "" && kind == model {
		dst, open = begin(dst, open, person), person
		w := jsonv.NewWriter(dst)
		encodeText(w, dialect.Beginning)
		dst = w.Bytes()
	}
	dst = begin(dst, open, kind)
	begun := len(dst)
	w := jsonv.NewWriter(dst)
	switch t := t.(type) {
	case dialect.UserTurn:
		encodeBlocks(w, message.Project(t.Message))
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
	if r, ok := t.(dialect.ResultsTurn); ok {
		return encodePictures(dst, r.Results)
	}
	return dst, kind
}

// begin opens a content of a kind, or goes on with the open one.
func begin(dst []byte, open, kind string) []byte {
	if open == kind {
		return dialect.Separate(dst)
	}
	if open != "" {
		dst = append(dst, "]},"...)
	}
	role := kind
	if kind == results {
		role = person
	}
	return append(append(append(dst, `{"role":"`...), role...), `","parts":[`...)
}

// encodePictures writes the pictures of results, which follow the whole batch as a content of the person.
func encodePictures(dst []byte, batch []dialect.Result) ([]byte, string) {
	open := results
	for _, r := range batch {
		blocks, _ := r.Blocks()
		images := dialect.Images(blocks)
		if len(images) == 0 {
			continue
		}
		dst = begin(dst, open, person)
		open = person
		w := jsonv.NewWriter(dst)
		encodeText(w, dialect.PicturesOf(r))
		encodeBlocks(w, images)
		dst = w.Bytes()
	}
	return dst, open
}

func encodeText(w *jsonv.Writer, text string) {
	w.Begin()
	w.Str("text", text)
	w.End()
}

// encodeBlocks writes texts and pictures. Text of nothing but space is left out.
func encodeBlocks[B message.Block](w *jsonv.Writer, blocks []B) {
	for _, b := range blocks {
		switch b := any(b).(type) {
		case message.Text:
			if !dialect.Blank(b.Text) {
				encodeText(w, b.Text)
			}
		case message.Image:
			if !dialect.Takes(b, "image/png", "image/jpeg", "image/webp", "image/heic", "image/heif") {
				encodeText(w, dialect.LeftOut(b))
				continue
			}
			w.Begin()
			w.Name("inlineData")
			w.Begin()
			w.Str("mimeType", b.MimeType)
			w.Str("data", b.Data)
			w.End()
			w.End()
		}
	}
}

// unsigned is the documented stand-in for the signature of a call that has none, since another model made it.
const unsigned = "skip_thought_signature_validator"

// encodeAnswer writes an answer in the order of its blocks, each with its own signature. The provider looks for one on the first call of a batch.
func encodeAnswer(w *jsonv.Writer, t dialect.AnswerTurn) {
	if len(t.Calls) == 0 && len(dialect.Texts(t.Message.Content)) == 0 {
		return
	}
	needed := !signedCall(t)
	for i, b := range t.Message.Content {
		switch b := b.(type) {
		case message.Text:
			signature := ownSignature(t, b.Signature)
			if !dialect.Blank(b.Text) || signature != "" {
				w.Begin()
				w.Str("text", b.Text)
				encodeSignature(w, signature)
				w.End()
			}
		case message.Thinking:
			if t.Own && b.Signature != nil {
				encodeThinking(w, b)
			}
		case message.ToolCall:
			id := t.CallID(i)
			if id == "" {
				continue
			}
			w.Begin()
			w.Name("functionCall")
			w.Begin()
			w.Str("id", id)
			w.Str("name", dialect.ToolName(b.Name))
			w.Name("args")
			w.Value(dialect.Arguments(b))
			w.End()
			signature := ownSignature(t, b.ThoughtSignature)
			if needed {
				signature, needed = unsigned, false
			}
			encodeSignature(w, signature)
			w.End()
		}
	}
}

func ownSignature(t dialect.AnswerTurn, s *string) string {
	if !t.Own || s == nil {
		return ""
	}
	return *s
}

// signedCall reports whether a call of the answer has a signature that the provider can verify.
func signedCall(t dialect.AnswerTurn) bool {
	for i, b := range t.Message.Content {
		if c, ok := b.(message.ToolCall); ok && t.CallID(i) != "" && ownSignature(t, c.ThoughtSignature) != "" {
			return true
		}
	}
	return false
}

func encodeSignature(w *jsonv.Writer, signature string) {
	if signature != "" {
		w.Str("thoughtSignature", signature)
	}
}

// encodeThinking writes the model's own signed thought, or a part that was kept opaque.
func encodeThinking(w *jsonv.Writer, b message.Thinking) {
	switch v, sealed := dialect.Unseal(API, b); {
	case sealed:
		w.Value(v)
	case dialect.IsSealed(b), b.Redacted:
	default:
		w.Begin()
		w.Str("text", b.Thinking)
		w.Flag("thought", true)
		encodeSignature(w, *b.Signature)
		w.End()
	}
}

// encodeResult writes the response of a call, whose error is a field of its own.
func encodeResult(w *jsonv.Writer, r dialect.Result) {
	blocks, isError := r.Blocks()
	text := strings.Join(dialect.Texts(blocks), "\n\n")
	switch {
	case text == "" && len(dialect.Images(blocks)) > 0:
		text = "(the output is the picture that follows)"
	case text == "":
		text = dialect.NoOutput
	}
	field := "output"
	if isError {
		field = "error"
	}
	w.Begin()
	w.Name("functionResponse")
	w.Begin()
	w.Str("id", r.ID)
	w.Str("name", dialect.ToolName(r.Name))
	w.Name("response")
	w.Value(jsonv.Obj(jsonv.F(field, jsonv.Str(text))))
	w.End()
	w.End()
}

// encodeTail closes the last content, which must be the person's.
func encodeTail(body []byte, open string, _ dialect.Told) []byte {
	if open == "" || open == model {
		body = begin(body, open, person)
		w := jsonv.NewWriter(body)
		encodeText(w, dialect.GoOn)
		body = w.Bytes()
	}
	return append(body, "]}]}"...)
}
