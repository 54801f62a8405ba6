package tools

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/loom-run/loom/blob"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/message"
)

// noted runs a call and adds what it did to histories.
func (r *rig) noted(t testing.TB, hs []*History, tool string, fields ...jsonv.Member) bool {
	t.Helper()
	out := r.run(t, tool, jsonv.Obj(fields...))
	for _, h := range hs {
		if err := h.Add(out.Result("call", tool)); err != nil {
			t.Fatal(err)
		}
	}
	return !out.IsError
}

func (r *rig) rewind(t testing.TB, h History, dryRun bool) Rewound {
	t.Helper()
	out, err := Rewind(Rewinding{Workspace: r.dir, Closed: []string{filepath.Join(r.dir, "closed")}, Blobs: r.blobs, History: h, DryRun: dryRun})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// at is what a file of a tree holds, and of none that there is none.
func at(files map[string]string, name string) string {
	if text, ok := files[name]; ok {
		return text
	}
	return "(no file)"
}

// A file of a rewind is what it was before, or was refused and is as it was found; what
// somebody else wrote is in no file that was taken back, and doing it again does nothing.
func TestARewindTakesBackWhatTheToolsDidAndNothingElse(t *testing.T) {
	base := newRig(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		dir := base.put(t, fmt.Sprintf("try%d/", n), "")
		r := *base
		r.dir = dir
		r.open(t, os.Environ())
		defer func() { _ = r.registry.Close() }()

		var h History
		want := map[string]string{} // what the first call of the history found in each file
		foreign := map[string]bool{}
		all := []*History{}
		for step := range rapid.IntRange(3, 14).Draw(rt, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "d/c"}).Draw(rt, "file")
			text := rapid.SampledFrom([]string{"", "one\n", "one\ntwo\n", "two\n", "three"}).Draw(rt, "text")
			if step == 2 {
				all = []*History{&h}
			}
			found, known := at(tree(t, dir), name), h.changes[name] != nil
			switch rapid.SampledFrom([]string{"write", "write", "edit", "else", "remove", "rewind"}).Draw(rt, "what") {
			case "write":
				r.noted(t, all, "write", str("path", name), str("content", text))
			case "edit":
				r.noted(t, all, "edit", str("path", name), str("old_text", "one"), str("new_text", text+"1"))
			case "else":
				theirs := fmt.Sprintf("theirs %d\n", step)
				r.put(t, name, theirs)
				foreign[theirs] = step >= 2
			case "remove":
				_ = os.Remove(filepath.Join(dir, name))
			case "rewind":
				if len(all) > 0 {
					r.rewind(t, h, false)
				}
			}
			if !known && h.changes[name] != nil {
				want[name] = found
			}
		}
		before := tree(t, dir)
		look := r.rewind(t, h, true)
		if after := tree(t, dir); !maps.Equal(before, after) {
			rt.Fatalf("a dry run changed %v to %v", before, after)
		}
		did := r.rewind(t, h, false)
		if !slices.Equal(look.Changed, did.Changed) || !slices.Equal(look.Refused, did.Refused) || look.Insertions != did.Insertions || look.Deletions != did.Deletions {
			rt.Fatalf("a dry run says %+v, and done was %+v", look, did)
		}
		after := tree(t, dir)
		refused := map[string]bool{}
		for _, f := range did.Refused {
			refused[f.Path] = true
		}
		for file := range h.changes {
			was, is := at(before, file), at(after, file)
			switch {
			case refused[file]:
				if is != was {
					rt.Fatalf("%s was refused and is %q, not %q", file, is, was)
				}
			case is != want[file]:
				rt.Fatalf("%s is %q, and was %q", file, is, want[file])
			case slices.Contains(did.Changed, file) && foreign[was]:
				rt.Fatalf("%q of somebody else is gone from %s", was, file)
			}
		}
		if again := r.rewind(t, h, false); len(again.Changed) > 0 || !slices.Equal(again.Refused, did.Refused) {
			rt.Fatalf("again: %+v", again)
		}
	})
}

