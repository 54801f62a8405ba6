package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/client/say"
)

func (a *app) takeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "take ID",
		Short: "Free a session that another process holds",
		Long: "Free a session that another process holds, as when that process hangs or runs where you cannot reach it.\n" +
			"That process keeps nothing of what it does from then on, and ends what it runs as soon as it notices. What it committed stays.\n" +
			"`loom resume ID` finishes what it was doing.",
		Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(ctx context.Context, l *link, out *page) error {
				s, err := l.find(ctx, args[0])
				if err != nil {
					return err
				}
				from, err := l.node.Take(s)
				if err != nil {
					return explained(err)
				}
				if from == nil {
					out.text(fmt.Sprintf("nobody holds the session %s; nothing was changed", s))
					return nil
				}
				h := from.Holder
				out.text(fmt.Sprintf("the session %s was taken from pid %d on %s, which held it since %s; `loom resume %s` finishes what it was doing",
					s, h.PID, say.Line(h.Host, maxColumn), h.Since.Format(time.DateTime), s))
				return nil
			})
		},
	}
}
