//go:build unix

package tools

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// hostile fills a workspace with ways out, and returns paths that must be
// refused by everything that takes one.
func hostile(t *testing.T, r *rig) []string {
	t.Helper()
	secret := filepath.Join(r.beside, "secret")
	if err := os.WriteFile(secret, []byte("top secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.put(t, "dir/file", "inside")
	r.put(t, "closed/session.db", "rows")
	r.link(t, r.beside, "out")
	r.link(t, secret, "out-file")
	r.link(t, "../beside", "rel-out")
	r.link(t, "../beside/new", "dangling-out")
	r.link(t, "dir/../../beside", "long-out")
	r.link(t, "rel-out", "chain")
	r.link(t, "loop", "loop")
	r.link(t, "pong", "ping")
	r.link(t, "ping", "pong")
	r.link(t, "/", "slash")
	r.link(t, "closed", "to-closed")
	r.link(t, "/proc/self", "proc")
	return []string{
		"", "..", "../beside/secret", "dir/../../beside/secret", "/etc/passwd", "/", r.beside, secret, r.dir + "-not", r.dir + "/../beside/secret",
		"out/secret", "out-file", "rel-out/secret", "dangling-out", "long-out/secret", "chain/secret", "out/../beside/secret", "slash/etc/passwd", "proc/environ",
		"loop", "ping/x", "~", "~/x", "file:///etc/passwd", "job://1", "dir\x00/file", strings.Repeat("a/", 3000), strings.Repeat("n", 300), "dir/file/below",
		"closed", "closed/session.db", "./closed/../closed/session.db", "to-closed/session.db", r.dir + "/closed/session.db",
	}
}

func TestNoPathLeadsOutOfTheWorkspace(t *testing.T) {
	r := newRig(t)
	paths := hostile(t, r)
	before, outside := tree(t, r.dir), tree(t, r.beside)
	for _, path := range paths {
		for _, text := range []string{
			r.refused(t, "read", str("path", path)),
			r.refused(t, "ls", str("path", path)),
			r.refused(t, "grep", str("pattern", "."), str("path", path)),
			r.refused(t, "write", str("path", path), str("content", "overwritten")),
			r.refused(t, "edit", str("path", path), str("old_text", "secret"), str("new_text", "x")),
		} {
			if strings.Contains(text, "top secret") || strings.Contains(text, "rows") || text == "" {
				t.Errorf("%q: %s", path, text)
			}
		}
	}
	if after := tree(t, r.dir); !maps.Equal(before, after) {
		t.Errorf("the workspace was %q and is %q", before, after)
	}
	if after := tree(t, r.beside); !maps.Equal(outside, after) {
		t.Errorf("beside it was %q and is %q", outside, after)
	}
	// What leads out is not followed by a search of everything either.
	if text := r.ok(t, "grep", str("pattern", "secret|rows")); !strings.HasPrefix(text, "no match") {
		t.Error(text)
	}
}

func TestRefusalsOfPathsSayWhatIsWrong(t *testing.T) {
	r := newRig(t)
	hostile(t, r)
	for path, want := range map[string]string{
		"/etc/passwd":       `"/etc/passwd" is outside the workspace ` + r.dir + `; only paths in it can be used`,
		"../x":              `"../x" leads out of the workspace ` + r.dir + `; only paths in it can be used`,
		"rel-out/secret":    `"rel-out/secret" leads out of the workspace ` + r.dir + ` through a link; only paths in it can be used`,
		"out/secret":        `"out/secret" leads out of the workspace ` + r.dir + ` through a link to "` + r.beside + `"; only paths in it can be used`,
		"loop":              `"loop" leads through more than 40 links`,
		"~/x":               `"~/x": ~ is not expanded; use a path in the workspace ` + r.dir,
		"note://x":          `"note://x": there is no scheme "note"; use a path in the workspace ` + r.dir,
		"none":              `"none" does not exist`,
		"dir":               `"dir" is a folder; list it with ls`,
		"dir/file/x":        `"dir/file/x" leads through something that is no folder`,
		"closed/session.db": `"closed/session.db" belongs to the store of sessions, which tools do not open`,
	} {
		if got := r.refused(t, "read", str("path", path)); got != want {
			t.Errorf("%q:\n got %s\nwant %s", path, got, want)
		}
	}
}

func TestPathsInsideAreAcceptedInEveryForm(t *testing.T) {
	r := newRig(t)
	r.put(t, "dir/file", "inside")
	r.link(t, "dir/file", "link")
	r.link(t, "dir", "folder")
	r.link(t, filepath.Join(r.dir, "dir"), "absolute")
	r.link(t, "dir/../folder/../link", "winding")
	alias := filepath.Join(r.beside, "alias")
	if err := os.Symlink(r.dir, alias); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"dir/file", "./dir//file", "dir/../dir/file", "link", "folder/file", "absolute/file", "winding", r.dir + "/dir/file", r.dir + "/folder/file",
	} {
		if text := r.ok(t, "read", str("path", path)); !strings.HasSuffix(text, "1\tinside") {
			t.Errorf("%q: %s", path, text)
		}
	}
	// A workspace that is named through a link takes both of its names.
	r.dir = alias
	r.open(t, nil)
	for _, path := range []string{"dir/file", alias + "/dir/file", filepath.Join(filepath.Dir(r.beside), "ws", "dir", "file")} {
		if text := r.ok(t, "read", str("path", path)); !strings.HasSuffix(text, "1\tinside") {
			t.Errorf("%q: %s", path, text)
		}
	}
}

func TestPipesAndDevicesAreRefusedAtOnce(t *testing.T) {
	r := newRig(t)
	if err := syscall.Mkfifo(filepath.Join(r.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, call := range []func() string{
		func() string { return r.refused(t, "read", str("path", "pipe")) },
		func() string { return r.refused(t, "ls", str("path", "pipe")) },
		func() string { return r.refused(t, "grep", str("pattern", "x"), str("path", "pipe")) },
		func() string { return r.refused(t, "write", str("path", "pipe"), str("content", "x")) },
		func() string {
			return r.refused(t, "edit", str("path", "pipe"), str("old_text", "x"), str("new_text", "y"))
		},
	} {
		if text := call(); !strings.Contains(text, "not a regular file") && !strings.Contains(text, "not a folder") {
			t.Error(text)
		}
	}
	if text := r.ok(t, "ls"); !strings.Contains(text, "pipe (special)") {
		t.Error(text)
	}
}

func TestWhatGitKeepsCannotBeWritten(t *testing.T) {
	r := newRig(t)
	r.put(t, ".git/hooks/", "")
	r.put(t, ".git/config", "[core]")
	r.put(t, "sub/.GIT/config", "[core]")
	r.link(t, ".git/hooks", "hooks")
	before := tree(t, r.dir)
	for _, path := range []string{".git/config", ".git", "hooks/pre-commit", ".git/hooks/pre-commit", "sub/.GIT/config", "new/.git/config"} {
		if text := r.refused(t, "write", str("path", path), str("content", "x")); !strings.Contains(text, "belongs to .git, which only commands may change") {
			t.Errorf("%q: %s", path, text)
		}
		r.refused(t, "edit", str("path", path), str("old_text", "core"), str("new_text", "x"))
	}
	if after := tree(t, r.dir); !maps.Equal(before, after) {
		t.Errorf("was %q, is %q", before, after)
	}
	r.ok(t, "read", str("path", ".git/config"))
	r.ok(t, "write", str("path", ".gitignore"), str("content", "x"))
}

// TestALinkThatAppearsAfterResolvingLeadsNowhere plays the race: between
// resolving and use, a folder becomes a link out.
func TestALinkThatAppearsAfterResolvingLeadsNowhere(t *testing.T) {
	r := newRig(t)
	r.put(t, "dir/file", "inside")
	secret := filepath.Join(r.beside, "file")
	if err := os.WriteFile(secret, []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := r.registry.room
	at, err := w.resolveForWriting("dir/file")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(r.dir, "dir")); err != nil {
		t.Fatal(err)
	}
	r.link(t, r.beside, "dir")
	if _, _, err := w.load(at); err == nil {
		t.Error("read outside")
	}
	if _, err := w.existing(at); err == nil {
		t.Error("looked outside")
	}
	if err := w.replace(at, []byte("overwritten"), nil); err == nil {
		t.Error("wrote outside")
	}
	if _, err := w.list(place{rel: "dir", shown: "dir"}); err == nil {
		t.Error("listed outside")
	}
	if got := tree(t, r.beside); len(got) != 2 || content(t, secret) != "outside" {
		t.Errorf("beside is %q", got)
	}
}

func TestAWorkspaceThatVanishesIsTold(t *testing.T) {
	r := newRig(t)
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	want := "the workspace " + r.dir + " was removed or replaced since this session was opened; nothing was done"
	check := func() {
		t.Helper()
		for _, text := range []string{
			r.refused(t, "read", str("path", "a")),
			r.refused(t, "grep", str("pattern", "a")),
			r.refused(t, "write", str("path", "a"), str("content", "x")),
			r.refused(t, "write", str("path", "b/a"), str("content", "x")),
			r.refused(t, "edit", str("path", "a"), str("old_text", "x"), str("new_text", "y")),
		} {
			if text != want {
				t.Error(text)
			}
		}
	}
	check()
	if text := r.refused(t, "bash", str("command", "true")); !strings.Contains(text, "does not exist any more; nothing was run") {
		t.Error(text)
	}
	// Another folder of the same name is another folder.
	r.put(t, "a", "x")
	check()
}

func TestResolvedPathsAreInsideWhateverTheLinks(t *testing.T) {
	names := []string{"a", "b", "c"}
	part := rapid.SampledFrom([]string{"a", "b", "c", "..", ".", "a", "b", "c"})
	path := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(part, 1, 5).Draw(t, "parts"), "/") })
	outer := newRig(t)
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(outer.dir, "")
		if err != nil {
			t.Fatal(err)
		}
		ws := filepath.Join(dir, "ws")
		folders := []string{"."}
		if err := os.Mkdir(ws, 0o700); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 8).Draw(t, "entries") {
			at := filepath.Join(rapid.SampledFrom(folders).Draw(t, "in"), rapid.SampledFrom(names).Draw(t, "name"))
			switch full := filepath.Join(ws, at); rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				if os.Mkdir(full, 0o700) == nil {
					folders = append(folders, at)
				}
			case 1:
				_ = os.WriteFile(full, nil, 0o600)
			case 2:
				_ = os.Symlink(path.Draw(t, "target"), full)
			case 3:
				_ = os.Symlink(filepath.Join(ws, path.Draw(t, "absolute")), full)
			}
		}
		w, err := openWorkspace(ws, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = w.close() }()
		arg := path.Draw(t, "arg")
		at, err := w.resolve(arg)
		if err != nil {
			if _, ok := errors.AsType[*refusedPath](err); !ok {
				t.Fatalf("%q: %v", arg, err)
			}
			return
		}
		parts := strings.Split(at.rel, "/")
		if slices.Contains(parts, "..") || filepath.IsAbs(at.rel) {
			t.Fatalf("%q resolves to %q", arg, at.rel)
		}
		// The system agrees where it is, when it is anywhere.
		if real, err := filepath.EvalSymlinks(ws + "/" + arg); err == nil && real != filepath.Join(w.real, at.rel) {
			t.Fatalf("%q resolves to %q, for the system it is %q", arg, at.rel, real)
		}
	})
}
