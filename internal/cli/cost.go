package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/spending"
)

// grouping is what costs are summed by.
type grouping string

// The groupings.
const (
	byModel   grouping = "model"
	bySession grouping = "session"
	byDay     grouping = "day"
)

type costOptions struct {
	session option[string]
	since   option[int64] // Unix ms
	by      option[grouping]
	json    bool
}

func (a *app) costCommand() *cobra.Command {
	var o costOptions
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "Add up what models consumed and cost",
		Long: "Add up what models consumed and cost.\n" +
			"Every attempt counts, failed ones too. Sums are exact; where a price or a count is not known the sum says so, and is a lower bound (≥) or unknown.\n" +
			"With --session it also names the requests that a prompt cache could have served and did not.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(ctx context.Context, l *link, out *page) error { return a.cost(ctx, l, o, out) })
		},
	}
	o.session = option[string]{kind: "ID", parse: text}
	o.since = option[int64]{kind: "WHEN", parse: since}
	o.by = option[grouping]{kind: "WHAT", parse: groupings}
	f := cmd.Flags()
	f.SortFlags = false
	f.Var(&o.session, "session", "of this session only")
	f.Var(&o.since, "since", "of requests since a date such as 2026-11-30, or in the last 36h or 7d")
	f.Var(&o.by, "by", "one line for each model, session or day (default model)")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	return cmd
}

func groupings(s string) (grouping, error) {
	switch g := grouping(s); g {
	case byModel, bySession, byDay:
		return g, nil
	}
	return "", errors.New("there are model, session and day")
}

// since is the Unix ms that a date or a span before now leads to.
func since(s string) (int64, error) {
	if day, err := time.ParseInLocation(time.DateOnly, s, time.Local); err == nil {
		return day.UnixMilli(), nil
	}
	if days, isDays := strings.CutSuffix(s, "d"); isDays {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Now().AddDate(0, 0, -int(n)).UnixMilli(), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return time.Now().Add(-d).UnixMilli(), nil
	}
	return 0, errors.New("it is a date such as 2026-11-30, or a span such as 36h or 7d")
}

// bill is the sums of one answer.
type bill struct {
	by         grouping
	groups     map[group]*spending.Total
	total      spending.Total
	misses     []spending.Miss
	unreadable []string // sessions
}

// group is what a line of a bill is about.
type group struct{ session, day, provider, model string }

func (a *app) cost(ctx context.Context, l *link, o costOptions, out *page) error {
	sessions, err := l.costed(ctx, o)
	if err != nil {
		return err
	}
	b := bill{by: o.by.or(byModel), groups: map[group]*spending.Total{}}
	for _, s := range sessions {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := b.add(l, s, o); err != nil {
			if o.session.given != nil {
				return explained(err)
			}
			b.unreadable = append(b.unreadable, s.String())
		}
	}
	if o.json {
		out.json(append(b.document(), '\n'))
		return nil
	}
	out.table(b.table())
	for _, m := range b.misses {
		out.text(missed(m))
	}
	if n := len(b.unreadable); n > 0 {
		a.note(fmt.Sprintf("%s cannot be read and is not in this sum: %s; `loom check ID` says what is wrong", counted(n, "session"), strings.Join(b.unreadable[:min(n, 3)], ", ")))
	}
	return nil
}

// costed is the sessions that are asked for.
func (l *link) costed(ctx context.Context, o costOptions) (all []id.SessionID, err error) {
	if o.session.given != nil {
		s, err := l.find(ctx, *o.session.given)
		return []id.SessionID{s}, err
	}
	list, err := l.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range list.Sessions {
		all = append(all, s.Session)
	}
	return all, nil
}

// add adds a session, whole or not at all.
func (b *bill) add(l *link, s id.SessionID, o costOptions) error {
	slot, err := l.node.Slot(s)
	if err != nil {
		return err
	}
	var items []spending.Item
	var misses []spending.Miss
	err = slot.Read(func(v *session.View) error {
		items, misses = nil, nil
		for item, err := range spending.Items(v.Rows()) {
			if err != nil {
				return err
			}
			if item.At >= o.since.or(0) {
				items = append(items, item)
			}
		}
		if o.session.given == nil {
			return nil
		}
		var err error
		misses, err = spending.Misses(v.Rows())
		return err
	})
	if err != nil {
		return err
	}
	for _, item := range items {
		g := b.groupOf(s, item)
		if b.groups[g] == nil {
			b.groups[g] = new(spending.Total)
		}
		b.groups[g].Add(item)
		b.total.Add(item)
	}
	b.misses = append(b.misses, slices.DeleteFunc(misses, func(m spending.Miss) bool { return m.At < o.since.or(0) })...)
	return nil
}

func (b *bill) groupOf(s id.SessionID, item spending.Item) group {
	switch b.by {
	case bySession:
		return group{session: s.String()}
	case byDay:
		return group{day: time.UnixMilli(item.At).Format(time.DateOnly)}
	case byModel:
	}
	return group{provider: item.Provider, model: item.Model}
}

// sorted is the groups, the dearest first, and days in their order.
func (b *bill) sorted() []group {
	return slices.SortedFunc(maps.Keys(b.groups), func(x, y group) int {
		costs := 0
		if b.by != byDay {
			costs = b.groups[y].Usage.Cost.Total.Cmp(b.groups[x].Usage.Cost.Total)
		}
		return cmp.Or(costs, cmp.Compare(x.day, y.day), cmp.Compare(x.session, y.session), cmp.Compare(x.provider, y.provider), cmp.Compare(x.model, y.model))
	})
}

