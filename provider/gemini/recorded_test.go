package gemini

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
	"github.com/loom-run/loom/provider/dialect/dialecttest"
)

func TestRecordedStreamsFoldToTheirOracle(t *testing.T) {
	for _, r := range dialecttest.ReadRecorded(t, "gemini") {
		t.Run(r.ID, func(t *testing.T) {
			answers := [][]byte{r.Body}
			if r.ID == "G08" { // three answers in one file, one piece each
				answers = nil
				for _, piece := range strings.SplitAfter(string(r.Body), "\r\n\r\n") {
					if piece != "" {
						answers = append(answers, []byte(piece))
					}
				}
			}
			var content []message.AssistantBlock
			var last *message.Assistant
			for _, body := range answers {
				a := dialecttest.Recorded{Body: body}.Fold(t, New())
				if a.Failure != nil {
					t.Fatal(a.Failure)
				}
				last = a.Settled
				content = append(content, last.Content...)
			}
			compare(t, last, content, r.Oracle)
		})
	}
}

func compare(t *testing.T, m *message.Assistant, content []message.AssistantBlock, oracle jsonv.Value) {
	t.Helper()
	var text, thoughts strings.Builder
	var calls []string
	signatures, others := int64(0), map[string]int{}
	for _, b := range content {
		switch b := b.(type) {
		case message.Text:
			text.WriteString(b.Text)
			signatures += signed(b.Signature)
		case message.Thinking:
			if v, ok := dialect.Unseal(API, b); ok {
				others[label(v)]++
				signatures += signed(dialect.Present(dialect.Text(v, "thoughtSignature")))
				continue
			}
			thoughts.WriteString(b.Thinking)
			signatures += signed(b.Signature)
		case message.ToolCall:
			calls = append(calls, b.Name+" "+b.Arguments.String())
			signatures += signed(b.ThoughtSignature)
		}
	}
	sum := sha256.Sum256([]byte(text.String()))
	if got := fmt.Sprintf("%dch sha %s", utf8.RuneCountInString(text.String()), hex.EncodeToString(sum[:6])); got != dialect.Text(oracle, "text") {
		t.Errorf("text %s, want %s", got, dialect.Text(oracle, "text"))
	}
	if want := dialect.Text(oracle, "thoughts"); want != "" && want != fmt.Sprintf("%dch", utf8.RuneCountInString(thoughts.String())) {
		t.Errorf("thoughts %d, want %s", utf8.RuneCountInString(thoughts.String()), want)
	}
	if want, ok := dialect.Count(oracle, "signatures"); ok && want != signatures {
		t.Errorf("%d signatures, want %d", signatures, want)
	}
	tight := strings.NewReplacer(" ", "", "'", "\"").Replace
	list, ok := oracle.Get("assembledCalls")
	if !ok {
		list, _ = oracle.Get("functionCalls")
	}
	var want []string
	for _, c := range list.Elems() {
		s, _ := c.Text()
		want = append(want, tight(s))
	}
	for i := range calls {
		calls[i] = tight(calls[i])
	}
	if !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
	parts, _ := oracle.Get("otherParts")
	for name, n := range parts.Fields() {
		if got, _ := n.Int64(); got != int64(others[name]) {
			t.Errorf("%d parts %s, want %d", others[name], name, got)
		}
	}
	if finish := dialect.Text(oracle, "finish"); *m.RawStopReason != finish {
		t.Errorf("finish %s, want %s", *m.RawStopReason, finish)
	}
	reported, ok := oracle.Get("usage")
	if !ok || reported.IsNull() {
		return
	}
	count := func(name string) int64 { n, _ := dialect.Count(reported, name); return n }
	u := m.Usage
	if u.TotalTokens != count("totalTokenCount") || u.Output != count("candidatesTokenCount")+count("thoughtsTokenCount") {
		t.Errorf("usage %+v, want %s", u, reported)
	}
}

func signed(s *string) int64 {
	if s == nil {
		return 0
	}
	return 1
}

// TestRecordedStreamsKeepTheirPeculiarities names what the oracle does not say of some recorded streams.
func TestRecordedStreamsKeepTheirPeculiarities(t *testing.T) {
	bodies := map[string][]byte{}
	for _, r := range dialecttest.ReadRecorded(t, "gemini") {
		bodies[r.ID] = r.Body
	}
	calls, _ := dialecttest.Fold(New(), provider.Request{}, bodies["G01"]).Settled.ToolCalls()
	if calls[0].ThoughtSignature == nil || calls[1].ThoughtSignature != nil || calls[0].ID != "8hd01vsf" {
		t.Errorf("G01: %+v", calls)
	}
	pieces := strings.SplitAfter(string(bodies["G08"]), "\r\n\r\n")
	m := dialecttest.Fold(New(), provider.Request{}, []byte(pieces[1])).Settled
	calls, _ = m.ToolCalls()
	messages := []message.Message{user("go"), m}
	for _, c := range slices.Backward(calls) {
		args, _ := c.Arguments.Get("file_path")
		messages = append(messages, &message.ToolResult{ToolCallID: c.ID, ToolName: c.Name, Content: []message.ResultBlock{message.Text{Text: args.String()}}})
	}
	body := string(grammar.Encode(provider.Request{Model: dialecttest.Model, Messages: messages}))
	at := 0
	for _, c := range calls {
		args, _ := c.Arguments.Get("file_path")
		answer := `{"functionResponse":{"id":"` + c.ID + `","name":"` + c.Name + `","response":{"output":` + jsonv.Str(args.String()).String() + `}}}`
		i := strings.Index(body, answer)
		if i < at {
			t.Errorf("G08: %s is not after %d in %s", answer, at, body)
		}
		at = i
	}
}
