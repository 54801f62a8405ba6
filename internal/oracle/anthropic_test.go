package oracle_test

import (
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/loom-run/loom/provider/anthropic"
	"pgregory.net/rapid"
)

func TestMessagesAreReadAsTheOfficialLibraryReadsThem(t *testing.T) {
	comparison{kind: "anthropic", dialect: anthropic.New(), theirs: func(t *testing.T, base string) (reading, error) {
		client := sdk.NewClient(option.WithBaseURL(base), option.WithAPIKey("k"), option.WithMaxRetries(0))
		stream := client.Messages.NewStreaming(t.Context(), sdk.MessageNewParams{
			Model: "m", MaxTokens: 10, Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock("hi"))},
		})
		var m sdk.Message
		for stream.Next() {
			if err := m.Accumulate(stream.Current()); err != nil {
				return reading{}, err
			}
		}
		r := reading{Stop: string(m.StopReason), Tokens: map[string]int64{
			"input": m.Usage.InputTokens, "output": m.Usage.OutputTokens, "cache read": m.Usage.CacheReadInputTokens, "cache write": m.Usage.CacheCreationInputTokens,
		}}
		for _, b := range m.Content {
			switch b.Type {
			case "text":
				r.text(b.Text)
			case "thinking":
				r.thought(b.Thinking)
			case "tool_use":
				r.call(b.Name, string(b.Input))
			}
		}
		return r, stream.Err()
	}}.run(t)
}

func TestMessagesThatWeSendAreThoseOfTheOfficialLibrary(t *testing.T) {
	d := anthropic.New()
	rapid.Check(t, func(t *rapid.T) {
		survives[sdk.MessageNewParams](t, whole(t, fields(t, d.Encode(asked(d).Draw(t, "request")), "stream")))
	})
}