// table is the bill as rows of columns.
func (b *bill) table() [][]string {
	rows := [][]string{{strings.ToUpper(string(b.by)), "COST", "REQUESTS", "INPUT", "CACHE READ", "CACHE WRITE", "OUTPUT", ""}}
	for _, g := range b.sorted() {
		rows = append(rows, sumRow(g.name(), *b.groups[g]))
	}
	if len(b.groups) != 1 {
		rows = append(rows, sumRow("total", b.total))
	}
	return rows
}

func (g group) name() string {
	switch {
	case g.day != "" || g.session != "":
		return g.day + g.session
	case g.model == "":
		return "(no model known)"
	}
	return g.provider + "/" + g.model
}

func sumRow(name string, t spending.Total) []string {
	u := t.Usage
	row := []string{name, cost(t), strconv.FormatInt(t.Requests, 10)}
	for _, n := range []int64{u.Input, u.CacheRead, u.CacheWrite, u.Output} {
		row = append(row, bounded(t.Tokens(), strconv.FormatInt(n, 10)))
	}
	return append(row, remarks(t))
}

func cost(t spending.Total) string { return bounded(t.Cost(), "$"+dollars(t.Usage.Cost.Total)) }

func bounded(b spending.Bound, n string) string {
	switch b {
	case spending.Exact:
		return n
	case spending.AtLeast:
		return "≥" + n
	case spending.Unknown:
	}
	return "unknown"
}

// dollars is an exact amount with cents at least.
func dollars(a usage.Amount) string {
	lit := a.Literal()
	whole, cents, _ := strings.Cut(lit, ".")
	if strings.ContainsAny(lit, "eE") || len(cents) >= 2 {
		return lit
	}
	return whole + "." + (cents + "00")[:2]
}

// remarks say why a sum is not exact.
func remarks(t spending.Total) string {
	var all []string
	for _, r := range []struct {
		n    int64
		what string
	}{{t.Unpriced, "unpriced"}, {t.Unreported, "without a report"}, {t.InPart, "reported in part"}} {
		if r.n > 0 {
			all = append(all, fmt.Sprintf("%d %s", r.n, r.what))
		}
	}
	return strings.Join(all, ", ")
}

// The words of why a cache did not serve.
var causes = map[spending.Cause]string{
	spending.OtherModel: "other_model", spending.Compacted: "compacted", spending.Expired: "expired", spending.Unexplained: "unexplained",
}

func missed(m spending.Miss) string {
	why := "no cause shows in the session: the tools or the system prompt changed, or the provider let it go"
	switch m.Cause {
	case spending.OtherModel:
		why = "another model had answered before, and caches are of one model"
	case spending.Compacted:
		why = "the conversation had been compacted"
	case spending.Expired:
		why = fmt.Sprintf("%s had passed since the answer before", (time.Duration(m.Idle) * time.Millisecond).Round(time.Second))
	case spending.Unexplained:
	}
	return fmt.Sprintf("cache: at %s %s/%s was sent %d tokens again: %s", time.UnixMilli(m.At).Format(time.DateTime), m.Provider, m.Model, m.Again, why)
}

// document is the bill as JSON.
func (b *bill) document() []byte {
	var w jsonv.Writer
	w.Begin()
	w.Str("by", string(b.by))
	w.Name("groups")
	w.BeginArray()
	for _, g := range b.sorted() {
		w.Begin()
		for _, f := range []struct{ name, value string }{{"day", g.day}, {"session", g.session}, {"provider", g.provider}, {"model", g.model}} {
			if f.value != "" {
				w.Str(f.name, f.value)
			}
		}
		sums(&w, *b.groups[g])
		w.End()
	}
	w.EndArray()
	w.Name("total")
	w.Begin()
	sums(&w, b.total)
	w.End()
	w.Name("cache_misses")
	w.BeginArray()
	for _, m := range b.misses {
		w.Begin()
		w.Num("at", m.At)
		w.Str("provider", m.Provider)
		w.Str("model", m.Model)
		w.Num("tokens", m.Again)
		w.Num("idle_ms", m.Idle)
		w.Str("cause", causes[m.Cause])
		w.End()
	}
	w.EndArray()
	w.Strs("unreadable", b.unreadable)
	w.End()
	return w.Bytes()
}

// sums writes the fields of a total. A number of which nothing is known is absent.
func sums(w *jsonv.Writer, t spending.Total) {
	w.Num("requests", t.Requests)
	w.Num("unreported", t.Unreported)
	w.Num("reported_in_part", t.InPart)
	w.Num("unpriced", t.Unpriced)
	if b := t.Tokens(); b != spending.Unknown {
		u := t.Usage
		w.Num("input_tokens", u.Input)
		w.Num("cache_read_tokens", u.CacheRead)
		w.Num("cache_write_tokens", u.CacheWrite)
		w.Num("output_tokens", u.Output)
		w.Flag("tokens_are_exact", b == spending.Exact)
	}
	if b := t.Cost(); b != spending.Unknown {
		w.Name("cost_usd")
		w.Literal(t.Usage.Cost.Total.Literal())
		w.Flag("cost_is_exact", b == spending.Exact)
	}
}
