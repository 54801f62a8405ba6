package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/host/print"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/provider/catalogue"
	"github.com/loom-run/loom/provider/price"
)

func (a *app) modelsCommand() *cobra.Command {
	var o askOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List the models, with what is known of them",
		Long: "List the models, with what is known of them: those of loom.toml, then the built-in list.\n" +
			"Prices are US dollars for a million tokens in and out; they are of loom.toml, or stand in the list with their source and date.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.catalogued(o, func(s setup, out *page) error {
				if asJSON {
					out.json(append(routesDocument(s.listed.Routes()), '\n'))
					return nil
				}
				out.table(routesTable(s.listed.Routes()))
				return nil
			})
		},
	}
	o.profileFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.AddCommand(a.modelsCheckCommand())
	return cmd
}

// catalogued runs a verb that needs the models and no session.
func (a *app) catalogued(o askOptions, f func(setup, *page) error) error {
	p := a.printer(print.Text)
	s, err := a.asking(o)
	if err != nil {
		a.status = p.Fail(err)
		return nil
	}
	out := &page{w: a.sys.Stdout}
	if err := f(s, out); err != nil {
		a.status = p.Fail(err)
	}
	if err := errors.Join(s.listed.Close(), s.close()); err != nil {
		a.note(err.Error())
	}
	if out.err != nil {
		a.status = p.Refuse(print.OutputLost, "output_lost", fmt.Sprintf("standard output could not be written (%v); nothing was changed", out.err))
	}
	return nil
}

func routesTable(routes []catalogue.Route) [][]string {
	rows := [][]string{{"NAME", "MODEL", "SPEAKS", "WINDOW", "OUTPUT", "PRICE", "KEY", "ROLES"}}
	for _, r := range routes {
		rows = append(rows, []string{
			r.Name, r.Model.String(), orDash(string(r.Dialect)), count(r.Model.ContextWindow), count(r.Model.MaxOutput), priceOf(r.Price), keyOf(r), orDash(roles(r)),
		})
	}
	return rows
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func count(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

func priceOf(c *price.Card) string {
	if c == nil {
		return "unpriced"
	}
	return "$" + dollars(c.Rates.Input) + " $" + dollars(c.Rates.Output)
}

// keyOf says whether the key that a model needs can be had.
func keyOf(r catalogue.Route) string {
	fault, faulty := errors.AsType[*provider.Error](r.Fault)
	switch {
	case faulty && fault.Class == provider.MissingKey:
		return r.KeyName + " is not set"
	case r.Fault != nil:
		return "its address cannot be used"
	case r.KeyName == "":
		return "not needed"
	}
	return r.KeyName
}

func roles(r catalogue.Route) string {
	var names []string
	for _, role := range r.Roles {
		names = append(names, string(role))
	}
	return strings.Join(names, ",")
}

func routesDocument(routes []catalogue.Route) []byte {
	var w jsonv.Writer
	w.Begin()
	w.Name("models")
	w.BeginArray()
	for _, r := range routes {
		w.Begin()
		w.Str("name", r.Name)
		w.Str("provider", r.Model.Provider)
		w.Str("model", r.Model.ModelID)
		optional := func(name, s string) {
			if s != "" {
				w.Str(name, s)
			}
		}
		optional("dialect", string(r.Dialect))
		optional("base_url", r.Base)
		if n := r.Model.ContextWindow; n > 0 {
			w.Num("context_window", n)
		}
		if n := r.Model.MaxOutput; n > 0 {
			w.Num("max_output_tokens", n)
		}
		if r.Price != nil {
			w.Name("price")
			priceDocument(&w, r.Price)
		}
		optional("key", r.KeyName)
		w.Flag("ready", r.Fault == nil)
		if r.Fault != nil {
			w.Str("fault", r.Fault.Error())
		}
		w.Flag("from_file", r.FromFile)
		optional("thinking", string(r.Thinking))
		if r.Vision != nil {
			w.Flag("vision", *r.Vision)
		}
		names := make([]string, len(r.Roles))
		for i, role := range r.Roles {
			names[i] = string(role)
		}
		w.Strs("roles", names)
		w.End()
	}
	w.EndArray()
	w.End()
	return w.Bytes()
}

func priceDocument(w *jsonv.Writer, c *price.Card) {
	w.Begin()
	ratesDocument(w, c.Rates)
	if len(c.Tiers) > 0 {
		w.Name("tiers")
		w.BeginArray()
		for _, t := range c.Tiers {
			w.Begin()
			w.Num("above_input_tokens", t.Above)
			ratesDocument(w, t.Rates)
			w.End()
		}
		w.EndArray()
	}
	if c.Source != "" {
		w.Str("source", c.Source)
		w.Str("date", c.Date)
	}
	w.End()
}

func ratesDocument(w *jsonv.Writer, r price.Rates) {
	for _, f := range []struct {
		name string
		rate *usage.Amount
	}{{"input", &r.Input}, {"output", &r.Output}, {"cache_read", r.CacheRead}, {"cache_write", r.CacheWrite}, {"cache_write_1h", r.CacheWrite1h}} {
		if f.rate != nil {
			w.Name(f.name)
			w.Literal(f.rate.Literal())
		}
	}
}

func (a *app) modelsCheckCommand() *cobra.Command {
	var o askOptions
	cmd := &cobra.Command{
		Use:   "check [MODEL...]",
		Short: "Send one tiny request to models, and say how each answered",
		Long: "Send one tiny request to models, and say how each answered.\n" +
			"Without a name these are the models of loom.toml, and where there are none the default model of every vendor whose key is set.\n" +
			"The requests cost what a few tokens cost, and are in no session. No other model stands in for one that fails.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.catalogued(o, func(s setup, out *page) error { return a.checkModels(cmd.Context(), s, args, out) })
		},
	}
	o.flags(cmd)
	return cmd
}

// checkPatience bounds one request of a check.
const checkPatience = time.Minute

// checkModels asks one model after the other: a check is to say what is wrong, not to be fast.
func (a *app) checkModels(ctx context.Context, s setup, names []string, out *page) error {
	if len(names) == 0 {
		names = s.listed.Configured()
	}
	if len(names) == 0 {
		a.note("no model is configured: set a key (" + strings.Join(catalogue.KeyVariables(), ", ") + "), write loom.toml, or name a model; nothing was sent")
		return nil
	}
	for _, name := range names {
		line, answered := a.checkModel(ctx, s, name)
		if ctx.Err() != nil {
			a.status = a.printer(print.Text).Refuse(print.Interrupted, codeInterrupted, errInterrupted.Error())
			return nil
		}
		out.text(say.Line(line, maxNote))
		if !answered {
			a.status = print.RunFailed
		}
	}
	return nil
}

func (a *app) checkModel(ctx context.Context, s setup, name string) (line string, answered bool) {
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	began := time.Now()
	m, err := s.listed.Probe(ctx, name)
	if err != nil {
		return name + ": " + err.Error(), false
	}
	return fmt.Sprintf("%s: %s/%s answered in %s (%s)%s", name, m.Provider, m.Model, time.Since(began).Round(time.Millisecond), m.StopReason, spent(m)), true
}

func spent(m *message.Assistant) string {
	if _, known := m.Usage.Evidence.Tokens(); !known {
		return ", and did not say how many tokens that took"
	}
	text := fmt.Sprintf(", %d tokens in, %d out", m.Usage.Input+m.Usage.CacheRead+m.Usage.CacheWrite, m.Usage.Output)
	if _, _, priced := m.Usage.Evidence.Price(); priced {
		text += ", $" + dollars(m.Usage.Cost.Total)
	}
	return text
}
