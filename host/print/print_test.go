package print_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/client"
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/client/say"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/host/print"
	"github.com/loom-run/loom/wire"
	"github.com/loom-run/loom/wire/wireclient"
	"github.com/loom-run/loom/wire/wiretest"
)

var update = flag.Bool("update", false, "rewrite the golden files; review them as a diff")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	session = wiretest.Session(1)
	op      = wiretest.Op(1)
	watch   = plane.Watch{Session: session, Strand: "main", Operation: op}
	model   = wire.ModelRef{Provider: "openai", ModelID: "m-1"}
)

// script builds frames as a server sends them.
type script struct {
	seq    int64
	frames []wire.Frame
}

func (s *script) replay(b wire.Body) *script {
	s.seq++
	s.frames = append(s.frames, wire.Frame{
		ID: fmt.Sprint(s.seq), Cursor: wire.Cursor{Seq: s.seq}, Delivery: wire.Replay, Session: session, Lane: wire.LaneMain, Strand: "main", Body: b,
	})
	return s
}

func (s *script) pass(d wire.Delivery, b wire.Body) *script {
	s.frames = append(s.frames, wire.Frame{ID: "x", Delivery: d, Session: session, Lane: wire.LaneMain, Strand: "main", Operation: op, Body: b})
	return s
}

func (s *script) end(c wire.Cause) *script {
	s.replay(wire.RunEnd{Terminal: c, Usage: wire.Usage{Input: 1200, Output: 34, CacheRead: 5, Measured: true, CostMicroUSD: new(int64(1_230_450))}})
	s.frames[len(s.frames)-1].Operation = op
	return s
}

func (s *script) turn(entry uint64, stop string) *script {
	return s.replay(wire.TurnEnd{Entry: wiretest.Entry(entry), Usage: wire.Usage{Input: 600, Output: 17, Measured: true}, StopReason: stop, Model: model})
}

func seg(entry uint64, block int) wire.Segment {
	return wire.Segment{Entry: wiretest.Entry(entry), Block: block}
}

func (s *script) source(err error) client.Source {
	return func(context.Context) iter.Seq2[wire.Frame, error] {
		return func(yield func(wire.Frame, error) bool) {
			for _, f := range s.frames {
				if !yield(f, nil) {
					return
				}
			}
			if err != nil {
				yield(wire.Frame{}, err)
			}
		}
	}
}

// wholeRun is a run with a call that works, one that fails and one that is denied.
func wholeRun() *script {
	s := &script{}
	s.pass(wire.Level, wire.RunStart{Model: model, Mode: words.ModeDefault, Cwd: "/repo"})
	s.replay(wire.UserMessage{Entry: wiretest.Entry(1), Text: "what is here?", Bytes: 13})
	s.pass(wire.Live, wire.TextDelta{Segment: seg(2, 0), Text: "I look "})
	s.pass(wire.Live, wire.TextDelta{Segment: seg(2, 0), Offset: 7, Text: "around."})
	s.replay(wire.TextEnd{Segment: seg(2, 0), Content: "I look around."})
	s.replay(wire.ToolCall{Segment: seg(2, 1), CallID: "c1", Name: "ls", Arguments: jsonv.Obj(jsonv.F("path", jsonv.Str(".")))})
	s.replay(wire.ToolCall{Segment: seg(2, 2), CallID: "c2", Name: "read", Arguments: jsonv.Obj(jsonv.F("path", jsonv.Str("gone.go")), jsonv.F("limit", jsonv.Num(10)))})
	s.replay(wire.ToolCall{Segment: seg(2, 3), CallID: "c3", Name: "write", Arguments: jsonv.Obj(
		jsonv.F("path", jsonv.Str("a.go")), jsonv.F("content", jsonv.Str("package a\n\nfunc A() {}\n")))})
	s.turn(2, "toolUse")
	s.pass(wire.Live, wire.ToolProgress{CallID: "c1", Stream: "stdout", Tail: "a\n", TotalBytes: 2})
	s.replay(wire.ToolResult{Entry: wiretest.Entry(3), CallID: "c1", Name: "ls", Text: []wire.TextBlock{{Text: "a\nb\nc\n", Bytes: 6}}})
	s.replay(wire.ToolResult{Entry: wiretest.Entry(4), CallID: "c2", Name: "read", Text: []wire.TextBlock{{Text: "no such file", Bytes: 12}}, IsError: true})
	s.replay(wire.ToolResult{
		Entry: wiretest.Entry(5), CallID: "c3", Name: "write", IsError: true, Gate: &wire.Gate{Disposition: words.GateDenied},
		Text: []wire.TextBlock{{Text: "mode default does not write", Bytes: 27}},
	})
	s.pass(wire.Live, wire.Retry{Attempt: 1, UntilMs: 9000, Error: "overloaded"})
	s.pass(wire.Live, wire.TextDelta{Segment: seg(6, 0), Text: "Three"})
	s.replay(wire.TextEnd{Segment: seg(6, 0), Content: "Three files: a, b, c."})
	s.turn(6, "stop")
	return s.end(wire.Completed{})
}

