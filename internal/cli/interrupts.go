package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// interrupts is what a person can say with Ctrl-C. The first asks the run to end,
// and its end is waited for and printed. The second gives up the waiting: what is
// known is printed. The third, or a second that something still holds up, ends
// the process as it is, which a session survives.
type interrupts struct {
	asked     context.Context
	givenUp   context.Context
	abandoned <-chan struct{}
	stop      func()
}

// errInterrupted is an interrupt before anything was started.
var errInterrupted = errors.New("interrupted; nothing was changed")

const codeInterrupted = "interrupted"

// lastGrace is how long a command that was given up may take to print what it
// knows. A reader that takes nothing from a pipe can hold it up for ever.
const lastGrace = time.Second

// listen takes the signals that a person or a system ends programs with, unless
// whoever started this process has them ignored: so do shells for what runs in
// the background, and nohup.
//
// A closed standard output is made an error of a write instead of the end of the
// process: the run goes on and its end is told. The signal is caught and not
// ignored, because commands would inherit that.
func listen() *interrupts {
	asked, ask := context.WithCancel(context.Background())
	givenUp, giveUp := context.WithCancel(context.Background())
	abandoned := make(chan struct{})
	signals := make(chan os.Signal, 4)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		defer close(abandoned)
		var late <-chan time.Time
		for _, next := range []func(){ask, func() { giveUp(); late = time.After(lastGrace) }, func() {}} {
			select {
			case <-signals:
				next()
			case <-late:
				return
			case <-done:
				return
			}
		}
	}()
	return &interrupts{asked, givenUp, abandoned, func() {
		signal.Stop(signals)
		signal.Stop(pipes)
		close(done)
		ask()
		giveUp()
	}}
}
