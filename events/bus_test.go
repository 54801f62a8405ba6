package events

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/id"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var session, _ = id.NewGenerator(clock.Fixed(1_767_225_600_000), 1).Session()

// all has an event of each kind.
var all = []Event{
	EntryAdded{Seq: 1}, OpTransition{Phase: "tools"}, UsageAdded{Seq: 2}, StrandResult{Strand: "main"}, Escalation{Description: "may it?"},
	Committed{FirstSeq: 1, LastSeq: 3}, ToolOutput{Strand: "main", Stream: Stderr, Tail: "no", TotalBytes: 2},
	BlockSummary{Subject: LiveStream{Strand: "main"}, Text: "thinks"}, GoalChanged{},
}

// waiting takes what is queued.
func waiting(s *Subscription) (list []Published) {
	for {
		select {
		case p, ok := <-s.Events():
			if !ok {
				return list
			}
			list = append(list, p)
		default:
			return list
		}
	}
}

func TestNoNameIsTheKeyOfAnID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := coretest.SessionID().Draw(t, "id")
		name := rapid.OneOf(rapid.String(), rapid.Just(s.String()), rapid.Just(KeyOf(s).String())).Draw(t, "name")
		if KeyNamed(name) == KeyOf(s) || KeyNamed(name).String() == KeyOf(s).String() {
			t.Fatalf("the name %q is the key of %s", name, s)
		}
	})
}

func TestWhoJoinedEverythingSeesEachEventOnce(t *testing.T) {
	var bus Bus
	key := KeyOf(session)
	s := bus.SubscribeAll(t.Context(), key)
	s.Join(key, AllTopics()...)
	for _, e := range all {
		bus.Publish(key, e)
	}
	got := waiting(s)
	if len(got) != len(all) {
		t.Fatalf("%d events of %d were received", len(got), len(all))
	}
	topics := map[Topic]bool{}
	for i, p := range got {
		if p.Session != key || p.Event != all[i] {
			t.Errorf("event %d is %+v", i, p)
		}
		topics[p.Event.Topic()] = true
	}
	if len(topics) != len(AllTopics()) {
		t.Errorf("the events have %d topics", len(topics))
	}
	s.Close()
}

func TestHintsAreAllButOutputs(t *testing.T) {
	var bus Bus
	key := KeyOf(session)
	s := bus.SubscribeHints(t.Context(), key)
	defer s.Close()
	for _, e := range all {
		bus.Publish(key, e)
	}
	for _, p := range waiting(s) {
		if p.Event.Topic() == Outputs {
			t.Errorf("a hint is %T", p.Event)
		}
	}
	if len(HintTopics()) != 6 || slices.Contains(HintTopics(), Outputs) {
		t.Errorf("the hint topics are %v", HintTopics())
	}
}

func TestSessionsAreApart(t *testing.T) {
	var bus Bus
	one, other := KeyOf(session), KeyNamed(session.String())
	s := bus.SubscribeAll(t.Context(), one)
	defer s.Close()
	bus.Publish(other, GoalChanged{})
	if got := waiting(s); len(got) != 0 {
		t.Fatalf("received %v of another session", got)
	}
	s.Join(other, Outputs)
	bus.Publish(one, GoalChanged{})
	bus.Publish(other, GoalChanged{})
	if got := waiting(s); len(got) != 2 || got[0].Session != one || got[1].Session != other {
		t.Fatalf("received %v", got)
	}
}

// A reader that never takes anything costs its queue, and its newest events are there when it wakes up.
func TestAReaderThatNeverReadsHoldsNobodyUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var bus Bus
		key := KeyNamed("x")
		room, n := rapid.IntRange(1, 9).Draw(t, "room"), rapid.IntRange(0, 40).Draw(t, "events")
		s := bus.Subscribe(context.Background(), room)
		defer s.Close()
		s.Join(key, Commits)
		for i := range n {
			bus.Publish(key, Committed{LastSeq: int64(i)})
		}
		got := waiting(s)
		if len(got) != min(n, room) {
			t.Fatalf("%d of %d wait in a room of %d", len(got), n, room)
		}
		for i, p := range got {
			if seq := p.Event.(Committed).LastSeq; seq != int64(n-len(got)+i) {
				t.Fatalf("event %d of those that wait is %d of %d", i, seq, n)
			}
		}
		if lost := uint64(n - len(got)); s.Dropped() != lost || bus.Dropped() != lost {
			t.Fatalf("%d were dropped, counted are %d and %d", lost, s.Dropped(), bus.Dropped())
		}
	})
}

