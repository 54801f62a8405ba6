package tools

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/broker"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/internal/cases"
)

func TestBashTellsHowTheCommandEnded(t *testing.T) {
	r := newRig(t)
	r.put(t, "f", "")
	for _, c := range []struct {
		command, want string
		fails         bool
	}{
		{"ls", "exit code 0\nstdout:\nf", false},
		{"true", "exit code 0\n(no output)", false},
		{"echo out; echo err >&2; exit 3", "exit code 3\nstdout:\nout\nstderr:\nerr", true},
		{"false | true", "exit code 1\n(no output)", true}, // pipefail
		{"kill -KILL $$", "exit code 137 (SIGKILL)\n(no output)", true},
		{"cat; echo $?", "exit code 0\nstdout:\n0", false}, // no standard input
		{"printf 'a\\n\\n'", "exit code 0\nstdout:\na\n", false},
		{"sleep 1000 & echo x", "exit code 0\n[1 process left running, ended with the command]\nstdout:\nx", false},
		{"no-such-command 2>/dev/null", "exit code 127\n(no output)", true},
	} {
		out := r.run(t, "bash", jsonv.Obj(str("command", c.command)))
		if textOf(out) != c.want || out.IsError != c.fails {
			t.Errorf("%s: error %v\n got %s\nwant %s", c.command, out.IsError, textOf(out), c.want)
		}
	}
	if text := r.refused(t, "bash", str("command", "echo begun; exec sleep 1000"), num("timeout_ms", 200)); text != "exit code 143 (SIGTERM)\n[timed_out: ended after 200 ms]\nstdout:\nbegun" {
		t.Error(text)
	}
	if text := r.refused(t, "bash", str("command", "#"+strings.Repeat("x", 3<<20))); !strings.Contains(text, "longer than the system accepts") {
		t.Error(text)
	}
}

func TestDetailsOfBashAreForPrograms(t *testing.T) {
	r := newRig(t)
	out := r.run(t, "bash", jsonv.Obj(str("command", "printf abc; exit 2")))
	if want := `{"exit_code":2,"signal":null,"timed_out":false,"cancelled":false,"truncated":false,"swept":0,"stdout_bytes":3,"stderr_bytes":0,"replaced_bytes":0}`; out.Details == nil || out.Details.String() != want {
		t.Errorf("got %v", out.Details)
	}
}