type outcome struct {
	stdout, stderr bytes.Buffer
	exit           print.Exit
}

func follow(o print.Options, src client.Source) *outcome {
	var got outcome
	o.Stdout, o.Stderr = &got.stdout, &got.stderr
	got.exit = print.New(o).Follow(context.Background(), watch, src, client.Ports{})
	return &got
}

func ticking() func() int64 {
	now := int64(1000)
	return func() int64 { now += 500; return now }
}

func TestPrintedRunGolden(t *testing.T) {
	var b strings.Builder
	for _, c := range []struct {
		name string
		opts print.Options
	}{
		{"text", print.Options{}},
		{"text, live", print.Options{Live: true}},
		{"json", print.Options{Format: print.JSON, Live: true, Now: ticking()}},
	} {
		got := follow(c.opts, wholeRun().source(nil))
		fmt.Fprintf(&b, "# %s\n-- stdout\n%s-- stderr\n%s-- exit %d\n", c.name, got.stdout.String(), got.stderr.String(), got.exit)
	}
	path := filepath.Join("testdata", "run.txt")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("differs; run with -update and review the diff. Got:\n%s", b.String())
	}
}

func TestLiveTextEndsAsCommitted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &script{}
		var want strings.Builder
		changed := 0
		for n := range rapid.IntRange(1, 4).Draw(t, "segments") {
			entry := uint64(n + 2)
			pieces := rapid.SliceOf(wiretest.Text()).Draw(t, "pieces")
			said := strings.Join(pieces, "")
			final := said + rapid.SampledFrom([]string{"", "", "more"}).Draw(t, "rest")
			if rapid.IntRange(0, 5).Draw(t, "redact") == 0 {
				final = "[redacted]"
			}
			at, shown, gap := 0, "", false
			for _, p := range pieces {
				if rapid.IntRange(0, 5).Draw(t, "lost") != 0 {
					s.pass(wire.Live, wire.TextDelta{Segment: seg(entry, 0), Offset: int64(at), Text: p})
					if !gap {
						shown += p
					}
				} else if p != "" {
					gap = true
				}
				at += len(p)
			}
			s.replay(wire.TextEnd{Segment: seg(entry, 0), Content: final}).turn(entry, "stop")
			page := final
			if !strings.HasPrefix(final, shown) || (final == "" && shown != "") {
				page, changed = shown, changed+1
			}
			want.WriteString(say.All(page))
			if page != "" && !strings.HasSuffix(page, "\n") {
				want.WriteString("\n")
			}
		}
		got := follow(print.Options{Live: true}, s.end(wire.Completed{}).source(nil))
		if got.stdout.String() != want.String() {
			t.Fatalf("printed %q, want %q", got.stdout.String(), want.String())
		}
		if n := strings.Count(got.stderr.String(), "the text above"); n != changed {
			t.Fatalf("%d of %d changed texts were told:\n%s", n, changed, got.stderr.String())
		}
	})
}

