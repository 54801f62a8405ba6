package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/core/coretest"
	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/wire"
)

// randomRuns fills a session with runs of all shapes.
func randomRuns(t *rapid.T, f *fakeSession) {
	for range rapid.IntRange(0, 4).Draw(t, "runs") {
		f.begin(rapid.String().Draw(t, "prompt"))
		for range rapid.IntRange(0, 4).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				f.say(message.Stop, counted, message.Text{Text: rapid.String().Draw(t, "text")})
			case 1:
				f.say(message.ToolUse, usage.Unknown(usage.API), message.Thinking{Thinking: "t"}, message.ToolCall{ID: "c", Name: "ls", Arguments: jsonv.Obj()})
			case 2:
				f.result("c", rapid.String().Draw(t, "result"))
			case 3: // a row that is no part of the conversation
				f.note()
			case 4:
				f.say(message.Error, counted)
			}
		}
		switch rapid.IntRange(0, 3).Draw(t, "end") {
		case 0:
			f.end(machine.OutcomeCompleted, nil)
		case 1:
			f.end(machine.OutcomeFailed, &machine.OperationError{Code: "max_turns", Message: "enough"})
		case 2:
			f.end(machine.OutcomeAborted, nil)
		case 3: // interrupted: the next run begins without an end
		}
	}
}

func TestFromEveryCursorTheSameFramesFollow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFakeSession(t, 1)
		randomRuns(t, f)
		whole := all(t, f, wire.Cursor{})
		ids := map[string]bool{}
		for i, frame := range whole {
			if ids[frame.ID] {
				t.Fatalf("two frames have the id %s", frame.ID)
			}
			ids[frame.ID] = true
			if i > 0 && frame.Cursor.Compare(whole[i-1].Cursor) <= 0 {
				t.Fatalf("%v comes after %v", frame.Cursor, whole[i-1].Cursor)
			}
			if got := all(t, f, frame.Cursor); events(got) != events(whole[i+1:]) {
				t.Fatalf("behind %v come\n%sand not\n%s", frame.Cursor, events(got), events(whole[i+1:]))
			}
			// What was sent can be read, and is what the contract says.
			read, err := wire.DecodeFrame(frame.Append(nil))
			if err != nil {
				t.Fatal(err)
			}
			if _, broken := read.Body.(wire.Broken); broken {
				t.Fatalf("a frame of ours breaks the contract: %s", frame.Append(nil))
			}
		}
		m := minted{session: f.self, generation: firstGeneration, source: f.Source(), whose: &owners{}}
		head, err := m.head()
		if err != nil {
			t.Fatal(err)
		}
		if n := len(all(t, f, head)); n != 0 {
			t.Fatalf("%d frames stand behind the head", n)
		}
		// What is committed later comes behind that head, and nothing before it changed.
		f.oneRun("more", "yes")
		if got := all(t, f, wire.Cursor{}); events(got[:len(whole)]) != events(whole) || events(got[len(whole):]) != events(all(t, f, head)) {
			t.Fatal("a later commit changed earlier frames, or fell between positions")
		}
	})
}

func TestFramesOfARun(t *testing.T) {
	f := newFakeSession(t, 1)
	op := f.oneRun("what is in a?", "a has content")
	var got []string
	for _, frame := range all(t, f, wire.Cursor{}) {
		got = append(got, fmt.Sprint(frame.Kind()))
		if end, ok := frame.Body.(wire.RunEnd); ok {
			if frame.Operation != op || end.Terminal != (wire.Completed{}) {
				t.Errorf("the end is %+v of %v", end, frame.Operation)
			}
			if end.Usage.Input != 20 || *end.Usage.CostMicroUSD != 3000 || end.Usage.LowerBound || !end.Usage.Measured {
				t.Errorf("the run consumed %+v", end.Usage)
			}
		}
	}
	want := "user_message reasoning_end text_end tool_call turn_end tool_result text_end turn_end run_end"
	if strings.Join(got, " ") != want {
		t.Errorf("the frames are %s", strings.Join(got, " "))
	}
	// The next run has its own account.
	f.oneRun("again", "the same")
	frames := all(t, f, wire.Cursor{})
	if end := frames[len(frames)-1].Body.(wire.RunEnd); end.Usage.Input != 20 {
		t.Errorf("the second run consumed %+v", end.Usage)
	}
}

