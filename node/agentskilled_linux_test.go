package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"

	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/machine/job"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/session"
)

// playerEnv makes this binary a process that plays the script below until it is killed by its own hand at a commit. Its value is "COMMIT HOME CWD".
const playerEnv = "LOOM_TEST_PLAY"

// killedScript starts an agent and a job, talks to the agent, and waits for both.
const killedScript = `
-- part boss --
call agent_spawn {"purpose":"worker","task":"part:worker begin"}
call job_start {"command":"echo ran >> ran; sleep 600"}
==
call agent_wait {"handles":["$handle"]}
==
call agent_send {"to":"$strand","message":"more please"}
==
call agent_wait {"handles":["$handle"]}
==
call job_kill {"job":"$job"}
==
text done
-- part worker --
text first
==
call agent_send {"to":"parent","message":"halfway"}
==
text second
`

// playUntilKilled prints the session's id before it is told anything.
func playUntilKilled(order string) int {
	var at int64
	var home, cwd string
	if _, err := fmt.Sscan(order, &at, &home, &cwd); err != nil {
		fmt.Println("error:", err)
		return 1
	}
	var commits int64
	n := New(Config{
		Home: Home{home}, Models: castOf(txtar.Parse([]byte(killedScript))), Environ: []string{"PATH=/usr/bin:/bin"},
		Now: func() int64 { return time.Now().UnixMilli() }, Retry: DefaultRetry(),
		AfterCommit: func(tx.Result) {
			if commits++; commits == at { // commits come one after the other
				_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			}
		},
	})
	slot, err := n.Create(cwd, policy.BypassPermissions, nil)
	if err == nil {
		fmt.Println(slot.ID())
		_, err = slot.Prompt(Opening{}, session.MainStrand, engine.Prompt{Content: []message.UserBlock{message.Text{Text: "part:boss go"}}})
	}
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	for op, _, err := slot.current(session.MainStrand); err == nil && !op.IsZero(); op, _, err = slot.current(session.MainStrand) {
		_, _ = slot.resident().engine.Await(context.Background(), session.MainStrand, op)
	}
	fmt.Println("over after", commits)
	return 0
}

// TestTortureAgentsAndJobsAreKilled kills the process at a commit, opens the session in this one, and lets it end. There is one agent with one brief, every
// message arrived once, the job ran at most once, and the end of one that was lost was told once. LOOM_TORTURE is the number of commits at which it is killed.
func TestTortureAgentsAndJobsAreKilled(t *testing.T) {
	step := int64(9)
	if os.Getenv("LOOM_TORTURE") != "" {
		step = 1
	}
	for at := int64(4); ; at += step {
		if over := playKilledAt(t, at); over {
			if at < 40 {
				t.Errorf("the script has %d commits, which is too few", at)
			}
			return
		}
	}
}

func playKilledAt(t *testing.T, at int64) (over bool) {
	a := txtar.Parse([]byte(killedScript))
	p := &play{t: t, home: Home{t.TempDir() + "/home"}, cwd: t.TempDir(), mode: policy.BypassPermissions, cast: castOf(a)}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), playerEnv+"="+strconv.FormatInt(at, 10)+" "+p.home.dir+" "+p.cwd)
	out, _ := cmd.Output() // it is killed
	lines := bytes.Fields(out)
	if bytes.Contains(out, []byte("error")) {
		t.Fatalf("the process failed before it was killed: %s", out)
	}
	if bytes.Contains(out, []byte("over after")) {
		return true
	}
	if len(lines) == 0 { // killed before the session was made
		return false
	}
	p.openSession(string(lines[0]))
	defer func() {
		if err := p.node.Close(); err != nil {
			t.Error(err)
		}
	}()
	mode := p.mode
	if _, ok, err := p.slot.Resume(Opening{Mode: &mode}, session.MainStrand); err != nil {
		t.Fatal(err)
	} else if !ok {
		p.do("prompt part:boss go") // the prompt was not durable yet, or everything was over
	}
	p.awaitEnd()
	wantPlayed(t, p, at)
	return false
}

func wantPlayed(t *testing.T, p *play, at int64) {
	t.Helper()
	got := p.print()
	for text, want := range map[string]int{"strand sub:": 1, "part:worker begin\n": 1, "\n      more please\n": 1, "\n      halfway\n": 1} {
		n := strings.Count(got, text)
		if text == "part:worker begin\n" { // once in the brief; the call has it in quotes
			n = strings.Count(got, "      part:worker begin\n")
		}
		if n != want {
			t.Errorf("killed at commit %d: %q is there %d times, want %d\n%s", at, text, n, want, got)
		}
	}
	ran, _ := os.ReadFile(p.cwd + "/ran") // none where the job did not get to it
	var all []job.Record
	if err := p.slot.Read(func(v *session.View) (err error) {
		all, err = engine.JobsOf(v, "")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || !all[0].Status.Ended() || bytes.Count(ran, []byte("ran")) > 1 {
		t.Errorf("killed at commit %d: the jobs are %+v, the command ran %d times", at, all, bytes.Count(ran, []byte("ran")))
	}
	if n := strings.Count(got, "user: [background job"); n != map[bool]int{true: 1}[all[0].Status == job.Lost] {
		t.Errorf("killed at commit %d: the end of a job that is %s was told %d times\n%s", at, all[0].Status, n, got)
	}
	findings, _, err := p.slot.Check()
	if err != nil || len(findings) > 0 {
		t.Errorf("killed at commit %d: the session is not whole: %v, %v", at, findings, err)
	}
}
