package coretest

import (
	"github.com/loom-run/loom/core/message"
	"pgregory.net/rapid"
)

// Origin generates well-formed attributions of every kind.
func Origin() *rapid.Generator[message.Origin] {
	const inner = `[A-Za-z0-9 _./:"\\<>é\x{301}世😀-]{0,40}`
	name := rapid.StringMatching(`[a-z"é😀]` + inner)
	label := rapid.StringMatching(`[a-z"é😀]` + inner + `[a-z"é😀]`)
	return rapid.OneOf(
		rapid.Custom(func(t *rapid.T) message.Origin {
			return origin(message.Human(rapid.StringMatching(`[A-Za-z0-9_.-]{1,128}`).Draw(t, "principal"), name.Draw(t, "name")))
		}),
		rapid.Custom(func(t *rapid.T) message.Origin {
			return origin(message.Peer(label.Draw(t, "session"), label.Draw(t, "strand")))
		}),
		rapid.Map(label, func(s string) message.Origin { return origin(message.Strand(s)) }),
	)
}

func origin(o message.Origin, err error) message.Origin {
	if err != nil {
		panic("coretest: " + err.Error())
	}
	return o
}

// TextBlock generates prose.
func TextBlock() *rapid.Generator[message.Text] {
	return rapid.Custom(func(t *rapid.T) message.Text {
		return message.Text{Text: Text().Draw(t, "text"), Signature: maybe(Text()).Draw(t, "textSignature")}
	})
}

// Image generates pictures.
func Image() *rapid.Generator[message.Image] {
	return rapid.Custom(func(t *rapid.T) message.Image {
		return message.Image{
			Data:     rapid.StringMatching(`([A-Za-z0-9+/]{4}){0,8}`).Draw(t, "data"),
			MimeType: rapid.SampledFrom([]string{"image/png", "image/jpeg", "image/webp"}).Draw(t, "mimeType"),
		}
	})
}

// Thinking generates reasoning, redacted or not.
func Thinking() *rapid.Generator[message.Thinking] {
	return rapid.Custom(func(t *rapid.T) message.Thinking {
		return message.Thinking{
			Thinking: Text().Draw(t, "thinking"), Signature: maybe(Text()).Draw(t, "thinkingSignature"), Redacted: rapid.Bool().Draw(t, "redacted"),
		}
	})
}

// ToolCall generates calls; some carry arguments that the model did not write as an object.
func ToolCall() *rapid.Generator[message.ToolCall] {
	return rapid.Custom(func(t *rapid.T) message.ToolCall {
		c := message.ToolCall{
			ID: Text().Draw(t, "id"), Name: Text().Draw(t, "name"), Arguments: Object().Draw(t, "arguments"),
			ThoughtSignature: maybe(Text()).Draw(t, "thoughtSignature"), Namespace: maybe(Text()).Draw(t, "namespace"),
		}
		if rapid.IntRange(0, 4).Draw(t, "malformed") == 0 {
			c.Arguments = message.MalformedArguments(Bytes().Draw(t, "raw"), Text().Draw(t, "reason"))
		}
		return c
	})
}

// widen makes a generator of a block one of an interface that the block has.
func widen[B any, T any](g *rapid.Generator[T]) *rapid.Generator[B] {
	return rapid.Map(g, func(x T) B { return any(x).(B) }) //nolint:errcheck // every T given here is a B
}

// UserBlock generates what may stand in a user message.
func UserBlock() *rapid.Generator[message.UserBlock] {
	return rapid.OneOf(widen[message.UserBlock](TextBlock()), widen[message.UserBlock](Image()))
}

// AssistantBlock generates what may stand in a response.
func AssistantBlock() *rapid.Generator[message.AssistantBlock] {
	return rapid.OneOf(widen[message.AssistantBlock](TextBlock()), widen[message.AssistantBlock](Thinking()), widen[message.AssistantBlock](ToolCall()))
}

// ResultBlock generates what may stand in a tool's result.
func ResultBlock() *rapid.Generator[message.ResultBlock] {
	return rapid.OneOf(widen[message.ResultBlock](TextBlock()), widen[message.ResultBlock](Image()))
}

