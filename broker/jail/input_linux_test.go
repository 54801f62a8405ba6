package jail

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
)

func TestACommandReadsWhatItIsGiven(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 64<<10)
	for name, c := range map[string]struct {
		script string
		input  io.Reader
		want   string
	}{
		"nothing":                {"cat; echo end", nil, "end\n"},
		"some lines":             {"read a; read b; echo $b$a", strings.NewReader("x\ny\n"), "yx\n"},
		"more than a pipe holds": {"wc -c | tr -d ' '", strings.NewReader(long), "1048576\n"},
		"what it does not read":  {"echo done", strings.NewReader(long), "done\n"},
	} {
		cmd := shell(t.TempDir(), c.script)
		cmd.Input = c.input
		exit, err := Run(patient(t), cmd, nil)
		if err != nil || exit.Code != 0 || string(exit.Stdout.Head()) != c.want {
			t.Errorf("%s: %q, %d, %v", name, exit.Stdout.Head(), exit.Code, err)
		}
	}
}

func TestACommandWaitsForInputThatComesLater(t *testing.T) {
	r, w := io.Pipe()
	dir := t.TempDir()
	ready := fifo(t, dir, "ready")
	cmd := shell(dir, "echo > "+ready+"; read a; echo got $a; read b; echo end $?")
	cmd.Input = r
	ended := make(chan string, 1)
	go func() {
		exit, err := Run(context.WithoutCancel(t.Context()), cmd, nil)
		if err != nil {
			ended <- err.Error()
			return
		}
		ended <- string(exit.Stdout.Head())
	}()
	if _, err := os.ReadFile(ready); err != nil { // returns once the command wrote
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "one\n"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got != "got one\nend 1\n" {
		t.Errorf("it printed %q", got)
	}
}
