package entry_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/jsonv"
)

// The plain structs hold what an Entry holds, as a program without this package would read it: one struct for each union, pointers for what may be
// absent, opaque values as trees.
type (
	plainEntry struct {
		ID           string         `json:"id"`
		ParentID     *string        `json:"parentId"`
		Seq          int64          `json:"seq"`
		Timestamp    int64          `json:"timestamp"`
		Type         string         `json:"type"`
		Message      *plainMessage  `json:"message"`
		Terminate    bool           `json:"terminate"`
		Summary      string         `json:"summary"`
		RetainedTail []plainMessage `json:"retainedTail"`
		TokensBefore int64          `json:"tokensBefore"`
		FromHook     bool           `json:"fromHook"`
		FromID       *string        `json:"fromId"`
		Usage        *plainUsage    `json:"usage"`
		CustomType   string         `json:"customType"`
		Data         any            `json:"data"`
	}
	plainMessage struct {
		Role           string       `json:"role"`
		Content        []plainBlock `json:"content"`
		Timestamp      int64        `json:"timestamp"`
		Origin         *plainOrigin `json:"origin"`
		API            string       `json:"api"`
		Provider       string       `json:"provider"`
		Model          string       `json:"model"`
		ResponseModel  *string      `json:"responseModel"`
		ResponseID     *string      `json:"responseId"`
		Diagnostics    any          `json:"diagnostics"`
		Usage          *plainUsage  `json:"usage"`
		StopReason     string       `json:"stopReason"`
		Deferred       any          `json:"deferred"`
		ErrorMessage   *string      `json:"errorMessage"`
		RawStopReason  *string      `json:"rawStopReason"`
		EndTurn        *bool        `json:"endTurn"`
		ToolCallID     string       `json:"toolCallId"`
		ToolName       string       `json:"toolName"`
		Details        any          `json:"details"`
		AddedToolNames []string     `json:"addedToolNames"`
		IsError        bool         `json:"isError"`
		Schema         string       `json:"schema"`
		Payload        any          `json:"payload"`
	}
	plainBlock struct {
		Type              string  `json:"type"`
		Text              string  `json:"text"`
		TextSignature     *string `json:"textSignature"`
		Data              string  `json:"data"`
		MimeType          string  `json:"mimeType"`
		Thinking          string  `json:"thinking"`
		ThinkingSignature *string `json:"thinkingSignature"`
		Redacted          bool    `json:"redacted"`
		ID                string  `json:"id"`
		Name              string  `json:"name"`
		Arguments         any     `json:"arguments"`
		ThoughtSignature  *string `json:"thoughtSignature"`
		Namespace         *string `json:"namespace"`
	}
	plainOrigin struct {
		Principal string `json:"principal"`
		Name      string `json:"name"`
		Kind      string `json:"kind"`
		Session   string `json:"session"`
		Strand    string `json:"strand"`
	}
	plainUsage struct {
		Input        int64         `json:"input"`
		Output       int64         `json:"output"`
		CacheRead    int64         `json:"cacheRead"`
		CacheWrite   int64         `json:"cacheWrite"`
		CacheWrite1h *int64        `json:"cacheWrite1h"`
		Reasoning    *int64        `json:"reasoning"`
		TotalTokens  int64         `json:"totalTokens"`
		Cost         plainCost     `json:"cost"`
		Evidence     plainEvidence `json:"evidence"`
	}
	plainCost struct {
		Input      json.Number `json:"input"`
		Output     json.Number `json:"output"`
		CacheRead  json.Number `json:"cacheRead"`
		CacheWrite json.Number `json:"cacheWrite"`
		Total      json.Number `json:"total"`
	}
	plainEvidence struct {
		Version int    `json:"version"`
		Tokens  string `json:"tokens"`
		Billing string `json:"billing"`
		Cost    struct {
			Kind     string `json:"kind"`
			Coverage string `json:"coverage"`
			Basis    string `json:"basis"`
		} `json:"cost"`
	}
)

const transcriptBytes = 200 << 10

// transcript is one JSON array of rows.
func transcript() (rows []entry.Entry, text []byte) {
	rows = coretest.Transcript(1, transcriptBytes)
	w := jsonv.NewWriter(make([]byte, 0, transcriptBytes+4096))
	appendRows(w, rows)
	return rows, w.Bytes()
}

