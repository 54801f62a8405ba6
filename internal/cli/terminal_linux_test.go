package cli_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pty opens a pseudo terminal: what a person has, and what a process has.
func pty(t *testing.T) (person, process *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("there are no pseudo terminals here: %v", err)
	}
	person = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	process, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { _ = process.Close() })
	return person, process
}

// sitting runs the program with a terminal, and types a line each time it asks.
func sitting(t *testing.T, s *sandbox, types []string, args ...string) (seen string, exit int) {
	t.Helper()
	person, process := pty(t)
	cmd := s.command(args...)
	cmd.Stdin, cmd.Stderr = process, process
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its status is looked at
		close(ended)
		_ = person.SetReadDeadline(time.Now())
	}()
	if err := person.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	buf := make([]byte, 4096)
	for at := 0; ; {
		n, err := person.Read(buf)
		all.Write(buf[:n])
		if fresh := all.String()[at:]; len(types) > 0 && strings.Contains(fresh, "leaves it open: ") {
			at = all.Len()
			if _, err := person.WriteString(types[0] + "\n"); err != nil {
				t.Fatal(err)
			}
			types = types[1:]
		}
		if err != nil {
			break
		}
	}
	select {
	case <-ended:
	default:
		_ = cmd.Process.Kill()
		<-ended
		t.Errorf("it did not end by itself")
	}
	return all.String(), cmd.ProcessState.ExitCode()
}

// TestAPersonAtATerminalIsAsked there, in words that do not lead them astray, and what
// they leave open stays.
func TestAPersonAtATerminalIsAsked(t *testing.T) {
	s := newSandbox(t, "call b1 bash {\"command\":\"touch yes; true \\u001b[2J\"}\n==\ntext done\n")
	seen, exit := sitting(t, s, []string{"what?", "y"}, "run", "-m", "openai/m", "go")
	if exit != 0 || strings.Count(seen, "may it run: bash") != 1 || strings.Count(seen, "leaves it open") != 2 {
		t.Errorf("status %d, and a person sees %q", exit, seen)
	}
	if strings.Contains(seen, "\x1b[2J") {
		t.Errorf("what the model wrote reaches the terminal: %q", seen)
	}
	if _, err := os.Stat(filepath.Join(s.repo, "yes")); err != nil {
		t.Error(err)
	}

	s = newSandbox(t, "call b1 bash {\"command\":\"touch no\"}\n==\ntext done\n")
	seen, exit = sitting(t, s, []string{""}, "run", "-m", "openai/m", "go")
	if exit != 6 || !strings.Contains(seen, "loom resume") {
		t.Errorf("status %d, and a person sees %q", exit, seen)
	}
	if _, err := os.Stat(filepath.Join(s.repo, "no")); err == nil {
		t.Error("what nobody allowed ran")
	}
}
