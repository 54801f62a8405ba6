package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/host/print"
	"github.com/loom-run/loom/provider/catalogue"
	"github.com/loom-run/loom/wire"
)

// runOptions are the options of `loom run` and `loom -p`.
type runOptions struct {
	model, session, mode, format, cwd string
	again                             bool
	maxTurns                          int64
}

func (o *runOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.model, "model", "m", "", "model: a name of the list, openai/ID, or demo (default: the list's default with a key, else demo)")
	f.StringVar(&o.session, "session", "", "go on with the session of this id, or of an id that starts like this")
	f.BoolVarP(&o.again, "continue", "c", false, "go on with the session last used in this directory")
	f.StringVar(&o.mode, "permission-mode", "", "default: read only; acceptEdits: write files here too; bypassPermissions: everything")
	f.StringVar(&o.format, "output-format", "text", "text or json")
	f.StringVar(&o.cwd, "cwd", "", "work in this directory")
	f.Int64Var(&o.maxTurns, "max-turns", 0, "end the run after this many model requests")
}

func (a *app) runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run PROMPT",
		Short: "Run a prompt in the current directory and print the answer",
		Long: "Run a prompt in the current directory and print the answer.\n" +
			"Text from a pipe or a file on standard input is appended to the prompt.\n" +
			"The session is kept: --continue goes on with it, and an interrupted run is finished first.",
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), o, args) },
	}
	o.flags(cmd)
	return cmd
}

// run is the main job.
func (a *app) run(ctx context.Context, o runOptions, args []string) error {
	request, err := o.read(a.sys.Stdin, args)
	if err != nil {
		return err
	}
	printer := print.New(print.Options{
		Format: o.printed(), Live: terminal(a.sys.Stdout), Stdout: a.sys.Stdout, Stderr: a.sys.Stderr, Now: now,
	})
	l, err := a.connect()
	if err != nil {
		a.status = printer.Refuse(print.Unreadable, "no_state_root", err.Error())
		return nil
	}
	a.status = a.converse(ctx, l, o, request, printer)
	return a.hangUp(l)
}

// hangUp closes the sessions. What was answered stands; a lease that could not be
// given back is told.
func (a *app) hangUp(l *link) error {
	if err := l.close(); err != nil {
		a.complain("the session was not closed cleanly: " + err.Error() + "; it keeps everything that was committed")
	}
	return nil
}

// read checks the options and puts the prompt together.
func (o *runOptions) read(stdin *os.File, args []string) (wire.Prompt, error) {
	if o.format != "text" && o.format != "json" {
		return wire.Prompt{}, fmt.Errorf("--output-format is text or json, not %q", o.format)
	}
	if o.maxTurns < 0 {
		return wire.Prompt{}, fmt.Errorf("--max-turns is a positive number, not %d", o.maxTurns)
	}
	if o.again && o.session != "" {
		return wire.Prompt{}, errors.New("--continue and --session exclude each other")
	}
	q := wire.Prompt{}
	if o.mode != "" {
		mode, ok := wire.ParsePermissionMode(o.mode)
		if !ok {
			return wire.Prompt{}, fmt.Errorf("--permission-mode is default, acceptEdits or bypassPermissions, not %q", o.mode)
		}
		q.PermissionMode = &mode
	}
	if o.maxTurns > 0 {
		q.MaxTurns = &o.maxTurns
	}
	piped, err := piped(stdin)
	if err != nil {
		return wire.Prompt{}, err
	}
	parts := append([]string(nil), strings.Join(args, " "), piped)
	q.Text = strings.TrimSpace(strings.Join(parts, "\n\n"))
	if q.Text == "" {
		return wire.Prompt{}, errors.New("there is no prompt: give it as an argument or on standard input")
	}
	if len(q.Text) > maxPrompt {
		return wire.Prompt{}, errPromptTooLarge
	}
	return q, nil
}

// maxPrompt leaves room for the escapes of a request body of 64 MiB.
const maxPrompt = 48 << 20

