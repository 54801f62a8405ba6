package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// A figure is what a benchmark beside the code reports, held against its budget.
type figure struct {
	what   string
	bench  string // the name of the benchmark, as it is printed
	unit   string // which of the figures of its line
	scale  float64
	show   string // a format of the scaled figure
	bound  float64
	atMost bool // or at least
}

// A suite is one run of benchmarks of a package, in which ratios are taken.
type suite struct {
	pkg, bench, time string
	figures          []figure
}

// suites follow the table of budgets in the design.
var suites = []suite{
	{"./storage/sqlite", "^BenchmarkCommit$", "2000x", []figure{
		{"commit of 2 writes, FULL / raw append and flush", "Commit/placement_of_2_writes,_FULL", "ratio", 1, "%.2f", 1.3, true},
		{"commit of 5 writes, FULL / raw append and flush", "Commit/settlement_of_5_writes,_FULL", "ratio", 1, "%.2f", 1.3, true},
		{"  that commit", "Commit/settlement_of_5_writes,_FULL", "p50-µs", 1e-3, "%.2f ms", 0, true},
		{"  the raw append and flush", "Commit/settlement_of_5_writes,_FULL", "raw-p50-µs", 1e-3, "%.2f ms", 0, true},
		{"  that commit without any flush", "Commit/settlement_of_5_writes,_not_flushed", "p50-µs", 1e-3, "%.2f ms", 0, true},
	}},
	{"./engine", "^BenchmarkCommitters$", "3x", []figure{
		{"16 committers at FULL / one at NORMAL", "Committers", "ratio", 1, "%.2f", 0.9, false},
		{"  commits for each flush", "Committers", "per-flush", 1, "%.1f", 8, false},
	}},
	{"./storage/sqlite", "^BenchmarkRead$", "2s", []figure{
		{"open and project, 10 k entries", "Read/open_and_project/10000", "p50-µs", 1e-3, "%.2f ms", 5, true},
		{"open and project, 1 M entries", "Read/open_and_project/1000000", "p50-µs", 1e-3, "%.2f ms", 5, true},
		{"newest 50 of 1 M entries", "Read/newest_50/1000000", "p50-µs", 1e-3, "%.2f ms", 1, true},
		{"  after 1,000 forks", "Read/newest_50_after_1000_forks/1000000", "p50-µs", 1e-3, "%.2f ms", 1, true},
		{"  of the last fork", "Read/newest_50_of_the_last_fork/1000000", "p50-µs", 1e-3, "%.2f ms", 1, true},
	}},
	{"./storage/sqlite", "^BenchmarkCompactions$", "1x", []figure{
		{"500 compactions with a 4 MiB tail: file / messages", "Compactions", "file/messages", 1, "%.2f", 2, true},
	}},
	{"./core/entry", "^BenchmarkDecode$/^compared$", "1s", []figure{
		{"strict decode of 200 KB / encoding/json", "Decode/compared", "x-encoding/json", 1, "%.2f x", 1.3, false},
	}},
	{"./policy", "^BenchmarkJudge$", "1s", []figure{
		{"decisions by rule/s, a line of three commands", "Judge", "decisions/s", 1e-3, "%.0f k", 0, false},
	}},
	{"./broker", "^BenchmarkRedact$", "1s", []figure{
		{"redaction of output, MB/s", "Redact", "redacted-MB/s", 1, "%.0f", 0, false},
	}},
	{"./server", "^BenchmarkCommitToClient$", "1s", []figure{
		{"commit to a client's stream, p99", "CommitToClient", "p99-µs", 1e-3, "%.2f ms", 5, true},
	}},
	{"./events", "^BenchmarkFanOut$", "1s", []figure{
		{"event to the last of 64 subscribers, p99", "FanOut", "p99-µs", 1e-3, "%.2f ms", 1, true},
	}},
	{"./events/search", "^BenchmarkFind$", "20x", []figure{
		{"search among 1 M entries, a rare word", "Find/rare_term", "p50-µs", 1e-3, "%.2f ms", 2, true},
		{"  a common word, newest first", "Find/common_term,_newest_first", "p50-µs", 1e-3, "%.2f ms", 5, true},
		{"  with a filter", "Find/common_term_of_a_tool", "p50-µs", 1e-3, "%.2f ms", 10, true},
		{"  a beginning", "Find/a_beginning", "p50-µs", 1e-3, "%.2f ms", 0, true},
		{"  ranked", "Find/common_term,_ranked", "p50-µs", 1e-3, "%.2f ms", 60, true},
		{"  indexed, entries/s", "Find/rare_term", "documents/s", 1e-3, "%.0f k", 10, false},
	}},
	{"./client", "^BenchmarkStep$", "10000000x", []figure{
		{"client.Step, delta frames/s", "Step", "frames/s", 1e-3, "%.0f k", 500, false},
		{"  memory held after 10 M frames", "Step", "MB-held", 1, "%.1f MB", 2, true},
	}},
	{"./client", "^BenchmarkFirstOutput$", "1s", []figure{
		{"a frame to the first output of it", "FirstOutput", "first-p50-µs", 1, "%.0f µs", 0, true},
	}},
	{"./engine", "^BenchmarkNextContextOf10kEntries$", "1s", []figure{
		{"context of the next turn on 10,000 messages", "NextContextOf10kEntries", "ns/op", 1e-6, "%.2f ms", 0, true},
	}},
	{"./engine", "^BenchmarkLongRun$", "1x", []figure{
		{"open and project, 5,000 turns / 500 turns", "LongRun", "open-ratio", 1, "%.2f x", 1.5, true},
		{"  more heap held", "LongRun", "MiB-more", 1, "%.1f MiB", 8, true},
		{"  a turn", "LongRun", "turn-ratio", 1, "%.2f x", 1.5, true},
		{"  file for each byte of rows", "LongRun", "file-ratio", 1, "%.2f x", 1.5, true},
	}},
	{"./broker/jail", "^Benchmark", "1s", []figure{
		{"200 MB of command output", "200MB", "ns/op", 1e-9, "%.2f s", 1.5, true},
		{"  more heap meanwhile", "200MB", "MB-heap", 1, "%.1f MB", 10, true},
		{"jailed true", "True/jailed", "ns/op", 1e-6, "%.2f ms", 0, true},
		{"  a bare true", "True/bare", "ns/op", 1e-6, "%.2f ms", 0, true},
	}},
}

