package admin_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loom-run/loom/admin"
	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/storage/sqlite"
)

// rootEnv makes this binary a process that erases from a root.
const rootEnv = "LOOM_TEST_ERASE"

// stagingEnv makes this binary a process that has a stage in a root until it is killed.
const stagingEnv = "LOOM_TEST_STAGE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(rootEnv); dir != "" {
		os.Exit(eraseAlone(dir))
	}
	if dir := os.Getenv(stagingEnv); dir != "" {
		os.Exit(stageUntilKilled(dir))
	}
	os.Exit(m.Run())
}

// stageUntilKilled imports from a pipe that nobody writes to, and says where its stage is.
func stageUntilKilled(dir string) int {
	in, _, err := os.Pipe()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, err = admin.Import(admin.Root{Dir: dir, Clock: func() int64 { return time.Now().UnixMilli() }}, saying{in, dir}, nil)
	fmt.Println(err)
	return 1
}

// saying says what stages there are once somebody reads from it.
type saying struct {
	io.Reader
	dir string
}

func (s saying) Read(p []byte) (int, error) {
	all, err := os.ReadDir(s.dir)
	if err != nil {
		return 0, err
	}
	for _, d := range all {
		if strings.HasPrefix(d.Name(), "stage-") {
			fmt.Println(filepath.Join(s.dir, d.Name()))
		}
	}
	return s.Reader.Read(p)
}

// eraseAlone says that it begins, and that it is done.
func eraseAlone(dir string) int {
	w := &world{t: new(testing.T), dir: dir}
	w.root = admin.Root{
		Dir: dir, Clock: func() int64 { return time.Now().UnixMilli() }, Sessions: w.sessions,
		Owner:  func() string { return fmt.Sprint("owner ", os.Getpid(), " ", rand.Uint64()) },
		Borrow: func(id.SessionID) (func(), error) { return func() {}, nil },
	}
	fmt.Println("begin")
	r, err := admin.Erase(w.root, admin.Erasure{Needle: needleOf(w.t, secret), All: true})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("done", r.Worst())
	return 0
}

// erasing starts a process that erases, and returns when it has begun.
func erasing(t *testing.T, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), rootEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "begin" {
		t.Fatalf("it said %q", lines.Text())
	}
	return cmd, lines
}

// TestTortureKilledErasure kills a process that erases, at any moment. Every session is the old one or the new one, whole and with its outputs, and the
// next erasure brings all of it to an end. LOOM_TORTURE is the number of kills.
func TestTortureKilledErasure(t *testing.T) {
	kills := 8
	if text := os.Getenv("LOOM_TORTURE"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		kills = n
	}
	model := newWorld(t)
	s := model.story(func(place string) string { return place + " " + secret }).Self
	model.kept(s, "output "+secret)
	model.kept(s, "clean output")
	all := []id.SessionID{s, model.fork(s), model.plain(secret)}
	model.kept(all[2], "another "+secret)
	if err := blob.Open(model.place(all[1]).Outputs).Adopt(must(blob.Open(model.place(s).Outputs).List())[0], blob.Open(model.place(s).Outputs)); err != nil {
		t.Fatal(err)
	}
	if err := blob.Open(model.place(all[1]).Outputs).Adopt(must(blob.Open(model.place(s).Outputs).List())[1], blob.Open(model.place(s).Outputs)); err != nil {
		t.Fatal(err)
	}
	fresh := func() *world {
		w := newWorld(t)
		w.dir = filepath.Join(t.TempDir(), "root")
		w.root.Dir, w.root.Clock = w.dir, func() int64 { return time.Now().UnixMilli() }
		if err := os.CopyFS(w.dir, os.DirFS(model.dir)); err != nil {
			t.Fatal(err)
		}
		return w
	}
	old, erasedRows := map[id.SessionID][]string{}, map[id.SessionID][]string{}
	w := fresh()
	for _, x := range all {
		old[x] = w.rows(x)
	}
	began := time.Now()
	cmd, lines := erasing(t, w.dir)
	if !lines.Scan() || lines.Text() != "done clean" || cmd.Wait() != nil {
		t.Fatalf("it said %q", lines.Text())
	}
	whole := time.Since(began)
	for _, x := range all {
		erasedRows[x] = w.rows(x)
	}
	stages := map[string]int{}
	for n := range kills {
		w := fresh()
		cmd, lines := erasing(t, w.dir)
		timer := time.AfterFunc(time.Duration(float64(whole)*float64(n+1)/float64(kills+1)), func() { _ = cmd.Process.Kill() })
		ended := lines.Scan()
		timer.Stop()
		_ = cmd.Wait()
		if ended {
			stages["ended"]++
		}
		var stage strings.Builder
		for _, x := range all {
			switch rows := w.rows(x); {
			case slices.Equal(rows, old[x]):
				stage.WriteString("old ")
			case slices.Equal(rows, erasedRows[x]):
				stage.WriteString("new ")
			default:
				t.Errorf("kill %d: the session %s is neither the old one nor the new one", n, x)
			}
			w.referable(x)
		}
		stages[stage.String()]++
		r := w.erase(admin.Erasure{Needle: needleOf(t, secret), All: true})
		if left := w.raw(needleOf(t, secret)); left != nil || r.Worst() != admin.Clean {
			t.Errorf("kill %d: left in %v: %s", n, left, r.Append(nil))
		}
		w.sound()
		for _, x := range all {
			if !slices.Equal(w.rows(x), erasedRows[x]) {
				t.Errorf("kill %d: the session %s came to another end", n, x)
			}
		}
	}
	t.Log(stages)
	if len(stages) < 2 {
		t.Errorf("every kill came at the same stage: %v", stages)
	}
}

// referable fails the test unless the session is sound and every output that it refers to is there.
func (w *world) referable(s id.SessionID) {
	w.t.Helper()
	r := must(sqlite.OpenReader(w.place(s).File))
	defer r.Close()
	for _, f := range must(check.Session(r)) {
		w.t.Errorf("check of %s: %s", s, f)
	}
	for _, f := range must(check.Blobs(r, blob.Open(w.place(s).Outputs), false)) {
		if !check.Harmless(f.Invariant) {
			w.t.Errorf("check of %s: %s", s, f)
		}
	}
}
