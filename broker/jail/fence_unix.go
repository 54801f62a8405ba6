//go:build unix && !aix && !solaris && !illumos

package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// markName is the variable that marks the processes of a command. Its value is
// the identity of the fence, a dot and a number of the execution.
const markName = "LOOM_EXECUTION"

// Fence tells a recovering harness whether processes of an earlier one are
// alive. It is a lock file, one per session, that nothing ever removes while the
// session exists: a lock on a removed file excludes nobody.
//
// Each supervisor holds a shared lock from before its birth to its end, through
// a descriptor of its own that the harness opened and gave away. The harness
// itself holds nothing. So supervisors never exclude each other, a harness that
// is alive can close and open its session again as soon as its own commands are
// over, and an exclusive lock can be taken exactly when no supervisor is left,
// whoever started it.
//
// The zero Fence is none.
type Fence struct {
	path string
}

// NewFence returns the fence with that lock file, which is created by the first
// command. Its folder must exist.
func NewFence(path string) Fence { return Fence{path: path} }

// hold opens the lock file and locks it shared. The file is nil for no fence.
func (f Fence) hold(ctx context.Context) (file *os.File, identity string, err error) {
	if f.path == "" {
		return nil, "0-0", nil
	}
	file, err = os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, "", fmt.Errorf("open the fence: %w", err)
	}
	if err := lock(ctx, file, unix.LOCK_SH); err != nil {
		shut(file)
		return nil, "", fmt.Errorf("hold the fence %s: %w", f.path, err)
	}
	identity, err = identityOf(file)
	if err != nil {
		shut(file)
		return nil, "", fmt.Errorf("hold the fence %s: %w", f.path, err)
	}
	return file, identity, nil
}

// AwaitFence returns when no supervisor that holds the fence at path is left,
// and no process that carries its mark. Then no command of an earlier harness
// runs any more, but for what the package comment says of killed supervisors. It
// is called at recovery, after the lease of the session is taken, so that nobody
// starts new commands behind it. A fence that never existed is free. When ctx ends first, its error is returned and processes may be running.
func AwaitFence(ctx context.Context, path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the fence: %w", err)
	}
	defer shut(file) // and with it the exclusive lock
	if err := lock(ctx, file, unix.LOCK_EX); err != nil {
		return fmt.Errorf("a command of an earlier run is still running (%s is held): %w", path, err)
	}
	identity, err := identityOf(file)
	if err != nil {
		return fmt.Errorf("read the fence %s: %w", path, err)
	}
	for pause := firstPause; killMarked(identity+".") > 0; pause = min(2*pause, lastPause) {
		if err := wait(ctx, pause); err != nil {
			return fmt.Errorf("a process of an earlier run does not end (%s): %w", path, err)
		}
	}
	return nil
}

// lock waits by asking again: a blocking flock cannot be given up.
func lock(ctx context.Context, file *os.File, how int) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		var lockErr error
		if err := conn.Control(func(fd uintptr) { lockErr = unix.Flock(int(fd), how|unix.LOCK_NB) }); err != nil {
			return err
		}
		switch lockErr {
		case nil:
			return nil
		case unix.EWOULDBLOCK, unix.EINTR:
		default:
			return lockErr
		}
		if err := wait(ctx, pause); err != nil {
			return err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// identityOf names the lock file whatever path led to it.
func identityOf(file *os.File) (string, error) {
	conn, err := file.SyscallConn()
	if err != nil {
		return "", err
	}
	var st unix.Stat_t
	var statErr error
	if err := conn.Control(func(fd uintptr) { statErr = unix.Fstat(int(fd), &st) }); err != nil {
		return "", err
	}
	if statErr != nil {
		return "", statErr
	}
	return fmt.Sprintf("%x-%x", st.Dev, st.Ino), nil
}
