package openaichat

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/internal/cases"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect/dialecttest"
)

// oracle is what an independent parser found in a recorded stream.
type oracle struct {
	Text      string   `json:"text"`      // "<characters>ch sha <12 hex digits>"
	Reasoning string   `json:"reasoning"` // "<characters>ch"
	ToolCalls []string `json:"toolCalls"` // "<index>:<name> <arguments, cut after a while>"
	Finish    string   `json:"finish"`
	Usage     *struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Total      int64 `json:"total_tokens"`
		Cached     int64 `json:"cached"`
	} `json:"usage"`
	Error any `json:"error"`
}

// recorded finds the recorded chat streams and their oracles.
func recorded(t *testing.T) (dir string, found map[string]oracle) {
	t.Helper()
	dir = cases.Dir(t)
	raw, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index []struct {
		Kind  string `json:"kind"`
		Files []struct {
			Path string `json:"path"`
		} `json:"files"`
		Oracle json.RawMessage `json:"oracle"`
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		t.Fatal(err)
	}
	found = map[string]oracle{}
	for _, entry := range index {
		if entry.Kind != "openai-chat" {
			continue
		}
		var o oracle
		if err := json.Unmarshal(entry.Oracle, &o); err != nil {
			t.Fatal(err)
		}
		found[entry.Files[0].Path] = o
	}
	if len(found) == 0 {
		t.Fatal("the index names no chat streams")
	}
	return dir, found
}

func TestRecordedStreamsFoldToTheirOracle(t *testing.T) {
	dir, found := recorded(t)
	for path, want := range found {
		t.Run(filepath.Base(path), func(t *testing.T) {
			body, err := os.ReadFile(filepath.Join(dir, path))
			if err != nil {
				t.Fatal(err)
			}
			whole := dialecttest.Recorded{Body: body}.Fold(t, New())
			m := whole.Settled
			if (want.Error != nil) != (m == nil) {
				t.Fatalf("oracle error %v, got %v", want.Error, whole.Failure)
			}
			if m == nil {
				if m = whole.Failure.Partial; m == nil {
					return
				}
			}
			compareWithOracle(t, m, want)
		})
	}
}

func compareWithOracle(t *testing.T, m *message.Assistant, want oracle) {
	t.Helper()
	var text, thinking strings.Builder
	var calls []string
	for _, b := range m.Content {
		switch b := b.(type) {
		case message.Text:
			text.WriteString(b.Text)
		case message.Thinking:
			thinking.WriteString(b.Thinking)
		case message.ToolCall:
			calls = append(calls, b.Name+" "+b.Arguments.String())
		}
	}
	sum := sha256.Sum256([]byte(text.String()))
	if got := fmt.Sprintf("%dch sha %s", utf8.RuneCountInString(text.String()), hex.EncodeToString(sum[:6])); got != want.Text {
		t.Errorf("text %s, want %s", got, want.Text)
	}
	if got := fmt.Sprintf("%dch", utf8.RuneCountInString(thinking.String())); want.Reasoning != "" && got != want.Reasoning {
		t.Errorf("reasoning %s, want %s", got, want.Reasoning)
	}
	tight := func(s string) string { return strings.ReplaceAll(s, " ", "") }
	if !slices.EqualFunc(calls, want.ToolCalls, func(got, want string) bool {
		_, want, _ = strings.Cut(want, ":")
		return strings.HasPrefix(tight(got), strings.TrimSuffix(tight(want), "…"))
	}) {
		t.Errorf("calls %v, want %v", calls, want.ToolCalls)
	}
	if want.Finish != "" && (m.RawStopReason == nil || *m.RawStopReason != want.Finish) {
		t.Errorf("finish reason %v, want %s", m.RawStopReason, want.Finish)
	}
	u := m.Usage
	if want.Usage == nil {
		if _, reported := u.Evidence.Tokens(); reported {
			t.Errorf("usage %+v out of nothing", u)
		}
		return
	}
	if u.Input+u.CacheRead != want.Usage.Prompt || u.CacheRead != want.Usage.Cached || u.TotalTokens != want.Usage.Total {
		t.Errorf("usage %+v, want %+v", u, *want.Usage)
	}
	// The completion count may leave reasoning out; then the total includes it.
	if u.Output != want.Usage.Completion && u.Output != want.Usage.Total-want.Usage.Prompt {
		t.Errorf("output %d, want %d of %d", u.Output, want.Usage.Completion, want.Usage.Total)
	}
}