func TestEveryMessageHasItsFrames(t *testing.T) {
	m := minted{session: newFakeSession(t, 1).self, generation: 1, whose: &owners{}}
	rapid.Check(t, func(t *rapid.T) {
		e := coretest.Entry().Draw(t, "entry")
		e.Seq = rapid.Int64Range(1, 1<<40).Draw(t, "seq")
		frames := m.entry(e)
		want := 0
		switch body := e.Body.(type) {
		case entry.Compaction, entry.BranchSummary:
			want = 1
		case entry.Message:
			switch msg := body.Message.(type) {
			case *message.Assistant:
				want = len(msg.Content) + 1
			case *message.User, *message.ToolResult:
				want = 1
			}
		}
		if len(frames) != want {
			t.Fatalf("%d frames of %#v", len(frames), e.Body)
		}
		for _, f := range frames {
			read, err := wire.DecodeFrame(f.Append(nil))
			if err != nil {
				t.Fatal(err)
			}
			if b, broken := read.Body.(wire.Broken); broken {
				t.Fatalf("%s breaks the contract: %v", f.Append(nil), b.Report)
			}
		}
	})
}

func TestLongTextsAreCutBetweenCharacters(t *testing.T) {
	long := strings.Repeat("é", wire.MaxShownText/2) + "é"
	long = "x" + long
	msg := userMessage(newFakeSession(t, 1).entryID(), &message.User{Content: []message.UserBlock{message.Text{Text: long}, message.Image{}}})
	if len(msg.Text) != wire.MaxShownText-1 || msg.Bytes != int64(len(long)) || msg.Images != 1 {
		t.Errorf("%d of %d bytes, %d images", len(msg.Text), msg.Bytes, msg.Images)
	}
	if got := tail("x" + strings.Repeat("é", wire.MaxTail)); len(got) != wire.MaxTail || strings.HasPrefix(got, "x") {
		t.Errorf("the tail has %d bytes", len(got))
	}
	if got := tail("x" + strings.Repeat("€", wire.MaxTail)); len(got) > wire.MaxTail || len(got) < wire.MaxTail-2 || !strings.HasPrefix(got, "€") {
		t.Errorf("the tail has %d bytes", len(got))
	}
}

func TestUsageSaysWhatIsKnown(t *testing.T) {
	price := usage.Cost{Total: usage.Micros(42)}
	for name, c := range map[string]struct {
		in       usage.Usage
		measured bool
		lower    bool
		cost     *int64
		costly   bool // the cost is a lower bound
	}{
		"no provider": {usage.Zero(), true, false, new(int64(0)), false},
		"unreported":  {usage.Unknown(usage.API), false, false, nil, false},
		"no price":    {usage.Usage{Input: 1, Evidence: usage.Reported(usage.API, usage.Complete)}, true, false, nil, false},
		"priced":      {usage.Usage{Input: 1, Cost: price, Evidence: usage.Reported(usage.API, usage.Complete).WithPrice(usage.APIRates)}, true, false, new(int64(42)), false},
		"in part":     {usage.Usage{Input: 1, Cost: price, Evidence: usage.Reported(usage.API, usage.Partial).WithPrice(usage.APIRates)}, true, true, new(int64(42)), true},
	} {
		got := usageOf(c.in)
		if got.Measured != c.measured || got.LowerBound != c.lower || got.CostLowerBound != c.costly ||
			(got.CostMicroUSD == nil) != (c.cost == nil) || c.cost != nil && *got.CostMicroUSD != *c.cost {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestADenialIsOnTheFrame(t *testing.T) {
	f := newFakeSession(t, 1)
	f.begin("p")
	f.result("c1", "not allowed", Denied(words.DeniedByMode), jsonv.F("other", jsonv.Num(1)))
	f.result("c2", "allowed")
	f.result("c3", "odd", jsonv.F(gateKey, jsonv.Str("denied")))
	var gates []*wire.Gate
	for _, frame := range all(t, f, wire.Cursor{}) {
		if r, ok := frame.Body.(wire.ToolResult); ok {
			gates = append(gates, r.Gate)
		}
	}
	if g := gates[0]; g == nil || g.Disposition != words.GateDenied || g.Origin != nil || *g.DeniedBy != words.DeniedByMode || gates[1] != nil || gates[2] != nil {
		t.Errorf("%+v", gates)
	}
}

func TestOutcomesAreNeverReadAsAnother(t *testing.T) {
	for _, c := range []struct {
		in   Outcome
		want string
	}{
		{Outcome{Word: "completed"}, "completed"},
		{Outcome{Word: "aborted"}, "aborted"},
		{Outcome{Word: "failed", Code: "c", Message: "m"}, "failed"},
		{Outcome{Word: "declined"}, "declined"},
	} {
		if got := causeOf(c.in); got.Word() != c.want {
			t.Errorf("%+v is %#v", c.in, got)
		}
	}
}

func TestQueueLosesNoCommit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue()
		var newest, told, seq int64
		var passed, got, dropped, levels, stated int64
		check := func() {
			items, d := q.take()
			dropped += d
			for i, it := range items {
				switch {
				case it.event != nil:
					got++
				case it.level != nil:
					stated++
				default:
					if it.commit <= told || i > 0 && items[i-1].commit > 0 {
						t.Fatalf("commits are told as %v", items)
					}
					told = it.commit
				}
			}
			if told != newest || got+dropped != passed || stated != levels {
				t.Fatalf("told %d of %d, live %d and %d of %d, levels %d of %d", told, newest, got, dropped, passed, stated, levels)
			}
		}
		for range rapid.IntRange(0, 60).Draw(t, "ops") {
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0:
				seq += 3
				newest = seq
				q.commit(seq)
			case 1:
				levels++
				q.level(leveled{})
			case 2:
				check()
			default:
				n := rapid.SampledFrom([]int{1, 100}).Draw(t, "n")
				for range n {
					q.pass(make([]byte, 4000))
					passed++
				}
			}
			if q.live > maxWaiting || q.bytes > maxWaitingBytes {
				t.Fatalf("%d frames, %d bytes wait", q.live, q.bytes)
			}
			if len(q.items) > 0 && len(q.wake) == 0 {
				t.Fatal("something waits and nobody was woken")
			}
		}
		check()
	})
}

