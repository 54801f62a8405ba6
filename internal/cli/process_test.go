//go:build unix

package cli_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// sandbox is a state root and a workspace for processes of a test.
type sandbox struct {
	t          testing.TB
	home, repo string
	model      *model
}

func newSandbox(t testing.TB, script string) *sandbox {
	t.Helper()
	dir := t.TempDir()
	s := &sandbox{t: t, home: filepath.Join(dir, "home"), repo: filepath.Join(dir, "repo"), model: newModel(t, script)}
	if err := os.Mkdir(s.repo, 0o700); err != nil {
		t.Fatal(err)
	}
	return s
}

// command is a process of the program that was not started. Standard input is the
// null device.
func (s *sandbox) command(args ...string) *exec.Cmd {
	cmd := exec.Command("loom", args...)
	cmd.Dir = s.repo
	cmd.Env = append(os.Environ(), "LOOM_HOME="+s.home, "LOOM_CONFIG=", "XDG_CONFIG_HOME="+s.home, "OPENAI_BASE_URL="+s.model.base(), "OPENAI_API_KEY="+key)
	return cmd
}

// whole fails unless every session is whole, and returns how many there are.
func (s *sandbox) whole() {
	s.t.Helper()
	(&leftovers{}).check(s.t, s.home)
}

// process is a running program whose outputs are collected.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	out    bytes.Buffer
	lines  chan string // of standard error
	said   *bytes.Buffer
	reader sync.WaitGroup
}

// start starts a program. Its standard error is also read line by line.
func (s *sandbox) start(cmd *exec.Cmd) *process {
	s.t.Helper()
	p := &process{t: s.t, cmd: cmd, lines: make(chan string, 1024), said: &bytes.Buffer{}}
	if cmd.Stdout == nil {
		cmd.Stdout = &p.out
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	late := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() }) // a test that hangs is a test that fails
	s.t.Cleanup(func() {
		late.Stop()
		_ = cmd.Process.Kill()
	})
	p.reader.Go(func() {
		defer close(p.lines)
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			p.said.WriteString(lines.Text() + "\n")
			p.lines <- lines.Text()
		}
	})
	return p
}

// says waits for a line of standard error.
func (p *process) says(part string) {
	p.t.Helper()
	for line := range p.lines {
		if strings.Contains(line, part) {
			return
		}
	}
	p.t.Fatalf("it ended without saying %q", part)
}

func (p *process) interrupt() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// exit waits for the end and returns the status; -1 is the end by a signal.
func (p *process) exit() int {
	p.t.Helper()
	for range p.lines { // the pipe is read to its end before Wait closes it
	}
	p.reader.Wait()
	err := p.cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		p.t.Fatal(err)
	}
	for name, text := range map[string]string{"stdout": p.out.String(), "stderr": p.said.String()} {
		if fault := unfit(text); fault != "" {
			p.t.Errorf("%s: %s", name, fault)
		}
	}
	return p.cmd.ProcessState.ExitCode()
}

// oneResult fails unless standard output is one JSON object with that cause.
func (p *process) oneResult(cause string) {
	p.t.Helper()
	if n := strings.Count(p.out.String(), "\n"); n != 1 {
		p.t.Fatalf("%d lines on standard output: %q", n, p.out.String())
	}
	v, err := parse(p.out.String())
	object, ok := v.(map[string]any)
	if err != nil || !ok || object["cause"] != cause || fmt.Sprint(object["exit_code"]) != fmt.Sprint(p.cmd.ProcessState.ExitCode()) {
		p.t.Errorf("the result is %s, not %s", p.out.String(), cause)
	}
}

// aRun is a run with every kind of moment: two responses with text, a slow tool, a
// fast one, a retry.
const aRun = `text I look.
call c1 ls {}
call c2 bash {"command":"echo started; echo $$ >pid; sleep 0.05"}
==
header Retry-After 0.03
status 429 slow down
==
text I think.
call c3 read {"path":"pid"}
==
text "All "
text "is done."
`

