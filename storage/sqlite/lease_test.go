package sqlite

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
)

func TestOnlyAProvablyDeadHolderIsDead(t *testing.T) {
	holder := Process{PID: 12, Host: "box", Started: "boot-1 pid:[4] 900"}
	self := Process{PID: 99, Host: "box", Started: "boot-1 pid:[4] 5000"}
	alive := func(started string) Running { return func(int) (string, bool, bool) { return started, true, true } }
	gone := func(int) (string, bool, bool) { return "", false, true }
	unknown := func(int) (string, bool, bool) { return "", false, false }
	for name, c := range map[string]struct {
		holder, self Process
		running      Running
		dead         bool
	}{
		"gone":                          {holder, self, gone, true},
		"its pid was given again":       {holder, self, alive("4000"), true},
		"alive":                         {holder, self, alive("900"), false},
		"the system does not say":       {holder, self, unknown, false},
		"another host":                  {Process{12, "other", holder.Started}, self, gone, false},
		"another boot":                  {Process{12, "box", "boot-0 pid:[4] 900"}, self, gone, false},
		"another pid namespace":         {Process{12, "box", "boot-1 pid:[5] 900"}, self, gone, false},
		"a holder that did not say":     {Process{12, "box", ""}, self, gone, false},
		"neither knows its own start":   {Process{12, "box", ""}, Process{99, "box", ""}, gone, false},
		"a start time and nothing else": {Process{12, "box", "900"}, Process{99, "box", "5000"}, gone, false},
	} {
		if got := dead(c.holder, c.self, c.running); got != c.dead {
			t.Errorf("%s: dead is %v", name, got)
		}
	}
}

func TestThisProcessIsAlive(t *testing.T) {
	self := thisProcess()
	if self.PID != os.Getpid() || self.Host == "" {
		t.Fatalf("%+v", self)
	}
	if len(strings.Fields(self.Started)) != 3 {
		t.Skipf("this system does not tell when a process started: %+v", self)
	}
	if dead(self, self, running) {
		t.Error("this process is dead")
	}
	reborn := self
	reborn.Started += "1"
	if !dead(reborn, self, running) {
		t.Error("an earlier process with this pid is alive")
	}
}

func TestALeaseIsHeldUntilItExpires(t *testing.T) {
	cfg, clock := newConfig(t)
	first := mustOpen(t, cfg)
	m := newMinter(1)
	ids := chain(t, first, m, id.EntryID{}, 1)

	rival := cfg
	rival.Owner = "second"
	clock.ms += DefaultLeaseTTL.Milliseconds() - 1
	_, err := Open(rival)
	held := asType[*storage.LeaseHeld](t, err)
	if held.Holder.Owner != "first" || held.Holder.PID != os.Getpid() || held.Holder.Host == "" ||
		held.Holder.Since.UnixMilli() != epoch || held.Expires.UnixMilli() != epoch+30_000 {
		t.Errorf("%+v", held)
	}
	rival.Owner = "first" // the same owner is no better
	_, err = Open(rival)
	asType[*storage.LeaseHeld](t, err)

	rival.Owner = "second"
	clock.ms++
	second := mustOpen(t, rival)
	if second.lease.fence != first.lease.fence+1 {
		t.Errorf("fence %d after %d", second.lease.fence, first.lease.fence)
	}
	e := said(m.entry(), ids[0], "late")
	_, err = first.Commit(tx.Tx{Writes: []tx.Write{tx.InsertEntry{Entry: e}}})
	lost := asType[*tx.LeaseLost](t, err)
	if lost.HeldBy == nil || !strings.Contains(*lost.HeldBy, "second") || err.Error() != tx.DescribeLeaseLoss(lost.HeldBy) {
		t.Errorf("%v", err)
	}
	asType[*tx.LeaseLost](t, first.RenewLease())
	asType[*tx.LeaseLost](t, first.RecordIdentity(id.SessionID{}, id.SessionID{}))
	mustClose(t, first) // gives back nothing: the lease is the other's
	chain(t, second, m, ids[0], 1)
	mustClose(t, second)
	if _, err := Open(rival); err != nil {
		t.Fatal(err)
	}
	sound(t, cfg.Path)
}

func TestALeaseThatIsGoneNamesNobody(t *testing.T) {
	cfg, _ := newConfig(t)
	s := mustOpen(t, cfg)
	edit(t, cfg.Path, "DELETE FROM writer_lease")
	_, err := s.Commit(tx.Tx{})
	if lost := asType[*tx.LeaseLost](t, err); lost.HeldBy != nil {
		t.Errorf("held by %s", *lost.HeldBy)
	}
}

func TestAnExpiredLeaseThatNobodyTookStillHolds(t *testing.T) {
	cfg, clock := newConfig(t)
	s := mustOpen(t, cfg)
	clock.ms += 10 * DefaultLeaseTTL.Milliseconds()
	chain(t, s, newMinter(1), id.EntryID{}, 1)
	cfg.Owner = "second"
	_, err := Open(cfg)
	asType[*storage.LeaseHeld](t, err) // the commit renewed it
}

