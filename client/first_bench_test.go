package client_test

import (
	"bytes"
	"context"
	"iter"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/wire"
)

// BenchmarkFirstOutput is the time from a frame that arrives to the output that a host gets for it: of the first frame of a run, through the driver with its
// goroutine, its timer and its cadence.
func BenchmarkFirstOutput(b *testing.B) {
	text, err := os.ReadFile("testdata/runs/retries.jsonl")
	if err != nil {
		b.Fatal(err)
	}
	var frames []wire.Frame
	for _, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		f, err := wire.DecodeFrame(line)
		if err != nil {
			b.Fatal(err)
		}
		frames = append(frames, f)
	}
	ports := client.Ports{Coalesce: 16 * time.Millisecond, Timer: func(d time.Duration) (<-chan time.Time, func()) {
		t := time.NewTimer(d)
		return t.C, func() { t.Stop() }
	}}
	var times []time.Duration
	for b.Loop() {
		var arrived, heard time.Time
		src := func(context.Context) iter.Seq2[wire.Frame, error] {
			return func(yield func(wire.Frame, error) bool) {
				arrived = time.Now()
				for _, f := range frames {
					if !yield(f, nil) {
						return
					}
				}
			}
		}
		sink := func(plane.Output) error {
			if heard.IsZero() {
				heard = time.Now()
			}
			return nil
		}
		state := client.New(plane.Watch{Session: frames[0].Session, Strand: "main"}, project.Appends)
		if _, err := client.Run(b.Context(), state, src, sink, ports); err != nil {
			b.Fatal(err)
		}
		times = append(times, heard.Sub(arrived))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1000, "first-p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1000, "first-p99-µs")
}
