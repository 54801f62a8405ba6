package sqlite

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/storage/sqlitedb"
)

var update = flag.Bool("update", false, "write the blank file anew")

// madeBlank makes the blank file from the schema.
func madeBlank(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "blank.db")
	writeFile(t, path, "")
	edit(t, path, slices.Concat([]string{fmt.Sprintf("PRAGMA application_id=%d", applicationID)}, schema, []string{"PRAGMA journal_mode=wal"})...)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestTheBlankFileIsThatOfTheSchema(t *testing.T) {
	made := madeBlank(t)
	if *update {
		writeFile(t, "blank.db", string(made))
	}
	// Where SQLite counts changes and names its own release it may differ.
	clear(made[24:28])
	clear(made[92:100])
	stored := bytes.Clone(blank)
	clear(stored[24:28])
	clear(stored[92:100])
	if !bytes.Equal(made, stored) {
		t.Fatal("blank.db is not what the schema makes; -update writes it")
	}
}

func TestASessionBeginsInABlankFileOrAnEmptyOne(t *testing.T) {
	for name, content := range map[string]string{"none": "none", "empty": "", "blank": string(blank)} {
		t.Run(name, func(t *testing.T) {
			cfg, _ := newConfig(t)
			if content != "none" {
				writeFile(t, cfg.Path, content)
			}
			closed := cfg
			closed.Create = false
			before := folder(t, cfg.Path)
			if _, err := Open(closed); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("opened without being made: %v", err)
			}
			if _, err := Peek(cfg.Path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("peeked: %v", err)
			}
			if folder(t, cfg.Path) != before {
				t.Error("a refusal wrote")
			}
			s := mustOpen(t, cfg)
			chain(t, s, newMinter(1), id.EntryID{}, 2)
			mustClose(t, s)
			sound(t, cfg.Path)
			if list, err := filepath.Glob(filepath.Join(filepath.Dir(cfg.Path), "*")); err != nil || len(list) != 1 {
				t.Errorf("beside it there is %v, %v", list, err)
			}
		})
	}
}

func TestAPlaceBesideWhatIsLeftOfASessionIsNotVacant(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	if err := Vacant(path); err != nil {
		t.Error(err)
	}
	for _, suffix := range sqlitedb.Besides {
		writeFile(t, path+suffix, "")
		if err := Vacant(path); err == nil || !strings.Contains(err.Error(), "s.db"+suffix+" is left there") {
			t.Errorf("beside %s: %v", suffix, err)
		}
		if err := os.Remove(path + suffix); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFileWithoutAVersionThatHoldsARowIsNotBlank(t *testing.T) {
	cfg, _ := newConfig(t)
	writeFile(t, cfg.Path, string(blank))
	edit(t, cfg.Path, "INSERT INTO ids VALUES (x'00', 1)")
	before := folder(t, cfg.Path)
	_, err := Open(cfg)
	if v := asType[*storage.UnsupportedVersion](t, err); v.Found != 0 || folder(t, cfg.Path) != before {
		t.Errorf("%v", v)
	}
	writeFile(t, cfg.Path, string(blank)[:len(blank)-100])
	if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "damaged") && !strings.Contains(err.Error(), "cut") {
		t.Errorf("a blank file that was cut: %v", err)
	}
}