// TestRecordedStreamsKeepTheirPeculiarities names what each recorded stream is there for.
func TestRecordedStreamsKeepTheirPeculiarities(t *testing.T) {
	dir := cases.Dir(t)
	read := func(t *testing.T, path string) dialecttest.Answer {
		t.Helper()
		body, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		return foldStream(provider.Request{Model: testModel}, body)
	}
	content := func(path, want string) func(*testing.T) {
		return func(t *testing.T) {
			a := read(t, path)
			if a.Failure != nil {
				t.Fatal(a.Failure)
			}
			if got := dialecttest.Sketch(a.Settled.Content); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	}
	t.Run("usage after the finish reason", func(t *testing.T) {
		u := read(t, "sse/openai-chat/O01.sse").Settled.Usage
		if u.Input != 190 || u.Output != 379 || *u.Reasoning != 320 {
			t.Errorf("got %+v", u)
		}
	})
	t.Run("an error after the finish reason wins, and its usage is kept", func(t *testing.T) {
		a := read(t, "sse/openai-chat/O03.sse")
		if a.Failure == nil || !strings.Contains(a.Failure.Message, "Token limit reached") || a.Failure.Status != 400 {
			t.Fatalf("got %v", a.Failure)
		}
		p := a.Failure.Partial
		if p == nil || p.Usage.Input != 43 || p.Usage.Output != 10 || dialecttest.Sketch(p.Content) != "(We need to respond to a greeting. The user)" {
			t.Errorf("partial %+v", p)
		}
	})
	t.Run("reasoning that is counted beside the completion", func(t *testing.T) {
		u := read(t, "sse/openai-chat/O07.sse").Settled.Usage
		if u.Input != 279 || u.CacheRead != 153 || u.Output != 204 || *u.Reasoning != 136 || u.TotalTokens != 636 {
			t.Errorf("got %+v", u)
		}
	})
	t.Run("an empty name later", content("sse/openai-chat/O10.sse", `webSearchTool{"query":"current Berlin weather"}`))
	t.Run("empty refusals and no finish reason", func(t *testing.T) {
		a := read(t, "sse/openai-chat/O13.sse")
		if a.Failure != nil || a.Settled.StopReason != message.Stop || strings.Contains(message.TextOf(a.Settled.Content), "\uFFFD") {
			t.Errorf("got %v, %v", a.Settled, a.Failure)
		}
	})
	t.Run("a late name", content("sse/openai-chat/O14.sse", `test-tool{"value":"hi"}`))
	t.Run("an overflow inside a stream", func(t *testing.T) {
		a := read(t, "sse/openai-chat/O17.sse")
		if a.Failure == nil || a.Failure.Class != provider.Overflow || a.Failure.Partial != nil {
			t.Errorf("got %v", a.Failure)
		}
	})
	t.Run("an index that starts at one, and an unterminated end mark", content("sse/openai-chat/O19.sse", `"Reading it." read_file{"path":"a.txt"}`))

	t.Run("a later part without index", content("bugs/31.input/no-index.sse", `shell{"command":"echo hi there"}`))
	t.Run("a name after the id", content("bugs/31.input/late-name.sse", `shell{"command":"pwd"}`))
	t.Run("two calls without index", content("bugs/31.input/two-no-index.sse", `a{"x":1} b{"y":2}`))
}
