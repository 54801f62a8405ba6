package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/core/words"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/server"
	"github.com/loom-run/loom/session"
)

// deciderEnv makes this binary a process that plays the script below, and decides what it asks, until it is killed by its own hand at a commit. Its value
// is "COMMIT HOME CWD".
const deciderEnv = "LOOM_TEST_DECIDE"

const gatedScript = `
-- part boss --
call bash {"command":"echo approved >> runs"}
call bash {"command":"echo refused >> runs"}
==
call ask_user {"questions":[{"question":"Which?"}]}
==
call bash {"command":"echo edited-away >> runs"}
==
text done
`

// decisionOn is what the person says, by what they are asked.
func decisionOn(w server.Waiting) machine.Decision {
	command, _ := w.Call.Arguments.Get("command")
	text, _ := command.Text()
	switch {
	case w.Pause.Reason == words.PausedOnQuestion:
		return machine.Reply{Content: []message.UserBlock{message.Text{Text: "this one"}}}
	case strings.Contains(text, "refused"):
		return machine.Deny{Note: new("never")}
	case strings.Contains(text, "edited-away"):
		return machine.Approve{Arguments: new(w.Call.Arguments.With("command", jsonv.Str("echo edited >> runs")))}
	}
	return machine.Approve{Lifetime: words.GrantExact}
}

// decideAll plays until the main strand rests.
func decideAll(slot *Slot) error {
	s := &served{slot: slot, stop: func() {}}
	for {
		op, _, err := slot.current(session.MainStrand)
		if err != nil || op.IsZero() {
			return err
		}
		_, err = slot.resident().engine.Await(context.Background(), session.MainStrand, op)
		if _, paused := errors.AsType[*engine.Paused](err); !paused {
			if err != nil {
				return err
			}
			continue
		}
		open, err := s.Source().Waiting()
		if err != nil {
			return err
		}
		for _, w := range open {
			if _, _, err := s.Decide(context.Background(), server.Decided{Strand: w.Strand, Gate: w.Pause.Gate, Decision: decisionOn(w)}); err != nil {
				return err
			}
		}
	}
}

func decideUntilKilled(order string) int {
	var at, commits int64
	var home, cwd string
	if _, err := fmt.Sscan(order, &at, &home, &cwd); err != nil {
		fmt.Println("error:", err)
		return 1
	}
	n := New(Config{
		Home: Home{home}, Models: castOf(txtar.Parse([]byte(gatedScript))), Environ: []string{"PATH=/usr/bin:/bin", "USER=ann"},
		Now: func() int64 { return time.Now().UnixMilli() }, Retry: DefaultRetry(),
		AfterCommit: func(tx.Result) {
			if commits++; commits == at { // commits come one after the other
				_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			}
		},
	})
	slot, err := n.create(cwd, Opening{Mode: new(policy.Default), Posture: new(words.ApproverResident)})
	if err == nil {
		fmt.Println(slot.ID())
		_, err = slot.Prompt(Opening{}, session.MainStrand, engine.Prompt{Content: []message.UserBlock{message.Text{Text: "part:boss go"}}})
	}
	if err == nil {
		err = decideAll(slot)
	}
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println("over after", commits)
	return 0
}

// TestTortureAKillBetweenApprovalAndEffect kills the process at a commit: between the question, the answer, the intent that spends it, and the result. Another one
// goes on, and the same person decides what is still asked. What was approved ran at most once, and where it did not its result says that nobody knows;
// what was refused or written anew never ran; who decided stands with every result. With LOOM_TORTURE it is killed at each commit.
func TestTortureAKillBetweenApprovalAndEffect(t *testing.T) {
	step := int64(4)
	if os.Getenv("LOOM_TORTURE") != "" {
		step = 1
	}
	for at := int64(4); ; at += step {
		if over := decideKilledAt(t, at); over {
			if at < 15 {
				t.Errorf("the script has %d commits, which is too few", at)
			}
			return
		}
	}
}

func decideKilledAt(t *testing.T, at int64) (over bool) {
	p := &play{t: t, home: Home{t.TempDir() + "/home"}, cwd: t.TempDir(), mode: policy.Default, cast: castOf(txtar.Parse([]byte(gatedScript)))}
	p.config = func(c *Config) { c.Environ = append(c.Environ, "USER=ann") }
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), deciderEnv+"="+strconv.FormatInt(at, 10)+" "+p.home.dir+" "+p.cwd)
	out, _ := cmd.Output() // it is killed
	lines := bytes.Fields(out)
	if bytes.Contains(out, []byte("error")) {
		t.Fatalf("the process failed before it was killed: %s", out)
	}
	over = bytes.Contains(out, []byte("over after"))
	if len(lines) == 0 { // killed before the session was made
		return false
	}
	p.openSession(string(lines[0]))
	defer func() {
		if err := p.node.Close(); err != nil {
			t.Error(err)
		}
	}()
	attended := Opening{Posture: new(words.ApproverResident)}
	if _, ok, err := p.slot.Resume(attended, session.MainStrand); err != nil {
		t.Fatal(err)
	} else if !ok && !over {
		if _, err := p.slot.Prompt(attended, session.MainStrand, engine.Prompt{Content: []message.UserBlock{message.Text{Text: "part:boss go"}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := decideAll(p.slot); err != nil {
		t.Fatal(err)
	}
	wantDecided(t, p, at)
	return over
}

func wantDecided(t *testing.T, p *play, at int64) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(p.cwd, "runs"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	runs, said := string(got), p.print()
	lost := strings.Count(said, "whether it had an effect, and which, is unknown")
	ran := strings.Count(runs, "approved\n") + strings.Count(runs, "edited\n")
	if strings.Count(runs, "approved\n") > 1 || strings.Count(runs, "edited\n") > 1 || ran+lost < 2 || strings.Contains(runs, "refused") || strings.Contains(runs, "away") {
		t.Errorf("killed at commit %d: %q ran, and %d calls are lost\n%s", at, runs, lost, said)
	}
	s := &served{slot: p.slot, stop: func() {}}
	results, err := s.Source().Results(0, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	settled := map[words.Settlement]int{}
	for _, r := range results {
		for _, g := range r.Gates {
			if g.Settlement == nil || g.Decider == nil || g.Decider.ID != "ann" {
				t.Errorf("killed at commit %d: a record is %+v", at, g)
				continue
			}
			settled[*g.Settlement]++
		}
	}
	if settled[words.ApprovedSession] != 1 || settled[words.Rejected] != 1 || settled[words.ApprovedEdited] != 1 {
		t.Errorf("killed at commit %d: settled are %v", at, settled)
	}
	if strings.Count(said, "this one") != 1 || !strings.Contains(said, "never") {
		t.Errorf("killed at commit %d:\n%s", at, said)
	}
	if grants, err := s.Grants(t.Context()); err != nil || len(grants) != 1 {
		t.Errorf("killed at commit %d: %d allowances are kept, %v", at, len(grants), err)
	}
	if findings, _, err := p.slot.Check(); err != nil || len(findings) > 0 {
		t.Errorf("killed at commit %d: %v, %v", at, findings, err)
	}
}
