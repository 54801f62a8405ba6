//go:build !unix || aix || solaris || illumos

package jail

import "context"

// Enter does nothing on a system without Unix processes.
func Enter() {}

// Run returns [ErrUnsupported].
func Run(ctx context.Context, c Command, observe func(Progress)) (Exit, error) {
	return Exit{}, ErrUnsupported
}

// Fence is the lock that supervisors hold; on this system there are none.
type Fence struct{ path string }

// NewFence returns the fence with that lock file.
func NewFence(path string) Fence { return Fence{path: path} }

// AwaitFence returns at once: nothing was ever run.
func AwaitFence(ctx context.Context, path string) error { return ctx.Err() }
