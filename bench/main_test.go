package main

import (
	"testing"
	"time"
)

func TestTheFiguresOfBenchmarksAreRead(t *testing.T) {
	printed := figuresOf(`goos: linux
BenchmarkCommit/settlement_of_5_writes,_FULL-2         	1000	   1533404 ns/op	       617.8 p50-µs	      6779 p99-µs	         1.894 ratio	       326.1 raw-p50-µs	   17733 B/op	     267 allocs/op
BenchmarkStep         	1000	   3290980 ns/op	       812345 frames/s
PASS
`)
	ratio, ok := printed["Commit/settlement_of_5_writes,_FULL"]["ratio"]
	if !ok || printed["Step"]["frames/s"] != 812345 || len(printed) != 2 {
		t.Fatalf("got %v", printed)
	}
	for _, c := range []struct {
		figure figure
		v      float64
		want   row
	}{
		{figure{"commit", "", "", 1, "%.2f", 1.3, true}, ratio, row{"commit", "1.89", "<= 1.30", true}},
		{figure{"commit", "", "", 1, "%.2f", 1.9, true}, ratio, row{"commit", "1.89", "<= 1.90", false}},
		{figure{"frames", "", "", 1e-3, "%.0f k", 500, false}, 812345, row{"frames", "812 k", ">= 500 k", false}},
		{figure{"frames", "", "", 1e-3, "%.0f k", 500, false}, 400_000, row{"frames", "400 k", ">= 500 k", true}},
		{figure{"floor", "", "", 1e-3, "%.1f ms", 0, true}, 1500, row{"floor", "1.5 ms", "", false}},
	} {
		if got := c.figure.row(c.v); got != c.want {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
	if printed := figuresOf("PASS\n"); len(printed) != 0 {
		t.Errorf("out of nothing came %v", printed)
	}
}

func TestASpreadIsMedianAndBounds(t *testing.T) {
	d := []time.Duration{9 * time.Millisecond, time.Millisecond, 2500 * time.Microsecond}
	if got := spread(d); got != "2.5 ms (1.0 to 9.0)" || median(d) != 2500*time.Microsecond {
		t.Errorf("%s, %s", got, median(d))
	}
}
