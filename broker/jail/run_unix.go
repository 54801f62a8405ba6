//go:build unix && !aix && !solaris && !illumos

package jail

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Run runs c and returns when all its processes are gone. observe, which may be
// nil, is called with the live end of the output at most every 100 ms, from one
// goroutine at a time and never after Run has returned; it must not block.
//
// When ctx ends or the timeout passes, the whole tree gets SIGTERM, after the
// grace SIGKILL; both are told in Exit and are no error. The errors are
// [*StartError] (nothing was run), [*LostError] (the outcome is unknown; Exit
// holds the output so far) and those that say the caller is wrong.
func Run(ctx context.Context, c Command, observe func(Progress)) (Exit, error) {
	if !entered.Load() {
		return Exit{}, ErrNotEntered
	}
	if err := c.check(); err != nil {
		return Exit{}, err
	}
	if ctx.Err() != nil {
		return Exit{}, &StartError{Reason: Ended, Path: c.Path, Dir: c.Dir, Err: context.Cause(ctx)}
	}
	if c.Grace <= 0 {
		c.Grace = DefaultGrace
	}
	r, err := start(ctx, c)
	if err != nil {
		return Exit{}, err
	}
	return r.follow(ctx, observe)
}

// execution is one command from the side of the harness.
type execution struct {
	command    Command
	mark       string
	supervisor *os.Process
	control    *os.File // closing it is the death of the harness, for the supervisor
	input      *os.File // what the command reads comes from here; nil for nothing
	reports    chan report
	stdout     stream
	stderr     stream
}

// start starts the supervisor and sends it the order. It waits for nothing.
func start(ctx context.Context, c Command) (r *execution, err error) {
	// Everything that the supervisor has inherited is closed here in any case;
	// what stays is closed only when the start fails.
	var theirs, ours []*os.File
	defer func() {
		for _, f := range theirs {
			shut(f)
		}
		if err != nil {
			for _, f := range ours {
				shut(f)
			}
		}
	}()

	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	theirs = append(theirs, null)
	files := []*os.File{null, null, null}
	var kept [4]*os.File // control, report, stdout, stderr
	for i, name := range [...]string{"control", "report", "stdout", "stderr"} {
		pipe, err := newPipe(name, name != "control")
		if err != nil {
			return nil, err
		}
		given := pipe.w
		kept[i] = pipe.r
		if name == "control" {
			given, kept[i] = pipe.r, pipe.w
		}
		theirs, ours, files = append(theirs, given), append(ours, kept[i]), append(files, given)
	}
	widen(kept[2])
	widen(kept[3])

	var input *os.File
	given := null
	if c.Input != nil {
		pipe, err := newPipe("input", false)
		if err != nil {
			return nil, err
		}
		given, input = pipe.r, pipe.w
		theirs, ours = append(theirs, pipe.r), append(ours, pipe.w)
	}
	files = append(files, given)

	fence, identity, err := c.Fence.hold(ctx)
	if err != nil {
		return nil, &StartError{Reason: OtherReason, Path: c.Path, Dir: c.Dir, Err: err}
	}
	if fence != nil {
		theirs, files = append(theirs, fence), append(files, fence)
	}
	var number [8]byte
	_, _ = rand.Read(number[:]) // never fails
	mark := identity + "." + hex.EncodeToString(number[:])

	supervisor, err := startSupervisor(files)
	if err != nil {
		return nil, &StartError{Reason: OtherReason, Path: c.Path, Dir: c.Dir, Err: fmt.Errorf("start its supervisor: %w", err)}
	}
	r = &execution{
		command: c, mark: mark, supervisor: supervisor, control: kept[0], input: input, reports: make(chan report),
		stdout: stream{kept[2], newRecorder()}, stderr: stream{kept[3], newRecorder()},
	}
	go r.listen(kept[1])

	env := append(append(make([]string, 0, len(c.Env)+1), c.Env...), markName+"="+mark)
	o := order{path: c.Path, dir: c.Dir, grace: c.Grace, args: c.Args, env: env}
	_ = r.control.SetWriteDeadline(time.Now().Add(supervisorGrace))
	if _, err := r.control.Write(o.frame()); err != nil {
		// The supervisor is dead or hangs, and has not seen the whole order: it
		// starts nothing.
		_ = supervisor.Kill()
		r.bury(true)
		return nil, &StartError{Reason: OtherReason, Path: c.Path, Dir: c.Dir, Err: err}
	}
	return r, nil
}

