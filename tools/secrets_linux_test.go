package tools

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/jsonv"
)

const theMarker = "[redacted THE_KEY]"

// shown is all that a call lets out: texts, details and blobs.
func (r *rig) shown(t *testing.T, out Outcome) string {
	t.Helper()
	all := textOf(out)
	if out.Details != nil {
		all += "\n" + out.Details.String()
	}
	refs, err := blob.InDetails(out.Details)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range refs {
		f, err := r.blobs.Open(ref)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		all += "\n" + string(kept)
	}
	return all
}

func TestNoToolShowsASecret(t *testing.T) {
	r := newRig(t)
	r.put(t, "secret", theKey+"\n")
	r.put(t, "wide", strings.Repeat("w", TextLimit-1<<10-10)+theKey+"\n") // a line that read cuts
	r.put(t, "long", strings.Repeat("w", grepLine-10)+theKey+"\n")        // a line that grep cuts
	r.put(t, "files/"+theKey, "")
	for _, c := range []struct {
		tool string
		args []jsonv.Member
		want string
	}{
		{"bash", []jsonv.Member{str("command", "cat secret")}, "exit code 0\nstdout: [1 secret value redacted]\n" + theMarker},
		{"bash", []jsonv.Member{str("command", "cat secret secret >&2; exit 1")}, "stderr: [2 secret values redacted]\n" + theMarker},
		{"bash", []jsonv.Member{str("command", `printf '\0'; cat secret`)}, " [1 secret value redacted] ["},
		{"bash", []jsonv.Member{str("command", "cat secret; seq 100000; cat secret")}, "stdout: [2 secret values redacted] ["},
		// At the end of what is kept of the beginning, and at the start of what is kept of the end.
		{"bash", []jsonv.Member{str("command", `head -c 1048566 /dev/zero | tr '\0' x; cat secret; head -c 3000000 /dev/zero | tr '\0' y`)}, "[1 secret value redacted]"},
		{"bash", []jsonv.Member{str("command", `head -c 3000000 /dev/zero | tr '\0' x; cat secret; head -c 1048560 /dev/zero | tr '\0' y`)}, "[1 secret value redacted]"},
		{"read", []jsonv.Member{str("path", "secret")}, theMarker},
		{"read", []jsonv.Member{str("path", "wide")}, "the first"},
		{"read", []jsonv.Member{str("path", theKey)}, theMarker},
		{"grep", []jsonv.Member{str("pattern", "sk-")}, theMarker},
		{"ls", []jsonv.Member{str("path", "files")}, theMarker},
		{theKey, nil, theMarker},
	} {
		var out Outcome
		if _, ok := r.registry.Lookup(c.tool); ok {
			out = r.run(t, c.tool, jsonv.Obj(c.args...))
		} else {
			out = r.registry.Run(t.Context(), Call{Tool: c.tool, Arguments: jsonv.Obj()})
		}
		all := r.shown(t, out)
		if !strings.Contains(all, c.want) {
			t.Errorf("%s %v: no %q in %.500q", c.tool, jsonv.Obj(c.args...), c.want, all)
		}
		for n := 0; n+9 <= len(theKey); n++ {
			if part := theKey[n : n+9]; strings.Contains(all, part) {
				t.Errorf("%s %v shows %q", c.tool, jsonv.Obj(c.args...), part)
				break
			}
		}
	}
	// The files themselves are what they were.
	r.ok(t, "edit", str("path", "secret"), str("old_text", "sk-"), str("new_text", "pk-"))
	if got := content(t, filepath.Join(r.dir, "secret")); got != "pk-"+strings.TrimPrefix(theKey, "sk-")+"\n" {
		t.Errorf("edited to %q", got)
	}
}

// TestProgressShowsNoSecret lets a command print a secret in two halves, and goes
// on each time something new was seen.
func TestProgressShowsNoSecret(t *testing.T) {
	r := newRig(t)
	r.put(t, "secret", theKey+"\n")
	goOn := filepath.Join(r.dir, "go-on")
	if err := syscall.Mkfifo(goOn, 0o600); err != nil {
		t.Fatal(err)
	}
	var seen []string
	r.observe = func(p Progress) {
		if seen = append(seen, p.Stdout.Text); len(seen) <= 2 {
			go func() { _ = os.WriteFile(goOn, nil, 0) }()
		}
	}
	r.ok(t, "bash", str("command", "head -c 12 secret; cat go-on; tail -c +13 secret; cat go-on"))
	if len(seen) < 2 || seen[0] != theMarker || seen[1] != theMarker+"\n" {
		t.Errorf("saw %q", seen)
	}
}