func TestACancelledCommandIsToldAsCancelled(t *testing.T) {
	r := newRig(t)
	begun := filepath.Join(r.dir, "begun")
	if err := syscall.Mkfifo(begun, 0o600); err != nil {
		t.Fatal(err)
	}
	at := r.coordinates()
	args := jsonv.Obj(str("command", "echo > begun; exec sleep 1000"))
	bash, _ := r.registry.Lookup("bash")
	permit, err := r.broker.Clear(broker.Call{Coordinates: at, Tool: "bash", Class: bash.Class, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = os.ReadFile(begun)
		r.broker.Abort(at.Op)
	}()
	call := Call{Permit: permit, Coordinates: at, Tool: "bash", Arguments: args}
	out := r.registry.Run(context.WithoutCancel(t.Context()), call)
	if want := "exit code 143 (SIGTERM)\n[cancelled: ended because the operation was aborted]\n(no output)"; !out.IsError || textOf(out) != want {
		t.Errorf("got %s", textOf(out))
	}
	if out := r.registry.Run(t.Context(), call); !out.IsError || !strings.Contains(textOf(out), "aborted") {
		t.Errorf("after the abort: %s", textOf(out))
	}
}

func TestProgressIsShownWhileACommandRuns(t *testing.T) {
	r := newRig(t)
	goOn := filepath.Join(r.dir, "go-on")
	if err := syscall.Mkfifo(goOn, 0o600); err != nil {
		t.Fatal(err)
	}
	var seen []string
	r.observe = func(p Progress) {
		if seen = append(seen, p.Stdout.Text); len(seen) == 1 {
			go func() { _ = os.WriteFile(goOn, nil, 0) }()
		}
	}
	r.ok(t, "bash", str("command", "echo live; cat go-on"))
	if len(seen) == 0 || seen[0] != "live\n" {
		t.Errorf("saw %q", seen)
	}
}

// TestBinaryOutputIsStoredAndShownAsDeclared runs the recorded case of a command
// whose bytes once poisoned a history.
func TestBinaryOutputIsStoredAndShownAsDeclared(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(cases.Dir(t), "bugs", "07.input", "make-output.sh"))
	if err != nil {
		t.Skip("the case is not among the recorded ones: ", err)
	}
	r := newRig(t)
	r.put(t, "make-output.sh", string(script))
	out := r.run(t, "bash", jsonv.Obj(str("command", "bash make-output.sh")))
	refs, err := blob.InDetails(out.Details)
	if err != nil || len(refs) != 1 {
		t.Fatalf("%v, %v", refs, err)
	}
	want := "exit code 0\nstdout: [4 bytes replaced by U+FFFD: NUL or not UTF-8] [36 bytes in all, kept as blob " + refs[0].SHA256 + " (36 bytes)]\n" +
		"ok\uFFFDmid\x1b[31mred\x1b[0m\uFFFD\uFFFD\uFFFD\ufeffbom\rcr\u2028ls"
	if textOf(out) != want {
		t.Errorf("got %q\nwant %q", textOf(out), want)
	}
	blobReader, err := r.blobs.Open(refs[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = blobReader.Close() }()
	raw, err := io.ReadAll(blobReader)
	if err != nil || string(raw) != "ok\x00mid\x1b[31mred\x1b[0m\xff\xfe\x80\xef\xbb\xbfbom\rcr\xe2\x80\xa8ls\n" {
		t.Errorf("kept %q, %v", raw, err)
	}
	// The whole message is a durable text that reads back.
	message := jsonv.Str(textOf(out)).Append(nil)
	if back, err := jsonv.Parse(message); err != nil || !back.Equal(jsonv.Str(want)) {
		t.Errorf("%v", err)
	}
}

func TestLongOutputIsSpilledWithItsEndsInTheText(t *testing.T) {
	r := newRig(t)
	out := r.run(t, "bash", jsonv.Obj(str("command", "seq 1 100000; echo noise >&2")))
	text := textOf(out)
	if len(text) > 2*excerptLimit+1<<10 {
		t.Errorf("%d bytes of text", len(text))
	}
	for _, want := range []string{`^exit code 0\nstdout: \[588895 bytes in all, kept as blob [0-9a-f]{64} \(588895 bytes\)\]\nit begins with:\n1\n2\n`, `\n99999\n100000\nstderr:\nnoise$`} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

func TestEnormousOutputIsBoundedAndSaysWhatIsMissing(t *testing.T) {
	r := newRig(t)
	out := r.run(t, "bash", jsonv.Obj(str("command", "head -c 10000000 /dev/zero | tr '\\0' x")))
	refs, err := blob.InDetails(out.Details)
	if err != nil || len(refs) != 1 || refs[0].Size > 3<<20 {
		t.Fatalf("%v, %v", refs, err)
	}
	if text := textOf(out); !strings.Contains(text, "[truncated: the middle of the output was not kept]\nstdout: [10000000 bytes in all, kept as blob ") {
		t.Errorf("%.300s", text)
	}
}

// The budget of a command that prints 200 MB is 1.5 s and 10 MB.
func BenchmarkBash200MB(b *testing.B) {
	for _, c := range []struct{ name, command string }{
		{"text", "head -c 209715200 /dev/zero | tr '\\0' x"},
		{"binary", "head -c 209715200 /dev/zero"},
		{"both", "head -c 104857600 /dev/zero & head -c 104857600 /dev/zero >&2; wait"},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := newRig(b)
			b.SetBytes(200 << 20)
			for b.Loop() {
				runtime.GC()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				r.ok(b, "bash", str("command", c.command))
				runtime.ReadMemStats(&after)
				// All that was allocated, live or not: an upper bound of the growth.
				b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/1e6, "MB-allocated")
			}
		})
	}
}
