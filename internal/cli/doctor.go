package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/node"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what there is and what is wrong with it",
		Long: "Say what there is and what is wrong with it: the place for sessions, the sessions, the search index.\n" +
			"Nothing is changed. `loom check ID` looks into one session, `loom models check` asks the models.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(ctx context.Context, l *link, out *page) error { return a.doctor(ctx, l, out) })
		},
	}
}

func (a *app) doctor(ctx context.Context, l *link, out *page) error {
	out.text("state root: " + l.home.Dir())
	list, err := l.Sessions(ctx)
	if err != nil {
		return err
	}
	count := map[words.SessionStatus]int{}
	for _, s := range list.Sessions {
		count[s.Status]++
	}
	line := fmt.Sprintf("sessions: %d", len(list.Sessions))
	for _, s := range []struct {
		status words.SessionStatus
		says   string
	}{
		{words.SessionInterrupted, "%d interrupted, which `loom resume` finishes"}, {words.SessionHeld, "%d run in another process"},
		{words.SessionUnreadable, "%d cannot be read, see `loom sessions`"},
	} {
		if n := count[s.status]; n > 0 {
			line += "; " + fmt.Sprintf(s.says, n)
		}
	}
	out.text(line)
	health, err := l.node.SearchHealth()
	if err != nil {
		return explained(err)
	}
	out.text("search index: " + searchHealth(health))
	return nil
}

// searchHealth is a line on the index.
func searchHealth(h node.SearchHealth) string {
	switch {
	case !h.There:
		return "none yet, the first search makes it"
	case h.Unusable != nil:
		return "cannot be used, and the next search makes it anew"
	}
	line := fmt.Sprintf("%d entries of %s", h.Entries, counted(h.Sessions, "session"))
	if h.Behind > 0 {
		line += fmt.Sprintf("; %s changed since, which the next search reads first", counted(h.Behind, "session"))
	}
	return line
}
