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
)

// branch grows one path of a tree.
type branch struct {
	ids  id.Generator
	rows []entry.Entry // oldest first
}

func newBranch(bodies ...entry.Body) *branch {
	b := &branch{ids: id.NewGenerator(clock.Fixed(1_767_225_600_000), 1)}
	for _, body := range bodies {
		b.add(body)
	}
	return b
}

func (b *branch) add(body entry.Body) {
	e := entry.Entry{Seq: int64(len(b.rows) + 1), Timestamp: stamp(len(b.rows)), Body: body}
	if n := len(b.rows); n > 0 {
		e.Parent = b.rows[n-1].ID
	}
	e.ID, b.ids = b.ids.Entry()
	b.rows = append(b.rows, e)
}

// stamp is the time of row n.
func stamp(n int) int64 { return 1000 + int64(n) }

// newestFirst is the branch as a scan returns it, cut at the newest compaction.
func (b *branch) newestFirst() []entry.Entry {
	var out []entry.Entry
	for i := len(b.rows) - 1; i >= 0; i-- {
		out = append(out, b.rows[i])
		if b.rows[i].Body.Kind() == entry.KindCompaction {
			break
		}
	}
	return out
}

func (b *branch) project(p projection.Policy) []message.Message {
	return projection.Project(b.newestFirst(), p)
}

func said(m message.Message) entry.Body { return entry.Message{Message: m} }

func user(text string) *message.User {
	return &message.User{Content: []message.UserBlock{message.Text{Text: text}}, Timestamp: 7}
}

func response(stop message.StopReason, text string, calls ...string) *message.Assistant {
	a := &message.Assistant{StopReason: stop, Timestamp: 42, Content: []message.AssistantBlock{message.Text{Text: text}}}
	for _, c := range calls {
		a.Content = append(a.Content, message.ToolCall{ID: c, Name: "tool-" + c, Arguments: jsonv.Obj()})
	}
	return a
}

func result(call string) *message.ToolResult {
	return &message.ToolResult{ToolCallID: call, ToolName: "tool-" + call, Timestamp: 9,
		Content: []message.ResultBlock{message.Text{Text: "did " + call}}}
}

