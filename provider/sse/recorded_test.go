package sse_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/internal/cases"
	"github.com/loom-run/loom/provider/sse"
)

func TestRecordedFramingsDecodeToTheirExpectedEvents(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(cases.Dir(t), "sse", "framing", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no framing cases: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var recorded struct {
				Chunks   [][]byte `json:"chunks_base64"`
				Expected []struct {
					Event *string `json:"event"`
					Data  string  `json:"data"`
				} `json:"expected_events"`
			}
			if err := json.Unmarshal(raw, &recorded); err != nil {
				t.Fatal(err)
			}
			type pair struct{ Name, Data string }
			var want []pair
			for _, e := range recorded.Expected {
				p := pair{Data: e.Data}
				if e.Event != nil {
					p.Name = *e.Event
				}
				want = append(want, p)
			}
			check := func(fail func(string, ...any), chunks [][]byte) {
				events, err := parse(sse.Limits{}, chunks...)
				if err != nil {
					fail("%v", err)
				}
				var got []pair
				for _, e := range events {
					got = append(got, pair{e.Name, string(e.Data)})
				}
				if diff := cmp.Diff(want, got); diff != "" {
					fail("(-want +got):\n%s", diff)
				}
			}
			var whole []byte
			for _, chunk := range recorded.Chunks {
				whole = append(whole, chunk...)
			}
			check(t.Fatalf, recorded.Chunks)
			check(t.Fatalf, [][]byte{whole})
			check(t.Fatalf, singles(whole))
			rapid.Check(t, func(t *rapid.T) { check(t.Fatalf, cuts(t, whole)) })
		})
	}
}
