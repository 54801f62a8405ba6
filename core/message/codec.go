package message

import (
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
)

// Append writes the stored shape of m.
func Append(w *jsonv.Writer, m Message) {
	w.Begin()
	switch m := m.(type) {
	case *User:
		w.Str("role", "user")
		appendBlocks(w, m.Content)
		w.Num("timestamp", m.Timestamp)
		w.Name("origin") // null when not attributed, as earlier rows have it
		AppendOrigin(w, m.Origin)
	case *Assistant:
		appendAssistant(w, m)
	case *ToolResult:
		w.Str("role", "toolResult")
		w.Str("toolCallId", m.ToolCallID)
		w.Str("toolName", m.ToolName)
		appendBlocks(w, m.Content)
		w.Opaque("details", m.Details)
		if m.Usage != nil {
			w.Name("usage")
			usage.Append(w, *m.Usage)
		}
		if m.AddedToolNames != nil {
			w.Strs("addedToolNames", m.AddedToolNames)
		}
		w.Flag("isError", m.IsError)
		w.Num("timestamp", m.Timestamp)
	case *Custom:
		w.Str("role", "custom")
		w.Str("schema", m.Schema)
		w.Opaque("payload", &m.Payload)
	}
	w.End()
}

func appendAssistant(w *jsonv.Writer, m *Assistant) {
	w.Str("role", "assistant")
	appendBlocks(w, m.Content)
	w.Str("api", m.API)
	w.Str("provider", m.Provider)
	w.Str("model", m.Model)
	w.OptStr("responseModel", m.ResponseModel)
	w.OptStr("responseId", m.ResponseID)
	w.Opaque("diagnostics", m.Diagnostics)
	w.Name("usage")
	usage.Append(w, m.Usage)
	w.Str("stopReason", string(m.StopReason))
	if m.Deferred != nil {
		w.Name("deferred")
		AppendHandle(w, *m.Deferred)
	}
	w.OptStr("errorMessage", m.ErrorMessage)
	w.OptStr("rawStopReason", m.RawStopReason)
	if m.EndTurn != nil {
		w.Flag("endTurn", *m.EndTurn)
	}
	w.Num("timestamp", m.Timestamp)
}

func appendBlocks[B Block](w *jsonv.Writer, blocks []B) {
	w.Name("content")
	w.BeginArray()
	for _, b := range blocks {
		AppendBlock(w, b)
	}
	w.EndArray()
}

// AppendBlock writes the stored shape of any block.
func AppendBlock(w *jsonv.Writer, b Block) {
	w.Begin()
	switch b := b.(type) {
	case Text:
		w.Str("type", "text")
		w.Str("text", b.Text)
		w.OptStr("textSignature", b.Signature)
	case Image:
		w.Str("type", "image")
		w.Str("data", b.Data)
		w.Str("mimeType", b.MimeType)
	case Thinking:
		w.Str("type", "thinking")
		w.Str("thinking", b.Thinking)
		w.OptStr("thinkingSignature", b.Signature)
		if b.Redacted {
			w.Flag("redacted", true)
		}
	case ToolCall:
		w.Str("type", "toolCall")
		w.Str("id", b.ID)
		w.Str("name", b.Name)
		w.Name("arguments")
		if b.Arguments.IsNull() {
			w.Value(jsonv.Obj())
		} else {
			w.Value(b.Arguments)
		}
		w.OptStr("thoughtSignature", b.ThoughtSignature)
		w.OptStr("namespace", b.Namespace)
	}
	w.End()
}

// Decode reads the stored shape of a message.
func Decode(v jsonv.Value) (Message, error) {
	r := jsonv.Read(v, "message.Decode")
	role := r.Str("role")
	if err := r.Err(); err != nil {
		return nil, err
	}
	switch role {
	case "user":
		m := &User{Content: userContent(r), Timestamp: r.Num("timestamp"), Origin: originField(r)}
		return m, r.Err()
	case "assistant":
		return decodeAssistant(r)
	case "toolResult":
		m := &ToolResult{
			ToolCallID: r.Str("toolCallId"), ToolName: r.Str("toolName"),
			Content: jsonv.Each(r, "content", decodeResultBlock), Details: r.Opaque("details"),
			Usage: jsonv.OptOne(r, "usage", usage.Decode), AddedToolNames: r.OptStrs("addedToolNames"),
			IsError: r.Flag("isError"), Timestamp: r.Num("timestamp"),
		}
		return m, r.Err()
	case "custom":
		m := &Custom{Schema: r.Str("schema"), Payload: r.Value("payload")}
		return m, r.Err()
	}
	return nil, corrupt.New("message.Decode", "role", "user, assistant, toolResult or custom", role)
}

