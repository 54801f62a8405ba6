package sqlite

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestAReleasedSessionIsFreeAndComesBack(t *testing.T) {
	cfg, _ := newConfig(t)
	s := mustOpen(t, cfg)
	ids := chain(t, s, newMinter(1), id.EntryID{}, 3)
	for range 2 { // the second one writes nothing
		if err := s.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if storedLease(t, s) != nil {
		t.Fatal("the lease is still there")
	}
	if err := s.RenewLease(); err != nil || storedLease(t, s) != nil {
		t.Errorf("a renewal of what was given back: %v", err)
	}
	chain(t, s, newMinter(2), ids[2], 1)
	if l := storedLease(t, s); l == nil || l.owner != cfg.Owner || l.fence != 2 {
		t.Errorf("after the next commit the lease is %+v", l)
	}
	mustClose(t, s)
	sound(t, cfg.Path)
}

func TestARefusedCommitDoesNotTakeAReleasedLease(t *testing.T) {
	cfg, _ := newConfig(t)
	s := mustOpen(t, cfg)
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Commit(tx.Tx{Expected: []tx.Expectation{tx.Expect(register.FactName, "a", 4)}})
	asType[*tx.StaleExpectation](t, err)
	if l := storedLease(t, s); l != nil {
		t.Errorf("the lease is %+v", l)
	}
	if _, err := s.Commit(tx.Tx{}); err != nil {
		t.Errorf("the commit after it: %v", err)
	}
}

// TestWhoeverHadItMeanwhileIsNoticed: what the first process knows of the session
// is old, even when the second one has come and gone.
func TestWhoeverHadItMeanwhileIsNoticed(t *testing.T) {
	for name, closed := range map[string]bool{"and is there": false, "and is gone": true} {
		t.Run(name, func(t *testing.T) {
			cfg, _ := newConfig(t)
			first := mustOpen(t, cfg)
			if err := first.Release(); err != nil {
				t.Fatal(err)
			}
			cfg.Owner = "second"
			second := mustOpen(t, cfg)
			chain(t, second, newMinter(1), id.EntryID{}, 1)
			if closed {
				mustClose(t, second)
			}
			for range 2 {
				_, err := first.Commit(tx.Tx{})
				asType[*tx.LeaseLost](t, err)
			}
			mustClose(t, first)
			if !closed {
				chain(t, second, newMinter(2), id.EntryID{}, 1)
				mustClose(t, second)
			}
			sound(t, cfg.Path)
		})
	}
}

func TestATakenSessionRefusesItsOldWriter(t *testing.T) {
	cfg, _ := newConfig(t)
	first := mustOpen(t, cfg)
	ids := chain(t, first, newMinter(1), id.EntryID{}, 2)
	taker := cfg
	taker.Owner = "taker"
	from, err := Take(taker)
	if err != nil || from == nil || from.Holder.Owner != cfg.Owner {
		t.Fatal(from, err)
	}
	_, err = first.Commit(tx.Tx{Writes: []tx.Write{tx.InsertEntry{Entry: said(newMinter(9).entry(), ids[1], "late")}}})
	asType[*tx.LeaseLost](t, err)
	taker.Owner = "third"
	third := mustOpen(t, taker) // nobody waits for the end of a term
	if rows, err := third.ScanEntries(storage.EntryQuery{}); err != nil || len(rows) != 2 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	mustClose(t, third)
	before := folder(t, cfg.Path)
	if from, err := Take(taker); from != nil || err != nil || folder(t, cfg.Path) != before {
		t.Errorf("taking what nobody holds: %v, %v, and the files changed: %v", from, err, folder(t, cfg.Path) != before)
	}
	sound(t, cfg.Path)
}

// TestTwoWindowsNeverFork lets two handles open, commit, fall idle, take over and
// close while the clock jumps back and forth. Whatever happens there is one line of
// entries: whoever commits stands on what the other committed.
func TestTwoWindowsNeverFork(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		cfg, clock := newConfig(t)
		seed := mustOpen(t, cfg)
		chain(t, seed, newMinter(1), id.EntryID{}, 1)
		mustClose(t, seed)
		m := newMinter(2)
		type window struct {
			s    *Store
			leaf id.EntryID
			at   int64
		}
		var windows [2]*window
		openings, landed := 0, 1
		for step := range rapid.IntRange(1, 40).Draw(r, "steps") {
			n := rapid.IntRange(0, 1).Draw(r, "window")
			w := windows[n]
			switch action := rapid.SampledFrom([]string{"open", "take", "commit", "commit", "release", "close", "time"}).Draw(r, fmt.Sprint("step ", step)); {
			case action == "time":
				clock.ms += rapid.Int64Range(-2, 2).Draw(r, "terms") * 20_000
			case w == nil && (action == "open" || action == "take"):
				openings++
				c := cfg
				c.Owner, c.Take = fmt.Sprint("opening ", openings), action == "take"
				s, err := Open(c)
				if err != nil {
					asType[*storage.LeaseHeld](t, err)
					continue
				}
				cell, _, err := s.Register(register.StrandLeaf, "main")
				if err != nil {
					r.Fatal(err)
				}
				leaf, _ := register.DecodeLeaf(cell.Value)
				windows[n] = &window{s, leaf, cell.Seq}
			case w != nil && action == "commit":
				i := m.entry()
				res, err := w.s.Commit(tx.Tx{
					Writes: []tx.Write{tx.InsertEntry{Entry: said(i, w.leaf, "x")}, tx.Set(register.StrandLeaf, "main", register.Leaf(i))},
				})
				if err != nil {
					asType[*tx.LeaseLost](t, err)
					continue
				}
				w.leaf, w.at = i, res.FirstSeq+1
				landed++
			case w != nil && action == "release":
				if err := w.s.Release(); err != nil {
					asType[*tx.LeaseLost](t, err)
				}
			case w != nil && action == "close":
				mustClose(t, w.s)
				windows[n] = nil
			}
		}
		for _, w := range windows {
			if w != nil {
				mustClose(t, w.s)
			}
		}
		last, err := OpenReader(cfg.Path)
		if err != nil {
			r.Fatal(err)
		}
		defer last.Close()
		leaf, err := leafOf(last)
		if err != nil {
			r.Fatal(err)
		}
		line, err := last.ScanBranch(storage.BranchQuery{Start: leaf})
		if err != nil || len(line) != landed {
			r.Fatalf("%d commits landed and the line has %d, %v", landed, len(line), err)
		}
		sound(t, cfg.Path)
	})
}

