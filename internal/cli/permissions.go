package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/node"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/wire"
)

const precedence = "The first of these that speaks decides:\n" +
	"  1. a deny rule that matches refuses;\n" +
	"  2. reading outside of the directory is refused, and a tool that asks a person asks;\n" +
	"  3. an ask rule that matches, a deny rule that may match what cannot be known before it runs,\n" +
	"     and a change of Loom's own files ask a person;\n" +
	"  4. allow rules that cover everything the call does let it run;\n" +
	"  5. the permission mode decides.\n" +
	"The mode plan allows nothing by rule; plan and dontAsk refuse what would be asked. The order of rules means nothing.\n\n" +
	"A rule is TOOL, or TOOL(PATTERN). Of commands: bash(git log *), where a star that stands alone is any number of words;\n" +
	"an allowed pattern covers a line only if patterns cover each command in it, and none covers redirections into files.\n" +
	"Of paths: write(src/**), from the workspace, / or ~/; a star stays within a name, two go through any number of folders.\n" +
	"Rules stand as lists under allow, ask and deny in [permissions] of loom.toml; a workspace may deny and ask in .loom/permissions.toml."

func (a *app) permissionsCommand() *cobra.Command {
	var o permissionOptions
	cmd := &cobra.Command{
		Use:   "permissions",
		Short: "List the permission rules that hold in the current directory",
		Long:  "List the permission rules that hold in the current directory, strongest first.\n\n" + precedence,
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.permissions(cmd.Context(), o, "", "", func(e node.Explanation, out *page) {
				rows := make([][]string, len(e.Rules))
				for i, r := range e.Rules {
					rows[i] = []string{string(r.Behavior()), r.Text(), string(r.Place())}
				}
				if len(rows) == 0 {
					out.text("There are no rules here; the permission mode decides.")
				}
				out.table(rows)
			})
		},
	}
	o.cwdFlag(cmd)
	cmd.AddCommand(a.explainCommand(), a.ruleCommand(false), a.ruleCommand(true))
	return cmd
}

// ruleCommand is the verb that writes a rule, or the one that removes one.
func (a *app) ruleCommand(remove bool) *cobra.Command {
	var o permissionOptions
	place := option[words.RuleDestination]{kind: "PLACE", parse: rulePlace}
	verb, short, done := "add", "Write a permission rule", "written"
	if remove {
		verb, short, done = "remove", "Remove a permission rule", "removed"
	}
	cmd := &cobra.Command{
		Use:   verb + " allow|ask|deny RULE",
		Short: short,
		Long: short + ". The rest of the file stays as it is, comments included; a file with a key that is not known is not touched.\n" +
			"It holds in sessions that are opened afterwards.\n\n" + precedence,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("`loom permissions " + verb + "` takes allow, ask or deny, and a rule, such as 'bash(git log *)'; nothing was changed")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ruled(cmd.Context(), o, func(n *node.Node, cwd string, out *page) error {
				c := node.RuleChange{Rule: args[1], Behavior: words.RuleBehavior(args[0]), Place: place.or(words.RuleForLocal), Remove: remove}
				got, err := n.ChangeRule(cwd, c)
				if err != nil {
					return explained(err)
				}
				out.text(done + ": " + string(got.Row.Behavior) + " " + got.Row.Rule + " (" + string(got.Row.Place) + ")")
				return nil
			})
		},
	}
	o.cwdFlag(cmd)
	cmd.Flags().Var(&place, "in", "user: loom.toml; project: .loom/permissions.toml; local: yours, for this directory alone (default local)")
	return cmd
}

func rulePlace(s string) (words.RuleDestination, error) {
	switch p := words.RuleDestination(s); p {
	case words.RuleForUser, words.RuleForProject, words.RuleForLocal:
		return p, nil
	case words.RuleForSession, words.RuleForCommand:
	}
	return "", errors.New("there are user, project and local")
}

func (a *app) explainCommand() *cobra.Command {
	var o permissionOptions
	cmd := &cobra.Command{
		Use:   "explain 'TOOL ARGS'",
		Short: "Say what would become of a call, and why",
		Long:  "Say what would become of a call, and why. Nothing runs. ARGS is the command line or the path.\n\n" + precedence,
		Args: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(strings.Join(args, " ")) == "" {
				return errors.New("`loom permissions explain` takes a tool and what it is called with, such as 'bash git push'")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			tool, argument, _ := strings.Cut(strings.TrimSpace(strings.Join(args, " ")), " ")
			return a.permissions(cmd.Context(), o, tool, strings.TrimSpace(argument), func(e node.Explanation, out *page) {
				out.text(verdict(e.Decision))
				if r, ok := e.Decision.Rule(); ok {
					out.text("by the rule: " + string(r.Behavior()) + " " + r.Text() + " (" + string(r.Place()) + ")")
				} else if m := e.Decision.Mandate(); m != "" {
					out.text("by a check that no rule and no mode retires (" + string(m) + ")")
				} else {
					out.text("by the permission mode; no rule decides")
				}
				if !e.Decision.Allowed() {
					out.text(e.Decision.Sentence())
				}
			})
		},
	}
	o.cwdFlag(cmd)
	o.mode = option[words.PermissionMode]{kind: "MODE", parse: anyMode}
	cmd.Flags().Var(&o.mode, "permission-mode", "the mode that the call would be made in (default default)")
	return cmd
}

func verdict(d policy.Decision) string {
	switch d.Behavior() {
	case policy.Allow:
		return "allow: it runs"
	case policy.Ask:
		return "ask: a person decides; where nobody can be asked it does not run"
	case policy.Classify:
		return "classify: the classifier of the mode auto decides"
	case policy.Deny:
	}
	return "deny: it does not run"
}

type permissionOptions struct {
	cwd  option[string]
	mode option[words.PermissionMode]
}

func (o *permissionOptions) cwdFlag(cmd *cobra.Command) {
	o.cwd = option[string]{kind: "DIR", parse: text}
	cmd.Flags().Var(&o.cwd, "cwd", "the directory that the call would be made in")
}

func anyMode(s string) (words.PermissionMode, error) {
	m, ok := words.PermissionModes.Parse(s)
	if !ok {
		return "", errors.New("there are default, acceptEdits, bypassPermissions, plan, dontAsk and auto")
	}
	return m, nil
}

// permissions explains a call with the rules of loom.toml and of the workspace.
func (a *app) permissions(ctx context.Context, o permissionOptions, tool, argument string, show func(node.Explanation, *page)) error {
	return a.ruled(ctx, o, func(n *node.Node, cwd string, out *page) error {
		mode, _ := policy.ParseMode(string(o.mode.or(words.ModeDefault)))
		e, err := n.Explain(cwd, mode, tool, argument)
		if err != nil {
			return refused(wire.BadRequest, "%v", err)
		}
		show(e, out)
		return nil
	})
}

// ruled gives f a node with the rules of loom.toml, and the directory that they are asked
// for in.
func (a *app) ruled(ctx context.Context, o permissionOptions, f func(n *node.Node, cwd string, out *page) error) error {
	return a.with(ctx, func(_ context.Context, l *link, out *page) error {
		cwd, err := workspace(o.cwd.or(""))
		if err != nil {
			return err
		}
		file, path, err := node.SettingsAt(a.env)
		if err != nil {
			return refused(wire.BadRequest, "%v", err)
		}
		return f(node.New(node.Config{
			Home: l.home, Environ: a.sys.Environ, Now: now, Permissions: file.Permissions, PermissionsFile: path, Automation: file.Automation,
		}), cwd, out)
	})
}
