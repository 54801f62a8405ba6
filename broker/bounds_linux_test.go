package broker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loom-run/loom/broker"
	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/policy"
)

// within is a broker with these bounds, in a directory of its own.
func within(t *testing.T, change func(*broker.Config)) *broker.Broker {
	t.Helper()
	c := broker.Config{Mode: policy.BypassPermissions, Workspace: t.TempDir(), Environ: []string{"PATH=/usr/bin:/bin", "HOME=/h"}}
	change(&c)
	b, err := broker.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func terms(t *testing.T, change func(*policy.Terms)) *policy.Bounds {
	t.Helper()
	all := policy.Unconfined("PATH", "HOME").Terms()
	change(&all)
	b, err := policy.NewBounds(all)
	if err != nil {
		t.Fatal(err)
	}
	return &b
}

func TestACallThatNeedsMoreThanItsBoundsIsRefusedWithWhatItWants(t *testing.T) {
	b := within(t, func(c *broker.Config) {
		c.Mode = policy.Default // which would ask about a command: nobody is asked in vain
		c.Bounds = terms(t, func(all *policy.Terms) { all.Writable, all.Protected = []string{"/w"}, []string{"/w/p"} })
	})
	c := call(ops(1)[0], 0)
	c.Needs = policy.Needs{Writable: []string{"/etc", "/w"}}
	_, err := b.Clear(c)
	refused, ok := errors.AsType[*broker.Refusal](err)
	if !ok || refused.By != words.DeniedByPolicy || !reflect.DeepEqual(refused.Wanted, []policy.Grant{policy.WritableRoot{Path: "/etc"}}) || !strings.Contains(refused.Sentence, "writing /etc") {
		t.Fatalf("%+v, %v", refused, err)
	}
	// With what it wants, and the word of a person, it is cleared; without a grant it is not.
	word := broker.Approval{Arguments: broker.Digest(c.Arguments)}
	if _, err := b.ClearApproved(c, word); !errors.As(err, &refused) {
		t.Errorf("%v", err)
	}
	word.Grants = refused.Wanted
	if _, err := b.ClearApproved(c, word); err != nil {
		t.Error(err)
	}
	c.Needs = policy.Needs{Writable: []string{"/w/p/x"}}
	word.Grants = []policy.Grant{policy.WritableRoot{Path: "/w/p/x"}}
	_, err = b.ClearApproved(c, word)
	if refused, ok := errors.AsType[*broker.Refusal](err); !ok || len(refused.Wanted) > 0 {
		t.Errorf("what is protected was granted: %v", err)
	}
	word.Grants = []policy.Grant{policy.WritableRoot{Path: "relative"}}
	if _, err := b.ClearApproved(c, word); err == nil {
		t.Error("a grant that is none is taken")
	}
}

func TestWhatCannotBeEnforcedDoesNotRun(t *testing.T) {
	for name, change := range map[string]func(*policy.Terms){
		"paths":   func(all *policy.Terms) { all.Writable = []string{"/w"} },
		"network": func(all *policy.Terms) { all.Network = policy.Offline{} },
		"memory":  func(all *policy.Terms) { all.Limits[policy.Memory] = 1 << 20 },
		"scratch": func(all *policy.Terms) { all.Scratch = "/tmp/x" },
	} {
		b := within(t, func(c *broker.Config) { c.Bounds = terms(t, change) })
		p, err := b.Clear(call(ops(1)[0], 0))
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Exec(t.Context(), p, sh("true"), nil)
		if open, ok := errors.AsType[*broker.Unconfined](err); !ok || len(open.What) != 1 || string(open.What[0]) != name {
			t.Errorf("%s: %v", name, err)
		}
		if err := b.Settle(p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestACommandIsKeptToItsVariablesAndItsTime(t *testing.T) {
	b := within(t, func(c *broker.Config) {
		c.Bounds = terms(t, func(all *policy.Terms) { all.Env = []string{"PATH"}; all.Limits[policy.Wall] = 50 })
	})
	p, err := b.Clear(call(ops(1)[0], 0))
	if err != nil {
		t.Fatal(err)
	}
	exit, err := b.Exec(t.Context(), p, sh("env; sleep 1000"), nil)
	if err != nil || !exit.TimedOut || exit.Limit != 50*time.Millisecond || strings.Contains(string(exit.Stdout.Head()), "HOME=") {
		t.Errorf("%+v, %v: %s", exit, err, exit.Stdout.Head())
	}
}

// The commands of a response share their time, those of the next one have their own, and
// what was detached has none.
func TestAResponseThatHasUsedItsTimeRunsNothingMore(t *testing.T) {
	var clock atomic.Int64
	b := within(t, func(c *broker.Config) {
		c.Budget, c.Now = broker.Budget{Wall: time.Minute}, func() int64 { return clock.Add(30_000) } // half a minute between two looks
	})
	op := ops(1)[0]
	run := func(index int, step string) error {
		c := call(op, index)
		c.Step = step
		p, err := b.Clear(c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Exec(t.Context(), p, sh("true"), nil)
		if err := b.Settle(p); err != nil {
			t.Error(err)
		}
		return err
	}
	for i := range 2 {
		if err := run(i, "one"); err != nil {
			t.Error(err)
		}
	}
	if spent, ok := errors.AsType[*broker.Spent](run(2, "one")); !ok || spent.Wall != time.Minute {
		t.Error("a third command has a half of a minute that is over")
	}
	if err := run(0, "two"); err != nil {
		t.Errorf("the next response: %v", err)
	}
	p, err := b.Clear(call(op, 9))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Admit(p, call(op, 9)); err != nil {
		t.Fatal(err)
	}
	d, err := b.Detach(p, "job")
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if _, err := b.Exec(t.Context(), d, sh("true"), nil); err != nil {
			t.Errorf("what is detached: %v", err)
		}
	}
}

func TestACommandWaitsUntilThereIsRoomOrItIsAborted(t *testing.T) {
	two := ops(2)
	b := within(t, func(c *broker.Config) { c.Budget = broker.Budget{Commands: 1} })
	dir := t.TempDir()
	begun, goOn := filepath.Join(dir, "begun"), filepath.Join(dir, "go-on")
	for _, pipe := range []string{begun, goOn} {
		if err := unix.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	type result struct {
		exit jail.Exit
		err  error
	}
	start := func(index int, script string) (*broker.Permit, chan result) {
		p, err := b.Clear(call(two[0], index))
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan result, 1)
		go func() {
			exit, err := b.Exec(context.WithoutCancel(t.Context()), p, sh(script), nil)
			done <- result{exit, err}
		}()
		return p, done
	}
	_, first := start(0, "echo > "+begun+"; cat "+goOn)
	if _, err := os.ReadFile(begun); err != nil {
		t.Fatal(err)
	}
	_, second := start(1, "echo two")
	select {
	case r := <-second:
		t.Fatalf("two run where one may: %+v", r)
	default:
	}
	if err := os.WriteFile(goOn, nil, 0); err != nil {
		t.Fatal(err)
	}
	if r := <-first; r.err != nil {
		t.Error(r.err)
	}
	if r := <-second; r.err != nil || string(r.exit.Stdout.Head()) != "two\n" {
		t.Errorf("%+v", r)
	}

	_, third := start(2, "echo > "+begun+"; sleep 1000")
	if _, err := os.ReadFile(begun); err != nil {
		t.Fatal(err)
	}
	p, fourth := start(3, "true")
	for _, err := b.Detach(p, "x"); errors.Is(err, broker.ErrMismatch); _, err = b.Detach(p, "x") {
		runtime.Gosched() // until it has begun
	}
	b.Abort(two[0])
	if r := <-third; r.err != nil || !r.exit.Cancelled {
		t.Errorf("%+v", r)
	}
	if r := <-fourth; !errors.Is(r.err, broker.ErrAborted) {
		t.Errorf("%+v", r)
	}
}

// Of many that settle a permit at once, while others use it, one does.
func TestOfManySettlementsOneCounts(t *testing.T) {
	op := ops(1)[0]
	b := newBroker(t, policy.BypassPermissions)
	for i := range 50 {
		c := call(op, i)
		p, err := b.Clear(c)
		if err != nil {
			t.Fatal(err)
		}
		var settled atomic.Int64
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				if err := b.Admit(p, c); err != nil && !errors.Is(err, broker.ErrSettled) {
					t.Error(err)
				}
				switch err := b.Settle(p); {
				case err == nil:
					settled.Add(1)
				case !errors.Is(err, broker.ErrSettled):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if settled.Load() != 1 {
			t.Fatalf("it was settled %d times", settled.Load())
		}
	}
}
