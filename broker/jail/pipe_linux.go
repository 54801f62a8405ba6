package jail

import (
	"os"

	"golang.org/x/sys/unix"
)

// widePipe is the size of an output pipe: the most that an unprivileged process
// may ask for. Wider pipes mean fewer switches between command and harness.
const widePipe = 1 << 20

// widen fails when the user's total for pipes is used up; the pipe then has its
// usual size.
func widen(pipe *os.File) {
	if conn, err := pipe.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, widePipe) })
	}
}
