//go:build linux

package torture

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	u := &user{t: t, binary: binary, home: filepath.Join(t.TempDir(), "state"), workspace: t.TempDir()}
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

// session returns the one session that the user has.
func (u *user) session() string {
	u.t.Helper()
	files, err := sessionFiles(u.home)
	if err != nil || len(files) != 1 {
		u.t.Fatalf("the sessions are %q: %v", files, err)
	}
	return files[0]
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
