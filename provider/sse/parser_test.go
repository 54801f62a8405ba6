package sse_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/provider/sse"
)

// parse feeds the chunks to a fresh parser.
func parse(limits sse.Limits, chunks ...[]byte) ([]sse.Event, error) {
	p := sse.New(limits)
	var events []sse.Event
	var err error
	for _, chunk := range chunks {
		scratch := bytes.Clone(chunk)
		events, err = p.Feed(scratch, events)
		clear(scratch) // the caller reuses its buffer: nothing in the result may point into it
	}
	return events, err
}

func singles(b []byte) [][]byte {
	var out [][]byte
	for i := range b {
		out = append(out, b[i:i+1])
	}
	return out
}

// cuts draws a way to cut b into chunks, empty ones included.
func cuts(t *rapid.T, b []byte) [][]byte {
	var out [][]byte
	for len(b) > 0 {
		n := rapid.IntRange(0, min(len(b), 9)).Draw(t, "chunk")
		out = append(out, b[:n])
		b = b[n:]
	}
	return out
}

func event(name, data, id string) sse.Event {
	return sse.Event{Name: name, Data: []byte(data), ID: id}
}

func TestFieldsAreReadByTheRulesOfTheFormat(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		want         []sse.Event
	}{
		{"nothing", "", nil},
		{"one field, one event", "data: a\n\n", []sse.Event{event("", "a", "")}},
		{"no space after the colon", "data:a\n\n", []sse.Event{event("", "a", "")}},
		{"only the first space is cut", "data:  a \n\n", []sse.Event{event("", " a ", "")}},
		{"a colon inside the value", "data: a: b\n\n", []sse.Event{event("", "a: b", "")}},
		{"a field without a colon is empty", "data\n\n", []sse.Event{event("", "", "")}},
		{"two empty data fields are one line feed", "data\ndata\n\n", []sse.Event{event("", "\n", "")}},
		{"data fields are joined", "data: a\ndata:\ndata: b\n\n", []sse.Event{event("", "a\n\nb", "")}},
		{"LF, CR and CRLF end a line", "data: a\ndata: b\rdata: c\r\n\r\n", []sse.Event{event("", "a\nb\nc", "")}},
		{"CR CR is an empty line", "data: a\r\rdata: b\r\r", []sse.Event{event("", "a", ""), event("", "b", "")}},
		{"CRLF CRLF is one empty line", "data: a\r\n\r\n\r\n", []sse.Event{event("", "a", "")}},
		{"LF CR is two line ends", "data: a\n\rdata: b\n\r", []sse.Event{event("", "a", ""), event("", "b", "")}},
		{"comments are dropped", ": hi\ndata: a\n:\n\n: bye\n", []sse.Event{event("", "a", "")}},
		{"a comment ends no event", "data: a\n: x\ndata: b\n\n", []sse.Event{event("", "a\nb", "")}},
		{"the last event name counts", "event: x\nevent: y\ndata: a\n\n", []sse.Event{event("y", "a", "")}},
		{"a name does not carry over", "event: x\ndata: a\n\ndata: b\n\n", []sse.Event{event("x", "a", ""), event("", "b", "")}},
		{"a name without data is no event", "event: x\n\ndata: b\n\n", []sse.Event{event("", "b", "")}},
		{"an id carries over", "id: 1\ndata: a\n\ndata: b\n\n", []sse.Event{event("", "a", "1"), event("", "b", "1")}},
		{"an id without data is remembered", "id: 1\n\ndata: b\n\n", []sse.Event{event("", "b", "1")}},
		{"an empty id resets", "id: 1\ndata: a\n\nid\ndata: b\n\n", []sse.Event{event("", "a", "1"), event("", "b", "")}},
		{"an id with a NUL is ignored", "id: 1\nid: 2\x003\ndata: a\n\n", []sse.Event{event("", "a", "1")}},
		{"retry and unknown fields are ignored", "retry: 10\nfoo: x\ndata: a\n\n", []sse.Event{event("", "a", "")}},
		{"field names are case-sensitive", "Data: x\ndata: a\n\n", []sse.Event{event("", "a", "")}},
		{"a field name is not trimmed", " data: x\ndata : y\n\n", nil},
		{"one byte order mark is cut", "\ufeffdata: a\n\n", []sse.Event{event("", "a", "")}},
		{"a second one is part of a name", "\ufeff\ufeffdata: a\n\ndata: b\n\n", []sse.Event{event("", "b", "")}},
		{"a later one is part of a name", "data: a\n\n\ufeffdata: b\n\n", []sse.Event{event("", "a", "")}},
		{"a lone byte order mark is an empty line", "\ufeff\ndata: a\n\n", []sse.Event{event("", "a", "")}},
		{"an unterminated event is dropped", "data: a\n\ndata: b\n", []sse.Event{event("", "a", "")}},
		{"an unterminated line is dropped", "data: a\n\ndata: b", []sse.Event{event("", "a", "")}},
		{"other Unicode line breaks are text", "data: a\u2028b\u0085c\v\n\n", []sse.Event{event("", "a\u2028b\u0085c\v", "")}},
		{"invalid UTF-8 passes through", "data: \xff\xc3\n\n", []sse.Event{event("", "\xff\xc3", "")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for how, chunks := range map[string][][]byte{"whole": {[]byte(c.stream)}, "singles": singles([]byte(c.stream))} {
				got, err := parse(sse.Limits{}, chunks...)
				if err != nil {
					t.Fatalf("%s: %v", how, err)
				}
				if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", how, diff)
				}
			}
		})
	}
}

