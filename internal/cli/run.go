package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/host/print"
	"github.com/loom-run/loom/provider/catalogue"
	"github.com/loom-run/loom/wire"
)

func (a *app) runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run PROMPT",
		Short: "Run a prompt in the current directory and print the answer",
		Long: "Run a prompt in the current directory and print the answer.\n" +
			"Text from a pipe or a file on standard input is appended to the prompt.\n" +
			"The session is kept: --continue goes on with it, and an interrupted run is finished first.",
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), o, args) },
	}
	o.flags(cmd)
	return cmd
}

// run is the main job.
func (a *app) run(ctx context.Context, o runOptions, args []string) error {
	if o.again && o.session.given != nil {
		return errors.New("--continue and --session exclude each other; nothing was started, leave one out")
	}
	text, err := a.prompt(ctx, args)
	if err != nil {
		return err
	}
	p := a.printer(o.format.or(print.Text))
	l, err := a.ask(o.askOptions)
	if err != nil {
		a.status = p.Fail(err)
		return nil
	}
	defer a.hangUp(l)
	a.status = a.converse(ctx, l, o, wire.Prompt{Input: wire.Input{Text: text}, PermissionMode: o.mode.given, MaxTurns: o.maxTurns.given, ApproverPosture: a.posture(o)}, p)
	return nil
}

// converse finds or makes the session, prompts it and prints what comes. The first
// interrupt does not cut a request short: each is a few commits on this machine,
// and what became of one that was cut short nobody could say.
func (a *app) converse(ctx context.Context, l *link, o runOptions, q wire.Prompt, p *print.Printer) print.Exit {
	requests := a.interrupts.givenUp
	s, err := a.choose(requests, l, o, &q)
	if err != nil {
		return p.Fail(err)
	}
	p.Session(s)
	stream, err := l.Attach(requests, s, wire.FromHead())
	if err != nil {
		return p.Fail(err)
	}
	defer stream.Close()
	if ctx.Err() != nil {
		return p.Refuse(print.Interrupted, codeInterrupted, "interrupted before the prompt was sent; the session does not have it")
	}
	receipt, err := l.Prompt(requests, s, q)
	if err != nil {
		return p.Fail(err)
	}
	if receipt.Operation.IsZero() {
		return p.Refuse(print.Stopped, "queued", "the open run of the session is being aborted; the prompt is kept and goes before the next one")
	}
	if receipt.Status == wire.Queued {
		a.note("an interrupted run goes on first; the prompt is kept and follows it")
	}
	return a.follow(ctx, l, p, s, receipt.Operation, stream.Frames)
}

// posture says whether somebody will decide: who sits at a terminal does, unless they
// said otherwise or want one JSON object.
func (a *app) posture(o runOptions) *words.ApproverPosture {
	asks := askingRefuses
	if a.person() && o.format.or(print.Text) == print.Text {
		asks = askingWaits
	}
	return o.asks.or(asks).posture()
}

// choose returns the session to prompt, made anew if none was named.
func (a *app) choose(ctx context.Context, l *link, o runOptions, q *wire.Prompt) (id.SessionID, error) {
	if o.session.given != nil {
		q.Model = o.model.given
		s, err := l.find(ctx, *o.session.given)
		if err != nil || o.cwd.given == nil {
			return s, err
		}
		return s, a.sameDirectory(ctx, l, s, *o.cwd.given)
	}
	cwd, err := workspace(o.cwd.or(""))
	if err != nil {
		return id.SessionID{}, err
	}
	if o.again {
		q.Model = o.model.given
		s, passed, err := l.newest(ctx, cwd)
		if err == nil && passed > 0 {
			a.note(fmt.Sprintf("%s that may be newer cannot be read and was passed over, see `loom sessions`", counted(passed, "session")))
		}
		return s, err
	}
	if o.model.given == nil {
		if chosen, err := l.setup.models.Choose(""); err == nil && chosen.Reason == catalogue.NoKey {
			a.note("there is no key of a model (" + strings.Join(catalogue.KeyVariables(), ", ") + "), so the built-in demo answers: fixed rules, not a language model")
		}
	}
	made, err := l.Create(ctx, wire.CreateSession{Cwd: cwd, Model: o.model.given, PermissionMode: o.mode.or(words.ModeDefault)})
	return made.Session, err
}

// sameDirectory refuses a directory that is not the session's: a session works
// where it was made.
func (a *app) sameDirectory(ctx context.Context, l *link, s id.SessionID, asked string) error {
	cwd, err := workspace(asked)
	if err != nil {
		return err
	}
	head, err := l.Page(ctx, s, wire.FromHead(), 1)
	if err != nil {
		return err
	}
	if is := head.Info.Cwd; is != nil && *is != cwd {
		return refused(wire.BadCwd, "the session works in %s and --cwd names %s; nothing was started, leave out --cwd or start a new session", *is, cwd)
	}
	return nil
}

// workspace is the directory to work in, without symbolic links, so that the same
// place is the same session whatever way led to it.
func workspace(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", refused(wire.BadCwd, "the current directory is gone (%v); nothing was started, go to one that exists or name it with --cwd", err)
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real, nil
	}
	return abs, nil // the server says what is wrong with it
}

// abortWait bounds how long the end of an aborted run is waited for: commands get
// two seconds to end by themselves.
const abortWait = 15 * time.Second

// liveCadence is how often live text is let go: sixty times a second is as often
// as a screen shows it.
const liveCadence = 16 * time.Millisecond

// mainStrand is the strand that a person talks to.
const mainStrand = "main"

// follow prints one run to its end.
func (a *app) follow(ctx context.Context, l *link, p *print.Printer, s id.SessionID, op id.OpID, src client.Source) print.Exit {
	return p.Follow(ctx, plane.Watch{Session: s, Strand: mainStrand, Operation: op}, src, client.Ports{
		Timer: func(d time.Duration) (<-chan time.Time, func()) {
			t := time.NewTimer(d)
			return t.C, func() { t.Stop() }
		},
		Coalesce: liveCadence,
		Abort: func(ctx context.Context) error {
			_, err := l.Abort(ctx, s, wire.Abort{})
			return err
		},
		AbortWait: abortWait,
		Parked:    a.parked(l, s),
		GiveUp:    a.interrupts.givenUp.Done(),
	})
}
