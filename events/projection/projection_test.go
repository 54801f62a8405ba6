package projection

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/events"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/memory"
)

// world is a session in memory that can be rewritten: another store takes the place of the one that was open.
type world struct {
	store *memory.Store
	ids   id.Generator
	leaf  id.EntryID
	gen   int64
	opens atomic.Int64
	fail  error
	tick  int64
}

func newWorld(seed uint64) *world {
	w := &world{ids: id.NewGenerator(clock.Fixed(1_767_268_800_000), seed)}
	w.store = memory.New(w.now)
	return w
}

func (w *world) now() int64 { w.tick++; return 1_767_268_800_000 + w.tick }

// generations is a store of a later generation.
type generations struct {
	storage.Reader
	n int64
}

func (g generations) Snapshot(of ...storage.CellRange) (storage.Snapshot, error) {
	s, err := g.Reader.Snapshot(of...)
	s.Generation += g.n
	return s, err
}

func (w *world) open(f func(storage.Reader) error) error {
	w.opens.Add(1)
	if w.fail != nil {
		return w.fail
	}
	return w.store.Within(func(r storage.Reader) error { return f(generations{r, w.gen}) })
}

type failer interface{ Fatal(...any) }

// turn commits a prompt and a response that was paid for, or one of them alone.
func (w *world) turn(t failer, prompt, answer bool) {
	var writes []tx.Write
	add := func(m message.Message) id.EntryID {
		e := entry.Entry{Parent: w.leaf, Body: entry.Message{Message: m}}
		e.ID, w.ids = w.ids.Entry()
		w.leaf = e.ID
		writes = append(writes, tx.InsertEntry{Entry: e})
		return e.ID
	}
	if prompt {
		add(&message.User{Content: []message.UserBlock{message.Text{Text: "hello"}}})
	}
	if answer {
		m := &message.Assistant{API: "a", Provider: "p", Model: "m", StopReason: message.Stop, Usage: usage.Usage{Input: 3, Output: 2, TotalTokens: 5, Evidence: usage.Reported(usage.API, usage.Complete)}}
		row := entry.UsageRow{EntryID: add(m), Usage: m.Usage}
		row.ID, w.ids = w.ids.Usage()
		writes = append(writes, tx.InsertUsage{Row: row})
	}
	if len(writes) == 0 {
		return
	}
	if _, err := w.store.Commit(tx.Tx{Writes: writes}); err != nil {
		t.Fatal(err)
	}
}

// rewrite puts another store in place, with fewer rows under the same seqs.
func (w *world) rewrite(t failer, turns int) {
	w.store, w.leaf = memory.New(w.now), id.EntryID{}
	w.gen++
	for range turns {
		w.turn(t, true, true)
	}
}

// Whatever is committed, rewritten and lost in between, a driver that looks once more has what a fold of everything has.
func TestLostHintsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(1)
		key := events.KeyNamed("s")
		var bus events.Bus
		d := Start(t.Context(), Options[Spent]{Open: w.open, Projection: UsageByDay(), Bus: &bus, Session: key})
		defer d.Close()
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				d.pulling.Lock() // the world has no lock of its own
				w.rewrite(t, rapid.IntRange(0, 3).Draw(t, "turns"))
				d.pulling.Unlock()
			case 1:
				bus.Publish(key, events.Committed{})
			case 2:
				d.Poke()
			default:
				d.pulling.Lock()
				w.turn(t, rapid.Bool().Draw(t, "prompt"), rapid.Bool().Draw(t, "answer"))
				d.pulling.Unlock()
			}
		}
		got, err := d.Sync()
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := Rebuild(w.store, UsageByDay())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b usage.Usage) bool { return fmt.Sprint(a) == fmt.Sprint(b) })); diff != "" {
			t.Fatalf("-anew +driven:\n%s", diff)
		}
	})
}

// Each fold is the same bit by bit, over every way to cut the rows, and the counters are those that the store keeps.
func TestFoldedBitByBitIsFoldedAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(2)
		stats, high := Stats().New(), int64(0)
		seen, glanced := Overviews().New(), int64(0)
		for range rapid.IntRange(1, 20).Draw(t, "turns") {
			w.turn(t, rapid.Bool().Draw(t, "prompt"), rapid.Bool().Draw(t, "answer"))
			var err error
			if rapid.Bool().Draw(t, "look") {
				stats, high, err = CatchUp(w.store, Stats(), stats, high)
			}
			if err == nil {
				more := true
				for more && err == nil {
					seen, glanced, more, err = step(w.store, Overviews(), seen, glanced, rapid.IntRange(1, 3).Draw(t, "limit"))
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		stats, _, err := CatchUp(w.store, Stats(), stats, high)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := w.store.Stats()
		if err != nil || fmt.Sprint(kept) != fmt.Sprint(stats) {
			t.Fatalf("the store counts %v and the fold %v, %v", kept, stats, err)
		}
		whole, _, err := Rebuild(w.store, Overviews())
		if err != nil || whole != seen {
			t.Fatalf("%+v and %+v, %v", whole, seen, err)
		}
	})
}

// later commits between the reads of one catch-up.
type later struct {
	storage.Reader
	commit func()
}

func (l later) ScanUsage(q storage.UsageQuery) ([]entry.UsageRow, error) {
	rows, err := l.Reader.ScanUsage(q)
	l.commit()
	return rows, err
}

func (l later) ScanEntries(q storage.EntryQuery) ([]entry.Entry, error) {
	l.commit()
	return l.Reader.ScanEntries(q)
}

