package dialecttest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/internal/cases"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/dialect"
	"github.com/loom-run/loom/provider/remote"
	"github.com/loom-run/loom/provider/sse"
)

// Answer is the outcome of folding a stream: exactly one of Settled and Failure.
type Answer struct {
	Settled *message.Assistant
	Failure *provider.Error
	Deltas  []provider.Delta
}

// Kept is the message of the answer, whole or partial; nil when nothing came.
func (a Answer) Kept() *message.Assistant {
	if a.Settled != nil {
		return a.Settled
	}
	return a.Failure.Partial
}

// Fold folds a body in the given chunks, as the shell does, to its end.
func Fold(d remote.Dialect, req provider.Request, chunks ...[]byte) Answer {
	var a Answer
	if req.Model.ModelID == "" {
		req.Model = Model
	}
	f := d.Fold(dialect.Peer{Name: "host", KeyName: "KEY", Speaks: d.Speaks()}, req, func(d provider.Delta) { a.Deltas = append(a.Deltas, d) })
	parser := sse.New(sse.Limits{})
	for _, chunk := range chunks {
		events, err := parser.Feed(chunk, nil)
		if err != nil {
			panic(err)
		}
		for _, e := range events {
			f.Event(e)
		}
	}
	a.Settled, a.Failure = f.Settle(nil, 7)
	return a
}

