package openairesponses

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
	"github.com/loom-run/loom/provider/dialect/dialecttest"
)

// digest words a text as the oracle of the recordings does.
func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return fmt.Sprintf("%dch sha %s", utf8.RuneCountInString(s), hex.EncodeToString(sum[:6]))
}

// sketches words blocks as the oracle words items; reasoning without text, which the oracle has as an item, is none here.
func sketches(m *message.Assistant) (all []string) {
	for _, b := range m.Content {
		switch b := b.(type) {
		case message.Text:
			s := "message output_text[" + digest(b.Text) + "]"
			if phase := phaseOf(*b.Signature); phase != "" {
				s += " phase=" + phase
			}
			all = append(all, s)
		case message.Thinking:
			if !dialect.IsSealed(b) {
				all = append(all, "reasoning")
			}
		case message.ToolCall:
			all = append(all, "function_call "+b.Name+" "+b.Arguments.String())
		}
	}
	return all
}

func TestRecordedStreamsFoldToTheirOracle(t *testing.T) {
	for _, r := range dialecttest.ReadRecorded(t, "openai-responses") {
		t.Run(r.ID, func(t *testing.T) {
			a := r.Fold(t, New())
			if a.Failure != nil {
				t.Fatal(a.Failure)
			}
			compare(t, a.Settled, r.Oracle)
		})
	}
}

func compare(t *testing.T, m *message.Assistant, oracle jsonv.Value) {
	t.Helper()
	tight := strings.NewReplacer(" ", "", "'", "\"").Replace
	want := map[string]int{}
	items, _ := oracle.Get("items")
	for _, i := range items.Elems() {
		s, _ := i.Text()
		_, s, _ = strings.Cut(s, ":")
		if strings.HasPrefix(s, "reasoning") {
			s = "reasoning"
		}
		want[tight(s)]++
	}
	for _, got := range sketches(m) {
		want[tight(got)]--
	}
	for s, n := range want {
		if n != 0 {
			t.Errorf("%s: %+d", s, n)
		}
	}
	reported, _ := oracle.Get("usage")
	count := func(name string) int64 { n, _ := dialect.Count(reported, name); return n }
	u := m.Usage
	if u.Input+u.CacheRead != count("input_tokens") || u.CacheRead != count("cached") || u.Output != count("output_tokens") || u.TotalTokens != count("total_tokens") ||
		u.Reasoning != nil && *u.Reasoning != count("reasoning") {
		t.Errorf("usage %+v, want %s", u, reported)
	}
}

// TestRecordedStreamsKeepTheirPeculiarities names what the oracle does not say of some recorded streams.
func TestRecordedStreamsKeepTheirPeculiarities(t *testing.T) {
	bodies, folded := map[string][]byte{}, map[string]dialecttest.Answer{}
	for _, r := range dialecttest.ReadRecorded(t, "openai-responses") {
		bodies[r.ID] = r.Body
		folded[r.ID] = dialecttest.Fold(New(), provider.Request{}, r.Body)
	}
	both := dialecttest.Fold(New(), provider.Request{}, bodies["R03"], bodies["R04"])
	if both.Outcome() != folded["R03"].Outcome() {
		t.Errorf("R03 and R04: %s", both.Outcome())
	}
	events := strings.SplitAfter(string(bodies["R03"]), "\n\n")
	for cut := range events {
		again := dialecttest.Fold(New(), provider.Request{}, []byte(strings.Join(events[:cut], "")), bodies["R04"])
		if again.Settled == nil || message.TextOf(again.Settled.Content) != "2 + 2 equals 4." || len(again.Deltas) != len(folded["R03"].Deltas) {
			t.Errorf("R03 after %d events, then R04: %s", cut, again.Outcome())
		}
	}
	if m := folded["R07"].Settled; m.Content[0].(message.Thinking).Thinking != "**Counting character occurrences**" {
		t.Errorf("R07: %s", dialecttest.Sketch(m.Content))
	}
	if m := folded["R12"].Settled; m.Diagnostics != nil || phaseOf(*m.Content[0].(message.Text).Signature) != "commentary" {
		t.Errorf("R12: %s", dialecttest.Sketch(m.Content))
	}
	for _, id := range []string{"R11", "R14"} {
		if m := folded[id].Settled; m.StopReason != message.ToolUse {
			t.Errorf("%s: %s", id, m.StopReason)
		}
	}
}