// What is committed between two reads of a catch-up is in the next one, and is not passed over.
func TestACommitBetweenTwoScansIsNotPassedOver(t *testing.T) {
	w := newWorld(3)
	w.turn(t, true, true)
	n := 0
	state, high, err := CatchUp(later{w.store, func() {
		if n++; n < 9 {
			w.turn(t, true, true)
		}
	}}, Stats(), Stats().New(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if state, _, err = CatchUp(w.store, Stats(), state, high); err != nil {
		t.Fatal(err)
	}
	if want, _ := w.store.Stats(); fmt.Sprint(want) != fmt.Sprint(state) {
		t.Errorf("the store counts %v and the fold %v", want, state)
	}
}

func TestAFoldThatFailsKeepsWhatWasGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(4)
		w.turn(t, true, true)
		crash := Stats()
		good := crash.Apply
		broken := false
		crash.Apply = func(s storage.Stats, c Change) storage.Stats {
			if broken {
				panic("a fold of somebody's")
			}
			return good(s, c)
		}
		var warned []error
		d := Start(t.Context(), Options[storage.Stats]{Open: w.open, Projection: crash, Warn: func(err error) { warned = append(warned, err) }})
		defer d.Close()
		synctest.Wait()
		broken = true
		w.turn(t, true, true)
		d.Poke()
		synctest.Wait()
		s, err := d.Sync()
		if _, ok := errors.AsType[*Fault](err); !ok || !strings.Contains(err.Error(), "it crashed over") || s.Messages != 2 {
			t.Errorf("%+v, %v", s, err)
		}
		if len(warned) != 1 {
			t.Errorf("warned of %v", warned)
		}
		broken = false
		w.fail = errors.New("the file is gone")
		if s, err := d.Sync(); err == nil || s.Messages != 2 {
			t.Errorf("%+v, %v", s, err)
		}
		w.fail = nil
		if s, err := d.Sync(); err != nil || s.Messages != 4 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// Where nothing happens nothing runs, and a hundred hints are few looks.
func TestAnIdleDriverDoesNotLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(5)
		var bus events.Bus
		key := events.KeyNamed("s")
		d := Start(t.Context(), Options[storage.Stats]{Open: w.open, Projection: Stats(), Bus: &bus, Session: key})
		synctest.Wait()
		before := w.opens.Load()
		bus.Publish(key, events.ToolOutput{}) // display is no hint
		synctest.Wait()
		if n := w.opens.Load(); n != before {
			t.Errorf("it looked %d times for nothing", n-before)
		}
		w.turn(t, true, false)
		for range 100 {
			bus.Publish(key, events.Committed{})
		}
		synctest.Wait()
		if n := w.opens.Load() - before; n < 1 || n > 100 {
			t.Errorf("it looked %d times", n)
		}
		if s, _ := d.Read(); s.Messages != 1 {
			t.Errorf("%+v", s)
		}
		d.Close()
		if n := bus.Subscribers(key, events.Commits); n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
	})
}

func TestCheckpointsAreReadBackOrAreNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "projections.db")
	disk, err := OpenDisk(path)
	if err != nil {
		t.Fatal(err)
	}
	var s id.SessionID
	s, _ = id.NewGenerator(clock.Fixed(1), 1).Session()
	w := newWorld(6)
	w.turn(t, true, true)
	first := Start(t.Context(), Options[Overview]{Open: w.open, Projection: Overviews(), Checkpoint: Of(disk, s, Overviews())})
	if _, err := first.Sync(); err != nil {
		t.Fatal(err)
	}
	first.Close()
	if err := disk.Close(); err != nil {
		t.Fatal(err)
	}
	if disk, err = OpenDisk(path); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = disk.Close() }()
	got, ok, err := Of(disk, s, Overviews()).Load()
	if err != nil || !ok || got.State.Prompts != 1 || got.State.Answers != 1 || got.High == 0 {
		t.Fatalf("%+v, %v, %v", got, ok, err)
	}
	other := Overviews()
	other.Version++
	if _, ok, err := Of(disk, s, other).Load(); ok || err != nil {
		t.Errorf("a checkpoint of another version was taken, %v", err)
	}
	if err := Of(disk, s, Overviews()).Save(Saved[Overview]{High: got.High - 1, Generation: got.Generation}); err != nil {
		t.Fatal(err)
	}
	if again, _, _ := Of(disk, s, Overviews()).Load(); again != got {
		t.Errorf("what is behind replaced %+v by %+v", got, again)
	}
	if err := disk.List(map[id.SessionID]Line{s: {"stamp", []byte("line")}}, nil); err != nil {
		t.Fatal(err)
	}
	if all, err := disk.Listed(); err != nil || string(all[s].Text) != "line" || all[s].Stamp != "stamp" {
		t.Errorf("%v, %v", all, err)
	}
	if err := disk.List(nil, []id.SessionID{s}); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := Of(disk, s, Overviews()).Load(); ok {
		t.Error("a session that is gone has a checkpoint")
	}
}

func FuzzDecodeOverview(f *testing.F) {
	f.Add([]byte(`{"firstAt":1}`))
	f.Add(Overviews().Encode(Overview{Prompts: 3, LastAt: 9}))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := Overviews().Decode(text)
		if err != nil {
			return
		}
		if again, err := Overviews().Decode(Overviews().Encode(o)); err != nil || again != o {
			t.Fatalf("%+v reads back as %+v, %v", o, again, err)
		}
	})
}

func BenchmarkCatchUp(b *testing.B) {
	w := newWorld(7)
	for range 5000 {
		w.turn(b, true, true)
	}
	b.ResetTimer()
	for b.Loop() {
		if _, _, err := Rebuild(w.store, Stats()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(15_000*b.N)/b.Elapsed().Seconds(), "rows/s")
}