// streams draws bytes that are dense in everything the format gives a meaning to.
func streams() *rapid.Generator[[]byte] {
	piece := rapid.SampledFrom([]string{
		"data", "event", "id", "retry", ":", " ", "\n", "\r", "\r\n", "\n\n", "\r\r", "\ufeff", "\x00", "\xff", "a", "é", "data: x\n\n", "data:\n",
	})
	return rapid.Map(rapid.SliceOfN(piece, 0, 60), func(pieces []string) []byte { return []byte(strings.Join(pieces, "")) })
}

func TestAnyCutIntoChunksGivesTheSameEventsAndTheSameError(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := streams().Draw(t, "stream")
		limits := sse.Limits{
			Line:   rapid.SampledFrom([]int{0, 1, 8, 20}).Draw(t, "line"),
			Event:  rapid.SampledFrom([]int{0, 1, 5, 20}).Draw(t, "event"),
			Fields: rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "fields"),
			Body:   rapid.SampledFrom([]int{0, 1, 30, 100}).Draw(t, "body"),
		}
		want, wantErr := parse(limits, stream)
		for _, chunks := range [][][]byte{singles(stream), cuts(t, stream)} {
			got, err := parse(limits, chunks...)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("events (-whole +cut):\n%s", diff)
			}
			if diff := cmp.Diff(wantErr, err); diff != "" {
				t.Fatalf("error (-whole +cut):\n%s", diff)
			}
		}
	})
}