// object parses the one line of a JSON run.
func object(t interface{ Fatalf(string, ...any) }, stdout string) jsonv.Value {
	if strings.Count(stdout, "\n") != 1 || !strings.HasSuffix(stdout, "\n") {
		t.Fatalf("not one line: %q", stdout)
	}
	v, err := jsonv.ParseString(stdout)
	if err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	return v
}

func TestEveryEndingIsOneResult(t *testing.T) {
	broke := errors.New("reset by peer")
	stop := &wire.RunStopped{Code: wire.StoreFull, Message: "the disk is full; nothing of the turn was kept"}
	cases := map[string]struct {
		src   client.Source
		cause string
		code  string
		exit  print.Exit
	}{
		"completed":      {wholeRun().source(nil), "completed", "", print.Done},
		"failed":         {(&script{}).end(wire.Failed{Code: "provider_error", Message: "no"}).source(nil), "failed", "provider_error", print.RunFailed},
		"turns":          {(&script{}).end(wire.Failed{Code: "max_turns", Message: "no"}).source(nil), "failed", "max_turns", print.Stopped},
		"model":          {(&script{}).end(wire.Failed{Code: "model_unavailable", Message: "no"}).source(nil), "failed", "model_unavailable", print.NoModel},
		"aborted":        {(&script{}).end(wire.Aborted{}).source(nil), "aborted", "aborted", print.Interrupted},
		"blocked":        {(&script{}).end(wire.Blocked{}).source(nil), "blocked", "blocked", print.Stopped},
		"paused":         {(&script{}).end(wire.Paused{}).source(nil), "paused", "paused", print.Stopped},
		"unknown word":   {(&script{}).end(wire.UnknownCause{Tag: "evaporated"}).source(nil), "evaporated", "evaporated", print.RunFailed},
		"stream ended":   {(&script{}).source(nil), "lost", "stream_closed", print.RunFailed},
		"stream broke":   {(&script{}).source(broke), "lost", "stream_broke", print.RunFailed},
		"cannot go on":   {(&script{}).pass(wire.Level, *stop).source(nil), "lost", "store_full", print.OutputLost},
		"lease was lost": {(&script{}).pass(wire.Level, wire.RunStopped{Code: wire.SessionHeld, Message: "taken over"}).source(nil), "lost", "session_held", print.Held},
		"cursor is void": {(&script{}).source(&wireclient.Refused{Code: wire.StoreUnreadable, Message: "no"}), "lost", "stream_broke", print.Unreadable},
	}
	for name, c := range cases {
		got := follow(print.Options{Format: print.JSON}, c.src)
		v := object(t, got.stdout.String())
		text := func(path ...string) string {
			at := v
			for _, p := range path {
				at, _ = at.Get(p)
			}
			s, _ := at.Text()
			return s
		}
		isError, _ := v.Get("is_error")
		flag, _ := isError.Bool()
		exit, _ := v.Get("exit_code")
		n, _ := exit.Int64()
		if text("cause") != c.cause || text("error", "code") != c.code || flag != (c.exit != print.Done) || got.exit != c.exit || n != int64(c.exit) {
			t.Errorf("%s: exit %d, %s", name, got.exit, got.stdout.String())
		}
		if text("session_id") != session.String() || text("operation") != op.String() {
			t.Errorf("%s: which run? %s", name, got.stdout.String())
		}
		if (got.stderr.Len() == 0) != (c.exit == print.Done) {
			t.Errorf("%s: a person is told %q", name, got.stderr.String())
		}
		plain := follow(print.Options{}, c.src)
		if plain.exit != c.exit {
			t.Errorf("%s: exit %d as text", name, plain.exit)
		}
	}
}