func TestAnInterruptEndsARunAtAnyMoment(t *testing.T) {
	moments := map[string]func(*sandbox, *process){}
	for n := 1; n <= 4; n++ {
		moments[fmt.Sprintf("request %d", n)] = func(s *sandbox, _ *process) {
			if err := s.model.await(n); err != nil {
				s.t.Error(err)
			}
		}
	}
	for _, line := range []string{"loom: session", "I look.", "> ls", "< ls", "> bash", "< bash", "attempt 1 failed", "> read", "< read"} {
		moments["line "+line] = func(_ *sandbox, p *process) { p.says(line) }
	}
	for _, d := range []time.Duration{0, 3, 6, 10, 15, 20, 30, 45, 70, 100, 150, 200} {
		moments[fmt.Sprintf("after %d ms", d)] = func(*sandbox, *process) { <-time.After(d * time.Millisecond) }
	}
	for name, moment := range moments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t, aRun)
			format := "json"
			if strings.HasPrefix(name, "line") {
				format = "text"
			}
			p := s.start(s.command("run", "-m", "openai/m", "--permission-mode", "bypassPermissions", "--output-format", format, "do it"))
			moment(s, p)
			p.interrupt()
			switch exit := p.exit(); {
			case exit == 0: // it was over first
				if format == "json" {
					p.oneResult("completed")
				}
			case exit == -1: // it was killed before it listened
				if p.out.Len() > 0 || !strings.HasPrefix(name, "after") {
					t.Errorf("killed by the interrupt after it printed %q", p.out.String())
				}
			case exit != 130:
				t.Errorf("status %d\n%s", exit, p.said)
			case format == "json" && strings.Contains(p.out.String(), `"refused"`):
				p.oneResult("refused") // before there was a run
			case format == "json":
				p.oneResult("aborted")
			case p.out.Len() > 0 && p.out.String() != "All is done.\n": // committed before the interrupt, or no answer
				t.Errorf("an answer was printed: %q", p.out.String())
			case !strings.Contains(p.said.String(), "loom: the run was stopped. What was committed is kept; go on with: loom run --session "):
				t.Errorf("a person is told %q", p.said)
			}
			if process := s.tool(); alive(process) {
				t.Errorf("the tool %d still runs", process)
			}
			s.whole()
		})
	}
}

// tool is the process that the script's command was.
func (s *sandbox) tool() int {
	text, err := os.ReadFile(filepath.Join(s.repo, "pid"))
	pid := 0
	if err == nil {
		_, _ = fmt.Sscan(string(text), &pid)
	}
	return pid
}

func alive(pid int) bool { return pid != 0 && syscall.Kill(pid, 0) == nil }

func TestTheSecondInterruptEndsTheWaiting(t *testing.T) {
	t.Parallel()
	// The tool ends by nothing but SIGKILL, two seconds after it was asked to.
	s := newSandbox(t, `call c1 bash {"command":"trap 'touch asked' TERM INT; echo $$ >pid; echo up >&2; while :; do sleep 0.01; done"}`)
	p := s.start(s.command("run", "-m", "openai/m", "--permission-mode", "bypassPermissions", "--output-format", "json", "do it"))
	until(t, func() bool { return s.tool() != 0 })
	p.interrupt()
	until(t, func() bool { _, err := os.Stat(filepath.Join(s.repo, "asked")); return err == nil })
	p.interrupt()
	if exit := p.exit(); exit != 130 {
		t.Errorf("status %d\n%s", exit, p.said)
	}
	p.oneResult("lost") // with the patience for the tool it would be aborted
	if !strings.Contains(p.said.String(), "loom resume ") {
		t.Errorf("no way to go on is named: %s", p.said)
	}
	until(t, func() bool { return !alive(s.tool()) })
	s.whole()
	if out, err := s.command("resume", "0", "--output-format", "json").CombinedOutput(); err == nil || !bytes.Contains(out, []byte(`"aborted"`)) {
		t.Errorf("resume of an aborted run: %v\n%s", err, out)
	}
	s.whole()
}

// until waits for what only the file system tells.
func until(t testing.TB, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !so(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it has not come to pass")
		}
	}
}

func TestInterruptsEndAProgramThatCannotPrint(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, `text "`+strings.Repeat("a long answer\\n", 20000)+`"`)
	cmd := s.command("run", "-m", "openai/m", "do it")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout = w
	p := s.start(cmd)
	w.Close()
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil { // it prints, and then nobody reads on
		t.Fatal(err)
	}
	impatient := time.NewTicker(50 * time.Millisecond)
	defer impatient.Stop()
	over := make(chan int)
	go func() { over <- p.exit() }()
	for {
		select {
		case exit := <-over:
			if exit != 130 {
				t.Errorf("status %d", exit)
			}
			s.whole()
			return
		case <-impatient.C:
			p.interrupt()
		}
	}
}

