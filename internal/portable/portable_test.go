package portable_test

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/internal/portable"
)

var update = flag.Bool("update", false, "rewrite the recorded results under testdata")

// recording is every golden text of the codecs, a generated conversation, and a tree of branches.
func recording(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	add := func(kind, file string) {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "{") {
				fmt.Fprintf(&b, "%s %s\n", kind, line)
			}
		}
	}
	add("entry", "core/entry/testdata/entry.jsonl")
	add("usage_row", "core/entry/testdata/usage_row.jsonl")
	add("message", "core/message/testdata/message.jsonl")
	add("usage", "core/usage/testdata/usage.jsonl")
	for _, ns := range []string{"op.meta", "op.state", "op.preparation", "strand.config", "strand.state", "strand.last_result", "pending.entry"} {
		add(ns, "machine/testdata/codec/"+ns+".txt")
	}
	for _, e := range append(coretest.Transcript(7, 20_000), branches()...) {
		fmt.Fprintf(&b, "entry %s\n", entry.Encode(e))
	}
	b.WriteString("strand.leaf null\nstrand.leaf 7\nfact.custom [1e400]\nno.namespace {}\nentry [\n")
	return b.String()
}

// branches is a tree in which a fork cuts a call from its result, and branches part above and below a compaction.
func branches() (rows []entry.Entry) {
	ids := id.NewGenerator(clock.Stepping(1767225800000, 10), 3)
	grow := func(parent id.EntryID, body entry.Body) id.EntryID {
		e := entry.Entry{Parent: parent, Seq: int64(100 + len(rows)), Timestamp: 9, Body: body}
		e.ID, ids = ids.Entry()
		rows = append(rows, e)
		return e.ID
	}
	said := func(text string) entry.Body {
		return entry.Message{Message: &message.User{Content: []message.UserBlock{message.Text{Text: text}}}}
	}
	calls := entry.Message{Message: &message.Assistant{StopReason: message.ToolUse, Content: []message.AssistantBlock{
		message.ToolCall{ID: "c1", Name: "read"}, message.ToolCall{ID: "c2", Name: "bash"}}}}
	root := grow(id.EntryID{}, said("first"))
	asked := grow(root, calls)
	answered := grow(asked, entry.Message{Message: &message.ToolResult{ToolCallID: "c1", ToolName: "read"}})
	grow(asked, said("cut off"))
	noted := grow(answered, entry.Custom{Type: "note"})
	compacted := grow(noted, entry.Compaction{Summary: "so far", RetainedTail: []message.Message{calls.Message}, TokensBefore: 9})
	grow(grow(noted, said("above")), entry.Message{Message: &message.Assistant{StopReason: message.Aborted}})
	grow(grow(compacted, said("below")), entry.BranchSummary{FromID: noted, Summary: "left"})
	return rows
}

func printed(lines []portable.Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Name + "\t" + l.Text + "\n")
	}
	return b.String()
}

// TestResultsAreThoseOfTheLastRelease also runs in the js/wasm build. A long text stands in the recording as its length and digest.
func TestResultsAreThoseOfTheLastRelease(t *testing.T) {
	var golden bytes.Buffer
	for _, l := range portable.Results(recording(t)) {
		text := l.Text
		if len(text) > 120 {
			sum := sha256.Sum256([]byte(text))
			text = fmt.Sprintf("%d bytes, %x", len(text), sum[:6])
		}
		golden.WriteString(l.Name + "\t" + strconv.QuoteToGraphic(text) + "\n")
	}
	coretest.Golden(t, "results.txt", golden.Bytes(), *update)
}

func TestResultsReachEveryDecision(t *testing.T) {
	all := strings.ReplaceAll(printed(portable.Results(recording(t))), "\t", " ")
	for _, want := range []string{" transition to ", " dispatch generation ", " dispatch call ", " await admission ", " await response ", " await clearance ",
		" await calls ", " wait until ", " finish with ", " fault: ", "; inserts ", "; bills ", "; sets ", "; deletes ", "; expects ", " corrupt: ", "severed", "so far"} {
		if !strings.Contains(all, want) {
			t.Errorf("no result says %q", want)
		}
	}
	if strings.Contains(all, " no action") || strings.Contains(all, "dispatch nothing") {
		t.Error("an action has no words")
	}
}

func TestTheWasmBuildHasTheSameResults(t *testing.T) {
	if runtime.GOOS == "js" {
		t.Skip("this is the js/wasm build; the native one compares")
	}
	if testing.Short() {
		t.Skip("compiles a program for js/wasm")
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed")
	}
	program := filepath.Join(t.TempDir(), "print.wasm")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./print")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	text := recording(t)
	node := exec.CommandContext(t.Context(), "node", filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec_node.js"), program)
	node.Env = []string{"PATH=" + os.Getenv("PATH")} // js/wasm bounds the environment to a few KiB
	node.Stdin = strings.NewReader(text)
	var complaints bytes.Buffer
	node.Stderr = &complaints
	got, err := node.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, complaints.Bytes())
	}
	want := printed(portable.Results(text))
	if string(got) == want {
		return
	}
	theirs, ours := strings.Split(string(got), "\n"), strings.Split(want, "\n")
	for i := range min(len(theirs), len(ours)) {
		if theirs[i] != ours[i] {
			t.Fatalf("result %d under node is\n%s\nand natively\n%s", i, theirs[i], ours[i])
		}
	}
	t.Fatalf("%d results under node, %d natively", len(theirs), len(ours))
}
