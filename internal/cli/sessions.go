package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/host/print"
	"github.com/loom-run/loom/wire"
)

func (a *app) sessionsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List the sessions, newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(ctx context.Context, l *link) error {
				list, err := l.Sessions(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					a.raw(list.Append(nil))
					return nil
				}
				for _, s := range list.Sessions {
					a.print(sessionLine(s))
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.AddCommand(a.showCommand())
	return cmd
}

// raw writes a line for a program to standard output.
func (a *app) raw(line []byte) {
	if _, err := a.sys.Stdout.Write(append(line, '\n')); err != nil {
		a.status = print.OutputLost
	}
}

func sessionLine(s wire.SessionInfo) string {
	text := func(t *string) string {
		if t == nil {
			return "-"
		}
		return say.Line(*t, maxLine)
	}
	when := "-"
	if at := s.UpdatedAt; at != nil {
		when = time.UnixMilli(*at).Format("2006-01-02 15:04")
	} else if at := s.CreatedAt; at != nil {
		when = time.UnixMilli(*at).Format("2006-01-02 15:04")
	}
	line := fmt.Sprintf("%s  %-11s  %s  %s  %s", s.Session, s.Status, when, text(s.Cwd), text(s.Title))
	if s.Note != nil {
		line += "  (" + say.Line(*s.Note, maxLine) + ")"
	}
	return line
}

func (a *app) showCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Print the transcript of a session",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(ctx context.Context, l *link) error {
				s, err := l.find(ctx, args[0])
				if err != nil {
					return err
				}
				return a.show(ctx, l, s, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object with every frame")
	return cmd
}

// show prints the whole history, page by page.
func (a *app) show(ctx context.Context, l *link, s id.SessionID, asJSON bool) error {
	state := client.New(plane.Watch{Session: s, Strand: mainStrand}, client.Redraws)
	w := jsonv.NewWriter(nil)
	if asJSON {
		w.Begin()
	}
	from := wire.FromStart()
	for first := true; ; first = false {
		page, err := l.Page(ctx, s, from, wire.MaxPage)
		if err != nil {
			return err
		}
		if asJSON {
			if first {
				writeHead(w, page.Info)
			}
			for _, f := range page.Frames {
				w.Value(mustParse(f.Append(nil)))
			}
		} else {
			if first {
				a.print(sessionLine(page.Info))
			}
			for _, f := range page.Frames {
				a.paragraphs(state.Step(f))
			}
		}
		if !page.More {
			break
		}
		from = wire.FromCursor(page.Next)
	}
	if asJSON {
		w.EndArray()
		w.End()
		a.raw(w.Bytes())
	}
	return nil
}

func writeHead(w *jsonv.Writer, info wire.SessionInfo) {
	w.Name("session")
	w.Value(mustParse(info.Append(nil)))
	w.Name("frames")
	w.BeginArray()
}

// mustParse reads text that an encoder of ours just wrote.
func mustParse(text []byte) jsonv.Value {
	v, err := jsonv.Parse(text)
	if err != nil {
		panic("cli: an encoder wrote JSON that does not parse: " + err.Error())
	}
	return v
}

// paragraphs prints what is kept of outputs, as a person reads it.
func (a *app) paragraphs(outputs []plane.Output) {
	for _, o := range outputs {
		t, ok := o.(plane.Transcript)
		if !ok {
			continue
		}
		switch m := t.Message().(type) {
		case plane.Prompt:
			a.print("\n> " + m.Text)
		case plane.Answer:
			a.print("\n" + m.Text)
		case plane.Reasoning:
			a.print("\n(reasoning) " + m.Text)
		case plane.Call:
			a.print("\n* " + m.Name + " " + say.Line(m.Arguments.String(), maxShownArguments))
		case plane.Result:
			a.print(indent(m))
		case plane.Ended:
			a.print("\n[" + m.Cause.Word() + "]")
		}
	}
}

// Bounds of what a transcript for people shows of a call, in bytes.
const (
	maxShownArguments = 400
	maxShownResult    = 4000
)

func indent(r plane.Result) string {
	var text []string
	for _, b := range r.Text {
		text = append(text, b.Text)
	}
	if r.Images > 0 {
		text = append(text, fmt.Sprintf("(%d images)", r.Images))
	}
	mark := "  | "
	if r.IsError {
		mark = "  ! "
	}
	shown := say.Clean(strings.Join(text, "\n"), maxShownResult)
	return mark + strings.ReplaceAll(strings.TrimRight(shown, "\n"), "\n", "\n"+mark)
}
