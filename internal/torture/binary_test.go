//go:build linux

package torture

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// built is where binaries are put; TestMain removes it.
var built struct {
	mu  sync.Mutex // guards the rest
	dir string
}

func builtDir() (string, error) {
	built.mu.Lock()
	defer built.mu.Unlock()
	var err error
	if built.dir == "" {
		built.dir, err = os.MkdirTemp("", "loom-torture-")
	}
	return built.dir, err
}

// build compiles the main package in a folder.
func build(folder, name string) (string, error) {
	dir, err := builtDir()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-o", out, ".")
	cmd.Dir = folder
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", folder, err, text)
	}
	return out, nil
}

// loomBinary is the product, built once.
var loomBinary = sync.OnceValues(func() (string, error) { return build(filepath.Join("..", "..", "cmd", "loom"), "loom") })

// user is somebody who works in a folder with the binary.
type user struct {
	t         *testing.T
	binary    string
	home      string // the state root
	workspace string
	environ   []string
}

// key is what must never be seen anywhere.
const key = "sk-never-to-be-seen-01234567"

func newUser(t *testing.T, baseURL string) *user {
	t.Helper()
	binary, err := loomBinary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	u := &user{t: t, binary: binary, home: filepath.Join(dir, "state"), workspace: filepath.Join(dir, "workspace")}
	if err := os.Mkdir(u.workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	u.environ = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LOOM_HOME=" + u.home,
		"OPENAI_API_KEY=" + key, "OPENAI_BASE_URL=" + baseURL + "/v1", markVariable + "=" + mark(u.home, 1),
	}
	return u
}

// start starts the binary in the workspace.
func (u *user) start(args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	u.t.Helper()
	cmd := exec.Command(u.binary, args...)
	cmd.Dir, cmd.Env = u.workspace, u.environ
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	return cmd, &stdout, &stderr
}

// run runs the binary to its end and wants success.
func (u *user) run(args ...string) string {
	u.t.Helper()
	cmd, stdout, stderr := u.start(args...)
	limit := time.AfterFunc(lifeLimit, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	if err := cmd.Wait(); err != nil {
		u.t.Fatalf("loom %q: %v\nstdout: %s\nstderr: %s", args, err, stdout, stderr)
	}
	return stdout.String()
}

// killAt starts the binary and kills it with SIGKILL once moment returns.
func (u *user) killAt(moment func(context.Context) error, args ...string) {
	u.t.Helper()
	cmd, stdout, stderr := u.start(args...)
	ctx, cancel := context.WithTimeout(u.t.Context(), lifeLimit)
	defer cancel()
	err := moment(ctx)
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // how it ended is read below
	if err != nil {
		u.t.Fatalf("the moment to kill did not come: %v\nstdout: %s\nstderr: %s", err, stdout, stderr)
	}
	if !killed(cmd.ProcessState) {
		u.t.Fatalf("loom %q was over before it was killed: %v\nstdout: %s\nstderr: %s", args, cmd.ProcessState, stdout, stderr)
	}
}

// killAfter starts the binary and kills it with SIGKILL that long after, if it is not over before; then it must have succeeded.
func (u *user) killAfter(d time.Duration, args ...string) bool {
	u.t.Helper()
	cmd, stdout, stderr := u.start(args...)
	timer := time.AfterFunc(d, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Wait(); err != nil && !killed(cmd.ProcessState) {
		u.t.Fatalf("loom %q: %v\nstdout: %s\nstderr: %s", args, err, stdout, stderr)
	}
	return killed(cmd.ProcessState)
}

// session returns the file of the one session that the user is shown.
func (u *user) session() string {
	u.t.Helper()
	name, rest, _ := strings.Cut(u.run("sessions"), " ")
	if name == "" || strings.Count(rest, "\n") != 1 {
		u.t.Fatalf("the sessions are %s %s", name, rest)
	}
	return filepath.Join(u.home, "sessions", name+".db")
}

// eventually waits until something holds that nobody announces.
func eventually(ctx context.Context, holds func() (bool, error)) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
