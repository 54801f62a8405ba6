package main

import (
	"testing"
	"time"
)

func TestTheFiguresOfTheCommitBenchmarkAreRead(t *testing.T) {
	rows := commitRows(`goos: linux
BenchmarkCommit/settlement_of_5_writes,_FULL-2         	1000	   1533404 ns/op	       617.8 p50-µs	      6779 p99-µs	         1.894 ratio	       326.1 raw-p50-µs	   17733 B/op	     267 allocs/op
BenchmarkCommit/settlement_of_5_writes,_NORMAL         	1000	   3290980 ns/op	       440.3 p50-µs	      4721 p99-µs	         0.2653 ratio	      1660 raw-p50-µs
PASS
`)
	want := []row{
		{"commit: settlement of 5 writes, FULL", "p50 0.62 ms, raw 0.33 ms, ratio 1.89", "<= 1.3 x raw", true},
		{"commit: settlement of 5 writes, NORMAL", "p50 0.44 ms, raw 1.66 ms, ratio 0.27", "", false},
	}
	if len(rows) != len(want) || rows[0] != want[0] || rows[1] != want[1] {
		t.Errorf("got %+v", rows)
	}
	if rows := commitRows("PASS\n"); len(rows) != 0 {
		t.Errorf("out of nothing came %+v", rows)
	}
}

func TestASpreadIsMedianAndBounds(t *testing.T) {
	d := []time.Duration{9 * time.Millisecond, time.Millisecond, 2500 * time.Microsecond}
	if got := spread(d); got != "2.5 ms (1.0 to 9.0)" || median(d) != 2500*time.Microsecond {
		t.Errorf("%s, %s", got, median(d))
	}
}