func TestQueueForgetsWhatWasRead(t *testing.T) {
	q := newQueue()
	q.pass([]byte("stale"))
	q.commit(5)
	q.level(leveled{strand: "stale"})
	q.commit(9)
	q.pass([]byte("fresh"))
	q.commit(12)
	q.forget(9)
	items, _ := q.take()
	if len(items) != 2 || string(items[0].event) != "fresh" || items[1].commit != 12 {
		t.Errorf("%+v", items)
	}
	q.pass([]byte("a"))
	q.forget(20)
	if items, _ := q.take(); len(items) != 1 {
		t.Error("live frames without a commit behind them were forgotten")
	}
}

func TestDeltasArePlacedBehindEachOther(t *testing.T) {
	f := newFakeSession(t, 1)
	h := newHub()
	h.session, h.live.session = f.self, f.self
	q, leave := h.subscribe()
	defer leave()
	f.observe = h.observe
	f.begin("p")
	f.say(message.Stop, counted, message.Text{Text: "héllo wörld"}, message.Thinking{Thinking: "deep"}, message.Text{Text: "more"})
	items, _ := q.take()
	type place struct {
		block     int
		reasoning bool
	}
	told := map[place]string{}
	for _, it := range items {
		if it.event == nil {
			continue
		}
		frame, err := wire.NewEventReader(strings.NewReader(string(it.event))).Next()
		if err != nil {
			t.Fatal(err)
		}
		switch b := frame.Body.(type) {
		case wire.TextDelta:
			p := place{b.Segment.Block, false}
			if b.Offset != int64(len(told[p])) {
				t.Errorf("%q is placed at %d behind %q", b.Text, b.Offset, told[p])
			}
			told[p] += b.Text
		case wire.ReasoningDelta:
			told[place{b.Segment.Block, true}] += b.Text
		}
	}
	if told[place{0, false}] != "héllo wörld" || told[place{1, true}] != "deep" || told[place{2, false}] != "more" {
		t.Errorf("%v", told)
	}
	if !slices.ContainsFunc(items, func(it item) bool { return it.level != nil }) {
		t.Error("the start of the run was not told")
	}
}

func TestWhatAToolSaysToProgramsIsOnTheFrame(t *testing.T) {
	details := jsonv.Obj(jsonv.F("exitCode", jsonv.Num(3)), Denied(words.DeniedByMode))
	v, size := structuredOf(&details)
	if v == nil || v.String() != `{"exitCode":3}` || size != 0 {
		t.Errorf("%v %d", v, size)
	}
	for name, d := range map[string]jsonv.Value{
		"nothing but a gate": jsonv.Obj(Denied(words.DeniedByMode)), "an empty object": jsonv.Obj(), "no object": jsonv.Str("x"),
	} {
		if v, size := structuredOf(&d); v != nil || size != 0 {
			t.Errorf("%s: %v %d", name, v, size)
		}
	}
	large := jsonv.Obj(jsonv.F("rows", jsonv.Str(strings.Repeat("x", wire.MaxStructured))))
	if v, size := structuredOf(&large); v != nil || size != int64(len(large.Append(nil))) {
		t.Errorf("%d bytes are carried", size)
	}
}

