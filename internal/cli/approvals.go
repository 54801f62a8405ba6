package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
)

func (a *app) approvalsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "approvals ID",
		Short: "List what waits for you in a session, and what you allowed in it",
		Long: "List what waits for you in a session, the oldest first, and what you allowed for longer than one call.\n" +
			"What waits stays there, whatever becomes of the process, until you decide, or the run is stopped.",
		Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(ctx context.Context, l *link, out *page) error {
				s, err := l.find(ctx, args[0])
				if err != nil {
					return err
				}
				rows, err := l.Pending(ctx, s)
				if err != nil {
					return err
				}
				if asJSON {
					out.json(append(wire.Encode(rows), '\n'))
					return nil
				}
				return listWaiting(ctx, l, out, s, rows.Rows)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what waits as one JSON object, whole")
	cmd.AddCommand(a.forgetCommand())
	return cmd
}

func listWaiting(ctx context.Context, l *link, out *page, s id.SessionID, rows []wire.Pending) error {
	if len(rows) == 0 {
		out.text("Nothing waits for you in this session.")
	}
	for _, r := range rows {
		out.text(shownRow(r))
	}
	grants, err := l.Grants(ctx, s)
	if err != nil || len(grants.Grants) == 0 {
		return err
	}
	out.text("Allowed for this session:")
	table := make([][]string, len(grants.Grants))
	for i, g := range grants.Grants {
		table[i] = []string{g.Grant, string(g.Lifetime), g.About}
	}
	out.table(table)
	return nil
}

// maxShownInput bounds how much of an input is shown beside a question, in bytes; the
// rest is told by its size.
const maxShownInput = 8 << 10

// shownRow is a question as a person reads it, in lines. It is harmless on a terminal.
func shownRow(p wire.Pending) string {
	var b strings.Builder
	line := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
		b.WriteString(indent + say.Line(text, maxNote) + "\n")
	}
	block := func(text string) {
		cut := text
		if len(cut) > maxShownInput {
			cut = strings.ToValidUTF8(cut[:maxShownInput], "")
		}
		for l := range strings.Lines(say.All(cut)) {
			b.WriteString("    " + strings.TrimRight(l, "\n") + "\n")
		}
		if cut != text {
			line("    (and %d bytes more: loom approvals --json has them all)", len(text)-len(cut))
		}
	}
	switch p := p.(type) {
	case wire.ApprovalRequest:
		line("%s may it run: %s", p.ID, project.AskedAbout(p))
		for name, v := range p.Input.Fields() {
			text, isText := v.Text()
			if !isText {
				text = v.String()
			}
			line("  %s:", name)
			block(text)
		}
		if why := project.WhyAsked(p); why != "" {
			line("  asked because: %s", why)
		}
		if len(p.RuleOffers) > 0 {
			line("  a rule would allow it: %s", p.RuleOffers[0].Rule)
		} else if p.RuleOffersAbsence != nil && !p.Mandated {
			line("  no rule to write: %s", say.NoRule(*p.RuleOffersAbsence))
		}
		if p.ReadRootCandidate != nil {
			line("  it would have to be allowed to read in: %s", *p.ReadRootCandidate)
		}
	case wire.QuestionRequest:
		for _, q := range p.Questions {
			line("%s question %s: %s", p.ID, q.ID, q.Text)
			for i, o := range q.Options {
				about := ""
				if o.About != nil {
					about = ": " + *o.About
				}
				line("  %d) %s%s", i+1, o.Label, about)
			}
		}
	case wire.PlanRequest:
		line("%s a plan to review:", p.ID)
		block(p.Plan)
	case wire.UnknownPending:
		line("a question of the kind %q, which this build does not know", p.Tag)
	}
	return b.String()
}

func (a *app) forgetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "forget ID GRANT",
		Short: "Take back what you allowed for a session",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("`loom approvals forget` takes a session id and what `loom approvals` lists as allowed; nothing was changed")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(ctx context.Context, l *link, out *page) error {
				s, err := l.find(ctx, args[0])
				if err != nil {
					return err
				}
				got, err := l.ForgetGrant(ctx, s, wire.ForgetGrant{Grant: args[1]})
				if err != nil {
					return err
				}
				if !got.Was {
					out.text("There is no such allowance; it holds for nothing.")
					return nil
				}
				out.text("forgotten: calls like it are asked about again")
				return nil
			})
		},
	}
}

// deciding is a verb that decides about one thing that waits.
type deciding struct {
	gate     option[string]
	lifetime option[words.GrantLifetime]
	input    option[jsonv.Value]
	always   option[words.RuleDestination]
	message  option[string]
	stop     bool
}

