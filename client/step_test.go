package client_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/project"
	"github.com/loom-run/loom/core/corrupt"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/sdkmsg"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wiretest"
)

func report() *corrupt.Report { return corrupt.New("test", "usage", "a usage", "no such field") }

var update = flag.Bool("update", false, "rewrite the golden files; review them as a diff")

var (
	session = wiretest.Session(1)
	op      = wiretest.Op(1)
	watch   = plane.Watch{Session: session, Strand: "main", Operation: op}
)

// script builds the frames of a run as a server sends them.
type script struct {
	seq    int64
	frames []wire.Frame
}

func (s *script) replay(id string, b wire.Body) *script {
	s.seq++
	s.frames = append(s.frames, wire.Frame{
		ID: id, Cursor: wire.Cursor{Seq: s.seq}, Delivery: wire.Replay, Session: session, Lane: wire.LaneMain, Strand: "main", Body: b,
	})
	return s
}

func (s *script) passing(d wire.Delivery, id string, b wire.Body) *script {
	s.frames = append(s.frames, wire.Frame{ID: id, Delivery: d, Session: session, Lane: wire.LaneMain, Strand: "main", Operation: op, Body: b})
	return s
}

func (s *script) end(c wire.Cause, u wire.Usage) *script {
	s.replay("end", wire.RunEnd{Terminal: c, Usage: u})
	s.frames[len(s.frames)-1].Operation = op
	return s
}

func seg(entry uint64, block int) wire.Segment {
	return wire.Segment{Entry: wiretest.Entry(entry), Block: block}
}

var (
	model    = wire.ModelRef{Provider: "p", ModelID: "m"}
	roster   = wire.FactOf(wire.RosterOf([]wire.ToolRow{{Name: "ls", Mount: words.MountedHands, Face: &wire.ToolFace{Class: new(words.ClassRead)}}}))
	measured = wire.Usage{Input: 10, Output: 3, CacheRead: 2, Measured: true, CostMicroUSD: new(int64(42))}
)

// wholeRun is one run with a tool call, each kind once or more.
func wholeRun() []wire.Frame {
	s := &script{}
	s.passing(wire.Level, "start", wire.RunStart{Model: model, Mode: words.ModeDefault, Cwd: "/w", Roster: roster, Hands: wire.FactOf(wire.Hands{Tools: []string{"ls"}}), MCP: wire.None[[]wire.MCPServer]()})
	s.replay("u1", wire.UserMessage{Entry: wiretest.Entry(1), Text: "what is here?", Bytes: 13})
	s.passing(wire.Live, "ts", wire.TurnStart{Entry: wiretest.Entry(2)})
	s.passing(wire.Live, "r0", wire.ReasoningDelta{Segment: seg(2, 0), Text: "hm"})
	s.passing(wire.Live, "t0", wire.TextDelta{Segment: seg(2, 1), Text: "I look"})
	s.passing(wire.Live, "t1", wire.TextDelta{Segment: seg(2, 1), Offset: 6, Text: " around."})
	s.passing(wire.Live, "c0", wire.ToolCallDelta{Segment: seg(2, 2), CallID: "c1", Name: "ls", Fragment: `{"pa`})
	s.replay("a1r", wire.ReasoningEnd{Segment: seg(2, 0), Content: "hm"})
	s.replay("a1t", wire.TextEnd{Segment: seg(2, 1), Content: "I look around."})
	s.replay("a1c", wire.ToolCall{Segment: seg(2, 2), CallID: "c1", Name: "ls", Arguments: jsonv.Obj(jsonv.F("path", jsonv.Str(".")))})
	s.replay("a1e", wire.TurnEnd{Entry: wiretest.Entry(2), Usage: measured, StopReason: "toolUse", Model: model})
	s.passing(wire.Live, "d1", wire.ToolDisclosure{CallID: "c1", Name: "ls", Class: new(words.ClassRead), Target: new(".")})
	s.passing(wire.Level, "lu", wire.LastTurnUsage{Entry: wiretest.Entry(2), Usage: measured, Model: model, ContextTokens: new(int64(15))})
	s.passing(wire.Live, "p0", wire.ToolProgress{CallID: "c1", Stream: "stdout", Tail: "a\n", TotalBytes: 2})
	s.replay("r1", wire.ToolResult{
		Entry: wiretest.Entry(3), CallID: "c1", Name: "ls", Text: []wire.TextBlock{{Text: "a\nb", Bytes: 3}},
		Gate: &wire.Gate{Disposition: words.GateAllowed, Origin: new(words.AskedByMode)},
	})
	s.passing(wire.Live, "x0", wire.Retry{Attempt: 1, UntilMs: 5000, Error: "overloaded"})
	s.passing(wire.Live, "n0", wire.Notice{Code: words.NoticeLiveDropped, Audience: words.ForOperator, Facts: wire.Facts{{Name: "count", Value: jsonv.Num(3)}}})
	s.frames = append(s.frames, beside()...)
	s.replay("cb", wire.CompactionBoundary{Entry: wiretest.Entry(8), Summary: "so far", Bytes: 6, TokensBefore: new(int64(900)), Kept: 2})
	s.replay("bs", wire.BranchSummary{Entry: wiretest.Entry(9), From: wiretest.Entry(2), Summary: "tried", Bytes: 5})
	s.replay("a2t", wire.TextEnd{Segment: seg(4, 0), Content: "Two files."})
	s.replay("a2e", wire.TurnEnd{Entry: wiretest.Entry(4), Usage: wire.Usage{}, StopReason: "stop", Model: model})
	s.end(wire.Completed{}, wire.Usage{Input: 10, Output: 3, CacheRead: 2, Measured: true, LowerBound: true})
	return s.frames
}