func decodeAssistant(r *jsonv.Reader) (Message, error) {
	m := &Assistant{
		Content: jsonv.Each(r, "content", decodeAssistantBlock),
		API:     r.Str("api"), Provider: r.Str("provider"), Model: r.Str("model"),
		ResponseModel: r.OptStr("responseModel"), ResponseID: r.OptStr("responseId"),
		Diagnostics: r.Opaque("diagnostics"),
		Usage:       jsonv.One(r, "usage", usage.Decode),
		Deferred:    jsonv.OptOne(r, "deferred", DecodeHandle), ErrorMessage: r.OptStr("errorMessage"),
		RawStopReason: r.OptStr("rawStopReason"), Timestamp: r.Num("timestamp"),
	}
	if r.Maybe("endTurn") != nil {
		m.EndTurn = new(r.Flag("endTurn"))
	}
	word := r.Str("stopReason")
	reason, ok := ParseStopReason(word)
	if !ok {
		r.Fail("stopReason", "a known stop reason", jsonv.Str(word))
	}
	m.StopReason = reason
	if reason == Deferred && m.Deferred == nil {
		r.Fail("deferred", "a handle with the stop reason deferred", jsonv.Value{})
	}
	return m, r.Err()
}

// userContent accepts a bare string, which earlier formats wrote for one text
// block.
func userContent(r *jsonv.Reader) []UserBlock {
	if s, ok := r.Value("content").Text(); ok {
		return []UserBlock{Text{Text: s}}
	}
	return jsonv.Each(r, "content", DecodeUserBlock)
}

// DecodeUserBlock reads a block that may stand in a user message.
func DecodeUserBlock(v jsonv.Value) (UserBlock, error) {
	return narrow[UserBlock](v, "message.DecodeUserBlock", "a text or image block")
}

func decodeAssistantBlock(v jsonv.Value) (AssistantBlock, error) {
	return narrow[AssistantBlock](v, "message.decodeAssistantBlock", "a text, thinking or toolCall block")
}

func decodeResultBlock(v jsonv.Value) (ResultBlock, error) {
	return narrow[ResultBlock](v, "message.decodeResultBlock", "a text or image block")
}

// narrow decodes any block and refuses one that may not stand in this place.
func narrow[B Block](v jsonv.Value, boundary, expected string) (B, error) {
	var none B
	b, err := decodeBlock(v)
	if err != nil {
		return none, err
	}
	if n, ok := b.(B); ok {
		return n, nil
	}
	kind, _ := v.Get("type")
	return none, corrupt.New(boundary, "type", expected, kind.String())
}

func decodeBlock(v jsonv.Value) (Block, error) {
	r := jsonv.Read(v, "message.decodeBlock")
	kind := r.Str("type")
	if err := r.Err(); err != nil {
		return nil, err
	}
	var b Block
	switch kind {
	case "text":
		b = Text{Text: r.Str("text"), Signature: r.OptStr("textSignature")}
	case "image":
		b = Image{Data: r.Str("data"), MimeType: r.Str("mimeType")}
	case "thinking":
		b = Thinking{Thinking: r.Str("thinking"), Signature: r.OptStr("thinkingSignature"), Redacted: r.OptFlag("redacted")}
	case "toolCall":
		b = ToolCall{
			ID: r.Str("id"), Name: r.Str("name"), Arguments: object(r, "arguments"),
			ThoughtSignature: r.OptStr("thoughtSignature"), Namespace: r.OptStr("namespace"),
		}
	default:
		r.Fail("type", "text, image, thinking or toolCall", jsonv.Str(kind))
	}
	return b, r.Err()
}

// object reads a required object.
func object(r *jsonv.Reader, name string) jsonv.Value {
	v := r.Value(name)
	if v.Kind() != jsonv.Object {
		r.Fail(name, "an object", v)
	}
	return v
}

// AppendHandle writes a deferred handle.
func AppendHandle(w *jsonv.Writer, h DeferredHandle) {
	w.Begin()
	w.Str("provider", h.Provider)
	w.Str("modelId", h.ModelID)
	w.Str("api", h.API)
	w.Str("id", h.ID)
	w.OptNum("expiresAt", h.ExpiresAt)
	w.OptNum("pollAfterMs", h.PollAfterMs)
	w.Opaque("data", h.Data)
	w.End()
}

// DecodeHandle reads a deferred handle.
func DecodeHandle(v jsonv.Value) (DeferredHandle, error) {
	r := jsonv.Read(v, "message.DecodeHandle")
	h := DeferredHandle{
		Provider: r.Str("provider"), ModelID: r.Str("modelId"), API: r.Str("api"), ID: r.Str("id"),
		ExpiresAt: r.OptNum("expiresAt"), PollAfterMs: r.OptNum("pollAfterMs"), Data: r.Opaque("data"),
	}
	return h, r.Err()
}
