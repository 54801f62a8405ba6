//go:build unix && !aix && !solaris && !illumos

package jail

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stream is one output of a command on its way to the harness.
type stream struct {
	pipe *os.File
	kept *recorder
}

// pumpBuffer is the size of one read of output, as large as the widened pipe.
const pumpBuffer = 256 << 10

// pump reads the stream to its end or deadline and never stops earlier, so that
// the command never blocks.
func (s stream) pump() {
	buf := make([]byte, pumpBuffer)
	for {
		n, err := s.pipe.Read(buf)
		s.kept.write(buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.drain(buf)
			return
		}
		if err != nil {
			return
		}
	}
}

// drain takes what is in the pipe at the deadline: on a busy machine the pump
// may not have run since the command ended. It is bounded, since whoever still
// holds the pipe may go on writing.
func (s stream) drain(buf []byte) {
	if s.pipe.SetReadDeadline(time.Time{}) != nil {
		return
	}
	conn, err := s.pipe.SyscallConn()
	if err != nil {
		return
	}
	for left := 2 * widePipe; left > 0; {
		var n int
		var readErr error
		if err := conn.Read(func(fd uintptr) bool {
			n, readErr = unix.Read(int(fd), buf)
			return true
		}); err != nil || readErr != nil && readErr != unix.EINTR || readErr == nil && n == 0 {
			return
		}
		s.kept.write(buf[:max(n, 0)])
		left -= max(n, 1)
	}
}

// finish closes the pipe and reports whether somebody still held its other end.
func (s stream) finish() (held bool) {
	defer shut(s.pipe)
	_ = s.pipe.SetReadDeadline(time.Time{})
	conn, err := s.pipe.SyscallConn()
	if err != nil {
		return false
	}
	_ = conn.Read(func(fd uintptr) bool {
		var one [1]byte
		n, err := unix.Read(int(fd), one[:])
		held = err == unix.EAGAIN || n > 0
		return true
	})
	return held
}

// pipePair is one pipe; the ends are closed on exec unless they are passed on.
type pipePair struct{ r, w *os.File }

// newPipe makes the reading or the writing end, whichever stays here,
// non-blocking so that it can have deadlines; the other end must block, since a
// command does not expect otherwise.
func newPipe(name string, keepReader bool) (pipePair, error) {
	var fds [2]int
	syscall.ForkLock.RLock()
	err := unix.Pipe(fds[:])
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return pipePair{}, fmt.Errorf("make the %s pipe: %w", name, err)
	}
	ours := fds[1]
	if keepReader {
		ours = fds[0]
	}
	if err := unix.SetNonblock(ours, true); err != nil {
		_ = unix.Close(fds[0])
		_ = unix.Close(fds[1])
		return pipePair{}, fmt.Errorf("make the %s pipe: %w", name, err)
	}
	return pipePair{r: os.NewFile(uintptr(fds[0]), name), w: os.NewFile(uintptr(fds[1]), name)}, nil
}

// shut closes what was only read, or whose reader is gone or about to be:
// nothing is lost by a failure.
func shut(f *os.File) { _ = f.Close() }
