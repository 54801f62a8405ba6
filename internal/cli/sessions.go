package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/wire"
)

func (a *app) sessionsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List the sessions, newest first",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(ctx context.Context, l *link, out *page) error {
				list, err := l.Sessions(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					out.json(append(wire.Encode(list), '\n'))
					return nil
				}
				if len(list.Sessions) == 0 {
					a.note("there are no sessions yet; `loom run PROMPT` makes one")
				}
				for _, s := range list.Sessions {
					out.text(sessionLine(s))
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.AddCommand(a.showCommand(), a.takeCommand(), a.exportCommand(), a.importCommand())
	return cmd
}

// maxColumn bounds a column of the list, in bytes: a path is cut by no system
// before that.
const maxColumn = 4096

// sessionLine is one session on one line. What is not known is a dash.
func sessionLine(s wire.SessionInfo) string {
	column := func(t *string) string {
		if t == nil {
			return "-"
		}
		return say.Line(*t, maxColumn)
	}
	used := s.UpdatedAt
	if used == nil {
		used = s.CreatedAt
	}
	when := "-"
	if used != nil {
		when = time.UnixMilli(*used).Format("2006-01-02 15:04")
	}
	line := fmt.Sprintf("%s  %-11s  %-16s  %s  %s", s.Session, column((*string)(&s.Status)), when, column(s.Cwd), column(s.Title))
	if s.Note != nil {
		line += "  (" + column(s.Note) + ")"
	}
	return line
}