// TestAHolderThatSleptPastItsLease stops a process with a signal in the middle of its
// commits, lets its term run out, writes the session, and wakes it.
func TestAHolderThatSleptPastItsLease(t *testing.T) {
	cfg, _ := newConfig(t)
	cfg.Clock, cfg.Synchronous = wallClock, Full
	mustClose(t, mustOpen(t, cfg))
	c := start(t, "commit until killed", cfg.Path)
	signal := func(s unix.Signal) {
		t.Helper()
		if err := c.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Owner, cfg.BusyTimeout = "the other window", 100*time.Millisecond
	cfg.Clock = func() int64 { return wallClock() + time.Minute.Milliseconds() } // its term has run out
	var acknowledged []string
	var s *Store
	for s == nil {
		acknowledged = append(acknowledged, c.line())
		signal(unix.SIGSTOP)
		var err error
		if s, err = Open(cfg); err != nil {
			asType[*storage.OpenFailed](t, err) // stopped inside a commit it keeps the lock of the file
			signal(unix.SIGCONT)
		}
	}
	leaf, err := leafOf(s)
	if err != nil {
		t.Fatal(err)
	}
	mine := said(newMinter(rand.Uint64()).entry(), leaf, "mine")
	if _, err := s.Commit(tx.Tx{Writes: []tx.Write{tx.InsertEntry{Entry: mine}, tx.Set(register.StrandLeaf, "main", register.Leaf(mine.ID))}}); err != nil {
		t.Fatal(err)
	}
	signal(unix.SIGCONT)
	said := c.rest()
	if len(said) == 0 || !strings.HasPrefix(said[len(said)-1], "error") || !strings.Contains(said[len(said)-1], "the other window") {
		t.Errorf("the holder that woke said %q", said)
	}
	_ = c.cmd.Wait()
	for _, line := range said {
		if !strings.HasPrefix(line, "error") {
			acknowledged = append(acknowledged, line)
		}
	}
	if n := allThere(t, s, acknowledged); n > 0 {
		t.Errorf("%d acknowledged commits are missing", n)
	}
	if now, err := leafOf(s); err != nil || now != mine.ID {
		t.Errorf("the leaf is %s and not %s, %v", now, mine.ID, err)
	}
	mustClose(t, s)
	sound(t, cfg.Path)
}