// countedTurn is the end of the first turn of that run.
func countedTurn() wire.Frame {
	frames := wholeRun()
	return frames[slices.IndexFunc(frames, func(f wire.Frame) bool { return f.Kind() == wire.KindTurnEnd })]
}

func TestArmsGolden(t *testing.T) {
	var b strings.Builder
	for _, surface := range []project.Surface{project.Redraws, project.Appends} {
		s := client.New(watch, surface)
		b.WriteString(map[project.Surface]string{project.Redraws: "# a surface that redraws\n", project.Appends: "# a surface that appends\n"}[surface])
		frames := wholeRun()
		for _, f := range frames {
			b.WriteString(string(f.Kind()) + " " + f.ID + "\n" + dump(s.Step(f)))
		}
		seen := []wire.Kind{}
		for _, f := range frames {
			seen = append(seen, f.Kind())
		}
		stopped := client.New(watch, surface)
		f := (&script{}).passing(wire.Level, "halt", wire.RunStopped{Code: wire.StoreFull, Message: "no room"}).frames[0]
		b.WriteString(string(f.Kind()) + " " + f.ID + "\n" + dump(stopped.Step(f)))
		seen = append(seen, f.Kind())
		if more := stopped.Step(f); len(more) != 0 {
			t.Errorf("the restated stop gave\n%s", dump(more))
		}
		for _, k := range wire.Kinds() {
			if client.Arms(k) && !slices.Contains(seen, k) {
				t.Errorf("no frame of kind %s: its arm is not shown", k)
			}
		}
		if s.Drops() != (client.Drops{}) {
			t.Errorf("dropped: %+v", s.Drops())
		}
	}
	golden(t, "arms.txt", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run with -update and review the diff. Got:\n%s", path, got)
	}
}

// stepAll feeds frames and returns all outputs.
func stepAll(s *client.State, frames []wire.Frame) (outs []plane.Output) {
	for _, f := range frames {
		outs = append(outs, s.Step(f)...)
	}
	return outs
}

// transcript keeps the transcript plane.
func transcript(outs []plane.Output) (kept []plane.Output) {
	for _, o := range outs {
		if _, ok := o.(plane.Transcript); ok {
			kept = append(kept, o)
		}
	}
	return kept
}

