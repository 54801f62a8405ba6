package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/host/print"
	"github.com/loom-run/loom/wire"
)

func (a *app) resumeCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "resume ID",
		Short: "Finish the interrupted run of a session",
		Long: "Finish the interrupted run of a session.\n" +
			"The permission mode is not kept: without --permission-mode the rest of the run may only read.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.resume(cmd.Context(), o, args[0]) },
	}
	cmd.Flags().StringVar(&o.mode, "permission-mode", "", "default, acceptEdits or bypassPermissions")
	cmd.Flags().StringVar(&o.format, "output-format", "text", "text or json")
	return cmd
}

func (a *app) resume(ctx context.Context, o runOptions, text string) error {
	if o.format != "text" && o.format != "json" {
		return fmt.Errorf("--output-format is text or json, not %q", o.format)
	}
	var q wire.Resume
	if o.mode != "" {
		mode, ok := wire.ParsePermissionMode(o.mode)
		if !ok {
			return fmt.Errorf("--permission-mode is default, acceptEdits or bypassPermissions, not %q", o.mode)
		}
		q.PermissionMode = &mode
	}
	printer := print.New(print.Options{
		Format: o.printed(), Live: terminal(a.sys.Stdout), Stdout: a.sys.Stdout, Stderr: a.sys.Stderr, Now: now,
	})
	l, err := a.connect()
	if err != nil {
		a.status = printer.Refuse(print.Unreadable, "no_state_root", err.Error())
		return nil
	}
	a.status = a.finish(ctx, l, text, q, printer)
	return a.hangUp(l)
}

func (a *app) finish(ctx context.Context, l *link, text string, q wire.Resume, printer *print.Printer) print.Exit {
	s, err := l.find(ctx, text)
	if err != nil {
		return printer.Fail(err)
	}
	printer.Session(s)
	stream, err := l.Attach(ctx, s, wire.FromHead())
	if err != nil {
		return printer.Fail(err)
	}
	defer stream.Close()
	resumed, err := l.Resume(ctx, s, q)
	if err != nil {
		return printer.Fail(err)
	}
	if resumed.Operation.IsZero() {
		return printer.Refuse(print.Done, "nothing_to_resume", "the session has no interrupted run; `loom run --session "+s.String()+" PROMPT` goes on with it")
	}
	return a.follow(ctx, l, printer, s, resumed.Operation, stream.Frames)
}

func (a *app) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check ID",
		Short: "Walk a whole session and name every broken invariant",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(ctx context.Context, l *link) error {
				s, err := l.find(ctx, args[0])
				if err != nil {
					return err
				}
				report, err := l.Check(ctx, s)
				if err != nil {
					return err
				}
				for _, f := range report.Findings {
					a.print(f.Code + ": " + f.Subject + ": " + f.Message)
				}
				if len(report.Findings) > 0 {
					a.status = print.Unreadable
					a.complain(fmt.Sprintf("the session %s is damaged: %d findings; nothing was changed, keep the file", s, len(report.Findings)))
					return nil
				}
				a.print(fmt.Sprintf("session %s is whole (%d messages)", s, report.Rows))
				return nil
			})
		},
	}
}

// with runs a verb that prints no run.
func (a *app) with(ctx context.Context, verb func(context.Context, *link) error) error {
	l, err := a.connect()
	if err != nil {
		a.status = print.Unreadable
		a.complain(err.Error())
		return nil
	}
	if err := verb(ctx, l); err != nil {
		a.status = print.New(print.Options{Stdout: a.sys.Stdout, Stderr: a.sys.Stderr}).Fail(err)
	}
	return a.hangUp(l)
}

// maxLine bounds one printed line, in bytes.
const maxLine = 64 << 10

// print writes a line for a person to standard output.
func (a *app) print(text string) {
	if _, err := fmt.Fprintln(a.sys.Stdout, say.Clean(text, maxLine)); err != nil {
		a.status = print.OutputLost
	}
}

// version is set when a release is built.
var version = "dev"

func userAgent() string { return "loom/" + version }

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a.print(fmt.Sprintf("loom %s%s (%s %s/%s)", version, revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH))
			return nil
		},
	}
}

// revision is the commit that the binary was built from, if that is known.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return " " + s.Value[:min(len(s.Value), 12)]
		}
	}
	return ""
}