// Whole folds an answer that was not streamed.
func Whole(t testing.TB, d remote.Dialect, body string) Answer {
	t.Helper()
	var a Answer
	v, replaced, err := dialect.ParseJSON([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	f := d.Fold(dialect.Peer{Name: "host"}, provider.Request{Model: Model}, func(d provider.Delta) { a.Deltas = append(a.Deltas, d) })
	f.Whole(v, replaced)
	a.Settled, a.Failure = f.Settle(nil, 7)
	return a
}

// Stream writes the data of events as a body. Data of a typed event is named after its type, as servers do.
func Stream(data ...string) []byte {
	var body strings.Builder
	for _, d := range data {
		if v, err := jsonv.ParseString(d); err == nil && dialect.Text(v, "type") != "" {
			body.WriteString("event: " + dialect.Text(v, "type") + "\n")
		}
		body.WriteString("data: " + d + "\n\n")
	}
	return []byte(body.String())
}

// Sketch renders content in one line for tables: text in quotes, thinking in (), redacted reasoning in [], calls as name{args}, malformed ones as
// name!raw. A signature follows its block as #signature.
func Sketch(blocks []message.AssistantBlock) string {
	var out []string
	for _, b := range blocks {
		switch b := b.(type) {
		case message.Text:
			out = append(out, fmt.Sprintf("%q", b.Text)+sign(b.Signature))
		case message.Thinking:
			switch {
			case dialect.IsSealed(b):
				v, _ := jsonv.ParseString(*b.Signature)
				block, _ := v.Get("block")
				out = append(out, b.Thinking+block.String())
			case b.Redacted:
				out = append(out, "["+b.Thinking+"]"+sign(b.Signature))
			default:
				out = append(out, "("+b.Thinking+")"+sign(b.Signature))
			}
		case message.ToolCall:
			if raw, _, bad := message.AsMalformed(b.Arguments); bad {
				out = append(out, b.Name+"!"+raw)
				continue
			}
			out = append(out, b.Name+b.Arguments.String()+sign(b.ThoughtSignature))
		}
	}
	return strings.Join(out, " ")
}

func sign(s *string) string {
	if s == nil {
		return ""
	}
	return "#" + *s
}

// Stored is the JSON of a message.
func Stored(m message.Message) string {
	var w jsonv.Writer
	message.Append(&w, m)
	return string(w.Bytes())
}

// Outcome is the terminal of an answer as text.
func (a Answer) Outcome() string {
	if a.Settled != nil {
		return Stored(a.Settled)
	}
	if a.Failure.Partial == nil {
		return string(a.Failure.Class) + " " + a.Failure.Error()
	}
	return string(a.Failure.Class) + " " + a.Failure.Error() + Stored(a.Failure.Partial)
}

// Check checks what holds for every answer.
func Check(fail func(string, ...any), a Answer) {
	if (a.Settled == nil) == (a.Failure == nil) {
		fail("want exactly one of message and error, got %v and %v", a.Settled, a.Failure)
		return
	}
	if a.Failure != nil {
		if text := a.Failure.Error(); text == "" || strings.ContainsAny(text, "\r\n\x1b") || !a.Failure.Class.Known() {
			fail("the error is no sentence of a known class: %s %q", a.Failure.Class, text)
		}
	}
	m := a.Kept()
	if m == nil {
		return
	}
	back, err := jsonv.ParseString(Stored(m))
	if err == nil {
		_, err = message.Decode(back)
	}
	if err != nil {
		fail("the message cannot be stored: %v", err)
	}
	calls, _ := m.ToolCalls()
	ids := map[string]bool{}
	for _, c := range calls {
		if c.ID == "" || ids[c.ID] || c.Name == "" || c.Arguments.Kind() != jsonv.Object {
			fail("a call that cannot be replayed: %+v", c)
		}
		ids[c.ID] = true
		if _, _, malformed := message.AsMalformed(c.Arguments); malformed && a.Settled == nil {
			fail("a partial answer holds a call that is not whole: %+v", c)
		}
	}
	for _, b := range m.Content {
		if t, ok := b.(message.Text); ok && t.Text == "" && t.Signature == nil {
			fail("an empty text block")
		}
	}
	if a.Settled != nil && (m.StopReason == message.ToolUse && len(calls) == 0 || m.StopReason == message.Stop && len(calls) > 0) {
		fail("stop reason %s with %d calls", m.StopReason, len(calls))
	}
	checkDrawn(fail, a, m)
}

// checkDrawn checks that what was drawn is what was kept, block for block. Calls that were left out of a partial answer move what follows them.
func checkDrawn(fail func(string, ...any), a Answer, m *message.Assistant) {
	if a.Settled == nil || m.Diagnostics != nil {
		return // diagnostics say that the provider contradicted itself
	}
	drawn := make([]strings.Builder, len(m.Content))
	for _, d := range a.Deltas {
		at, piece := 0, ""
		switch d := d.(type) {
		case provider.TextDelta:
			at, piece = d.Block, d.Text
		case provider.ThinkingDelta:
			at, piece = d.Block, d.Text
		case provider.ToolCallDelta:
			at, piece = d.Block, d.Fragment
		}
		if at < 0 || at >= len(drawn) {
			fail("a delta of block %d of %d", at, len(drawn))
			return
		}
		drawn[at].WriteString(piece)
	}
	for i, b := range m.Content {
		want, got := "", drawn[i].String()
		switch b := b.(type) {
		case message.Text:
			want = b.Text
		case message.Thinking:
			want = b.Thinking
		case message.ToolCall:
			if _, _, malformed := message.AsMalformed(b.Arguments); malformed {
				continue
			}
			want, got = b.Arguments.String(), message.ParseArguments(strings.TrimSpace(got)).String()
		}
		if got != want {
			fail("block %d was drawn as %q and kept as %q", i, got, want)
		}
	}
}

// Streams checks that every stream has one outcome, whatever its cut into chunks: the given ones, and what becomes of them when events are lost,
// repeated, exchanged and broken.
func Streams(t *testing.T, open func() remote.Dialect, streams ...[]byte) {
	rapid.Check(t, func(t *rapid.T) {
		body := mangle(t, rapid.SampledFrom(streams).Draw(t, "stream"))
		d := open()
		whole := Fold(d, provider.Request{}, body)
		Check(t.Fatalf, whole)
		var chunks [][]byte
		for rest := body; len(rest) > 0; {
			n := rapid.IntRange(1, min(len(rest), 60)).Draw(t, "n")
			chunks = append(chunks, rest[:n])
			rest = rest[n:]
		}
		same(t.Fatalf, whole, Fold(d, provider.Request{}, chunks...))
	})
}

func same(fail func(string, ...any), whole, cut Answer) {
	if diff := cmp.Diff(whole.Deltas, cut.Deltas); diff != "" {
		fail("deltas (-whole +cut):\n%s", diff)
	}
	if diff := cmp.Diff(whole.Outcome(), cut.Outcome()); diff != "" {
		fail("outcome (-whole +cut):\n%s", diff)
	}
}

// mangle breaks a stream in one of the ways in which streams break.
func mangle(t *rapid.T, stream []byte) []byte {
	events := strings.SplitAfter(string(stream), "\n\n")
	at := func(name string) int { return rapid.IntRange(0, len(events)-1).Draw(t, name) }
	for range rapid.IntRange(0, 3).Draw(t, "breaks") {
		switch rapid.IntRange(0, 5).Draw(t, "break") {
		case 0:
			i := at("lost")
			events = append(events[:i:i], events[i+1:]...)
		case 1:
			i := at("repeated")
			events = append(events[:i+1:i+1], events[i:]...)
		case 2:
			i, j := at("one"), at("other")
			events[i], events[j] = events[j], events[i]
		case 3:
			events = events[:at("end")+1]
		case 4:
			i := at("broken")
			if n := len(events[i]); n > 0 {
				b := []byte(events[i])
				b[rapid.IntRange(0, n-1).Draw(t, "byte")] = rapid.SampledFrom([]byte("\x00\xff{}[]\",:0\\")).Draw(t, "value")
				events[i] = string(b)
			}
		case 5:
			i := at("before")
			events = append(events[:i:i], append([]string{"data: " + rapid.SampledFrom([]string{"[DONE]", "{", "null", "[1]", `{"error":{"message":"x"}}`,
				`{"type":"new","delta":{"type":"new"}}`, `{}`}).Draw(t, "odd") + "\n\n"}, events[i:]...)...)
		}
		if len(events) == 0 {
			return nil
		}
	}
	body := []byte(strings.Join(events, ""))
	return body[:len(body)-rapid.IntRange(0, min(3, len(body))).Draw(t, "tail")]
}

// Fuzz checks any bytes like [Streams], and as an answer that was not streamed.
func Fuzz(f *testing.F, open func() remote.Dialect, streams ...[]byte) {
	for i, s := range streams {
		f.Add(s, uint(i*7+1))
		for line := range strings.Lines(string(s)) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				f.Add([]byte(data), uint(0)) // the last of some dialects is a whole answer
			}
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, size uint) {
		if len(body) > 1<<16 {
			t.Skip("larger than worth it")
		}
		d := open()
		whole := Fold(d, provider.Request{}, body)
		Check(t.Errorf, whole)
		step := int(size%32) + 1
		var chunks [][]byte
		for i := 0; i < len(body); i += step {
			chunks = append(chunks, body[i:min(i+step, len(body))])
		}
		same(t.Errorf, whole, Fold(d, provider.Request{}, chunks...))
		if _, _, err := dialect.ParseJSON(body); err == nil {
			Check(t.Errorf, Whole(t, d, string(body)))
		}
	})
}

