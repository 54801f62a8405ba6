package node

import (
	"errors"
	"strings"
	"testing"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/register"
	"github.com/loom-run/loom/server"
	"golang.org/x/sys/unix"
)

func TestAHomeThatCannotBeWrittenIsReadAndNamesTheWayOut(t *testing.T) {
	n, s := home(t, set(register.FactName, "k", jsonv.Str("v")))
	if err := unix.Mount(n.home.dir, n.home.dir, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("cannot mount here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(n.home.dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mount("", n.home.dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Skipf("cannot make it read-only: %v", err)
	}
	if all := listed(t, n); len(all) != 1 || all[0].Err != nil {
		t.Errorf("%+v", all)
	}
	r, err := n.Host().Read(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if report, err := r.Check(t.Context()); err != nil || len(report.Findings) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
	open, err := n.Host().Open(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	_, err = open.Prompt(t.Context(), server.Prompt{Strand: "main", Text: "hi"})
	refusal, ok := errors.AsType[*server.Refusal](err)
	if !ok || refusal.Code != server.StoreUnreadable || !strings.Contains(refusal.Message, n.home.dir+", cannot be written") || !strings.Contains(refusal.Message, "set LOOM_HOME") {
		t.Errorf("%v", err)
	}
}