func TestADeadHolderIsReplacedAtOnce(t *testing.T) {
	cfg, _ := newConfig(t)
	cfg.Process = Process{PID: 77, Host: "box", Started: "boot pid:[1] 100"}
	first := mustOpen(t, cfg)
	cfg.Owner = "second"
	cfg.Process = Process{PID: 78, Host: "box", Started: "boot pid:[1] 200"}
	cfg.Running = func(pid int) (string, bool, bool) { return "100", pid == 77, true }
	_, err := Open(cfg)
	asType[*storage.LeaseHeld](t, err)
	cfg.Running = func(int) (string, bool, bool) { return "", false, true }
	second := mustOpen(t, cfg)
	if second.lease.fence != first.lease.fence+1 {
		t.Errorf("fence %d after %d", second.lease.fence, first.lease.fence)
	}
	_, err = first.Commit(tx.Tx{})
	asType[*tx.LeaseLost](t, err)
}

func TestTheFenceOnlyGrows(t *testing.T) {
	cfg, clock := newConfig(t)
	for want := int64(1); want <= 4; want++ {
		cfg.Owner = fmt.Sprint("opening ", want)
		s := mustOpen(t, cfg)
		if s.lease.fence != want {
			t.Errorf("opening %d has fence %d", want, s.lease.fence)
		}
		clock.ms += 10
		mustClose(t, s)
	}
}

// storedLease reads the row beside the writer.
func storedLease(t *testing.T, s *Store) (l *leaseRow) {
	t.Helper()
	if err := s.query(func(c *conn) (err error) {
		_, l, err = readState(c)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestACommitRenewsWhenAThirdOfTheTermHasGone(t *testing.T) {
	cfg, clock := newConfig(t)
	cfg.LeaseTTL = 9 * time.Second
	s := mustOpen(t, cfg)
	for _, step := range []struct{ at, expires int64 }{
		{0, 9000}, {2999, 9000}, {3000, 12_000}, {5999, 12_000}, {6000, 15_000}, {60_000, 69_000},
	} {
		clock.ms = epoch + step.at
		if _, err := s.Commit(tx.Tx{Expected: []tx.Expectation{tx.ExpectAbsent(register.FactName, "none")}}); err != nil {
			t.Fatal(err)
		}
		if got := storedLease(t, s).expiresAt - epoch; got != step.expires {
			t.Errorf("after a commit at %d the lease ends at %d, want %d", step.at, got, step.expires)
		}
	}
	clock.ms = epoch + 61_000
	if err := s.RenewLease(); err != nil {
		t.Fatal(err)
	}
	if got := storedLease(t, s).expiresAt - epoch; got != 70_000 {
		t.Errorf("renewed until %d", got)
	}
	if s.LeaseInterval() != 3*time.Second {
		t.Errorf("interval %v", s.LeaseInterval())
	}
}

func TestARefusedCommitDoesNotRenew(t *testing.T) {
	cfg, clock := newConfig(t)
	s := mustOpen(t, cfg)
	clock.ms += 29_000
	if _, err := s.Commit(tx.Tx{Expected: []tx.Expectation{tx.Expect(register.FactName, "none", 5)}}); err == nil {
		t.Fatal("the commit succeeded")
	}
	if got := storedLease(t, s); got.expiresAt != epoch+30_000 || s.lease.expiresAt != got.expiresAt {
		t.Errorf("stored %d, held %d", got.expiresAt, s.lease.expiresAt)
	}
}

func TestIdleWritesNothing(t *testing.T) {
	cfg, clock := newConfig(t)
	s := mustOpen(t, cfg)
	ids := chain(t, s, newMinter(1), id.EntryID{}, 2)
	before := folder(t, cfg.Path)
	clock.ms += 3_600_000
	if _, err := s.Entries(ids...); err != nil {
		t.Fatal(err)
	}
	if after := folder(t, cfg.Path); after != before {
		t.Errorf("reading changed\n%s to\n%s", before, after)
	}
}

func TestAReaderTellsWhoWrites(t *testing.T) {
	cfg, clock := newConfig(t)
	s := mustOpen(t, cfg)
	r, err := OpenReader(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	before := folder(t, cfg.Path)
	term := DefaultLeaseTTL.Milliseconds()
	held, err := r.Held(clock.ms + term - 1)
	if err != nil || held == nil || held.Holder.PID != os.Getpid() || held.Holder.Owner != "first" || held.Expires.UnixMilli() != clock.ms+term {
		t.Errorf("%+v, %v", held, err)
	}
	if held, err := r.Held(clock.ms + term); held != nil || err != nil {
		t.Errorf("after the term: %+v, %v", held, err)
	}
	if after := folder(t, cfg.Path); after != before {
		t.Errorf("asking changed\n%s to\n%s", before, after)
	}
	mustClose(t, s)
	if held, err := r.Held(clock.ms); held != nil || err != nil {
		t.Errorf("after the closing: %+v, %v", held, err)
	}

	// A holder that is provably dead holds nothing.
	self := thisProcess()
	if len(strings.Fields(self.Started)) != 3 {
		t.Skipf("this system does not tell when a process started: %+v", self)
	}
	cfg.Process = self
	cfg.Process.Started += "1"
	mustOpen(t, cfg)
	if held, err := r.Held(clock.ms); held != nil || err != nil {
		t.Errorf("of a dead holder: %+v, %v", held, err)
	}
}