// packages runs the suites. A benchmark that did not print its figure is an error:
// its name has changed.
func packages(_, _ string) ([]row, error) {
	var rows []row
	for _, s := range suites {
		var out bytes.Buffer
		cmd := exec.Command("go", "test", "-run", "^$", "-bench", s.bench, "-benchtime", s.time, s.pkg) //nolint:gosec // the suites above
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("benchmarks of %s: %w\n%s", s.pkg, err, out.String())
		}
		printed := figuresOf(out.String())
		for _, f := range s.figures {
			v, ok := printed[f.bench][f.unit]
			if !ok {
				return nil, fmt.Errorf("benchmarks of %s: no figure %s of %s in what was printed", s.pkg, f.unit, f.bench)
			}
			rows = append(rows, f.row(v))
		}
	}
	return rows, nil
}

func (f figure) row(printed float64) row {
	v := printed * f.scale
	r := row{what: f.what, figure: fmt.Sprintf(f.show, v)}
	switch {
	case f.bound == 0: // is there for its neighbour
	case f.atMost:
		r.budget, r.missed = "<= "+fmt.Sprintf(f.show, f.bound), v > f.bound
	default:
		r.budget, r.missed = ">= "+fmt.Sprintf(f.show, f.bound), v < f.bound
	}
	return r
}

var benchLine = regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

// figuresOf reads the lines of benchmarks: names, and figures by their units.
func figuresOf(out string) map[string]map[string]float64 {
	all := map[string]map[string]float64{}
	for _, line := range benchLine.FindAllStringSubmatch(out, -1) {
		figures, fields := map[string]float64{}, strings.Fields(line[2])
		for i := 0; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				figures[fields[i+1]] = v
			}
		}
		all[line[1]] = figures
	}
	return all
}
