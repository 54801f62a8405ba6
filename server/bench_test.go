package server

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/loom-run/loom/server/memlisten"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wireclient"
)

// BenchmarkCommitToClient is the time from a commit to its frame in the hands of a
// client, over the listener in memory, with one frame for each commit.
func BenchmarkCommitToClient(b *testing.B) {
	f := newFakeSession(b, 1)
	s, l := New(hostOf(f)), memlisten.New()
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	rt := &http.Transport{DialContext: l.DialContext}
	stream, err := wireclient.New(rt, "http://loom").Attach(b.Context(), f.self, wire.FromHead())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	came := make(chan struct{})
	read := make(chan struct{})
	go func() {
		defer close(read)
		for frame, err := range stream.Frames(ctx) {
			if err == nil && frame.Kind() == wire.KindToolResult {
				came <- struct{}{}
			}
		}
	}()
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		f.result("c", "a result of a few bytes")
		<-came
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	cancel()
	<-read
	rt.CloseIdleConnections()
	if err := s.Close(time.Second); err != nil {
		b.Fatal(err)
	}
	if err := <-served; err != nil {
		b.Fatal(err)
	}
}
