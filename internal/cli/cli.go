// Package cli is the verbs of the command line.
//
// # Purpose
//
// Parse, call the server through the wire, print. Every verb speaks to a handler
// over a listener in its own process, with the bytes that a remote client would
// send.
//
// # Key types
//
// [System] is what the operating system gives a process; [Main] runs a command
// and returns its exit status.
//
// # Relationships
//
// Imports node for the handler, wire/wireclient, client and host/print for the
// client side, and cobra.
//
// # Traffic
//
// Standard streams, signals; everything else through node.
//
// # Invariants
//
// The answer is on standard output and everything else on standard error. What
// people see has gone through client/say. Exit statuses are those of
// host/print.Exits. A command never ends without saying how it ended.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/host/print"
)

// System is what a process is given.
type System struct {
	Args, Environ  []string
	Stdin          *os.File
	Stdout, Stderr io.Writer
}

// app is one run of the program.
type app struct {
	sys    System
	status print.Exit
	giveUp chan struct{} // closed by the second interrupt
}

// Main runs the command line and returns the exit status.
func Main(sys System) int {
	a := &app{sys: sys, giveUp: make(chan struct{})}
	ctx, stop := a.signals()
	defer stop()
	root := a.root()
	root.SetArgs(sys.Args)
	root.SetOut(sys.Stdout)
	root.SetErr(sys.Stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		a.status = print.BadUsage
		a.complain(err.Error() + "\nRun `loom --help` for the commands and their options.")
	}
	return int(a.status)
}

// signals ends the context at the first interrupt and gives up waiting at the
// second. A closed standard output is an error of a write, not the end of the
// process: the run goes on and is told. (The signal is caught rather than
// ignored, because commands would inherit that.)
func (a *app) signals() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	interrupts := make(chan os.Signal, 4)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		first := true
		for {
			select {
			case <-interrupts:
				if first {
					first = false
					cancel()
				} else {
					select {
					case <-a.giveUp:
					default:
						close(a.giveUp)
					}
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(interrupts)
		signal.Stop(pipes)
		close(done)
		cancel()
	}
}

func (a *app) root() *cobra.Command {
	var o runOptions
	var asPrint bool
	root := &cobra.Command{
		Use:   "loom",
		Short: "A coding agent whose sessions cannot be lost",
		Long: "Loom is a coding agent whose sessions cannot be lost, corrupted or silently repeated.\n" +
			"It works in the current directory with the model of your choice; without a key it answers with a built-in demo.",
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !asPrint {
				if len(args) > 0 {
					return fmt.Errorf("there is no command %q", args[0])
				}
				return cmd.Help()
			}
			return a.run(cmd.Context(), o, args)
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return err })
	root.Flags().BoolVarP(&asPrint, "print", "p", false, "run PROMPT and print the answer, like `loom run`")
	o.flags(root)
	root.AddCommand(a.runCommand(), a.sessionsCommand(), a.resumeCommand(), a.checkCommand(), a.versionCommand())
	return root
}

// env reads the environment that the process was given.
func (a *app) env(name string) string {
	for _, e := range a.sys.Environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

func now() int64 { return time.Now().UnixMilli() }

// maxComplaint bounds a message to a person, in bytes.
const maxComplaint = 4096

// complain tells a person what went wrong.
func (a *app) complain(text string) {
	_, _ = fmt.Fprintln(a.sys.Stderr, "loom: "+say.Clean(text, maxComplaint))
}

// note tells a person something beside the answer.
func (a *app) note(text string) { a.complain(text) }

// errPromptTooLarge is an input beyond what a request may carry.
var errPromptTooLarge = errors.New("the prompt is larger than 48 MiB; nothing was started, put the text into a file and name it in the prompt")