func TestAnInterruptEndsTheWaitForStandardInput(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "text ok")
	cmd := s.command("run", "-m", "openai/m", "--output-format", "json", "do it")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	p := s.start(cmd)
	p.says("waiting for standard input to end")
	p.interrupt()
	if exit := p.exit(); exit != 130 {
		t.Errorf("status %d\n%s", exit, p.said)
	}
	p.oneResult("refused")
	if _, err := os.Stat(s.home); err == nil {
		t.Error("something was made")
	}
}

func TestTheSystemsSignalsAreInterrupts(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t, "text half\nhang")
			p := s.start(s.command("run", "-m", "openai/m", "--output-format", "json", "do it"))
			if err := s.model.await(1); err != nil {
				t.Fatal(err)
			}
			if err := p.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if exit := p.exit(); exit != 130 {
				t.Errorf("status %d\n%s", exit, p.said)
			}
			p.oneResult("aborted")
			s.whole()
		})
	}
}

func TestASocketIsStandardInputToo(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "text ok")
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(pair[0]) // or the program itself would keep its standard input open
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	cmd := s.command("run", "-m", "openai/m", "what is this?")
	cmd.Stdin = theirs
	p := s.start(cmd)
	theirs.Close()
	if _, err := ours.WriteString("text of a socket"); err != nil {
		t.Fatal(err)
	}
	ours.Close()
	if exit := p.exit(); exit != 0 {
		t.Errorf("status %d\n%s", exit, p.said)
	}
	if asked := s.model.asked(); len(asked) != 1 || !bytes.Contains(asked[0], []byte("text of a socket")) {
		t.Errorf("the model was asked %s", asked)
	}
}

func TestAnIgnoredInterruptStaysIgnored(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "call c1 ls {}\n==\ntext done")
	cmd := s.command()
	// A shell starts what runs in the background like this.
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `trap '' INT HUP; exec loom run -m openai/m "do it"`}
	p := s.start(cmd)
	p.says("loom: session")
	p.interrupt()
	if exit := p.exit(); exit != 0 || p.out.String() != "done\n" {
		t.Errorf("status %d, %q\n%s", exit, p.out.String(), p.said)
	}
}

func TestAHugePromptIsRefusedInTimeAndSpace(t *testing.T) {
	s := newSandbox(t, "text ok")
	run := func(size int) (*process, int, int64) {
		cmd := s.command("run", "-m", "openai/m", "--output-format", "json")
		cmd.Stdin = io.LimitReader(endless{}, int64(size))
		p := s.start(cmd)
		exit := p.exit()
		usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		if !ok {
			t.Skip("this system does not tell how much memory a process had")
		}
		t.Logf("a prompt of %d bytes: status %d, %d MiB", size, exit, usage.Maxrss>>10)
		return p, exit, usage.Maxrss >> 10
	}
	p, exit, peak := run(50_000_000)
	if exit != 2 || !strings.Contains(p.said.String(), "the prompt is larger than 16 MiB; nothing was started") {
		t.Errorf("status %d\n%s", exit, p.said)
	}
	p.oneResult("refused")
	if peak > 96 {
		t.Errorf("a prompt that is refused took %d MiB", peak)
	}
	if _, err := os.Stat(s.home); err == nil {
		t.Error("something was made")
	}
	if testing.Short() {
		return
	}
	if p, exit, peak = run(16 << 20); exit != 0 || peak > 320 {
		t.Errorf("the largest prompt: status %d, %d MiB\n%s", exit, peak, p.said)
	}
	s.whole()
}

// endless is the same letter for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

func TestFlippedBitsAreFoundOrHarmless(t *testing.T) {
	s := newSandbox(t, "text first\n==\n")
	if out, err := s.command("run", "-m", "demo", "what is here?").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(s.home, "sessions", "*.db"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	good, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for i := range 16 {
		bits := bytes.Clone(good)
		bits[len(bits)*i/16+17*i] ^= 1 << (i % 8)
		if err := os.WriteFile(files[0], bits, 0o600); err != nil {
			t.Fatal(err)
		}
		session := strings.TrimSuffix(filepath.Base(files[0]), ".db")
		for _, args := range [][]string{{"check", session}, {"sessions", "show", session}, {"run", "-m", "demo", "--session", session, "again"}} {
			cmd := s.command(args...)
			out, err := cmd.CombinedOutput()
			switch exit := cmd.ProcessState.ExitCode(); {
			case exit == 4 && bytes.Contains(out, []byte("loom: ")):
				found++
			case exit != 0:
				t.Errorf("bit %d, %s: %v\n%s", i, args[0], err, out)
			}
		}
	}
	if found == 0 {
		t.Error("no flipped bit was found at all")
	}
}
