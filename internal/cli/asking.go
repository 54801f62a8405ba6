package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/wire"
)

// asking is what becomes of a call that a person must decide about.
type asking uint8

const (
	askingRefuses asking = iota // it is refused at once
	askingWaits                 // it waits: a person is asked here, or the run pauses
)

func askingWord(s string) (asking, error) {
	switch s {
	case "wait":
		return askingWaits, nil
	case "refuse":
		return askingRefuses, nil
	}
	return 0, errors.New("there are wait and refuse")
}

// posture is what the server is told of that.
func (o asking) posture() *words.ApproverPosture {
	if o == askingWaits {
		return new(words.ApproverResident)
	}
	return new(words.ApproverAbsent)
}

// person reports whether somebody sits at the terminal who reads and answers. The null
// device looks like a terminal and nobody sits there.
func (a *app) person() bool {
	if a.sys.Stdin == nil || !terminal(a.sys.Stdin) || !terminal(a.sys.Stderr) {
		return false
	}
	in, err := a.sys.Stdin.Stat()
	null, nerr := os.Stat(os.DevNull)
	return err == nil && (nerr != nil || !os.SameFile(in, null))
}

// lines reads what a person types. A read cannot be ended, so one reader goes on over
// all questions.
type lines struct{ typed chan string }

func (a *app) typed() *lines {
	if a.lines == nil {
		a.lines = &lines{typed: make(chan string)}
		go func(to chan<- string) {
			defer close(to)
			in := bufio.NewReader(io.LimitReader(a.sys.Stdin, maxPrompt))
			for {
				text, err := in.ReadString('\n')
				if text != "" {
					to <- strings.TrimRight(text, "\r\n")
				}
				if err != nil {
					return
				}
			}
		}(a.lines.typed)
	}
	return a.lines
}

// line is what was typed next; ok is false where nothing will be.
func (l *lines) line(ctx context.Context) (text string, ok bool) {
	select {
	case text, ok = <-l.typed:
		return text, ok
	case <-ctx.Done():
		return "", false
	}
}

// parked decides about what waits, with the person at the terminal. It returns false
// where something was left open: the run stays paused.
func (a *app) parked(l *link, s id.SessionID) func(context.Context) bool {
	if !a.person() {
		return func(context.Context) bool { return false }
	}
	return func(ctx context.Context) bool {
		decided := false
		for {
			rows, err := l.Pending(ctx, s)
			if err != nil {
				a.note(err.Error())
				return false
			}
			if len(rows.Rows) == 0 {
				return decided
			}
			row := rows.Rows[0]
			a.show(shownRow(row))
			ok, err := a.askAbout(ctx, l, s, row)
			if err != nil {
				a.note(err.Error())
			}
			if !ok {
				return false
			}
			decided = true
		}
	}
}

// show writes lines that are harmless to the person.
func (a *app) show(text string) { _, _ = fmt.Fprint(a.sys.Stderr, text) } // who closed it does not want to know

// askAbout asks about one row; ok is false where it was left open.
func (a *app) askAbout(ctx context.Context, l *link, s id.SessionID, row wire.Pending) (ok bool, err error) {
	switch r := row.(type) {
	case wire.ApprovalRequest:
		return a.askCall(ctx, l, s, r)
	case wire.PlanRequest:
		switch typed, _ := a.typeIn(ctx, "y accepts the plan, n or what is wrong with it rejects it, Enter leaves it open: "); strings.ToLower(typed) {
		case "":
			return false, nil
		case "y", "yes":
			_, err = l.DecidePlan(ctx, s, planOf(r, words.PlanAccept))
			return err == nil, err
		default:
			q := planOf(r, words.PlanReject)
			if typed != "n" && typed != "no" {
				q.Message = &typed
			}
			_, err = l.DecidePlan(ctx, s, q)
			return err == nil, err
		}
	case wire.QuestionRequest:
		given := make([]string, len(r.Questions))
		for i, q := range r.Questions {
			typed, there := a.typeIn(ctx, say.Line(q.ID, maxColumn)+"? ")
			if !there || typed == "" {
				return false, nil
			}
			given[i] = typed
		}
		q, err := answered(r, given)
		if err == nil {
			_, err = l.Answer(ctx, s, q)
		}
		return err == nil, err
	default:
		return false, nil
	}
}

func (a *app) askCall(ctx context.Context, l *link, s id.SessionID, r wire.ApprovalRequest) (bool, error) {
	keys := "y allows it once"
	for _, life := range r.Lifetimes {
		switch life {
		case words.GrantSession:
			keys += ", s the same in this session"
		case words.GrantExact:
			keys += ", e exactly this in this session"
		case words.GrantOnce:
		}
	}
	for {
		typed, there := a.typeIn(ctx, keys+", n refuses it, x refuses it and stops the run, Enter leaves it open: ")
		var q wire.Decide
		switch strings.ToLower(strings.TrimSpace(typed)) {
		case "":
			return false, nil
		case "y", "yes":
			q = decidedOf(r, words.Allow)
		case "s":
			q = decidedOf(r, words.Allow)
			q.Lifetime = new(words.GrantSession)
		case "e":
			q = decidedOf(r, words.Allow)
			q.Lifetime = new(words.GrantExact)
		case "n", "no":
			q = decidedOf(r, words.Deny)
		case "x":
			q = decidedOf(r, words.Deny)
			q.Stop = true
		default:
			if !there {
				return false, nil
			}
			continue // what is no answer decides nothing
		}
		_, err := l.Decide(ctx, s, q)
		return err == nil, err
	}
}

// typeIn asks for a line.
func (a *app) typeIn(ctx context.Context, what string) (string, bool) {
	a.show(what)
	text, ok := a.typed().line(ctx)
	if !ok {
		a.show("\n")
	}
	return text, ok
}