func TestWrittenEventsAreReadBack(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Map(func(r rune) rune {
			if r == '\r' {
				return '_'
			}
			return r
		}, rapid.String().Draw(t, "text"))
	})
	rapid.Check(t, func(t *rapid.T) {
		ending := rapid.SampledFrom([]string{"\n", "\r", "\r\n"}).Draw(t, "ending")
		var stream bytes.Buffer
		var want []sse.Event
		for _, data := range rapid.SliceOf(text).Draw(t, "events") {
			name := rapid.SampledFrom([]string{"", "delta", "stop"}).Draw(t, "name")
			if name != "" {
				stream.WriteString("event: " + name + ending)
			}
			for _, line := range strings.Split(data, "\n") {
				stream.WriteString("data: " + line + ending)
			}
			stream.WriteString(ending)
			want = append(want, event(name, data, ""))
		}
		got, err := parse(sse.Limits{}, cuts(t, stream.Bytes())...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestEveryBoundHoldsAtItsEdge(t *testing.T) {
	for _, c := range []struct {
		name         string
		limits       sse.Limits
		fits, passes string
		bound        sse.Bound
	}{
		{"line", sse.Limits{Line: 8}, "data: xx\n\n", "data: xxx\n\n", sse.BoundLine},
		{"line that never ends", sse.Limits{Line: 8}, "12345678", "123456789", sse.BoundLine},
		{"comment line", sse.Limits{Line: 8}, ":2345678\n", ":23456789\n", sse.BoundLine},
		{"event data with its joints", sse.Limits{Event: 3}, "data: x\ndata: y\n\n", "data: x\ndata: yz\n\n", sse.BoundEvent},
		{"event name and data", sse.Limits{Event: 3}, "event: ab\ndata: y\n\n", "event: ab\ndata: yz\n\n", sse.BoundEvent},
		{"event data and name", sse.Limits{Event: 3}, "data: y\nevent: ab\n\n", "data: y\nevent: abc\n\n", sse.BoundEvent},
		{"data fields", sse.Limits{Fields: 2}, "data\ndata\n\ndata\n\n", "data\ndata\ndata\n\n", sse.BoundFields},
		{"body", sse.Limits{Body: 10}, "data: aa\n\n", "data: aa\n\n\n", sse.BoundBody},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := parse(c.limits, []byte(c.fits)); err != nil {
				t.Errorf("at the edge: %v", err)
			}
			_, err := parse(c.limits, []byte(c.passes))
			over, ok := errors.AsType[*sse.LimitError](err)
			if !ok || over.Bound != c.bound {
				t.Errorf("over the edge: got %v, want the bound on %s", err, c.bound)
			}
		})
	}
}

func TestEventsBeforeAPassedBoundAreKeptAndTheErrorIsFinal(t *testing.T) {
	p := sse.New(sse.Limits{Body: 12})
	events, err := p.Feed([]byte("data: a\n\ndata: b\n\n"), nil)
	if err == nil || len(events) != 1 {
		t.Fatalf("got %d events and %v; want the first event and the bound", len(events), err)
	}
	more, again := p.Feed([]byte("data: c\n\n"), nil)
	if len(more) != 0 || !errors.Is(again, err) {
		t.Errorf("after an error: got %d events and %v; want none and the same error", len(more), again)
	}
}

func TestTheDefaultLimitsAreTheStatedOnes(t *testing.T) {
	line := bytes.Repeat([]byte{'x'}, sse.DefaultLine)
	copy(line, "data:")
	if events, err := parse(sse.Limits{}, line, []byte("\n\n")); err != nil || len(events) != 1 {
		t.Errorf("a line at the limit: %d events, %v", len(events), err)
	}
	if _, err := parse(sse.Limits{}, line, []byte("x\n\n")); err == nil {
		t.Error("a line over the limit was taken")
	}
	fields := strings.Repeat("data\n", sse.DefaultFields)
	if _, err := parse(sse.Limits{}, []byte(fields+"\n")); err != nil {
		t.Errorf("data fields at the limit: %v", err)
	}
	if _, err := parse(sse.Limits{}, []byte(fields+"data\n")); err == nil {
		t.Error("data fields over the limit were taken")
	}
	comments := bytes.Repeat([]byte(":"+strings.Repeat("x", 1022)+"\n"), sse.DefaultBody/1024)
	if _, err := parse(sse.Limits{}, comments); err != nil {
		t.Errorf("a body at the limit: %v", err)
	}
	if _, err := parse(sse.Limits{}, comments, []byte{'\n'}); err == nil {
		t.Error("a body over the limit was taken")
	}
}

func FuzzParserIsChunkIndependent(f *testing.F) {
	f.Add([]byte("event: a\r\ndata: b\r\n\r\n"), uint(3))
	f.Add([]byte("\ufeffdata: x\n\n: c\nid: \x00\ndata\n\n"), uint(1))
	f.Add([]byte("data: {\"a\":1}\n\ndata: [DONE]"), uint(7))
	f.Fuzz(func(t *testing.T, stream []byte, size uint) {
		limits := sse.Limits{Line: 64, Event: 64, Fields: 4, Body: 512}
		want, wantErr := parse(limits, stream)
		step := int(size%16) + 1
		var chunks [][]byte
		for i := 0; i < len(stream); i += step {
			chunks = append(chunks, stream[i:min(i+step, len(stream))])
		}
		got, err := parse(limits, chunks...)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("events (-whole +cut):\n%s", diff)
		}
		if diff := cmp.Diff(wantErr, err); diff != "" {
			t.Fatalf("error (-whole +cut):\n%s", diff)
		}
	})
}

// BenchmarkFeed reads streams as a connection brings them: deltas of a word, and of a file that a model writes.
func BenchmarkFeed(b *testing.B) {
	for name, size := range map[string]int{"words": 4, "4 KiB": 4 << 10, "64 KiB": 64 << 10} {
		b.Run(name, func(b *testing.B) {
			event := `data: {"id":"c","choices":[{"index":0,"delta":{"content":"` + strings.Repeat("w", size) + "\"}}]}\n\n"
			stream := bytes.Repeat([]byte(event), 1+(1<<20)/len(event))
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				p := sse.New(sse.Limits{})
				var events []sse.Event
				for rest := stream; len(rest) > 0; {
					n := min(len(rest), 32<<10)
					var err error
					if events, err = p.Feed(rest[:n], events[:0]); err != nil {
						b.Fatal(err)
					}
					rest = rest[n:]
				}
			}
		})
	}
}