// piped reads a pipe or a file on standard input. Anything else (a terminal, the
// null device, a socket somebody left open) has no text to append.
func piped(stdin *os.File) (string, error) {
	if stdin == nil {
		return "", nil
	}
	st, err := stdin.Stat()
	if err != nil || st.Mode()&os.ModeNamedPipe == 0 && !st.Mode().IsRegular() {
		return "", nil //nolint:nilerr // a closed standard input has no text
	}
	text, err := io.ReadAll(io.LimitReader(stdin, maxPrompt+1))
	if err != nil {
		return "", fmt.Errorf("standard input cannot be read: %w; nothing was started", err)
	}
	if len(text) > maxPrompt {
		return "", errPromptTooLarge
	}
	return strings.ToValidUTF8(string(text), "\uFFFD"), nil
}

func (o *runOptions) printed() print.Format {
	if o.format == "json" {
		return print.JSON
	}
	return print.Text
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// converse finds or makes the session, prompts it and prints what comes.
func (a *app) converse(ctx context.Context, l *link, o runOptions, q wire.Prompt, printer *print.Printer) print.Exit {
	s, err := a.choose(ctx, l, o, &q)
	if err != nil {
		return printer.Fail(err)
	}
	printer.Session(s)
	stream, err := l.Attach(ctx, s, wire.FromHead())
	if err != nil {
		return printer.Fail(err)
	}
	defer stream.Close()
	receipt, err := l.Prompt(ctx, s, q)
	if err != nil {
		return printer.Fail(err)
	}
	if receipt.Operation.IsZero() {
		return printer.Refuse(print.Stopped, "queued", "the prompt is kept and waits for the next run of the session: the open one is being aborted")
	}
	if receipt.Status == wire.Queued {
		a.note("an interrupted run goes on first; the prompt is kept and follows it")
	}
	return a.follow(ctx, l, printer, s, receipt.Operation, stream.Frames)
}

// choose returns the session to prompt, made anew if none was named.
func (a *app) choose(ctx context.Context, l *link, o runOptions, q *wire.Prompt) (id.SessionID, error) {
	cwd, err := workspace(o.cwd)
	if err != nil {
		return id.SessionID{}, err
	}
	if o.session != "" || o.again {
		if o.model != "" {
			q.Model = &o.model
		}
		if o.session != "" {
			return l.find(ctx, o.session)
		}
		return l.newest(ctx, cwd)
	}
	create := wire.CreateSession{Cwd: cwd, PermissionMode: wire.ModeDefault}
	if o.model != "" {
		create.Model = &o.model
	} else if choice, err := catalogue.Resolve("", a.env); err == nil && choice.Reason == catalogue.NoKey {
		a.note("no " + catalogue.KeyVariable + " is set, so the built-in demo answers: fixed rules, not a language model")
	}
	if q.PermissionMode != nil {
		create.PermissionMode = *q.PermissionMode
	}
	made, err := l.Create(ctx, create)
	return made.Session, err
}

// workspace is the directory to work in, without symbolic links, so that the same
// place is the same session whatever way led to it.
func workspace(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("the current directory is gone: %w; nothing was started", err)
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real, nil
	}
	return abs, nil // the server says what is wrong with it
}

// abortWait bounds how long the end of an aborted run is waited for: commands get
// two seconds to end by themselves.
const abortWait = 15 * time.Second

// follow prints one run to its end.
func (a *app) follow(ctx context.Context, l *link, printer *print.Printer, s id.SessionID, op id.OpID, src client.Source) print.Exit {
	return printer.Follow(ctx, plane.Watch{Session: s, Strand: mainStrand, Operation: op}, src, client.Ports{
		Timer: func(d time.Duration) (<-chan time.Time, func()) {
			t := time.NewTimer(d)
			return t.C, func() { t.Stop() }
		},
		Coalesce: 16 * time.Millisecond,
		Abort: func(ctx context.Context) error {
			_, err := l.Abort(ctx, s, wire.Abort{})
			return err
		},
		AbortWait: abortWait,
		GiveUp:    a.giveUp,
	})
}

// mainStrand is the strand that a person talks to.
const mainStrand = "main"
