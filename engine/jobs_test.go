package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine/agency"
	"github.com/loom-run/loom/machine/job"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
)

// starts is a tool that starts a job.
func starts(work engine.Work) doing {
	return func(_ context.Context, e *engine.Engine, c agency.Caller, call string) (string, error) {
		r, _, err := e.StartJob(c, job.Record{Command: "work", Call: call, Deadline: 1000}, work)
		return r.ID, err
	}
}

// until is work that ends when it is told to, or is cancelled.
func until(end <-chan struct{}) engine.Work {
	return func(ctx context.Context, _ io.Reader, _ func(job.Tails)) (job.Exit, error) {
		select {
		case <-end:
			return job.Exit{}, nil
		case <-ctx.Done():
			return job.Exit{Interrupted: true}, nil
		}
	}
}

// told counts what the strands were told of jobs, placed or waiting.
func told(t *testing.T, w *world) (n int) {
	t.Helper()
	rows, err := w.store.ScanEntries(storage.EntryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range rows {
		if u, ok := messageOf(e).(*message.User); ok && strings.HasPrefix(message.TextOf(u.Content), "[background job") {
			n++
		}
	}
	waiting, err := w.store.Registers(register.PendingEntry, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range waiting {
		if strings.Contains(c.Value.String(), "[background job") {
			n++
		}
	}
	return n
}

func onlyJob(t *testing.T, e *engine.Engine) job.Record {
	t.Helper()
	all, err := e.Jobs("")
	if err != nil || len(all) != 1 {
		t.Fatalf("the jobs are %+v, %v", all, err)
	}
	return all[0]
}

func TestAJobThatEndsWakesItsStrandAndNotOneThatWasStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		end := make(chan struct{})
		p := troupe(t, w, map[string][]turn{
			"boss":   {callTools("start"), say("waiting"), say("told")},
			"parent": {callTools("spawn"), callTools("wait"), say("done")},
			"worker": {callTools("start"), say("waiting")},
		}, map[string]doing{"start": starts(until(end)), "spawn": spawning("worker"), "wait": waiting(t)})
		finish(t, p, prompt(t, p, text("part:boss")))
		close(end)
		synctest.Wait()
		if r := onlyJob(t, p.Engine); r.Status != job.Exited {
			t.Errorf("the job is %s", r.Status)
		}
		if got := branch(t, w, session.MainStrand); !strings.HasSuffix(got, "assistant stop told") || told(t, w) != 1 {
			t.Errorf("main holds %s", got)
		}
		p.Close()
	})
}

func TestWhoWaitsForAJobIsNotToldOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := troupe(t, w, map[string][]turn{"boss": {callTools("start"), callTools("poll"), say("seen")}}, map[string]doing{
			"start": starts(func(ctx context.Context, _ io.Reader, observe func(job.Tails)) (job.Exit, error) {
				observe(job.Tails{Stdout: job.Tail{Text: "x", Total: 1}})
				time.Sleep(time.Second) // of the clock of this test, on which everybody else waits
				return job.Exit{Code: 7}, nil
			}),
			"poll": func(ctx context.Context, e *engine.Engine, c agency.Caller, _ string) (string, error) {
				r, live, err := e.PollJob(ctx, c.Strand, onlyJob(t, e).ID, 10*time.Second)
				return r.Sentence() + live.Stdout.Text, err
			},
		})
		finish(t, p, prompt(t, p, text("part:boss")))
		synctest.Wait()
		if got := resultsOf(t, w, session.MainStrand); !strings.Contains(got, "ended with exit code 7x") || told(t, w) != 0 {
			t.Errorf("main read %s, and was told %d times", got, told(t, w))
		}
		p.Close()
	})
}

func TestAJobThatIsKilledIsToldToEndAfterThatIsDurable(t *testing.T) {
	w := newWorld()
	var atEnd job.Status
	var p *process
	p = troupe(t, w, map[string][]turn{"boss": {callTools("start"), say("waiting")}}, map[string]doing{
		"start": starts(func(ctx context.Context, _ io.Reader, _ func(job.Tails)) (job.Exit, error) {
			<-ctx.Done()
			all, err := p.Jobs("")
			atEnd = all[0].Status
			return job.Exit{Interrupted: true}, err
		}),
	})
	finish(t, p, prompt(t, p, text("part:boss")))
	id := onlyJob(t, p.Engine).ID
	if _, err := p.KillJob(t.Context(), "another", id, job.ByOwner); !errors.Is(err, job.ErrUnknown) {
		t.Errorf("another strand kills it: %v", err)
	}
	r, err := p.KillJob(t.Context(), session.MainStrand, id, job.ByOwner)
	if err != nil || r.Status != job.Killed || r.Cause != job.ByOwner || atEnd != job.Draining {
		t.Errorf("it is %+v, %v; it was %s when it was told to end", r, err, atEnd)
	}
	if err := p.SendJob(session.MainStrand, id, "x", false); !errors.Is(err, job.ErrOver) {
		t.Errorf("a job that is over was sent something: %v", err)
	}
	if n := told(t, w); n != 0 {
		t.Errorf("who killed it is told %d times", n)
	}
}

