package node

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/loom-run/loom/admin"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/core/needle"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/server"
	"github.com/loom-run/loom/tools"
)

// rewound is a session whose run and whose agent each changed a file.
const rewound = `
-- part boss --
call write {"path":"mine","content":"boss"}
call agent_spawn {"purpose":"worker","task":"part:worker begin"}
==
call agent_wait {"handles":["$handle"]}
==
text done
-- part worker --
call edit {"path":"shared","old_text":"correct","new_text":"wrong"}
==
text did it
`

func (p *play) file(name string) string {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.cwd, name))
	if err != nil {
		return "(none)"
	}
	return string(text)
}

func (p *play) rewind(dryRun bool) tools.Rewound {
	p.t.Helper()
	out, err := p.slot.Rewind(id.EntryID{}, dryRun)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

func playRewound(t *testing.T) *play {
	p := newPlay(t, txtar.Parse([]byte(rewound)))
	t.Cleanup(func() {
		if err := p.node.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(p.cwd, "shared"), []byte(battery+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.do("prompt part:boss go")
	p.awaitEnd()
	if p.file("mine") != "boss" || p.file("shared") != strings.Replace(battery, "correct", "wrong", 1)+"\n" {
		t.Fatal("the run did something else:\n" + p.print())
	}
	return p
}

const battery = "correct horse battery staple"

// What agents of the message did is taken back too, and the session goes on in the mode
// that it was open in.
func TestARewindCoversEveryStrand(t *testing.T) {
	p := playRewound(t)
	want := []string{"mine", "shared"}
	if look := p.rewind(true); !slices.Equal(look.Changed, want) || p.file("mine") != "boss" {
		t.Errorf("a dry run says %+v", look)
	}
	got := p.rewind(false)
	if !slices.Equal(got.Changed, want) || len(got.Refused) > 0 || got.Insertions != 1 || got.Deletions != 2 {
		t.Errorf("%+v", got)
	}
	if p.file("mine") != "(none)" || p.file("shared") != battery+"\n" {
		t.Errorf("%q, %q", p.file("mine"), p.file("shared"))
	}
	r, err := p.slot.open(Opening{})
	if err != nil || r.mode != policy.BypassPermissions {
		t.Errorf("it is open as %v, %v", r.mode, err)
	}
	if findings, _, err := p.slot.Check(); err != nil || len(findings) > 0 {
		t.Errorf("%v, %v", findings, err)
	}
}

func TestARunningSessionIsNotRewound(t *testing.T) {
	p := newPlay(t, txtar.Parse([]byte("-- part boss --\ncall write {\"path\":\"a\",\"content\":\"new\"}\n==\nonce hang\ntext done\n")))
	defer func() {
		if err := p.node.Close(); err != nil {
			t.Error(err)
		}
	}()
	p.do("prompt part:boss go")
	p.do("await hang")
	_, err := p.slot.Rewind(id.EntryID{}, false)
	if r, ok := err.(*server.Refusal); !ok || r.Code != server.Conflict || p.file("a") != "new" {
		t.Fatalf("%v", err)
	}
	if look := p.rewind(true); !slices.Equal(look.Changed, []string{"a"}) {
		t.Errorf("a dry run says %+v", look)
	}
	// Another process holds it: neither.
	other := New(Config{Home: p.home, Models: p.cast, Now: func() int64 { return time.Now().UnixMilli() }, Retry: DefaultRetry()})
	defer other.Close()
	slot, err := other.Slot(p.slot.ID())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slot.Rewind(id.EntryID{}, false); err == nil || p.file("a") != "new" {
		t.Error("another process rewinds a session that runs")
	}
	if _, ok, err := p.slot.Abort("main"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	p.awaitEnd()
	if got := p.rewind(false); !slices.Equal(got.Changed, []string{"a"}) || p.file("a") != "(none)" {
		t.Errorf("%+v", got)
	}
}

// TestAnErasureFindsWhatARewindWouldRestore takes a text out of a session that only its
// pre-images and the arguments of a call hold. No byte of it is left, and the file is not
// restored without it.
func TestAnErasureFindsWhatARewindWouldRestore(t *testing.T) {
	p := playRewound(t)
	text, err := needle.New(battery)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.node.Close(); err != nil {
		t.Fatal(err)
	}
	kept := holding(t, p.home.Dir(), battery)
	if len(kept) != 1 || filepath.Dir(kept[0]) != p.home.blobs(p.slot.ID()) {
		t.Fatalf("it is kept in %q", kept)
	}
	p.open()
	r, _, err := p.node.Erase(admin.Erasure{Needle: text, Session: p.slot.ID()})
	if err != nil || r.Worst() != admin.Clean {
		t.Fatalf("%s, %v", r.Append(nil), err)
	}
	if left := holding(t, p.home.Dir(), battery); len(left) > 0 {
		t.Errorf("it is left in %q", left)
	}
	got := p.rewind(false)
	if !slices.Equal(got.Changed, []string{"mine"}) || len(got.Refused) != 1 || !strings.Contains(got.Refused[0].Why, "erasure") {
		t.Errorf("%+v", got)
	}
	if findings, _, err := p.slot.Check(); err != nil || len(findings) > 0 {
		t.Errorf("%v, %v", findings, err)
	}
}

// holding lists the files below dir that hold a text.
func holding(t *testing.T, dir, text string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		p, err := os.ReadFile(path)
		if bytes.Contains(p, []byte(text)) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
