package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// browser measures the client runtime as a page would load it: its size, and how long it
// takes under Node from its start to the end of a recorded run, beside a Node that does nothing.
func browser(_, tmp string) ([]row, error) {
	program := filepath.Join(tmp, "watch.wasm")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./internal/portable/watch")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building for js/wasm: %w\n%s", err, out)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, _ = w.Write(text) // a bytes.Buffer takes everything
	_ = w.Close()
	rows := []row{{"client runtime as wasm, packed", fmt.Sprintf("%.1f MiB (%.1f MiB)", mib(len(text)), mib(packed.Len())), "", false}}
	if _, err := exec.LookPath("node"); err != nil {
		return append(rows, row{"  its start in Node", "no node here", "", false}), nil
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	recording, err := os.ReadFile(filepath.Join("client", "testdata", "runs", "agents.jsonl"))
	if err != nil {
		return nil, err
	}
	var starts, nothing []time.Duration
	for range runs {
		node := exec.Command("node", filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec_node.js"), program)
		node.Env, node.Stdin = []string{"PATH=" + os.Getenv("PATH")}, bytes.NewReader(recording)
		u, err := once(node)
		if err != nil {
			return nil, err
		}
		starts = append(starts, u.wall)
		if u, err = once(exec.Command("node", "-e", "0")); err != nil {
			return nil, err
		}
		nothing = append(nothing, u.wall)
	}
	return append(rows, row{"  a recorded run in Node", spread(starts), "", false}, row{"  a Node that does nothing, same run", spread(nothing), "", false}), nil
}

func mib(n int) float64 { return float64(n) / (1 << 20) }
