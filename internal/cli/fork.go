package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/node"
	"github.com/loom-run/loom/server"
)

func (a *app) forkCommand() *cobra.Command {
	var at option[id.EntryID]
	var tree bool
	cmd := &cobra.Command{
		Use:   "fork ID",
		Short: "Make a new session out of a session, and print its id",
		Long: "Make a new session out of a session, and print its id.\n" +
			"It has the conversation up to its end, or up to --at, and the outputs that it refers to; the session stays as it is and may be running.\n" +
			"What runs, what is queued and what was spent is not taken along.",
		Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			if tree && at.given != nil {
				return errors.New("--tree and --at exclude each other; nothing was made, leave one out")
			}
			return a.with(cmd.Context(), func(ctx context.Context, l *link, out *page) error {
				s, err := l.find(ctx, args[0])
				if err != nil {
					return err
				}
				made, err := l.node.Fork(s, node.Forking{At: at.or(id.EntryID{}), Tree: tree})
				if err != nil {
					return explained(err)
				}
				if made.Missing > 0 {
					a.note(fmt.Sprintf("%s that results refer to cannot be found in the session %s, so the fork lacks it too", counted(made.Missing, "output"), s))
				}
				out.text(made.Session.String())
				return nil
			})
		},
	}
	at = option[id.EntryID]{kind: "ENTRY", parse: entryID}
	cmd.Flags().SortFlags = false
	cmd.Flags().Var(&at, "at", "end the conversation with this entry, which may lie on any branch (default: where the session stands)")
	cmd.Flags().BoolVar(&tree, "tree", false, "take every branch and every strand along")
	return cmd
}

func entryID(text string) (id.EntryID, error) {
	i, err := id.ParseEntryID(text)
	if err != nil {
		return i, errors.New("it is not the id of an entry; `loom sessions show --json` prints them")
	}
	return i, nil
}

// explained gives an error of the node, which did not come over the wire, the code
// that the server would send.
func explained(err error) error {
	if err == nil {
		return nil
	}
	body := server.Explain(err)
	return refused(body.Code, "%s", body.Message)
}