// Recorded is a recorded stream with what an independent reader found in it.
type Recorded struct {
	ID     string
	Body   []byte
	Chunks [][]byte // as they came, where that was recorded
	Oracle jsonv.Value
}

// ReadRecorded finds the recorded streams of a kind.
func ReadRecorded(t *testing.T, kind string) []Recorded {
	t.Helper()
	dir := cases.Dir(t)
	raw, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index []struct {
		ID    string `json:"id"`
		Class string `json:"cls"`
		Kind  string `json:"kind"`
		Files []struct {
			Path string `json:"path"`
		} `json:"files"`
		Oracle json.RawMessage `json:"oracle"`
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		t.Fatal(err)
	}
	var found []Recorded
	for _, entry := range index {
		if entry.Class != "sse" || entry.Kind != kind {
			continue
		}
		r := Recorded{ID: entry.ID}
		if r.Body, err = os.ReadFile(filepath.Join(dir, entry.Files[0].Path)); err != nil {
			t.Fatal(err)
		}
		if r.Oracle, err = jsonv.Parse(entry.Oracle); err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(entry.Files[0].Path) == ".json" {
			r.unpack(t)
		}
		found = append(found, r)
	}
	if len(found) == 0 {
		t.Fatalf("the index names no streams of the kind %s", kind)
	}
	return found
}

// unpack reads a recording of chunks.
func (r *Recorded) unpack(t *testing.T) {
	t.Helper()
	var recorded struct {
		Chunks []string `json:"chunks"`
	}
	if err := json.Unmarshal(r.Body, &recorded); err != nil {
		t.Fatal(err)
	}
	r.Body = nil
	for _, c := range recorded.Chunks {
		r.Chunks = append(r.Chunks, []byte(c))
		r.Body = append(r.Body, c...)
	}
}

// Fold folds the recording whole, byte by byte and as it came, demands the same outcome of each, and returns it.
func (r Recorded) Fold(t *testing.T, d remote.Dialect) Answer {
	t.Helper()
	whole := Fold(d, provider.Request{}, r.Body)
	Check(t.Errorf, whole)
	var singles [][]byte
	for i := range r.Body {
		singles = append(singles, r.Body[i:i+1])
	}
	same(t.Errorf, whole, Fold(d, provider.Request{}, singles...))
	if r.Chunks != nil {
		same(t.Errorf, whole, Fold(d, provider.Request{}, r.Chunks...))
	}
	return whole
}
