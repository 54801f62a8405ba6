package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/wire"
)

func (a *app) showCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Print the transcript of a session",
		Args:  oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(ctx context.Context, l *link, out *page) error {
				s, err := l.find(ctx, args[0])
				if err != nil {
					return err
				}
				var to transcript = &readable{out: out, state: client.New(plane.Watch{Session: s, Strand: mainStrand}, client.Redraws)}
				if asJSON {
					to = &document{out: out}
				}
				from, more := wire.FromStart(), true
				for first := true; more && out.err == nil; first = false {
					page, err := l.Page(ctx, s, from, wire.MaxPage)
					if err != nil {
						return err
					}
					if first {
						to.begin(page.Info)
					}
					for _, f := range page.Frames {
						to.frame(f)
					}
					from, more = wire.FromCursor(page.Next), page.More
				}
				to.end()
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object with every frame")
	return cmd
}

// transcript takes the history of a session, page by page: it is never held whole.
type transcript interface {
	begin(wire.SessionInfo)
	frame(wire.Frame)
	end()
}

// document is the history as one JSON object.
type document struct {
	out    *page
	frames int
}

func (d *document) begin(info wire.SessionInfo) {
	d.out.json(slices.Concat([]byte(`{"session":`), wire.Encode(info), []byte(`,"frames":[`)))
}

func (d *document) frame(f wire.Frame) {
	var text []byte
	if d.frames > 0 {
		text = append(text, ',')
	}
	d.frames++
	d.out.json(f.Append(text))
}

func (d *document) end() { d.out.raw("]}\n") }

// readable is the history as a person reads it.
type readable struct {
	out   *page
	state *client.State
}

func (r *readable) begin(info wire.SessionInfo) { r.out.text(sessionLine(info)) }

func (r *readable) end() {}

func (r *readable) frame(f wire.Frame) {
	for _, o := range r.state.Step(f) {
		if kept, ok := o.(plane.Transcript); ok {
			r.paragraph(kept.Message())
		}
	}
}

// Bounds of what is shown of a call, in bytes; the rest is in --json.
const (
	maxShownArguments = 400
	maxShownResult    = 4000
)

func (r *readable) paragraph(m plane.Message) {
	switch m := m.(type) {
	case plane.Prompt:
		r.out.text("\n> " + strings.ReplaceAll(m.Text, "\n", "\n> "))
	case plane.Answer:
		r.out.text("\n" + m.Text)
	case plane.Reasoning:
		r.out.text("\n(reasoning) " + m.Text)
	case plane.Call:
		r.out.text("\n* " + say.Line(m.Name+" "+m.Arguments.String(), maxShownArguments))
	case plane.Result:
		r.out.text(quoted(m))
	case plane.Compacted:
		r.out.text("\n[compacted] " + m.Boundary.Summary)
	case plane.BranchLeft:
		r.out.text("\n[branch left] " + m.Summary.Summary)
	case plane.Ended:
		r.out.text("\n[" + m.Cause.Word() + reason(m.Cause) + "]")
	}
}

// reason is why a run failed.
func reason(c wire.Cause) string {
	if f, ok := c.(wire.Failed); ok {
		return ": " + say.Line(f.Message, maxShownArguments)
	}
	return ""
}

// quoted is a result behind a margin, so that it is not taken for an answer.
func quoted(r plane.Result) string {
	var parts []string
	for _, b := range r.Text {
		parts = append(parts, strings.TrimRight(b.Text, "\n"))
	}
	if r.Images > 0 {
		parts = append(parts, "("+counted(r.Images, "image")+")")
	}
	margin := "  | "
	if r.IsError {
		margin = "  ! "
	}
	return margin + strings.ReplaceAll(say.Clean(strings.Join(parts, "\n"), maxShownResult), "\n", "\n"+margin)
}
