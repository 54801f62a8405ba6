package openaichat

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
)

// encode writes the body of a request. The messages come last, so that the next request of the same conversation starts with the same bytes.
func encode(req provider.Request) []byte {
	return newEncoding(req, nil).close()
}

// encodeHead writes the body up to its first message: what is the same in every request of a conversation.
func encodeHead(dst []byte, req provider.Request) []byte {
	w := jsonv.NewWriter(dst)
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
	encodeTools(w, req.Tools)
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

// sizeHint estimates the body, so that a large one is not copied again and again while it grows.
func sizeHint(req provider.Request) int {
	n := 4096 + len(req.System) + 1024*len(req.Tools)
	for _, m := range req.Messages {
		n += 128
		switch m := m.(type) {
		case *message.User:
			n += contentSize(m.Content)
		case *message.Assistant:
			n += contentSize(m.Content)
		case *message.ToolResult:
			n += contentSize(m.Content)
		case *message.Custom:
		}
	}
	return n + n/16 // escapes
}

func contentSize[B message.Block](blocks []B) int {
	n := 0
	for _, b := range blocks {
		switch b := any(b).(type) {
		case message.Text:
			n += len(b.Text)
		case message.Image:
			n += len(b.Data)
		case message.ToolCall:
			n += 256
		}
	}
	return n
}

// encodeTools writes the tools sorted by name, since providers cache by prefix. An empty list is left out: it is refused.
func encodeTools(w *jsonv.Writer, tools []provider.Tool) {
	if len(tools) == 0 {
		return
	}
	sorted := slices.SortedStableFunc(slices.Values(tools), func(a, b provider.Tool) int { return cmp.Compare(a.Name, b.Name) })
	w.Name("tools")
	w.BeginArray()
	for _, tool := range sorted {
		w.Begin()
		w.Str("type", "function")
		w.Name("function")
		w.Begin()
		w.Str("name", tool.Name)
		if tool.Description != "" {
			w.Str("description", tool.Description)
		}
		w.Name("parameters")
		if tool.Schema.Kind() == jsonv.Object {
			w.Value(tool.Schema)
		} else {
			w.Value(jsonv.Obj(jsonv.F("type", jsonv.Str("object")), jsonv.F("properties", jsonv.Obj())))
		}
		w.End()
		w.End()
	}
	w.EndArray()
}

// encodeMessage writes one message. The dialect has no pictures in tool results, so they follow as a user turn; that turn must not stand between
// the results of one batch, so the pictures wait until the batch ends. The result is the pictures that wait now.
func encodeMessage(w *jsonv.Writer, m message.Message, waiting []picture) []picture {
	if _, result := m.(*message.ToolResult); !result {
		encodePictures(w, waiting)
		waiting = nil
	}
	switch m := m.(type) {
	case *message.User:
		encodeUser(w, m)
	case *message.Assistant:
		encodeAssistant(w, m)
	case *message.ToolResult:
		waiting = append(waiting, encodeResult(w, m)...)
	case *message.Custom:
		// An application's own message has no meaning to a model. What should reach one is projected to a user message before.
	}
	return waiting
}

// encodeUser writes a person's turn: one string when it is text alone, which every server takes, otherwise typed parts. Text of nothing but space
// is left out, and a turn with nothing left too: providers refuse empty text.
func encodeUser(w *jsonv.Writer, m *message.User) {
	var texts []string
	images := false
	content := message.Project(m)
	for _, b := range content {
		switch b := b.(type) {
		case message.Text:
			if !blank(b.Text) {
				texts = append(texts, b.Text)
			}
		case message.Image:
			images = true
		}
	}
	if len(texts) == 0 && !images {
		return
	}
	w.Begin()
	w.Str("role", "user")
	if !images {
		w.Str("content", strings.Join(texts, "\n\n"))
		w.End()
		return
	}
	w.Name("content")
	w.BeginArray()
	for _, b := range content {
		switch b := b.(type) {
		case message.Text:
			if !blank(b.Text) {
				encodeTextPart(w, b.Text)
			}
		case message.Image:
			encodeImagePart(w, b)
		}
	}
	w.EndArray()
	w.End()
}

// encodeAssistant writes an answer: its text and its calls. Reasoning is not replayed. An answer with neither is left out.
func encodeAssistant(w *jsonv.Writer, m *message.Assistant) {
	var texts []string
	calls, _ := m.ToolCalls()
	for _, b := range m.Content {
		if t, ok := b.(message.Text); ok && !blank(t.Text) {
			texts = append(texts, t.Text)
		}
	}
	if len(texts) == 0 && len(calls) == 0 {
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
	if len(calls) > 0 {
		w.Name("tool_calls")
		w.BeginArray()
		for _, c := range calls {
			w.Begin()
			w.Str("id", wireID(c.ID))
			w.Str("type", "function")
			w.Name("function")
			w.Begin()
			w.Str("name", wireName(c.Name))
			w.Str("arguments", c.Arguments.String())
			w.End()
			w.End()
		}
		w.EndArray()
	}
	w.End()
}

// picture is an image of a tool result that waits for the end of its batch.
type picture struct {
	call  string
	tool  string
	image message.Image
}

// encodeResult writes a tool result and returns its pictures. The dialect has no error flag, so a failed one says so in its text.
func encodeResult(w *jsonv.Writer, m *message.ToolResult) []picture {
	var texts []string
	var pictures []picture
	for _, b := range m.Content {
		switch b := b.(type) {
		case message.Text:
			if !blank(b.Text) {
				texts = append(texts, b.Text)
			}
		case message.Image:
			pictures = append(pictures, picture{wireID(m.ToolCallID), m.ToolName, b})
		}
	}
	content := strings.Join(texts, "\n\n")
	switch {
	case content == "" && len(pictures) > 0:
		content = "(the output is the picture that follows)"
	case content == "":
		content = "(no output)"
	}
	if m.IsError {
		content = "[tool error]\n" + content
	}
	w.Begin()
	w.Str("role", "tool")
	w.Str("tool_call_id", wireID(m.ToolCallID))
	w.Str("content", content)
	w.End()
	return pictures
}

func encodePictures(w *jsonv.Writer, pictures []picture) {
	if len(pictures) == 0 {
		return
	}
	w.Begin()
	w.Str("role", "user")
	w.Name("content")
	w.BeginArray()
	for i, p := range pictures {
		if i == 0 || pictures[i-1].call != p.call {
			encodeTextPart(w, "Pictures from the output of the tool "+p.tool+" (call "+p.call+"):")
		}
		encodeImagePart(w, p.image)
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

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// The dialect's bounds on what names a call. A call that passes them would make every later request of its conversation fail, so what is
// stored stays as it is and what is sent is mended, in the call and in its result alike.
const (
	maxWireID   = 40
	maxWireName = 64
)

// wireID is the id itself, or a digest of it when it is longer than the dialect allows.
func wireID(id string) string {
	if id != "" && len(id) <= maxWireID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

// wireName is the name with every character outside the dialect's alphabet replaced, for a model may invent any name.
func wireName(name string) string {
	if name == "" {
		return unnamed
	}
	mended := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	return mended[:min(len(mended), maxWireName)]
}
