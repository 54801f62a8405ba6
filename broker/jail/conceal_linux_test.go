package jail

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// ordinary is a user without rights, for tests that root runs.
const ordinary = 65534

// TestACommandCannotReadTheEnvironmentOfItsHarness plays a harness that holds a
// key and whose command looks for it: in its parent, the supervisor, and in the
// harness. For root the whole play runs as an ordinary user, since root may read
// everything.
func TestACommandCannotReadTheEnvironmentOfItsHarness(t *testing.T) {
	dir := t.TempDir()
	program := "/proc/self/exe"
	var as *syscall.Credential
	if os.Getuid() == 0 {
		program = filepath.Join(dir, "harness")
		copyFile(t, "/proc/self/exe", program)
		for _, open := range []string{dir, filepath.Dir(dir)} {
			if err := os.Chmod(open, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		as = &syscall.Credential{Uid: ordinary, Gid: ordinary}
	}
	said := filepath.Join(dir, "said")
	if err := unix.Mkfifo(said, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(said, 0o666); err != nil { // whatever the umask
		t.Fatal(err)
	}
	// The command reads its own environment as well, which must go on: the mark is
	// found there.
	const look = `{ echo supervisor; tr '\0' '\n' < /proc/$PPID/environ
		read _ _ _ harness _ < /proc/$PPID/stat
		echo harness; tr '\0' '\n' < /proc/$harness/environ; ls /proc/$harness/fd
		echo own; tr '\0' '\n' < /proc/$$/environ; } > said 2>&1; sleep 1000`
	harness := exec.CommandContext(t.Context(), program)
	harness.Env = append(Environment(os.Environ()), roleName+"="+look, "JAIL_TEST_DIR="+dir, "OPENAI_API_KEY=sk-of-the-harness")
	harness.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if err := harness.Start(); err != nil {
		t.Skip("no process can be started as another user here: ", err)
	}
	text, err := os.ReadFile(said)
	_ = harness.Process.Kill()
	_ = harness.Wait()
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	if strings.Contains(got, "sk-of-the-harness") || strings.Contains(got, "GOTRACEBACK=none") {
		t.Errorf("the command read what is not its own:\n%s", got)
	}
	if n := strings.Count(got, "ermission denied"); n != 3 {
		t.Errorf("%d of 3 looks were refused:\n%s", n, got)
	}
	_, own, _ := strings.Cut(got, "\nown\n")
	if !strings.Contains(own, markName+"=") {
		t.Errorf("the mark cannot be read any more:\n%s", got)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(in)
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestASupervisorThatConcealsItselfKeepsItsName(t *testing.T) {
	dir := t.TempDir()
	exit, err := Run(patient(t), shell(dir, `cat /proc/$PPID/comm`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if name := bytes.TrimSpace(exit.Stdout.Head()); string(name) != supervisorName {
		t.Errorf("it is called %q", name)
	}
}
