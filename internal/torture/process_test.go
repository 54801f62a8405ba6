//go:build linux

package torture

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// markVariable carries the mark of a life. It is one of the few that commands inherit, so that whatever a life started can be told from what others did,
// without asking the code under test.
const markVariable = "VIRTUAL_ENV"

// mark is the value of markVariable in a life: the home, which is unique to the stage, and the number of the life.
func mark(home string, number int) string { return fmt.Sprintf("%s/life-%d", home, number) }

// process is one that was found in the process table.
type process struct {
	pid     int
	life    int // 0: not known
	command string
}

func (p process) String() string { return fmt.Sprintf("%d (%s, of life %d)", p.pid, p.command, p.life) }

// ofStage finds every living process of a stage's lives: those that carry a mark, those that work in a folder beside the home, whatever became of their
// environment, and supervisors that hold the fence of a session. This process is left out.
func ofStage(home string) ([]process, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []process
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		p, ok := inspect(pid, home)
		if ok && living(pid) {
			found = append(found, p)
		}
	}
	return found, nil
}

// inspect reports whether a process belongs to the stage. One that is gone or that may not be looked at does not.
func inspect(pid int, home string) (process, bool) {
	at := filepath.Join("/proc", strconv.Itoa(pid))
	argv, err := os.ReadFile(filepath.Join(at, "cmdline"))
	if err != nil {
		return process{}, false
	}
	p := process{pid: pid, command: strings.TrimSpace(string(bytes.ReplaceAll(argv, []byte{0}, []byte{' '})))}
	if p.command == supervisor {
		return p, holdsBelow(at, home)
	}
	env, err := os.ReadFile(filepath.Join(at, "environ"))
	if err != nil {
		return process{}, false
	}
	for entry := range strings.SplitSeq(string(env), "\x00") {
		if n, ok := strings.CutPrefix(entry, markVariable+"="+home+"/life-"); ok {
			p.life, err = strconv.Atoi(n)
			return p, err == nil
		}
	}
	cwd, err := os.Readlink(filepath.Join(at, "cwd"))
	return p, err == nil && strings.HasPrefix(cwd, filepath.Dir(home)+"/")
}

// supervisor is the whole command line of the process between a harness and its command. It has no environment.
const supervisor = "tool-supervisor"

// holdsBelow reports whether a process has a file below dir open.
func holdsBelow(at, dir string) bool {
	fds, err := os.ReadDir(filepath.Join(at, "fd"))
	if err != nil {
		return false
	}
	for _, fd := range fds {
		if to, err := os.Readlink(filepath.Join(at, "fd", fd.Name())); err == nil && strings.HasPrefix(to, dir+"/") {
			return true
		}
	}
	return false
}

// status reads the state and the parent of a process; ok is false when it is gone.
func status(pid int) (state byte, parent int, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	_, after, ok := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
	fields := strings.Fields(after)
	if !ok || len(fields) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return fields[0][0], parent, err == nil
}

// living reports whether a process still runs: one that only waits to be collected does nothing any more.
func living(pid int) bool {
	state, _, ok := status(pid)
	return ok && state != 'Z' && state != 'X'
}

// supervisorsOf finds the supervisors that a harness started. A harness that is gone has none that can be found.
func supervisorsOf(harness int) (found []int) {
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", harness))
	if err != nil {
		return nil
	}
	for _, list := range children {
		text, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				continue
			}
			if argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.Trim(string(argv), "\x00") == supervisor {
				found = append(found, pid)
			}
		}
	}
	return found
}

// kill ends a life with SIGKILL and, with orphans, its supervisors right after it, so that nobody is left who would end its commands.
func kill(pid int, orphans bool) error {
	all := []int{pid}
	if orphans {
		all = append(all, supervisorsOf(pid)...)
	}
	for _, p := range all {
		if err := unix.Kill(p, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill %d: %w", p, err)
		}
	}
	return nil
}
