package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/wire"
)

func (a *app) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check ID",
		Short: "Walk a whole session and name every broken invariant",
		Args:  oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(ctx context.Context, l *link, out *page) error {
				s, err := l.find(ctx, args[0])
				if err != nil {
					return err
				}
				report, err := l.Check(ctx, s)
				if err != nil {
					return err
				}
				broken := 0
				for _, f := range report.Findings {
					line := f.Code + ": " + f.Subject + ": " + f.Message
					if check.Harmless(storage.Invariant(f.Code)) {
						line = "note: " + line
					} else {
						broken++
					}
					out.text(say.Line(line, maxFinding))
				}
				if n := broken; n > 0 {
					return refused(wire.StoreUnreadable, "the session %s breaks %s; nothing was changed, keep its file", s, counted(n, "invariant"))
				}
				out.text(fmt.Sprintf("session %s is whole, %s", s, counted(int(report.Rows), "message")))
				return nil
			})
		},
	}
}

// maxFinding bounds the line of one finding, in bytes.
const maxFinding = 4096

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
