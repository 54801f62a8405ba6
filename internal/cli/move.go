package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/wire"
)

func (a *app) exportCommand() *cobra.Command {
	var to option[string]
	cmd := &cobra.Command{
		Use:   "export ID",
		Short: "Write a session with its outputs to one file, and print its path",
		Long: "Write a session with its outputs to one file, and print its path.\n" +
			"The session stays. The file holds digests of all that is in it; `loom sessions import` verifies them. `loom erase` goes through the exports that it remembers.",
		Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(ctx context.Context, l *link, out *page) error {
				s, err := l.find(ctx, args[0])
				if err != nil {
					return err
				}
				done, err := l.node.Export(s, to.or(s.String()+".loom"))
				if err != nil {
					return explained(err)
				}
				if done.Lost > 0 {
					a.note(fmt.Sprintf("%s of the session cannot be read and could not be taken along, `loom check` names them", counted(int(done.Lost), "output")))
				}
				out.text(say.Line(done.Path, maxColumn))
				return nil
			})
		},
	}
	to = option[string]{kind: "FILE", parse: text}
	cmd.Flags().Var(&to, "to", "write this file, which must not exist (default: ID.loom in the current directory)")
	return cmd
}

func (a *app) importCommand() *cobra.Command {
	var cwd option[string]
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Make a session of a file that `loom sessions export` wrote, and print its id",
		Long: "Make a session of a file that `loom sessions export` wrote, and print its id.\n" +
			"Everything in the file is verified first. A session that is here already stays as it is.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("`%s` takes one file; nothing was changed", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(_ context.Context, l *link, out *page) error {
				dir := ""
				if cwd.given != nil {
					var err error
					if dir, err = workspace(*cwd.given); err != nil {
						return err
					}
				}
				f, err := os.Open(args[0])
				if err != nil {
					return refused(wire.BadRequest, "the file cannot be read: %v; nothing was changed", err)
				}
				if st, err := f.Stat(); err == nil && st.IsDir() {
					_ = f.Close() // it was only opened
					return refused(wire.BadRequest, "the file cannot be read: %s is a folder; nothing was changed", say.Line(args[0], maxColumn))
				}
				done, err := l.node.Import(f, dir)
				_ = f.Close() // it was only read
				if err != nil {
					return explained(err)
				}
				if done.Lost > 0 {
					a.note(fmt.Sprintf("%s were lost before the export", counted(int(done.Lost), "output")))
				}
				out.text(done.Session.String())
				return nil
			})
		},
	}
	cwd = option[string]{kind: "DIR", parse: text}
	cmd.Flags().Var(&cwd, "cwd", "the session works in this directory from now on (default: where it did)")
	return cmd
}
