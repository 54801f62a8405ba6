package projection_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/session/projection"
	"pgregory.net/rapid"
)

func TestOrphansAreAnsweredDirectlyAfterTheirResponse(t *testing.T) {
	for name, c := range map[string]struct {
		rows []message.Message
		want []string
	}{
		"no result at all": {
			[]message.Message{user("a"), response(message.ToolUse, "go", "x"), user("b")},
			[]string{"user a", "toolUse go", "result x unknown", "user b"},
		},
		"several, in the order of their blocks": {
			[]message.Message{response(message.ToolUse, "go", "x", "y", "z"), user("b")},
			[]string{"toolUse go", "result x unknown", "result y unknown", "result z unknown", "user b"},
		},
		"a part of the batch: only what is missing, before what is there": {
			[]message.Message{response(message.ToolUse, "go", "x", "y", "z"), result("y"), user("b")},
			[]string{"toolUse go", "result x unknown", "result z unknown", "result y", "user b"},
		},
		"a result that comes late counts": {
			[]message.Message{response(message.ToolUse, "go", "x"), user("between"), result("x")},
			[]string{"toolUse go", "user between", "result x"},
		},
		"a result before its call does not": {
			[]message.Message{result("x"), response(message.ToolUse, "go", "x")},
			[]string{"result x", "toolUse go", "result x unknown"},
		},
		"responses that were cut off, too": {
			[]message.Message{response(message.Length, "cut", "x")},
			[]string{"length cut", "result x unknown"},
		},
		"every response of its own": {
			[]message.Message{response(message.ToolUse, "one", "x"), response(message.ToolUse, "two", "y"), result("y")},
			[]string{"toolUse one", "result x unknown", "toolUse two", "result y"},
		},
		"the same id again: the later result answers both": {
			[]message.Message{response(message.ToolUse, "one", "x"), response(message.ToolUse, "two", "x"), result("x")},
			[]string{"toolUse one", "toolUse two", "result x"},
		},
	} {
		t.Run(name, func(t *testing.T) { wantOutline(t, projection.Heal(c.rows), c.want...) })
	}
}

func TestACallInARetainedTailIsAnsweredLikeAnyOther(t *testing.T) {
	b := newBranch(
		entry.Compaction{Summary: "s", RetainedTail: []message.Message{response(message.ToolUse, "go", "x", "y")}},
		said(result("y")),
	)
	wantOutline(t, b.project(projection.Policy{}), "user s", "toolUse go", "result x unknown", "result y")
}

func TestCallsOfADroppedResponseAreNotAnswered(t *testing.T) {
	b := newBranch(said(user("a")), said(response(message.Aborted, "go", "x")))
	wantOutline(t, b.project(projection.Policy{}), "user a")
}

func TestASyntheticResultSaysThatTheOutcomeIsUnknown(t *testing.T) {
	got := projection.Heal([]message.Message{response(message.ToolUse, "go", "x")})
	r := got[1].(*message.ToolResult)
	text := message.TextOf(r.Content)
	if len(r.Content) != 1 || !strings.Contains(text, "tool-x") || !strings.Contains(text, "call x") || !strings.Contains(text, "unknown") {
		t.Errorf("its text is %q", text)
	}
	want := &message.ToolResult{ToolCallID: "x", ToolName: "tool-x", IsError: true, Timestamp: 42, Content: r.Content}
	if diff := coretest.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

// conversation draws lists in which calls and results of few ids meet.
func conversation() *rapid.Generator[[]message.Message] {
	ids := rapid.SampledFrom([]string{"a", "b", "c"})
	return rapid.SliceOfN(rapid.OneOf(
		rapid.Just[message.Message](user("u")),
		rapid.Map(ids, func(s string) message.Message { return result(s) }),
		rapid.Custom(func(t *rapid.T) message.Message {
			return response(message.ToolUse, "r", rapid.SliceOfN(ids, 0, 3).Draw(t, "calls")...)
		}),
	), 0, 12)
}

func answeredLater(list []message.Message, from int, call string) bool {
	return slices.ContainsFunc(list[from+1:], func(m message.Message) bool {
		r, ok := m.(*message.ToolResult)
		return ok && r.ToolCallID == call
	})
}

func TestHealingAnswersEveryCallAndChangesNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := conversation().Draw(t, "list")
		before := slices.Clone(list)
		healed := projection.Heal(list)
		for i, m := range healed {
			if a, ok := m.(*message.Assistant); ok {
				calls, _ := a.ToolCalls()
				for _, c := range calls {
					if !answeredLater(healed, i, c.ID) {
						t.Fatalf("call %s of message %d has no result", c.ID, i)
					}
				}
			}
		}
		var original []message.Message // what healing did not add
		for _, m := range healed {
			if r, ok := m.(*message.ToolResult); !ok || !r.IsError {
				original = append(original, m)
			}
		}
		if diff := coretest.Diff(before, original); diff != "" {
			t.Fatalf("without the synthetic results: %s", diff)
		}
		if diff := coretest.Diff(before, list); diff != "" {
			t.Fatalf("the list that was given changed: %s", diff)
		}
		if diff := coretest.Diff(healed, projection.Heal(healed)); diff != "" {
			t.Fatalf("healing again: %s", diff)
		}
	})
}

func TestHealingASettledHistoryChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBranch()
		turns := rapid.IntRange(0, 8).Draw(t, "turns")
		for range turns {
			b.turn(rapid.IntRange(0, 3).Draw(t, "calls"))
		}
		var list []message.Message
		for _, e := range b.rows {
			list = append(list, e.Body.(entry.Message).Message)
		}
		healed := projection.Heal(list)
		if len(healed) != len(list) || len(list) > 0 && &healed[0] != &list[0] {
			t.Fatal("a settled list was copied or changed")
		}
	})
}

// turn adds a settled exchange with some calls.
func (b *branch) turn(calls int) {
	n := len(b.rows)
	b.add(said(user("ask")))
	var ids []string
	for i := range calls {
		ids = append(ids, "c"+string(rune('a'+n))+string(rune('0'+i)))
	}
	if calls > 0 {
		b.add(said(response(message.ToolUse, "work", ids...)))
		for _, c := range ids {
			b.add(said(result(c)))
		}
	}
	b.add(said(response(message.Stop, "answer")))
}

// TestAGrowingBranchOnlyAppendsToItsContext is the property that keeps providers'
// prompt caches warm.
func TestAGrowingBranchOnlyAppendsToItsContext(t *testing.T) {
	policy := projection.Policy{}.With("note", func(v projection.CustomView) message.Message {
		if v.Data == nil {
			return nil
		}
		return user("note " + v.ID.String())
	})
	grown, compacted := 0, 0
	for seed := range uint64(30) {
		dice := id.NewGenerator(clock.Fixed(0), seed)
		draw := func(n uint64) int {
			var x uint64
			x, dice = dice.Draw()
			return int(x % n)
		}
		b := newBranch()
		earlier := b.project(policy)
		for range 8 + draw(7) {
			switch draw(6) {
			case 0:
				b.turn(0)
			case 1: // a failed attempt before the one that succeeded
				b.add(said(user("ask")))
				b.add(said(response(message.Error, "broke")))
				b.add(said(response(message.Aborted, "stopped", "never")))
				b.add(said(response(message.Stop, "answer")))
			case 2:
				b.turn(1 + draw(3))
			case 3:
				b.add(entry.Custom{Type: "note", Data: new(jsonv.Num(1))})
				b.add(entry.Custom{Type: "note"})
			case 4:
				b.add(entry.Custom{Type: "unknown", Data: new(jsonv.Num(1))})
			case 5:
				tail := earlier[max(0, len(earlier)-2):]
				for len(tail) > 0 {
					if _, cut := tail[0].(*message.ToolResult); !cut {
						break
					}
					tail = tail[1:]
				}
				b.add(entry.Compaction{Summary: "so far", RetainedTail: tail})
				earlier = b.project(policy)
				compacted++
				continue
			}
			later := b.project(policy)
			if len(later) < len(earlier) {
				t.Fatalf("seed %d: the context shrank from %d to %d", seed, len(earlier), len(later))
			}
			if diff := coretest.Diff(earlier, later[:len(earlier)]); diff != "" {
				t.Fatalf("seed %d: the earlier context is no prefix: %s", seed, diff)
			}
			if len(later) > len(earlier) {
				grown++
			}
			earlier = later
		}
	}
	if grown < 100 || compacted < 20 {
		t.Errorf("%d growths and %d compactions: the histories do not reach what they should", grown, compacted)
	}
}
