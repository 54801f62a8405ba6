package node

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loom-run/loom/admin"
	"github.com/loom-run/loom/core/message"
	"github.com/loom-run/loom/core/needle"
	"github.com/loom-run/loom/engine"
	"github.com/loom-run/loom/policy"
	"github.com/loom-run/loom/session"
	"github.com/loom-run/loom/storage/sqlite"
)

// TestAnErasureTakesAnIdleSessionAndLeavesARunningOne erases from a session that this process has open: while a command of it runs, and when it is idle. The
// session goes on afterwards as if nobody had had it.
func TestAnErasureTakesAnIdleSessionAndLeavesARunningOne(t *testing.T) {
	const secret = "correct horse battery staple"
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "go-on"), 0o600); err != nil {
		t.Fatal(err)
	}
	clock := func() int64 { return time.Now().UnixMilli() }
	models, err := Catalogue(ModelsConfig{Environ: os.Environ(), Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	n := New(Config{Home: Home{t.TempDir()}, Models: models, Now: clock, Retry: DefaultRetry(), Environ: os.Environ(), Synchronous: sqlite.Full})
	defer n.Close()
	slot, err := n.Create(dir, policy.BypassPermissions, new("demo"))
	if err != nil {
		t.Fatal(err)
	}
	over, running := make(chan struct{}, 8), make(chan struct{}, 8)
	defer slot.Watch(func(f engine.Fact) {
		switch f.(type) {
		case engine.ToolOutput:
			running <- struct{}{}
		case engine.RunFinished, engine.StrandStopped:
			over <- struct{}{}
		}
	})()
	say := func(text string) {
		t.Helper()
		if _, err := slot.Prompt(Opening{}, session.MainStrand, engine.Prompt{Content: []message.UserBlock{message.Text{Text: text}}}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := needle.New(secret)
	if err != nil {
		t.Fatal(err)
	}
	erase := func(want admin.Outcome, found int64) admin.Account {
		t.Helper()
		r, kept, err := n.Erase(admin.Erasure{Needle: text, Session: slot.ID()})
		if err != nil || len(r.Accounts) == 0 || kept == "" {
			t.Fatalf("%s, %q, %v", r.Append(nil), kept, err)
		}
		a := r.Accounts[0]
		if a.Store != admin.SessionStore || a.Outcome != want || (a.Erased > 0) != (found > 0) {
			t.Fatalf("%+v", a)
		}
		return a
	}

	say("run: echo " + secret + "; cat go-on")
	<-running
	if a := erase(admin.NotSearched, 0); !strings.Contains(a.Reason, "it is running") {
		t.Errorf("the reason is %q", a.Reason)
	}
	if err := os.WriteFile(filepath.Join(dir, "go-on"), nil, 0); err != nil {
		t.Fatal(err)
	}
	<-over
	erase(admin.Clean, 1)
	erase(admin.Clean, 0)
	say("run: echo and on it goes")
	<-over
	err = slot.Read(func(v *session.View) error {
		stats, err := v.Rows().Stats()
		if stats.Messages != 8 {
			t.Errorf("%d messages", stats.Messages)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
