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
// host/print.Exits. A command never ends without saying how it ended; one that
// was asked for JSON says it as JSON, also when it was asked wrongly. The first
// interrupt ends what runs, the second ends the waiting for it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/host/print"
	"github.com/loom-run/loom/machine"
)

// System is what a process is given.
type System struct {
	Args, Environ  []string
	Stdin          *os.File
	Stdout, Stderr io.Writer

	// Retry is how patient runs are; nil is [node.DefaultRetry]. It is for tests,
	// whose providers fail on purpose.
	Retry *machine.RetryPolicy
}

// app is one run of the program.
type app struct {
	sys        System
	interrupts *interrupts
	status     print.Exit
	lines      *lines // what is typed at a terminal; nil: nobody was asked yet
}

// Main runs the command line and returns the exit status.
func Main(sys System) int {
	a := &app{sys: sys, interrupts: listen()}
	defer a.interrupts.stop()
	ended := make(chan print.Exit, 1)
	go func() { ended <- a.execute() }()
	select {
	case exit := <-ended:
		return int(exit)
	case <-a.interrupts.abandoned:
		return int(print.Interrupted)
	}
}

func (a *app) execute() print.Exit {
	root := a.root()
	root.SetArgs(a.sys.Args)
	root.SetOut(a.sys.Stdout)
	root.SetErr(a.sys.Stderr)
	if err := root.ExecuteContext(a.interrupts.asked); err != nil {
		p := a.printer(askedFormat(a.sys.Args))
		if errors.Is(err, errInterrupted) {
			return p.Refuse(print.Interrupted, codeInterrupted, err.Error())
		}
		return p.Refuse(print.BadUsage, "bad_usage", err.Error())
	}
	return a.status
}

func (a *app) root() *cobra.Command {
	cobra.EnableCommandSorting = false // what is used first stands first
	var o runOptions
	var asPrint bool
	root := &cobra.Command{
		Use:   "loom [-p PROMPT]",
		Short: "A coding agent whose sessions cannot be lost",
		Long: "Loom is a coding agent whose sessions cannot be lost, corrupted or silently repeated.\n" +
			"It works in the current directory with the model of your choice; without a key it answers with a built-in demo.",
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,

		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if asPrint {
				return a.run(cmd.Context(), o, args)
			}
			if len(args) > 0 {
				return fmt.Errorf("there is no command %q; `loom run PROMPT` runs a prompt, and `loom --help` lists the commands", args[0])
			}
			return cmd.Help()
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; nothing was started, `%s --help` lists the options", err, cmd.CommandPath())
	})
	root.Flags().SortFlags = false
	root.Flags().BoolVarP(&asPrint, "print", "p", false, "run PROMPT and print the answer, as loom run does")
	o.flags(root)
	root.AddCommand(a.runCommand(), a.resumeCommand(), a.approvalsCommand(), a.approveCommand(), a.denyCommand(), a.answerCommand(), a.forkCommand(), a.rewindCommand(), a.sessionsCommand(), a.searchCommand(), a.checkCommand(), a.doctorCommand(), a.eraseCommand(), a.peersCommand(), a.costCommand(), a.modelsCommand(), a.permissionsCommand(), a.versionCommand())
	return root
}

// printer prints the result of one command.
func (a *app) printer(f print.Format) *print.Printer {
	return print.New(print.Options{
		Format: f, Live: terminal(a.sys.Stdout), Stdout: a.sys.Stdout, Stderr: a.sys.Stderr, Now: now,
	})
}

// terminal reports whether text that is written to w is read while it comes.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
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

// maxNote bounds a message to a person, in bytes.
const maxNote = 4096

// note tells a person something beside the answer.
func (a *app) note(text string) {
	_, _ = fmt.Fprintln(a.sys.Stderr, "loom: "+say.Line(text, maxNote)) // who closed it does not want to know
}

// with runs a verb that prints no run. f gets a page for its answer.
func (a *app) with(ctx context.Context, f func(context.Context, *link, *page) error) error {
	p := a.printer(print.Text)
	l, err := a.connect(a.still())
	if err != nil {
		a.status = p.Fail(err)
		return nil
	}
	defer a.hangUp(l)
	out := &page{w: a.sys.Stdout}
	err = f(ctx, l, out)
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		a.status = p.Refuse(print.Interrupted, codeInterrupted, errInterrupted.Error())
	case err != nil:
		a.status = p.Fail(err)
	case out.err != nil:
		a.status = p.Refuse(print.OutputLost, "output_lost", fmt.Sprintf("standard output could not be written (%v); nothing was changed", out.err))
	}
	return nil
}

// page is the standard output of a verb that prints no run. It stops at its first
// error.
type page struct {
	w   io.Writer
	err error
}

// text writes untrusted text whole, as lines of its own.
func (p *page) text(text string) { p.raw(say.All(strings.TrimSuffix(text, "\n")) + "\n") }

// table writes rows of columns, each as wide as it needs to be. What is untrusted in
// it is made harmless.
func (p *page) table(rows [][]string) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				_, _ = w.Write([]byte{'\t'})
			}
			_, _ = w.Write([]byte(say.Line(cell, maxColumn)))
		}
		_, _ = w.Write([]byte{'\n'})
	}
	_ = w.Flush() // a strings.Builder takes everything
	for line := range strings.Lines(text.String()) {
		p.text(strings.TrimRight(line, " \n"))
	}
}

// json writes a JSON document, or a part of one.
func (p *page) json(text []byte) { p.raw(string(say.JSON(text))) }

func (p *page) raw(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, text)
	}
}
