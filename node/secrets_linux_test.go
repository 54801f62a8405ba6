package node

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loom-run/loom/broker/jail"
	"github.com/loom-run/loom/config"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage/sqlite"
)

func TestMain(m *testing.M) {
	jail.Enter()
	if home := os.Getenv(moverEnv); home != "" {
		os.Exit(moveUntilKilled(home))
	}
	if order := os.Getenv(playerEnv); order != "" {
		os.Exit(playUntilKilled(order))
	}
	if order := os.Getenv(deciderEnv); order != "" {
		os.Exit(decideUntilKilled(order))
	}
	os.Exit(m.Run())
}

// TestTheKeyOfTheHarnessIsInNothingThatASessionKeeps has a command print the key,
// before and behind so much that the output becomes a blob, and reads every byte
// under the state root.
func TestTheKeyOfTheHarnessIsInNothingThatASessionKeeps(t *testing.T) {
	neverKept(t, "GEMINI_API_KEY", "sk-0123456789-never-kept", config.Redaction{})
}

// A value that a person named is no key of a model's, and is kept as little.
func TestAValueThatWasNamedIsInNothingThatASessionKeeps(t *testing.T) {
	neverKept(t, "DATABASE_URL", "postgres://me:pa55word@localhost/db", config.Redaction{Variables: []string{"DATABASE_URL"}})
}

func neverKept(t *testing.T, name, key string, redaction config.Redaction) {
	t.Helper()
	dir, root := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "found"), []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "go-on"), 0o600); err != nil {
		t.Fatal(err)
	}
	clock := func() int64 { return time.Now().UnixMilli() }
	environ := append(os.Environ(), name+"="+key)
	models, err := Catalogue(ModelsConfig{Environ: environ, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	n := New(Config{Home: Home{root}, Models: models, Now: clock, Retry: DefaultRetry(), Environ: environ, Synchronous: sqlite.Full, Redaction: redaction})
	defer n.Close()
	slot, err := n.Create(dir, policy.BypassPermissions, new("demo"))
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var windows []string
	stop := slot.Watch(func(f engine.Fact) {
		switch f := f.(type) {
		case engine.ToolOutput:
			if windows = append(windows, f.Tail); len(windows) == 1 {
				go func() { _ = os.WriteFile(filepath.Join(dir, "go-on"), nil, 0) }()
			}
		case engine.RunFinished, engine.StrandStopped:
			close(over)
		}
	})
	defer stop()
	prompt := engine.Prompt{Content: []message.UserBlock{message.Text{Text: "run: cat found go-on; seq 100000; cat found"}}}
	if _, err := slot.Prompt(Opening{}, session.MainStrand, prompt); err != nil {
		t.Fatal(err)
	}
	<-over
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}

	marker := "[redacted " + name + "]"
	if len(windows) == 0 || windows[0] != marker+"\n" {
		t.Errorf("the windows are %q", windows)
	}
	for _, w := range windows {
		if strings.Contains(w, key) {
			t.Errorf("a window shows the key: %q", w)
		}
	}
	marked := map[string]bool{} // by what kind of file
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		kept, err := os.ReadFile(path)
		if bytes.Contains(kept, []byte(key)) {
			t.Errorf("%s holds the key", path)
		}
		marked[filepath.Ext(filepath.Base(path))] = bytes.Contains(kept, []byte(marker))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !marked[".db"] || !marked[""] { // the session; a blob has no ending
		t.Errorf("the marker is missing: %v", marked)
	}
}
