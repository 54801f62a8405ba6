package cli

import (
	"context"

	"github.com/spf13/cobra"

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
		Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			p := a.printer(o.format.or(print.Text))
			l, err := a.ask(o.askOptions)
			if err != nil {
				a.status = p.Fail(err)
				return nil
			}
			defer a.hangUp(l)
			a.status = a.finish(cmd.Context(), l, args[0], wire.Resume{PermissionMode: o.mode.given, ApproverPosture: a.posture(o)}, p)
			return nil
		},
	}
	o.shared(cmd)
	return cmd
}

// finish resumes and follows the run, if there is one.
func (a *app) finish(ctx context.Context, l *link, text string, q wire.Resume, p *print.Printer) print.Exit {
	requests := a.interrupts.givenUp
	s, err := l.find(requests, text)
	if err != nil {
		return p.Fail(err)
	}
	p.Session(s)
	stream, err := l.Attach(requests, s, wire.FromHead())
	if err != nil {
		return p.Fail(err)
	}
	defer stream.Close()
	if ctx.Err() != nil {
		return p.Refuse(print.Interrupted, codeInterrupted, errInterrupted.Error())
	}
	resumed, err := l.Resume(requests, s, q)
	if err != nil {
		return p.Fail(err)
	}
	if resumed.Operation.IsZero() {
		return p.Refuse(print.Done, "nothing_to_resume", "the session has no interrupted run; `loom run --session "+s.String()+" PROMPT` goes on with it")
	}
	return a.follow(ctx, l, p, s, resumed.Operation, stream.Frames)
}
