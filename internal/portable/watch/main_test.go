package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestTheRuntimeIsTheSameInTheWasmBuild has both builds read the recorded runs.
func TestTheRuntimeIsTheSameInTheWasmBuild(t *testing.T) {
	if runtime.GOOS == "js" {
		t.Skip("this is the js/wasm build; the native one compares")
	}
	if testing.Short() {
		t.Skip("compiles a program for js/wasm")
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed")
	}
	program := filepath.Join(t.TempDir(), "watch.wasm")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	runs, err := filepath.Glob("../../../client/testdata/runs/*.jsonl")
	if err != nil || len(runs) == 0 {
		t.Fatalf("no recorded runs, %v", err)
	}
	for _, path := range runs {
		recording, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if err := watch(bytes.NewReader(recording), &want); err != nil {
			t.Fatal(err)
		}
		node := exec.CommandContext(t.Context(), "node", filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec_node.js"), program)
		node.Env = []string{"PATH=" + os.Getenv("PATH")} // js/wasm bounds the environment to a few KiB
		node.Stdin = bytes.NewReader(recording)
		got, err := node.Output()
		if err != nil || want.Len() == 0 || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s: %d bytes under node and %d natively, %v", filepath.Base(path), len(got), want.Len(), err)
		}
	}
}