// startSupervisor starts this binary again. It gets its own session, so that
// neither the terminal nor a signal to the group of the harness reaches it, and
// no environment.
func startSupervisor(files []*os.File) (*os.Process, error) {
	program := "/proc/self/exe" // also right when the binary was replaced meanwhile
	if _, err := os.Stat(program); err != nil || runtime.GOOS != "linux" {
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	return os.StartProcess(program, []string{supervisorName}, &os.ProcAttr{
		Dir:   "/",
		Env:   []string{"GOMAXPROCS=1", "GOTRACEBACK=none"},
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

// listen passes reports on until the supervisor closes its end.
func (r *execution) listen(pipe *os.File) {
	defer shut(pipe)
	defer close(r.reports)
	for {
		fields, err := readFrame(pipe)
		if err != nil {
			return
		}
		rep, err := decodeReport(fields)
		if err != nil {
			return
		}
		r.reports <- rep
	}
}

// feed passes on what the command reads, until there is no more or nobody reads it.
func (r *execution) feed() {
	_, _ = io.Copy(r.input, r.command.Input) // a command may stop reading whenever it likes
	shut(r.input)
}

// cause is why the harness ended a command.
type cause uint8

const (
	notEnded cause = iota
	timedOut
	cancelled
)

// follow sees the execution to its end.
func (r *execution) follow(ctx context.Context, observe func(Progress)) (Exit, error) {
	var pumps sync.WaitGroup
	pumps.Go(r.stdout.pump)
	pumps.Go(r.stderr.pump)
	stopObserving := r.observe(observe)
	if r.input != nil {
		go r.feed()
		defer shut(r.input)
	}

	last, why := r.await(ctx)
	exit := Exit{}
	lost := false
	switch rep := last.(type) {
	case *exited:
		exit.Code, exit.Signal, exit.Swept, exit.Left = rep.code, signalName(rep.signal), rep.swept, rep.left
		if rep.signal != 0 {
			exit.Code = 128 + rep.signal
		}
		exit.TimedOut = rep.interrupted && why == timedOut
		exit.Cancelled = rep.interrupted && why == cancelled
	case *failed:
	case *started, nil:
		lost = true
		_ = r.supervisor.Kill()
	}
	shut(r.control)

	deadline := time.Now().Add(drainGrace)
	_ = r.stdout.pipe.SetReadDeadline(deadline)
	_ = r.stderr.pipe.SetReadDeadline(deadline)
	if lost {
		killAllMarked(r.mark)
	}
	pumps.Wait()
	stopObserving()
	heldOut, heldErr := r.stdout.finish(), r.stderr.finish()
	exit.OutputHeld = heldOut || heldErr
	exit.Stdout, exit.Stderr = r.stdout.kept.finish(), r.stderr.kept.finish()
	r.bury(lost || exit.Left > 0)

	if f, ok := last.(*failed); ok {
		return Exit{}, &StartError{Reason: f.reason, Path: r.command.Path, Dir: r.command.Dir, Err: errors.New(f.text)}
	}
	if lost {
		return exit, &LostError{Why: "its supervisor ended or fell silent; processes of the command that were found have been killed"}
	}
	return exit, nil
}

// await returns the last report, nil for none, and why the command was ended if
// it was.
func (r *execution) await(ctx context.Context) (last report, why cause) {
	done := ctx.Done()
	var timeout, silence <-chan time.Time
	if r.command.Timeout > 0 {
		t := time.NewTimer(r.command.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	end := func(c cause) {
		why, done, timeout = c, nil, nil
		_, _ = r.control.Write([]byte{1}) // fails only when the supervisor is gone, which the reports tell
		silence = time.After(r.command.Grace + sweepLimit + supervisorGrace)
	}
	for {
		select {
		case rep, ok := <-r.reports:
			if _, first := rep.(*started); first {
				continue
			}
			if !ok {
				return nil, why
			}
			return rep, why
		case <-done:
			end(cancelled)
		case <-timeout:
			end(timedOut)
		case <-silence:
			return nil, why
		}
	}
}

// killAllMarked repeats itself, since what is killed may just have forked, and
// gives up on what does not die.
func killAllMarked(mark string) {
	for pause := firstPause; killMarked(mark) > 0 && pause <= lastPause; pause *= 2 {
		time.Sleep(pause)
	}
}

// bury collects the supervisor. One that still watches processes it could not
// kill stays alive with the fence, and one that hangs may not die: such are
// collected later.
func (r *execution) bury(later bool) {
	if later {
		go r.collect()
		return
	}
	r.collect()
}

func (r *execution) collect() {
	_, _ = r.supervisor.Wait()
	for range r.reports { // the listener ends with the supervisor
	}
}

// observeEvery is the shortest time between two calls of an observer.
const observeEvery = 100 * time.Millisecond

// observe starts telling progress and returns how to stop it for good.
func (r *execution) observe(tell func(Progress)) (stop func()) {
	if tell == nil {
		return func() {}
	}
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(observeEvery)
		defer tick.Stop()
		var told Progress
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			if now := (Progress{r.stdout.kept.window(), r.stderr.kept.window()}); now != told {
				told = now
				tell(now)
			}
		}
	})
	return func() {
		close(quit)
		wg.Wait()
	}
}
