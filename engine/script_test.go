package engine_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/loom-run/loom/core/entry"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/provider"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage"
)

var update = flag.Bool("update", false, "rewrite what the scripts in testdata want")

// TestScripts plays the stories of testdata/script: what is said to an engine, what its model and its tools answer, where its process dies; and what of that is
// kept and told. README.txt there says how to read and write one.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/script/*.txt")
	if err != nil || len(paths) < 12 {
		t.Fatalf("%d scripts, %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		if name == "README" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := playStory(t, a)
			if *update {
				a.Files[len(a.Files)-1].Data = []byte(got)
				if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil { //nolint:gosec // a file of the repository
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(a.Files[len(a.Files)-1].Data), got); diff != "" {
				t.Errorf("-want +got, `go test ./engine -run Scripts -update` rewrites it:\n%s", diff)
			}
		})
	}
}

// story is one script on its way: one strand, driven by hand, so that it goes the same way each time.
type story struct {
	t        *testing.T
	w        *world
	turns    []turn
	settings machine.Settings
	out      strings.Builder

	e       *engine.Engine
	d       *engine.Driver
	box     *toolbox
	effects []func() // begun, and not run yet
	until   int64
	printed int64 // the newest row that was printed
	queued  map[string]id.EntryID
}

func playStory(t *testing.T, a *txtar.Archive) string {
	s := &story{t: t, w: newWorld(), queued: map[string]id.EntryID{}}
	s.settings = machine.Settings{SteeringMode: machine.DrainAll, FollowUpMode: machine.DrainAll, ToolExecution: machine.Parallel}
	files := map[string]string{}
	for _, f := range a.Files {
		files[f.Name] = string(f.Data)
	}
	for step := range strings.SplitSeq(files["model"], "\n==\n") {
		s.turns = append(s.turns, s.turn(step))
	}
	s.open()
	for line := range strings.Lines(files["do"]) {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Fprintf(&s.out, "> %s\n", line)
			s.do(line)
			s.rows()
		}
	}
	for len(s.effects) > 0 {
		s.effect()
	}
	s.e.Close()
	s.box.settled(t)
	sound(t, s.w, "after the script")
	return s.out.String()
}

// turn is what the model answers: `say TEXT`, `call TOOL...`, or `fail CLASS`, which happens once and is followed by the rest.
func (s *story) turn(step string) turn {
	var blocks []message.AssistantBlock
	stop, class := message.Stop, provider.Class("")
	for line := range strings.Lines(step) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch verb {
		case "say":
			blocks = append(blocks, message.Text{Text: rest})
		case "call":
			stop = message.ToolUse
			blocks = append(blocks, calls(strings.Fields(rest)...)...)
		case "fail":
			class = provider.Class(rest)
		case "":
		default:
			s.t.Fatalf("a model does not know %q", line)
		}
	}
	answer := reply(stop, blocks...)
	if class == "" {
		return answer
	}
	return fails(s.w, step, class, answer)
}

// fails is a turn that fails once.
func fails(w *world, name string, class provider.Class, then turn) turn {
	return func(ctx context.Context, sink func(provider.Delta)) (*message.Assistant, error) {
		if w.flake(name, 1) {
			return nil, &provider.Error{Class: class, Message: "the model is " + string(class)}
		}
		return then(ctx, sink)
	}
}

// open begins a process over what the last one left.
func (s *story) open() {
	cfg, box := config(s.w, s.w.store, s.turns)
	cfg.Settings, cfg.Observe, s.box = s.settings, s.told, box
	e, err := engine.Open(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cfg.Session.EnsureStrand(session.MainStrand, fakeConfiguration); err != nil {
		s.t.Fatal(err)
	}
	s.e, s.d, s.effects = e, e.Driver(session.MainStrand), nil
}

func (s *story) say(format string, args ...any) { fmt.Fprintf(&s.out, "  "+format+"\n", args...) }

func (s *story) do(line string) {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "limit": // of responses of the next run
		s.limit(rest)
	case "prompt", "steer":
		s.prompt(rest, map[string]engine.Delivery{"prompt": engine.WhenDone, "steer": engine.AtOnce}[verb])
	case "withdraw":
		_, err := s.e.Withdraw(session.MainStrand, s.queued[rest])
		s.refused(err)
	case "abort":
		_, ok, err := s.e.Abort(session.MainStrand)
		if s.refused(err); !ok {
			s.say("nothing runs")
		}
	case "approve", "deny", "reply":
		s.answer(verb, rest)
	case "run": // until nothing goes on by itself
		for s.pass() || s.effect() || s.later() {
		}
	case "begin": // until a request or a call was begun, or nothing goes on by itself; it has not happened yet
		for len(s.effects) == 0 && (s.pass() || s.later()) {
		}
	case "happen": // what was begun longest ago happens, but is not noted yet
		if !s.effect() {
			s.t.Fatal("nothing was begun")
		}
	case "wait": // ms
		ms, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		s.w.clockMs += ms
	case "die": // the process ends, and what it knew and began with it
		s.e.Close()
		s.open()
	default:
		s.t.Fatalf("a script does not know %q", line)
	}
}

