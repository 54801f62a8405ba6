package tools

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loom-run/loom/blob"
)

// rewinderEnv makes this binary a process that rewinds until it is killed. Its value is
// "WORKSPACE BLOBS".
const rewinderEnv = "LOOM_TEST_REWIND"

const killedFiles = 64

// historyOf is the history of the files that the test below writes.
func historyOf(kept *blob.Store) (h History, err error) {
	for n := range killedFiles {
		ref, err := kept.PutBytes([]byte(beforeOf(n)))
		if err != nil {
			return h, err
		}
		if h.changes == nil {
			h.changes = map[string][]Change{}
		}
		name := fmt.Sprintf("f%03d", n)
		h.changes[name] = []Change{{File: name, Before: contentOf([]byte(beforeOf(n))), After: contentOf([]byte("after")), Kept: &ref}}
	}
	return h, nil
}

func beforeOf(n int) string { return strings.Repeat(fmt.Sprintf("before %d\n", n), 4096) }

func rewindUntilKilled(order string) int {
	dir, kept, _ := strings.Cut(order, " ")
	store := blob.Open(kept)
	h, err := historyOf(store)
	if err == nil {
		fmt.Println("begins")
		_, err = Rewind(Rewinding{Workspace: dir, Blobs: store, History: h})
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// TestARewindThatIsKilledIsCompletedByTheNext kills a process at several points of a
// rewind. Each file is then whole, as it was or as it became, and another rewind takes
// the rest back and leaves nothing beside it.
func TestARewindThatIsKilledIsCompletedByTheNext(t *testing.T) {
	kept := blob.Open(filepath.Join(t.TempDir(), "s.blobs"))
	h, err := historyOf(kept)
	if err != nil {
		t.Fatal(err)
	}
	cut := 0
	for _, done := range []int{1, 9, 30} { // files that are back when it is killed, at least
		dir := t.TempDir()
		for name := range h.changes {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("after"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), rewinderEnv+"="+dir+" "+filepath.Join(filepath.Dir(dir), "k"))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		last := filepath.Join(dir, fmt.Sprintf("f%03d", done))
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		over := false
		for !over {
			select {
			case err := <-ended:
				t.Log("it was over before it was killed:", err)
				over = true
			default:
				if p, err := os.ReadFile(last); err != nil || string(p) != "after" {
					_ = cmd.Process.Kill()
					<-ended
					over = true
				}
			}
		}
		for n := range killedFiles {
			name := fmt.Sprintf("f%03d", n)
			switch content(t, filepath.Join(dir, name)) {
			case "after":
				cut++
			case beforeOf(n):
			default:
				t.Fatalf("%s is neither what it was nor what it became", name)
			}
		}
		if out, err := Rewind(Rewinding{Workspace: dir, Blobs: kept, History: h}); err != nil || len(out.Refused) > 0 {
			t.Fatalf("%+v, %v", out, err)
		}
		if files := tree(t, dir); len(files) != killedFiles+1 {
			t.Errorf("%d files are left of %d", len(files)-1, killedFiles)
		}
		for n := range killedFiles {
			if got := content(t, filepath.Join(dir, fmt.Sprintf("f%03d", n))); got != beforeOf(n) {
				t.Fatalf("file %d is %.20q", n, got)
			}
		}
	}
	if cut == 0 {
		t.Error("no rewind was cut off")
	}
}
