package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/admin"
	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/core/needle"
	"github.com/loom-run/loom/host/print"
	"github.com/loom-run/loom/wire"
)

// eraseOptions are the options of `loom erase`.
type eraseOptions struct {
	session             option[string]
	all, dryRun, asJSON bool
	fromStdin           bool
}

func (a *app) eraseCommand() *cobra.Command {
	var o eraseOptions
	cmd := &cobra.Command{
		Use:   "erase --text-from-stdin (--session ID | --all)",
		Short: "Take a text, such as a key, out of a session and all its forks, and write a receipt",
		Long: "Take a text, such as a key, out of a session and all its forks, and write a receipt.\n" +
			"The text is read from standard input and from nowhere else; one newline at its end is not a part of it. It is found as it is, in JSON, in URLs and in base64,\n" +
			"in what was said, in results, in outputs, in whatever else is kept; each place is then told as clean, as unreachable, or as not searched.\n" +
			"A session that runs is left alone. Lines of the answer are places; the receipt is a file.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 { // which may be the text: it is not repeated
				return errors.New("`loom erase` takes no argument; give the text on standard input, as in `loom erase --text-from-stdin --all < FILE`; nothing was changed")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := a.needle(o)
			if err != nil {
				return err
			}
			return a.erase(cmd.Context(), o, n)
		},
	}
	cmd.SetFlagErrorFunc(func(*cobra.Command, error) error { // as above: the error may quote it
		return errors.New("an option of `loom erase` is wrong; nothing was changed, `loom erase --help` lists the options")
	})
	o.session = option[string]{kind: "ID", parse: text}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&o.fromStdin, "text-from-stdin", false, "read the text to erase from standard input (required)")
	f.Var(&o.session, "session", "erase from this session, all its forks and their forks")
	f.BoolVar(&o.all, "all", false, "erase from everything that loom keeps")
	f.BoolVar(&o.dryRun, "dry-run", false, "only search and count; nothing is changed and no receipt is written")
	f.BoolVar(&o.asJSON, "json", false, "print the receipt as one JSON object")
	return cmd
}

// needle reads the text to erase. No error of it says what was read.
func (a *app) needle(o eraseOptions) (needle.Needle, error) {
	const kept = "; nothing was changed"
	switch {
	case !o.fromStdin:
		return needle.Needle{}, errors.New("`loom erase` needs --text-from-stdin" + kept)
	case o.all == (o.session.given != nil):
		return needle.Needle{}, errors.New("`loom erase` needs either --session or --all" + kept)
	case a.sys.Stdin == nil || terminal(a.sys.Stdin):
		return needle.Needle{}, errors.New("the text comes from a file or a pipe on standard input, so that no screen shows it" + kept)
	}
	raw, err := io.ReadAll(io.LimitReader(a.sys.Stdin, needle.MaxSize+3))
	if err != nil {
		return needle.Needle{}, errors.New("standard input cannot be read" + kept)
	}
	text, cut := strings.CutSuffix(string(raw), "\n")
	if cut {
		text = strings.TrimSuffix(text, "\r")
	}
	n, err := needle.New(text)
	if err != nil {
		return needle.Needle{}, fmt.Errorf("%w%s", err, kept)
	}
	return n, nil
}

func (a *app) erase(ctx context.Context, o eraseOptions, n needle.Needle) error {
	var r admin.Receipt
	err := a.with(ctx, func(ctx context.Context, l *link, out *page) error {
		e := admin.Erasure{Needle: n, All: o.all, DryRun: o.dryRun}
		if o.session.given != nil {
			var err error
			if e.Session, err = l.find(ctx, *o.session.given); err != nil {
				return quiet(err, n)
			}
		}
		var kept string
		var err error
		r, kept, err = l.node.Erase(e)
		if r.At == 0 {
			return quiet(explained(err), n)
		}
		if o.asJSON {
			out.json(append(r.Append(nil), '\n'))
		} else {
			for _, line := range erasureLines(r, kept) {
				out.text(line)
			}
		}
		return quiet(explained(err), n)
	})
	if a.status == print.Done {
		a.status = ofErasure(r.Worst())
	}
	return err
}

// quiet leaves out an error that shows the text: the id that was typed may be it.
func quiet(err error, n needle.Needle) error {
	if err == nil || !n.In(err.Error()) {
		return err
	}
	return refused(wire.UnknownSession, "there is no such session; nothing was changed")
}

func ofErasure(o admin.Outcome) print.Exit {
	switch o {
	case admin.Unreachable:
		return print.Remains
	case admin.NotSearched:
		return print.Unsearched
	case admin.Clean, admin.Present:
	}
	return print.Done
}

// erasureLines is a receipt as a person reads it.
func erasureLines(r admin.Receipt, kept string) (lines []string) {
	counts := make(map[admin.Outcome]int)
	for _, a := range r.Accounts {
		counts[a.Outcome]++
		line := fmt.Sprintf("%-12s %s %s", strings.ReplaceAll(string(a.Outcome), "_", " "), a.Store, say.Line(a.Subject, maxColumn))
		switch {
		case a.Erased > 0:
			line += fmt.Sprintf(": %d erased", a.Erased)
		case a.Found.Texts > 0:
			line += fmt.Sprintf(": %d there", a.Found.Texts)
		}
		if a.Reason != "" {
			line += " (" + say.Line(a.Reason, maxFinding) + ")"
		}
		lines = append(lines, line)
	}
	verb := "erased"
	if r.DryRun {
		verb = "would be erased; nothing was changed"
	}
	n := r.Erased()
	if r.DryRun {
		n = r.WouldErase()
	}
	last := fmt.Sprintf("%s %s", counted(int(n), "occurrence"), verb)
	if !r.Coded {
		last += "; the text is too short to be looked for in base64"
	}
	if kept != "" {
		last += "; receipt: " + say.Line(kept, maxColumn)
	}
	return append(lines, last)
}
