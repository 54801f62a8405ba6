package jail

import (
	"bytes"
	"io"
	"math"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// processTree is the command and whatever it started: all living descendants of
// this process.
type processTree struct {
	main int // the process that was started
}

func becomeSubreaper() {
	// Cannot fail on any kernel that Go supports; without it the wait for
	// "no child left" would still cover what did not daemonise.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	_ = os.WriteFile("/proc/self/comm", []byte(supervisorName), 0) // cosmetic, but see supervisorName
}

// conceal makes the memory, the environment and the descriptors of this process
// unreadable for other processes of the same user: a command would find the keys
// of the harness in /proc. What this process starts is readable again, because
// exec resets it; the mark in the environment of a command must be. Reading and
// signalling other processes does not depend on it. It cannot fail on any kernel
// that Go supports.
func conceal() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

func sealAbove(first uint) { _ = unix.CloseRange(first, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) }

func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
}

func (t *processTree) living() []process {
	table, err := processTable()
	if err != nil {
		return nil
	}
	return descendants(table, os.Getpid())
}

// signal sends sig to every living process of the tree and returns those that
// were there. Without a readable /proc only the process group can be reached.
func (t *processTree) signal(sig unix.Signal) []process {
	table, err := processTable()
	if err != nil {
		_ = unix.Kill(-t.main, sig)
		return nil
	}
	all := descendants(table, os.Getpid())
	for _, p := range all {
		p.signal(sig)
	}
	return all
}

// signal hits this process and never a later one with the same number: once the
// descriptor is open the number cannot be reused for what it refers to, and only
// then the start time is compared.
func (p process) signal(sig unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		// Gone, or a kernel without pidfd. In the second case the check and the
		// signal are two steps, which is what is left.
		if err != unix.ESRCH && p.same() {
			_ = unix.Kill(p.pid, sig)
		}
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if p.same() {
		if err := unix.PidfdSendSignal(fd, sig, nil, 0); err == unix.ENOSYS {
			_ = unix.Kill(p.pid, sig)
		}
	}
}

func (p process) same() bool {
	now, err := readProcess(p.pid)
	return err == nil && now.start == p.start
}

func readProcess(pid int) (process, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, err
	}
	return parseStat(text)
}

// processTable reads all processes. One that ends meanwhile is left out.
func processTable() ([]process, error) {
	pids, err := processNumbers()
	if err != nil {
		return nil, err
	}
	table := make([]process, 0, len(pids))
	for _, pid := range pids {
		if p, err := readProcess(pid); err == nil {
			table = append(table, p)
		}
	}
	return table, nil
}

func processNumbers() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer shut(dir)
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		return nil, io.ErrUnexpectedEOF // not a process file system
	}
	return pids, nil
}

// killMarked kills every process whose environment starts an entry with mark,
// and returns how many there were. It is the second net: it finds processes
// whose supervisor was killed before it could end them.
func killMarked(mark string) int {
	pids, err := processNumbers()
	if err != nil {
		return 0
	}
	needle := append([]byte{0}, markName+"="+mark...)
	n := 0
	for _, pid := range pids {
		p, err := readProcess(pid)
		if err != nil || p.dead || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err != nil || !bytes.Contains(append([]byte{0}, env...), needle) {
			continue
		}
		p.signal(unix.SIGKILL)
		n++
	}
	return n
}
