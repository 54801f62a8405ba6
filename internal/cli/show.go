package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/sdkmsg"
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
				var to transcript = &readable{out: out, state: client.New(plane.Watch{Session: s, Strand: mainStrand}, project.Redraws)}
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

func (r *readable) paragraph(m sdkmsg.Message) {
	switch m := m.(type) {
	case sdkmsg.Assistant:
		for _, b := range m.Message.Content {
			r.said(b)
		}
	case sdkmsg.User:
		if facts := m.Loom; facts != nil && facts.Summary {
			r.out.text("\n[compacted] " + m.Message.Content.Texts())
			return
		}
		results := false
		for _, b := range m.Message.Content {
			if t, ok := b.(sdkmsg.ToolResult); ok {
				r.out.text(quoted(t))
				results = true
			}
		}
		if !results {
			r.out.text("\n> " + strings.ReplaceAll(m.Message.Content.Texts(), "\n", "\n> "))
		}
	case sdkmsg.Informational:
		r.out.text("\n[" + strings.ReplaceAll(m.Tag, "_", " ") + "] " + m.Content)
	case sdkmsg.TaskNotification:
		r.out.text("\n[task " + say.Line(m.Status, maxShownArguments) + "] " + m.Summary)
	case sdkmsg.Result:
		cause, ok := project.EndingOf(m)
		if !ok {
			return
		}
		r.out.text("\n[" + cause.Word() + reason(cause) + "]")
	case sdkmsg.CompactBoundary, sdkmsg.PermissionDenied, sdkmsg.Init, sdkmsg.Unknown:
	}
}

// said is one block of a response.
func (r *readable) said(b sdkmsg.Block) {
	switch b := b.(type) {
	case sdkmsg.TextBlock:
		r.out.text("\n" + b.Text)
	case sdkmsg.Thinking:
		r.out.text("\n(reasoning) " + b.Thinking)
	case sdkmsg.RedactedThinking:
		r.out.text("\n(reasoning) " + b.Data)
	case sdkmsg.ToolUse:
		r.out.text("\n* " + say.Line(b.Name+" "+b.Input.String(), maxShownArguments))
	case sdkmsg.ToolResult, sdkmsg.Image, sdkmsg.UnknownBlock:
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
func quoted(r sdkmsg.ToolResult) string {
	var parts []string
	images := 0
	for _, b := range r.Content {
		switch b := b.(type) {
		case sdkmsg.TextBlock:
			parts = append(parts, strings.TrimRight(b.Text, "\n"))
		case sdkmsg.Image:
			images++
		default: // a result has nothing else for a person
		}
	}
	if images > 0 {
		parts = append(parts, "("+counted(images, "image")+")")
	}
	margin := "  | "
	if r.IsError {
		margin = "  ! "
	}
	return margin + strings.ReplaceAll(say.Clean(strings.Join(parts, "\n"), maxShownResult), "\n", "\n"+margin)
}
