package broker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loom-run/loom/broker"
	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/policy"
	"golang.org/x/sys/unix"
)

func sh(script string) jail.Command {
	return jail.Command{Path: "/bin/sh", Args: []string{"sh", "-c", script}}
}

// rig is a broker in a directory of its own, and one permit.
func rig(t *testing.T, op id.OpID) (b *broker.Broker, p *broker.Permit, dir string) {
	t.Helper()
	dir = t.TempDir()
	b, err := broker.New(broker.Config{
		Mode: policy.BypassPermissions, Workspace: dir,
		Environ: append(os.Environ(), "OPENAI_API_KEY=sk-secret", "LOOM_HOME=/x"), Fence: jail.NewFence(filepath.Join(dir, "s.tools")),
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err = b.Clear(call(op, 0))
	if err != nil {
		t.Fatal(err)
	}
	return b, p, dir
}

func TestACommandRunsInTheWorkspaceWithoutSecrets(t *testing.T) {
	b, p, dir := rig(t, ops(1)[0])
	c := sh(`pwd; env`)
	c.Env = []string{"OPENAI_API_KEY=sk-given"} // replaced
	exit, err := b.Exec(t.Context(), p, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := string(exit.Stdout.Head())
	if !strings.HasPrefix(out, dir+"\n") {
		t.Errorf("ran in %q", out)
	}
	for _, secret := range []string{"sk-", "LOOM_HOME"} {
		if strings.Contains(out, secret) {
			t.Errorf("the command sees %s: %s", secret, out)
		}
	}
	if err := jail.AwaitFence(t.Context(), filepath.Join(dir, "s.tools")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "s.tools")); err != nil {
		t.Errorf("the fence was not held: %v", err)
	}
}

func TestAbortEndsTheCommandsOfItsOperationAndNoOther(t *testing.T) {
	two := ops(2)
	b, p, dir := rig(t, two[0])
	begun := filepath.Join(dir, "begun")
	if err := unix.Mkfifo(begun, 0o600); err != nil {
		t.Fatal(err)
	}
	type result struct {
		exit jail.Exit
		err  error
	}
	done := make(chan result, 1)
	go func() {
		exit, err := b.Exec(context.WithoutCancel(t.Context()), p, sh(`echo > begun; sleep 1000`), nil)
		done <- result{exit, err}
	}()
	if _, err := os.ReadFile(begun); err != nil {
		t.Fatal(err)
	}

	if _, err := b.Exec(t.Context(), p, sh(`true`), nil); !errors.Is(err, broker.ErrBusy) {
		t.Errorf("a second command at the same time: %v", err)
	}
	if err := b.Settle(p); !errors.Is(err, broker.ErrBusy) {
		t.Errorf("settled while its command runs: %v", err)
	}
	if n := b.Abort(two[1]); n != 0 {
		t.Errorf("aborting another operation ended %d commands", n)
	}
	if n := b.Abort(two[0]); n != 1 {
		t.Errorf("aborting the operation ended %d commands", n)
	}
	r := <-done
	if r.err != nil || !r.exit.Cancelled {
		t.Errorf("%+v, %v", r.exit, r.err)
	}
	if _, err := b.Exec(t.Context(), p, sh(`true`), nil); !errors.Is(err, broker.ErrAborted) {
		t.Errorf("a command after the abort: %v", err)
	}
	if err := b.Settle(p); err != nil {
		t.Errorf("a revoked permit must still be settled: %v", err)
	}
}

func TestProgramsAreFoundInThePathOfCommands(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "text"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := broker.New(broker.Config{Workspace: "/", Environ: []string{"PATH=.:" + filepath.Join(dir, "none") + ":" + dir}})
	if err != nil {
		t.Fatal(err)
	}
	if path, ok := b.Program("tool"); !ok || path != filepath.Join(dir, "tool") {
		t.Errorf("%q, %v", path, ok)
	}
	for _, name := range []string{"text", "none", "../tool", "", ".", "/bin/sh"} {
		if path, ok := b.Program(name); ok {
			t.Errorf("%q is found at %q", name, path)
		}
	}
}