func appendRows(w *jsonv.Writer, rows []entry.Entry) {
	w.BeginArray()
	for _, e := range rows {
		entry.Append(w, e)
	}
	w.EndArray()
}

func decodeRows(text []byte) ([]entry.Entry, error) {
	v, err := jsonv.Parse(text)
	if err != nil {
		return nil, err
	}
	rows := make([]entry.Entry, 0, v.Len())
	for _, e := range v.Elems() {
		row, err := entry.Decode(e)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func decodePlain(text []byte) (rows []plainEntry, err error) {
	err = json.Unmarshal(text, &rows)
	return rows, err
}

// compare runs ours and theirs in turn, b.N times each, and reports how many times faster ours is. It compares medians: a neighbour that takes the
// processor for a while disturbs a few runs of both, not the ratio.
func compare(b *testing.B, bytes int, ours, theirs func() error) {
	timed := func(work func() error) time.Duration {
		start := time.Now()
		if err := work(); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	var us, them []time.Duration
	for b.Loop() {
		us, them = append(us, timed(ours)), append(them, timed(theirs))
	}
	slices.Sort(us)
	slices.Sort(them)
	our, their := us[len(us)/2], them[len(them)/2]
	b.ReportMetric(float64(their)/float64(our), "x-encoding/json")
	b.ReportMetric(float64(bytes)/our.Seconds()/1e6, "loom-MB/s")
	b.ReportMetric(float64(bytes)/their.Seconds()/1e6, "json-MB/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkDecode decodes a transcript: strictly into rows, and by encoding/json into plain structs. The budget of "compared" is 1.3.
func BenchmarkDecode(b *testing.B) {
	rows, text := transcript()
	whole := func(n int, err error) error {
		if err == nil && n != len(rows) {
			err = fmt.Errorf("%d rows of %d", n, len(rows))
		}
		return err
	}
	ours := func() error {
		got, err := decodeRows(text)
		return whole(len(got), err)
	}
	theirs := func() error {
		got, err := decodePlain(text)
		return whole(len(got), err)
	}
	b.Run("compared", func(b *testing.B) { compare(b, len(text), ours, theirs) })
	b.Run("loom", func(b *testing.B) { single(b, len(text), ours) })
	b.Run("encoding-json", func(b *testing.B) { single(b, len(text), theirs) })
}

// BenchmarkDecodeRows decodes the same transcript as storage reads it: each row is a text of its own.
func BenchmarkDecodeRows(b *testing.B) {
	rows, text := transcript()
	texts := make([][]byte, len(rows))
	for i, e := range rows {
		texts[i] = entry.Encode(e)
	}
	ours := func() error {
		for _, t := range texts {
			if _, err := entry.Parse(t); err != nil {
				return err
			}
		}
		return nil
	}
	theirs := func() error {
		for _, t := range texts {
			var e plainEntry
			if err := json.Unmarshal(t, &e); err != nil {
				return err
			}
		}
		return nil
	}
	b.Run("compared", func(b *testing.B) { compare(b, len(text), ours, theirs) })
	b.Run("loom", func(b *testing.B) { single(b, len(text), ours) })
	b.Run("encoding-json", func(b *testing.B) { single(b, len(text), theirs) })
}

// BenchmarkEncode writes the same transcript, and encoding/json writes its plain structs.
func BenchmarkEncode(b *testing.B) {
	rows, text := transcript()
	plain, err := decodePlain(text)
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, len(text))
	ours := func() error {
		w := jsonv.NewWriter(buf[:0])
		appendRows(w, rows)
		if len(w.Bytes()) != len(text) {
			return fmt.Errorf("%d bytes of %d", len(w.Bytes()), len(text))
		}
		return nil
	}
	theirs := func() error {
		_, err := json.Marshal(plain)
		return err
	}
	b.Run("compared", func(b *testing.B) { compare(b, len(text), ours, theirs) })
	b.Run("loom", func(b *testing.B) { single(b, len(text), ours) })
	b.Run("encoding-json", func(b *testing.B) { single(b, len(text), theirs) })
}

func single(b *testing.B, bytes int, work func() error) {
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	for b.Loop() {
		if err := work(); err != nil {
			b.Fatal(err)
		}
	}
}