func TestLimitsOfJobs(t *testing.T) {
	w := newWorld()
	p := troupe(t, w, map[string][]turn{"boss": {callTools("start", "start", "start", "start", "start"), say("waiting")}}, map[string]doing{"start": starts(until(nil))})
	finish(t, p, prompt(t, p, text("part:boss")))
	all, err := p.Jobs(session.MainStrand)
	if got := resultsOf(t, w, session.MainStrand); err != nil || len(all) != job.MaxLive || !strings.Contains(got, "error=true 4 background jobs of yours are running, which is the limit") {
		t.Errorf("%d jobs, %v: %s", len(all), err, got)
	}
	if err := p.SendJob(session.MainStrand, all[0].ID, strings.Repeat("x", job.MaxInput), false); err != nil {
		t.Error(err)
	}
	if err := p.SendJob(session.MainStrand, all[0].ID, "x", false); !errors.Is(err, job.ErrFull) {
		t.Errorf("more than it can hold was sent: %v", err)
	}
}

func TestWorkThatFailsOrCrashesIsAnEnd(t *testing.T) {
	for name, c := range map[string]struct {
		work engine.Work
		want string
	}{
		"it never ran": {func(context.Context, io.Reader, func(job.Tails)) (job.Exit, error) {
			return job.Exit{}, errors.New("no program")
		}, "did not start: no program"},
		"nobody knows": {func(context.Context, io.Reader, func(job.Tails)) (job.Exit, error) {
			return job.Exit{}, &job.LostError{Why: "it hid"}
		}, "is lost: it hid"},
		"what ran it crashed": {func(context.Context, io.Reader, func(job.Tails)) (job.Exit, error) { panic("ouch") }, "is lost: what ran it crashed: ouch"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			p := troupe(t, w, map[string][]turn{"boss": {callTools("start"), say("waiting"), say("told")}}, map[string]doing{"start": starts(c.work)})
			finish(t, p, prompt(t, p, text("part:boss")))
			synctest.Wait()
			if got := transcript(t, w); !strings.Contains(got, c.want) || told(t, w) != 1 {
				t.Errorf("%s:\n%s", name, got)
			}
			p.Close()
		})
	}
}

// Whatever dies at whichever commit, the command ran at most once, the job is over in
// the end, and its owner was told exactly once.
func TestAJobRunsOnceAndItsEndIsToldOnceWhateverCrashes(t *testing.T) {
	for bang := 1; ; bang++ {
		w := newWorld()
		var ran atomic.Int64
		work := func(context.Context, io.Reader, func(job.Tails)) (job.Exit, error) {
			ran.Add(1)
			return job.Exit{Code: 3}, nil
		}
		parts := map[string][]turn{"boss": {callTools("start"), say("one"), say("two"), say("three")}}
		fired := false
		for life := 0; ; life++ {
			b := &bomb{Store: w.store, t: t, w: w, dead: make(chan struct{})}
			if life == 0 {
				b.left = bang
			}
			err := liveFamily(t, w, b, parts, map[string]doing{"start": starts(work)})
			select {
			case <-b.dead:
				fired = true
				w.store = w.store.Reopen()
				continue
			default:
			}
			if err != nil {
				t.Fatalf("crash at commit %d, life %d: %v\n%s", bang, life, err, transcript(t, w))
			}
			break
		}
		// The last life may have closed before the job was over: one more opening says how it stands.
		w.store = w.store.Reopen()
		if err := liveFamily(t, w, w.store, parts, map[string]doing{"start": starts(work)}); err != nil {
			t.Fatal(err)
		}
		all, err := engine.JobsOf(session.NewView(w.store), "")
		if err != nil || len(all) != 1 || !all[0].Status.Ended() {
			t.Fatalf("crash at commit %d: the jobs are %+v, %v", bang, all, err)
		}
		if n := told(t, w); n != 1 || ran.Load() > 1 {
			t.Errorf("crash at commit %d: told %d times, ran %d times, %s\n%s", bang, n, ran.Load(), all[0].Status, transcript(t, w))
		}
		sound(t, w, fmt.Sprintf("crash at commit %d", bang))
		if !fired {
			if bang < 15 {
				t.Errorf("the scenario has %d commits, which is too few", bang)
			}
			return
		}
	}
}
