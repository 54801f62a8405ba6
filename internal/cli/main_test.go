package cli_test

import (
	"flag"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/internal/cli"
	"github.com/loom-run/loom/machine"
)

var update = flag.Bool("update", false, "rewrite the generated documents and transcripts; review them as a diff")

// TestMain makes this binary the program too: scripts and tests start it as `loom`,
// a process of its own, with the same first call as the real one.
func TestMain(m *testing.M) {
	jail.Enter()
	testscript.Main(suite{m}, map[string]func(){
		"loom": func() {
			os.Exit(cli.Main(cli.System{
				Args: os.Args[1:], Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
				Retry: &machine.RetryPolicy{MaxAttempts: new(int64(attempts)), BaseDelayMs: 1, MaxDelayMs: 2},
			}))
		},
	})
}

// suite runs the tests with the ordinary meaning of signals for the processes that
// they start, also when whoever started the tests (nohup, a shell without job
// control) has them ignored: a signal that is caught here is reset in a child.
type suite struct{ *testing.M }

// Run implements testscript.TestingM.
func (s suite) Run() int {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-caught
		os.Exit(1)
	}()
	return s.M.Run()
}

// attempts is how often the program of the tests asks a provider that fails.
const attempts = 3
