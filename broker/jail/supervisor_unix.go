//go:build unix && !aix && !solaris && !illumos

package jail

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supervisorName is the whole argument vector of a supervisor and its name in
// process lists. It does not hold the name of the binary, so that ending the
// harness by name does not end the one process that would clean up after it.
const supervisorName = "tool-supervisor"

// The descriptors that a supervisor is born with.
const (
	controlFD = 3 + iota
	reportFD
	stdoutFD
	stderrFD
	inputFD
	fenceFD // only with a fence
)

var entered atomic.Bool

// Enter makes this process a supervisor, and then never returns, when [Run] of
// another process of this binary started it as one. Otherwise it notes that the
// program calls it and returns. It must be the first call of main, and of
// TestMain in tests that run commands, before flags are read. On Linux it also
// closes the process to the eyes of others of the same user, see the invariants.
func Enter() {
	if len(os.Args) == 1 && os.Args[0] == supervisorName && isPipe(controlFD) && isPipe(reportFD) {
		supervise()
	}
	conceal()
	entered.Store(true)
}

func isPipe(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

// supervise is the whole life of a supervisor.
func supervise() {
	// The parent death signal of the command is bound to the thread that starts
	// it, so that thread must live as long as this process.
	runtime.LockOSThread()
	sealDescriptors()
	// Signals meant for the harness end up here too when somebody signals a
	// whole session. They are received and dropped rather than ignored: what is
	// ignored would stay ignored in the command.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)
	becomeSubreaper()
	conceal() // the name is set before: its file belongs to root from here on

	control := os.NewFile(controlFD, "control")
	answers := os.NewFile(reportFD, "report")
	fields, err := readFrame(control)
	if err != nil {
		os.Exit(2) // the harness died before it had said what to run
	}
	o, err := decodeOrder(fields)
	if err != nil {
		os.Exit(2)
	}
	tree, err := o.start()
	if err != nil {
		_, _ = answers.Write(reportFrame(refusal(o, err)))
		os.Exit(1)
	}
	// Only the command may hold its streams open.
	_ = unix.Close(inputFD)
	_ = unix.Close(stdoutFD)
	_ = unix.Close(stderrFD)
	_, _ = answers.Write(reportFrame(&started{}))
	s := supervision{grace: o.grace, tree: tree, answers: answers, sweptOnce: map[process]struct{}{}}
	s.loop(control)
	os.Exit(0)
}

// sealDescriptors makes sure that the command inherits nothing but what it is
// given, neither the pipes and the fence nor what the harness itself was
// started with.
func sealDescriptors() {
	for fd := controlFD; fd <= fenceFD; fd++ {
		unix.CloseOnExec(fd)
	}
	sealAbove(fenceFD + 1)
}

// start runs the command as the leader of its own process group.
func (o order) start() (*processTree, error) {
	pid, err := syscall.ForkExec(o.path, o.args, &syscall.ProcAttr{
		Dir:   o.dir,
		Env:   o.env,
		Files: []uintptr{inputFD, stdoutFD, stderrFD}, // without an input that is /dev/null
		Sys:   childAttr(),
	})
	if err != nil {
		return nil, err
	}
	return &processTree{main: pid}, nil
}

// refusal finds out which of the things that exec needs was missing; the error
// number alone does not tell a directory from a program.
func refusal(o order, err error) *failed {
	f := &failed{reason: OtherReason, text: err.Error()}
	info, statErr := os.Stat(o.dir)
	switch {
	case errors.Is(statErr, os.ErrNotExist), statErr == nil && !info.IsDir():
		f.reason = NoDirectory
	case errors.Is(err, unix.E2BIG):
		f.reason = TooLong
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		f.reason = NotPermitted
	case errors.Is(err, unix.ENOENT):
		f.reason = NoProgram
	}
	return f
}

// supervision carries out what the ladder decides.
type supervision struct {
	ladder  ladder
	grace   time.Duration
	tree    *processTree
	answers io.Writer

	status    unix.WaitStatus
	sweptOnce map[process]struct{} // killed after the command ended by itself
	graceC    <-chan time.Time
	sweepC    <-chan time.Time
	roundC    <-chan time.Time
	pause     time.Duration // until the next round of signals
}

// Rounds of signals: the first ones close together, since a tree mostly dies at
// once, later ones far apart, since what is left is stuck.
const (
	firstPause = 2 * time.Millisecond
	lastPause  = 100 * time.Millisecond
)

func (s *supervision) loop(control io.Reader) {
	asked := make(chan struct{}) // an item: end; closed: the harness is gone
	go listen(control, asked)
	endings := make(chan ending, 1)
	go reap(s.tree.main, endings)

	for s.ladder.phase != over {
		var h happening
		select {
		case e := <-endings:
			h = treeEmpty
			if e.main {
				s.status = e.status
			}
			if !e.empty {
				h = mainExited
			}
		case _, ok := <-asked:
			h = endAsked
			if !ok {
				asked, h = nil, harnessGone
			}
		case <-s.graceC:
			h = graceOver
		case <-s.sweepC:
			s.sweepC, h = nil, sweepOver
		case <-s.roundC:
			h = nextRound
		}
		var deeds []deed
		s.ladder, deeds = s.ladder.step(h)
		for _, d := range deeds {
			s.do(d)
		}
	}
}

func (s *supervision) do(d deed) {
	switch d {
	case sendTerm:
		s.tree.signal(unix.SIGTERM)
		s.tree.signal(unix.SIGCONT) // a stopped process sees SIGTERM only when it goes on
	case startGrace:
		s.graceC = time.After(s.grace)
	case sendKill:
		for _, p := range s.tree.signal(unix.SIGKILL) {
			if !s.ladder.interrupted {
				s.sweptOnce[p] = struct{}{}
			}
		}
		s.pause = min(max(2*s.pause, firstPause), lastPause)
		s.roundC = time.After(s.pause)
	case startSweep:
		s.sweepC = time.After(sweepLimit)
	case tellExit:
		_, _ = s.answers.Write(reportFrame(s.exited()))
	case leave:
	}
}

func (s *supervision) exited() *exited {
	e := &exited{interrupted: s.ladder.interrupted, swept: len(s.sweptOnce)}
	if s.ladder.phase != over {
		e.left = max(1, len(s.tree.living()))
		e.swept = max(0, e.swept-e.left)
	}
	switch {
	case !s.ladder.mainGone:
		e.signal = int(unix.SIGKILL) // was sent, and will end it if anything does
	case s.status.Signaled():
		e.signal = int(s.status.Signal())
	default:
		e.code = s.status.ExitStatus()
	}
	return e
}

// listen turns the control pipe into asks.
func listen(control io.Reader, asked chan<- struct{}) {
	defer close(asked)
	var one [1]byte
	for {
		if _, err := io.ReadFull(control, one[:]); err != nil {
			return
		}
		asked <- struct{}{}
	}
}

// ending is what the reaper tells: that the command ended, that nothing is left,
// or both at once, which is the usual case and spares a look at /proc.
type ending struct {
	main   bool
	status unix.WaitStatus // of the command, with main
	empty  bool
}

// reap collects the command and every orphan that is handed to this process.
// That no child is left is the proof that no process of the command is: whoever
// loses its parent becomes a child of the subreaper.
func reap(main int, endings chan<- ending) {
	var pending ending
	for {
		how := 0
		if pending.main {
			how = unix.WNOHANG
		}
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, how, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			pending.empty = true
			endings <- pending
			return
		case pid == main:
			pending = ending{main: true, status: status}
		case pid == 0:
			endings <- pending
			pending = ending{}
		}
	}
}

// signalName names a signal number; numbers without a name are told as such.
func signalName(n int) string {
	if n == 0 {
		return ""
	}
	if name := unix.SignalName(syscall.Signal(n)); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(n)
}
