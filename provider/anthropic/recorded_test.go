package anthropic

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

// sketch words a block as the oracle of the recordings does: "kind[…]".
func sketch(b message.AssistantBlock) string {
	switch b := b.(type) {
	case message.Text:
		sum := sha256.Sum256([]byte(b.Text))
		return fmt.Sprintf("text[%dch sha %s]", utf8.RuneCountInString(b.Text), hex.EncodeToString(sum[:6]))
	case message.Thinking:
		if v, ok := dialect.Unseal(API, b); ok {
			kind := dialect.Text(v, "type")
			if kind == "server_tool_use" {
				input, _ := v.Get("input")
				return fmt.Sprintf("%s[%s %s]", kind, dialect.Text(v, "name"), sorted(input))
			}
			return kind
		}
		return fmt.Sprintf("thinking[%dch sig%d]", utf8.RuneCountInString(b.Thinking), len(*b.Signature))
	case message.ToolCall:
		if raw, _, bad := message.AsMalformed(b.Arguments); bad {
			return fmt.Sprintf("tool_use[%s INVALID(%s)]", b.Name, raw)
		}
		return fmt.Sprintf("tool_use[%s %s]", b.Name, b.Arguments)
	}
	return ""
}

// sorted is an object with its fields by name, as the oracle has them.
func sorted(v jsonv.Value) jsonv.Value {
	var fields []jsonv.Member
	for name, field := range v.Fields() {
		fields = append(fields, jsonv.F(name, field))
	}
	slices.SortFunc(fields, func(a, b jsonv.Member) int { return strings.Compare(a.Name, b.Name) })
	return jsonv.Obj(fields...)
}

// agrees reports whether a block is the one that the oracle describes. Its texts are cut after a while.
func agrees(got, want string) bool {
	_, want, _ = strings.Cut(want, ":")
	tight := strings.NewReplacer(" ", "", "'", "\"").Replace
	got, want = tight(got), tight(want)
	if cut := strings.Index(want, "…"); cut >= 0 {
		return strings.HasPrefix(got, want[:cut]) || strings.Contains(want, "INVALID") && strings.Contains(got, "INVALID")
	}
	if kind, how, ok := strings.Cut(want, "("); ok && !strings.Contains(got, "(") { // "compaction(compaction_delta)"
		return got == kind && how != ""
	}
	return got == want
}

func TestRecordedStreamsFoldToTheirOracle(t *testing.T) {
	for _, kind := range []string{"anthropic", "chunked"} {
		for _, r := range dialecttest.ReadRecorded(t, kind) {
			t.Run(r.ID, func(t *testing.T) {
				if status, refused := r.Oracle.Get("status"); refused {
					code, _ := status.Int64()
					e := dialect.Peer{Name: "host"}.Refused("m", int(code), dialect.RefusedBody(r.Body, "application/json"))
					if e.Class != provider.InvalidRequest || e.Retryable() || !strings.Contains(e.Message, "temperature") {
						t.Errorf("got %s: %s", e.Class, e.Message)
					}
					return
				}
				compare(t, r.Fold(t, New()), r.Oracle)
			})
		}
	}
}

func compare(t *testing.T, a dialecttest.Answer, oracle jsonv.Value) {
	t.Helper()
	failed, stop := dialect.Text(oracle, "error"), dialect.Text(oracle, "stop")
	if (failed != "" || stop == "refusal") != (a.Failure != nil) {
		t.Fatalf("the oracle says error %q and stop %q; got %v", failed, stop, a.Failure)
	}
	m := a.Kept()
	var want []string
	blocks, _ := oracle.Get("blocks")
	for _, b := range blocks.Elems() {
		if s, _ := b.Text(); !strings.Contains(s, "text[0ch") { // an empty text is no block
			want = append(want, strings.TrimSuffix(s, "(never stopped)"))
		}
	}
	if len(m.Content) != len(want) {
		t.Fatalf("%d blocks, want %q", len(m.Content), want)
	}
	for i, b := range m.Content {
		if got := sketch(b); !agrees(got, want[i]) {
			t.Errorf("block %d: %s, want %s", i, got, want[i])
		}
	}
	if stop != "" && *m.RawStopReason != stop {
		t.Errorf("stop reason %s, want %s", *m.RawStopReason, stop)
	}
	reported, _ := oracle.Get("usage")
	for name, got := range map[string]int64{
		"input_tokens": m.Usage.Input, "output_tokens": m.Usage.Output,
		"cache_read_input_tokens": m.Usage.CacheRead, "cache_creation_input_tokens": m.Usage.CacheWrite,
	} {
		if want, _ := dialect.Count(reported, name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	if served := dialect.Text(oracle, "model"); *m.ResponseModel != served {
		t.Errorf("model %s, want %s", *m.ResponseModel, served)
	}
}

// TestRecordedStreamsKeepTheirPeculiarities names what the oracle does not say of some recorded streams.
func TestRecordedStreamsKeepTheirPeculiarities(t *testing.T) {
	folded := map[string]dialecttest.Answer{}
	for _, r := range append(dialecttest.ReadRecorded(t, "anthropic"), dialecttest.ReadRecorded(t, "chunked")...) {
		if r.ID != "V05" {
			folded[r.ID] = dialecttest.Fold(New(), provider.Request{}, r.Body)
		}
	}
	if calls, _ := folded["A05"].Settled.ToolCalls(); len(calls) != 0 || folded["A05"].Settled.StopReason != message.Stop {
		t.Errorf("A05: what the provider ran would run again: %v", calls)
	}
	if m := folded["A11"].Settled; m.StopReason != message.Length {
		t.Errorf("A11: %s", m.StopReason)
	}
	if e := folded["A12"].Failure; e.Class != provider.Refused || !strings.Contains(e.Detail, "cyber") || len(e.Partial.Content) != 0 {
		t.Errorf("A12: %+v", e)
	}
	if e := folded["A23"].Failure; e.Class != provider.Overloaded || !e.Retryable() || e.Partial.StopReason != message.Error {
		t.Errorf("A23: %+v", e)
	}
	if text := message.TextOf(folded["V03"].Settled.Content); strings.Contains(text, "\uFFFD") {
		t.Errorf("V03: %q", text)
	}
}
