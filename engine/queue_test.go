package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/session"
)

// queued renders a queue: where each input waits and what it says.
func queued(t *testing.T, e *engine.Engine) (list []string) {
	t.Helper()
	all, err := e.Queue(session.MainStrand)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range all {
		body, _ := q.Body.Body.(entry.Message)
		u, _ := body.Message.(*message.User)
		list = append(list, fmt.Sprint([]string{"steer", "follow-up", "writes", "next run"}[q.Queue], ": ", message.TextOf(u.Content)))
	}
	return list
}

func steering(s string) engine.Prompt {
	p := text(s)
	p.Delivery = engine.AtOnce
	return p
}

// undriven is an engine whose driver steps only when a test says so.
func undriven(t *testing.T, w *world, turns ...turn) (*engine.Engine, *engine.Driver) {
	t.Helper()
	cfg, _ := config(w, w.store, turns)
	e, err := engine.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := cfg.Session.EnsureStrand(session.MainStrand, fakeConfiguration); err != nil {
		t.Fatal(err)
	}
	return e, e.Driver(session.MainStrand)
}

func send(t *testing.T, e *engine.Engine, p engine.Prompt) engine.Receipt {
	t.Helper()
	r, err := e.Prompt(session.MainStrand, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestInputAfterAnAbortStartsARunOfItsOwn: and what the abort took out of its run comes first in it. A process that dies in between changes nothing.
func TestInputAfterAnAbortStartsARunOfItsOwn(t *testing.T) {
	for _, crash := range []bool{false, true} {
		w := newWorld()
		e, d := undriven(t, w, say("ok"))
		send(t, e, text("first"))
		send(t, e, text("a follow-up"))
		send(t, e, steering("steering"))
		if _, _, err := e.Abort(session.MainStrand); err != nil {
			t.Fatal(err)
		}
		if r := send(t, e, text("late")); !r.Queued || !r.Op.IsZero() {
			t.Errorf("receipt %+v", r)
		}
		want := []string{"next run: steering", "next run: a follow-up", "next run: late"}
		if got := queued(t, e); !slices.Equal(got, want) {
			t.Errorf("the queue is %q, want %q", got, want)
		}
		if crash {
			e.Close()
			e, d = undriven(t, w, say("ok"))
		}
		drain(t, d)
		wantTranscript(t, w, "user first", "user steering", "user a follow-up", "user late", "assistant stop ok")
		settled(t, w)
		if got := queued(t, e); len(got) > 0 {
			t.Errorf("still queued: %q", got)
		}
	}
}

func TestWhatAnAbortTookOutOfARunWaitsForAPerson(t *testing.T) {
	w := newWorld()
	e, d := undriven(t, w, say("ok"))
	send(t, e, text("first"))
	send(t, e, text("a follow-up"))
	if _, _, err := e.Abort(session.MainStrand); err != nil {
		t.Fatal(err)
	}
	drain(t, d)
	settled(t, w)
	if got := queued(t, e); !slices.Equal(got, []string{"next run: a follow-up"}) {
		t.Errorf("queued: %q", got)
	}
	wantTranscript(t, w, "user first")
	send(t, e, text("again"))
	drain(t, d)
	wantTranscript(t, w, "user first", "user a follow-up", "user again", "assistant stop ok")
}

// TestALimitOfTurnsHoldsForTheRunThatFollows: it was asked for with input that no open run took.
func TestALimitOfTurnsHoldsForTheRunThatFollows(t *testing.T) {
	w := newWorld()
	e, d := undriven(t, w, callTools("safe"), say("never"))
	send(t, e, text("first"))
	if _, _, err := e.Abort(session.MainStrand); err != nil {
		t.Fatal(err)
	}
	late := text("late")
	late.MaxTurns = new(int64(1))
	send(t, e, late)
	send(t, e, text("later"))
	drain(t, d)
	last, _, err := e.Session().LastResult(session.MainStrand)
	if err != nil || last.Value.Error == nil || last.Value.Error.Code != machine.CodeMaxTurns {
		t.Errorf("%+v, %v", last.Value, err)
	}
}

func TestSteeringIsSeenBeforeTheNextRequestAndAnIdleStrandTakesItAtOnce(t *testing.T) {
	w := newWorld()
	e, d := undriven(t, w, callTools("safe"), say("two"), say("three"))
	if r := send(t, e, steering("go")); r.Queued {
		t.Errorf("an idle strand queued it: %+v", r)
	}
	send(t, e, text("afterwards"))
	for calls := false; !calls; {
		st, _ := stateOf(t, e).Work.(*machine.Run)
		_, calls = st.Phase.(machine.RunningTools)
		if !calls {
			if _, err := d.Step(func(f func()) { f() }); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(t, e, steering("look there"))
	drain(t, d)
	wantTranscript(t, w, "user go", "assistant toolUse  call:safe-0", "result safe-0 error=false did safe-0", "user look there",
		"assistant stop two", "user afterwards", "assistant stop three")
	settled(t, w)
}

// stateOf is the state of the open operation.
func stateOf(t *testing.T, e *engine.Engine) machine.State {
	t.Helper()
	op, ok, err := e.Current(session.MainStrand)
	if err != nil || !ok {
		t.Fatalf("no operation is open: %v", err)
	}
	st, _, err := e.Session().OpState(op)
	if err != nil {
		t.Fatal(err)
	}
	return st.Value
}

func TestQueuedInputIsEditedByItsAuthorAsItWasSeen(t *testing.T) {
	w := newWorld()
	e, d := undriven(t, w, say("one"), say("two"))
	ann, err := message.Human("ann", "Ann")
	if err != nil {
		t.Fatal(err)
	}
	bob, err := message.Human("bob", "Ann")
	if err != nil {
		t.Fatal(err)
	}
	send(t, e, text("go"))
	mine := text("draft")
	mine.Origin = &ann
	r := send(t, e, mine)
	all, err := e.Queue(session.MainStrand)
	if err != nil || len(all) != 1 || all[0].ID != r.Entry {
		t.Fatalf("%+v, %v", all, err)
	}
	seen := all[0].Seq
	edit := func(seq int64, author *message.Origin, s string) error {
		_, err := e.EditQueued(session.MainStrand, r.Entry, seq, author, []message.UserBlock{message.Text{Text: s}})
		return err
	}
	if err := edit(seen, &bob, "stolen"); !errors.Is(err, machine.ErrNotAuthor) {
		t.Errorf("another author: %v", err)
	}
	if err := edit(seen, nil, "stolen"); !errors.Is(err, machine.ErrNotAuthor) {
		t.Errorf("nobody: %v", err)
	}
	if err := edit(seen, &ann, ""); !errors.Is(err, machine.ErrInvalidMessage) {
		t.Errorf("nothing: %v", err)
	}
	if err := edit(seen, &ann, "better"); err != nil {
		t.Fatal(err)
	}
	if err := edit(seen, &ann, "lost update"); !errors.Is(err, engine.ErrQueueMoved) {
		t.Errorf("a second edit of the same sight: %v", err)
	}
	all, _ = e.Queue(session.MainStrand)
	drain(t, d)
	wantTranscript(t, w, "user go", "assistant stop one", "user better", "assistant stop two")
	if err := edit(all[0].Seq, &ann, "too late"); !errors.Is(err, machine.ErrNotPending) {
		t.Errorf("an edit of what was taken: %v", err)
	}
	if _, err := e.Withdraw(session.MainStrand, r.Entry); !errors.Is(err, machine.ErrNotPending) {
		t.Errorf("a withdrawal of what was taken: %v", err)
	}
}

func TestWithdrawnInputIsNeverTaken(t *testing.T) {
	w := newWorld()
	e, d := undriven(t, w, say("one"), say("two"))
	send(t, e, text("go"))
	follow, steer := send(t, e, text("follow-up")), send(t, e, steering("steering"))
	if _, err := e.Withdraw(session.MainStrand, steer.Entry); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.Abort(session.MainStrand); err != nil {
		t.Fatal(err)
	}
	late := send(t, e, text("late"))
	for _, i := range []engine.Receipt{follow, late} {
		if _, err := e.Withdraw(session.MainStrand, i.Entry); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Withdraw(session.MainStrand, i.Entry); !errors.Is(err, machine.ErrNotPending) {
			t.Errorf("withdrawn twice: %v", err)
		}
	}
	drain(t, d)
	wantTranscript(t, w, "user go")
	settled(t, w)
	if _, open, err := e.Current(session.MainStrand); open || err != nil {
		t.Errorf("a run was started for input that was withdrawn: %v", err)
	}
}
