package sqlite

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
)

func TestAnExportIsAnUnleasedCopyOfWhatIsStored(t *testing.T) {
	cfg := closedSession(t)
	before := list(t, cfg.Path)
	e := Export{Path: cfg.Path, To: filepath.Join(t.TempDir(), "copy"), Op: "op", Clock: cfg.Clock}
	digest, err := ExportClosed(e)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(e.To)
	if err != nil || digest != fmt.Sprintf("%x", sha256.Sum256(raw)) {
		t.Errorf("the digest is %s, %v", digest, err)
	}
	if names, _ := rawFiles(t, e.To); len(names) != 1 {
		t.Errorf("there are %v", names)
	}
	if st, err := os.Stat(e.To); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v", st.Mode(), err)
	}
	if d := cmp.Diff(before, list(t, e.To)); d != "" {
		t.Error(d)
	}
	if host := thisProcess().Host; bytes.Contains(raw, []byte(host)) || !bytes.Contains(must(os.ReadFile(cfg.Path)), []byte(host)) {
		t.Errorf("the copy names the machine %q, or the session does not", host)
	}
	was, is := peek(t, cfg.Path), peek(t, e.To)
	if was != is {
		t.Errorf("%+v was copied as %+v", was, is)
	}
	// What was deleted from the session is in its free pages, and not in the copy.
	if source, _ := os.ReadFile(cfg.Path); !bytes.Contains(source, []byte(strings.Repeat(secret, 20))) || bytes.Contains(raw, []byte(strings.Repeat(secret, 20))) {
		t.Error("free pages were copied, or there were none")
	}
	copied := cfg
	copied.Path = e.To
	mustClose(t, mustOpen(t, copied)) // nobody holds it
	sound(t, e.To)

	// The session is held until the export is released, by the operation alone.
	held := asType[*storage.LeaseHeld](t, second(Open(cfg)))
	if held.Holder.Owner != "move:op" {
		t.Errorf("held by %q", held.Holder.Owner)
	}
	other := e
	other.Op, other.To = "other", filepath.Join(t.TempDir(), "copy")
	asType[*storage.LeaseHeld](t, second(ExportClosed(other)))
	if err := ReleaseExport(other); err != nil {
		t.Fatal(err)
	}
	asType[*storage.LeaseHeld](t, second(Open(cfg)))
	again := e
	again.To = filepath.Join(t.TempDir(), "copy")
	if _, err := ExportClosed(again); err != nil {
		t.Fatal(err)
	}
	if err := ReleaseExport(e); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, cfg))
	sound(t, cfg.Path)
}

func TestAnExportThatFailsLeavesNothing(t *testing.T) {
	cfg := closedSession(t)
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	if err := os.WriteFile(there, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		export func(*Export)
		want   func(error) bool
	}{
		"something is there": {func(e *Export) { e.To = there }, func(err error) bool { return errors.Is(err, fs.ErrExist) }},
		"a link is there": {func(e *Export) {
			e.To = filepath.Join(dir, "link")
			if err := os.Symlink(there, e.To); err != nil {
				t.Fatal(err)
			}
		}, func(err error) bool { return errors.Is(err, fs.ErrExist) }},
		"no folder":  {func(e *Export) { e.To = filepath.Join(dir, "no", "copy") }, isA[*storage.BackendFault]},
		"no session": {func(e *Export) { e.Path = filepath.Join(dir, "no.db") }, isA[*storage.OpenFailed]},
	} {
		e := Export{Path: cfg.Path, To: filepath.Join(dir, "copy"), Op: "op", Clock: cfg.Clock}
		c.export(&e)
		_, err := ExportClosed(e)
		if !c.want(err) {
			t.Errorf("%s: %T %v", name, err, err)
		}
		mustClose(t, mustOpen(t, cfg)) // it is not held
	}
	if b, err := os.ReadFile(there); string(b) != "mine" {
		t.Errorf("a file was overwritten: %v", err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 2 {
		t.Errorf("left are %v", files)
	}
	s := mustOpen(t, cfg)
	asType[*storage.LeaseHeld](t, second(ExportClosed(Export{Path: cfg.Path, To: filepath.Join(dir, "copy"), Op: "op", Clock: cfg.Clock})))
	if _, err := s.Commit(tx.Tx{Writes: []tx.Write{tx.Set(register.FactName, "a", jsonv.Num(1))}}); err != nil {
		t.Errorf("the writer lost its session: %v", err)
	}
}

// A trigger would act whenever a row is written: a session that was brought from elsewhere must have none.
func TestWhatIsNotOfTheFormatIsFound(t *testing.T) {
	for name, text := range map[string]string{
		"a trigger":       "CREATE TRIGGER x AFTER INSERT ON registers BEGIN DELETE FROM entries; END",
		"a view":          "CREATE VIEW x AS SELECT * FROM entries",
		"an index":        "CREATE INDEX x ON entries (ts)",
		"another column":  "ALTER TABLE usage_ledger ADD COLUMN x INTEGER",
		"a missing table": "ALTER TABLE writer_lease RENAME TO gone",
	} {
		cfg := closedSession(t)
		sound(t, cfg.Path)
		edit(t, cfg.Path, text)
		findings, err := Check(cfg.Path)
		found := false
		for _, f := range findings {
			found = found || f.Invariant == storage.BackendSound && f.Subject == "schema"
		}
		if !found && err == nil {
			t.Errorf("%s: found are %v", name, findings)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