func TestALinkSinceThenLeadsARewindNowhere(t *testing.T) {
	r := newRig(t)
	var h History
	r.put(t, "d/f", "before")
	r.put(t, "g", "before")
	r.noted(t, []*History{&h}, "write", str("path", "d/f"), str("content", "after"))
	r.noted(t, []*History{&h}, "write", str("path", "g"), str("content", "after"))
	outside := filepath.Join(r.beside, "f")
	if err := os.WriteFile(outside, []byte("after"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(r.dir, "d")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(r.dir, "g")); err != nil {
		t.Fatal(err)
	}
	r.link(t, r.beside, "d")
	r.put(t, "inside", "after")
	r.link(t, "inside", "g")
	out := r.rewind(t, h, false)
	if len(out.Changed) > 0 || len(out.Refused) != 2 || !strings.Contains(out.Refused[0].Why, "link") || !strings.Contains(out.Refused[1].Why, "link") {
		t.Errorf("%+v", out)
	}
	if content(t, outside) != "after" || content(t, filepath.Join(r.dir, "inside")) != "after" {
		t.Error("something was written through a link")
	}
}

func TestWhatIsNotKeptIsNotTakenBack(t *testing.T) {
	r := newRig(t)
	var h History
	hs := []*History{&h}
	r.put(t, "secret", "key = "+theKey)
	r.put(t, "large", strings.Repeat("x", keptFile+1))
	r.put(t, "gone", "will be gone")
	r.put(t, "erased", "will be erased")
	for _, name := range []string{"secret", "large", "gone", "erased"} {
		r.noted(t, hs, "write", str("path", name), str("content", "new"))
	}
	refs, err := r.blobs.List()
	if err != nil || len(refs) != 2 {
		t.Fatalf("%v, %v: only two contents are to be kept", refs, err)
	}
	if err := r.blobs.Remove(*h.changes["gone"][0].Kept); err != nil {
		t.Fatal(err)
	}
	other, err := r.blobs.PutBytes([]byte("will be [erased]"))
	if err != nil {
		t.Fatal(err)
	}
	h.changes["erased"][0].Kept = &other
	h.Cut("nobody", "secret", "../out")
	out := r.rewind(t, h, false)
	var got []string
	for _, f := range out.Refused {
		got = append(got, f.Path+": "+f.Why)
	}
	want := []string{
		"erased: what it was before is not whole any more, as after an erasure",
		"gone: what it was before is not there any more",
		"large: what it was before was too large to be kept",
		"secret: what it was before held a secret, and no secret is kept",
		"../out: a call that was cut off may have changed it, and what it was before is not known",
		"nobody: a call that was cut off may have changed it, and what it was before is not known",
	}
	if len(out.Changed) > 0 || !slices.Equal(got, want) {
		t.Errorf("%v\n%s", out.Changed, strings.Join(got, "\n"))
	}
}

func TestASessionKeepsSoMuchAndNoMore(t *testing.T) {
	r := newRig(t)
	full := &keeper{known: true, used: keptSession - 5}
	if ok, err := full.room(r.blobs, 6); ok || err != nil {
		t.Errorf("six bytes where there is room for five: %v, %v", ok, err)
	}
	if ok, err := full.room(r.blobs, 5); !ok || err != nil {
		t.Errorf("five bytes: %v, %v", ok, err)
	}
	if _, err := r.blobs.PutBytes([]byte("seven b")); err != nil {
		t.Fatal(err)
	}
	var fresh keeper
	if ok, err := fresh.room(r.blobs, 3); !ok || err != nil || fresh.used != 10 {
		t.Errorf("%v, %v, %d bytes are used", ok, err, fresh.used)
	}
}

func TestAChangeReadsBack(t *testing.T) {
	r := newRig(t)
	r.put(t, "f", "before")
	for _, content := range []string{"one", "two", ""} {
		out := r.run(t, "write", jsonv.Obj(str("path", "f"), str("content", content)))
		c, ok, err := ChangeIn(out.Details)
		if !ok || err != nil || c.File != "f" || c.Kept == nil || c.After != contentOf([]byte(content)) {
			t.Fatalf("%+v, %v, %v", c, ok, err)
		}
		refs, err := blob.InDetails(out.Details)
		if err != nil || len(refs) != 1 || refs[0] != *c.Kept {
			t.Errorf("what is kept is no output of the result: %v, %v", refs, err)
		}
		v := jsonv.Obj(c.details()...)
		if again, ok, err := ChangeIn(&v); !ok || err != nil || again.Before != c.Before || again.After != c.After || *again.Kept != *c.Kept {
			t.Errorf("%+v, %v, %v", again, ok, err)
		}
	}
}

func TestTargetsOfCalls(t *testing.T) {
	for _, c := range []struct {
		tool, args, want string
		ok               bool
	}{
		{"write", `{"path":"a"}`, "a", true}, {"edit", `{"path":"b"}`, "b", true},
		{"read", `{"path":"a"}`, "", false}, {"write", `{"path":1}`, "", false}, {"write", `[]`, "", false},
	} {
		args, err := jsonv.ParseString(c.args)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := TargetOf(message.ToolCall{Name: c.tool, Arguments: args}); ok != c.ok || ok && got != c.want {
			t.Errorf("%s %s: %q, %v", c.tool, c.args, got, ok)
		}
	}
}

// The delta is that of the definition: the fewest lines in and out.
func TestADeltaIsTheFewestLines(t *testing.T) {
	var least func(a, b [][]byte) int
	least = func(a, b [][]byte) int {
		switch {
		case len(a) == 0:
			return len(b)
		case len(b) == 0:
			return len(a)
		case bytes.Equal(a[0], b[0]):
			return least(a[1:], b[1:])
		}
		return 1 + min(least(a[1:], b), least(a, b[1:]))
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) []byte {
			lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "\n"}), 0, 6).Draw(t, "lines")
			return []byte(strings.Join(lines, "") + rapid.SampledFrom([]string{"", "a"}).Draw(t, "end"))
		})
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		d := deltaOf(held(a), held(b))
		if d.inserted-d.deleted != countLines(b)-countLines(a) || d.inserted+d.deleted != least(linesOf(a), linesOf(b)) {
			t.Fatalf("%q to %q: %+v", a, b, d)
		}
	})
}

func FuzzChangeIn(f *testing.F) {
	f.Add([]byte(`{"change":{"file":"f","before":null,"after":"00"},"$loom/blobs":[{"sha256":"` + strings.Repeat("a", 64) + `","size":1,"before":true}]}`))
	f.Add([]byte(`{"change":{"file":"f","unkept":"new word"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := jsonv.Parse(text)
		if err != nil {
			return
		}
		c, ok, err := ChangeIn(&v)
		if err != nil || !ok {
			return
		}
		v = jsonv.Obj(c.details()...)
		again, ok, err := ChangeIn(&v)
		if !ok || err != nil || again.File != c.File || again.Before != c.Before || again.After != c.After || again.Why != c.Why {
			t.Fatalf("%s: %+v reads back as %+v, %v", text, c, again, err)
		}
	})
}
