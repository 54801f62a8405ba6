package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
)

type searchOptions struct {
	session, tool, strand, workspace, kind option[string]
	role                                   option[words.SearchRole]
	since, until                           option[int64] // Unix ms
	limit                                  option[int64]
	newest, here, json                     bool
}

func (a *app) searchCommand() *cobra.Command {
	var o searchOptions
	cmd := &cobra.Command{
		Use:   "search [QUERY]",
		Short: "Find text in all sessions",
		Long: "Find text in all sessions.\n" +
			"All words must be in an entry, in any order. \"Some words\" in quotes are a phrase, word* is a beginning, and -word must not be there (behind --). Identifiers are found by\n" +
			"their parts. What people, models and tools said is searched, and summaries; not reasoning and not the arguments of calls.\n" +
			"The best matches come first. What was indexed is a copy beside the sessions, which can be deleted: the next search makes it anew.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && o.session.given == nil {
				return errors.New("`loom search` takes the words to look for, or --session alone for the newest of it; nothing was searched")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(ctx context.Context, l *link, out *page) error {
				return a.search(ctx, l, o, strings.Join(args, " "), out)
			})
		},
	}
	o.flags(cmd)
	cmd.AddCommand(a.searchRebuildCommand())
	return cmd
}

func (o *searchOptions) flags(cmd *cobra.Command) {
	for _, f := range []*option[string]{&o.session, &o.tool, &o.strand, &o.workspace, &o.kind} {
		f.kind, f.parse = "NAME", text
	}
	o.session.kind, o.workspace.kind = "ID", "DIR"
	o.role = option[words.SearchRole]{kind: "WHO", parse: searchRole}
	o.since, o.until = option[int64]{kind: "WHEN", parse: since}, option[int64]{kind: "WHEN", parse: since}
	o.limit = option[int64]{kind: "N", parse: turns}
	f := cmd.Flags()
	f.SortFlags = false
	f.Var(&o.session, "session", "in this session only")
	f.BoolVar(&o.here, "here", false, "in sessions of the current directory only")
	f.Var(&o.workspace, "workspace", "in sessions of this directory only")
	f.Var(&o.role, "role", "what this side said: user, assistant, tool or summary")
	f.Var(&o.kind, "kind", "entries of this kind: message, compaction or branch_summary")
	f.Var(&o.tool, "tool", "results of this tool")
	f.Var(&o.strand, "strand", "what is of this strand, such as main")
	f.Var(&o.since, "since", "since a date such as 2026-11-30, or in the last 36h or 7d")
	f.Var(&o.until, "until", "before that")
	f.BoolVar(&o.newest, "newest", false, "newest first")
	f.Var(&o.limit, "limit", "at most so many (default 20)")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
}

func searchRole(s string) (words.SearchRole, error) {
	r, ok := words.SearchRoles.Parse(s)
	if !ok {
		return "", errors.New("there are user, assistant, tool and summary")
	}
	return r, nil
}

func (a *app) search(ctx context.Context, l *link, o searchOptions, query string, out *page) error {
	q := wire.Search{
		Query: query, Limit: o.limit.given, Ranked: !o.newest, Role: o.role.given, Kind: o.kind.given, Tool: o.tool.given, Strand: o.strand.given,
		SinceMs: o.since.given, UntilMs: o.until.given,
	}
	if o.session.given != nil {
		s, err := l.find(ctx, *o.session.given)
		if err != nil {
			return err
		}
		q.Session = &s
	}
	if o.here || o.workspace.given != nil {
		dir, err := workspace(o.workspace.or(""))
		if err != nil {
			return err
		}
		q.Workspace = &dir
	}
	found, err := l.Search(ctx, q)
	if err != nil {
		return err
	}
	if len(found.Unreadable) > 0 {
		a.note(fmt.Sprintf("what is new in %s could not be read and was not searched, see `loom sessions`", counted(len(found.Unreadable), "session")))
	}
	if o.json {
		out.json(append(wire.Encode(found), '\n'))
		return nil
	}
	if found.Considered != nil {
		a.note(fmt.Sprintf("these are the best of the newest %d; --newest, or a filter, reaches the others", *found.Considered))
	}
	if len(found.Hits) == 0 {
		out.text("nothing was found")
		return nil
	}
	for i, h := range found.Hits {
		if i > 0 {
			out.text("")
		}
		out.text(hitLine(h))
		out.text("  " + say.Line(marked(h), maxColumn))
	}
	return nil
}

// hitLine says where a hit is.
func hitLine(h wire.SearchHit) string {
	who := string(h.Role)
	if h.Tool != nil {
		who += " " + *h.Tool
	}
	line := fmt.Sprintf("%s %s  %s", h.Session, h.Entry, who)
	if h.AtMs != nil {
		line = time.UnixMilli(*h.AtMs).Format("2006-01-02 15:04  ") + line
	}
	if h.Strand != mainStrand {
		line += "  of " + h.Strand
	}
	if h.Copies > 0 {
		line += fmt.Sprintf("  (also in %s)", counted(int(h.Copies), "fork"))
	}
	return say.Line(line, maxColumn)
}

// marked is an excerpt with what matches in brackets.
func marked(h wire.SearchHit) string {
	var b strings.Builder
	at := 0
	for _, m := range h.Marks {
		from, to := int(m.From), int(m.To)
		if from < at || to < from || to > len(h.Excerpt) {
			break // a server that miscounts is shown without its marks
		}
		b.WriteString(h.Excerpt[at:from] + "[" + h.Excerpt[from:to] + "]")
		at = to
	}
	return b.String() + h.Excerpt[at:]
}

func (a *app) searchRebuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rebuild",
		Short: "Make the search index anew",
		Long: "Make the search index anew, from all sessions.\n" +
			"That is needed for nothing but a doubt: an index that cannot be used is made anew by the next search.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(_ context.Context, l *link, out *page) error {
				quiet := !terminal(a.sys.Stderr)
				now, err := l.node.RebuildSearch(func(done, all int) {
					if !quiet && (done == all || done%32 == 0) {
						a.note(fmt.Sprintf("%d of %s", done, counted(all, "session")))
					}
				})
				if err != nil {
					return explained(err)
				}
				out.text(fmt.Sprintf("%d entries of %s can be found", now.Entries, counted(now.Sessions, "session")))
				for _, s := range now.Unreadable {
					out.text(fmt.Sprintf("%s could not be read, see `loom check %s`", s, s))
				}
				return nil
			})
		},
	}
}