func TestAnInterruptIsAResultToo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	quiet := func(ctx context.Context) iter.Seq2[wire.Frame, error] {
		return func(func(wire.Frame, error) bool) { <-ctx.Done() }
	}
	var out bytes.Buffer
	p := print.New(print.Options{Format: print.JSON, Stdout: &out})
	if exit := p.Follow(ctx, watch, quiet, client.Ports{Abort: func(context.Context) error { return nil }}); exit != print.Interrupted {
		t.Errorf("exit %d", exit)
	}
	object(t, out.String())
}

func TestWhatWasSaidBesideCallsIsNoAnswerOfARunThatStopped(t *testing.T) {
	turn := func(c wire.Cause, calls bool, stop string) *outcome {
		s := &script{}
		s.replay(wire.TextEnd{Segment: seg(2, 0), Content: "I look around."})
		if calls {
			s.replay(wire.ToolCall{Segment: seg(2, 1), CallID: "c1", Name: "ls", Arguments: jsonv.Obj()})
		}
		s.turn(2, stop)
		return follow(print.Options{}, s.end(c).source(nil))
	}
	for _, c := range []struct {
		got  *outcome
		want string
	}{
		{turn(wire.Aborted{}, true, "toolUse"), ""},
		{turn(wire.Failed{Code: "max_turns", Message: "no"}, true, "toolUse"), ""},
		{turn(wire.Completed{}, true, "toolUse"), "I look around.\n"}, // a tool ended the run
		{turn(wire.Aborted{}, false, "aborted"), ""},
		{turn(wire.Failed{Code: "provider_error", Message: "no"}, false, "error"), ""},
		{turn(wire.Aborted{}, false, "stop"), "I look around.\n"}, // the abort came after it
		{turn(wire.Completed{}, false, "stop"), "I look around.\n"},
	} {
		if got := c.got.stdout.String(); got != c.want {
			t.Errorf("the answer is %q, not %q", got, c.want)
		}
	}
}

func TestNothingToDoIsNoFailure(t *testing.T) {
	var out, errs bytes.Buffer
	p := print.New(print.Options{Format: print.JSON, Stdout: &out, Stderr: &errs})
	if exit := p.Refuse(print.Done, "nothing_to_resume", "there is nothing to finish"); exit != print.Done {
		t.Errorf("exit %d", exit)
	}
	v := object(t, out.String())
	if isError, _ := v.Get("is_error"); isError.String() != "false" {
		t.Error(out.String())
	}
	if cause, _ := v.Get("cause"); cause.String() != `"nothing_to_resume"` {
		t.Error(out.String())
	}
	if _, has := v.Get("error"); has || errs.String() != "loom: there is nothing to finish\n" {
		t.Errorf("%s; a person is told %q", out.String(), errs.String())
	}
}

func TestAWaitSaysHowLong(t *testing.T) {
	for until, want := range map[int64]string{
		4500: "loom: attempt 1 failed (overloaded); the next one follows in 3s\n", 3_601_500: "in 1h0m0s\n", 1501: "in 1s\n", 9: "in 0s\n",
	} {
		s := (&script{}).pass(wire.Live, wire.Retry{Attempt: 1, UntilMs: until, Error: "overloaded"}).end(wire.Completed{})
		opts := print.Options{Now: func() int64 { return 1500 }}
		if got := follow(opts, s.source(nil)).stderr.String(); !strings.Contains(got, want) {
			t.Errorf("until %d: %q", until, got)
		}
	}
}