// decide is a verb that decides. q decides about the row, and says what was done.
func (a *app) decide(cmd *cobra.Command, d *deciding, args []string, q func(context.Context, *link, id.SessionID, wire.Pending) (string, error)) error {
	return a.with(cmd.Context(), func(ctx context.Context, l *link, out *page) error {
		s, err := l.find(ctx, args[0])
		if err != nil {
			return err
		}
		rows, err := l.Pending(ctx, s)
		if err != nil {
			return err
		}
		row, err := chosenRow(rows.Rows, d.gate.or(""))
		if err != nil {
			return err
		}
		done, err := q(ctx, l, s, row)
		if err != nil {
			return err
		}
		out.text(done)
		if len(rows.Rows) > 1 {
			out.text(counted(len(rows.Rows)-1, "question") + " left: loom approvals " + s.String())
		} else {
			out.text("The run goes on with: loom resume --ask wait " + s.String())
		}
		return nil
	})
}

// chosenRow is the row that is meant: the one that waits, or the one of that id, or of
// the one id that starts or ends like that.
func chosenRow(rows []wire.Pending, gate string) (wire.Pending, error) {
	var found []wire.Pending
	for _, r := range rows {
		name := wire.PendingID(r)
		if name != "" && (gate == "" || strings.HasPrefix(name, gate) || strings.HasSuffix(name, gate)) {
			found = append(found, r)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0 && gate != "":
		return nil, refused(wire.UnknownRow, "nothing called %q waits in this session; nothing was decided, `loom approvals` lists what does", gate)
	case len(found) == 0:
		return nil, refused(wire.UnknownRow, "nothing waits for you in this session; nothing was decided")
	}
	return nil, refused(wire.BadRequest, "%d questions wait in this session; nothing was decided, say which one with --gate, `loom approvals` lists them", len(found))
}

// decidedOf is the decision that is bound to a row.
func decidedOf(r wire.ApprovalRequest, d words.Decision) wire.Decide {
	return wire.Decide{ID: r.ID, Binding: r.Binding, Seq: r.Seq, Decision: d}
}

func planOf(r wire.PlanRequest, v words.PlanVerdict) wire.DecidePlan {
	return wire.DecidePlan{ID: r.ID, Binding: r.Binding, Seq: r.Seq, Verdict: v}
}

var errNoDecision = refused(wire.BadRequest, "this is a question; nothing was decided, `loom answer` answers it")

func (a *app) approveCommand() *cobra.Command {
	var d deciding
	cmd := &cobra.Command{
		Use:   "approve ID",
		Short: "Allow what waits for you in a session",
		Long: "Allow what waits for you in a session: a call, or a plan. The decision is kept, and `loom resume` goes on with it.\n" +
			"What runs is what `loom approvals` shows, with exactly that input; the first decision counts.",
		Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.decide(cmd, &d, args, func(ctx context.Context, l *link, s id.SessionID, row wire.Pending) (string, error) {
				switch r := row.(type) {
				case wire.ApprovalRequest:
					q := decidedOf(r, words.Allow)
					q.Lifetime, q.Input = d.lifetime.given, d.input.given
					if d.always.given != nil {
						if len(r.RuleOffers) == 0 {
							return "", refused(wire.BadRequest, "no rule would answer this the next time; nothing was decided, leave out --always")
						}
						q.Rule = &wire.RuleChoice{Rule: r.RuleOffers[0].Rule, Behavior: r.RuleOffers[0].Behavior, Destination: *d.always.given}
					}
					got, err := l.Decide(ctx, s, q)
					said := "allowed: " + project.AskedAbout(r) + settledAs(got)
					for _, issue := range got.RuleIssues {
						said += "\nthe rule was not written: " + ruleIssue(issue)
					}
					return said, err
				case wire.PlanRequest:
					_, err := l.DecidePlan(ctx, s, planOf(r, words.PlanAccept))
					return "the plan is accepted", err
				default:
					return "", errNoDecision
				}
			})
		},
	}
	d.gateFlag(cmd)
	d.lifetime = option[words.GrantLifetime]{kind: "TIME", parse: lifetime}
	d.input = option[jsonv.Value]{kind: "JSON", parse: input}
	cmd.Flags().Var(&d.lifetime, "for", "once: this call; session: the same command or path in this session; exact_action: exactly this input in this session (default once)")
	d.always = option[words.RuleDestination]{kind: "PLACE", parse: rulePlace}
	cmd.Flags().Var(&d.always, "always", "write the rule that allows it the next time, too: user or local, see loom permissions")
	cmd.Flags().Var(&d.input, "input", "run the call with this input instead, a JSON object; rules hold for it")
	return cmd
}

func ruleIssue(p wire.RuleProblem) string {
	prose := ""
	if p.Prose != nil {
		prose = *p.Prose
	}
	return say.RuleIssue(p.Code, prose)
}

