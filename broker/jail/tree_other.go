//go:build unix && !linux && !aix && !solaris && !illumos

package jail

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// processTree is the process group of the command: this system has neither a
// subreaper nor a process table that can be read without tools. What leaves the
// group leaves the tree.
type processTree struct {
	main int
}

func becomeSubreaper() {}

// conceal has nothing to do: there is no /proc that commands read, or none that
// this package knows how to close.
func conceal() {}

func sealAbove(first uint) {}

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// living cannot be counted here.
func (t *processTree) living() []process { return nil }

func (t *processTree) signal(sig unix.Signal) []process {
	_ = unix.Kill(-t.main, sig)
	return nil
}

func killMarked(mark string) int { return 0 }