func (s *story) limit(text string) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	s.settings.MaxTurns = &n
}

func (s *story) prompt(said string, d engine.Delivery) {
	p := text(said)
	p.MaxTurns, p.Delivery = s.settings.MaxTurns, d
	r, err := s.e.Prompt(session.MainStrand, p)
	if s.refused(err); r.Queued {
		s.queued[said] = r.Entry
	}
}

// answer decides about the oldest open question, or about the one that was open last.
func (s *story) answer(verb, note string) {
	open, err := s.e.Pauses(session.MainStrand)
	if err != nil {
		s.t.Fatal(err)
	}
	gate := "the one before"
	if len(open) > 0 {
		gate = open[0].Gate
	}
	decisions := map[string]machine.Decision{"approve": machine.Approve{}, "deny": machine.Deny{}, "reply": machine.Reply{Content: []message.UserBlock{message.Text{Text: note}}}}
	if note != "" && verb == "deny" {
		decisions[verb] = machine.Deny{Note: &note}
	}
	s.refused(s.e.Answer(session.MainStrand, gate, decisions[verb], nil))
}

func (s *story) refused(err error) {
	if err != nil {
		s.say("refused: %v", err)
	}
}

// pass is one step of the driver; it reports whether anything moved.
func (s *story) pass() bool {
	pass, err := s.d.Step(func(f func()) { s.effects = append(s.effects, f) })
	if err != nil {
		s.t.Fatal(err)
	}
	s.until = pass.Until
	s.rows()
	return pass.Progress == engine.Moved
}

// effect has what was begun first happen.
func (s *story) effect() bool {
	if len(s.effects) == 0 {
		return false
	}
	f := s.effects[0]
	s.effects = s.effects[1:]
	f()
	return true
}

// later lets time pass for a retry. The windows of questions are waited for by a script itself.
func (s *story) later() bool {
	open, err := s.e.Pauses(session.MainStrand)
	if s.until == 0 || len(open) > 0 || err != nil {
		return false
	}
	s.w.clockMs = max(s.w.clockMs, s.until)
	s.until = 0
	return true
}

// told prints what watchers hear, but for pieces and commits.
func (s *story) told(f engine.Fact) {
	s.rows()
	switch f := f.(type) {
	case engine.RunStarted:
		s.say("the run %s", map[bool]string{false: "begins", true: "goes on"}[f.Resumed])
	case engine.RetryScheduled:
		s.say("attempt %d follows: %s", f.NextAttempt, f.Message)
	case engine.RunPaused:
		for _, p := range f.Pauses {
			s.say("paused on a question: %s", p.Reason)
		}
	case engine.QueueChanged:
		s.queue()
	case engine.RunFinished:
		r, _, err := session.NewView(s.w.store).LastResult(session.MainStrand)
		if err != nil {
			s.t.Fatal(err)
		}
		s.say("the run ends: %s%s", r.Value.Outcome, reason(r.Value.Error))
	case engine.StrandStopped:
		s.say("the strand stops: %v", f.Err)
	default: // display, and what is read as rows
	}
}

func reason(e *machine.OperationError) string {
	if e == nil {
		return ""
	}
	return ", " + e.Code + ": " + e.Message
}

// queue prints what waits.
func (s *story) queue() {
	all, err := s.e.Queue(session.MainStrand)
	if err != nil && !errors.Is(err, engine.ErrClosed) {
		s.t.Fatal(err)
	}
	var waits []string
	for _, q := range all {
		name := map[machine.Queue]string{machine.QueueSteer: "steering", machine.QueueFollowUp: "for the end", machine.QueueNextRun: "for the next run"}[q.Queue]
		if b, ok := q.Body.Body.(entry.Message); ok {
			waits = append(waits, fmt.Sprintf("%s: %s", name, line(b.Message)))
		}
	}
	if len(waits) == 0 {
		waits = []string{"nothing"}
	}
	s.say("waits: %s", strings.Join(waits, "; "))
}

// rows prints what was committed since.
func (s *story) rows() {
	rows, err := s.w.store.ScanEntries(storage.EntryQuery{FromSeq: new(s.printed + 1)})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range rows {
		s.printed = e.Seq
		s.say("%s", strings.TrimRight(line(messageOf(e)), " "))
	}
}