// settledAs says how a decision was taken, where that is not plain.
func settledAs(d wire.Decided) string {
	if d.Settlement == nil || *d.Settlement == words.ApprovedOnce {
		return ""
	}
	return " (" + say.Settled(*d.Settlement) + ")"
}

func (d *deciding) gateFlag(cmd *cobra.Command) {
	d.gate = option[string]{kind: "GATE", parse: text}
	cmd.Flags().SortFlags = false
	cmd.Flags().Var(&d.gate, "gate", "which of several that wait: its id, or the start or end of it")
}

func lifetime(s string) (words.GrantLifetime, error) {
	l, ok := words.GrantLifetimes.Parse(s)
	if !ok {
		return "", errors.New("there are once, session and exact_action")
	}
	return l, nil
}

func input(s string) (jsonv.Value, error) {
	v, err := jsonv.Parse([]byte(s))
	if err == nil && v.Kind() != jsonv.Object {
		err = errors.New("it is no JSON object")
	}
	return v, err
}

func (a *app) denyCommand() *cobra.Command {
	var d deciding
	cmd := &cobra.Command{
		Use:   "deny ID",
		Short: "Refuse what waits for you in a session",
		Long:  "Refuse what waits for you in a session: a call, a question or a plan. The model is told, and `loom resume` goes on.",
		Args:  oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.decide(cmd, &d, args, func(ctx context.Context, l *link, s id.SessionID, row wire.Pending) (string, error) {
				switch r := row.(type) {
				case wire.ApprovalRequest:
					q := decidedOf(r, words.Deny)
					q.Message, q.Stop = d.message.given, d.stop
					_, err := l.Decide(ctx, s, q)
					return "refused: " + project.AskedAbout(r), err
				case wire.PlanRequest:
					q := planOf(r, words.PlanReject)
					q.Message = d.message.given
					_, err := l.DecidePlan(ctx, s, q)
					return "the plan is rejected", err
				default:
					return "", errNoDecision
				}
			})
		},
	}
	d.gateFlag(cmd)
	d.message = option[string]{kind: "TEXT", parse: text}
	cmd.Flags().Var(&d.message, "message", "tell the model this")
	cmd.Flags().BoolVar(&d.stop, "stop", false, "stop the run as well")
	return cmd
}

func (a *app) answerCommand() *cobra.Command {
	var d deciding
	cmd := &cobra.Command{
		Use:   "answer ID ANSWER...",
		Short: "Answer a question of the model that waits in a session",
		Long: "Answer a question of the model that waits in a session. An answer is the number of an option, its name, or a text of yours;\n" +
			"of several questions each has its answer, in their order.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("`loom answer` takes a session id and an answer for each question; `loom approvals` shows them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.decide(cmd, &d, args, func(ctx context.Context, l *link, s id.SessionID, row wire.Pending) (string, error) {
				r, ok := row.(wire.QuestionRequest)
				if !ok {
					return "", refused(wire.BadRequest, "what waits is no question; nothing was decided, `loom approve` and `loom deny` decide about it")
				}
				q, err := answered(r, args[1:])
				if err == nil {
					_, err = l.Answer(ctx, s, q)
				}
				return "answered", err
			})
		},
	}
	d.gateFlag(cmd)
	return cmd
}

// answered is the answer to each question, in their order.
func answered(r wire.QuestionRequest, given []string) (wire.Answer, error) {
	q := wire.Answer{ID: r.ID, Binding: r.Binding, Seq: r.Seq}
	if len(given) != len(r.Questions) {
		return q, refused(wire.BadRequest, "%s asked and %s given; nothing was decided", counted(len(r.Questions), "question"), counted(len(given), "answer"))
	}
	for i, question := range r.Questions {
		q.Answers = append(q.Answers, replyTo(question, given[i]))
	}
	return q, nil
}

// replyTo reads an answer: numbers or names of options, else a text.
func replyTo(q wire.Question, given string) wire.Reply {
	parts := []string{given}
	if q.Multiple {
		parts = strings.Split(given, ",")
	}
	reply := wire.Reply{Question: q.ID}
	for _, part := range parts {
		part = strings.TrimSpace(part)
		n := slices.IndexFunc(q.Options, func(o wire.Option) bool { return o.ID == part || strings.EqualFold(o.Label, part) })
		if at, err := strconv.Atoi(part); n < 0 && err == nil && at >= 1 && at <= len(q.Options) {
			n = at - 1
		}
		if n < 0 {
			return wire.Reply{Question: q.ID, Text: &given}
		}
		reply.Chosen = append(reply.Chosen, q.Options[n].ID)
	}
	return reply
}
