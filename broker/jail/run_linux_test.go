package jail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// roleName makes a test process play the harness that is going to be killed.
const roleName = "JAIL_TEST_HARNESS"

func TestMain(m *testing.M) {
	Enter()
	if script := os.Getenv(roleName); script != "" {
		c := shell(os.Getenv("JAIL_TEST_DIR"), script)
		c.Fence = NewFence(os.Getenv("JAIL_TEST_FENCE"))
		_, err := Run(context.Background(), c, nil)
		fmt.Println("the command ended before the harness was killed:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// shell is a command that runs script with sh in dir.
func shell(dir, script string) Command {
	return Command{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Dir: dir, Env: Environment(os.Environ())}
}

// patience bounds what must happen soon on a busy machine.
const patience = 30 * time.Second

func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// fifo is a meeting point of a test and a script: both ends block for the other.
func fifo(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readFifo(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// identify reads the processes whose numbers stand in text.
func identify(t *testing.T, text string) []process {
	t.Helper()
	var out []process
	for _, word := range strings.Fields(text) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatalf("no process number in %q", text)
		}
		p, err := readProcess(pid)
		if err != nil {
			t.Fatalf("process %d: %v", pid, err)
		}
		out = append(out, p)
	}
	return out
}

func mustBeGone(t *testing.T, all []process) {
	t.Helper()
	for _, p := range all {
		if now, err := readProcess(p.pid); err == nil && now.start == p.start && !now.dead {
			cmdline, _ := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/cmdline")
			t.Errorf("process %d (%q) is alive", p.pid, cmdline)
		}
	}
}

func TestNoProcessOutlivesTheHarness(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"the command itself", `echo $$ > pids; exec sleep 1000`},
		{"a child", `sleep 1000 & echo $$ $! > pids; wait`},
		{"a child in a session of its own", `setsid sleep 1000 & echo $$ $! > pids; wait`},
		{"a daemon that forked twice", `setsid sh -c 'sleep 1000 & echo $! > inner; wait' & echo $$ $! $(cat inner) > pids; wait`},
		{"an orphan whose parent is gone", `sh -c 'setsid sleep 1000 & echo $! > inner' & p=$(cat inner); wait; echo $$ $p > pids; exec sleep 1000`},
		{"one that ignores signals", `trap '' TERM HUP INT; sleep 1000 & echo $$ $! > pids; wait`},
		{"one that is stopped", `sleep 1000 & kill -STOP $!; echo $$ $! > pids; wait`},
	} {
		for _, alsoSupervisor := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, supervisor killed too %v", c.name, alsoSupervisor), func(t *testing.T) {
				dir := t.TempDir()
				pids, fence := fifo(t, dir, "pids"), filepath.Join(dir, "s.tools")
				fifo(t, dir, "inner")
				harness := exec.Command(os.Args[0])
				harness.Env = append(os.Environ(), roleName+"="+c.script, "JAIL_TEST_DIR="+dir, "JAIL_TEST_FENCE="+fence)
				harness.Stdout, harness.Stderr = os.Stderr, os.Stderr
				if err := harness.Start(); err != nil {
					t.Fatal(err)
				}
				all := identify(t, readFifo(t, pids))
				supervisor, err := readProcess(all[0].parent)
				if err != nil {
					t.Fatal(err)
				}
				if err := harness.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				if alsoSupervisor {
					supervisor.signal(unix.SIGKILL)
				}
				if err := AwaitFence(patient(t), fence); err != nil {
					t.Fatal(err)
				}
				mustBeGone(t, all)
				_ = harness.Wait()
			})
		}
	}
}