func TestTheGatesOfARunAreOnItsEnd(t *testing.T) {
	f := newFakeSession(t, 1)
	for _, call := range []string{"first", "second"} { // a run has its own gates only
		f.begin("p")
		f.result("ran", "ok")
		f.result(call, "no", Denied(words.DeniedByMode))
		f.end(machine.OutcomeCompleted, nil)
		frames := all(t, f, wire.Cursor{})
		end := frames[len(frames)-1].Body.(wire.RunEnd)
		if len(end.Gates) != 1 || end.Gates[0].CallID != call || *end.Gates[0].DeniedBy != words.DeniedByMode {
			t.Errorf("%+v", end.Gates)
		}
	}
	f.begin("p")
	f.end(machine.OutcomeCompleted, nil)
	frames := all(t, f, wire.Cursor{})
	if end := frames[len(frames)-1].Body.(wire.RunEnd); end.Gates == nil || len(end.Gates) != 0 {
		t.Errorf("a run without a record says %#v", end.Gates)
	}
}

func TestAManifestSaysWhatIsOffered(t *testing.T) {
	m := manifest(Level{Provider: "p", ModelID: "m", Mode: "default", Cwd: "/repo", Tools: fakeTools})
	roster, ok := m.Roster.Get()
	if !ok || roster.Count != 2 || roster.Tools[0].Name != "read" || !roster.DigestAgrees() {
		t.Errorf("%+v", m.Roster)
	}
	if hands, ok := m.Hands.Get(); !ok || len(hands.Tools) != 1 || hands.Tools[0] != "read" {
		t.Errorf("the hands are %s", m.Hands)
	}
	if m.MCP.State() != wire.StatedNone {
		t.Errorf("tool servers: %s", m.MCP)
	}
	bare := manifest(Level{})
	if hands, ok := bare.Hands.Get(); !ok || len(hands.Tools) != 0 {
		t.Errorf("no hands are %s", bare.Hands)
	}
	if roster, ok := bare.Roster.Get(); !ok || roster.Count != 0 || !roster.DigestAgrees() {
		t.Errorf("an empty roster is %s", bare.Roster)
	}
	// As it is sent it can be read.
	f := wire.Frame{ID: "k", Delivery: wire.Level, Session: newFakeSession(t, 1).self, Lane: wire.LaneMain, Body: m}
	read, err := wire.DecodeFrame(f.Append(nil))
	if err != nil || read.Body.(wire.RunStart).Roster.String() != m.Roster.String() {
		t.Errorf("%+v %v", read.Body, err)
	}
}

func TestADisclosureSaysNoMoreThanIsKnown(t *testing.T) {
	call := func(name, path string) wire.ToolCall {
		return wire.ToolCall{CallID: "c", Name: name, Arguments: jsonv.Obj(jsonv.F("path", jsonv.Str(path)))}
	}
	d := disclose(fakeTools, call("read", "a/b"))
	if *d.Class != words.ClassRead || *d.Target != "a/b" || *d.Mount != words.MountedHands || d.CallID != "c" {
		t.Errorf("%+v", d)
	}
	if d := disclose(fakeTools, call("note", "a")); d.Class != nil || d.Target != nil {
		t.Errorf("of a tool without a face: %+v", d)
	}
	if d := disclose(fakeTools, call("gone", "a")); d.Class != nil || d.Mount != nil || d.Name != "gone" {
		t.Errorf("of a tool that is not offered: %+v", d)
	}
	if d := disclose(fakeTools, call("read", strings.Repeat("é", maxTarget))); len(*d.Target) != maxTarget {
		t.Errorf("a target of %d bytes", len(*d.Target))
	}
	odd := wire.ToolCall{Name: "read", Arguments: jsonv.Arr(jsonv.Num(1))}
	if d := disclose(fakeTools, odd); d.Target != nil {
		t.Errorf("of odd arguments: %+v", d)
	}
}

func TestAContextIsOnlyAsLargeAsItWasCounted(t *testing.T) {
	u := wire.Usage{Input: 10, Output: 2, CacheRead: 5, CacheWrite: 1, Measured: true}
	if got := turnUsage(wire.TurnEnd{Usage: u}); got.ContextTokens == nil || *got.ContextTokens != 18 {
		t.Errorf("%+v", got)
	}
	for name, u := range map[string]wire.Usage{"not measured": {}, "a part": {Input: 10, Measured: true, LowerBound: true}} {
		if got := turnUsage(wire.TurnEnd{Usage: u}); got.ContextTokens != nil {
			t.Errorf("%s: %d", name, *got.ContextTokens)
		}
	}
}