// User generates turns of people, peers and strands.
func User() *rapid.Generator[*message.User] {
	return rapid.Custom(func(t *rapid.T) *message.User {
		return &message.User{
			Content:   rapid.SliceOfN(UserBlock(), 0, 3).Draw(t, "content"),
			Timestamp: rapid.Int64().Draw(t, "timestamp"), Origin: maybe(Origin()).Draw(t, "origin"),
		}
	})
}

// Handle generates deferred handles.
func Handle() *rapid.Generator[message.DeferredHandle] {
	return rapid.Custom(func(t *rapid.T) message.DeferredHandle {
		return message.DeferredHandle{
			Provider: Text().Draw(t, "provider"), ModelID: Text().Draw(t, "modelId"), API: Text().Draw(t, "api"), ID: Text().Draw(t, "id"),
			ExpiresAt: maybe(rapid.Int64()).Draw(t, "expiresAt"), PollAfterMs: maybe(rapid.Int64()).Draw(t, "pollAfterMs"),
			Data: maybe(Value()).Draw(t, "data"),
		}
	})
}

// Assistant generates settled responses.
func Assistant() *rapid.Generator[*message.Assistant] {
	settled := []message.StopReason{message.Stop, message.Length, message.ToolUse, message.Error, message.Aborted, message.Deferred}
	return rapid.Custom(func(t *rapid.T) *message.Assistant {
		m := &message.Assistant{
			Content: rapid.SliceOfN(AssistantBlock(), 0, 3).Draw(t, "content"),
			API:     Text().Draw(t, "api"), Provider: Text().Draw(t, "provider"), Model: Text().Draw(t, "model"),
			ResponseModel: maybe(Text()).Draw(t, "responseModel"), ResponseID: maybe(Text()).Draw(t, "responseId"),
			Diagnostics: maybe(Value()).Draw(t, "diagnostics"), Usage: Usage().Draw(t, "usage"),
			StopReason:   rapid.SampledFrom(settled).Draw(t, "stopReason"),
			ErrorMessage: maybe(Text()).Draw(t, "errorMessage"), RawStopReason: maybe(Text()).Draw(t, "rawStopReason"),
			EndTurn: maybe(rapid.Bool()).Draw(t, "endTurn"), Timestamp: rapid.Int64().Draw(t, "timestamp"),
		}
		if m.StopReason == message.Deferred {
			m.Deferred = new(Handle().Draw(t, "deferred"))
		}
		return m
	})
}

// ToolResult generates answers to calls.
func ToolResult() *rapid.Generator[*message.ToolResult] {
	return rapid.Custom(func(t *rapid.T) *message.ToolResult {
		m := &message.ToolResult{
			ToolCallID: Text().Draw(t, "toolCallId"), ToolName: Text().Draw(t, "toolName"),
			Content: rapid.SliceOfN(ResultBlock(), 0, 3).Draw(t, "content"),
			Details: maybe(Value()).Draw(t, "details"), Usage: maybe(Usage()).Draw(t, "usage"),
			IsError: rapid.Bool().Draw(t, "isError"), Timestamp: rapid.Int64().Draw(t, "timestamp"),
		}
		if rapid.Bool().Draw(t, "added") {
			m.AddedToolNames = rapid.SliceOfN(Text(), 0, 3).Draw(t, "addedToolNames")
		}
		return m
	})
}

// CustomMessage generates applications' own messages.
func CustomMessage() *rapid.Generator[*message.Custom] {
	return rapid.Custom(func(t *rapid.T) *message.Custom {
		return &message.Custom{Schema: Text().Draw(t, "schema"), Payload: Value().Draw(t, "payload")}
	})
}

// Message generates every settled message.
func Message() *rapid.Generator[message.Message] {
	return rapid.OneOf(
		widen[message.Message](User()), widen[message.Message](Assistant()),
		widen[message.Message](ToolResult()), widen[message.Message](CustomMessage()),
	)
}
