package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a file system of one mebibyte, or skips.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system to fill")
	}
	dir := t.TempDir()
	if err := unix.Mount("loom-test", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no small file system can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill leaves no room on a file system.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for chunk := make([]byte, 4096); ; {
		if _, err := f.Write(chunk); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFullDiskEndsTheRunAndKeepsTheSession(t *testing.T) {
	disk := smallDisk(t)
	s := newSandbox(t, "text ok\n==\ntext \""+strings.Repeat("much text ", 300_000)+"\"\n==\ntimes 2\ntext room again\n")
	s.home = disk
	run := func(args ...string) *process {
		p := s.start(s.command(append([]string{"run", "-m", "openai/m", "--output-format", "json"}, args...)...))
		p.exit()
		return p
	}
	full := func(p *process, cause string) {
		t.Helper()
		p.oneResult(cause)
		if said := p.said.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "the disk is full") || !strings.Contains(said, "free some space") {
			t.Errorf("a person is told %q", said)
		}
		if exit := p.cmd.ProcessState.ExitCode(); exit != 74 {
			t.Errorf("status %d", exit)
		}
	}
	first := run("first")
	first.oneResult("completed")
	v, err := parse(first.out.String())
	if err != nil {
		t.Fatal(err)
	}
	session := fmt.Sprint(v.(map[string]any)["session_id"])

	// The answer does not fit.
	full(run("--session", session, "second"), "lost")

	// Nothing fits.
	filler := filepath.Join(disk, "filler")
	fill(t, filler)
	full(run("--session", session, "third"), "refused")
	full(run("a new session"), "refused")

	// There is room again: the session goes on where it was.
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s.whole()
	run("--session", session, "fourth").oneResult("completed")
	s.whole()
}

// terminalPair opens a pseudo-terminal.
func terminalPair(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { ours.Close() })
	var number int
	raw, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if cerr := raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); cerr != nil || err != nil {
		t.Skip("there are no pseudo-terminals:", cerr, err)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

func TestATerminalShowsTextWhileItComes(t *testing.T) {
	s := newSandbox(t, "text \"I look \\x1b[31m\"\ntext around.\ncall c1 ls {}\n==\ntext \"Half of\"\nhang\n")
	ours, theirs := terminalPair(t)
	cmd := s.command("run", "-m", "openai/m", "do it")
	cmd.Stdin, cmd.Stdout = theirs, theirs
	p := s.start(cmd)
	// The second answer never ends, and yet its start is on the screen.
	var screen bytes.Buffer
	for chunk := make([]byte, 4096); !strings.Contains(screen.String(), "Half of"); {
		n, err := ours.Read(chunk)
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err, screen.String())
		}
		screen.Write(chunk[:n])
	}
	p.interrupt()
	if exit := p.exit(); exit != 130 {
		t.Errorf("status %d", exit)
	}
	if text := screen.String(); !strings.Contains(text, `I look \e[31maround.`) || strings.Contains(text, "\x1b") {
		t.Errorf("the screen shows %q", text)
	}
	s.whole()
}