func TestAFailureBeforeARunIsOneResult(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code string
		exit print.Exit
	}{
		"held":      {&wireclient.Refused{Code: wire.SessionHeld, Message: "held by process 7"}, "session_held", print.Held},
		"not there": {fmt.Errorf("open: %w", &wireclient.Refused{Code: wire.UnknownSession, Message: "none"}), "unknown_session", print.NotFound},
		"no answer": {&wireclient.Unreached{Op: "prompt", Err: errors.New("reset")}, "unreached", print.RunFailed},
		"garbled":   {&wireclient.Garbled{Op: "prompt", Err: errors.New("html")}, "garbled_answer", print.RunFailed},
		"Ctrl-C":    {&wireclient.Unreached{Op: "prompt", Err: context.Canceled}, "unreached", print.Interrupted},
	} {
		var out, errs bytes.Buffer
		p := print.New(print.Options{Format: print.JSON, Stdout: &out, Stderr: &errs})
		if exit := p.Fail(c.err); exit != c.exit {
			t.Errorf("%s: exit %d", name, exit)
		}
		code, _ := object(t, out.String()).Get("error")
		word, _ := code.Get("code")
		if s, _ := word.Text(); s != c.code {
			t.Errorf("%s: %s", name, out.String())
		}
		if !strings.HasPrefix(errs.String(), "loom: ") || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%s: a person is told %q", name, errs.String())
		}
		// Whatever comes after, there is one result.
		before := out.Len()
		again := []print.Exit{p.Fail(errors.New("again")), p.Refuse(print.BadUsage, "c", "m"), p.Follow(t.Context(), watch, wholeRun().source(nil), client.Ports{})}
		for _, exit := range again {
			if exit != c.exit || out.Len() != before {
				t.Errorf("%s: a second result, exit %d: %s", name, exit, out.String())
			}
		}
	}
}

// narrow is a pipe whose reader goes away after some bytes.
type narrow struct {
	left  int
	after int // writes after the failure
}

func (n *narrow) Write(p []byte) (int, error) {
	if n.left < 0 {
		n.after++
	}
	if len(p) > n.left {
		n.left = -1
		return 0, syscall.EPIPE
	}
	n.left -= len(p)
	return len(p), nil
}

func TestAClosedStdoutStopsTheWritingAndNotTheRun(t *testing.T) {
	for _, opts := range []print.Options{{}, {Live: true}, {Format: print.JSON}} {
		for left := range 12 {
			pulled := 0
			inner := wholeRun().source(nil)
			counted := func(ctx context.Context) iter.Seq2[wire.Frame, error] {
				return func(yield func(wire.Frame, error) bool) {
					for f, err := range inner(ctx) {
						pulled++
						if !yield(f, err) {
							return
						}
					}
				}
			}
			pipe := &narrow{left: left}
			var errs bytes.Buffer
			opts.Stdout, opts.Stderr = pipe, &errs
			exit := print.New(opts).Follow(t.Context(), watch, counted, client.Ports{})
			if exit != print.OutputLost || pipe.after != 0 || pulled != len(wholeRun().frames) {
				t.Errorf("%+v, %d bytes: exit %d, %d writes after the failure, %d frames followed", opts, left, exit, pipe.after, pulled)
			}
			if !strings.Contains(errs.String(), "standard output could not be written") {
				t.Errorf("nobody is told: %q", errs.String())
			}
		}
	}
}

func TestNothingUntrustedReachesAScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		evil := wiretest.Text().Draw(t, "text") + "\x1b]0;x\x07\u202e\u009b\U000e0041"
		s := &script{}
		s.pass(wire.Level, wire.RunStart{Model: wire.ModelRef{Provider: evil, ModelID: evil}, Mode: words.PermissionMode(evil), Cwd: evil})
		s.pass(wire.Live, wire.TextDelta{Segment: seg(2, 0), Text: evil})
		s.replay(wire.TextEnd{Segment: seg(2, 0), Content: evil})
		s.replay(wire.ToolCall{Segment: seg(2, 1), CallID: evil, Name: evil, Arguments: jsonv.Obj(jsonv.F(evil, jsonv.Str(evil)), jsonv.F("b", jsonv.Str(evil)))})
		s.turn(2, evil)
		s.replay(wire.ToolResult{Entry: wiretest.Entry(3), CallID: evil, Name: evil, Text: []wire.TextBlock{{Text: evil, Bytes: int64(len(evil))}}, IsError: rapid.Bool().Draw(t, "error"), Gate: &wire.Gate{Disposition: words.GateDenied}})
		s.pass(wire.Live, wire.Retry{Attempt: 1, Error: evil})
		s.replay(wire.TextEnd{Segment: seg(4, 0), Content: evil}).turn(4, "stop")
		s.end(wire.Failed{Code: evil, Message: evil})
		for _, opts := range []print.Options{{}, {Live: true}, {Format: print.JSON}} {
			got := follow(opts, s.source(errors.New(evil)))
			for name, text := range map[string]string{"stdout": got.stdout.String(), "stderr": got.stderr.String()} {
				for _, r := range text {
					if say.Hidden(r) {
						t.Fatalf("%U reached %s: %q", r, name, text)
					}
				}
			}
			if opts.Format == print.JSON {
				answer, _ := object(t, got.stdout.String()).Get("result")
				if text, _ := answer.Text(); text != evil {
					t.Fatalf("the result %q was changed to %q", evil, text)
				}
			}
		}
	})
}

func TestCostsAndCountsAreNeverMadeUp(t *testing.T) {
	for name, c := range map[string]struct {
		usage wire.Usage
		has   string
		lacks string
		line  string
	}{
		"exact":    {wire.Usage{Input: 3, Measured: true, CostMicroUSD: new(int64(42))}, `"usage":{"input_tokens":3,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"exact":true},"total_cost_usd":0.000042,"cost_is_exact":true`, "", "tokens in 3, cached 0, out 0, $0.000042"},
		"free":     {wire.Usage{Input: 3, Measured: true, CostMicroUSD: new(int64(0))}, `"total_cost_usd":0.00,"cost_is_exact":true`, "", "$0.00"},
		"none":     {wire.Usage{Measured: true, CostMicroUSD: new(int64(0))}, `"input_tokens":0`, "", "loom: 1 turn, no tokens\n"},
		"no price": {wire.Usage{Input: 3, Measured: true}, `"input_tokens":3`, "total_cost_usd", "cost unknown"},
		"a part":   {wire.Usage{Input: 3, Measured: true, LowerBound: true, CostMicroUSD: new(int64(2_500_000)), CostLowerBound: true}, `"usage":{"input_tokens":3,"exact":false},"total_cost_usd":2.50,"cost_is_exact":false`, "output_tokens", "tokens in at least 3, cached unknown, out unknown, at least $2.50"},
		"unknown":  {wire.Usage{}, `"usage":{"exact":false}`, "tokens", "loom: 1 turn, tokens unknown, cost unknown"},
	} {
		s := (&script{}).turn(2, "stop").end(wire.Completed{})
		s.frames[1].Body = wire.RunEnd{Terminal: wire.Completed{}, Usage: c.usage}
		got := follow(print.Options{Format: print.JSON}, s.source(nil)).stdout.String()
		if !strings.Contains(got, c.has) || c.lacks != "" && strings.Contains(got, c.lacks) {
			t.Errorf("%s: %s", name, got)
		}
		if line := follow(print.Options{}, s.source(nil)).stderr.String(); !strings.Contains(line, c.line) {
			t.Errorf("%s: %s", name, line)
		}
	}
}

func TestTheTableOfExitsIsWhole(t *testing.T) {
	rows := print.Exits()
	known := map[print.Exit]bool{}
	for i, r := range rows {
		if i > 0 && rows[i-1].Exit >= r.Exit || r.When == "" {
			t.Errorf("row %d, %+v, is out of order or says nothing", i, r)
		}
		known[r.Exit] = true
	}
	for _, code := range wire.Codes() {
		var sink bytes.Buffer
		exit := print.New(print.Options{Stderr: &sink}).Fail(&wireclient.Refused{Code: code, Message: "m"})
		if !known[exit] || exit == print.Done {
			t.Errorf("%s ends with %d", code, exit)
		}
	}
}
