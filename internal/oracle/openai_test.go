package oracle_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/loom-run/loom/provider/openaichat"
	"github.com/loom-run/loom/provider/openairesponses"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"pgregory.net/rapid"
)

func TestCompletionsAreReadAsTheOfficialLibraryReadsThem(t *testing.T) {
	comparison{kind: "openai-chat", dialect: openaichat.New(), unknown: "thought", but: map[string]string{
		"O07": "this server counts reasoning beside the completion, and says so in the total",
	}, theirs: func(t *testing.T, base string) (reading, error) {
		client := sdk.NewClient(option.WithBaseURL(base), option.WithAPIKey("k"), option.WithMaxRetries(0))
		stream := client.Chat.Completions.NewStreaming(t.Context(), sdk.ChatCompletionNewParams{Model: "m", Messages: []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage("hi")}})
		var acc sdk.ChatCompletionAccumulator
		for stream.Next() {
			acc.AddChunk(stream.Current())
		}
		r := reading{}
		if len(acc.Choices) == 0 {
			return r, stream.Err()
		}
		choice := acc.Choices[0]
		r.text(choice.Message.Content)
		for _, c := range choice.Message.ToolCalls {
			if c.ID != "" || c.Function.Name != "" { // the library leaves empty places before an index above zero
				r.call(c.Function.Name, c.Function.Arguments)
			}
		}
		r.Stop = choice.FinishReason
		if acc.Usage.TotalTokens > 0 {
			r.Tokens = map[string]int64{"prompt": acc.Usage.PromptTokens, "output": acc.Usage.CompletionTokens, "cache read": acc.Usage.PromptTokensDetails.CachedTokens}
		}
		return r, stream.Err()
	}}.run(t)
}

func TestCompletionsThatWeAskForAreThoseOfTheOfficialLibrary(t *testing.T) {
	d := openaichat.New()
	rapid.Check(t, func(t *rapid.T) {
		survives[sdk.ChatCompletionNewParams](t, whole(t, fields(t, d.Encode(asked(d).Draw(t, "request")), "stream")))
	})
}

func TestResponsesAreReadAsTheOfficialLibraryReadsThem(t *testing.T) {
	comparison{kind: "openai-responses", dialect: openairesponses.New(), theirs: func(t *testing.T, base string) (reading, error) {
		client := sdk.NewClient(option.WithBaseURL(base), option.WithAPIKey("k"), option.WithMaxRetries(0))
		stream := client.Responses.NewStreaming(t.Context(), responses.ResponseNewParams{Model: "m"})
		var last responses.Response
		for stream.Next() {
			switch e := stream.Current(); e.Type {
			case "response.completed", "response.incomplete", "response.failed":
				last = e.Response
			}
		}
		r := reading{Stop: string(last.Status), Tokens: map[string]int64{
			"prompt": last.Usage.InputTokens, "output": last.Usage.OutputTokens, "cache read": last.Usage.InputTokensDetails.CachedTokens,
		}}
		if last.Status == "incomplete" {
			r.Stop = last.IncompleteDetails.Reason
		}
		for _, item := range last.Output {
			switch item.Type {
			case "message":
				text := ""
				for _, part := range item.Content {
					text += part.Text + part.Refusal
				}
				r.text(text)
			case "reasoning":
				var paragraphs []string
				reasoning := item.AsReasoning()
				for _, part := range reasoning.Summary {
					paragraphs = append(paragraphs, part.Text)
				}
				for _, part := range reasoning.Content {
					paragraphs = append(paragraphs, part.Text)
				}
				r.thought(strings.Join(paragraphs, "\n\n"))
			case "function_call":
				r.call(item.Name, item.Arguments.OfString)
			}
		}
		return r, stream.Err()
	}}.run(t)
}

func TestResponsesThatWeAskForAreThoseOfTheOfficialLibrary(t *testing.T) {
	d := openairesponses.New()
	rapid.Check(t, func(t *rapid.T) {
		all := fields(t, d.Encode(asked(d).Draw(t, "request")), "stream")
		var items []json.RawMessage
		if err := json.Unmarshal(all["input"], &items); err != nil {
			t.Fatal(err)
		}
		delete(all, "input")
		survives[responses.ResponseNewParams](t, whole(t, all))
		for _, item := range items { // one by one: the library takes an answer among them for another kind of message
			var kind struct{ Type, Role string }
			if err := json.Unmarshal(item, &kind); err != nil {
				t.Fatal(err)
			}
			switch {
			case kind.Type == "message" && kind.Role == "assistant":
				survives[responses.ResponseOutputMessageParam](t, item)
			case kind.Type == "message":
				survives[responses.EasyInputMessageParam](t, item)
			case kind.Type == "function_call":
				survives[responses.ResponseFunctionToolCallParam](t, item)
			case kind.Type == "function_call_output":
				survives[responses.ResponseInputItemFunctionCallOutputParam](t, item)
			case kind.Type == "reasoning":
				// The library demands an id. Servers that keep nothing know none, and take the item without.
				survives[responses.ResponseReasoningItemParam](t, append([]byte(`{"id":"rs",`), item[1:]...))
			}
		}
	})
}
