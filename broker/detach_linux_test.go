package broker_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/loom-run/loom/broker"
	"golang.org/x/sys/unix"
)

func TestADetachedCommandOutlivesItsCallAndItsOperationAndNotTheBroker(t *testing.T) {
	op := ops(1)[0]
	b, p, dir := rig(t, op)
	if _, err := b.Detach(p, "job"); !errors.Is(err, broker.ErrMismatch) {
		t.Errorf("a permit that nobody used was detached: %v", err)
	}
	if err := b.Admit(p, call(op, 0)); err != nil {
		t.Fatal(err)
	}
	d, err := b.Detach(p, "job")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Detach(p, "job"); !errors.Is(err, broker.ErrOutstanding) {
		t.Errorf("it was detached twice under one name: %v", err)
	}
	if err := b.Settle(p); err != nil {
		t.Errorf("the call could not be settled: %v", err)
	}
	begun := filepath.Join(dir, "begun")
	if err := unix.Mkfifo(begun, 0o600); err != nil {
		t.Fatal(err)
	}
	type end struct {
		cancelled bool
		err       error
	}
	ended := make(chan end, 1)
	go func() {
		exit, err := b.Exec(t.Context(), d, sh("echo > begun; exec sleep 600"), nil)
		ended <- end{exit.Cancelled, err}
	}()
	if _, err := os.ReadFile(begun); err != nil { // returns once the command wrote
		t.Fatal(err)
	}
	if n := b.Abort(op); n != 0 {
		t.Errorf("the abort of its operation ended %d commands", n)
	}
	select {
	case e := <-ended:
		t.Fatalf("it ended with its operation: %+v", e)
	default:
	}
	if n := b.Close(); n != 1 {
		t.Errorf("closing ended %d commands", n)
	}
	if e := <-ended; e.err != nil || !e.cancelled {
		t.Errorf("it ended with %+v", e)
	}
	if err := b.Settle(d); err != nil {
		t.Error(err)
	}
	if _, err := b.Detach(d, "more"); err == nil {
		t.Error("a settled permit was detached")
	}
}
