package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/host/print"
	"github.com/loom-run/loom/wire"
)

func (a *app) rewindCommand() *cobra.Command {
	var to option[id.EntryID]
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "rewind ID",
		Short: "Take files back to what they were before a message",
		Long: "Take files back to what they were before a message of yours: the newest, or that of --to.\n" +
			"It covers what the tools write and edit changed. What commands changed is not known, and stays; so does the conversation.\n" +
			"A file that anybody else changed since is left as it is, and so is one of which nothing was kept; each is told with the reason.",
		Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(ctx context.Context, l *link, out *page) error {
				s, err := l.find(ctx, args[0])
				if err != nil {
					return err
				}
				got, err := l.Rewind(ctx, s, wire.Rewind{Entry: to.or(id.EntryID{}), DryRun: dryRun})
				if err != nil {
					return err
				}
				if asJSON {
					out.json(append(wire.Encode(got), '\n'))
				} else {
					for _, line := range rewoundLines(got, dryRun) {
						out.text(line)
					}
				}
				if len(got.Refused) > 0 {
					a.status = print.LeftAlone
				}
				return nil
			})
		},
	}
	to = option[id.EntryID]{kind: "ENTRY", parse: entryID}
	cmd.Flags().SortFlags = false
	cmd.Flags().Var(&to, "to", "go back before this message (default: your newest)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would be done")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// rewoundLines is the answer as a person reads it: a line for each file, then the
// counts.
func rewoundLines(r wire.Rewound, dryRun bool) (lines []string) {
	done, left := "taken back", "left alone"
	if dryRun {
		done = "would be taken back"
	}
	for _, path := range r.Changed {
		lines = append(lines, fmt.Sprintf("%s: %s", done, say.Line(path, maxColumn)))
	}
	for _, f := range r.Refused {
		lines = append(lines, fmt.Sprintf("%s: %s (%s)", left, say.Line(f.Path, maxColumn), say.Line(f.Why, maxColumn)))
	}
	counts := []string{fmt.Sprintf("%s %s, %s inserted and %d deleted", counted(len(r.Changed), "file"), done, counted(int(r.Insertions), "line"), r.Deletions)}
	if len(r.Refused) > 0 {
		counts = append(counts, fmt.Sprintf("%d %s", len(r.Refused), left))
	}
	return append(lines, strings.Join(counts, "; ")+". What commands changed is not known and stays.")
}
