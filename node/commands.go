package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/loom-run/loom/config"
)

// Bounds of the commands that print secrets.
const (
	commandPatience = 10 * time.Second
	maxPrinted      = 64 << 10 // bytes
)

// commands run what prints the secrets of a file, each once. They are the
// operator's own, so they run outside any jail, with the environment of the
// program.
type commands struct {
	secrets map[string]config.Secret
	environ []string
	warn    func(string)
	bound   time.Duration

	mu    sync.Mutex // guards asked
	asked map[string]string
}

func newCommands(secrets map[string]config.Secret, environ []string, warn func(string)) *commands {
	if warn == nil {
		warn = func(string) {}
	}
	return &commands{secrets: secrets, environ: environ, warn: warn, bound: commandPatience, asked: map[string]string{}}
}

// value is what a command printed; empty for nothing, also where it failed, which
// is told once.
func (c *commands) value(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.asked[name]; ok {
		return v
	}
	secret, ok := c.secrets[name]
	if !ok {
		return ""
	}
	v, err := c.run(secret.Command)
	if err != nil {
		c.warn(fmt.Sprintf("the command of the secret %s in loom.toml failed (%v); requests that need it say so", name, err))
		v = ""
	}
	c.asked[name] = v
	return v
}

// run returns the standard output without one trailing newline. What else the
// command says is not repeated: it may say it about the secret.
func (c *commands) run(argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = c.environ
	cmd.WaitDelay = time.Second // for a child that keeps the output open, as an agent that was started does
	out := &bounded{full: cancel}
	cmd.Stdout = out
	err := cmd.Run()
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case out.over:
		return "", fmt.Errorf("it printed more than %d bytes", maxPrinted)
	case ctx.Err() != nil:
		return "", fmt.Errorf("it did not end within %s", c.bound)
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return strings.TrimSuffix(out.text.String(), "\n"), nil
	case exited:
		return "", fmt.Errorf("it ended with %s", exit.ProcessState)
	case errors.Is(err, exec.ErrNotFound):
		return "", errors.New("there is no such program")
	default:
		return "", errors.New("it cannot be started")
	}
}

// bounded keeps what is printed, up to a bound, where it has the printing ended.
type bounded struct {
	text strings.Builder
	over bool
	full func()
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.over = b.over || b.text.Len()+len(p) > maxPrinted; b.over {
		b.full()
		return len(p), nil
	}
	return b.text.Write(p)
}

// known is the secrets that were got so far, as name=value.
func (c *commands) known() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.asked)) {
		if v := c.asked[name]; v != "" {
			all = append(all, name+"="+v)
		}
	}
	return all
}
