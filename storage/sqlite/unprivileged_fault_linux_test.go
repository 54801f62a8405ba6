package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/storage"
	"golang.org/x/sys/unix"
)

func init() { roles["without rights"] = withoutRights }

// TestAPlaceOfSomebodyElseIsReadAndNotWritten lets a process without rights open sessions in
// folders and files that it cannot write.
func TestAPlaceOfSomebodyElseIsReadAndNotWritten(t *testing.T) {
	for name, c := range map[string]struct {
		folder, file os.FileMode
		want         []string // what the process says, in order: open, create, peek, check
	}{
		"a folder that cannot be written": {0o555, 0o666, []string{"read-only", "read-only", "3 messages", "sound"}},
		"a file that cannot be written":   {0o777, 0o444, []string{"read-only", "created", "3 messages", "sound"}},
		"neither":                         {0o555, 0o444, []string{"read-only", "read-only", "3 messages", "sound"}},
		"a file that cannot be read":      {0o777, 0o000, []string{"refused", "created", "refused", "refused"}},
		"a folder that cannot be entered": {0o600, 0o666, []string{"refused", "refused", "refused", "refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, _ := newConfig(t)
			s := mustOpen(t, cfg)
			chain(t, s, newMinter(1), id.EntryID{}, 3)
			mustClose(t, s)
			folder := filepath.Dir(cfg.Path)
			before := readFile(t, cfg.Path)
			chmod(t, cfg.Path, c.file)
			chmod(t, filepath.Dir(folder), 0o755) // the folders of a test are nobody else's
			chmod(t, folder, c.folder)
			said := start(t, "without rights", cfg.Path).wait()
			chmod(t, folder, 0o700)
			if len(said) == 1 && strings.HasPrefix(said[0], "skip") {
				t.Skip(said[0])
			}
			for i, want := range c.want {
				if i >= len(said) || !strings.HasPrefix(said[i], want) {
					t.Fatalf("the process said %q, want %q", said, c.want)
				}
			}
			if string(readFile(t, cfg.Path)) != string(before) {
				t.Error("the session was changed")
			}
		})
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// withoutRights gives the rights of root away, if the process has them, and says how
// each verb ends.
func withoutRights(path string) error {
	const nobody = 65534
	if os.Getuid() == 0 {
		if err := errors.Join(unix.Setgroups(nil), unix.Setresgid(nobody, nobody, nobody), unix.Setresuid(nobody, nobody, nobody)); err != nil {
			fmt.Println("skip:", err)
			return nil
		}
	}
	cfg := Config{Path: path, Owner: "nobody", Clock: wallClock}
	s, err := Open(cfg)
	sayOutcome("opened", closeIf(s != nil, s, err))
	cfg.Path, cfg.Create = filepath.Join(filepath.Dir(path), "new.db"), true
	s, err = Open(cfg)
	sayOutcome("created", closeIf(s != nil, s, err))
	sum, err := Peek(path)
	sayOutcome(fmt.Sprint(sum.Stats.Messages, " messages"), err)
	findings, err := Check(path)
	if err == nil && len(findings) > 0 {
		err = fmt.Errorf("check: %v", findings)
	}
	sayOutcome("sound", err)
	return nil
}

func sayOutcome(well string, err error) {
	failed, typed := errors.AsType[*storage.OpenFailed](err)
	switch {
	case err == nil:
		fmt.Println(well)
	case errors.Is(err, storage.ErrReadOnly):
		fmt.Println("read-only:", err)
	case typed && strings.Contains(failed.Reason, "nothing was changed"):
		fmt.Println("refused:", err)
	default:
		fmt.Printf("%T: %v\n", err, err)
	}
}