func TestTheTranscriptNeedsOnlyWhatIsReplayed(t *testing.T) {
	frames := wholeRun()
	live := transcript(stepAll(client.New(watch, project.Redraws), frames))
	var committed []wire.Frame
	for _, f := range frames {
		if f.Delivery == wire.Replay {
			committed = append(committed, f)
		}
	}
	again := transcript(stepAll(client.New(watch, project.Appends), committed))
	if dump(live) != dump(again) {
		t.Errorf("live\n%sreplayed\n%s", dump(live), dump(again))
	}
	// A reconnect sends the newest frames again: nothing is kept twice.
	s := client.New(watch, project.Redraws)
	for i, f := range committed {
		s.Step(f)
		if i > 0 && len(s.Step(committed[i-1])) != 0 {
			t.Errorf("%s gave output again", committed[i-1].ID)
		}
	}
	if n := s.Drops().Repeated; n != int64(len(committed)-1) {
		t.Errorf("%d repeated frames counted", n)
	}
}

// visible applies live text and verdicts as a host does.
func visible(t interface{ Fatalf(string, ...any) }, outs []plane.Output, surface project.Surface) (text string, withheld bool) {
	for _, o := range outs {
		c, ok := o.(plane.Chrome)
		if !ok {
			continue
		}
		switch e := c.Event().(type) {
		case plane.LiveText:
			text += e.Text
		case plane.Settled:
			switch v := e.Verdict.(type) {
			case plane.Send:
				text += v.Text
			case plane.Rest:
				text += v.Text
			case plane.Replace:
				if surface == project.Appends {
					t.Fatalf("an appending surface was told to replace")
				}
				text = v.Text
			case plane.Retract:
				if surface == project.Redraws {
					text = ""
				} else {
					withheld = true
				}
			case plane.Withhold:
				withheld = true
			}
		}
	}
	return text, withheld
}

func TestHoweverTextIsCutItEndsAsCommitted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(wiretest.Text()).Draw(t, "pieces")
		said := strings.Join(pieces, "")
		final := rapid.SampledFrom([]string{said, said + "and more", "[redacted]", ""}).Draw(t, "final")
		surface := rapid.SampledFrom([]project.Surface{project.Redraws, project.Appends}).Draw(t, "surface")
		s := &script{}
		var at int64
		for i, p := range pieces {
			if rapid.IntRange(0, 9).Draw(t, "fate") != 0 { // one in ten is lost
				s.passing(wire.Live, "d"+string(rune('a'+i%26)), wire.TextDelta{Segment: seg(2, 0), Offset: at, Text: p})
			}
			at += int64(len(p))
		}
		s.replay("e", wire.TextEnd{Segment: seg(2, 0), Content: final})
		// A late delta must not show once the text is there.
		s.passing(wire.Live, "late", wire.TextDelta{Segment: seg(2, 0), Offset: at, Text: "late"})
		st := client.New(watch, surface)
		outs := stepAll(st, s.frames)
		text, withheld := visible(t, outs, surface)
		switch {
		case !withheld && text != final:
			t.Fatalf("shown %q, committed %q", text, final)
		case withheld && surface == project.Redraws:
			t.Fatal("a surface that redraws withheld")
		case withheld && !strings.HasPrefix(said, text):
			t.Fatalf("shown %q is not the start of what was said, %q", text, said)
		case withheld && final != "" && !st.Withheld(final):
			t.Fatalf("%q was withheld and is not in the ledger", final)
		}
	})
}