// One that reads slowly, among publishers that are fast, sees what each published last, in the order of each.
func TestWhoReadsOnReceivesTheNewest(t *testing.T) {
	var bus Bus
	key := KeyOf(session)
	s := bus.Subscribe(t.Context(), 8)
	s.Join(key, Commits, Strands)
	const publishers, each = 4, 2000
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				bus.Publish(key, Committed{FirstSeq: int64(p), LastSeq: int64(i)})
			}
		})
	}
	go func() {
		wg.Wait()
		bus.Publish(key, StrandResult{Strand: "over"})
	}()
	received := uint64(0)
	last := [publishers]int64{-1, -1, -1, -1}
	for p := range s.Events() {
		received++
		c, ok := p.Event.(Committed)
		if !ok {
			break
		}
		if c.LastSeq <= last[c.FirstSeq] {
			t.Fatalf("publisher %d: %d after %d", c.FirstSeq, c.LastSeq, last[c.FirstSeq])
		}
		last[c.FirstSeq] = c.LastSeq
	}
	if received+s.Dropped() != publishers*each+1 {
		t.Errorf("%d received and %d dropped of %d", received, s.Dropped(), publishers*each+1)
	}
	s.Close()
}

func TestASubscriberThatIsGoneIsInNoGroup(t *testing.T) {
	key := KeyOf(session)
	for name, end := range map[string]func(s **Subscription, cancel func()){
		"closed":                   func(s **Subscription, _ func()) { (*s).Close(); (*s).Close() },
		"its context ended":        func(_ **Subscription, cancel func()) { cancel() },
		"nobody holds it any more": func(s **Subscription, _ func()) { *s = nil },
	} {
		t.Run(name, func(t *testing.T) {
			var bus Bus
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := bus.SubscribeAll(ctx, key)
			if bus.Subscribers(key, Commits) != 1 {
				t.Fatal("it is not in its group")
			}
			queue := s.Events()
			end(&s, cancel)
			for deadline := time.Now().Add(10 * time.Second); bus.Subscribers(key, Commits) != 0; runtime.Gosched() {
				if time.Now().After(deadline) {
					t.Fatal("it is in its group still")
				}
				runtime.GC()
			}
			<-queue
			bus.Publish(key, GoalChanged{})
			if s != nil {
				s.Join(key, Outputs)
			}
			bus.mu.RLock()
			defer bus.mu.RUnlock()
			if len(bus.groups) != 0 {
				t.Errorf("%d groups are left", len(bus.groups))
			}
		})
	}
}

func TestABridgePublishesWhatItsMappingMakes(t *testing.T) {
	var bus Bus
	key := KeyNamed("numbers")
	s := bus.SubscribeHints(t.Context(), key)
	defer s.Close()
	source := make(chan int)
	wait := Bridge(t.Context(), &bus, key, source, func(n int) (Event, bool) { return Committed{LastSeq: int64(n)}, n%2 == 1 })
	for n := range 4 {
		source <- n
	}
	close(source)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if got := waiting(s); len(got) != 2 || got[0].Event != (Committed{LastSeq: 1}) || got[1].Event != (Committed{LastSeq: 3}) {
		t.Errorf("received %v", got)
	}
}

func TestAMappingThatPanicsEndsItsBridgeAlone(t *testing.T) {
	var bus Bus
	key := KeyNamed("numbers")
	s := bus.SubscribeHints(t.Context(), key)
	defer s.Close()
	broken := make(chan int, 1)
	broken <- 0
	wait := Bridge(t.Context(), &bus, key, broken, func(int) (Event, bool) { panic(errors.New("no such number")) })
	if err := wait(); err == nil || !strings.Contains(err.Error(), "no such number") {
		t.Errorf("the bridge ended with %v", err)
	}
	bus.Publish(key, StrandResult{})
	if got := waiting(s); len(got) != 1 {
		t.Errorf("received %v", got)
	}
}

func TestABridgeEndsWithItsContext(t *testing.T) {
	var bus Bus
	ctx, cancel := context.WithCancel(t.Context())
	wait := Bridge(ctx, &bus, KeyNamed("x"), make(chan int), func(int) (Event, bool) { return nil, false })
	cancel()
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// BenchmarkFanOut is the time from a publication to the last of 64 subscribers having it.
func BenchmarkFanOut(b *testing.B) {
	const subscribers = 64
	var bus Bus
	key := KeyOf(session)
	var received sync.WaitGroup
	var readers sync.WaitGroup
	ctx, cancel := context.WithCancel(b.Context())
	for range subscribers {
		s := bus.SubscribeHints(ctx, key)
		readers.Go(func() {
			for range s.Events() {
				received.Done()
			}
		})
	}
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		received.Add(subscribers)
		bus.Publish(key, Committed{})
		received.Wait()
		took = append(took, time.Since(begun))
	}
	cancel()
	readers.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	if bus.Dropped() != 0 {
		b.Fatal(fmt.Sprint(bus.Dropped(), " events were dropped"))
	}
}
