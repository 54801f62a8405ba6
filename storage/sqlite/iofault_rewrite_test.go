package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loom-run/loom/storage"
)

// TestARefusedCallOfTheSystemInARewriteKeepsTheSession fails every call that a rewrite
// makes: the session is the old one with its content, and free; or the new one, if that
// is what the rewrite said.
func TestARefusedCallOfTheSystemInARewriteKeepsTheSession(t *testing.T) {
	source := closedSession(t)
	content, err := os.ReadFile(source.Path)
	if err != nil {
		t.Fatal(err)
	}
	old := list(t, source.Path)
	for _, fault := range ioFaults {
		t.Run(fault.name, func(t *testing.T) {
			step := 3
			if rounds(t) > 1 || len(fault.kinds) > 1 || fault.kinds[0] == ioDelete || fault.kinds[0] == ioSync {
				step = 1
			}
			refused, rewritten := 0, 0
			for nth := 1; ; nth += step {
				f := &trouble{ioFault: fault, nth: nth}
				done := rewriteInTrouble(t, source, content, old, f)
				if !f.hit {
					break
				}
				if done {
					rewritten++
				} else {
					refused++
				}
				if t.Failed() {
					t.Fatalf("call %d, %v", nth, f.what)
				}
			}
			t.Logf("%d rewrites were refused, %d came to pass all the same", refused, rewritten)
		})
	}
}

func rewriteInTrouble(t *testing.T, cfg Config, content []byte, old []string, f *trouble) (done bool) {
	t.Helper()
	cfg.Path = filepath.Join(t.TempDir(), "session.db")
	writeFile(t, cfg.Path, string(content))
	watch(t, filepath.Dir(cfg.Path), f.see)
	r := erase(cfg)
	r.Verify = func(r *Reader) error {
		_, err := r.ScanEntries(storage.EntryQuery{})
		return err
	}
	_, err := RewriteInto(r)
	f.lifted = true
	done = err == nil || strings.Contains(err.Error(), "the session was rewritten")
	if err != nil && !done && !strings.Contains(err.Error(), f.says) && !strings.Contains(err.Error(), "there still is") {
		t.Errorf("%q is not in %q", f.says, err)
	}
	want, generation := old, int64(0)
	if done {
		want, generation = erased(old), 1
	}
	if d := cmp.Diff(want, list(t, cfg.Path)); d != "" || peek(t, cfg.Path).Generation != generation {
		t.Errorf("after %v the session is another: %s", err, d)
	}
	sound(t, cfg.Path)
	cfg.Owner, cfg.Take = "next", true
	mustClose(t, mustOpen(t, cfg))
	if left, _ := filepath.Glob(cfg.Path + "?*"); len(left) > 0 {
		t.Errorf("beside the session there is %q", left)
	}
	sound(t, cfg.Path)
	return done
}
