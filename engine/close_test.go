package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reopen closes the session of a process and boots another over it.
func reopen(t *testing.T, w *world, p *process, turns []turn) *process {
	t.Helper()
	p.Close()
	w.store = w.store.Reopen()
	return boot(t, w, turns)
}

func TestClosingDuringAGenerationRecordsNothingOfIt(t *testing.T) {
	w := newWorld()
	entered := make(chan struct{}, 1)
	p := boot(t, w, []turn{blocked(entered)})
	op := prompt(t, p, text("go"))
	<-entered
	p.Close()
	wantTranscript(t, w, "user go")
	if rows, _ := w.store.ScanUsage(storage.UsageQuery{}); len(rows) != 0 {
		t.Errorf("%d ledger rows", len(rows))
	}
	sound(t, w, "closed")
	if _, err := p.Await(t.Context(), session.MainStrand, op); err != engine.ErrClosed {
		t.Errorf("await: %v", err)
	}
	p = reopen(t, w, p, []turn{say("here again")})
	if got := finish(t, p, op); got.Outcome != machine.OutcomeCompleted {
		t.Errorf("result %+v", got)
	}
	settled(t, w)
}

func TestClosingDuringACallRecordsNoResult(t *testing.T) {
	w := newWorld()
	started := make(chan string, 16)
	p := boot(t, w, []turn{callTools("slow")}, listening(started))
	op := prompt(t, p, text("go"))
	<-started
	p.Close()
	p.tools.settled(t)
	wantTranscript(t, w, "user go", "assistant toolUse  call:slow-0")
	sound(t, w, "closed")
	p = reopen(t, w, p, []turn{nil, say("done")})
	finish(t, p, op)
	if got := transcript(t, w); !strings.Contains(got, "result slow-0 error=true "+interrupted) || w.ran["slow-0"] != 1 {
		t.Errorf("the call ran %d times and its result does not say that its outcome is unknown:\n%s", w.ran["slow-0"], got)
	}
	settled(t, w)
}

func TestCloseWaitsForAnEffectThatDoesNotListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		release := make(chan struct{})
		entered := make(chan struct{}, 1)
		p := boot(t, w, []turn{func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
			entered <- struct{}{}
			<-release // deaf to ctx
			return say("too late")(ctx, sink)
		}})
		prompt(t, p, text("go"))
		<-entered
		closed := make(chan struct{})
		go func() { p.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close returned while an effect was running")
		default:
		}
		close(release)
		<-closed
		wantTranscript(t, w, "user go")
	})
}

func TestAClosedEngineCommitsNothing(t *testing.T) {
	w := newWorld()
	p := boot(t, w, nil)
	before, _, _ := w.store.Register(register.StrandConfig, session.MainStrand)
	p.Close()
	p.Close() // again
	for what, err := range map[string]error{
		"prompt": second(p.Prompt(session.MainStrand, text("go"))),
		"start":  p.Start(fakeConfiguration),
		"configure": p.Configure(session.MainStrand, func(c machine.Configuration) machine.Configuration {
			c.Model.ModelID = "other"
			return c
		}),
	} {
		if !errors.Is(err, engine.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after, _, _ := w.store.Register(register.StrandConfig, session.MainStrand); after.Seq != before.Seq {
		t.Error("something was committed")
	}
}

func second[T any](_ T, err error) error { return err }

func TestTheLastWordOfAStrandComesAfterItsEffects(t *testing.T) {
	w := newWorld()
	facts := make(chan engine.Fact, 100)
	failing := &failingReads{Store: w.store}
	started := make(chan string, 16)
	p := boot(t, w, []turn{callTools("slow", "safe")}, listening(started), func(c *engine.Config) {
		c.Session, c.Observe = session.New(failing), func(f engine.Fact) { facts <- f }
	})
	op := prompt(t, p, text("go"))
	<-started
	failing.fail(register.OpState)
	p.Driver(session.MainStrand).Ring()
	_, err := p.Await(t.Context(), session.MainStrand, op)
	if fault, ok := errors.AsType[*storage.BackendFault](err); !ok || fault.Reason != "the disk is gone" {
		t.Errorf("await: %v", err)
	}
	p.Close()
	p.tools.settled(t)
	close(facts)
	var last engine.Fact
	for f := range facts {
		last = f
	}
	if stopped, ok := last.(engine.StrandStopped); !ok || stopped.Op != op || stopped.Err == nil {
		t.Errorf("the last fact is %+v", last)
	}
}

func TestASessionThatCannotBeReadStopsTheStrandAndWritesNoResponse(t *testing.T) {
	w := newWorld()
	failing := &failingReads{Store: w.store, branch: true}
	p := boot(t, w, []turn{say("never asked")}, func(c *engine.Config) { c.Session = session.New(failing) })
	op := prompt(t, p, text("go"))
	if _, err := p.Await(t.Context(), session.MainStrand, op); err == nil {
		t.Error("the run went on")
	}
	if w.requests() != 0 {
		t.Error("the model was asked without a context")
	}
	wantTranscript(t, w, "user go")
	p = reopen(t, w, p, []turn{say("now it can")})
	if got := finish(t, p, op); got.Outcome != machine.OutcomeCompleted {
		t.Errorf("result %+v", got)
	}
	settled(t, w)
}

// failingReads is a store whose reads fail once they are told to.
type failingReads struct {
	storage.Store
	failed atomic.Pointer[register.Namespace]
	branch bool // scans of branches fail from the start
}

func (f *failingReads) fail(ns register.Namespace) { f.failed.Store(&ns) }

func (f *failingReads) Within(g func(storage.Reader) error) error {
	return f.Store.Within(func(r storage.Reader) error { return g(&failingReader{r, f}) })
}

// failingReader is the Reader of one state of it.
type failingReader struct {
	storage.Reader
	f *failingReads
}

func (r *failingReader) Register(ns register.Namespace, key string) (register.Cell, bool, error) {
	if failed := r.f.failed.Load(); failed != nil && *failed == ns {
		return register.Cell{}, false, &storage.BackendFault{Reason: "the disk is gone"}
	}
	return r.Reader.Register(ns, key)
}

func (f *failingReads) Register(ns register.Namespace, key string) (register.Cell, bool, error) {
	return (&failingReader{f.Store, f}).Register(ns, key)
}

func (f *failingReads) ScanBranch(q storage.BranchQuery) ([]entry.Entry, error) {
	if f.branch {
		return nil, &storage.BackendFault{Reason: "the disk is gone"}
	}
	return f.Store.ScanBranch(q)
}