func TestTheFenceIsHeldExactlyWhileACommandLives(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.tools")
	if err := AwaitFence(patient(t), path); err != nil {
		t.Fatalf("no command ever ran: %v", err)
	}
	begun, goOn := fifo(t, dir, "begun"), fifo(t, dir, "go-on")
	done := make(chan error, 1)
	go func() {
		c := shell(dir, `echo > begun; cat go-on`)
		c.Fence = NewFence(path)
		_, err := Run(patient(t), c, nil)
		done <- err
	}()
	readFifo(t, begun)
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := AwaitFence(short, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a command runs, but waiting for the fence says %v", err)
	}
	// A second command of the same harness is not kept out.
	c := shell(dir, `true`)
	c.Fence = NewFence(path)
	if exit, err := Run(patient(t), c, nil); err != nil || exit.Code != 0 {
		t.Errorf("a second command: %+v, %v", exit, err)
	}
	if err := os.WriteFile(goOn, nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := AwaitFence(patient(t), path); err != nil {
		t.Errorf("all commands ended, the harness lives: %v", err)
	}
}

func TestExitTellsHowTheCommandEnded(t *testing.T) {
	for _, c := range []struct {
		script string
		code   int
		signal string
	}{
		{`exit 0`, 0, ""},
		{`exit 3`, 3, ""},
		{`exit 255`, 255, ""},
		{`kill -KILL $$`, 137, "SIGKILL"},
		{`kill -SEGV $$`, 139, "SIGSEGV"},
		{`kill -TERM $$`, 143, "SIGTERM"},
		{`exec >&- 2>&-; exit 4`, 4, ""},
		{`read x; exit $?`, 1, ""},                               // standard input is empty
		{`(: < /dev/tty) 2> /dev/null && exit 1; exit 0`, 0, ""}, // no terminal
	} {
		t.Run(c.script, func(t *testing.T) {
			exit, err := Run(patient(t), shell(t.TempDir(), c.script), nil)
			if err != nil {
				t.Fatal(err)
			}
			if exit.Code != c.code || exit.Signal != c.signal || exit.TimedOut || exit.Cancelled || exit.Left != 0 {
				t.Errorf("%+v", exit)
			}
		})
	}
}

func TestATimeoutEndsTheWholeTree(t *testing.T) {
	for _, c := range []struct {
		name, script string
		code         int
		signal       string
	}{
		{"which dies of SIGTERM", `sleep 1000 & echo $$ $! > pids; wait`, 143, "SIGTERM"},
		{"which ends in order", `trap 'exit 7' TERM; sleep 1000 & echo $$ $! > pids; wait`, 7, ""},
		{"which ignores SIGTERM", `trap '' TERM; sleep 1000 & echo $$ $! > pids; wait`, 137, "SIGKILL"},
		{"of which a session of its own ignores SIGTERM", `trap '' TERM; setsid sleep 1000 & trap - TERM; echo $$ $! > pids; wait`, 143, "SIGTERM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			pids := fifo(t, dir, "pids")
			cmd := shell(dir, c.script)
			cmd.Timeout, cmd.Grace = 300*time.Millisecond, 100*time.Millisecond
			told := make(chan []process, 1)
			go func() { told <- identify(t, readFifo(t, pids)) }()
			exit, err := Run(patient(t), cmd, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !exit.TimedOut || exit.Cancelled || exit.Code != c.code || exit.Signal != c.signal {
				t.Errorf("%+v", exit)
			}
			mustBeGone(t, <-told)
		})
	}
}

func TestCancelEndsTheWholeTree(t *testing.T) {
	dir := t.TempDir()
	pids := fifo(t, dir, "pids")
	ctx, cancel := context.WithCancel(patient(t))
	var all []process
	go func() {
		defer cancel()
		all = identify(t, readFifo(t, pids))
	}()
	exit, err := Run(ctx, shell(dir, `setsid sleep 1000 & echo $$ $! > pids; echo said; wait`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !exit.Cancelled || exit.TimedOut {
		t.Errorf("%+v", exit)
	}
	if got := string(exit.Stdout.Head()); got != "said\n" {
		t.Errorf("kept %q of the output", got)
	}
	mustBeGone(t, all)
}

func TestWhatACommandLeavesRunningEndsWithIt(t *testing.T) {
	dir := t.TempDir()
	exit, err := Run(patient(t), shell(dir, `sleep 1000 & setsid sleep 1000 & echo $!`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if exit.Code != 0 || exit.Swept != 2 || exit.Left != 0 || exit.OutputHeld {
		t.Errorf("%+v", exit)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(exit.Stdout.Head())))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := readProcess(pid); err == nil && !p.dead {
		t.Errorf("process %d is alive", pid)
	}
}

func TestACommandThatKillsItsSupervisorIsLostAndStillEnds(t *testing.T) {
	dir := t.TempDir()
	pids := fifo(t, dir, "pids")
	told := make(chan []process, 1)
	go func() { told <- identify(t, readFifo(t, pids)) }()
	exit, err := Run(patient(t), shell(dir, `echo before; setsid sleep 1000 & echo $$ $! > pids; kill -KILL $PPID; sleep 1000`), nil)
	if _, lost := errors.AsType[*LostError](err); !lost {
		t.Fatalf("%+v, %v", exit, err)
	}
	if got := string(exit.Stdout.Head()); got != "before\n" {
		t.Errorf("kept %q of the output", got)
	}
	mustBeGone(t, <-told)
}

func TestAProcessOutsideCannotHoldUpTheCall(t *testing.T) {
	dir := t.TempDir()
	pids, goOn := fifo(t, dir, "pids"), fifo(t, dir, "go-on")
	go func() {
		p := identify(t, readFifo(t, pids))[0]
		outside, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", p.pid), os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
		}
		t.Cleanup(func() { outside.Close() })
		_ = os.WriteFile(goOn, nil, 0)
	}()
	exit, err := Run(patient(t), shell(dir, `echo $$ > pids; cat go-on; echo last`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !exit.OutputHeld || string(exit.Stdout.Head()) != "last\n" {
		t.Errorf("%+v, output %q", exit, exit.Stdout.Head())
	}
}

func TestOutputIsKeptByteForByte(t *testing.T) {
	want := make([]byte, 0, 256*256)
	for i := range 256 * 256 {
		want = append(want, byte(i), byte(i>>8))
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "all"), want, 0o600); err != nil {
		t.Fatal(err)
	}
	exit, err := Run(patient(t), shell(dir, `cat all; cat all >&2`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(exit.Stdout.Head(), want) || !bytes.Equal(exit.Stderr.Head(), want) || exit.Truncated() {
		t.Errorf("kept %d and %d bytes of %d", exit.Stdout.Total(), exit.Stderr.Total(), len(want))
	}
}

func TestMoreOutputThanIsKeptIsCountedExactly(t *testing.T) {
	exit, err := Run(patient(t), shell(t.TempDir(), `echo first; head -c 9999990 /dev/zero; echo last`), nil)
	if err != nil {
		t.Fatal(err)
	}
	out := exit.Stdout
	if out.Total() != 10_000_001 || out.Omitted() != 10_000_001-HeadLimit-TailLimit || !exit.Truncated() {
		t.Errorf("total %d, omitted %d", out.Total(), out.Omitted())
	}
	if !bytes.HasPrefix(out.Head(), []byte("first\n")) || !bytes.HasSuffix(out.Tail(), []byte("last\n")) {
		t.Error("the ends are not kept")
	}
}

func TestWhatCannotStartSaysWhy(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(dir, "gone")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		cmd  Command
		want Reason
	}{
		{"vanished directory", t.Context(), shell(gone, "true"), NoDirectory},
		{"a file for a directory", t.Context(), shell(file, "true"), NoDirectory},
		{"vanished program", t.Context(), Command{Path: gone, Args: []string{"x"}, Dir: dir}, NoProgram},
		{"vanished interpreter", t.Context(), Command{Path: script, Args: []string{"x"}, Dir: dir}, NoProgram},
		{"no program", t.Context(), Command{Path: file, Args: []string{"x"}, Dir: dir}, NotPermitted},
		{"too long", t.Context(), shell(dir, "#"+strings.Repeat("x", 3<<20)), TooLong},
		{"a NUL byte", t.Context(), shell(dir, "echo \x00"), NulByte},
		{"ended before", ended, shell(dir, "true"), Ended},
		{"no folder for the fence", t.Context(), Command{Path: "/bin/true", Args: []string{"true"}, Dir: dir, Fence: NewFence(filepath.Join(gone, "f"))}, OtherReason},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Run(c.ctx, c.cmd, nil)
			e, ok := errors.AsType[*StartError](err)
			if !ok || e.Reason != c.want {
				t.Fatalf("got %v", err)
			}
			if !strings.HasSuffix(err.Error(), "nothing was run") {
				t.Errorf("the sentence is %q", err)
			}
		})
	}
	for _, c := range []Command{{}, {Path: "sh", Args: []string{"sh"}, Dir: "/"}, {Path: "/bin/sh", Args: []string{"sh"}}, {Path: "/bin/sh", Dir: "/"}} {
		if _, err := Run(t.Context(), c, nil); err == nil {
			t.Errorf("%+v ran", c)
		}
	}
}

func TestACommandSeesNothingOfTheHarness(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	stray, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer stray.Close()
	if err := unix.Dup3(int(stray.Fd()), 77, 0); err != nil { // inherited on purpose
		t.Fatal(err)
	}
	defer unix.Close(77)
	dir := t.TempDir()
	c := shell(dir, `i=0; while [ $i -lt 200 ]; do [ -e /proc/$$/fd/$i ] && echo fd $i; i=$((i+1)); done; tr '\0' '\n' < /proc/$$/environ`)
	c.Fence = NewFence(filepath.Join(dir, "s.tools"))
	exit, err := Run(patient(t), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"fd 0", "fd 1", "fd 2"}
	want = append(want, c.Env...)
	got := strings.Split(strings.TrimSpace(string(exit.Stdout.Head())), "\n")
	if last := len(got) - 1; last < 0 || !strings.HasPrefix(got[last], markName+"=") {
		t.Fatalf("no mark in %q", got)
	}
	got = got[:len(got)-1]
	if !slices.Equal(got, want) {
		t.Errorf("the command sees\n%q, want\n%q", got, want)
	}
}

func TestTheObserverSeesTheLiveEnd(t *testing.T) {
	dir := t.TempDir()
	goOn := fifo(t, dir, "go-on")
	var seen []Progress
	exit, err := Run(patient(t), shell(dir, `echo out; echo err >&2; cat go-on`), func(p Progress) {
		seen = append(seen, p)
		if p.Stdout.Text == "out\n" && p.Stderr.Text == "err\n" && len(seen) < 3 {
			go func() { _ = os.WriteFile(goOn, nil, 0) }()
		}
	})
	if err != nil || exit.Code != 0 {
		t.Fatalf("%+v, %v", exit, err)
	}
	if len(seen) == 0 {
		t.Fatal("nothing was observed")
	}
}

func TestACommandThatForksWithoutEndIsEnded(t *testing.T) {
	c := shell(t.TempDir(), `while :; do setsid sh -c 'sleep 1000 & sleep 1000' & done`)
	c.Timeout, c.Grace = 200*time.Millisecond, 50*time.Millisecond
	c.Fence = NewFence(filepath.Join(t.TempDir(), "s.tools"))
	exit, err := Run(patient(t), c, nil)
	if err != nil || !exit.TimedOut || exit.Left != 0 {
		t.Fatalf("%+v, %v", exit, err)
	}
	if err := AwaitFence(patient(t), c.Fence.path); err != nil {
		t.Fatal(err)
	}
}

func TestRunNeedsEnter(t *testing.T) {
	entered.Store(false)
	defer entered.Store(true)
	if _, err := Run(t.Context(), shell("/", "true"), nil); !errors.Is(err, ErrNotEntered) {
		t.Errorf("got %v", err)
	}
}

func TestRunLeavesNoDescriptorBehind(t *testing.T) {
	dir := t.TempDir()
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	run := func() {
		for _, c := range []Command{shell(dir, "echo x"), shell(filepath.Join(dir, "gone"), "true")} {
			c.Fence = NewFence(filepath.Join(dir, "s.tools"))
			_, _ = Run(patient(t), c, nil)
		}
	}
	run()
	before := count()
	for range 5 {
		run()
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// peak returns the most memory that the Go heap had in use while f ran.
func peak(f func()) uint64 {
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	done, most := make(chan struct{}), make(chan uint64)
	go func() {
		var max uint64
		for {
			select {
			case <-done:
				most <- max
				return
			case <-time.After(5 * time.Millisecond):
				runtime.ReadMemStats(&now)
				if used := now.HeapInuse - min(before.HeapInuse, now.HeapInuse); used > max {
					max = used
				}
			}
		}
	}()
	f()
	close(done)
	return <-most
}

// The budget of a command that prints 200 MB is 1.5 s and 10 MB.
func Benchmark200MB(b *testing.B) {
	const size = 200 << 20
	b.SetBytes(size)
	c := shell(b.TempDir(), fmt.Sprintf("head -c %d /dev/zero", size))
	for b.Loop() {
		used := peak(func() {
			exit, err := Run(b.Context(), c, func(Progress) {})
			if err != nil || exit.Stdout.Total() != size {
				b.Fatalf("%+v, %v", exit, err)
			}
		})
		b.ReportMetric(float64(used)/1e6, "MB-heap")
	}
}

// The budget of a jailed true is 10 ms more than a bare one.
func BenchmarkTrue(b *testing.B) {
	b.Run("jailed", func(b *testing.B) {
		c := Command{Path: "/bin/true", Args: []string{"true"}, Dir: "/", Env: Environment(nil), Fence: NewFence(filepath.Join(b.TempDir(), "s.tools"))}
		for b.Loop() {
			if _, err := Run(b.Context(), c, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
