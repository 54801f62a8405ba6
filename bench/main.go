// Command bench measures whole processes against the budgets of the design and
// prints the table. It is run by `make bench`; `make peers` has it compare with another
// agent instead, which npm installs.
//
// # Purpose
//
// A budget is a promise about what a person waits for: a process from its start to
// its exit, with its memory. Ratios are taken inside one run, interleaved, because
// absolute times differ from machine to machine and from hour to hour.
//
// # Key types
//
// None: rows are functions that return a figure and its budget.
//
// # Relationships
//
// Uses the built binary like anybody would; imports nothing of the module.
//
// # Traffic
//
// Serves a scripted model on loopback; starts child processes.
//
// # Invariants
//
// Prints what it measured, and marks what misses its budget; it never fails for a
// slow machine.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const runs = 21

func main() {
	if len(os.Args) == 3 && os.Args[1] == "bare" {
		bare(os.Args[2])
		return
	}
	tables := []func(loom, tmp string) ([]row, error){size, version, headless, browser, packages}
	if len(os.Args) == 2 && os.Args[1] == "peers" {
		tables = []func(loom, tmp string) ([]row, error){peers}
	}
	err := measure(tables)
	if errors.Is(err, errNoPeer) {
		fmt.Println("peers: skipped:", err)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// row is one line of the table.
type row struct {
	what, figure, budget string
	missed               bool
}

func measure(tables []func(loom, tmp string) ([]row, error)) error {
	tmp, err := os.MkdirTemp("", "loom-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // it is a temporary folder
	loom := filepath.Join(tmp, "loom")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", loom, "./cmd/loom")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building loom: %w", err)
	}
	var rows []row
	for _, f := range tables {
		r, err := f(loom, tmp)
		if err != nil {
			return err
		}
		rows = append(rows, r...)
	}
	fmt.Printf("%-48s %-42s %s\n", "what", "today", "budget")
	for _, r := range rows {
		mark := ""
		if r.missed {
			mark = "  MISSED"
		}
		fmt.Printf("%-48s %-42s %s%s\n", r.what, r.figure, r.budget, mark)
	}
	return nil
}

func size(loom, _ string) ([]row, error) {
	st, err := os.Stat(loom)
	if err != nil {
		return nil, err
	}
	mib := float64(st.Size()) / (1 << 20)
	return []row{{"binary, stripped", fmt.Sprintf("%.1f MiB", mib), "<= 30 MB", st.Size() > 30_000_000}}, nil
}

func version(loom, _ string) ([]row, error) {
	var times []time.Duration
	for range runs {
		u, err := once(exec.Command(loom, "version"))
		if err != nil {
			return nil, err
		}
		times = append(times, u.wall)
	}
	m := median(times)
	return []row{{"loom version", spread(times), "<= 8 ms", m > 8*time.Millisecond}}, nil
}

// headless times a turn with one tool call, and beside it a bare client that sends the
// same two requests: what a process must cost. The budget is a part of pi's time, which
// peers compares with.
func headless(loom, tmp string) ([]row, error) {
	srv := httptest.NewServer(http.HandlerFunc(scripted))
	defer srv.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	work := filepath.Join(tmp, "work")
	if err := os.MkdirAll(work, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(work, "hello.txt"), []byte("hello from the bench workspace\n"), 0o600); err != nil {
		return nil, err
	}
	var turns, bares []time.Duration
	var peak int64
	for range runs {
		u, err := once(exec.Command(self, "bare", srv.URL))
		if err != nil {
			return nil, fmt.Errorf("bare client: %w", err)
		}
		bares = append(bares, u.wall)
		run := exec.Command(loom, "run", "--model", "openai/scripted", "what does hello.txt say?")
		run.Dir = work
		run.Env = append(os.Environ(), "LOOM_HOME="+filepath.Join(tmp, "home"), "OPENAI_API_KEY=bench", "OPENAI_BASE_URL="+srv.URL+"/v1")
		if u, err = once(run); err != nil {
			return nil, fmt.Errorf("headless turn: %w", err)
		}
		turns = append(turns, u.wall)
		peak = max(peak, u.peakKiB)
	}
	ratio := float64(median(turns)) / float64(median(bares))
	return []row{
		{"headless turn, one tool call, loopback model", spread(turns), "", false},
		{"  a bare client, same requests, same run", spread(bares), "", false},
		{"  turn / bare", fmt.Sprintf("%.1f", ratio), "", false},
		{"  peak memory of the turn", fmt.Sprintf("%.1f MiB", float64(peak)/1024), "<= 40 MB", peak > 40_000},
	}, nil
}

type usage struct {
	wall    time.Duration
	peakKiB int64
}

func once(cmd *exec.Cmd) (usage, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	err := cmd.Run()
	u := usage{wall: time.Since(start)}
	if err != nil {
		return u, fmt.Errorf("%w\n%s", err, out.String())
	}
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.peakKiB = r.Maxrss
	}
	return u, nil
}

func median(d []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return s[len(s)/2]
}

func spread(d []time.Duration) string {
	s := slices.Sorted(slices.Values(d))
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return fmt.Sprintf("%.1f ms (%.1f to %.1f)", ms(s[len(s)/2]), ms(s[0]), ms(s[len(s)-1]))
}
