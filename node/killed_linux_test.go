package node

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/session/check"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlite"
)

// moverEnv makes this binary a process that forks, exports and imports the session of a home, until it is killed. It is the home, and an empty folder beside it
// called "moved" is the home that imports go to.
const moverEnv = "LOOM_TEST_MOVE"

// moveUntilKilled says what is done, a line for each.
func moveUntilKilled(dir string) int {
	clock := func() int64 { return time.Now().UnixMilli() }
	n, other := New(Config{Home: Home{dir}, Now: clock}), New(Config{Home: Home{filepath.Join(dir, "..", "moved")}, Now: clock})
	source, err := id.ParseSessionID(os.Getenv("LOOM_TEST_SESSION"))
	fmt.Println("begin")
	for k := 0; err == nil; k++ {
		var made Forked
		if made, err = n.Fork(source, Forking{Tree: k%2 == 0}); err != nil {
			break
		}
		fmt.Println("fork", made.Session)
		path := filepath.Join(dir, "..", fmt.Sprintf("%d-%d.export", os.Getpid(), k))
		if _, err = n.Export(made.Session, path); err != nil {
			break
		}
		fmt.Println("export", path)
		if err = importFile(other, path); err == nil {
			fmt.Println("import", made.Session)
		}
	}
	fmt.Println("error:", err)
	return 1
}

func importFile(n *Node, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = n.Import(f, "")
	return errors.Join(err, f.Close())
}

// TestTortureKilledMoves kills a process that forks, exports and imports, at any moment. What it said it had made is there; what it had not ended is whole, or is
// nothing that a person could take for the session; and the source is as it was. LOOM_TORTURE is the number of kills.
func TestTortureKilledMoves(t *testing.T) {
	kills := 12
	if text := os.Getenv("LOOM_TORTURE"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		kills = n
	}
	k := newKept(t)
	before, err := os.ReadFile(k.node.home.file(k.session))
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(4, 2))
	said := map[string]int{}
	parts := 0
	for range kills {
		dir := t.TempDir()
		home, moved := Home{filepath.Join(dir, "home")}, Home{filepath.Join(dir, "moved")}
		if err := os.CopyFS(home.dir, os.DirFS(k.node.home.dir)); err != nil {
			t.Fatal(err)
		}
		lines := moveFor(t, home.dir, k.session, random.IntN(4), time.Duration(random.IntN(60))*time.Millisecond)
		made, imported, exports := map[id.SessionID]bool{}, map[id.SessionID]bool{}, map[string]bool{}
		for _, line := range lines {
			verb, what, _ := strings.Cut(line, " ")
			said[verb]++
			switch verb {
			case "fork", "import":
				s, err := id.ParseSessionID(what)
				if err != nil {
					t.Fatalf("it said %q", line)
				}
				map[string]map[id.SessionID]bool{"fork": made, "import": imported}[verb][s] = true
			case "export":
				exports[what] = true
			default:
				t.Fatalf("it said %q", line)
			}
		}
		made[k.session] = true
		parts += whole(t, home, made) + whole(t, moved, imported)
		if after, err := os.ReadFile(home.file(k.session)); err != nil || !bytes.Equal(after, before) {
			t.Errorf("the source was changed, %v", err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.export"))
		if err != nil {
			t.Fatal(err)
		}
		for path := range exports {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("an export is gone: %v", err)
			}
		}
		for n, path := range files { // whoever has its name is whole
			if err := importFile(New(Config{Home: Home{filepath.Join(dir, fmt.Sprint("again", n))}, Now: now}), path); err != nil {
				t.Errorf("an export that is there: %v", err)
			}
		}
	}
	t.Logf("%v, and %d sessions that were begun", said, parts)
	if len(said) < 3 {
		t.Errorf("nothing was killed that had done anything: %v", said)
	}
}

// moveFor lets a process move until it has said so many lines, and for so long after that: a
// slow machine is killed at the same places as a fast one. It returns what was said.
func moveFor(t *testing.T, home string, source id.SessionID, lead int, d time.Duration) (said []string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), moverEnv+"="+home, "LOOM_TEST_SESSION="+source.String())
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
	for len(said) < lead && lines.Scan() {
		said = append(said, lines.Text())
	}
	timer := time.AfterFunc(d, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	for lines.Scan() {
		said = append(said, lines.Text())
	}
	_ = cmd.Wait() // it was killed
	return said
}

// whole checks every session of a home: the ones that were said to be made have all, another has all or nothing. It returns how many have nothing.
func whole(t *testing.T, home Home, made map[id.SessionID]bool) (begun int) {
	t.Helper()
	all, err := home.list()
	if err != nil {
		t.Fatal(err)
	}
	found := map[id.SessionID]bool{}
	for _, s := range all {
		there, err := home.has(s)
		if err != nil {
			t.Fatal(err)
		}
		if found[s] = there; !there {
			continue
		}
		r, err := sqlite.OpenReader(home.file(s))
		if err != nil {
			if begun++; made[s] {
				t.Errorf("%s: %v", s, err)
			}
			continue
		}
		entries, err := r.ScanEntries(storage.EntryQuery{})
		findings, more := check.Session(r)
		outputs, evenMore := check.Blobs(r, blob.Open(home.blobs(s)), false)
		self, _, yetMore := session.NewView(r).ID()
		if err := errors.Join(err, more, evenMore, yetMore, r.Close()); err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			t.Errorf("check of %s: %s", s, f)
		}
		outputs = slices.DeleteFunc(outputs, func(f storage.Finding) bool { return check.Harmless(f.Invariant) })
		if lost := min(1, len(entries)); len(outputs) != lost { // the session has lost one
			t.Errorf("check of %s: %s", s, outputs)
		}
		switch {
		case len(entries) == 6 && self == s:
		case len(entries) == 0 && self.IsZero() && !made[s]:
			begun++
		default:
			t.Errorf("%s has %d entries and calls itself %s", s, len(entries), self)
		}
	}
	for s := range made {
		if !found[s] {
			t.Errorf("%s was made and is gone", s)
		}
	}
	return begun
}
