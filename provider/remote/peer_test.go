package remote_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/internal/cases"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/openaichat"
)

// startPeer builds and runs the scripted server that lies beside the recorded cases, and returns its base URL.
func startPeer(t *testing.T) string {
	t.Helper()
	source := filepath.Join(filepath.Dir(cases.Dir(t)), "mock-llm")
	if _, err := os.Stat(filepath.Join(source, "main.go")); err != nil {
		t.Skip("no scripted server: there is no mock-llm beside the recorded cases")
	}
	program := filepath.Join(t.TempDir(), "peer")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the scripted server: %v\n%s", err, out)
	}
	address := freeAddress(t)
	ctx, cancel := context.WithCancel(context.Background())
	server := exec.CommandContext(ctx, program, "-addr", address, "-file", "hello.txt", "-final", "It says hello.")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = server.Wait() // it was killed
	})
	awaitListener(t, address)
	return "http://" + address + "/v1"
}

// awaitListener returns when the address takes connections.
func awaitListener(t *testing.T, address string) {
	t.Helper()
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	late := time.After(30 * time.Second)
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-retry.C:
		case <-late:
			t.Fatalf("nobody listens on %s: %v", address, err)
		}
	}
}

func TestATurnWithAToolAgainstAServerOfAnotherHand(t *testing.T) {
	c := client(t, startPeer(t))
	schema, err := jsonv.ParseString(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)
	if err != nil {
		t.Fatal(err)
	}
	req := asking("what does the file say?")
	req.Tools = []provider.Tool{{Name: "read", Description: "reads a file", Schema: schema}}

	asked, err := c.Stream(t.Context(), req, func(provider.Delta) {})
	if err != nil {
		t.Fatal(err)
	}
	calls, _ := asked.ToolCalls()
	if asked.StopReason != message.ToolUse || len(calls) != 1 || calls[0].Name != "read" || calls[0].Arguments.String() != `{"path":"hello.txt"}` {
		t.Fatalf("got %+v", asked)
	}
	if u := asked.Usage; u.Input != 200 || u.CacheRead != 1000 || u.Output != 40 || u.TotalTokens != 1240 {
		t.Errorf("usage %+v", u)
	}

	req.Messages = append(req.Messages, asked, &message.ToolResult{
		ToolCallID: calls[0].ID, ToolName: "read", Content: []message.ResultBlock{message.Text{Text: "hello"}},
	})
	var drawn strings.Builder
	answered, err := c.Stream(t.Context(), req, func(d provider.Delta) { drawn.WriteString(d.(provider.TextDelta).Text) })
	if err != nil {
		t.Fatal(err)
	}
	if answered.StopReason != message.Stop || message.TextOf(answered.Content) != "It says hello." || drawn.String() != "It says hello." {
		t.Errorf("got %+v, drawn %q", answered, drawn.String())
	}
	if answered.API != openaichat.API || answered.ResponseID == nil {
		t.Errorf("got %+v", answered)
	}
}
