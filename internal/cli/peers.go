package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/session"
)

func (a *app) peersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "peers ID",
		Short: "List who of other sessions a session may write to, and who may write to it",
		Long: "List who of other sessions a session may write to, and who may write to it.\n" +
			"Agents of two sessions say nothing to each other unless you link them, one direction at a time.",
		Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(ctx context.Context, l *link, out *page) error {
				s, err := l.find(ctx, args[0])
				if err != nil {
					return err
				}
				slot, err := l.node.Slot(s)
				if err != nil {
					return explained(err)
				}
				to, from, err := slot.Peers()
				if err != nil {
					return explained(err)
				}
				if len(to)+len(from) == 0 {
					out.text("there are no links; `loom peers link FROM TO` makes one")
				}
				for _, p := range append(to, from...) {
					out.text(describeLink(p))
				}
				return nil
			})
		},
	}
	cmd.AddCommand(a.peersLinkCommand(), a.peersUnlinkCommand())
	return cmd
}

func describeLink(l agency.Link) string {
	how := "while that works"
	if l.MayWake {
		how = "and wakes it"
	}
	return say.Line(fmt.Sprintf("%s writes to %s, %s", l.From, l.To, how), maxColumn)
}

const peerUsage = "FROM and TO are sessions, by id or the start of it, or a strand of one, as ID/STRAND; without a strand it is the main one."

func (a *app) peersLinkCommand() *cobra.Command {
	var wake bool
	cmd := &cobra.Command{
		Use:   "link FROM TO",
		Short: "Let the agent of one session write to that of another",
		Long: "Let the agent of one session write to that of another, and not the other way.\n" + peerUsage + "\n" +
			"A message is read before the next step of who works. With --wake one also reaches an agent that rests: it starts to work for it, where its session is open.\n" +
			"A session that another process has open can neither be linked nor written to.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.linking(cmd.Context(), args, func(l *link, out *page, p agency.Link) error {
				p.MayWake = wake
				if err := l.node.LinkPeers(p); err != nil {
					return explained(err)
				}
				out.text(describeLink(p))
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&wake, "wake", false, "also when it rests")
	return cmd
}

func (a *app) peersUnlinkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "unlink FROM TO",
		Short: "Take such a link away",
		Long:  "Take such a link away. What was delivered stays.\n" + peerUsage,
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.linking(cmd.Context(), args, func(l *link, out *page, p agency.Link) error {
				was, err := l.node.UnlinkPeers(p)
				if err != nil {
					return explained(err)
				}
				if !was.Grant && !was.Outgoing {
					return errors.New("there is no such link; nothing was changed")
				}
				out.text(fmt.Sprintf("%s writes to %s no more", p.From, p.To))
				return nil
			})
		},
	}
}

// linking finds the ends of a link.
func (a *app) linking(ctx context.Context, args []string, f func(*link, *page, agency.Link) error) error {
	return a.with(ctx, func(ctx context.Context, l *link, out *page) error {
		var ends [2]agency.Peer
		for i, arg := range args {
			name, strand, named := strings.Cut(arg, "/")
			if !named {
				strand = session.MainStrand
			}
			s, err := l.find(ctx, name)
			if err != nil {
				return err
			}
			ends[i] = agency.Peer{Session: s, Strand: strand}
		}
		return f(l, out, agency.Link{From: ends[0], To: ends[1]})
	})
}
