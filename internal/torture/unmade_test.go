//go:build linux

package torture

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/loom-run/loom/core/clock"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/node"
)

// TestASessionThatWasNeverMadeIsNone: what a process leaves that is killed between the making of the file and its first byte.
func TestASessionThatWasNeverMadeIsNone(t *testing.T) {
	home := t.TempDir()
	s, _ := id.NewGenerator(clock.Fixed(1), 1).Session()
	if err := os.Mkdir(filepath.Join(home, "sessions"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(sessionFile(home, s), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := homeAt(home)
	if err != nil {
		t.Fatal(err)
	}
	n := node.New(node.Config{Home: h, Now: now})
	if list, err := n.List(); err != nil || len(list) != 0 {
		t.Errorf("it is listed: %v, %v", list, err)
	}
	if _, err := n.Slot(s); err == nil {
		t.Error("it can be opened")
	} else if _, unknown := errors.AsType[*node.ErrUnknownSession](err); !unknown {
		t.Errorf("it is %v", err)
	}
}