// outline renders a context in one line for each message.
func outline(list []message.Message) string {
	var b strings.Builder
	for _, m := range list {
		switch m := m.(type) {
		case *message.User:
			b.WriteString("user " + message.TextOf(m.Content))
		case *message.Assistant:
			b.WriteString(string(m.StopReason) + " " + message.TextOf(m.Content))
		case *message.ToolResult:
			b.WriteString("result " + m.ToolCallID)
			if m.IsError {
				b.WriteString(" unknown")
			}
		case *message.Custom:
			b.WriteString("custom " + m.Schema)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func wantOutline(t *testing.T, got []message.Message, want ...string) {
	t.Helper()
	if g, w := outline(got), strings.Join(append(want, ""), "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

func TestContextIsOldestFirst(t *testing.T) {
	b := newBranch(said(user("a")), said(response(message.Stop, "b")), said(user("c")))
	wantOutline(t, b.project(projection.Policy{}), "user a", "stop b", "user c")
}

func TestOnlyResponsesThatSettledAreShown(t *testing.T) {
	for stop, shown := range map[message.StopReason]bool{
		message.Stop: true, message.Length: true, message.ToolUse: true,
		message.Error: false, message.Aborted: false, message.Deferred: false,
	} {
		got := newBranch(said(response(stop, "x"))).project(projection.Policy{})
		if (len(got) == 1) != shown {
			t.Errorf("a response that ended as %s: shown %v, want %v", stop, len(got) == 1, shown)
		}
	}
}

func TestOtherMessagesAreShownUnchanged(t *testing.T) {
	origin, err := message.Human("ann", "Ann")
	if err != nil {
		t.Fatal(err)
	}
	kept := []message.Message{
		&message.User{Content: []message.UserBlock{message.Image{Data: "AAAA", MimeType: "image/png"}}, Timestamp: 3, Origin: &origin},
		&message.Custom{Schema: "app", Payload: jsonv.Num(1)},
		response(message.Length, "cut"),
	}
	b := newBranch()
	for _, m := range kept {
		b.add(said(m))
	}
	if diff := coretest.Diff(kept, b.project(projection.Policy{})); diff != "" {
		t.Error(diff)
	}
}

func TestACompactionOpensTheContextWithItsSummaryAndItsTail(t *testing.T) {
	tail := []message.Message{user("kept"), response(message.Aborted, "as it was captured")}
	b := newBranch(
		said(user("long ago")),
		entry.Compaction{Summary: "what was", RetainedTail: tail},
		said(user("now")),
	)
	got := b.project(projection.Policy{})
	// The tail was projected when it was captured: it is not filtered again.
	wantOutline(t, got, "user what was", "user kept", "aborted as it was captured", "user now")
	want := &message.User{Content: []message.UserBlock{message.Text{Text: "what was"}}, Timestamp: stamp(1)}
	if diff := coretest.Diff(want, got[0]); diff != "" {
		t.Errorf("the summary: %s", diff)
	}
}

func TestOnlyTheNewestCompactionIsRead(t *testing.T) {
	b := newBranch(
		entry.Compaction{Summary: "first"}, said(user("a")),
		entry.Compaction{Summary: "second"}, said(user("b")),
	)
	wantOutline(t, b.project(projection.Policy{}), "user second", "user b")
}

func TestABranchSummaryIsAUserMessage(t *testing.T) {
	b := newBranch(said(user("a")), entry.BranchSummary{Summary: "the other way", FromHook: true})
	got := b.project(projection.Policy{})
	wantOutline(t, got, "user a", "user the other way")
	want := &message.User{Content: []message.UserBlock{message.Text{Text: "the other way"}}, Timestamp: stamp(1)}
	if diff := coretest.Diff(want, got[1]); diff != "" {
		t.Error(diff)
	}
}

func TestCustomEntriesEnterOnlyThroughTheirProjector(t *testing.T) {
	b := newBranch(
		entry.Custom{Type: "note", Data: new(jsonv.Str("shown"))},
		entry.Custom{Type: "note"},
		entry.Custom{Type: "other", Data: new(jsonv.Str("hidden"))},
		said(user("end")),
	)
	var seen []projection.CustomView
	p := projection.Policy{}.
		With("note", func(projection.CustomView) message.Message { panic("replaced before it ran") }).
		With("note", func(v projection.CustomView) message.Message {
			seen = append(seen, v)
			if v.Data == nil {
				return nil // nothing to show
			}
			text, _ := v.Data.Text()
			return user("note " + text)
		})
	wantOutline(t, b.project(p), "user note shown", "user end")
	want := []projection.CustomView{
		{ID: b.rows[0].ID, Type: "note", Data: new(jsonv.Str("shown")), Timestamp: stamp(0)},
		{ID: b.rows[1].ID, Type: "note", Timestamp: stamp(1)},
	}
	if diff := coretest.Diff(want, seen); diff != "" {
		t.Errorf("what the projector saw: %s", diff)
	}
	wantOutline(t, b.project(projection.Policy{}), "user end")
}

func TestAPolicyIsAValue(t *testing.T) {
	shout := func(projection.CustomView) message.Message { return user("!") }
	base := projection.Policy{}.With("a", shout)
	more := base.With("b", shout).WithTransform(func([]message.Message) []message.Message { return nil })
	if got := base.CustomTypes(); len(got) != 1 || !got["a"] {
		t.Errorf("the first policy projects %v after a second was made from it", got)
	}
	if got := more.CustomTypes(); len(got) != 2 || !got["a"] || !got["b"] {
		t.Errorf("the second policy projects %v", got)
	}
	b := newBranch(entry.Custom{Type: "a"}, entry.Custom{Type: "b"})
	wantOutline(t, b.project(base), "user !")
	wantOutline(t, b.project(more))
}

func TestTheTransformIsAppliedOnceAndLast(t *testing.T) {
	b := newBranch(said(response(message.ToolUse, "go", "x")), entry.Custom{Type: "note"})
	var saw string
	calls := 0
	p := projection.Policy{}.
		With("note", func(projection.CustomView) message.Message { return user("note") }).
		WithTransform(func([]message.Message) []message.Message { panic("replaced before it ran") }).
		WithTransform(func(list []message.Message) []message.Message {
			calls++
			saw = outline(list)
			return append(list, user("added"))
		})
	wantOutline(t, b.project(p), "toolUse go", "result x unknown", "user note", "user added")
	if saw != "toolUse go\nresult x unknown\nuser note\n" || calls != 1 {
		t.Errorf("the transform ran %d times and saw\n%s", calls, saw)
	}
}

func TestTheTransformIsAskedAboutAnEmptyBranch(t *testing.T) {
	p := projection.Policy{}.WithTransform(func(list []message.Message) []message.Message {
		if len(list) != 0 {
			t.Errorf("it saw %d messages", len(list))
		}
		return append(list, user("first words"))
	})
	wantOutline(t, projection.Project(nil, p), "user first words")
}

func TestTheBranchIsNotChanged(t *testing.T) {
	b := newBranch(said(user("a")), said(response(message.ToolUse, "b", "x")), entry.Compaction{
		Summary: "s", RetainedTail: []message.Message{response(message.ToolUse, "c", "y")},
	})
	before := slices.Clone(b.newestFirst())
	p := projection.Policy{}.WithTransform(func(list []message.Message) []message.Message {
		clear(list)
		return list
	})
	projection.Project(b.newestFirst(), p)
	if diff := coretest.Diff(before, b.newestFirst()); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkProject10kEntries(b *testing.B) {
	rows := coretest.Transcript(1, 30<<20)
	if len(rows) < 10_000 {
		b.Fatalf("the transcript has only %d rows", len(rows))
	}
	rows = rows[:10_000]
	slices.Reverse(rows)
	b.ReportAllocs()
	for b.Loop() {
		if got := projection.Project(rows, projection.Policy{}); len(got) < len(rows) {
			b.Fatalf("%d messages of %d rows", len(got), len(rows))
		}
	}
}