func TestAnAttemptThatIsNotCommittedIsTakenBack(t *testing.T) {
	s := &script{}
	s.passing(wire.Live, "1", wire.TextDelta{Segment: seg(2, 0), Text: "first try"})
	s.passing(wire.Live, "2", wire.TextDelta{Segment: seg(3, 0), Text: "second"})
	s.replay("3", wire.TextEnd{Segment: seg(3, 0), Content: "second"})
	outs := stepAll(client.New(watch, project.Redraws), s.frames)
	got := dump(outs)
	for _, want := range []string{"Settled{Segment:Segment{Entry:" + wiretest.Entry(2).String(), "Verdict:Retract{}", "Verdict:Nothing{}"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	// Blocks that were shown and not committed go with the end of their turn.
	s = &script{}
	s.passing(wire.Live, "1", wire.TextDelta{Segment: seg(2, 0), Text: "kept"})
	s.passing(wire.Live, "2", wire.TextDelta{Segment: seg(2, 1), Text: "lost"})
	s.replay("3", wire.TextEnd{Segment: seg(2, 0), Content: "kept"})
	s.replay("4", wire.TurnEnd{Entry: wiretest.Entry(2), Usage: measured, StopReason: "stop", Model: model})
	if got := dump(stepAll(client.New(watch, project.Redraws), s.frames)); strings.Count(got, "Retract") != 1 {
		t.Errorf("the uncommitted block was not taken back:\n%s", got)
	}
}

func TestDropsSayWhoIsAtFault(t *testing.T) {
	turn := &script{}
	turn.replay("t", wire.Broken{Of: wire.KindTurnEnd, Report: report()})
	foreign := &script{}
	foreign.replay("f", wire.TextEnd{Segment: seg(1, 0), Content: "x"})
	foreign.frames[0].Strand = "other"
	novel := &script{}
	novel.replay("h", wire.Unknown{Word: "hologram"})
	for name, c := range map[string]struct {
		frame wire.Frame
		want  client.DropWord
	}{
		"a turn without usage": {turn.frames[0], client.ContractViolation},
		"another strand":       {foreign.frames[0], client.ForeignLane},
		"a newer kind":         {novel.frames[0], client.NoArm},
	} {
		s := client.New(watch, project.Redraws)
		if outs := s.Step(c.frame); len(outs) != 0 {
			t.Errorf("%s gave %s", name, dump(outs))
		}
		if drops := s.LastDrops(); len(drops) != 1 || drops[0].Why != c.want || drops[0].FrameID != c.frame.ID {
			t.Errorf("%s: %+v", name, drops)
		}
	}
	words := []client.DropWord{client.NoArm, client.ContractViolation, client.ForeignLane, client.Repeated, "new"}
	for i, w := range words {
		for _, o := range words[:i] {
			if w.Sentence() == o.Sentence() {
				t.Errorf("%s and %s have one sentence", w, o)
			}
		}
	}
}

func TestATurnThatCannotBeCountedMakesTotalsLowerBounds(t *testing.T) {
	for name, body := range map[string]wire.Body{
		"counted":   wire.TurnEnd{Entry: wiretest.Entry(2), Usage: measured, StopReason: "stop", Model: model},
		"uncounted": wire.Broken{Of: wire.KindTurnEnd, Report: report()},
	} {
		s := &script{}
		s.replay("t", body).end(wire.Completed{}, measured)
		outs := transcript(stepAll(client.New(watch, project.Redraws), s.frames))
		total := outs[0].(plane.Transcript).Message().(sdkmsg.Result).Loom
		if want := (name == "counted"); total.UsageExact != want || total.CostExact != want {
			t.Errorf("%s: total %+v", name, total)
		}
	}
}

func TestEachEndingIsReadAsItself(t *testing.T) {
	causes := []wire.Cause{
		wire.Completed{}, wire.Failed{Code: "c", Message: "m"}, wire.Aborted{}, wire.Blocked{}, wire.Paused{},
		wire.UnknownCause{Tag: "evaporated"},
	}
	for _, c := range causes {
		s := client.New(watch, project.Redraws)
		outs := stepAll(s, (&script{}).end(c, measured).frames)
		seen, ok := s.Ending().(plane.Seen)
		if !ok || seen.Cause.Word() != c.Word() {
			t.Errorf("%s ended as %#v", c.Word(), s.Ending())
		}
		if len(outs) != 2 || len(transcript(outs)) != 1 {
			t.Errorf("%s gave\n%s", c.Word(), dump(outs))
		}
		if more := s.Lose(plane.StreamClosed, nil); more != nil {
			t.Errorf("%s ended twice:\n%s", c.Word(), dump(more))
		}
	}
	s := client.New(watch, project.Redraws)
	f := (&script{}).end(wire.Completed{}, measured).frames[0]
	f.Body = wire.Broken{Of: wire.KindRunEnd, Report: report()}
	outs := s.Step(f)
	if lost, ok := s.Ending().(plane.Lost); !ok || lost.Why != plane.ContractBroke {
		t.Errorf("an unreadable end is %#v", s.Ending())
	}
	if len(outs) != 1 {
		t.Errorf("an unreadable end gave\n%s", dump(outs))
	}
	s = client.New(watch, project.Redraws)
	s.Step(countedTurn())
	outs = s.Lose(plane.StreamBroke, errors.New("reset"))
	closed := outs[0].(plane.Chrome).Event().(plane.RunClosed)
	if closed.Turns != 1 || closed.Total.Input != plane.AtLeast(10) {
		t.Errorf("a lost run closed with %+v", closed)
	}
}

func TestAnAttemptThatFailedIsBilledAndIsNoTurn(t *testing.T) {
	s := client.New(watch, project.Redraws)
	turn := countedTurn()
	body := turn.Body.(wire.TurnEnd)
	body.StopReason = "error"
	turn.Body = body
	outs := append(s.Step(turn), s.Lose(plane.StreamClosed, nil)...)
	closed := outs[len(outs)-1].(plane.Chrome).Event().(plane.RunClosed)
	if closed.Turns != 0 || closed.Total.Input != plane.AtLeast(10) {
		t.Errorf("closed with %+v", closed)
	}
}

func TestTheNextRunStartsItsOwnAccount(t *testing.T) {
	all := plane.Watch{Session: session, Strand: "main"}
	s := client.New(all, project.Redraws)
	stepAll(s, wholeRun())
	if s.Ending() == nil {
		t.Fatal("the first run did not end")
	}
	start := wholeRun()[0]
	if outs := s.Step(start); len(outs) != 0 {
		t.Errorf("a restated start of a run that ended gave\n%s", dump(outs))
	}
	start.Operation = wiretest.Op(2)
	if outs := s.Step(start); len(outs) != 2 || s.Ending() != nil {
		t.Errorf("the next run gave %s and ends as %v", dump(outs), s.Ending())
	}
	if outs := s.Step(start); len(outs) != 0 {
		t.Errorf("the same level restated gave\n%s", dump(outs))
	}
	outs := s.Lose(plane.StreamClosed, nil)
	if closed := outs[0].(plane.Chrome).Event().(plane.RunClosed); closed.Turns != 0 {
		t.Errorf("the next run closed with the turns of the first: %+v", closed)
	}
}

// TestWhoAttachesInTheMiddleCountsTheTurnsBefore: a server replays what is committed
// before it states which run is on.
func TestWhoAttachesInTheMiddleCountsTheTurnsBefore(t *testing.T) {
	s := &script{}
	s.replay("u", wire.UserMessage{Entry: wiretest.Entry(1), Text: "go"})
	s.replay("t1", wire.TurnEnd{Entry: wiretest.Entry(2), Usage: measured, StopReason: "toolUse", Model: model})
	s.passing(wire.Level, "start", wire.RunStart{Model: model})
	s.replay("t2", wire.TurnEnd{Entry: wiretest.Entry(3), Usage: measured, StopReason: "stop", Model: model})
	s.end(wire.Completed{}, measured)
	state := client.New(strand, project.Redraws)
	outs := transcript(stepAll(state, s.frames))
	if r := outs[len(outs)-1].(plane.Transcript).Message().(sdkmsg.Result); r.NumTurns == nil || *r.NumTurns != 2 {
		t.Errorf("the run ended with %s", dump(outs))
	}
	// The start of the run that ended, stated late, takes nothing from the next one.
	next := (&script{seq: 9}).replay("u2", wire.UserMessage{Entry: wiretest.Entry(4), Text: "and now?"})
	next.replay("t3", wire.TurnEnd{Entry: wiretest.Entry(5), Usage: measured, StopReason: "stop", Model: model})
	next.passing(wire.Level, "start", wire.RunStart{Model: model})
	stepAll(state, next.frames)
	closed := state.Lose(plane.StreamClosed, nil)[0].(plane.Chrome).Event().(plane.RunClosed)
	if closed.Turns != 1 {
		t.Errorf("the next run closed with %+v", closed)
	}
}

func TestANoticeReachesAPersonOnlyFromTheCatalogue(t *testing.T) {
	for code, want := range map[words.NoticeCode]words.Audience{
		words.NoticeLiveDropped:            words.ForOperator,
		words.NoticeLiveDropped + "\u200b": words.ForOperator,
		"you_won_a_prize":                  words.ForOperator,
	} {
		s := client.New(watch, project.Redraws)
		outs := s.Step((&script{}).passing(wire.Live, "n", wire.Notice{Code: code, Audience: words.ForUser}).frames[0])
		if got := outs[0].(plane.Chrome).Event().(plane.Noticed).Audience; got != want {
			t.Errorf("%q is for %s", code, got)
		}
	}
}

func FuzzStep(f *testing.F) {
	for _, frame := range wholeRun() {
		f.Add(frame.Append(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := wire.DecodeFrame(data)
		if err != nil {
			return
		}
		s := client.New(plane.Watch{Session: frame.Session, Strand: frame.Strand}, project.Appends)
		for range 2 {
			for _, o := range s.Step(frame) {
				if !o.Valid() {
					t.Fatalf("%s has no lane", dump([]plane.Output{o}))
				}
			}
		}
	})
}

// BenchmarkStep is delta frames, with a segment's end after each hundred. It reports what the state holds at the end: with -benchtime 10000000x, after
// ten million frames.
func BenchmarkStep(b *testing.B) {
	const segments, deltas = 16, 100
	const text = "a dozen byte"
	var frames [segments][]wire.Frame
	for i := range frames {
		sc := &script{}
		for j := range deltas {
			sc.passing(wire.Live, "d", wire.TextDelta{Segment: seg(uint64(i+1), 0), Offset: int64(j * len(text)), Text: text})
		}
		frames[i] = sc.replay("e", wire.TextEnd{Segment: seg(uint64(i+1), 0), Content: strings.Repeat(text, deltas)}).frames
	}
	s, before := client.New(watch, project.Redraws), heap()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		f := frames[n/(deltas+1)%segments][n%(deltas+1)]
		if f.Delivery == wire.Replay {
			f.Cursor.Seq = int64(n + 1)
		}
		s.Step(f)
		n++
	}
	b.ReportMetric(max(0, float64(int64(heap())-int64(before))/1e6), "MB-held") //nolint:gosec // both are small
	if got := s.Drops(); got != (client.Drops{}) {                              // and so the state was alive until here
		b.Fatalf("dropped: %+v", got)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "frames/s")
}

func TestAStateDoesNotGrowWithItsFrames(t *testing.T) {
	s := client.New(watch, project.Redraws)
	feed := func(from, to int64) {
		for i := from; i < to; i++ {
			segment := seg(uint64(i/100), 0)
			f := wire.Frame{ID: "d", Delivery: wire.Live, Session: session, Lane: wire.LaneMain, Strand: "main", Operation: op}
			f.Body = wire.TextDelta{Segment: segment, Offset: i % 100 * 4, Text: "four"}
			if i%100 == 99 {
				f.Delivery, f.Cursor = wire.Replay, wire.Cursor{Seq: i}
				f.Body = wire.TextEnd{Segment: segment, Content: strings.Repeat("four", 99)}
			}
			s.Step(f)
		}
	}
	feed(0, 100_000) // what is kept to tell doubles by has its bound
	before := heap()
	feed(100_000, 300_000)
	if after := heap(); after > before+64<<10 {
		t.Errorf("the heap grew by %d bytes over 200,000 frames", after-before)
	}
	runtime.KeepAlive(s)
}

// heap is what is in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
