package oracle_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"

	"github.com/loom-run/loom/provider/gemini"
	sdk "google.golang.org/genai"
	"pgregory.net/rapid"
)

func TestContentIsReadAsTheOfficialLibraryReadsIt(t *testing.T) {
	comparison{kind: "gemini", dialect: gemini.New(), but: map[string]string{
		"G05": "the library leaves it to its caller to put the pieces of arguments together",
		"G08": "the file holds three answers, and the library does not stop after the first",
	}, theirs: func(t *testing.T, base string) (reading, error) {
		client, err := sdk.NewClient(t.Context(), &sdk.ClientConfig{APIKey: "k", Backend: sdk.BackendGeminiAPI, HTTPOptions: sdk.HTTPOptions{BaseURL: base}})
		if err != nil {
			return reading{}, err
		}
		var r reading
		text, thought := "", ""
		flush := func() {
			r.thought(thought)
			r.text(text)
			text, thought = "", ""
		}
		for chunk, err := range client.Models.GenerateContentStream(t.Context(), "m", sdk.Text("hi"), nil) {
			if err != nil {
				return r, err
			}
			if u := chunk.UsageMetadata; u != nil {
				r.Tokens = map[string]int64{"prompt": int64(u.PromptTokenCount + u.ToolUsePromptTokenCount), "output": int64(u.CandidatesTokenCount + u.ThoughtsTokenCount), "cache read": int64(u.CachedContentTokenCount)}
			}
			if len(chunk.Candidates) == 0 {
				continue
			}
			c := chunk.Candidates[0]
			if c.FinishReason != "" {
				r.Stop = string(c.FinishReason)
			}
			if c.Content == nil {
				continue
			}
			for _, p := range c.Content.Parts {
				switch {
				case p.FunctionCall != nil:
					flush()
					arguments, err := json.Marshal(p.FunctionCall.Args)
					if err != nil {
						return r, err
					}
					r.call(p.FunctionCall.Name, string(arguments))
				case p.Thought:
					if text != "" {
						flush()
					}
					thought += p.Text
				default:
					if thought != "" {
						flush()
					}
					text += p.Text
				}
			}
		}
		flush()
		return r, nil
	}}.run(t)
}

// drawnSignature is what stands for a signature in the requests: what was drawn, and the word of the dialect for there being none.
var drawnSignature = regexp.MustCompile(`own-signature-\d+|skip_thought_signature_validator`)

func TestContentThatWeSendIsThatOfTheOfficialLibrary(t *testing.T) {
	d := gemini.New()
	rapid.Check(t, func(t *rapid.T) {
		body := drawnSignature.ReplaceAll(d.Encode(asked(d).Draw(t, "request")), []byte("c2lnbmF0dXJl")) // the library takes base64 alone
		var typed struct {
			Contents          []*sdk.Content
			SystemInstruction *sdk.Content
			Tools             []*sdk.Tool
			ToolConfig        *sdk.ToolConfig
			GenerationConfig  *sdk.GenerationConfig
		}
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&typed); err != nil {
			t.Fatalf("the library cannot read it: %v\n%s", err, body)
		}
		all := fields(t, body)
		survives[[]*sdk.Content](t, all["contents"])
		if system := all["systemInstruction"]; system != nil {
			survives[*sdk.Content](t, system)
		}
		if tools := all["tools"]; tools != nil {
			survives[[]*sdk.Tool](t, tools)
		}
	})
}
