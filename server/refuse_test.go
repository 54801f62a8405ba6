package server

import (
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/loom-run/loom/core/tx"
	"github.com/loom-run/loom/storage"
	"github.com/loom-run/loom/wire"
)

func TestAFullDiskIsRefusedAsSuchWhoeverMetIt(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want wire.Code
	}{
		"a commit":           {&tx.Faulted{Reason: "r", Err: fmt.Errorf("%w: x", storage.ErrFull)}, wire.StoreFull},
		"an opening":         {&storage.OpenFailed{Reason: "r", Err: storage.ErrFull}, wire.StoreFull},
		"a read":             {&storage.BackendFault{Reason: "r", Err: storage.ErrFull}, wire.StoreFull},
		"a flattened commit": {&storage.BackendFault{Reason: "r", Err: &tx.Faulted{Reason: "r", Err: storage.ErrFull}}, wire.StoreFull},
		"a file":             {fmt.Errorf("the output: %w", &fs.PathError{Op: "write", Path: "p", Err: syscall.ENOSPC}), wire.StoreFull},
		"a quota":            {&fs.PathError{Op: "write", Path: "p", Err: syscall.EDQUOT}, wire.StoreFull},
		"another fault":      {&tx.Faulted{Reason: "r", Err: syscall.EIO}, wire.StoreUnreadable},
		"another opening":    {&storage.OpenFailed{Reason: "r"}, wire.StoreUnreadable},
	} {
		if got := refusal(c.err); got.Code != c.want {
			t.Errorf("%s is refused with %s, want %s", name, got.Code, c.want)
		}
	}
}
